//! What the engine costs by itself: messages go in by batches, through the in-memory store and a transport that
//! acknowledges at once. It prints messages and CPU time a second; it asserts nothing.
//!
//! `cargo run --release -p waybill-engine --example throughput -- [messages] [keys] [tenants] [tasks] [held]`, `held` being destinations that
//! refuse everything all the while.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::cast_precision_loss)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use waybill_core::annotation::Annotation;
use waybill_core::message::Delivery;
use waybill_core::new_message::NewMessage;
use waybill_core::port::transport::TransportLimits;
use waybill_core::route::{Pattern, Route, Routes};
use waybill_engine::{Engine, EngineConfig, Stores, SystemClock};
use waybill_testkit::fake_transport::{Answer, FakeTransport, ack, blocked};
use waybill_testkit::memory_store::MemoryStore;

/// Messages of one request.
const BATCH: u64 = 100;
/// Bytes of one payload.
const PAYLOAD: usize = 300;

struct Wanted {
    messages: u64,
    keys: u64,
    tenants: u64,
    tasks: u64,
    held: u64,
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("arguments are numbers"));
    let mut next = |default| numbers.next().unwrap_or(default);
    let wanted = Wanted { messages: next(1_000_000), keys: next(0), tenants: next(1), tasks: next(8), held: next(0) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run(wanted));
}

async fn run(wanted: Wanted) {
    let memory = Arc::new(MemoryStore::new());
    let transport = FakeTransport::new("noop");
    transport.stop_logging();
    transport.set_limits(|limits| {
        *limits = TransportLimits {
            lanes: 2,
            calls_per_lane: 4,
            max_batch: 100,
            max_batch_bytes: 1 << 20,
            max_payload_bytes: None,
            key_runs: false,
        };
    });
    let delivered = Arc::new(AtomicU64::new(0));
    let all = Arc::new(Notify::new());
    let (count, ring, messages) = (Arc::clone(&delivered), Arc::clone(&all), wanted.messages);
    transport.answer(move |batch| {
        let is_held = |delivery: &Delivery| delivery.destination.starts_with("http");
        let some = batch.deliveries.iter().filter(|delivery| !is_held(delivery)).count() as u64;
        if count.fetch_add(some, Ordering::AcqRel) + some >= messages {
            ring.notify_one();
        }
        Answer::each(batch, |delivery| if is_held(delivery) { blocked("", "HTTP.404") } else { ack() })
    });
    let mut config = EngineConfig::new("bench");
    let route = |pattern: &str| Route::new(Pattern::parse(pattern).unwrap(), "noop");
    config.routes = Routes(vec![route("bus:**"), route("http:**")]);
    config.transports = vec![transport];
    config.batch = 100;
    config.keep_done = Duration::from_millis(200);
    let stores = Stores {
        owner: memory.clone(),
        query: memory.clone(),
        transact: memory.clone(),
        dedup: memory.clone(),
        idempotency: memory.clone(),
    };
    let engine = Engine::start(config, stores, Arc::new(SystemClock));
    let outbox = engine.outbox();
    while outbox.ready().await.iter().any(|check| check.status == waybill_api::status::CheckStatus::Fail) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    for first in (0..wanted.held).step_by(100) {
        let held = (first..(first + 100).min(wanted.held))
            .map(|number| NewMessage { topic: format!("http://held.example/{number}"), ..NewMessage::default() });
        outbox.enqueue(held.collect()).await.unwrap();
    }
    while (outbox.blocked(None).await.unwrap().len() as u64) < wanted.held {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let (began, cpu) = (Instant::now(), cpu_time());
    let payload = Bytes::from(vec![b'x'; PAYLOAD]);
    let share = wanted.messages / wanted.tasks / BATCH;
    let tasks = (0..wanted.tasks).map(|task| {
        let (outbox, payload) = (Arc::clone(&outbox), payload.clone());
        let (keys, tenants) = (wanted.keys, wanted.tenants);
        tokio::spawn(async move {
            for batch in 0..share {
                let messages = || {
                    (0..BATCH).map(|index| {
                        let number = (task * share + batch) * BATCH + index;
                        NewMessage {
                            topic: "bus:shop.event.order_placed.v2".into(),
                            payload: payload.clone(),
                            annotations: [(Annotation::ContentType, "application/json")].into(),
                            key: (keys > 0).then(|| format!("key-{}", number % keys)),
                            tenant: (tenants > 1).then(|| format!("tenant-{}", number % tenants)),
                            ..NewMessage::default()
                        }
                    })
                };
                while outbox.enqueue(messages().collect()).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let enqueued = began.elapsed();
    let total = share * wanted.tasks * BATCH;
    while delivered.load(Ordering::Acquire) < total {
        let _waited = tokio::time::timeout(Duration::from_millis(100), all.notified()).await;
    }
    let (took, used) = (began.elapsed(), cpu_time() - cpu);
    let rate = |time: Duration| total as f64 / time.as_secs_f64();
    println!(
        "{total} messages, {} keys, {} tenants, {} tasks: enqueued {:.0} msg/s, through {:.0} msg/s, {:.2} us CPU a message",
        wanted.keys,
        wanted.tenants,
        wanted.tasks,
        rate(enqueued),
        rate(took),
        used.as_secs_f64() * 1e6 / total as f64
    );
    assert!(engine.drain(Duration::from_secs(10)).await);
}

/// CPU time of this process.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
