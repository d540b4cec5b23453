//! W12: events as they come over gRPC, with a connection for each subscriber: how long from when an event was due until a subscriber has it,
//! and what the server needs for a delivery. A thousand subscribers of which half don't read: what they cost in memory, and whether others
//! notice.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use waybill_testkit::grpc_subscriber::{After, Answers, Call};
use waybill_testkit::load::Client;
use waybill_testkit::redis;

use super::Bench;
use super::append::{by_server, jetstream};
use super::figure::{Figure, Side};
use super::host::Measured;

/// What is measured, in the order in which it is run in turn. `500 of 1000` is beside `500`: nobody else has such subscribers.
pub const PARTS: [(&str, Side); 6] = [
    ("W12 1", Side::Waybill),
    ("W12 1", Side::Native),
    ("W12 100", Side::Waybill),
    ("W12 100", Side::Native),
    ("W12 500", Side::Waybill),
    ("W12 500 of 1000", Side::Waybill),
];

/// Room for a thousand connections from one address, of which one tenant may have half.
const CONFIG: &str = "[server]\nmax_connections = 8192\nmax_connections_per_peer = 8192\n\
    [events]\nretention_per_stream = 1000000000\n";
const STREAM: &str = "live";
/// Connections that publish in turn: each waits for the sync of what it sent.
const PUBLISHERS: u64 = 16;
/// Events before those that count.
const WARM_UP: u64 = 500;
/// Before the first event, so that everybody reads.
const AHEAD: Duration = Duration::from_millis(500);
/// A host from which nothing comes for this long is stuck.
const PATIENCE: Duration = Duration::from_secs(30);
/// Beginning of a resource's id; what follows is when the event was due, in nanoseconds.
const DUE: &str = "at-";
/// Letters of base64 that stand for 300 bytes.
const PAYLOAD: &str = "eHh4";
const PAYLOAD_TIMES: usize = 100;
/// What the system holds for a subscriber that doesn't read, in bytes; HTTP/2 lets the host send 64 KiB.
const HELD: u32 = 16 * 1024;
/// How long a host is left alone before its memory is read.
const REST: Duration = Duration::from_secs(2);

/// How much, and to how many.
#[derive(Clone, Copy, Debug)]
struct Load {
    events: u64,
    /// How many of them come in a second.
    rate: u64,
    subscribers: u64,
    /// Beside those: subscribers that don't read.
    stopped: u64,
}

/// The load of a part; `events` is what is published in ten seconds at a thousand a second.
fn load(name: &str, events: u64) -> Result<Load> {
    let one = Load { events, rate: 1_000, subscribers: 1, stopped: 0 };
    let many = Load { events: events / 10, rate: 100, subscribers: 500, stopped: 0 };
    Ok(match name {
        "W12 1" => one,
        "W12 100" => Load { subscribers: 100, ..one },
        "W12 500" => many,
        "W12 500 of 1000" => Load { stopped: 500, ..many },
        other => bail!("{other} is measured by nobody"),
    })
}

/// One run of one side.
pub async fn measure(bench: &Bench, name: &str, side: Side, events: u64) -> Result<Figure> {
    let load = load(name, events)?;
    match (side, load.subscribers) {
        (Side::Waybill, _) => subscribed(bench, load).await,
        (Side::Native, 1) => {
            let options = redis::Options { durable: true, ..redis::Options::default() };
            let server = redis::Server::start_with(options).await.context("starting redis-server: is it installed?")?;
            native(bench, "live-redis", &server.url(), server.id(), load).await
        }
        (Side::Native, _) => {
            let server = jetstream().await?;
            native(bench, "live-nats", &server.url(), server.id(), load).await
        }
        (side, _) => bail!("{name} has no side {side}"),
    }
}

async fn native(bench: &Bench, job: &str, url: &str, server: Option<u32>, load: Load) -> Result<Figure> {
    raise_limit()?;
    let deliveries = load.events * load.subscribers;
    let mut command = Command::new(&bench.natives);
    command.args([job, &deliveries.to_string(), url]);
    command.args([load.rate, load.subscribers, WARM_UP].map(|number| number.to_string()));
    by_server(&mut command, job, server, deliveries).await
}

async fn subscribed(bench: &Bench, load: Load) -> Result<Figure> {
    raise_limit()?;
    let mut host = Measured::start(bench, CONFIG).await?;
    tokio::time::sleep(REST).await;
    let idle = host.resident()?;
    let (base, origin) = (host.api.base().to_owned(), Instant::now());
    let call = Call::subscribe(&format!("stream:{STREAM}"), After::Nothing);
    let mut stopped = Vec::new();
    for _ in 0..load.stopped {
        stopped.push(Answers::open(&base, &call, Some(HELD)).await?);
    }
    let mut reading = JoinSet::new();
    for _ in 0..load.subscribers {
        let answers = Answers::open(&base, &call, None).await?;
        reading.spawn(take(answers, origin, load.events));
    }
    host.mark()?;
    let began = std::time::Instant::now();
    publish(&base, origin, load).await?;
    let mut times = Vec::new();
    while let Some(done) = reading.join_next().await {
        times.extend(done.context("a subscriber ended early")??);
    }
    let figure = Figure::of_rate(load.events * load.subscribers, began.elapsed()).with_times(times);
    let figure = host.used(figure)?;
    // What is held for those that don't read is there still: they are cut off later.
    let above_idle = host.resident()?.saturating_sub(idle) as f64 / 1_048_576.0;
    drop(stopped);
    host.end().await?;
    Ok(Figure { resident_peak_mib: Some(above_idle), ..figure })
}

/// Ages of the events behind the warm-up.
async fn take(mut answers: Answers, origin: Instant, events: u64) -> Result<Vec<Duration>> {
    let mut ages = Vec::new();
    for seen in 0..WARM_UP + events {
        let next = timeout(PATIENCE, answers.next()).await;
        let answer = next.with_context(|| format!("{seen} events came, and then nothing"))??;
        let event = answer.with_context(|| format!("{seen} events came, and then the end"))?;
        if seen >= WARM_UP {
            let due = due(event.resource_id()).context("an event without its time")?;
            ages.push(origin.elapsed().saturating_sub(due));
        }
    }
    Ok(ages)
}

fn due(resource_id: &str) -> Option<Duration> {
    resource_id.strip_prefix(DUE)?.parse().ok().map(Duration::from_nanos)
}

/// Publishes at fixed instants, whatever became of the events before.
async fn publish(base: &str, origin: Instant, load: Load) -> Result<()> {
    let begin = Instant::now() + AHEAD;
    let every = Duration::from_secs(1) / u32::try_from(load.rate)?;
    let mut tasks = JoinSet::new();
    for first in 0..PUBLISHERS {
        let base = base.to_owned();
        tasks.spawn(async move {
            let mut client = Client::connect(&base).await?;
            for number in (first..WARM_UP + load.events).step_by(PUBLISHERS as usize) {
                let due = begin + every * u32::try_from(number)?;
                // One whose turn came late counts from when it was due; how late a timer wakes is no part of it.
                let made = if Instant::now() > due {
                    due
                } else {
                    sleep_until(due).await;
                    Instant::now()
                };
                client.post(&format!("/v1/streams/{STREAM}/events"), event(made.duration_since(origin))).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.context("a publisher ended early")??;
    }
    Ok(())
}

fn event(made: Duration) -> Bytes {
    let event = json!({
        "resource_type": "ORDER",
        "resource_id": format!("{DUE}{}", made.as_nanos()),
        "op": "UPDATE",
        "schema_version": 1,
        "content_type": "text/plain",
        "payload_bytes": PAYLOAD.repeat(PAYLOAD_TIMES),
    });
    Bytes::from(json!({ "events": [event] }).to_string())
}

/// As many files as this process may have: a connection is one, here and in the servers that it starts.
fn raise_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).context("raising the limit of open files")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_event_says_when_it_was_due() {
        let made = Duration::from_nanos(1_234_567);
        let request: serde_json::Value = serde_json::from_slice(&event(made)).unwrap();
        assert_eq!(due(request["events"][0]["resource_id"].as_str().unwrap()), Some(made));
        assert_eq!(due("r-1"), None);
    }

    #[test]
    fn every_part_has_its_load() {
        for (name, _) in PARTS {
            let load = load(name, 10_000).unwrap();
            assert_eq!(load.events / load.rate, 10, "{name}: ten seconds");
        }
        assert!(load("W12", 1).is_err());
    }
}
