//! Parts of Waybill by themselves, for `cargo xtask bench`: what they cost without API, sockets and receivers.
//!
//! `alone engine MESSAGES`: the engine over an in-memory SurrealDB and the bundled no-op component (W4).
//! `alone boundary MESSAGES`: the same component called with batches of 100, without an engine.
//! `alone BROKER MESSAGES URL WINDOW`: a broker's component called so, one connection with a window of unacknowledged messages to
//! a server that takes `orders.created` (W5); more messages in a call than in the window.
//! `alone segments MESSAGES DIR`: the store's segment writes of a commit a batch of 100, synced to a disk.
//! `alone keys REQUESTS DIR`: the store's writes for idempotent requests of which each key gets ten, synced to a disk.
//!
//! It prints one JSON line, and asserts no time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use waybill_core::annotation::Annotation;
use waybill_core::endpoint::{EndpointSettings, Grants};
use waybill_core::idempotency::{Act, Answer, EntryKey, Op};
use waybill_core::ids::{HoldToken, IdempotencyKey, Key, MessageId, RequestHash, Seq, Tenant};
use waybill_core::message::{Delivery, Message, Payload};
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::records::{Entry, Segment};
use waybill_core::port::idempotency::IdempotencyStore;
use waybill_core::port::store::{OwnerStore, Write};
use waybill_core::port::transport::{Outcome, OutcomeSink, SendCall, Transport};
use waybill_core::route::{Pattern, Route, Routes};
use waybill_core::time::UnixMillis;
use waybill_core::topic::Topic;
use waybill_engine::{Engine, EngineConfig, Stores, SystemClock};
use waybill_sandbox::{EndpointSpec, PluginSource, Sandbox, SandboxOptions, WasmTransport, World};
use waybill_store::{StoreConfig, SurrealStore};
use waybill_testkit::brokers::{ALL, Broker};
use waybill_testkit::conformance::samples::{self, Owner, SHARD, seq};
use waybill_testkit::load::usage;

/// Messages of a request, a call or a commit.
const BATCH: u64 = 100;
/// Bytes of a payload.
const PAYLOAD: usize = 300;
const PRODUCERS: u64 = 8;
/// Requests of each idempotency key.
const REPEATS: u64 = 10;
/// Idempotency keys of one commit.
const KEYS_BATCH: usize = 32;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let messages: u64 =
        arguments.get(1).and_then(|text| text.parse().ok()).expect("alone PART MESSAGES [DIR | URL WINDOW]");
    assert!(messages.is_multiple_of(BATCH), "MESSAGES is a multiple of {BATCH}");
    let rounds = messages / BATCH;
    let (took, cpu) = match arguments[0].as_str() {
        "engine" => engine(rounds).await,
        "boundary" => drive(noop().await, messages, BATCH).await,
        "segments" => segments(rounds, arguments.get(2).expect("a folder")).await,
        "keys" => keys(messages, arguments.get(2).expect("a folder")).await,
        name => {
            let broker = ALL.iter().find(|broker| broker.name == name);
            let broker = broker.unwrap_or_else(|| panic!("there is no part `{name}`"));
            let window = arguments.get(3).and_then(|text| text.parse().ok()).expect("a window");
            publish(broker, arguments.get(2).expect("a URL"), window, messages).await
        }
    };
    let peak = usage(std::process::id()).unwrap().resident_peak;
    println!(
        "{{\"delivered\":{},\"failed\":0,\"took_ms\":{},\"cpu_ms\":{},\"resident_peak\":{peak}}}",
        messages,
        took.as_secs_f64() * 1e3,
        cpu.as_secs_f64() * 1e3
    );
}

fn cpu() -> Duration {
    usage(std::process::id()).unwrap().cpu
}

async fn noop() -> Arc<WasmTransport> {
    transport("noop", EndpointSettings::new("noop")).await
}

async fn publish(broker: &Broker, url: &str, window: u64, messages: u64) -> (Duration, Duration) {
    let peer = format!("tcp://{}", url.split_once("://").expect("a scheme").1);
    let mut config = json!({ "servers": [url], "connections": 1, "window": window });
    for (setting, value) in broker.settings() {
        config[*setting] = json!(value);
    }
    let settings = EndpointSettings {
        config,
        grants: Grants::none().allow([peer.as_str()]),
        ..EndpointSettings::new(broker.name)
    };
    drive(transport(broker.name, settings).await, messages, broker.batch().max(BATCH)).await
}

async fn transport(name: &str, settings: EndpointSettings) -> Arc<WasmTransport> {
    let sandbox = Sandbox::new(SandboxOptions::default()).unwrap();
    let bundled = waybill_bundled::find(name).expect("is bundled");
    let plugin = sandbox.load(PluginSource::Embedded(bundled.component), World::Transport).await.unwrap();
    WasmTransport::start(plugin, EndpointSpec::new(settings)).await.unwrap()
}

async fn engine(rounds: u64) -> (Duration, Duration) {
    let store = Arc::new(SurrealStore::open(StoreConfig::new("mem://")).await.unwrap());
    let mut config = EngineConfig::new("bench");
    config.exclusive = true;
    config.routes = Routes(vec![Route::new(Pattern::parse("bus:**").unwrap(), "noop")]);
    config.transports = vec![noop().await];
    config.batch = u32::try_from(BATCH).unwrap();
    // What is kept of finished messages is no part of the engine's own speed, and memory isn't the place for it.
    config.keep_done = Duration::from_millis(200);
    let stores = Stores {
        owner: store.clone(),
        query: store.clone(),
        transact: store.clone(),
        dedup: store.clone(),
        idempotency: store,
    };
    let engine = Engine::start(config, stores, Arc::new(SystemClock));
    let outbox = engine.outbox();
    while outbox.ready().await.iter().any(|check| check.status == waybill_api::status::CheckStatus::Fail) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let payload = Bytes::from(format!("\"{}\"", "x".repeat(PAYLOAD - 2)));
    let (began, before) = (Instant::now(), cpu());
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let (outbox, payload) = (Arc::clone(&outbox), payload.clone());
            tokio::spawn(async move {
                for round in (producer..rounds).step_by(PRODUCERS as usize) {
                    let batch = (0..BATCH).map(|index| message(round * BATCH + index, &payload)).collect();
                    outbox.enqueue(batch).await.unwrap();
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.unwrap();
    }
    loop {
        let depths = outbox.stats(None).await.unwrap();
        if depths.iter().all(|depth| depth.ready + depth.leased + depth.parked == 0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let figures = (began.elapsed(), cpu() - before);
    assert!(engine.drain(Duration::from_secs(10)).await, "the engine drains");
    figures
}

fn message(number: u64, payload: &Bytes) -> NewMessage {
    NewMessage {
        topic: "bus:orders.created".into(),
        payload: payload.clone(),
        annotations: [(Annotation::ContentType, "application/json")].into(),
        key: Some(format!("customer-{}", number % 1_000)),
        ..NewMessage::default()
    }
}

struct Nobody;

impl OutcomeSink for Nobody {
    fn settled(&self, _: usize, _: Outcome) {}
}

/// Calls a transport with batches, two callers at a time.
async fn drive(transport: Arc<WasmTransport>, messages: u64, batch: u64) -> (Duration, Duration) {
    let payload = Bytes::from(vec![b'x'; PAYLOAD]);
    let (began, before) = (Instant::now(), cpu());
    let callers: Vec<_> = (0..2)
        .map(|caller| {
            let (transport, payload) = (Arc::clone(&transport), payload.clone());
            tokio::spawn(async move {
                let sample = samples::message("sample");
                for round in (caller..messages.div_ceil(batch)).step_by(2) {
                    let numbers = round * batch..((round + 1) * batch).min(messages);
                    let batch = numbers.map(|number| delivery(&sample, number, &payload)).collect();
                    let outcomes = transport
                        .send_batch(SendCall::new(0, Duration::from_secs(30)), batch, Arc::new(Nobody))
                        .await
                        .unwrap();
                    let failed = outcomes.iter().find(|outcome| !matches!(outcome, Outcome::Ack(_)));
                    assert!(failed.is_none(), "{failed:?}");
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let figures = (began.elapsed(), cpu() - before);
    transport.close(Duration::from_secs(5)).await;
    figures
}

fn delivery(sample: &Message, number: u64, payload: &Bytes) -> Delivery {
    let mut message = sample.clone();
    message.id = MessageId::new(format!("01K{number:023}")).unwrap();
    message.key = Some(Key::new(format!("customer-{}", number % 1_000)).unwrap());
    message.tenant = Tenant::new("default").unwrap();
    message.topic = Topic::parse("bus:orders.created").unwrap();
    message.headers.clear();
    message.payload = Payload::Inline(payload.clone());
    message.created_at = UnixMillis(1_700_000_000_000);
    Delivery {
        message: Arc::new(message),
        payload: payload.clone(),
        destination: "orders.created".to_owned(),
        attempt: 1,
        lease_epoch: 1,
        seq: Seq(number),
        attributes: Vec::new(),
    }
}

/// Each commit writes the shard record, a new segment, and removes the one before: what a batch costs the store at least.
async fn segments(rounds: u64, dir: &str) -> (Duration, Duration) {
    let store = SurrealStore::open(StoreConfig::new(format!("surrealkv://{dir}"))).await.unwrap();
    let mut owner = Owner::new();
    owner.record = store.shard(SHARD).await.unwrap();
    let base = owner.record.last.0.max(seq(0, 0).0) + 1;
    let (began, before) = (Instant::now(), cpu());
    for round in 0..rounds {
        let first = Seq(base + round * 5_000);
        let mut writes = vec![Write::PutSegment(Arc::new(segment(first)))];
        if round > 0 {
            writes.push(Write::DeleteSegment(Seq(first.0 - 5_000)));
        }
        let mut commit = owner.next(writes);
        commit.record.last = Seq(first.0 + BATCH);
        let record = commit.record.clone();
        store.commit(commit).await.unwrap();
        owner.record = record;
    }
    let figures = (began.elapsed(), cpu() - before);
    store.close().await.unwrap();
    figures
}

/// Begins and finishes, half as many in a commit as there are requests at once: the other half is in the other lane.
async fn keys(requests: u64, dir: &str) -> (Duration, Duration) {
    let store = SurrealStore::open(StoreConfig::new(format!("surrealkv://{dir}"))).await.unwrap();
    let now = UnixMillis(1_800_000_000_000);
    let minute = Duration::from_secs(60);
    let op = |key: u64, act: Act| Op {
        of: EntryKey { tenant: Tenant::unnamed(), key: IdempotencyKey::new(format!("order-{key}")).unwrap() },
        act,
    };
    let (began, before) = (Instant::now(), cpu());
    let all: Vec<u64> = (0..requests / REPEATS).collect();
    for some in all.chunks(KEYS_BATCH) {
        let token = |key: u64| HoldToken::of_bits(u128::from(key));
        let hash = RequestHash::new("9f86d081884c7d659a2feaa0c55ad015").unwrap();
        let begin =
            |key: &u64| op(*key, Act::Begin { hash: hash.clone(), token: token(*key), ttl: minute, lease: minute });
        let finish = |key: &u64| {
            op(*key, Act::Finish { token: token(*key), answer: Answer::of_json(format!("{{\"order\":{key}}}")) })
        };
        store.act(&some.iter().map(begin).collect::<Vec<_>>(), now).await.unwrap();
        store.act(&some.iter().map(finish).collect::<Vec<_>>(), now).await.unwrap();
    }
    let figures = (began.elapsed(), cpu() - before);
    store.close().await.unwrap();
    figures
}

fn segment(first: Seq) -> Segment {
    let payload = Bytes::from(vec![b'x'; PAYLOAD]);
    let entries = (0..BATCH).map(|index| {
        let mut message = samples::message(&format!("01J0000000000000000000{index:04}"));
        message.payload = Payload::Inline(payload.clone());
        Entry { index: u16::try_from(index).unwrap(), message: Arc::new(message) }
    });
    Segment { first, tenant: samples::tenant("acme"), entries: entries.collect() }
}
