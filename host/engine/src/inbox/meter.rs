//! Metrics of the inbox and its sources. Label values are bounded: consumers and sources are configured, codes are bounded in number.

use std::collections::HashMap;
use std::time::Duration;

use metrics::{counter, histogram};
use parking_lot::Mutex;
use waybill_core::code::Code;
use waybill_core::ids::{ConsumerName, SourceName};
use waybill_core::inbox::owner::{InboxCounts, SettleAs};
use waybill_core::inbox::records::InboxEnd;
use waybill_core::inbox::seen::SeenQuery;
use waybill_core::inbox::verdict::Verdict;
use waybill_core::port::source::Pulled;

use super::flight::CommitContent;
use crate::labels::{CODES_MAX, Labels};

/// Codes are chosen by handlers, too.
pub(crate) struct InboxMeter {
    codes: Labels,
    commit_seconds: metrics::Histogram,
    /// Look-ups in the seen set of each consumer, and the reads of the store that they took.
    seen: Mutex<HashMap<ConsumerName, (u64, u64)>>,
}

/// Counts of an owner that were told already.
pub(super) type CountsTold = InboxCounts;

impl InboxMeter {
    pub fn new() -> Self {
        Self {
            codes: Labels::up_to(CODES_MAX),
            commit_seconds: histogram!("waybill_source_commit_seconds"),
            seen: Mutex::default(),
        }
    }

    pub fn pulled(&self, source: &SourceName, pulled: &Pulled) {
        let result = if pulled.deliveries.is_empty() { "empty" } else { "messages" };
        counter!("waybill_source_pulls_total", "source" => source.to_string(), "result" => result).increment(1);
        let count = pulled.deliveries.len() as u64;
        counter!("tx_inbox_received_total", "source" => source.to_string()).increment(count);
        let again = |delivery: &&waybill_core::port::source::SourceDelivery| {
            delivery.redelivered || delivery.delivery_count.is_some_and(|count| count > 1)
        };
        let redelivered = pulled.deliveries.iter().filter(again).count() as u64;
        counter!("tx_inbox_redelivered_total", "source" => source.to_string()).increment(redelivered);
    }

    pub fn pull_failed(&self, source: &SourceName) {
        counter!("waybill_source_pulls_total", "source" => source.to_string(), "result" => "failed").increment(1);
    }

    /// Messages that a peer removed before they were read.
    pub fn overtaken(&self, source: &SourceName, count: u64) {
        counter!("waybill_source_overtaken_total", "source" => source.to_string()).increment(count);
    }

    /// Deliveries that can't be settled any more.
    pub fn lost(&self, source: &SourceName, cause: &'static str, count: usize) {
        counter!("waybill_source_lost_total", "source" => source.to_string(), "cause" => cause).increment(count as u64);
    }

    pub fn settled(&self, source: &SourceName, settle_as: &SettleAs) {
        let disposition = match settle_as {
            SettleAs::Ack => "ack",
            SettleAs::Extend => "extend",
            SettleAs::Release => "release",
            SettleAs::Reject(_) => "reject",
        };
        let source = source.to_string();
        counter!("waybill_source_settlements_total", "source" => source, "disposition" => disposition).increment(1);
    }

    /// Look-ups in the seen set that were made; `reads` tells all reads of the store that a consumer's took so far.
    pub fn looked_up(&self, queries: &[SeenQuery], reads: impl Fn(&ConsumerName) -> u64) {
        let mut counts: HashMap<&ConsumerName, u64> = HashMap::new();
        for query in queries {
            *counts.entry(&query.consumer).or_default() += 1;
        }
        let mut seen = self.seen.lock();
        for (consumer, lookups) in counts {
            let reads = reads(consumer);
            let of = seen.entry(consumer.clone()).or_default();
            *of = (of.0 + lookups, reads);
            counter!("tx_inbox_seen_reads_total", "consumer" => consumer.to_string()).absolute(reads);
        }
    }

    /// Reads of the store for one look-up of a consumer, on average, times 100.
    pub fn seen_reads_percent(&self, consumer: &ConsumerName) -> u64 {
        self.seen.lock().get(consumer).map_or(0, |(lookups, reads)| reads * 100 / lookups.max(&1))
    }

    pub fn called(&self, consumer: &ConsumerName, verdict: &Verdict, took: Duration) {
        let verdict = match verdict {
            Verdict::Processed(_) => "processed",
            Verdict::Duplicate => "duplicate",
            Verdict::Poison(_) => "poison",
            Verdict::Failed(_) => "failed",
            Verdict::Busy(_) => "busy",
            Verdict::Blocked(_) => "blocked",
            Verdict::NotCalled | Verdict::Interrupted => return,
        };
        let consumer = consumer.to_string();
        histogram!("tx_inbox_call_ms", "consumer" => consumer.clone()).record(took.as_secs_f64() * 1_000.0);
        counter!("tx_inbox_verdicts_total", "consumer" => consumer, "verdict" => verdict).increment(1);
    }

    pub fn commit(&self, took: Duration) {
        self.commit_seconds.record(took.as_secs_f64());
        counter!("waybill_source_commits_total", "result" => "applied").increment(1);
    }

    pub fn commit_failed(&self, code: Code) {
        counter!("waybill_source_commits_total", "result" => code.as_str()).increment(1);
    }

    /// What a commit held is in.
    pub fn applied(&self, content: &CommitContent) {
        for (consumer, end, took) in &content.ended {
            let end = match end {
                InboxEnd::Processed => "processed",
                InboxEnd::Duplicate => "duplicate",
                InboxEnd::Dead => "dead",
            };
            let consumer = consumer.to_string();
            histogram!("tx_inbox_latency_ms", "consumer" => consumer.clone()).record(took.as_secs_f64() * 1_000.0);
            counter!("tx_inbox_processed_total", "consumer" => consumer, "end" => end).increment(1);
        }
        for (consumer, code) in &content.dead {
            let code = self.codes.of(code).to_owned();
            counter!("tx_inbox_dead_total", "consumer" => consumer.to_string(), "code" => code).increment(1);
        }
        for consumer in &content.dlq {
            counter!("tx_inbox_dlq_total", "consumer" => consumer.to_string()).increment(1);
        }
        for (consumer, cause) in &content.stored {
            counter!("tx_inbox_stored_total", "consumer" => consumer.to_string(), "cause" => *cause).increment(1);
        }
    }

    /// What an owner counted since it was told last.
    pub fn counts(&self, counts: &InboxCounts, told: &mut CountsTold) {
        let duplicates = counts.duplicates.saturating_sub(told.duplicates);
        counter!("tx_inbox_duplicates_total").increment(duplicates);
        if duplicates > 0 {
            tracing::debug!(
                code = Code::DUPLICATE_MESSAGE.as_str(),
                duplicates,
                "deliveries of what was finished before came again"
            );
        }
        let expired = counts.orphans_expired.saturating_sub(told.orphans_expired);
        counter!("tx_inbox_orphans_expired_total").increment(expired);
        *told = *counts;
    }
}
