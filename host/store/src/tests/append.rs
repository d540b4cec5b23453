//! `fn::waybill::append` in a client's own transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use surrealdb_expr::expr::LogicalPlan;
use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::stream_store::StreamStore;
use waybill_core::port::transact::{Statement, TransactStore};
use waybill_core::streams::envelope::{EventHead, unpack};
use waybill_core::streams::event::{Body, Op};
use waybill_core::streams::name::{StreamKey, StreamName, StreamPattern};
use waybill_core::streams::records::{Append, DoorContent};
use waybill_core::streams::settings::{EventsSettings, PatternSettings, StreamsSettings};
use waybill_surreal::{Bound, Reads, Value, to_json};
use waybill_testkit::conformance::samples::{SHARD, T0};
use waybill_testkit::conformance::stream_owner::number_all;
use waybill_testkit::conformance::stream_samples::{
    ALL_BYTES, admitted, all_at_door, append, event, full_event, stream,
};

use super::{memory, sql};
use crate::tables::{STREAM_DOOR, shard_end, shard_start};
use crate::{StoreConfig, SurrealStore};

/// A call that appends an event with few fields, and these beside them.
fn call(members: &str) -> String {
    format!(
        "fn::waybill::append({{ tenant: 'acme', resource_type: 'TASK', resource_id: 't-1', op: 'UPDATE', schema_version: 1{members} }})"
    )
}

/// The same for a stream, with the content that samples have.
fn call_of(stream: &str, id: &str) -> String {
    let payload = format!("<bytes> '{{\"id\":\"{id}\"}}'");
    call(&format!(
        ", stream: '{stream}', event_id: '{id}', ts_ms: {}, content_type: 'application/json', payload_bytes: {payload}",
        T0.0
    ))
}

/// What lies on a doorstep.
async fn lying(store: &SurrealStore, shard: ShardId) -> Vec<Arc<Append>> {
    let rows = all_at_door(store, shard).await.rows;
    let contents = rows.into_iter().map(|row| row.content.unwrap());
    let appends = contents.map(|content| match content {
        DoorContent::Append(append) => append,
        DoorContent::Look(_) => unreachable!("nothing exact was appended"),
    });
    appends.collect()
}

/// Ids of what a stream has, in the order of its numbers.
pub(super) async fn numbered(store: &SurrealStore, of: &StreamKey) -> Vec<String> {
    let slice = store.stream_slice(of, 0, ALL_BYTES).await.unwrap();
    let chunks = slice.chunks.iter().map(|stored| Arc::clone(stored.chunk.as_ref().unwrap()));
    let events = chunks.flat_map(|chunk| chunk.events.clone());
    events.map(|event| EventHead::of(&event.packed).unwrap().id.to_owned()).collect()
}

fn pattern(text: &str, schema_versions: Option<(u32, u32)>) -> PatternSettings {
    PatternSettings { schema_versions, ..PatternSettings::new(StreamPattern::parse(text).unwrap()) }
}

#[tokio::test]
async fn an_event_commits_with_the_business_row() {
    let store = memory().await;
    let members = format!(
        "stream: 'a', tenant: 'acme', event_id: 'mine', ts_ms: {}, resource_type: 'TASK', resource_id: 't-1', op: 41, \
         schema_version: 4294967295, node_uuid: 'node-1', correlation_id: 'correlation', cause: 'scheduling', \
         headers: {{ a: '1', 'größe': '' }}, content_type: 'application/json', payload: {{ type_url: 'types/Task', value: 'AP8KDQA' }}",
        T0.0
    );
    let text = format!("BEGIN; CREATE orders:1 SET total = 5; RETURN fn::waybill::append({{ {members} }}); COMMIT;");
    let answers: Vec<_> =
        sql(&store, &text).await.unwrap().into_iter().map(|answer| to_json(answer).unwrap()).collect();
    assert!(answers.contains(&serde_json::json!({ "id": "mine" })), "{answers:?}");
    let wanted = Append::new(stream("a"), vec![admitted(full_event("mine"), true)]);
    assert_eq!(lying(&store, SHARD).await, [Arc::new(wanted)]);
}

#[tokio::test]
async fn what_is_left_out_is_the_hosts_to_give() {
    let store = memory().await;
    let node = "0190a2f0-7b1e-7c3d-9e4f-1a2b3c4d5e6f";
    let text = format!(
        "RETURN fn::waybill::append({{ stream: 'task.node.{node}', resource_type: 'TASK', resource_id: 't-1', op: 'create', \
         schema_version: 1 }}); RETURN {}",
        call(", stream: 'a', payload_bytes: ''")
    );
    sql(&store, &text).await.unwrap();
    let found = lying(&store, SHARD).await;
    let (first, second) = (&found[0].events[0], &found[1].events[0]);
    assert_eq!((found[0].stream.tenant.as_str(), first.node_uuid.as_deref()), ("default", Some(node)));
    assert!(!first.is_indexed && first.id.as_str().len() == 26 && first.id != second.id);
    let (first, second) = (unpack(&first.packed).unwrap(), unpack(&second.packed).unwrap());
    assert_eq!((first.op, first.body, second.body), (Op::CREATE, Body::None, Body::Bytes(Bytes::new())));
    let row = all_at_door(&store, SHARD).await.rows.remove(0);
    assert_eq!(first.ts.0, row.key.nanos / 1_000_000, "when it was put there");
}

#[tokio::test]
async fn a_rolled_back_transaction_leaves_no_event_and_a_refused_event_no_transaction() {
    let store = memory().await;
    for end in ["CANCEL", "THROW 'changed my mind'; COMMIT"] {
        let text = format!("BEGIN; CREATE orders:1 SET a = 1; LET $done = {}; {end}", call(", stream: 'a'"));
        let _refused = sql(&store, &text).await;
        assert!(lying(&store, SHARD).await.is_empty(), "{end}");
    }
    let text = format!("BEGIN; CREATE orders:1 SET a = 1; RETURN {}; COMMIT", call(", stream: 'saga.1'"));
    let fault = sql(&store, &text).await.unwrap_err();
    assert!(fault.to_string().contains("STREAM.READ_ONLY"), "{fault}");
    let left = sql(&store, "DEFINE TABLE IF NOT EXISTS orders; SELECT * FROM orders").await.unwrap();
    assert!(matches!(&left[1], Value::Array(rows) if rows.is_empty()), "{left:?}");
}

/// In a transaction that a client drives statement by statement, a THROW undoes nothing.
#[tokio::test]
async fn a_refusal_leaves_none_of_the_functions_records_in_a_transaction_that_goes_on() {
    let store = memory().await;
    // Opens the doorsteps to what runs behind the wall, as a definition of an operator does.
    sql(&store, "DEFINE FUNCTION fn::mine() { RETURN 1 }").await.unwrap();
    for bad in [", stream: 'a', headers: { a: 1 }", ", stream: 'a', payload: { value: '' }", ", stream: 'a', ts_ms: -1"]
    {
        let plan = LogicalPlan::from(surrealdb_syn::parse(&format!("RETURN {}", call(bad))).unwrap());
        let transaction = store.engine.begin(true).await.unwrap();
        let fault = transaction.run(plan, Vec::new(), Reads::held(u64::MAX)).await.unwrap_err();
        assert!(fault.to_string().contains("SCHEMA.VALIDATION_FAILED"), "{bad}: {fault}");
        let (from, until) = (Bound::Included(shard_start(SHARD)), Bound::Excluded(shard_end(SHARD)));
        assert!(transaction.scan(STREAM_DOOR, from, until, 10).await.unwrap().is_empty(), "{bad}");
        transaction.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn bad_events_are_refused_with_a_code() {
    let events = EventsSettings { payload_bytes_max: 100, ..EventsSettings::default() };
    let streams = StreamsSettings { events, ..StreamsSettings::default() };
    let store = SurrealStore::open(StoreConfig { streams, ..StoreConfig::new("mem://") }).await.unwrap();
    for (members, cause) in [
        (", stream: 'a', colour: 'red'", "no field 'colour'"),
        (", stream: 'a', expected_seq: -1", "expected_seq has to be"),
        (", stream: 'a', expected_seq: '1'", "expected_seq has to be"),
        ("", "an event needs stream"),
        (", stream: 5", "stream has to be a text"),
        (", stream: ''", "stream is empty"),
        (", stream: 'a b'", "isn't a stream's name"),
        (", stream: '/a'", "isn't a stream's name"),
        (", stream: 'a//b'", "isn't a stream's name"),
        (", stream: 'a/../b'", "isn't a stream's name"),
        (", stream: '.'", "isn't a stream's name"),
        (", stream: 'a/.'", "isn't a stream's name"),
        (", stream: 'ä'", "isn't a stream's name"),
        (", stream: string::repeat('x', 256)", "stream has more than 255 bytes"),
        (", stream: 'saga.1'", "STREAM.READ_ONLY"),
        (", stream: 'a', resource_id: string::repeat('ä', 128)", "resource_id has more than 255 bytes"),
        (", stream: 'a', event_id: string::repeat('x', 129)", "event_id has more than 128 bytes"),
        (", stream: 'a', cause: 'two\\nlines'", "cause has a control character"),
        (", stream: 'a', cause: 'next\u{85}line'", "cause has a control character"),
        (", stream: 'a', tenant: ''", "tenant is empty"),
        (", stream: 'a', op: 'PURGE'", "op has to be one of OP_UNSPECIFIED, CREATE"),
        (", stream: 'a', op: NONE", "op has to be one of"),
        (", stream: 'a', op: 1.5", "op has to be one of"),
        (", stream: 'a', op: 2147483648", "op has to be one of"),
        (", stream: 'a', schema_version: 0", "SCHEMA.VERSION"),
        (", stream: 'a', schema_version: 4294967296", "SCHEMA.VERSION"),
        (", stream: 'a', schema_version: NONE", "SCHEMA.VERSION"),
        (", stream: 'a', ts_ms: -1", "ts_ms has to be"),
        (", stream: 'a', headers: 'x'", "headers has to be"),
        (", stream: 'a', headers: { a: 1 }", "headers has to be"),
        (", stream: 'a', headers: { '': 'x' }", "a header's name"),
        (", stream: 'a', headers: { a: string::repeat('x', 16384) }", "headers are at most 64"),
        (", stream: 'a', payload: {}", "type_url"),
        (", stream: 'a', payload: 'x'", "type_url"),
        (", stream: 'a', payload: { type_url: string::repeat('ä', 257) }", "payload.type_url has more than 512 bytes"),
        (", stream: 'a', payload: { type_url: 'two\\nlines' }", "payload.type_url has a control character"),
        (", stream: 'a', payload_bytes: 5", "has to be bytes"),
        (", stream: 'a', payload_bytes: '%'", "base64"),
        (", stream: 'a', payload_bytes: '', payload: { type_url: 'x' }", "both payload and payload_bytes"),
        (", stream: 'a', payload_bytes: <bytes> string::repeat('x', 101)", "EVENT.PAYLOAD_TOO_LARGE"),
    ] {
        let fault = sql(&store, &format!("RETURN {}", call(members))).await.unwrap_err();
        assert!(fault.to_string().contains(cause), "{members}: {fault}");
    }
    assert!(lying(&store, SHARD).await.is_empty());
    for members in [
        ", stream: 'A/b-c:d_e.F', op: -2147483648, ts_ms: 0",
        ", stream: 'saga', headers: {}, payload: { type_url: '' }",
        ", stream: 'a..b', payload_bytes: <bytes> string::repeat('x', 100)",
        ", stream: 'a', payload: { type_url: string::repeat('ä', 256) }",
    ] {
        sql(&store, &format!("RETURN {}", call(members)))
            .await
            .unwrap_or_else(|fault| unreachable!("{members}: {fault}"));
    }
    assert_eq!(lying(&store, SHARD).await.len(), 4);
}

#[tokio::test]
async fn the_limits_in_force_hold_for_the_function() {
    let patterns = vec![
        pattern("task.beats.**", None),
        pattern("task.h-*.x", Some((2, 2))),
        pattern("task.**", Some((1, 3))),
        pattern("*", None),
    ];
    let settings = StreamsSettings { patterns, ..StreamsSettings::default() };
    let store =
        SurrealStore::open(StoreConfig { streams: settings.clone(), ..StoreConfig::new("mem://") }).await.unwrap();
    let takes = async |stream: &str, version: u32| {
        let text = format!(
            "RETURN fn::waybill::append({{ stream: '{stream}', resource_type: 'T', resource_id: 'r', op: 1, schema_version: {version} }})"
        );
        sql(&store, &text).await.is_ok()
    };
    for name in
        ["task.beats.1", "task.beats", "task.h-1.x", "task.h-1.x.y", "task.hx1.x", "task.", "task", "xtask.a", "other"]
    {
        for version in 1..=4 {
            let versions = settings.event_limits(&StreamName::new(name).unwrap()).schema_versions;
            let wanted = versions.is_none_or(|(first, last)| (first..=last).contains(&version));
            assert_eq!(takes(name, version).await, wanted, "{name}, version {version}");
        }
    }
    let mut changed = settings.clone();
    changed.events.payload_bytes_max = 3;
    store.publish_event_limits(&changed).await.unwrap();
    let fault = sql(&store, &format!("RETURN {}", call(", stream: 'a', payload_bytes: 'AAAAAA'"))).await.unwrap_err();
    assert!(fault.to_string().contains("has 4 bytes, events.max_payload_bytes allows 3"), "{fault}");
    assert!(!takes("task.a", 4).await, "the patterns are in force still");
}

#[tokio::test]
async fn the_function_chooses_the_shard_that_the_host_would() {
    let store = SurrealStore::open(StoreConfig { shards: Some(16), ..StoreConfig::new("mem://") }).await.unwrap();
    let mut wanted: BTreeMap<ShardId, Vec<StreamKey>> = BTreeMap::new();
    for n in 0..40 {
        let (tenant, name) = (format!("größe-{}", n % 3), format!("task.node.{n}"));
        sql(&store, &format!("RETURN {}", call(&format!(", stream: '{name}', tenant: '{tenant}'")))).await.unwrap();
        let stream = StreamKey { tenant: Tenant::new(tenant).unwrap(), name: StreamName::new(name).unwrap() };
        wanted.entry(stream.shard(16)).or_default().push(stream);
    }
    for (shard, streams) in wanted {
        let there: Vec<StreamKey> = lying(&store, shard).await.iter().map(|append| append.stream.clone()).collect();
        assert_eq!(there, streams, "on shard {shard}");
    }
}

#[tokio::test]
async fn events_go_behind_what_lies_there_whatever_the_clock_says() {
    let store = memory().await;
    let text = format!("BEGIN; FOR $n IN 0..20 {{ {} }}; COMMIT", call(", stream: 'a', event_id: <string> $n"));
    sql(&store, &text).await.unwrap();
    // As if the clock had been an hour ahead then.
    let ahead = "LET $row = (SELECT * OMIT id FROM ONLY stream_door LIMIT 1); \
        CREATE stream_door:[0, time::nano(time::now() + 1h), 0, rand::ulid()] CONTENT object::extend($row, { event: object::extend($row.event, { event_id: 'ahead' }) })";
    sql(&store, ahead).await.unwrap();
    sql(&store, &format!("RETURN {}", call(", stream: 'a', event_id: 'behind'"))).await.unwrap();
    store.append_at_door(&[(SHARD, Arc::new(append("a", &["packed"])))]).await.unwrap();
    let ids: Vec<String> = lying(&store, SHARD).await.iter().map(|append| append.events[0].id.to_string()).collect();
    let numbers = (0..20).map(|n| n.to_string());
    assert_eq!(ids, numbers.chain(["ahead", "behind", "packed"].map(str::to_owned)).collect::<Vec<_>>());
}

#[tokio::test]
async fn its_owner_numbers_an_event_once_and_what_no_event_is_goes_aside() {
    let store = memory().await;
    store.append_at_door(&[(SHARD, Arc::new(append("a", &["first"])))]).await.unwrap();
    let other = call(", stream: 'a', event_id: 'first', cause: 'another'");
    for call in [call_of("a", "second"), call_of("a", "first"), other] {
        sql(&store, &format!("RETURN {call}")).await.unwrap();
    }
    let spoilt = "CREATE stream_door:[0, time::nano(time::now()), 99, rand::ulid()] CONTENT { stream: 'a', tenant: 'acme', \
        event: { event_id: 'x', resource_type: 'TASK', resource_id: 't-1', op: 'CREATE', schema_version: 1 } }";
    sql(&store, spoilt).await.unwrap();
    number_all(&store).await;
    assert_eq!(numbered(&store, &stream("a")).await, ["first", "second"]);
    let dead = store.stream_dead(None, 10).await.unwrap();
    assert_eq!(dead.len(), 1, "the same again is dropped, another event with its id is a dead letter");
    let aside = sql(&store, "SELECT VALUE reason FROM outbox_quarantine").await.unwrap().remove(0);
    assert!(to_json(aside).unwrap().to_string().contains("its op isn't a number"));
    assert!(all_at_door(&store, SHARD).await.rows.is_empty());
}

#[tokio::test]
async fn an_event_of_a_business_table_can_append() {
    let store = memory().await;
    let text = format!(
        "DEFINE TABLE orders; DEFINE EVENT placed ON orders WHEN $event = 'CREATE' THEN {{ {} }}",
        call(
            ", stream: 'orders', event_id: <string> record::id($after.id), payload_bytes: <bytes> <string> $after.total"
        )
    );
    sql(&store, &text).await.unwrap();
    let create = |query: &str| vec![Statement { query: query.into(), bindings: serde_json::Map::new() }];
    store.transact(create("CREATE orders:7 SET total = 5"), Vec::new(), Default::default(), None).await.unwrap();
    store.transact(create("CREATE orders:7 SET total = 6"), Vec::new(), Default::default(), None).await.unwrap_err();
    let found = lying(&store, SHARD).await;
    let (id, event) = (found[0].events[0].id.as_str(), unpack(&found[0].events[0].packed).unwrap());
    assert_eq!((found.len(), id, event.body), (1, "7", Body::Bytes(Bytes::from_static(b"5"))));
}

/// What the samples' calls append is what the samples are.
#[tokio::test]
async fn a_call_has_the_content_that_the_api_would_give_it() {
    let store = memory().await;
    sql(&store, &format!("RETURN {}", call_of("a", "x"))).await.unwrap();
    let wanted = Append::new(stream("a"), vec![admitted(event("x"), true)]);
    assert_eq!(lying(&store, SHARD).await, [Arc::new(wanted)]);
}
