//! Native clients that Waybill is measured against: what somebody writes who does one of its jobs by hand, in its best form.
//!
//! `natives JOB MESSAGES ...` does the job for so many messages and prints one JSON line: how many were acknowledged, the
//! time it took, the CPU time of this process.
//!
//! | job | further arguments | file | what |
//! |---|---|---|---|
//! | `nats` | URL WINDOW | `nats` | publishes to JetStream |
//! | `rabbitmq` | URL WINDOW | `rabbitmq` | publishes by AMQP 0-9-1 with confirms |
//! | `redis` | URL WINDOW | `redis` | adds to a stream in pipelines |
//! | `mqtt` | URL WINDOW | `mqtt` | publishes by MQTT 5 with quality of service 1 |
//! | `kafka` | URL WINDOW | `kafka` | produces with idempotence, `acks=all` |
//! | `pulsar` | URL WINDOW | `pulsar` | sends over the binary protocol in batches |
//! | `fill` | URL WINDOW KEYS | `nats` | publishes what others then read; 0 keys: none has one |
//! | `fetch` | URL WINDOW | `fetch` | reads a stream and acknowledges, nothing else |
//! | `fetch-kafka`, `fetch-pulsar`, `fetch-mqtt` | URL WINDOW | `kafka`, `pulsar`, `mqtt` | the same from these |
//! | `append-redis`, `append-nats` | URL UNDER_WAY SIZE STREAMS | `append` | appends batches to streams in turn |
//! | `replay-nats` | URL | `replay` | reads a stream of events from its beginning |
//! | `append-codec`, `replay-codec` | as those to NATS | `codec` | the same by a bare codec |
//! | `live-redis`, `live-nats` | URL RATE SUBSCRIBERS WARM_UP | `live` | publishes by the clock to subscribers; messages are deliveries |
//! | `worker` | URL WINDOW POSTGRES HANDLER | `worker` | source document 5's worker: stream, inbox table, POST |
//! | `relay` | POSTGRES SINK mark\|delete | `relay` | relays an outbox table, each aggregate in order |
//! | `relay-unordered` | POSTGRES SINK mark\|delete | `relay` | the same without any order |
//!
//! A sink is `nats://...` or `http://...` (`sink`).

mod append;
mod codec;
mod fetch;
mod kafka;
mod live;
mod mqtt;
mod nats;
mod pulsar;
mod rabbitmq;
mod redis;
mod relay;
mod replay;
mod sink;
mod worker;

use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Bytes of a payload.
const PAYLOAD: usize = 300;
/// Where every message goes.
const DESTINATION: &str = "orders.created";

/// What a run took.
struct Run {
    acknowledged: u64,
    took: Duration,
    cpu: Duration,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [job, messages, rest @ ..] = words.as_slice() else { bail!("usage: natives JOB MESSAGES ...") };
    let messages: u64 = messages.parse().context("the number of messages")?;
    let mut times = Vec::new();
    let run = match (*job, rest) {
        ("nats", [url, window]) => nats::run(url, messages, size(window)?).await?,
        ("rabbitmq", [url, window]) => rabbitmq::run(url, messages, size(window)?).await?,
        ("redis", [url, window]) => redis::run(url, messages, size(window)?)?,
        ("mqtt", [url, window]) => mqtt::run(url, messages, size(window)?).await?,
        ("kafka", [url, window]) => kafka::run(url, messages, size(window)?)?,
        ("pulsar", [url, window]) => pulsar::run(url, messages, size(window)?).await?,
        ("fill", [url, window, keys]) => nats::fill(url, messages, size(window)?, keys.parse()?).await?,
        ("fetch", [url, window]) => fetch::run(url, messages, size(window)?).await?,
        ("fetch-kafka", [url, window]) => kafka::fetch(url, messages, size(window)?)?,
        ("fetch-pulsar", [url, window]) => pulsar::fetch(url, messages, size(window)?).await?,
        ("fetch-mqtt", [url, window]) => mqtt::fetch(url, messages, size(window)?).await?,
        ("append-redis", [url, shape @ ..]) => append::redis(url, messages, batches(shape)?)?,
        ("append-nats", [url, shape @ ..]) => append::nats(url, messages, batches(shape)?).await?,
        ("append-codec", [url, shape @ ..]) => codec::append(url, messages, batches(shape)?)?,
        ("replay-nats", [url]) => replay::run(url, messages).await?,
        ("replay-codec", [url]) => codec::replay(url, messages)?,
        ("live-redis", [url, load @ ..]) => {
            let (run, ages) = live::redis(url, paced(messages, load)?)?;
            times = ages;
            run
        }
        ("live-nats", [url, load @ ..]) => {
            let (run, ages) = live::nats(url, paced(messages, load)?).await?;
            times = ages;
            run
        }
        ("worker", [url, window, postgres, handler]) => {
            worker::run(url, messages, size(window)?, postgres, handler).await?
        }
        ("relay", [postgres, sink, fate]) => relay::ordered(postgres, messages, sink, delete(fate)?).await?,
        ("relay-unordered", [postgres, sink, fate]) => {
            relay::unordered(postgres, messages, sink, delete(fate)?).await?
        }
        (other, _) => bail!("there is no job `{other}` with these arguments"),
    };
    println!(
        "{}",
        serde_json::json!({
            "delivered": run.acknowledged,
            "failed": messages.saturating_sub(run.acknowledged),
            "took_ms": run.took.as_secs_f64() * 1e3,
            "cpu_ms": run.cpu.as_secs_f64() * 1e3,
            "resident_peak": resident_peak()?,
            "times_us": times.iter().map(|time| time.as_micros() as u64).collect::<Vec<_>>(),
        })
    );
    Ok(())
}

fn size(word: &str) -> Result<usize> {
    Ok(word.parse::<usize>().context("the window")?.max(1))
}

/// UNDER_WAY SIZE STREAMS.
fn batches(words: &[&str]) -> Result<append::Shape> {
    let [under_way, batch, streams] = words else { bail!("batches are UNDER_WAY SIZE STREAMS") };
    Ok(append::Shape { under_way: size(under_way)?, size: batch.parse()?, streams: streams.parse()? })
}

/// RATE SUBSCRIBERS WARM_UP, for so many deliveries.
fn paced(deliveries: u64, words: &[&str]) -> Result<live::Load> {
    let [rate, subscribers, warm_up] = words else { bail!("a load is RATE SUBSCRIBERS WARM_UP") };
    let subscribers = size(subscribers)?;
    let events = deliveries / subscribers as u64;
    Ok(live::Load { events, warm_up: warm_up.parse()?, rate: rate.parse()?, subscribers })
}

/// What becomes of a row that was published.
fn delete(word: &str) -> Result<bool> {
    match word {
        "mark" => Ok(false),
        "delete" => Ok(true),
        other => bail!("a published row is `mark`ed or `delete`d, not `{other}`"),
    }
}

/// CPU time of this process, from `/proc`: user and kernel, a hundred ticks a second.
fn cpu() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("reading /proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat has no name")?;
    let times: Vec<u64> = fields.split_ascii_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(Duration::from_millis(times.iter().sum::<u64>() * 10))
}

/// The most memory that was resident, in bytes.
fn resident_peak() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("there is no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}
