//! What a good transport notices of a hostile one beside it, for `cargo xtask bench hostile`.
//!
//! `beside_hostile STEPS`: for each behaviour, the same steady load (500 good messages a second) alone and beside the hostile
//! transport (50 messages a second more), one after the other, so that both meet the same machine. One JSON line each. It asserts
//! no time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use waybill_engine::Stores;
use waybill_sandbox::{Sandbox, SandboxOptions};
use waybill_store::{StoreConfig, SurrealStore};
use waybill_tests::hostile::{BEHAVIOURS, Behaviour, Load, Stage};

/// Longest wait for the last acknowledgement.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() {
    let steps: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("beside_hostile STEPS");
    let cache = tempfile::tempdir().unwrap();
    let cache_dir = Some(cache.path().join("cache"));
    let sandbox = Sandbox::new(SandboxOptions { cache_dir, ..SandboxOptions::default() }).unwrap();
    for behaviour in &BEHAVIOURS {
        // Compiled beforehand: what is measured is serving.
        sandbox.load(behaviour.guest.source().unwrap(), waybill_sandbox::World::Transport).await.unwrap();
        let alone = run(&sandbox, None, steps).await;
        let beside = run(&sandbox, Some(behaviour), steps).await;
        let line = json!({
            "behaviour": behaviour.name,
            "sent": beside.sent,
            "acknowledged": beside.acknowledged,
            "p99_ms": beside.p99_ms,
            "p99_alone_ms": alone.p99_ms,
            "p99_ratio": beside.p99_ms / alone.p99_ms,
            "rate": beside.rate,
            "rate_alone": alone.rate,
            "rate_ratio": beside.rate / alone.rate,
        });
        println!("{line}");
    }
}

struct Figures {
    sent: usize,
    acknowledged: usize,
    p99_ms: f64,
    rate: f64,
}

async fn run(sandbox: &Sandbox, hostile: Option<&Behaviour>, steps: u64) -> Figures {
    let store = Arc::new(SurrealStore::open(StoreConfig::new("mem://")).await.unwrap());
    let stores = Stores { owner: store.clone(), query: store.clone(), transact: store.clone(), dedup: store };
    let mut stage = Stage::set(sandbox, stores, hostile).await.unwrap();
    stage.load(Load { good: 5, hostile_every: if hostile.is_some() { 2 } else { 0 }, steps }).await.unwrap();
    let begun = tokio::time::Instant::now();
    let (mut sent, mut acknowledged) = stage.good();
    while acknowledged < sent && begun.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(1)).await;
        (sent, acknowledged) = stage.good();
    }
    let (latencies, whole) = stage.latencies();
    #[expect(clippy::cast_precision_loss, reason = "thousands of messages")]
    let figures = Figures {
        sent,
        acknowledged,
        p99_ms: latencies[latencies.len() * 99 / 100].as_secs_f64() * 1e3,
        rate: acknowledged as f64 / whole.as_secs_f64(),
    };
    stage.end(Duration::from_secs(10)).await;
    figures
}
