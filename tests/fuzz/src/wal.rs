//! The log of the embedded database, as crashes and power losses leave it: the reader's source, since nobody but the store opens a log.
#![allow(dead_code, clippy::indexing_slicing)]

#[path = "../../../host/store/src/wal/append.rs"]
mod append;
#[path = "../../../host/store/src/wal/scan.rs"]
mod scan;

use append::append;
use scan::{BLOCK, HEADER, Scan, checksum};

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[Target { name: "wal", read: wal, seeds: logs }];

/// What is cut back to is a beginning of the log that ends with a whole record, and lies before what is told of the rest. A wrong
/// checksum is found before anything else, so each log is read with right ones too.
fn wal(bytes: &[u8]) {
    for log in [bytes, &with_checksums(bytes)] {
        let whole = match scanned(log) {
            Scan::Whole => log.len(),
            Scan::Foreign { at } => {
                assert!(place(at) < log.len(), "{at} of {} bytes", log.len());
                continue;
            }
            Scan::Torn { whole, end } => {
                assert!(whole <= end, "{whole} is behind {end}");
                assert!(log[place(end)..].iter().all(|byte| *byte == 0), "something lies behind {end}");
                place(whole)
            }
            Scan::Damaged { whole, next, .. } => {
                assert!(whole < next && place(next) < log.len(), "{whole}, {next} of {} bytes", log.len());
                place(whole)
            }
        };
        assert_eq!(scanned(&log[..whole]), Scan::Whole, "cut back to {whole} bytes");
    }
}

fn scanned(mut log: &[u8]) -> Scan {
    scan::scan(&mut log).expect("bytes in memory can be read")
}

fn place(at: u64) -> usize {
    usize::try_from(at).expect("a place in memory")
}

/// The log with the right checksum in each fragment that is there whole, up to the first of each block that isn't.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut log = bytes.to_vec();
    for block in log.chunks_mut(BLOCK) {
        let mut at = 0;
        while let Some((header, rest)) = block[at..].split_at_mut_checked(HEADER) {
            let (length, kind) = (usize::from(u16::from_be_bytes([header[4], header[5]])), header[6]);
            let Some(data) = rest.get(..length) else { break };
            // Zeros stay what they are.
            if kind == 0 {
                break;
            }
            header[..4].copy_from_slice(&checksum(kind, data).to_be_bytes());
            at += HEADER + length;
        }
    }
    log
}

/// A log of records of these sizes.
fn log_of(sizes: &[usize]) -> Vec<u8> {
    let mut log = Vec::new();
    for (size, fill) in sizes.iter().zip(7_u8..) {
        append(&mut log, &vec![fill; *size]);
    }
    log
}

fn logs() -> Vec<Vec<u8>> {
    let small = log_of(&[1, 100, 20]);
    // Without what a power loss kept from the disk.
    let holed = [small.as_slice(), &[0; 1024], &small].concat();
    // A record over the end of a block, and one behind its padding.
    vec![small, holed, log_of(&[10, BLOCK - 60, 200]), log_of(&[BLOCK - HEADER - 3, 20])]
}
