//! Native clients that transports are measured against: one connection, a window of unacknowledged messages, nothing else.
//!
//! `natives nats URL SUBJECT MESSAGES WINDOW` publishes to JetStream and waits for each acknowledgement. It prints one JSON
//! line: what was acknowledged, the time it took, the CPU time of this process.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use async_nats::HeaderMap;
use async_nats::jetstream;
use bytes::Bytes;

/// Bytes of a payload.
const PAYLOAD: usize = 300;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, url, subject, messages, window] = arguments.as_slice() else {
        bail!("usage: natives nats URL SUBJECT MESSAGES WINDOW");
    };
    if kind != "nats" {
        bail!("there is no native client `{kind}`");
    }
    let (messages, window): (u64, usize) = (messages.parse()?, window.parse()?);
    let (took, cpu, acknowledged) = nats(url, subject, messages, window.max(1)).await?;
    println!(
        "{}",
        serde_json::json!({
            "delivered": acknowledged,
            "failed": messages - acknowledged,
            "took_ms": took.as_secs_f64() * 1e3,
            "cpu_ms": cpu.as_secs_f64() * 1e3,
            "resident_peak": resident_peak()?,
        })
    );
    Ok(())
}

async fn nats(url: &str, subject: &str, messages: u64, window: usize) -> Result<(Duration, Duration, u64)> {
    let client = async_nats::connect(url).await.context("connecting")?;
    let mut context = jetstream::new(client);
    context.set_timeout(Duration::from_secs(30));
    let payload = Bytes::from(vec![b'x'; PAYLOAD]);
    let mut pending = VecDeque::with_capacity(window);
    let (began, before, mut acknowledged) = (Instant::now(), cpu()?, 0);
    for number in 0..messages {
        if pending.len() >= window
            && let Some(oldest) = pending.pop_front()
        {
            acknowledged += u64::from(settled(oldest).await);
        }
        let sent = context.publish_with_headers(subject.to_owned(), headers(number), payload.clone()).await?;
        pending.push_back(sent);
    }
    for sent in pending {
        acknowledged += u64::from(settled(sent).await);
    }
    Ok((began.elapsed(), cpu()?.saturating_sub(before), acknowledged))
}

async fn settled(sent: jetstream::context::PublishAckFuture) -> bool {
    sent.await.is_ok()
}

/// Those that a delivery by Waybill has.
fn headers(number: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", format!("01K{number:023}"));
    headers.insert("x-tenant", "default");
    headers.insert("x-key", format!("customer-{}", number % 1_000));
    headers.insert("x-created-at", "2026-01-01T00:00:00.000Z");
    headers.insert("x-occurred-at", "2026-01-01T00:00:00.000Z");
    headers.insert("x-topic", "bus:orders.created");
    headers.insert("x-event-type", "orders.created");
    headers.insert("x-event-version", "1");
    headers.insert("x-attempt", "1");
    headers.insert("x-lease-epoch", "1");
    headers.insert("x-seq", number.to_string());
    headers.insert("content-type", "application/json");
    headers
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
