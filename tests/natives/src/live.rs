//! Events as they come: a publisher that keeps to the clock, and subscribers with a connection each. Times are from when an event was due.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use async_nats::jetstream;
use async_nats::jetstream::consumer::{DeliverPolicy, push};
use bytes::Bytes;
use futures::StreamExt as _;
use redis::streams::StreamReadReply;
use redis::{Client, Value};

use crate::replay::STREAM;
use crate::{PAYLOAD, Run, cpu};

/// The stream in Redis, and its field.
const KEY: &str = "events:live";
const FIELD: &str = "event";
const SUBJECT: &str = "events.live";
/// Connections that publish to Redis in turn: each waits for the sync of what it sent.
const PUBLISHERS: u64 = 16;
/// Entries of one read.
const PAGE: u64 = 1_000;
/// A server from which nothing comes for this long is broken.
const PATIENCE: Duration = Duration::from_secs(30);
/// Publications that aren't acknowledged.
const PENDING_MAX: usize = 1_000;
/// Before the first event, so that everybody reads.
const AHEAD: Duration = Duration::from_millis(500);

/// How much, and to how many.
#[derive(Clone, Copy)]
pub struct Load {
    /// Events that count, and those before them.
    pub events: u64,
    pub warm_up: u64,
    /// How many of them come in a second.
    pub rate: u64,
    pub subscribers: usize,
}

impl Load {
    fn all(self) -> u64 {
        self.warm_up + self.events
    }

    fn due(self, begin: Instant, number: u64) -> Instant {
        begin + Duration::from_nanos(1_000_000_000 / self.rate * number)
    }
}

/// How old each event was when a subscriber had it.
#[derive(Default)]
struct Ages(Vec<Duration>);

impl Ages {
    /// Of an event that says when it was due, in nanoseconds.
    fn take(&mut self, origin: Instant, payload: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(payload).context("a payload that is no text")?;
        let due = text.split(' ').next().and_then(|nanos| nanos.parse().ok()).context("a payload without a time")?;
        self.0.push(origin.elapsed().saturating_sub(Duration::from_nanos(due)));
        Ok(())
    }

    /// Without those of the warm-up.
    fn counted(self, load: Load) -> Vec<Duration> {
        self.0.into_iter().skip(usize::try_from(load.warm_up).unwrap_or(usize::MAX)).collect()
    }
}

fn payload(origin: Instant, made: Instant) -> String {
    let mut payload = format!("{} ", made.duration_since(origin).as_nanos());
    payload.push_str(&"x".repeat(PAYLOAD.saturating_sub(payload.len())));
    payload
}

/// The `redis` crate: `XADD` by connections in turn, `XREAD BLOCK` by each subscriber.
pub fn redis(url: &str, load: Load) -> Result<(Run, Vec<Duration>)> {
    let client = Client::open(url).context("reading the URL")?;
    let (origin, before) = (Instant::now(), cpu()?);
    // A subscriber that can't connect comes here all the same.
    let ready = Barrier::new(load.subscribers + 1);
    let times = thread::scope(|scope| {
        let (client, ready) = (&client, &ready);
        let reading: Vec<_> =
            (0..load.subscribers).map(|_| scope.spawn(move || read_redis(client, ready, origin, load))).collect();
        ready.wait();
        let begin = Instant::now() + AHEAD;
        let publishing: Vec<_> = (0..PUBLISHERS)
            .map(|first| scope.spawn(move || publish_redis(client, origin, begin, load, first)))
            .collect();
        for thread in publishing {
            thread.join().map_err(|_| anyhow!("a publisher's thread died"))??;
        }
        let mut times = Vec::new();
        for thread in reading {
            times.extend(thread.join().map_err(|_| anyhow!("a subscriber's thread died"))??);
        }
        anyhow::Ok(times)
    })?;
    let acknowledged = times.len() as u64;
    Ok((Run { acknowledged, took: origin.elapsed(), cpu: cpu()?.saturating_sub(before) }, times))
}

fn publish_redis(client: &Client, origin: Instant, begin: Instant, load: Load, first: u64) -> Result<()> {
    let mut connection = client.get_connection().context("connecting")?;
    for number in (first..load.all()).step_by(PUBLISHERS as usize) {
        let due = load.due(begin, number);
        let wait = due.saturating_duration_since(Instant::now());
        thread::sleep(wait);
        // How late a timer wakes is no part of it.
        let made = if wait.is_zero() { due } else { Instant::now() };
        let payload = payload(origin, made);
        redis::cmd("XADD").arg(KEY).arg("0-*").arg(FIELD).arg(payload).exec(&mut connection).context("adding")?;
    }
    Ok(())
}

fn read_redis(client: &Client, ready: &Barrier, origin: Instant, load: Load) -> Result<Vec<Duration>> {
    let connected = client.get_connection().context("connecting");
    ready.wait();
    let mut connection = connected?;
    let (mut ages, mut last) = (Ages::default(), "0-0".to_owned());
    while (ages.0.len() as u64) < load.all() {
        let mut read = redis::cmd("XREAD");
        read.arg("COUNT").arg(PAGE).arg("BLOCK").arg(PATIENCE.as_millis() as u64).arg("STREAMS").arg(KEY).arg(&last);
        let page: Option<StreamReadReply> = read.query(&mut connection).context("reading")?;
        let Some(page) = page else { bail!("nothing came for {} s", PATIENCE.as_secs()) };
        for entry in page.keys.into_iter().flat_map(|key| key.ids) {
            if let Some(Value::BulkString(payload)) = entry.map.get(FIELD) {
                ages.take(origin, payload)?;
            }
            last = entry.id;
        }
    }
    Ok(ages.counted(load))
}

/// async-nats: an ordered push consumer for each subscriber, one connection that publishes.
pub async fn nats(url: &str, load: Load) -> Result<(Run, Vec<Duration>)> {
    let (origin, before) = (Instant::now(), cpu()?);
    let mut reading = Vec::new();
    for _ in 0..load.subscribers {
        let client = async_nats::connect(url).await.context("connecting")?;
        let stream = jetstream::new(client.clone()).get_stream(STREAM).await.context("asking for the stream")?;
        let config = push::OrderedConfig {
            deliver_subject: client.new_inbox(),
            deliver_policy: DeliverPolicy::New,
            ..push::OrderedConfig::default()
        };
        let consumer = stream.create_consumer(config).await.context("making a consumer")?;
        let mut arriving = consumer.messages().await.context("reading")?;
        reading.push(tokio::spawn(async move {
            let mut ages = Ages::default();
            while (ages.0.len() as u64) < load.all() {
                let next = tokio::time::timeout(PATIENCE, arriving.next()).await.context("nothing came for long")?;
                let Some(message) = next else { bail!("the stream of messages ended") };
                ages.take(origin, &message.context("reading")?.payload)?;
            }
            anyhow::Ok(ages.counted(load))
        }));
    }
    publish_nats(url, origin, load).await?;
    let mut times = Vec::new();
    for task in reading {
        times.extend(task.await.context("a subscriber's task died")??);
    }
    let acknowledged = times.len() as u64;
    Ok((Run { acknowledged, took: origin.elapsed(), cpu: cpu()?.saturating_sub(before) }, times))
}

async fn publish_nats(url: &str, origin: Instant, load: Load) -> Result<()> {
    let context = jetstream::new(async_nats::connect(url).await.context("connecting")?);
    let (begin, mut pending) = (Instant::now() + AHEAD, VecDeque::new());
    for number in 0..load.all() {
        let due = load.due(begin, number);
        let made = if Instant::now() > due {
            due
        } else {
            tokio::time::sleep_until(due.into()).await;
            Instant::now()
        };
        let payload = Bytes::from(payload(origin, made));
        pending.push_back(context.publish(SUBJECT, payload).await?);
        if pending.len() >= PENDING_MAX
            && let Some(oldest) = pending.pop_front()
        {
            oldest.await?;
        }
    }
    for sent in pending {
        sent.await?;
    }
    Ok(())
}
