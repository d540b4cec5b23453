//! History and its end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waybill_core::ids::{MessageId, ShardId, host_made_id};
use waybill_core::message::{Message, Payload};
use waybill_core::outbox::records::{DoneEnd, HistoryChunk, IdOrigin, IdRecord, IdState};
use waybill_core::port::store::Write;
use waybill_core::time::UnixMillis;

use super::Store;
use super::samples::{Owner, SHARD, T0, chunk, done, full_message, message, place, seq};

const HOUR: Duration = Duration::from_secs(3600);

fn later(ms: u64) -> UnixMillis {
    UnixMillis(T0.0 + ms)
}

fn put(chunk: &HistoryChunk) -> Write {
    Write::PutHistory(Arc::new(chunk.clone()))
}

pub async fn chunks_come_back_as_they_were_written(store: &impl Store) {
    let ends = [DoneEnd::Delivered, DoneEnd::Cancelled, DoneEnd::Expired, DoneEnd::Purged];
    let mut entries: Vec<_> =
        (0..4_u16).zip(ends).map(|(index, end)| done(index, full_message(&format!("m{index}")), end)).collect();
    entries[1].receipt = None;
    entries[2].history.clear();
    let written = chunk(seq(0, 0), 5, later(1), entries);
    Owner::new().commit(store, vec![put(&written)]).await;
    assert_eq!(store.history_before(SHARD, None, later(2), 10).await.unwrap(), [Arc::new(written)]);
}

pub async fn only_chunks_written_before_the_instant_are_old(store: &impl Store) {
    let of = |ms, beat, at| chunk(seq(ms, 0), beat, later(at), vec![done(0, message("m"), DoneEnd::Delivered)]);
    let chunks = [of(0, 1, 10), of(0, 2, 5_000), of(1, 1, 20), of(30, 1, 40)];
    Owner::new().commit(store, chunks.iter().map(put).collect()).await;
    let old = store.history_before(SHARD, None, later(40), 10).await.unwrap();
    let old: Vec<_> = old.iter().map(|chunk| (chunk.segment, chunk.beat)).collect();
    assert_eq!(old, [(seq(0, 0), 1), (seq(1, 0), 1)]);
    let all = store.history_before(SHARD, None, later(90_000), 10).await.unwrap();
    let all: Vec<_> = all.iter().map(|chunk| chunk.beat).collect();
    assert_eq!(all, [1, 1, 1, 2], "in the order of writing, not of segments");
    assert!(store.history_before(ShardId(1), None, later(90_000), 10).await.unwrap().is_empty());
}

pub async fn old_chunks_are_paged(store: &impl Store) {
    let chunks: Vec<_> = (0..100)
        .map(|n| chunk(seq(n / 3, n % 3), n, later(n), vec![done(0, message("m"), DoneEnd::Delivered)]))
        .collect();
    Owner::new().commit(store, chunks.iter().map(put).collect()).await;
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.history_before(SHARD, after, later(1_000), 7).await.unwrap();
        assert!(page.len() <= 7);
        let Some(last) = page.last() else { break };
        after = Some(last.key());
        found.extend(page.iter().map(|chunk| chunk.as_ref().clone()));
    }
    assert_eq!(found, chunks);
}

fn with_blob(name: &str, blob: &str) -> Message {
    Message { payload: Payload::Blob { blob: blob.into(), bytes: 3 }, ..full_message(name) }
}

fn id_row(message: &Message, index: u16) -> Write {
    let state = IdState::At(place(seq(0, 0), index));
    let record = IdRecord {
        tenant: message.tenant.clone(),
        id: message.id.clone(),
        state,
        content: None,
        origin: IdOrigin::Unknown,
    };
    Write::PutId { record: Arc::new(record), create: true }
}

pub async fn purging_takes_chunks_ids_and_blobs(store: &impl Store) {
    let (callers, large) = (full_message("callers"), with_blob("large", "b-1"));
    let hosts = Message { id: host_made_id(place(seq(0, 0), 2)), ..message("x") };
    let entries = vec![
        done(0, callers.clone(), DoneEnd::Delivered),
        done(1, large.clone(), DoneEnd::Delivered),
        done(2, hosts, DoneEnd::Delivered),
    ];
    let (old, kept) = (
        chunk(seq(0, 0), 1, T0, entries),
        chunk(seq(0, 0), 2, later(9), vec![done(3, message("y"), DoneEnd::Delivered)]),
    );
    let blob = |name: &str| Write::PutBlob { blob: name.into(), bytes: Bytes::from_static(b"abc") };
    Owner::new()
        .commit(store, vec![put(&old), put(&kept), id_row(&callers, 0), id_row(&large, 1), blob("b-1"), blob("b-2")])
        .await;

    let found = store.history_before(SHARD, None, later(5), 10).await.unwrap();
    store.purge_history(&found, HOUR, later(10)).await.unwrap();
    assert!(store.history_before(SHARD, None, later(5), 10).await.unwrap().is_empty());
    assert_eq!(store.history_before(SHARD, None, later(50), 10).await.unwrap(), [Arc::new(kept)]);
    for message in [&callers, &large] {
        assert_eq!(store.id(&message.tenant, &message.id).await.unwrap(), None);
    }
    assert_eq!(store.blob("b-1").await.unwrap(), None);
    assert!(store.blob("b-2").await.unwrap().is_some());
    store.purge_history(&found, HOUR, later(10)).await.unwrap();
    store.purge_history(&[], HOUR, later(10)).await.unwrap();
}

pub async fn purging_spares_an_id_that_went_back_into_the_order(store: &impl Store) {
    let replayed = full_message("replayed");
    let old = chunk(seq(0, 0), 1, T0, vec![done(0, replayed.clone(), DoneEnd::Delivered)]);
    Owner::new().commit(store, vec![put(&old), id_row(&replayed, 9)]).await;
    store.purge_history(&[Arc::new(old)], HOUR, later(10)).await.unwrap();
    assert!(store.id(&replayed.tenant, &replayed.id).await.unwrap().is_some());
}

/// An id that was made from an idempotency key is known for as long as the key, however short the history is.
pub async fn purging_keeps_ids_of_idempotency_keys_for_their_time(store: &impl Store) {
    let derived =
        Message { id: MessageId::new("0123456789abcdef0123456789abcdef").unwrap(), ..full_message("derived") };
    let callers = full_message("callers");
    let entries = vec![done(0, derived.clone(), DoneEnd::Delivered), done(1, callers.clone(), DoneEnd::Delivered)];
    let old = chunk(seq(0, 0), 1, T0, entries);
    Owner::new().commit(store, vec![put(&old), id_row(&derived, 0), id_row(&callers, 1)]).await;
    store.purge_history(&[Arc::new(old)], HOUR, later(10)).await.unwrap();
    assert!(store.history_before(SHARD, None, later(50), 10).await.unwrap().is_empty());
    assert_eq!(store.id(&callers.tenant, &callers.id).await.unwrap(), None);
    let end = later(3_600_000);
    assert_eq!(store.purge_ids(UnixMillis(end.0 - 1), 10).await.unwrap(), 0);
    assert!(store.id(&derived.tenant, &derived.id).await.unwrap().is_some());
    assert_eq!(store.purge_ids(end, 10).await.unwrap(), 1);
    assert_eq!(store.id(&derived.tenant, &derived.id).await.unwrap(), None);
    assert_eq!(store.purge_ids(end, 10).await.unwrap(), 0);
}

/// One whose time is over when its history goes, goes with it.
pub async fn purging_takes_ids_of_idempotency_keys_that_are_over(store: &impl Store) {
    let derived =
        Message { id: MessageId::new("0123456789abcdef0123456789abcdef").unwrap(), ..full_message("derived") };
    let old = chunk(seq(0, 0), 1, T0, vec![done(0, derived.clone(), DoneEnd::Delivered)]);
    Owner::new().commit(store, vec![put(&old), id_row(&derived, 0)]).await;
    store.purge_history(&[Arc::new(old)], HOUR, later(3_600_000)).await.unwrap();
    assert_eq!(store.id(&derived.tenant, &derived.id).await.unwrap(), None);
    assert_eq!(store.purge_ids(later(9_000_000), 10).await.unwrap(), 0);
}
