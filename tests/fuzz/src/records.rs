//! What lies on disk as bytes. A wrong checksum is found before anything is decoded, so each body is tried with a right one too.

use std::fmt::Debug;
use std::sync::Arc;

use waybill_core::ids::{Seq, ShardId};
use waybill_core::outbox::records::DoneEnd;
use waybill_core::saga::records::JournalEntry;
use waybill_core::time::UnixMillis;
use waybill_store::codec::saga::{
    Ended, decode_ended, decode_journal, decode_tree, encode_ended, encode_journal, encode_tree,
};
use waybill_store::codec::{
    decode_dead, decode_door, decode_history, decode_open, decode_parked, decode_scheduled, decode_segment,
    decode_suspicion, encode_dead, encode_door, encode_history, encode_open, encode_parked, encode_scheduled,
    encode_segment, encode_suspicion,
};
use waybill_testkit::conformance::{saga_samples, samples};

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "segment", read: segment, seeds: segments },
    Target { name: "history", read: history, seeds: histories },
    Target { name: "parked", read: parked, seeds: parked_rows },
    Target { name: "scheduled", read: scheduled, seeds: scheduled_rows },
    Target { name: "dead", read: dead, seeds: dead_rows },
    Target { name: "door", read: door, seeds: doors },
    Target { name: "open", read: open, seeds: opens },
    Target { name: "suspicion", read: suspicion, seeds: suspicions },
    Target { name: "journal", read: journal, seeds: journals },
    Target { name: "tree", read: tree, seeds: trees },
    Target { name: "ended", read: ended, seeds: endings },
];

const SHARD: ShardId = ShardId(0);
const SEGMENT: Seq = Seq(1 << 40);
const DUE: UnixMillis = UnixMillis(1_800_000_000_000);

/// As `codec/mod.rs` describes the header.
fn sealed(kind: u8, bytes: &[u8]) -> Vec<u8> {
    const VERSION: u8 = 1;
    let body = bytes.get(8..).unwrap_or_default();
    let mut hash = crc32fast::Hasher::new();
    hash.update(&[kind, VERSION]);
    hash.update(body);
    let mut sealed = vec![b'W', b'B', kind, VERSION];
    sealed.extend(hash.finalize().to_le_bytes());
    sealed.extend(body);
    sealed
}

/// Decoding never panics; what was decoded is the same after it was encoded and decoded again.
pub(crate) fn both<T: Debug + PartialEq, E: Debug, F: Debug>(
    kind: u8,
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, E>,
    encode: impl Fn(&T) -> Result<Vec<u8>, F>,
) {
    for bytes in [bytes, &sealed(kind, bytes)] {
        let Ok(value) = decode(bytes) else { continue };
        let again = decode(&encode(&value).expect("what was decoded can be encoded")).expect("and decoded again");
        assert_eq!(again, value);
    }
}

fn segment(bytes: &[u8]) {
    both(b'S', bytes, |bytes| decode_segment(SEGMENT, bytes), encode_segment);
}

fn history(bytes: &[u8]) {
    both(b'H', bytes, |bytes| decode_history(SHARD, SEGMENT, 1, bytes), encode_history);
}

fn parked(bytes: &[u8]) {
    both(b'P', bytes, |bytes| decode_parked(SHARD, bytes), encode_parked);
}

fn scheduled(bytes: &[u8]) {
    both(b'T', bytes, |bytes| decode_scheduled(SHARD, DUE, bytes), encode_scheduled);
}

fn dead(bytes: &[u8]) {
    both(b'X', bytes, |bytes| decode_dead(SHARD, bytes), encode_dead);
}

fn door(bytes: &[u8]) {
    both(b'G', bytes, decode_door, |messages| encode_door(messages));
}

fn open(bytes: &[u8]) {
    both(b'O', bytes, decode_open, encode_open);
}

fn suspicion(bytes: &[u8]) {
    both(b'C', bytes, decode_suspicion, encode_suspicion);
}

fn journal(bytes: &[u8]) {
    both(b'J', bytes, decode_journal, |entries| encode_journal(entries));
}

fn tree(bytes: &[u8]) {
    both(b'A', bytes, decode_tree, encode_tree);
}

fn ended(bytes: &[u8]) {
    both(b'E', bytes, decode_ended, |ended| encode_ended(ended));
}

fn segments() -> Vec<Vec<u8>> {
    [0, 1, 7].map(|count| encode_segment(&samples::segment(SEGMENT, count)).expect("a sample")).to_vec()
}

fn histories() -> Vec<Vec<u8>> {
    let done = samples::done(0, samples::full_message("m"), DoneEnd::Delivered);
    let chunk = samples::chunk(SEGMENT, 1, DUE, vec![done]);
    vec![encode_history(&chunk).expect("a sample")]
}

fn parked_rows() -> Vec<Vec<u8>> {
    vec![encode_parked(&samples::parked(SEGMENT, 3)).expect("a sample")]
}

fn scheduled_rows() -> Vec<Vec<u8>> {
    vec![encode_scheduled(&samples::scheduled(DUE, "m")).expect("a sample")]
}

fn dead_rows() -> Vec<Vec<u8>> {
    vec![encode_dead(&samples::dead(SEGMENT, 3, "acme", "HTTP.410")).expect("a sample")]
}

fn doors() -> Vec<Vec<u8>> {
    vec![encode_door(&[Arc::new(samples::message("a")), Arc::new(samples::full_message("b"))]).expect("a sample")]
}

fn opens() -> Vec<Vec<u8>> {
    vec![encode_open(&samples::full_record().open).expect("a sample")]
}

fn suspicions() -> Vec<Vec<u8>> {
    vec![encode_suspicion(&samples::full_record().suspicion).expect("a sample")]
}

fn journals() -> Vec<Vec<u8>> {
    let entry = |(number, event)| JournalEntry {
        key: saga_samples::key("acme", &format!("s-{number}")),
        from: number,
        events: vec![event],
        ended: number % 2 == 1,
    };
    let entries: Vec<JournalEntry> = (0_u32..).zip(saga_samples::events()).map(entry).collect();
    vec![encode_journal(&entries).expect("a sample")]
}

fn endings() -> Vec<Vec<u8>> {
    let ended = |id, apart, put_off| {
        let started_at = UnixMillis(DUE.0 - 60_000);
        Ended { at: DUE, started_at, key: saga_samples::key("acme", id), apart, put_off }
    };
    let all = [ended("s-1", false, false), ended("s-2", true, false), ended("s-3", false, true)];
    vec![encode_ended(&all).expect("a sample")]
}

fn trees() -> Vec<Vec<u8>> {
    vec![encode_tree(&saga_samples::full(saga_samples::key("acme", "s-1"))).expect("a sample")]
}
