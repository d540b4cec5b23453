//! The audit trail: acts of operators, and events of messages, sagas and received messages.

use std::sync::Arc;

use waybill_core::audit::AuditQuery;
use waybill_core::glob::Glob;
use waybill_core::ids::{ShardId, host_made_id};
use waybill_core::inbox::records::{InboxCommit, InboxShardRecord, InboxWrite};
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::port::query::Page;
use waybill_core::port::store::{OwnerCommit, StoreError, Write};
use waybill_core::port::stream_store::StreamStore;
use waybill_core::port::transact::{AuditEvent, TransactStore};
use waybill_core::saga::records::{SagaCommit, SagaWrite};
use waybill_core::streams::records::{StreamCommit, StreamShardRecord, StreamWrite};
use waybill_core::time::UnixMillis;
use waybill_core::tx_event::{TxEvent, TxEventKind, TxRecord, TxRecordKey, TxSubject};

use super::inbox_samples::{Writer, inbound, row};
use super::sagas::{next, take};
use super::samples::{Owner, SHARD, T0, place, seq, tenant};
use super::stream_samples::Writer as StreamWriter;
use super::{SagaPorts, Store};

fn at(ms: u64) -> UnixMillis {
    UnixMillis(T0.0 + ms)
}

fn act(n: u64, of: Option<&str>) -> AuditEvent {
    AuditEvent {
        at: at(n / 2),
        kind: "TxReplayRequested".into(),
        actor: "ann".into(),
        tenant: of.map(str::to_owned),
        object: format!("m-{n}"),
        detail: serde_json::json!({ "n": n, "deep": { "list": [1, null, "x"] } }),
    }
}

fn event(kind: TxEventKind, of: &str, id: &str) -> TxEvent {
    TxEvent::plain(kind, &tenant(of), id)
}

fn record(ms: u64, part: u16, events: Vec<TxEvent>) -> Arc<TxRecord> {
    let key = TxRecordKey { at: at(ms), shard: SHARD, of: TxSubject::Message, beat: 7, part };
    Arc::new(TxRecord { key, host: "host-a".into(), events })
}

async fn write(store: &impl Store, records: &[Arc<TxRecord>]) {
    Owner::new().commit(store, records.iter().cloned().map(Write::PutTxEvents).collect()).await;
}

fn of_kind(kind: &str) -> AuditQuery {
    AuditQuery { kind: Some(Glob::new(kind)), ..AuditQuery::default() }
}

/// All lines, page by page.
async fn all(store: &impl TransactStore, query: &AuditQuery, limit: usize) -> Vec<AuditEvent> {
    let (mut found, mut cursor) = (Vec::new(), None);
    for _ in 0..1_000 {
        let Page { items, next_cursor } = store.audit_lines(query, cursor.as_deref(), limit).await.unwrap();
        assert!(items.len() <= limit);
        found.extend(items);
        if next_cursor.is_none() {
            return found;
        }
        cursor = next_cursor;
    }
    panic!("the list has no end");
}

pub async fn the_trail_is_read_from_its_end(store: &impl Store) {
    for n in 0..9 {
        store.audit(&act(n, None)).await.unwrap();
    }
    let latest = store.audit_lines(&AuditQuery::default(), None, 4).await.unwrap();
    assert_eq!(latest.items, [8, 7, 6, 5].map(|n| act(n, None)));
    assert!(latest.next_cursor.is_some());
    assert_eq!(all(store, &AuditQuery::default(), 2).await, [8, 7, 6, 5, 4, 3, 2, 1, 0].map(|n| act(n, None)));
}

pub async fn a_tenant_reads_its_own_trail(store: &impl Store) {
    for n in 0..9 {
        store.audit(&act(n, [None, Some("acme"), Some("other")][n as usize % 3])).await.unwrap();
    }
    let events = ["acme", "other", "acme"].map(|of| event(TxEventKind::Begin, of, "m"));
    write(store, &[record(100, 0, events.into())]).await;
    let acme = AuditQuery { tenant: Some(tenant("acme")), ..AuditQuery::default() };
    assert_eq!(all(store, &acme, 1).await, [7, 4, 1].map(|n| act(n, Some("acme"))));
    let found = all(store, &AuditQuery { kind: Some(Glob::new("TxBegin")), ..acme }, 100).await;
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|line| line.tenant.as_deref() == Some("acme")));
}

pub async fn every_event_comes_back_as_it_was_written(store: &impl Store) {
    // Runs of places, one that is broken, ids of others, and all members in all kinds.
    let (first, other) = (seq(1, 0), seq(1, 900));
    let made = |segment, index| host_made_id(place(segment, index));
    let mut events: Vec<TxEvent> =
        (0..40).map(|index| event(TxEventKind::Begin, "acme", made(first, index).as_str())).collect();
    events.remove(17);
    events.push(event(TxEventKind::Begin, "Größe & Söhne", made(other, 4_095).as_str()));
    events.push(event(TxEventKind::Begin, "acme", "order-17"));
    let elsewhere = waybill_core::ids::Place { shard: ShardId(9), ..place(other, 3) };
    events.push(event(TxEventKind::Begin, "acme", host_made_id(elsewhere).as_str()));
    for (kind, attempts) in [(TxEventKind::Retry, 3), (TxEventKind::Dead, 12), (TxEventKind::Replay, 0)] {
        let code = Some(Arc::from("HTTP.STATUS"));
        let (step, actor) = (Some(Arc::from("charge")), Some(Arc::from("ann")));
        let event = TxEvent { attempts, code, step, actor, ..event(kind, "acme", "order-18") };
        events.push(TxEvent { consumer: Some(Arc::from("ship")), ..event.clone() });
        let (relay, stream) = (Some(Arc::from("mail")), Some(Arc::from("orders")));
        events.push(TxEvent { relay, stream, ..event.clone() });
        events.push(event);
    }
    let written = record(5, 0, events);
    write(store, &[Arc::clone(&written)]).await;
    let expected: Vec<AuditEvent> = written.events.iter().rev().map(|event| written.view(event)).collect();
    assert_eq!(all(store, &of_kind("Tx*"), 1_000).await, expected);
}

pub async fn events_of_a_commit_that_does_not_go_in_are_not_there(store: &impl Store) {
    let mut owner = Owner::new();
    owner.commit(store, Vec::new()).await;
    let stale = OwnerCommit {
        shard: SHARD,
        expect_token: 77,
        expect_beat: 1,
        record: waybill_core::outbox::records::ShardRecord { token: 77, beat: 2, ..Default::default() },
        writes: vec![Write::PutTxEvents(record(1, 0, vec![event(TxEventKind::Begin, "acme", "m")]))],
    };
    let refused = store.commit(stale).await.unwrap_err();
    assert!(matches!(refused, StoreError::Conflict(_)), "{refused:?}");
    assert!(all(store, &of_kind("*"), 10).await.is_empty());
}

pub async fn acts_and_events_are_one_list_by_time_and_no_page_size_changes_it(store: &impl Store) {
    for n in 0..6 {
        store.audit(&act(n, Some("acme"))).await.unwrap();
    }
    let begins = |ms: u64, part| {
        let events = (0..3).map(|n| event(TxEventKind::Begin, "acme", &format!("e-{ms}-{part}-{n}")));
        record(ms, part, events.collect())
    };
    write(store, &[begins(0, 0), begins(1, 0), begins(1, 1), begins(9, 0)]).await;
    let whole = all(store, &of_kind("*"), 1_000).await;
    let objects: Vec<&str> = whole.iter().map(|line| line.object.as_str()).collect();
    assert_eq!(
        objects,
        [
            "e-9-0-2", "e-9-0-1", "e-9-0-0", "m-5", "m-4", "m-3", "m-2", "e-1-1-2", "e-1-1-1", "e-1-1-0", "e-1-0-2",
            "e-1-0-1", "e-1-0-0", "m-1", "m-0", "e-0-0-2", "e-0-0-1", "e-0-0-0"
        ]
    );
    for limit in 1..7 {
        assert_eq!(all(store, &of_kind("*"), limit).await, whole, "in pages of {limit}");
    }
}

pub async fn lines_are_found_by_kind_id_and_time(store: &impl Store) {
    store.audit(&AuditEvent { object: "m-1".into(), ..act(10, None) }).await.unwrap();
    let kinds = [TxEventKind::Begin, TxEventKind::Retry, TxEventKind::Dead];
    let of_both = |(ms, kind)| record(ms, 0, ["m-1", "m-2"].map(|id| event(kind, "acme", id)).into());
    write(store, &(0..).step_by(10).zip(kinds).map(of_both).collect::<Vec<_>>()).await;
    let found = async |query: AuditQuery| {
        let lines = all(store, &query, 100).await;
        lines.into_iter().map(|line| format!("{} {}", line.kind, line.object)).collect::<Vec<_>>()
    };
    let none = AuditQuery::default();
    assert_eq!(found(none.clone()).await, ["TxReplayRequested m-1"], "events have to be asked for");
    assert_eq!(found(of_kind("TxDead")).await, ["TxDead m-2", "TxDead m-1"]);
    let of_id = AuditQuery { object: Some(Glob::literal("m-1")), ..none };
    assert_eq!(
        found(of_id.clone()).await,
        ["TxDead m-1", "TxRetry m-1", "TxReplayRequested m-1", "TxBegin m-1"],
        "the whole life of a message"
    );
    let within = AuditQuery { since: Some(at(5)), until: Some(at(20)), ..of_id };
    assert_eq!(found(within).await, ["TxRetry m-1", "TxReplayRequested m-1"]);
}

pub async fn the_trail_is_read_by_who_what_and_when(store: &impl Store) {
    for n in 0..9 {
        store.audit(&act(n, None)).await.unwrap();
    }
    let retried = TxEvent { actor: Some(Arc::from("ann")), ..event(TxEventKind::Replay, "acme", "m-3") };
    write(store, &[record(100, 0, vec![event(TxEventKind::Begin, "acme", "m-3"), retried])]).await;
    let found = async |filter: &str| all(store, &AuditQuery::parse(filter, at(9)).unwrap(), 100).await;
    let kinds = async |filter: &str| found(filter).await.into_iter().map(|line| line.kind).collect::<Vec<_>>();
    // Two acts each millisecond.
    let span = AuditQuery { since: Some(at(3)), until: Some(at(6)), ..AuditQuery::default() };
    assert_eq!(all(store, &span, 100).await, [8, 7, 6].map(|n| act(n, None)));
    assert_eq!(found("age<6ms").await, [8].map(|n| act(n, None)));
    assert_eq!(found("age>8ms").await, [1, 0].map(|n| act(n, None)));
    assert_eq!(kinds("object=m-3").await, ["TxReplay", "TxBegin", "TxReplayRequested"]);
    assert_eq!(kinds("object=m-3 actor=ann").await, ["TxReplay", "TxReplayRequested"]);
    assert_eq!(kinds("object=m-3 actor=host-a").await, ["TxBegin"]);
    assert!(found("actor=bob").await.is_empty());
}

pub async fn what_is_older_than_it_is_kept_goes_and_nothing_else(store: &impl Store) {
    for n in 0..10 {
        store.audit(&act(n, None)).await.unwrap();
    }
    let records: Vec<_> =
        (0..5).map(|ms| record(ms, 0, vec![event(TxEventKind::Begin, "acme", &format!("e-{ms}"))])).collect();
    write(store, &records).await;
    let mut rounds = 0;
    while store.purge_audit(at(3), 2).await.unwrap() == 2 {
        rounds += 1;
        assert!(rounds < 10, "it never ends");
    }
    let left: Vec<String> = all(store, &of_kind("*"), 100).await.into_iter().map(|line| line.object).collect();
    assert_eq!(left, ["m-9", "m-8", "e-4", "m-7", "m-6", "e-3"]);
    assert_eq!(store.purge_audit(at(3), 100).await.unwrap(), 0);
}

pub async fn a_cursor_of_another_list_is_refused(store: &impl Store) {
    for cursor in ["", "x", "0.17/", "a.1", "e.1.2.3"] {
        let refused = store.audit_lines(&AuditQuery::default(), Some(cursor), 10).await.unwrap_err();
        assert!(matches!(refused, StoreError::Statement(_)), "{cursor}: {refused:?}");
    }
}

pub async fn events_of_sagas_go_in_with_their_commit_or_not_at_all(store: &(impl SagaPorts + TransactStore)) {
    let old = take(store, SHARD, 1).await.record;
    let new = take(store, SHARD, 2).await.record;
    let of = |beat, id: &str| {
        let key = TxRecordKey { at: at(1), shard: SHARD, of: TxSubject::Saga, beat, part: 0 };
        let events = vec![event(TxEventKind::Begin, "acme", id)];
        vec![SagaWrite::PutTxEvents(Arc::new(TxRecord { key, host: "host-a".into(), events }))]
    };
    store.commit_sagas(SagaCommit { writes: of(8, "stale"), ..next(&old) }).await.unwrap_err();
    store.commit_sagas(SagaCommit { writes: of(9, "s-1"), ..next(&new) }).await.unwrap();
    let lines = all(store, &of_kind("TxBegin"), 10).await;
    let shown: Vec<_> = lines.iter().map(|line| (line.object.as_str(), line.detail["of"].as_str())).collect();
    assert_eq!(shown, [("s-1", Some("saga"))]);
}

/// A record of the inbox's, of the commit with this beat.
fn received(beat: u64, id: &str) -> Arc<TxRecord> {
    let key = TxRecordKey { at: at(1), shard: SHARD, of: TxSubject::Inbox, beat, part: 0 };
    let events = [("ship", TxEventKind::Retry), ("bill", TxEventKind::Dead)].map(|(name, kind)| TxEvent {
        consumer: Some(Arc::from(name)),
        attempts: 2,
        ..event(kind, "acme", id)
    });
    Arc::new(TxRecord { key, host: "host-a".into(), events: events.into() })
}

pub async fn events_of_the_inbox_go_in_with_their_commit_or_not_at_all(store: &(impl InboxStore + TransactStore)) {
    let mut writer = Writer::new();
    writer.write(store, vec![InboxWrite::PutRow(Arc::new(row(1, inbound("m-1"))))]).await;
    let stale = InboxCommit {
        expect_beat: 7,
        record: InboxShardRecord { beat: 8, ..writer.record.clone() },
        writes: vec![InboxWrite::PutTxEvents(received(8, "stale"))],
        ..writer.next()
    };
    let refused = store.commit_inbox(stale).await.unwrap_err();
    assert!(matches!(refused, StoreError::Conflict(_)), "{refused:?}");
    let beat = writer.record.beat + 1;
    writer.write(store, vec![InboxWrite::PutTxEvents(received(beat, "m-1"))]).await;
    let shown = |lines: Vec<AuditEvent>| {
        let text = |line: &AuditEvent| {
            format!("{} {} {} {}", line.kind, line.object, line.detail["of"], line.detail["consumer"])
        };
        lines.iter().map(text).collect::<Vec<_>>()
    };
    let (dead, retried) = (r#"TxDead m-1 "inbox" "bill""#, r#"TxRetry m-1 "inbox" "ship""#);
    assert_eq!(shown(all(store, &of_kind("Tx*"), 1).await), [dead, retried]);
}

pub async fn received_messages_are_found_by_their_consumer(store: &(impl InboxStore + TransactStore)) {
    let mut writer = Writer::new();
    for id in ["m-1", "m-2"] {
        let beat = writer.record.beat + 1;
        writer.write(store, vec![InboxWrite::PutTxEvents(received(beat, id))]).await;
    }
    store.audit(&act(1, Some("acme"))).await.unwrap();
    let detail = serde_json::json!({ "consumer": "ship" });
    store.audit(&AuditEvent { detail, object: "inbox-0-1".into(), ..act(5, Some("acme")) }).await.unwrap();
    let found = async |filter: &str| {
        let lines = all(store, &AuditQuery::parse(filter, at(9)).unwrap(), 1).await;
        lines.into_iter().map(|line| format!("{} {}", line.kind, line.object)).collect::<Vec<_>>()
    };
    assert_eq!(found("consumer=ship").await, ["TxReplayRequested inbox-0-1", "TxRetry m-2", "TxRetry m-1"]);
    assert_eq!(found("consumer=ship id=m-1").await, ["TxRetry m-1"]);
    assert_eq!(found("consumer=b* kind=Tx*").await, ["TxDead m-2", "TxDead m-1"]);
    assert!(found("consumer=other").await.is_empty());
}

pub async fn events_of_streams_go_in_with_their_commit_or_not_at_all(store: &(impl StreamStore + TransactStore)) {
    let mut writer = StreamWriter::new();
    writer.write(store, Vec::new()).await;
    let death = |beat: u64, id: &str| {
        let key = TxRecordKey { at: at(1), shard: SHARD, of: TxSubject::Event, beat, part: 0 };
        let died = TxEvent { relay: Some(Arc::from("mail")), ..event(TxEventKind::Dead, "acme", id) };
        StreamWrite::PutTxEvents(Arc::new(TxRecord { key, host: "host-a".into(), events: vec![died] }))
    };
    let stale = StreamCommit {
        expect_beat: 7,
        record: StreamShardRecord { beat: 8, ..writer.record.clone() },
        writes: vec![death(8, "event-0-8-0")],
        ..writer.next()
    };
    let refused = store.commit_streams(stale).await.unwrap_err();
    assert!(matches!(refused, StoreError::Conflict(_)), "{refused:?}");
    let beat = writer.record.beat + 1;
    writer.write(store, vec![death(beat, "event-0-2-0")]).await;
    let lines = all(store, &of_kind("TxDead"), 10).await;
    let shown: Vec<_> =
        lines.iter().map(|line| (line.object.as_str(), line.detail["of"].as_str(), &line.detail["relay"])).collect();
    assert_eq!(shown, [("event-0-2-0", Some("event"), &"mail".into())]);
}
