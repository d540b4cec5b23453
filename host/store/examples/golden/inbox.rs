//! What the inbox keeps, written below a host: to receive something it would need a broker, and a later version one, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waybill_core::ids::{Place, Seq, ShardId, SourceName, Tenant, host_made_id};
use waybill_core::inbox::direct::{DirectRecord, RowId};
use waybill_core::inbox::fingerprint::HashSecret;
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::records::{InboxEnd, InboxWrite, SagaDoorGroup, SagaDoorItem, SourcePosition};
use waybill_core::inbox::seen::OwnedAge;
use waybill_core::port::direct_store::DirectStore;
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::time::UnixMillis;
use waybill_store::SurrealStore;
use waybill_testkit::conformance::inbox_samples::{
    Writer, consumer, dead, done, full_inbound, inbound, mark, row, takes,
};
use waybill_testkit::conformance::samples::T0;
use waybill_testkit::golden::Step;

use crate::raw::Raw;

/// An embedded store has this one.
const SHARD: ShardId = ShardId(0);
/// The secret of the samples' hashes.
const SECRET: HashSecret = HashSecret(3);
/// The tables of the inbox.
const TABLES: [&str; 10] = [
    "inbox_shard",
    "inbox_taken",
    "inbox",
    "inbox_data",
    "inbox_dead",
    "inbox_done",
    "inbox_seen",
    "inbox_seen_due",
    "inbox_consumer",
    "saga_door",
];
/// A source without a place of its own at its peer, and where it stands.
const SOURCE: &str = "golden-stream";
const POSITION: &str = "GOLDEN@2026-11-26T09:00:00Z/17";
/// Bytes of a payload that doesn't lie in its row.
const LARGE_BYTES: usize = 100_000;

/// Writes one of everything: rows, a dead letter, a take that waits, history, ids of each form, some of them packed, and a signal for this
/// saga. Answers what has to be found of it below a host.
pub async fn write(store: &SurrealStore, saga: &str) -> Step {
    let minute = Seq(T0.0 << 20);
    let timed = host_made_id(Place { shard: SHARD, segment: minute, index: 0 }).as_str().to_owned();
    let early = ["golden-1".to_owned(), timed, "9e3779b1-d9cb-469f-a165-000000000001".to_owned()];
    let late = "golden-2".to_owned();
    let large = InboundMessage { payload: vec![b'x'; LARGE_BYTES].into(), ..inbound("golden-large") };
    let full = InboundMessage { omitted: None, ..full_inbound("golden-full") };
    let key = SagaKey { tenant: Tenant::unnamed(), id: SagaId::root(saga).unwrap() };
    let signal = SagaDoorItem::Signal { key, name: "go".into(), data: Json::null(), by: "consumer ship".into() };

    let mut writer = Writer::of(SHARD);
    writer
        .commit(store, |commit| {
            let record = &mut commit.record;
            (record.age, record.secret, record.last) = (OwnedAge(1_000), SECRET, Seq(5));
            record.open.insert(record.beat, BTreeSet::from([Seq(5)]));
            let position = SourcePosition { position: POSITION.into(), unnamed_since: None };
            record.positions.insert(SourceName::new(SOURCE).unwrap(), position);
            let beat = record.beat;
            commit.writes = vec![
                InboxWrite::PutRow(Arc::new(row(1, inbound("golden-row")))),
                InboxWrite::PutRow(Arc::new(row(2, large))),
                InboxWrite::PutRow(Arc::new(row(3, full))),
                InboxWrite::PutDead(Arc::new(dead(4, inbound("golden-dead"), "GOLDEN.INBOX"))),
                takes(beat, &[5]),
            ];
            commit.seen = early.iter().map(|id| mark("ship", id, 5)).collect();
            commit.done = vec![done("golden-1", InboxEnd::Processed)];
            commit.sagas = vec![SagaDoorGroup { shard: signal.shard(1), items: vec![signal] }];
        })
        .await;
    // What was touched in this minute stays as it was added; the rest of the minute before is packed.
    writer
        .commit(store, |commit| {
            commit.record.age = OwnedAge(120_000);
            commit.seen = vec![mark("ship", &late, 6)];
        })
        .await;
    store.tidy_inbox(SHARD, OwnedAge(0), UnixMillis(0), 1_000).await.unwrap();
    assert_eq!(store.bind_inbox_consumer(&consumer("ship"), "golden").await.unwrap(), "golden");
    let seen = early.into_iter().chain([late]).collect();
    let positions = BTreeMap::from([(SOURCE.to_owned(), POSITION.to_owned())]);
    Step::Inbox { consumer: "ship".into(), seen, done: vec!["golden-1".into()], takes: 1, positions }
}

/// Writes what a host notes of a table before it sends rows of it while it is cautious. Answers what has to be found of it.
pub async fn write_table(store: &SurrealStore) -> Step {
    let (host, source, row) = ("golden", "golden-table", "17");
    let calling = [RowId(Arc::from(row))].into_iter().collect();
    let record = DirectRecord { open: true, calling, ..DirectRecord::default() };
    store.put_direct_record(host, &SourceName::new(source).unwrap(), &record).await.unwrap();
    Step::Table { host: host.into(), source: source.into(), calling: vec![row.into()] }
}

/// Each table of the inbox has something in it, else a later version would find nothing to read.
pub async fn is_whole(raw: &Raw) {
    for table in TABLES {
        let rows = raw.run(&format!("SELECT VALUE 1 FROM {table} LIMIT 1")).await;
        assert!(rows.as_array().is_some_and(|rows| !rows.is_empty()), "{table} is empty");
    }
}
