//! The `redis` crate, adding to a stream in pipelines.

use std::time::Instant;

use anyhow::{Context, Result};
use redis::{Client, Pipeline};

use crate::{DESTINATION, PAYLOAD, Run, cpu};

/// Adds pipelines of `window` messages, one after the other: the fastest way that the crate has.
pub fn run(url: &str, messages: u64, window: usize) -> Result<Run> {
    let mut connection = Client::open(url).context("reading the URL")?.get_connection().context("connecting")?;
    let payload = vec![b'x'; PAYLOAD];
    let (began, before, mut acknowledged) = (Instant::now(), cpu()?, 0);
    let mut next = 0;
    while next < messages {
        let last = messages.min(next + window as u64);
        let mut pipeline = Pipeline::with_capacity(window);
        for number in next..last {
            add(&mut pipeline, number, &payload);
        }
        let entries: Vec<String> = pipeline.query(&mut connection).context("adding")?;
        acknowledged += entries.iter().filter(|entry| entry.contains('-')).count() as u64;
        next = last;
    }
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

/// With the fields that a delivery by Waybill has.
fn add(pipeline: &mut Pipeline, number: u64, payload: &[u8]) {
    let command = pipeline.cmd("XADD").arg(DESTINATION).arg("*");
    for (name, value) in [
        ("id", format!("01K{number:023}").as_str()),
        ("tenant", "default"),
        ("topic", "bus:orders.created"),
        ("key", format!("customer-{}", number % 1_000).as_str()),
        ("event-type", "orders.created"),
        ("event-version", "1"),
        ("seq", number.to_string().as_str()),
        ("content-type", "application/json"),
        ("occurred-at", "2026-01-01T00:00:00.000Z"),
        ("created-at", "2026-01-01T00:00:00.000Z"),
        ("attempt", "1"),
        ("lease-epoch", "1"),
    ] {
        command.arg(name).arg(value);
    }
    command.arg("payload").arg(payload);
}
