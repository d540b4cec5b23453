//! The `rdkafka` crate, producing with idempotence to all replicas in sync, and reading as a member of a group.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};

use crate::{DESTINATION, PAYLOAD, Run, cpu};

/// Bytes of a batch, as the component has them.
const BATCH_BYTES: &str = "1000000";
/// How long it looks for answers before it goes on.
const POLL: Duration = Duration::from_millis(1);
/// Longest wait for the last answers.
const LAST: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Answers {
    acknowledged: AtomicU64,
    failed: AtomicU64,
}

impl ClientContext for Answers {}

impl ProducerContext for Answers {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let count = if result.is_ok() { &self.acknowledged } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Produces with at most `window` messages without an answer. It doesn't wait for a batch to fill up, as the component doesn't.
pub fn run(url: &str, messages: u64, window: usize) -> Result<Run> {
    let producer: BaseProducer<Answers> = ClientConfig::new()
        .set("bootstrap.servers", url.trim_start_matches("kafka://"))
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("linger.ms", "0")
        .set("batch.size", BATCH_BYTES)
        .set("queue.buffering.max.messages", window.to_string())
        .create_with_context(Answers::default())
        .context("creating the producer")?;
    let payload = vec![b'x'; PAYLOAD];
    let (began, before) = (Instant::now(), cpu()?);
    for number in 0..messages {
        let key = format!("customer-{}", number % 1_000);
        let mut record = BaseRecord::to(DESTINATION).key(&key).payload(&payload).headers(headers(number));
        loop {
            match producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    producer.poll(POLL);
                    record = back;
                }
                Err((error, _)) => bail!("producing: {error}"),
            }
        }
        producer.poll(Duration::ZERO);
    }
    producer.flush(LAST).context("waiting for the last answers")?;
    let acknowledged = producer.context().acknowledged.load(Ordering::Relaxed);
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

/// Reads a topic from its beginning, and commits after each `window` messages.
pub fn fetch(url: &str, messages: u64, window: usize) -> Result<Run> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", url.trim_start_matches("kafka://"))
        .set("group.id", "by-hand")
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()
        .context("creating the consumer")?;
    consumer.subscribe(&[DESTINATION]).context("subscribing")?;
    let read = || {
        let asked = Instant::now();
        loop {
            match consumer.poll(LAST) {
                Some(read) => return read.map(drop).context("reading"),
                None if asked.elapsed() > LAST => bail!("nothing more came for {LAST:?}"),
                // What happened to the group ends a poll, too.
                None => {}
            }
        }
    };
    // The first one comes when the group has been joined, which doesn't count.
    read()?;
    let (began, before, mut acknowledged) = (Instant::now(), cpu()?, 1);
    while acknowledged < messages {
        read()?;
        acknowledged += 1;
        if acknowledged.is_multiple_of(window as u64) && acknowledged < messages {
            consumer.commit_consumer_state(CommitMode::Async).context("committing")?;
        }
    }
    consumer.commit_consumer_state(CommitMode::Sync).context("committing the last offsets")?;
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

/// Those that a delivery by Waybill has.
fn headers(number: u64) -> OwnedHeaders {
    let id = format!("01K{number:023}");
    let seq = number.to_string();
    let key = format!("customer-{}", number % 1_000);
    let all = [
        ("id", id.as_str()),
        ("x-tenant", "default"),
        ("x-topic", "bus:orders.created"),
        ("x-key", &key),
        ("x-event-type", "orders.created"),
        ("x-event-version", "1"),
        ("x-seq", &seq),
        ("x-occurred-at", "2026-01-01T00:00:00.000Z"),
        ("x-created-at", "2026-01-01T00:00:00.000Z"),
        ("x-attempt", "1"),
        ("x-lease-epoch", "1"),
        ("content-type", "application/json"),
    ];
    all.iter().fold(OwnedHeaders::new_with_capacity(all.len()), |headers, (key, value)| {
        headers.insert(Header { key, value: Some(*value) })
    })
}
