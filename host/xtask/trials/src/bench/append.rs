//! W10: events appended to streams that are taken in turn, in batches and one by one, over HTTP.
//!
//! Beside it Redis Streams that sync before they answer, and JetStream as it comes, which syncs every two minutes. CPU is the server's
//! alone, on every side: clients do different work.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;
use tokio::task::JoinSet;
use waybill_testkit::load::{Client, usage};
use waybill_testkit::{nats, redis};

use super::Bench;
use super::figure::{Figure, Side};
use super::host::Measured;
use super::native::run_reference;

/// What is measured, in the order in which it is run in turn. Where a side's name says more, it is a further reference.
pub const PARTS: [(&str, Side); 12] = [
    ("W10 1", Side::Waybill),
    ("W10 1", Side::Native),
    ("W10 100", Side::Waybill),
    ("W10 100", Side::Native),
    ("W10 10000", Side::Waybill),
    ("W10 10000", Side::Native),
    (SIXTEEN, Side::Waybill),
    (SIXTEEN, Side::Native),
    (SIXTEEN_CODEC, Side::Native),
    (SIXTEEN_REDIS, Side::Native),
    ("W10 singles", Side::Waybill),
    ("W10 singles", Side::Native),
];
/// The part whose reference is JetStream; beside it JetStream by a bare codec, and Redis.
const SIXTEEN: &str = "W10 16 under way";
const SIXTEEN_CODEC: &str = "W10 16 under way codec";
const SIXTEEN_REDIS: &str = "W10 16 under way redis";

/// Nothing is taken away while it is measured: the references keep everything, too.
pub const KEEP_ALL: &str = "[events]\nretention_per_stream = 1000000000\n";
/// What the names of all streams begin with.
const PREFIX: &str = "bench.";
/// JetStream's stream, and the subjects of those in it.
pub const STREAM: &str = "EVENTS";
pub const SUBJECTS: &str = "events.>";
const BATCH: u64 = 100;
/// Letters of base64 that stand for 300 bytes.
const PAYLOAD: &str = "eHh4";
const PAYLOAD_TIMES: usize = 100;

/// What batches there are.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Batches that aren't acknowledged, each on a connection of its own.
    pub under_way: u64,
    /// Events of a batch, all for one stream.
    pub size: u64,
    pub streams: u64,
    pub events: u64,
}

/// The shape of a part, in which `events` is what other parts of its workload have.
fn shape(name: &str, events: u64) -> Result<Shape> {
    let one = Shape { under_way: 1, size: BATCH, streams: 1, events };
    Ok(match name {
        "W10 1" => one,
        "W10 100" => Shape { streams: 100, ..one },
        // Each stream has one batch at least.
        "W10 10000" => Shape { streams: 10_000, events: events.max(10_000 * BATCH), ..one },
        SIXTEEN | SIXTEEN_CODEC | SIXTEEN_REDIS => Shape { under_way: 16, streams: 100, ..one },
        "W10 singles" => Shape { under_way: 16, size: 1, streams: 16, events: events / 5 },
        other => bail!("{other} is measured by nobody"),
    })
}

/// One run of one side.
pub async fn measure(bench: &Bench, name: &str, side: Side, events: u64) -> Result<Figure> {
    let shape = shape(name, events)?;
    match (name, side) {
        (_, Side::Waybill) => appended(bench, shape).await,
        (SIXTEEN, Side::Native) => to_jetstream(bench, "append-nats", shape).await,
        (SIXTEEN_CODEC, Side::Native) => to_jetstream(bench, "append-codec", shape).await,
        (_, Side::Native) => to_redis(bench, shape).await,
        (name, Side::Store) => bail!("{name} has no side {side}"),
    }
}

async fn appended(bench: &Bench, shape: Shape) -> Result<Figure> {
    let mut host = Measured::start(bench, KEEP_ALL).await?;
    host.mark()?;
    let began = Instant::now();
    let times = append_all(host.api.base(), shape).await?;
    let figure = host.used(Figure::of_rate(shape.events, began.elapsed()).with_times(times))?;
    check(&host, shape).await?;
    host.end().await?;
    Ok(figure)
}

/// The stream of a number.
pub fn stream(number: u64) -> String {
    format!("{PREFIX}{number}")
}

/// Appends all of it; answers the time of each request. Every event is numbered when it is answered.
pub async fn append_all(base: &str, shape: Shape) -> Result<Vec<Duration>> {
    let event = json!({
        "resource_type": "ORDER",
        "resource_id": "order-1",
        "op": "UPDATE",
        "schema_version": 1,
        "content_type": "text/plain",
        "payload_bytes": PAYLOAD.repeat(PAYLOAD_TIMES),
    });
    let body = Bytes::from(json!({ "events": vec![event; usize::try_from(shape.size)?] }).to_string());
    let mut tasks = JoinSet::new();
    for first in 0..shape.under_way {
        let (base, body) = (base.to_owned(), body.clone());
        tasks.spawn(async move {
            let mut client = Client::connect(&base).await?;
            let mut times = Vec::new();
            for batch in (first..shape.events / shape.size).step_by(usize::try_from(shape.under_way)?) {
                let path = format!("/v1/streams/{}/events", stream(batch % shape.streams));
                let began = Instant::now();
                let answer = client.post(&path, body.clone()).await?;
                times.push(began.elapsed());
                let answer = std::str::from_utf8(&answer).context("an answer that is no text")?;
                ensure!(answer.contains("\"seqs\""), "POST {path} answered {answer}");
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(done) = tasks.join_next().await {
        times.extend(done.context("a client ended early")??);
    }
    Ok(times)
}

/// What was acknowledged is there, once.
async fn check(host: &Measured, shape: Shape) -> Result<()> {
    #[derive(Deserialize)]
    struct Kept {
        #[serde(deserialize_with = "waybill_testkit::seq_json::read")]
        last_seq: u64,
    }
    let kept: Vec<Kept> = host.api.list("/v1/streams", &[("prefix", PREFIX)]).await?;
    let (events, streams) = (kept.iter().map(|stream| stream.last_seq).sum::<u64>(), kept.len());
    ensure!(events == shape.events, "{streams} streams have {events} of {} events", shape.events);
    Ok(())
}

async fn to_redis(bench: &Bench, shape: Shape) -> Result<Figure> {
    let options = redis::Options { durable: true, ..redis::Options::default() };
    let server = redis::Server::start_with(options).await.context("starting redis-server: is it installed?")?;
    let figure = native(bench, "append-redis", &server.url(), server.id(), shape).await?;
    let (mut client, mut stored) = (server.client().await?, 0);
    for stream in 0..shape.streams {
        let length = client.ask(&["XLEN", &format!("events:{stream}")]).await?;
        stored += length.text().parse::<u64>().context("the length of a stream")?;
    }
    ensure!(stored == shape.events, "Redis has {stored} of {} events", shape.events);
    Ok(figure)
}

async fn to_jetstream(bench: &Bench, job: &str, shape: Shape) -> Result<Figure> {
    let server = jetstream().await?;
    let figure = native(bench, job, &server.url(), server.id(), shape).await?;
    let info = server.client().await?.api(&format!("STREAM.INFO.{STREAM}"), &json!({})).await?;
    let stored = info.pointer("/state/messages").and_then(serde_json::Value::as_u64).unwrap_or_default();
    ensure!(stored == shape.events, "JetStream has {stored} of {} events", shape.events);
    Ok(figure)
}

/// A server with a stream for events, on file and with its own sync interval.
pub async fn jetstream() -> Result<nats::Server> {
    let server = nats::Server::start().await.context("starting nats-server: is it installed?")?;
    server.client().await?.create_stream(STREAM, &[SUBJECTS], &json!({})).await.context("making the stream")?;
    Ok(server)
}

/// A native client, with the CPU time of its server.
async fn native(bench: &Bench, job: &str, url: &str, server: Option<u32>, shape: Shape) -> Result<Figure> {
    let mut command = Command::new(&bench.natives);
    command.args([job, &shape.events.to_string(), url]);
    command.args([shape.under_way, shape.size, shape.streams].map(|number| number.to_string()));
    by_server(&mut command, job, server, shape.events).await
}

/// Runs a reference; its CPU time is that of the server meanwhile.
pub async fn by_server(command: &mut Command, job: &str, server: Option<u32>, messages: u64) -> Result<Figure> {
    let server = server.context("the server has ended by itself")?;
    let before = usage(server).context("reading what the server used")?;
    let figure = run_reference(command, job, messages).await?;
    let after = usage(server).context("reading what the server used")?;
    let peak = after.resident_peak as f64 / 1_048_576.0;
    let figure = figure.with_cpu(after.cpu.saturating_sub(before.cpu));
    Ok(Figure { resident_peak_mib: Some(peak), ..figure })
}

/// Fills JetStream's stream with events of one subject.
pub async fn fill_jetstream(bench: &Bench, server: &nats::Server, events: u64) -> Result<()> {
    let shape = Shape { under_way: 16, size: BATCH, streams: 1, events };
    native(bench, "append-nats", &server.url(), server.id(), shape).await.map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_part_has_whole_batches_and_every_stream_has_one() {
        for (name, _) in PARTS {
            let shape = shape(name, 200_000).unwrap();
            assert_eq!(shape.events % shape.size, 0, "{name}: {shape:?}");
            assert!(shape.events / shape.size >= shape.streams, "{name}: {shape:?}");
        }
        assert!(shape("W10", 1).is_err());
    }
}
