//! async-nats, publishing to JetStream.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use async_nats::HeaderMap;
use async_nats::jetstream;
use bytes::Bytes;

use crate::{DESTINATION, PAYLOAD, Run, cpu};

/// Publishes with a sliding window.
pub async fn run(url: &str, messages: u64, window: usize) -> Result<Run> {
    let payload = Bytes::from(vec![b'x'; PAYLOAD]);
    publish(url, messages, window, |number| (headers(number), payload.clone())).await
}

/// The same with what a sender has that isn't Waybill: an id, JSON, and one of so many keys, or none.
pub async fn fill(url: &str, messages: u64, window: usize, keys: u64) -> Result<Run> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock")?.as_millis();
    let padding = "x".repeat(PAYLOAD.saturating_sub(24));
    publish(url, messages, window, |number| {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", ulid(now, number));
        headers.insert("content-type", "application/json");
        if let Some(key) = number.checked_rem(keys) {
            headers.insert("x-key", format!("customer-{key}"));
        }
        (headers, Bytes::from(format!("{{\"n\":{number},\"p\":\"{padding}\"}}")))
    })
    .await
}

/// A ULID of this moment in milliseconds, with a number where others have random bits.
fn ulid(moment: u128, number: u64) -> String {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let value = (moment << 80) | u128::from(number);
    let digit = |place: u32| DIGITS.get(((value >> (5 * place)) & 31) as usize).copied().unwrap_or(b'0');
    (0..26).rev().map(|place| char::from(digit(place))).collect()
}

async fn publish(url: &str, messages: u64, window: usize, content: impl Fn(u64) -> (HeaderMap, Bytes)) -> Result<Run> {
    let client = async_nats::connect(url).await.context("connecting")?;
    let mut context = jetstream::new(client);
    context.set_timeout(Duration::from_secs(30));
    let mut pending = VecDeque::with_capacity(window);
    let (began, before, mut acknowledged) = (Instant::now(), cpu()?, 0);
    for number in 0..messages {
        if pending.len() >= window
            && let Some(oldest) = pending.pop_front()
        {
            acknowledged += u64::from(settled(oldest).await);
        }
        let (headers, payload) = content(number);
        pending.push_back(context.publish_with_headers(DESTINATION, headers, payload).await?);
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
