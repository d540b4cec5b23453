//! Metrics of tables. A source's name is a label: configuration bounds them.

use std::time::Duration;

use metrics::{Counter, Histogram, counter, gauge, histogram};
use waybill_core::inbox::direct::{DirectTable, MarkKind, Marks};

/// Cached handles of one table.
pub(super) struct TableMeter {
    source: String,
    claim_seconds: Histogram,
    published: Counter,
    retried: Counter,
    blocked: Counter,
    failed: Counter,
    committed: Counter,
    refused: Counter,
    lost: Counter,
}

impl TableMeter {
    pub fn new(source: &str) -> Self {
        let rows =
            |fate: &'static str| counter!("waybill_table_rows_total", "source" => source.to_owned(), "fate" => fate);
        let ends = |end: &'static str| counter!("waybill_table_transactions_total", "source" => source.to_owned(), "end" => end);
        Self {
            source: source.to_owned(),
            claim_seconds: histogram!("waybill_table_claim_seconds", "source" => source.to_owned()),
            published: rows("published"),
            retried: rows("retried"),
            blocked: rows("blocked"),
            failed: rows("failed"),
            committed: ends("committed"),
            refused: ends("refused"),
            lost: ends("lost"),
        }
    }

    pub fn claimed(&self, took: Duration) {
        self.claim_seconds.record(took.as_secs_f64());
    }

    /// A transaction is known to be committed.
    pub fn committed(&self, marks: &Marks) {
        self.committed.increment(1);
        self.published.increment(marks.acknowledged.len() as u64);
        for mark in &marks.others {
            match (mark.kind, mark.attempts) {
                (MarkKind::Failed, _) => self.failed.increment(1),
                (MarkKind::Waits(_), 0) => self.blocked.increment(1),
                (MarkKind::Waits(_), _) => self.retried.increment(1),
            }
        }
    }

    pub fn refused(&self) {
        self.refused.increment(1);
    }

    pub fn lost(&self) {
        self.lost.increment(1);
    }

    /// What this host leaves out of its claims, and why.
    pub fn memory(&self, lane: &DirectTable) {
        let of = |name: &'static str, count: usize| gauge!(name, "source" => self.source.clone()).set(count as f64);
        of("waybill_table_held", lane.held());
        of("waybill_table_unmarkable", lane.unmarkable().len());
        of("waybill_table_suspects", lane.suspects().len());
    }
}
