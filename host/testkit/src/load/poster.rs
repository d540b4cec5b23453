//! The native reference for delivery over HTTP: a plain pooled client that posts the same payloads to the same sink, with the
//! headers that a delivery has, and nothing else: no store, no sandbox, no retry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;

#[derive(Clone, Copy, Debug)]
pub struct Posted {
    pub delivered: u64,
    pub failed: u64,
    /// From the first to the last.
    pub took: Duration,
}

/// Posts `count` payloads of `bytes` bytes to `url`, `at_once` at any time.
///
/// # Errors
/// The client can't be made.
pub async fn post_all(url: &str, count: u64, bytes: usize, at_once: u64) -> Result<Posted, reqwest::Error> {
    let client = reqwest::Client::builder()
        .pool_max_idle_per_host(usize::try_from(at_once).unwrap_or(64))
        .tcp_nodelay(true)
        .build()?;
    let payload = Bytes::from("x".repeat(bytes));
    let (next, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    let tasks: Vec<_> = (0..at_once)
        .map(|_| {
            let (client, url, payload) = (client.clone(), url.to_owned(), payload.clone());
            let (next, failed) = (Arc::clone(&next), Arc::clone(&failed));
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let sent = request(&client, &url, number, payload.clone()).send().await;
                    // The body is taken too: only then does the connection go back to the pool.
                    let well = match sent {
                        Ok(answer) => answer.status().is_success() && answer.bytes().await.is_ok(),
                        Err(_) => false,
                    };
                    if !well {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        if task.await.is_err() {
            failed.fetch_add(1, Ordering::Relaxed);
        }
    }
    let failed = failed.load(Ordering::Relaxed);
    Ok(Posted { delivered: count.saturating_sub(failed), failed, took: began.elapsed() })
}

fn request(client: &reqwest::Client, url: &str, number: u64, payload: Bytes) -> reqwest::RequestBuilder {
    let id = format!("01K{number:023}");
    client
        .post(url)
        .header("ce-id", &id)
        .header("ce-source", "/waybill/default")
        .header("ce-type", "order.placed")
        .header("ce-time", "2026-01-01T00:00:00.000Z")
        .header("ce-specversion", "1.0")
        .header("content-type", "application/json")
        .header("idempotency-key", &id)
        .header("waybill-attempt", "1")
        .header("waybill-lease-epoch", "1")
        .header("waybill-seq", "123456789")
        .header("waybill-key", "customer-1")
        .header("waybill-tenant", "default")
        .body(payload)
}
