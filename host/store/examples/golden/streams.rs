//! Event streams: what a host of today keeps of them while it runs, and what is put beside it while none does.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::ids::ShardId;
use waybill_core::port::stream_store::StreamStore;
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::event::Event;
use waybill_core::streams::records::{Append, Refusal, StreamDead, StreamWrite};
use waybill_store::SurrealStore;
use waybill_testkit::conformance::samples::T0;
use waybill_testkit::conformance::stream_samples::{Writer, admitted, append, event, exact, relay, stream};
use waybill_testkit::golden::{RELAY, Step, holds};

use crate::make::{Making, PATIENCE, PAUSE};
use crate::raw::Raw;

/// An embedded store has this one.
const SHARD: ShardId = ShardId(0);
/// The tables of streams.
const TABLES: [&str; 16] = [
    "stream",
    "stream_rest",
    "event",
    "event_blob",
    "stream_door",
    "stream_shard",
    "stream_feed",
    "event_id",
    "event_id_due",
    "stream_node",
    "stream_type",
    "event_resource",
    "stream_due",
    "stream_dead",
    "relay_at",
    "relay_overtaken",
];
/// Three bytes in base64, and how many times over they make a payload that doesn't lie in its chunk.
const GROUP: (&str, usize) = ("eHh4", 30_000);
/// Events of one append that make a chunk which is merged no more.
const SEALED: usize = 70;
/// Within so long a stream is indexed, and gets the row that says when its age is looked at.
const UPKEEP: Duration = Duration::from_secs(3);

/// An event with every field, of one of three resources.
fn full(number: usize) -> Value {
    json!({
        "event_id": format!("golden-{number}"), "resource_type": "GOLDEN", "resource_id": format!("r-{}", number % 3),
        "op": "STATE_TRANSITION", "schema_version": 2, "node_uuid": "golden-node", "correlation_id": "golden-correlation",
        "cause": "golden cause", "headers": { "causation-id": "golden-causation" }, "content_type": "application/json",
        "payload_bytes": "eyJnb2xkZW4iOjF9",
    })
}

fn small(id: &str) -> Value {
    json!({ "event_id": id, "resource_type": "SMALL", "resource_id": id, "op": "CREATE", "schema_version": 1 })
}

fn events_of(name: &str) -> String {
    format!("/v1/streams/{name}/events")
}

fn page_of(name: &str) -> String {
    format!("/v1/streams/{name}/events?tenant=acme&limit=1000")
}

fn body(events: Vec<Value>) -> Value {
    json!({ "tenant": "acme", "events": events })
}

fn exactly(expected: u64, events: Vec<Value>) -> Value {
    json!({ "tenant": "acme", "events": events, "expected_seq": expected })
}

/// Appends, reads, purges and relays, as a host does.
pub async fn keep(making: &mut Making) {
    chunks(making).await;
    appends(making).await;
    kept(making).await;
    relayed(making).await;
    tokio::time::sleep(UPKEEP).await;
}

/// In a chunk that is merged no more, whose resources are in the index, and in chunks of one event.
async fn chunks(making: &mut Making) {
    making.post(&events_of("golden.chunks"), body((0..SEALED).map(full).collect())).await;
    for number in SEALED..90 {
        making.post(&events_of("golden.chunks"), body(vec![full(number)])).await;
    }
    let (mut first, last) = (full(0), json!({ "event_id": "golden-89", "seq": "90" }));
    (first["seq"], first["stream"], first["tenant"]) = (json!("1"), json!("golden.chunks"), json!("acme"));
    let whole = json!({ "first_seq": "1", "last_seq": "90", "end": true, "items": [first, last] });
    making.get("a stream", &page_of("golden.chunks"), whole);
    making.get(
        "events of a resource",
        "/v1/events?tenant=acme&resource_type=GOLDEN&resource_id=r-1&limit=1000",
        json!({ "items": [{ "event_id": "golden-1" }, { "event_id": "golden-88", "seq": "89" }] }),
    );
    let prefix = "/v1/events?tenant=acme&prefix=golden.chunks";
    let page = making.api.get(&format!("{prefix}&limit=3"), &[]).await.unwrap().body;
    let cursor = page["next_cursor"].as_str().unwrap();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.~".contains(letter);
    assert!(cursor.chars().all(is_plain), "{cursor}");
    let behind = format!("{prefix}&limit=1&cursor={cursor}");
    making.get("a cursor of many streams", &behind, json!({ "items": [{ "event_id": "golden-3", "seq": "4" }] }));
}

/// A repeat is known, and so is where a stream ends.
async fn appends(making: &mut Making) {
    let known = json!({ "seqs": ["1"], "duplicates": ["golden-0"] });
    making.act("an id that is known", &events_of("golden.chunks"), body(vec![full(0)]), 201, known);
    making.act(
        "and belongs to its event",
        &events_of("golden.chunks"),
        body(vec![small("golden-0")]),
        409,
        Value::Null,
    );
    let two = vec![small("exact-1"), small("exact-2")];
    making.post(&events_of("golden.exact"), exactly(0, two)).await;
    let three = exactly(2, vec![small("exact-3")]);
    making.act("it ends elsewhere", &events_of("golden.exact"), exactly(1, vec![small("exact-0")]), 409, Value::Null);
    making.act("it goes on at its end", &events_of("golden.exact"), three, 201, json!({ "seqs": ["3"] }));

    let mut large = small("large");
    large["payload_bytes"] = json!(GROUP.0.repeat(GROUP.1));
    making.post(&events_of("golden.large"), body(vec![small("before"), large])).await;
    let (path, group) = (format!("{}&after=1", page_of("golden.large")), GROUP.0.to_owned());
    making.steps.push(Step::Large { path, group, times: GROUP.1 });
}

/// What was purged, and what is looked at by its age.
async fn kept(making: &mut Making) {
    for number in 0..5 {
        making.post(&events_of("golden.purged"), body(vec![small(&format!("purged-{number}"))])).await;
    }
    let purge = json!({ "before": 4, "reason": "golden" });
    making.post("/v1/streams/golden.purged/purge?tenant=acme", purge).await;
    let shown = making.api.get("/v1/streams/golden.purged?tenant=acme", &[]).await.unwrap().body;
    let first = &shown["first_seq"];
    assert!(SeqJson::in_value(first) > Some(1), "{shown}");
    let last = json!({ "event_id": "purged-4", "seq": "5" });
    making.get("what a purge left", &page_of("golden.purged"), json!({ "first_seq": first, "items": [last] }));
    making.get_refused("what a purge took", &format!("{}&after=0", page_of("golden.purged")), 410);
    making.post(&events_of("golden.aged"), body(vec![small("aged")])).await;
    making.get(
        "what is kept by age",
        &page_of("golden.aged"),
        json!({ "first_seq": "1", "items": [{ "event_id": "aged" }] }),
    );
    making.get(
        "streams",
        "/v1/streams?tenant=acme&prefix=golden.",
        json!({ "items": [{ "name": "golden.aged", "last_seq": "1" }] }),
    );
}

/// A relay that has sent some of a stream and was paused.
async fn relayed(making: &mut Making) {
    let path = format!("/v1/relays/{RELAY}");
    let names = |from: usize, to: usize| (from..to).map(|number| small(&format!("relayed-{number}"))).collect();
    making.post(&events_of("golden.relayed"), body(names(0, 3))).await;
    until(making, &path, json!({ "delivered": 3, "streams_behind": 0 })).await;
    making.post(&format!("{path}/pause"), json!({ "reason": "golden" })).await;
    making.post(&events_of("golden.relayed"), body(names(3, 5))).await;
    let place = json!({ "stream": "golden.relayed", "tenant": "acme", "upto": "3", "named_to": "5", "generation": 0 });
    let paused = json!({ "state": "paused", "behind": [place] });
    until(making, &path, paused.clone()).await;
    making.get("a paused relay", &path, paused);
    making.act("it is resumed", &format!("{path}/resume"), json!({ "reason": "golden" }), 200, Value::Null);
    // Without its checkpoint it would send all five.
    making.get("it goes on where it was", &path, json!({ "state": "running", "streams_behind": 0, "delivered": 2 }));
}

async fn until(making: &Making, path: &str, answer: Value) {
    let so = async {
        while !holds(&answer, &making.api.get(path, &[]).await.unwrap().body) {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(PATIENCE, so).await.unwrap_or_else(|_| panic!("{path} never was {answer}"));
}

/// What lies on the doorstep while no host runs, with an id that is taken by then, an exact append that its owner hasn't heard of, and what
/// needs a broker that refuses.
pub async fn put(making: &mut Making, store: &SurrealStore) {
    let other = Event { cause: Some("another one".into()), ..event("door-1") };
    let other = Append::new(stream("golden.door"), vec![admitted(other, true)]);
    let appends = [append("golden.door", &["door-1", "door-2"]), other].map(|append| (SHARD, Arc::new(append)));
    store.append_at_door(&appends).await.unwrap();
    store.append_exact(&exact("golden.noted", &["noted-1"], 0), T0).await.unwrap().unwrap();
    let dead = StreamDead::Relay {
        relay: relay(RELAY),
        stream: stream("golden.chunks"),
        seq: 7,
        packed: admitted(event("refused"), true).packed,
        why: Refusal { code: "GOLDEN.REFUSED".into(), reason: "never".into() },
    };
    let (relay, of) = (relay(RELAY), stream("golden.purged"));
    let overtaken = StreamWrite::NoteOvertaken { relay, stream: of, from: 1, to: 2 };
    let record = store.stream_shard(SHARD).await.unwrap();
    let mut writer = Writer { shard: SHARD, record };
    writer.write(store, vec![StreamWrite::PutDead(Box::new(dead)), overtaken]).await;

    let numbered = json!([{ "event_id": "door-1", "seq": "1" }, { "event_id": "door-2", "seq": "2" }]);
    making.get("the doorstep of streams", &page_of("golden.door"), json!({ "items": numbered }));
    making.get(
        "an exact append is named",
        "/v1/streams/golden.noted?tenant=acme",
        json!({ "last_seq": "1", "named_to": "1" }),
    );
    let taken = json!({ "kind": "event", "event_id": "door-1", "stream": "golden.door", "code": "EVENT.ID_TAKEN" });
    let refused =
        json!({ "kind": "event", "event_id": "refused", "relay": RELAY, "seq": "7", "code": "GOLDEN.REFUSED" });
    making.get("dead letters of streams", "/v1/dead-letters?filter=kind%3Devent", json!({ "items": [taken, refused] }));
    let range = json!({ "stream": "golden.purged", "tenant": "acme", "from": "1", "to": "2" });
    making.get("what a relay never had", &format!("/v1/relays/{RELAY}/overtaken"), json!({ "items": [range] }));
}

/// Each table of streams has something in it, else a later version would find nothing to read.
pub async fn is_whole(raw: &Raw) {
    for table in TABLES {
        let rows = raw.run(&format!("SELECT VALUE 1 FROM {table} LIMIT 1")).await;
        assert!(rows.as_array().is_some_and(|rows| !rows.is_empty()), "{table} is empty");
    }
}
