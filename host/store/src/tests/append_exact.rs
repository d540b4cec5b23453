//! `fn::waybill::append` with `expected_seq`: the event numbers itself in the client's own transaction.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use surrealdb_expr::expr::LogicalPlan;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::{PassQuery, StreamStore};
use waybill_core::port::transact::{Statement, TransactStore};
use waybill_core::streams::event::{Body, Event, Op};
use waybill_core::streams::exact::{ExactAnswer, ExactRefusal};
use waybill_core::streams::records::{DoorContent, StreamHead};
use waybill_surreal::{Bound, ClosedTables, Fault, Reads, RecordIdKey, Transaction, key, text, to_json};
use waybill_testkit::conformance::samples::{SHARD, T0, tenant};
use waybill_testkit::conformance::stream_owner::number_all;
use waybill_testkit::conformance::stream_samples::{
    ALL_BYTES, admitted, all_at_door, event, exact, full_event, stream,
};

use super::append::numbered;
use super::{memory, patient, sql};
use crate::SurrealStore;
use crate::tables::{EVENT, EVENT_ID, EVENT_ID_DUE, META, STREAM, STREAM_DOOR, STREAM_REST};

/// Tasks that append to one stream at once, and appends of each.
const APPENDERS: usize = 6;
const APPENDS: usize = 5;
/// Far more tries than any append takes.
const TRIES_MAX: usize = 10_000;

/// A call that appends an event where the stream ends at a number. JSON is SurrealQL.
fn call(event: &Event, to: &str, expected: u64) -> String {
    let mut fields = json!({
        "stream": to, "tenant": "acme", "expected_seq": expected, "event_id": event.id.as_str(), "ts_ms": event.ts.0,
        "resource_type": event.resource_type, "resource_id": event.resource_id, "op": event.op.0,
        "schema_version": event.schema_version, "headers": event.headers,
    });
    let words = [
        ("node_uuid", &event.node_uuid),
        ("correlation_id", &event.correlation_id),
        ("cause", &event.cause),
        ("content_type", &event.content_type),
    ];
    for (field, word) in words {
        if let Some(word) = word {
            fields[field] = json!(word);
        }
    }
    match &event.body {
        Body::None => {}
        Body::Any { type_url, value } => {
            fields["payload"] = json!({ "type_url": type_url, "value": STANDARD.encode(value) });
        }
        Body::Bytes(bytes) => fields["payload_bytes"] = json!(STANDARD.encode(bytes)),
        Body::Blob { .. } => unreachable!("no sample lies elsewhere"),
    }
    format!("fn::waybill::append({fields})")
}

async fn append(store: &SurrealStore, event: &Event, to: &str, expected: u64) -> Result<Json, Fault> {
    let answers = sql(store, &format!("RETURN {}", call(event, to, expected))).await?;
    Ok(to_json(answers.into_iter().next().unwrap()).unwrap())
}

/// Rows of all tables that such an append writes.
async fn rows(transaction: &dyn Transaction) -> usize {
    let (from, until) = (RecordIdKey::Number(i64::MIN), key([text("\u{10ffff}")]));
    let mut count = 0;
    for table in [STREAM, STREAM_REST, EVENT, EVENT_ID, EVENT_ID_DUE, STREAM_DOOR] {
        let (from, until) = (Bound::Included(from.clone()), Bound::Included(until.clone()));
        count += transaction.scan(table, from, until, 1_000).await.unwrap().len();
    }
    count
}

#[tokio::test]
async fn an_event_numbers_itself_is_read_at_once_and_adopted_by_its_owner() {
    let store = memory().await;
    assert_eq!(append(&store, &event("x"), "a", 0).await.unwrap(), json!({ "id": "x", "seq": 1 }));
    assert_eq!(append(&store, &full_event("y"), "a", 1).await.unwrap(), json!({ "id": "y", "seq": 2 }));
    let slice = store.stream_slice(&stream("a"), 0, ALL_BYTES).await.unwrap();
    let chunks: Vec<_> = slice.chunks.iter().map(|stored| stored.chunk.clone().unwrap()).collect();
    let packed: Vec<Bytes> = chunks.iter().map(|chunk| chunk.events[0].packed.clone()).collect();
    assert_eq!(packed, [admitted(event("x"), true).packed, admitted(full_event("y"), true).packed]);
    let places: Vec<_> = chunks.iter().map(|chunk| (chunk.from, chunk.last, chunk.is_named())).collect();
    assert_eq!(places, [(0, 1, false), (1, 2, false)]);
    assert_eq!(slice.head, StreamHead { last: 2, fed: 0, bytes: chunks[1].total });
    assert!(chunks[0].total > 0 && chunks[1].total > chunks[0].total);
    let notes = all_at_door(&store, SHARD).await.rows;
    assert!(notes.iter().all(|row| row.content == Ok(DoorContent::Look(stream("a")))) && notes.len() == 2);

    number_all(&store).await;
    let slice = store.stream_slice(&stream("a"), 0, ALL_BYTES).await.unwrap();
    let events = slice.chunks.iter().flat_map(|stored| stored.chunk.clone().unwrap().events.clone());
    let adopted: Vec<_> = events.map(|event| (event.packed, event.pos > 0)).collect();
    assert_eq!(adopted, packed.into_iter().map(|packed| (packed, true)).collect::<Vec<_>>());
    assert!(all_at_door(&store, SHARD).await.rows.is_empty());
    assert_eq!(append(&store, &event("z"), "a", 2).await.unwrap(), json!({ "id": "z", "seq": 3 }));
    assert_eq!(numbered(&store, &stream("a")).await, ["x", "y", "z"]);
}

#[tokio::test]
async fn events_without_an_id_are_new_each_time_and_leave_no_record_of_one() {
    let store = memory().await;
    let unnamed =
        "{ tenant: 'acme', stream: 'a', resource_type: 'T', resource_id: 'r', op: 1, schema_version: 1, expected_seq: ";
    let text = format!("BEGIN; fn::waybill::append({unnamed} 0 }}); fn::waybill::append({unnamed} 1 }}); COMMIT");
    sql(&store, &text).await.unwrap();
    assert_eq!(numbered(&store, &stream("a")).await.len(), 2);
    assert_eq!(sql(&store, "SELECT * FROM event_id, event_id_due").await.unwrap(), [waybill_surreal::array([])]);
}

#[tokio::test]
async fn the_function_and_the_host_say_the_same_of_an_event() {
    let store = memory().await;
    let node = "task.node.0190a2f0-7b1e-7c3d-9e4f-1a2b3c4d5e6f";
    let many: BTreeMap<String, String> = (0..20).map(|n| (format!("h-{n}"), format!("ü{n}"))).collect();
    let samples = [
        (event("e1"), "a"),
        (full_event("e2"), "a"),
        (Event { body: Body::None, content_type: None, ..event("e3") }, "a"),
        (Event { body: Body::Bytes(Bytes::new()), op: Op(-3), ..event("e4") }, "a"),
        (Event { body: Body::Any { type_url: String::new(), value: Bytes::new() }, ..event("e5") }, "a"),
        (Event { body: Body::Bytes(Bytes::from(vec![251; 1_000])), headers: many, ..event("e6") }, "a"),
        (event("e7"), node),
        (event("e8"), "node.0190a2f0-7b1e-7c3d-9e4f-1a2b3c4d5e6f"),
    ];
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    for (event, to) in samples {
        let end = ends.entry(to).or_default();
        append(&store, &event, to, *end).await.unwrap();
        *end += 1;
        let id = (tenant("acme"), event.id.clone());
        let query = PassQuery { ids: vec![id.clone()], ..PassQuery::default() };
        let known = store.stream_pass(SHARD, &query).await.unwrap().ids.remove(&id).unwrap();
        let wanted = event.clone().admit(&stream(to).name, &Default::default(), true).unwrap();
        assert_eq!((known.digest, known.seq, known.stream), (wanted.digest, *end, stream(to)), "{event:?}");
        let slice = store.stream_slice(&stream(to), *end - 1, ALL_BYTES).await.unwrap();
        assert_eq!(slice.chunks[0].chunk.clone().unwrap().events[0].packed, wanted.packed, "{event:?}");
    }
}

#[tokio::test]
async fn a_repeat_answers_the_first_result_whichever_of_the_two_was_first() {
    let store = memory().await;
    append(&store, &event("x"), "a", 0).await.unwrap();
    store.append_exact(&exact("a", &["y"], 1), T0).await.unwrap().unwrap();
    let before = sql(&store, "SELECT * FROM stream, event, event_id, event_id_due, stream_door").await.unwrap();
    assert_eq!(append(&store, &event("x"), "a", 0).await.unwrap(), json!({ "id": "x", "seq": 1 }));
    assert_eq!(append(&store, &event("y"), "a", 9).await.unwrap(), json!({ "id": "y", "seq": 2 }));
    let again = store.append_exact(&exact("a", &["x"], 5), T0).await.unwrap().unwrap();
    assert_eq!(again, ExactAnswer { seqs: vec![1], is_repeat: true });
    let other = Event { cause: Some("another".into()), ..event("x") };
    for (event, to) in [(other, "a"), (event("x"), "b")] {
        let fault = append(&store, &event, to, 2).await.unwrap_err();
        assert!(fault.to_string().contains("EVENT.ID_TAKEN"), "{fault}");
    }
    let after = sql(&store, "SELECT * FROM stream, event, event_id, event_id_due, stream_door").await.unwrap();
    assert_eq!(before, after);
}

/// In a transaction that a client drives statement by statement, a THROW undoes nothing.
#[tokio::test]
async fn a_refusal_leaves_none_of_the_functions_records_in_a_transaction_that_goes_on() {
    let open = ClosedTables { tables: &[], doorsteps: &[], settings: META };
    let store = SurrealStore::open_closing(patient("mem://"), open).await.unwrap();
    append(&store, &event("x"), "a", 0).await.unwrap();
    let other = Event { cause: Some("another".into()), ..event("x") };
    for (event, expected, code) in
        [(event("y"), 0, "ends at 1, not at 0"), (event("y"), 2, "STREAM.EXPECTED_SEQ"), (other, 1, "EVENT.ID_TAKEN")]
    {
        let plan = LogicalPlan::from(surrealdb_syn::parse(&format!("RETURN {}", call(&event, "a", expected))).unwrap());
        let transaction = store.engine.begin(true).await.unwrap();
        let before = rows(transaction.as_ref()).await;
        let fault = transaction.run(plan, Vec::new(), Reads::held(u64::MAX)).await.unwrap_err();
        assert!(fault.to_string().contains(code), "{fault}");
        assert_eq!(rows(transaction.as_ref()).await, before, "{code}");
        transaction.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn of_many_at_once_each_number_is_given_once() {
    let store = memory().await;
    let tasks = (0..APPENDERS).map(|appender| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in 0..APPENDS {
                let id = format!("{appender}-{number}");
                let mut tries = 0;
                loop {
                    let end = store.stream_slice(&stream("a"), 0, 0).await.unwrap().head.last;
                    if append(&store, &event(&id), "a", end).await.is_ok() {
                        break;
                    }
                    tries += 1;
                    assert!(tries < TRIES_MAX, "it never goes in");
                    tokio::task::yield_now().await;
                }
            }
        })
    });
    for task in futures::future::join_all(tasks).await {
        task.unwrap();
    }
    let mut ids = numbered(&store, &stream("a")).await;
    ids.sort_unstable();
    ids.dedup();
    let head = store.stream_slice(&stream("a"), 0, 0).await.unwrap().head;
    assert_eq!((ids.len(), head.last), (APPENDERS * APPENDS, (APPENDERS * APPENDS) as u64));
}

#[tokio::test]
async fn where_a_stream_ends_that_can_not_be_read_no_number_is_given() {
    for spoil in [
        "UPSERT stream:['acme', 'a'] CONTENT { junk: 17 } RETURN NONE",
        "DELETE stream:['acme', 'a']",
        "DELETE stream:['acme', 'a']; DELETE event; CREATE stream_rest:['acme', 'a'] CONTENT { first: 2 } RETURN NONE",
        "UPDATE stream:['acme', 'a'] SET last = 0",
    ] {
        let store = memory().await;
        append(&store, &event("x"), "a", 0).await.unwrap();
        sql(&store, spoil).await.unwrap();
        let fault = append(&store, &event("y"), "a", 0).await.unwrap_err();
        assert!(fault.to_string().contains("STORAGE.CONFLICT"), "{spoil}: {fault}");
    }
}

#[tokio::test]
async fn a_chunk_as_an_object_that_says_less_is_an_error_at_its_range() {
    let store = memory().await;
    append(&store, &event("x"), "a", 0).await.unwrap();
    for spoil in ["from = 5", "event.op = 'CREATE'", "at = 'today'", "event = 7"] {
        let kept = "LET $row = (SELECT * OMIT id FROM ONLY event:['acme', 'a', 1])";
        let back = "UPSERT event:['acme', 'a', 1] CONTENT $kept RETURN NONE";
        let row = sql(&store, &format!("{kept}; UPDATE event:['acme', 'a', 1] SET {spoil} RETURN NONE; RETURN $row"))
            .await
            .unwrap()
            .remove(2);
        let slice = store.stream_slice(&stream("a"), 0, ALL_BYTES).await.unwrap();
        assert!(slice.chunks[0].chunk.is_err(), "{spoil}");
        store.engine.run(back, vec![("kept".to_owned(), row)]).await.unwrap();
        assert!(store.stream_slice(&stream("a"), 0, ALL_BYTES).await.unwrap().chunks[0].chunk.is_ok(), "{spoil}");
    }
}

/// Its own `events` are the way of a transaction to an expected number: who could write heads there could write them otherwise, too.
#[tokio::test]
async fn a_statement_of_a_transaction_of_the_api_reaches_no_head_by_an_event_of_its_table() {
    let store = memory().await;
    let define =
        format!("DEFINE TABLE orders; DEFINE EVENT placed ON orders THEN {{ {} }}", call(&event("x"), "orders", 0));
    sql(&store, &define).await.unwrap();
    let create = vec![Statement { query: "CREATE orders:7 SET total = 5".into(), bindings: serde_json::Map::new() }];
    let refused = store.transact(create, Vec::new(), Default::default(), None).await.unwrap_err();
    assert!(matches!(refused, StoreError::OwnTable { .. }), "{refused}");
    let refused = store.append_exact(&exact("orders", &["y"], 1), T0).await.unwrap().unwrap_err();
    assert!(matches!(refused, ExactRefusal::ExpectedSeq { actual: 0, .. }), "{refused}");
}
