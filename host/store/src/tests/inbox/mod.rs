//! The inbox as only this store keeps it: encodings, the packing of the seen set, the end of history, records that can't be read.

mod codec;
mod history;
mod memory;
mod rows;
mod seen;
mod shard;

use std::collections::BTreeSet;
use std::sync::Arc;

use waybill_core::ids::{ConsumerName, InboundId, SourceName};
use waybill_core::inbox::fingerprint::{ContentCheck, ContentDigest, HashSecret, OrderTag};
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::records::{
    InboxCommit, InboxDead, InboxDone, InboxEnd, InboxRow, InboxShardRecord, InboxWrite, LastError, SagaDoorGroup,
    SagaDoorItem, Take, TakeRecord,
};
use waybill_core::inbox::seen::{OwnedAge, SeenMark, SeenPlace, SeenQuery};
use waybill_core::outbox::records::DeadState;
use waybill_core::port::inbox_store::{InboxFilter, InboxStore, SeenHit};
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::time::UnixMillis;
use waybill_testkit::conformance::samples::{SHARD, T0, seq, tenant};

use crate::{Durability, SurrealStore};

const SECRET: HashSecret = HashSecret(0x5eed);

fn consumer() -> ConsumerName {
    ConsumerName::new("ship").unwrap()
}

fn id(text: &str) -> InboundId {
    InboundId::new(text).unwrap()
}

/// Writes the inbox of the shard, one commit behind the other.
struct Writer {
    record: InboxShardRecord,
}

impl Writer {
    fn new() -> Self {
        Self { record: InboxShardRecord { secret: SECRET, ..InboxShardRecord::default() } }
    }

    /// A commit that changes nothing but the beat, at an age.
    fn next(&self, age: u64) -> InboxCommit {
        let before = &self.record;
        let record = InboxShardRecord {
            token: before.token.max(1),
            beat: before.beat + 1,
            nonce: before.nonce + 1,
            age: OwnedAge(age),
            ..before.clone()
        };
        InboxCommit {
            shard: SHARD,
            expect_token: before.token,
            expect_beat: before.beat,
            record,
            writes: Vec::new(),
            seen: Vec::new(),
            done: Vec::new(),
            messages: Vec::new(),
            sagas: Vec::new(),
        }
    }

    async fn commit(&mut self, store: &SurrealStore, commit: InboxCommit) {
        let record = commit.record.clone();
        store.commit_inbox(commit).await.unwrap();
        self.record = record;
    }

    /// Finishes ids, all in one commit.
    async fn finish<'i>(&mut self, store: &SurrealStore, age: u64, ids: impl IntoIterator<Item = &'i String>) {
        let seen = ids.into_iter().map(|id| mark(id, check(id))).collect();
        self.commit(store, InboxCommit { seen, ..self.next(age) }).await;
    }

    /// Time passes in which somebody owns the shard.
    async fn pass(&mut self, store: &SurrealStore, age: u64) {
        self.commit(store, self.next(age)).await;
    }

    async fn write(&mut self, store: &SurrealStore, writes: Vec<InboxWrite>) {
        let age = self.record.age.0;
        self.commit(store, InboxCommit { writes, ..self.next(age) }).await;
    }
}

/// The check of an id's content: any, and always the same.
fn check(id: &str) -> u16 {
    id.bytes().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(u16::from(byte)))
}

fn mark(text: &str, check: u16) -> SeenMark {
    let fingerprint = SECRET.of_id(&consumer(), &id(text));
    SeenMark { consumer: consumer(), place: SeenPlace::of(text, fingerprint, None, T0), check: ContentCheck(check) }
}

fn query(text: &str) -> SeenQuery {
    let fingerprint = SECRET.of_id(&consumer(), &id(text));
    SeenQuery { consumer: consumer(), places: SeenPlace::all_of(text, fingerprint, None) }
}

async fn hit(store: &SurrealStore, text: &str) -> Option<SeenHit> {
    store.inbox_seen(SHARD, &[query(text)]).await.unwrap().remove(0)
}

/// Asserts that all these ids were finished, at an age or later, and with their own contents.
async fn assert_seen(store: &SurrealStore, ids: &[String], age: u64) {
    let queries: Vec<SeenQuery> = ids.iter().map(|id| query(id)).collect();
    let hits = store.inbox_seen(SHARD, &queries).await.unwrap();
    for (id, hit) in ids.iter().zip(hits) {
        let hit = hit.unwrap_or_else(|| panic!("{id} isn't found"));
        assert_eq!(hit.check, ContentCheck(check(id)), "{id}");
        assert!(hit.age >= OwnedAge(age), "{id}: {hit:?} is older than {age}");
    }
}

async fn assert_unseen(store: &SurrealStore, ids: &[String]) {
    let queries: Vec<SeenQuery> = ids.iter().map(|id| query(id)).collect();
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
    while store.tidy_inbox(SHARD, OwnedAge(until), UnixMillis(0), 64).await.unwrap() >= 64 {}
}

fn message(name: &str, payload_bytes: usize) -> InboundMessage {
    InboundMessage {
        id: id(name),
        source: SourceName::new("shop").unwrap(),
        tenant: tenant("acme"),
        subject: "orders.created".into(),
        context: "orders".into(),
        key: None,
        headers: vec![("a".into(), "ü".into())],
        content_type: Some("application/json".into()),
        payload: vec![b'x'; payload_bytes].into(),
        event_type: None,
        event_version: Some(3),
        correlation_id: None,
        causation_id: None,
        reply_to: None,
        occurred_at: None,
        received_at: T0,
        position: Some("orders@5/17".into()),
        attributes: Vec::new(),
        omitted: None,
    }
}

fn row(n: u64, payload_bytes: usize) -> InboxRow {
    let name = format!("m-{n}");
    let message = message(&name, payload_bytes);
    InboxRow {
        seq: seq(n, 0),
        consumer: consumer(),
        fingerprint: SECRET.of_id(&consumer(), &message.id),
        order: Some(OrderTag(n % 3)),
        digest: ContentDigest(u128::from(n)),
        message: Arc::new(message),
        attempts: 2,
        last_error: Some(LastError { code: "HTTP.500".into(), reason: "it failed".into() }),
        due: T0,
        delay: std::time::Duration::from_secs(5),
        maybe_handled: true,
    }
}

fn done(name: &str) -> InboxDone {
    InboxDone {
        consumer: consumer(),
        id: id(name),
        tenant: tenant("acme"),
        subject: "orders.created".into(),
        received_at: T0,
        processed_at: T0,
        attempts: 1,
        end: InboxEnd::Processed,
    }
}

/// A commit with one of everything that an inbox keeps, at the age of a second.
pub(super) async fn one_of_each(store: &SurrealStore) {
    let mut writer = Writer::new();
    let stopped = row(1, 10);
    let dead = InboxDead {
        seq: seq(2, 0),
        consumer: consumer(),
        fingerprint: stopped.fingerprint,
        digest: stopped.digest,
        message: Arc::clone(&stopped.message),
        code: "HTTP.422".into(),
        reason: "no".into(),
        attempts: 1,
        died_at: T0,
        state: DeadState::Dead,
    };
    let source = stopped.message.source.clone();
    let take = Take { seq: seq(3, 0), fingerprint: stopped.fingerprint, order: OrderTag(1), source };
    let signal = SagaDoorItem::Signal {
        key: SagaKey { tenant: tenant("acme"), id: SagaId::root("s").unwrap() },
        name: "paid".into(),
        data: Json::null(),
        by: "shop".into(),
    };
    let mut commit = writer.next(1_000);
    commit.record.open.insert(1, BTreeSet::from([take.seq]));
    commit.writes = vec![
        InboxWrite::PutRow(Arc::new(stopped)),
        InboxWrite::PutDead(Arc::new(dead)),
        InboxWrite::PutTakes(TakeRecord { beat: 1, takes: vec![take] }),
    ];
    commit.seen = vec![mark("m-1", 5)];
    commit.done = vec![done("m-1")];
    commit.sagas = vec![SagaDoorGroup { shard: SHARD, items: vec![signal] }];
    writer.commit(store, commit).await;
}

/// All that is read of an inbox, as a text.
pub(super) async fn read_all(store: &SurrealStore) -> String {
    let all = InboxFilter::default();
    // Also what a process remembers.
    store.seen_memory().forget_all();
    let seen = store.inbox_seen(SHARD, &[query("m-1"), query("m-2")]).await.unwrap();
    let read = format!(
        "{seen:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        store.inbox_takeover(SHARD).await.unwrap(),
        store.inbox_list(&all, None, 100).await.unwrap(),
        store.inbox_dead(&all, None, 100).await.unwrap(),
        store.inbox_dead_letter(SHARD, seq(2, 0)).await.unwrap(),
        store.inbox_done(SHARD, &consumer(), &id("m-1")).await.unwrap(),
        store.saga_door(SHARD, 100).await.unwrap(),
    );
    store.tidy_inbox(SHARD, OwnedAge(0), UnixMillis(0), 100).await.unwrap();
    // Who asks for such a consumer hears of it, and nobody else.
    let _told = store.bind_inbox_consumer(&ConsumerName::new("bad").unwrap(), "home").await;
    assert_eq!(store.bind_inbox_consumer(&consumer(), "home").await.unwrap(), "home");
    store.inbox_shard(SHARD).await.unwrap();
    read
}

/// What a commit came to.
async fn tried(store: &SurrealStore, commit: InboxCommit) -> Result<(), StoreError> {
    store.commit_inbox(commit).await
}
