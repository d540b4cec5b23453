//! The inbox as only this store keeps it: encodings, the packing of the seen set, the end of history, records that can't be read.

mod codec;
mod history;
mod memory;
mod random;
mod rows;
mod seen;
mod shard;

use std::collections::BTreeSet;
use std::sync::Arc;

use waybill_core::ids::{ConsumerName, Seq};
use waybill_core::inbox::fingerprint::{ContentCheck, HashSecret};
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::records::{InboxEnd, InboxRow, InboxWrite, SagaDoorGroup};
use waybill_core::inbox::seen::{OwnedAge, SeenMark, SeenQuery};
use waybill_core::port::inbox_store::{InboxFilter, InboxStore, SeenHit};
use waybill_core::time::UnixMillis;
use waybill_testkit::conformance::inbox_samples::{
    Writer, consumer, dead, done, full_inbound, inbound, inbound_id, mark, query, row, signal, takes,
};
use waybill_testkit::conformance::samples::SHARD;

use crate::{Durability, SurrealStore};

/// The secret of the samples' hashes.
const SECRET: HashSecret = HashSecret(3);

/// The consumer of the samples.
fn ship() -> ConsumerName {
    consumer("ship")
}

/// Finishes ids, all in one commit at an age.
async fn finish<'i>(writer: &mut Writer, store: &SurrealStore, age: u64, ids: impl IntoIterator<Item = &'i String>) {
    let marks = ids.into_iter().map(|id| mark("ship", id, check(id))).collect();
    finish_marks(writer, store, age, marks).await;
}

async fn finish_marks(writer: &mut Writer, store: &SurrealStore, age: u64, marks: Vec<SeenMark>) {
    writer
        .commit(store, |commit| {
            (commit.record.age, commit.record.secret) = (OwnedAge(age), SECRET);
            commit.seen = marks;
        })
        .await;
}

/// Time passes in which somebody owns the shard.
async fn pass(writer: &mut Writer, store: &SurrealStore, age: u64) {
    finish_marks(writer, store, age, Vec::new()).await;
}

/// The check of an id's content: any, and always the same.
fn check(id: &str) -> u16 {
    id.bytes().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(u16::from(byte)))
}

async fn hit(store: &SurrealStore, text: &str) -> Option<SeenHit> {
    store.inbox_seen(SHARD, &[query("ship", text)]).await.unwrap().remove(0)
}

/// Asserts that all these ids were finished, at an age or later, and with their own contents.
async fn assert_seen(store: &SurrealStore, ids: &[String], age: u64) {
    let queries: Vec<SeenQuery> = ids.iter().map(|id| query("ship", id)).collect();
    let hits = store.inbox_seen(SHARD, &queries).await.unwrap();
    for (id, hit) in ids.iter().zip(hits) {
        let hit = hit.unwrap_or_else(|| panic!("{id} isn't found"));
        assert_eq!(hit.check, ContentCheck(check(id)), "{id}");
        assert!(hit.age >= OwnedAge(age), "{id}: {hit:?} is older than {age}");
    }
}

async fn assert_unseen(store: &SurrealStore, ids: &[String]) {
    let queries: Vec<SeenQuery> = ids.iter().map(|id| query("ship", id)).collect();
    for (id, hit) in ids.iter().zip(store.inbox_seen(SHARD, &queries).await.unwrap()) {
        assert_eq!(hit, None, "{id}");
    }
}

/// The same data for a process that remembers nothing.
fn cold(store: &SurrealStore) -> SurrealStore {
    SurrealStore::over(Arc::clone(&store.engine), true, Durability::Memory, 1, None, 1 << 20)
}

/// Looks after the inbox until nothing is left to do.
async fn tidy(store: &SurrealStore, until: u64) {
    while store.tidy_inbox(SHARD, OwnedAge(until), UnixMillis(0), 64).await.unwrap().records() >= 64 {}
}

/// A row with a payload of so many bytes.
fn row_of(seq: u64, payload_bytes: usize) -> InboxRow {
    let payload = vec![b'x'; payload_bytes].into();
    row(seq, InboundMessage { payload, ..full_inbound(&format!("m-{seq}")) })
}

/// A commit with one of everything that an inbox keeps, at the age of a second.
pub(super) async fn one_of_each(store: &SurrealStore) {
    let mut writer = Writer::new();
    writer
        .commit(store, |commit| {
            (commit.record.age, commit.record.secret) = (OwnedAge(1_000), SECRET);
            commit.record.open.insert(1, BTreeSet::from([Seq(3)]));
            commit.writes = vec![
                InboxWrite::PutRow(Arc::new(row_of(1, 10))),
                InboxWrite::PutDead(Arc::new(dead(2, inbound("m-2"), "HTTP.422"))),
                takes(1, &[3]),
            ];
            commit.seen = vec![mark("ship", "m-1", 5)];
            commit.done = vec![done("m-1", InboxEnd::Processed)];
            commit.sagas = vec![SagaDoorGroup { shard: SHARD, items: vec![signal("s", "paid")] }];
        })
        .await;
}

/// All that is read of an inbox, as a text.
pub(super) async fn read_all(store: &SurrealStore) -> String {
    let all = InboxFilter::default();
    // Also what a process remembers.
    store.seen_memory().forget_all();
    let seen = store.inbox_seen(SHARD, &[query("ship", "m-1"), query("ship", "m-2")]).await.unwrap();
    // How many rows were read for a page counts those that can't be read, too.
    let listed = store.inbox_list(&all, None, 100).await.unwrap();
    let dead = store.inbox_dead(&all, None, 100).await.unwrap();
    let read = format!(
        "{seen:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        store.inbox_takeover(SHARD).await.unwrap(),
        (listed.items, listed.next_cursor),
        (dead.items, dead.next_cursor),
        store.inbox_dead_letter(SHARD, Seq(2)).await.unwrap(),
        store.inbox_done(SHARD, &ship(), &inbound_id("m-1")).await.unwrap(),
        store.saga_door(SHARD, 100).await.unwrap(),
    );
    store.tidy_inbox(SHARD, OwnedAge(0), UnixMillis(0), 100).await.unwrap();
    // Who asks for such a consumer hears of it, and nobody else.
    let _told = store.bind_inbox_consumer(&consumer("bad"), "home").await;
    assert_eq!(store.bind_inbox_consumer(&ship(), "home").await.unwrap(), "home");
    store.inbox_shard(SHARD).await.unwrap();
    read
}
