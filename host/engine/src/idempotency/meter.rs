//! Metrics of idempotency keys, as cached handles. Help is in [`crate::METRICS`].

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use waybill_core::code::Code;
use waybill_core::idempotency::Begun;

pub(super) struct IdempotencyMeter {
    hits_memory: Counter,
    hits_store: Counter,
    busy: Counter,
    mismatch: Counter,
    lost: Counter,
    new: Counter,
    takeover: Counter,
    commit_seconds: Histogram,
    commit_writes: Histogram,
    waiting: Gauge,
    cached: Gauge,
}

impl IdempotencyMeter {
    pub fn new() -> Self {
        let hits = |from: &'static str| counter!("tx_idempo_hits_total", "from" => from);
        let conflicts = |kind: &'static str| counter!("tx_idempo_conflicts_total", "kind" => kind);
        let begun = |kind: &'static str| counter!("tx_idempo_begun_total", "kind" => kind);
        Self {
            hits_memory: hits("memory"),
            hits_store: hits("store"),
            busy: conflicts("busy"),
            mismatch: conflicts("mismatch"),
            lost: conflicts("lost"),
            new: begun("new"),
            takeover: begun("takeover"),
            commit_seconds: histogram!("tx_idempo_commit_seconds"),
            commit_writes: histogram!("tx_idempo_commit_writes"),
            waiting: gauge!("tx_idempo_waiting"),
            cached: gauge!("tx_idempo_cached"),
        }
    }

    /// A begin was answered.
    pub fn begun(&self, begun: &Begun, from_memory: bool) {
        match begun {
            Begun::New(grant) if grant.begun > 1 => &self.takeover,
            Begun::New(_) => &self.new,
            Begun::Busy { .. } => &self.busy,
            Begun::Mismatch => &self.mismatch,
            Begun::Succeeded(_) | Begun::Failed(_) if from_memory => &self.hits_memory,
            Begun::Succeeded(_) | Begun::Failed(_) => &self.hits_store,
        }
        .increment(1);
    }

    /// A holder or an operator settled a key.
    pub fn settled(&self, act: &'static str) {
        counter!("tx_idempo_settled_total", "act" => act).increment(1);
    }

    /// A token was stale.
    pub fn lost(&self) {
        self.lost.increment(1);
    }

    pub fn commit(&self, took: Duration, acts: usize) {
        self.commit_seconds.record(took.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
        self.commit_writes.record(acts as f64);
    }

    pub fn commit_failed(&self, code: Code) {
        counter!("tx_idempo_commit_failures_total", "code" => code.as_str()).increment(1);
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn memory(&self, waiting: usize, cached: usize) {
        self.waiting.set(waiting as f64);
        self.cached.set(cached as f64);
    }
}
