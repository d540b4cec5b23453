//! Disk use comes back: what was deleted is gone from the data directory, not only from sight.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::Seq;
use waybill_core::message::Payload;
use waybill_core::outbox::records::{Entry, Segment};
use waybill_core::port::store::{OwnerStore, StoreError, Write};
use waybill_store::{StoreConfig, SurrealStore};
use waybill_testkit::conformance::samples::{self, Owner, SHARD, message, seq};

/// Bytes of one segment's payload.
const SEGMENT: usize = 64 * 1024;
/// Segments that pass through: 25 full write buffers.
const SEGMENTS: u64 = 3_200;

fn segment(first: Seq) -> Segment {
    let mut message = message("01J00000000000000000000000");
    message.payload = Payload::Inline(Bytes::from(vec![b'x'; SEGMENT]));
    let entry = Entry { index: 0, message: Arc::new(message) };
    Segment { first, tenant: samples::tenant("acme"), entries: vec![entry] }
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .filter_map(|entry| {
            let about = entry.metadata().ok()?;
            Some(if about.is_dir() { bytes_below(&entry.path()) } else { about.len() })
        })
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_through_which_much_passes_stays_small() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("surrealkv://{}?sync=never", folder.path().join("data").display());
    let config = StoreConfig { memtable_bytes: 8 * 1024 * 1024, ..StoreConfig::new(url) };
    let store = SurrealStore::open(config).await.unwrap();
    let mut owner = Owner::new();
    owner.record = store.shard(SHARD).await.unwrap();
    let base = owner.record.last.0.max(seq(0, 0).0) + 1;
    for round in 0..SEGMENTS {
        let first = Seq(base + round * 5_000);
        let mut writes = vec![Write::PutSegment(Arc::new(segment(first)))];
        if round > 0 {
            writes.push(Write::DeleteSegment(Seq(first.0 - 5_000)));
        }
        let mut commit = owner.next(writes);
        commit.record.last = first;
        let record = commit.record.clone();
        // On a busy machine one may be open for so long that it has to give way when the write buffer is full.
        while let Err(error) = store.commit(commit.clone()).await {
            assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
        }
        owner.record = record;
    }
    store.close().await.unwrap();
    let (left, passed) = (bytes_below(folder.path()), SEGMENTS * SEGMENT as u64);
    assert!(left < passed / 2, "{left} bytes are left of {passed} that passed through, one segment at a time");
}
