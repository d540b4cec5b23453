//! async-nats, publishing to JetStream.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_nats::HeaderMap;
use async_nats::jetstream;
use bytes::Bytes;

use crate::{DESTINATION, PAYLOAD, Run, cpu};

/// Publishes with a sliding window.
pub async fn run(url: &str, messages: u64, window: usize) -> Result<Run> {
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
        let sent = context.publish_with_headers(DESTINATION, headers(number), payload.clone()).await?;
        pending.push_back(sent);
    }
    for sent in pending {
        acknowledged += u64::from(settled(sent).await);
    }
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
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
