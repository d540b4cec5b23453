//! Native clients that transports are measured against: one connection, a window of unacknowledged messages, nothing else.
//!
//! `natives BROKER MESSAGES URL WINDOW` publishes to the broker and waits for each acknowledgement. It prints one JSON
//! line: what was acknowledged, the time it took, the CPU time of this process.
//!
//! Each broker has a file: `nats` (JetStream), `rabbitmq` (AMQP 0-9-1 with confirms), `redis` (pipelined XADD).

mod nats;
mod rabbitmq;
mod redis;

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
    let [broker, messages, url, window] = arguments.as_slice() else {
        bail!("usage: natives BROKER MESSAGES URL WINDOW");
    };
    let (messages, window): (u64, usize) = (messages.parse()?, window.parse()?);
    let run = match broker.as_str() {
        "nats" => nats::run(url, messages, window.max(1)).await?,
        "rabbitmq" => rabbitmq::run(url, messages, window.max(1)).await?,
        "redis" => redis::run(url, messages, window.max(1))?,
        other => bail!("there is no native client `{other}`"),
    };
    println!(
        "{}",
        serde_json::json!({
            "delivered": run.acknowledged,
            "failed": messages - run.acknowledged,
            "took_ms": run.took.as_secs_f64() * 1e3,
            "cpu_ms": run.cpu.as_secs_f64() * 1e3,
            "resident_peak": resident_peak()?,
        })
    );
    Ok(())
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
