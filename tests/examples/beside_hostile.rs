//! What a good transport notices of a hostile one beside it, for `cargo xtask bench hostile`.
//!
//! `beside_hostile STEPS ROUNDS [BEHAVIOUR]`: for each behaviour, or one, the same steady load (500 good messages a second) alone and beside the
//! hostile transport (50 messages a second more), in turn, so that both meet the same machine; medians of the rounds. One JSON
//! line each. It asserts no time.

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
    let argument = |at| std::env::args().nth(at).and_then(|text| text.parse().ok());
    let (steps, rounds): (u64, u64) = argument(1).zip(argument(2)).expect("beside_hostile STEPS ROUNDS [BEHAVIOUR]");
    let only = std::env::args().nth(3);
    let cache = tempfile::tempdir().unwrap();
    let cache_dir = Some(cache.path().join("cache"));
    let sandbox = Sandbox::new(SandboxOptions { cache_dir, ..SandboxOptions::default() }).unwrap();
    for behaviour in BEHAVIOURS.iter().filter(|one| only.as_ref().is_none_or(|only| only == one.name)) {
        // Compiled beforehand: what is measured is serving.
        sandbox.load(behaviour.guest.source().unwrap(), waybill_sandbox::World::Transport).await.unwrap();
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            alone.push(run(&sandbox, None, steps).await);
            beside.push(run(&sandbox, Some(behaviour), steps).await);
        }
        let (alone, beside) = (Figures::of(&alone), Figures::of(&beside));
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

impl Figures {
    /// What was sent in all rounds, and the medians of the rest.
    fn of(rounds: &[Self]) -> Self {
        let median = |figure: fn(&Self) -> f64| {
            let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        Self {
            sent: rounds.iter().map(|round| round.sent).sum(),
            acknowledged: rounds.iter().map(|round| round.acknowledged).sum(),
            p99_ms: median(|round| round.p99_ms),
            rate: median(|round| round.rate),
        }
    }
}

async fn run(sandbox: &Sandbox, hostile: Option<&Behaviour>, steps: u64) -> Figures {
    let store = Arc::new(SurrealStore::open(StoreConfig::new("mem://")).await.unwrap());
    let stores = Stores {
        owner: store.clone(),
        query: store.clone(),
        transact: store.clone(),
        dedup: store.clone(),
        idempotency: store,
    };
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
