//! Writing a log: for tests of its reader, and for the seeds of the fuzzer.
#![allow(clippy::expect_used)]

use super::scan::{BLOCK, FIRST, FULL, HEADER, LAST, MIDDLE, checksum};

/// Appends a record as SurrealKV does.
pub fn append(log: &mut Vec<u8>, record: &[u8]) {
    let (mut left, mut begin) = (record, true);
    while begin || !left.is_empty() {
        let room = BLOCK - log.len() % BLOCK;
        if room < HEADER {
            log.extend(vec![0; room]);
            continue;
        }
        let (data, rest) = left.split_at(left.len().min(room - HEADER));
        let kind = match (begin, rest.is_empty()) {
            (true, true) => FULL,
            (true, false) => FIRST,
            (false, false) => MIDDLE,
            (false, true) => LAST,
        };
        log.extend(checksum(kind, data).to_be_bytes());
        log.extend(u16::try_from(data.len()).expect("a part of a block").to_be_bytes());
        log.push(kind);
        log.extend(data);
        (left, begin) = (rest, false);
    }
}
