//! Metrics of the inbox and its sources. Label values are bounded: consumers and sources are configured, codes are bounded in number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{Counter, Histogram, counter, gauge, histogram};
use parking_lot::Mutex;
use waybill_core::code::Code;
use waybill_core::ids::{ConsumerName, SourceName};
use waybill_core::inbox::owner::{InboxCounts, SettleAs};
use waybill_core::inbox::records::InboxEnd;
use waybill_core::inbox::seen::SeenQuery;
use waybill_core::inbox::verdict::Verdict;
use waybill_core::port::inbox_store::InboxTidied;
use waybill_core::port::source::Pulled;

use super::flight::CommitContent;
use crate::history::Counts;
use crate::labels::{CODES_MAX, Labels};

/// Label of what nearly all messages come to.
const PROCESSED: &str = "processed";

/// Codes are chosen by handlers, too.
pub(crate) struct InboxMeter {
    counts: Arc<Counts>,
    codes: Labels,
    commit_seconds: Histogram,
    consumers: Mutex<HashMap<ConsumerName, Arc<ConsumerMeters>>>,
}

/// What every message of a consumer is counted by. Finding a metric by its labels costs about as much as looking a message up, so
/// each is found once.
#[derive(Default)]
struct ConsumerMeters {
    /// Look-ups in the seen set, and the reads of the store that they took.
    lookups: AtomicU64,
    reads: AtomicU64,
    seen_reads: OnceLock<Counter>,
    call_seconds: OnceLock<Histogram>,
    latency_seconds: OnceLock<Histogram>,
    processed_verdicts: OnceLock<Counter>,
    processed_ends: OnceLock<Counter>,
}

/// Counts of an owner that were told already.
pub(super) type CountsTold = InboxCounts;

impl InboxMeter {
    pub fn new(counts: Arc<Counts>) -> Self {
        Self {
            counts,
            codes: Labels::up_to(CODES_MAX),
            commit_seconds: histogram!("waybill_source_commit_seconds"),
            consumers: Mutex::default(),
        }
    }

    fn of(&self, consumer: &ConsumerName) -> Arc<ConsumerMeters> {
        Arc::clone(self.consumers.lock().entry(consumer.clone()).or_default())
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

    /// Claims on what a source reads that ran out before it was settled.
    pub fn claims_expired(&self, source: &SourceName, count: u64) {
        counter!("waybill_source_claims_expired_total", "source" => source.to_string()).increment(count);
    }

    /// What a source reads from was made anew.
    pub fn made_anew(&self, source: &SourceName, count: u64) {
        counter!("waybill_source_made_anew_total", "source" => source.to_string()).increment(count);
    }

    /// Where a source stands isn't followed any more.
    pub fn place_lost(&self, source: &SourceName) {
        counter!("waybill_source_place_lost_total", "source" => source.to_string()).increment(1);
    }

    /// Deliveries that can't be settled any more.
    pub fn lost(&self, source: &SourceName, cause: &'static str, count: usize) {
        counter!("waybill_source_lost_total", "source" => source.to_string(), "cause" => cause).increment(count as u64);
    }

    /// So many orders of a kind were carried out.
    pub fn settled(&self, source: &SourceName, settle_as: &SettleAs, count: u64) {
        let disposition = match settle_as {
            SettleAs::Ack => "ack",
            SettleAs::Extend => "extend",
            SettleAs::Release => "release",
            SettleAs::Reject(_) => "reject",
        };
        let source = source.to_string();
        counter!("waybill_source_settlements_total", "source" => source, "disposition" => disposition).increment(count);
    }

    /// Look-ups in the seen set that were made; `reads` tells all reads of the store that a consumer's took so far.
    pub fn looked_up(&self, queries: &[SeenQuery], reads: impl Fn(&ConsumerName) -> u64) {
        for of_one in queries.chunk_by(|one, next| one.consumer == next.consumer) {
            let Some(consumer) = of_one.first().map(|query| &query.consumer) else { continue };
            let (of, reads) = (self.of(consumer), reads(consumer));
            of.lookups.fetch_add(of_one.len() as u64, Ordering::Relaxed);
            of.reads.store(reads, Ordering::Relaxed);
            let counter = || counter!("tx_inbox_seen_reads_total", "consumer" => consumer.to_string());
            of.seen_reads.get_or_init(counter).absolute(reads);
        }
    }

    /// Reads of the store for one look-up of a consumer, on average, times 100.
    pub fn seen_reads_percent(&self, consumer: &ConsumerName) -> u64 {
        let of = self.of(consumer);
        of.reads.load(Ordering::Relaxed) * 100 / of.lookups.load(Ordering::Relaxed).max(1)
    }

    pub fn called(&self, consumer: &ConsumerName, verdict: &Verdict, took: Duration) {
        let verdict = match verdict {
            Verdict::Processed(_) => PROCESSED,
            Verdict::Duplicate => "duplicate",
            Verdict::Poison(_) => "poison",
            Verdict::Failed(_) => "failed",
            Verdict::Busy(_) => "busy",
            Verdict::Blocked(_) => "blocked",
            Verdict::NotCalled | Verdict::Interrupted => return,
        };
        let of = self.of(consumer);
        let call_seconds = || histogram!("tx_inbox_call_seconds", "consumer" => consumer.to_string());
        of.call_seconds.get_or_init(call_seconds).record(took.as_secs_f64());
        let counter = || counter!("tx_inbox_verdicts_total", "consumer" => consumer.to_string(), "verdict" => verdict);
        if verdict == PROCESSED {
            of.processed_verdicts.get_or_init(counter).increment(1);
        } else {
            counter().increment(1);
        }
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
        self.counts.inbox_processed.fetch_add(content.ended.len() as u64, Ordering::Relaxed);
        for of_one in content.ended.chunk_by(|one, next| (&one.0, one.1) == (&next.0, next.1)) {
            let Some((consumer, end, _)) = of_one.first() else { continue };
            let end = match end {
                InboxEnd::Processed => PROCESSED,
                InboxEnd::Duplicate => "duplicate",
                InboxEnd::Dead => "dead",
            };
            let of = self.of(consumer);
            let latency_seconds = || histogram!("tx_inbox_latency_seconds", "consumer" => consumer.to_string());
            let latency_seconds = of.latency_seconds.get_or_init(latency_seconds);
            of_one.iter().for_each(|(_, _, took)| latency_seconds.record(took.as_secs_f64()));
            let counter = || counter!("tx_inbox_processed_total", "consumer" => consumer.to_string(), "end" => end);
            let count = of_one.len() as u64;
            if end == PROCESSED {
                of.processed_ends.get_or_init(counter).increment(count);
            } else {
                counter().increment(count);
            }
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
        for (consumer, code) in &content.failed {
            let code = self.codes.of(code).to_owned();
            counter!("tx_inbox_retry_total", "consumer" => consumer.to_string(), "code" => code).increment(1);
        }
    }

    /// Payload bytes of a source's deliveries that aren't settled.
    pub fn unsettled_bytes(&self, source: &SourceName, bytes: usize) {
        gauge!("waybill_source_unsettled_bytes", "source" => source.to_string()).set(bytes as f64);
    }

    /// What was out of the window, or kept for long enough, is gone.
    pub fn tidied(&self, tidied: &InboxTidied) {
        counter!("tx_inbox_seen_forgotten_total").increment(tidied.forgotten as u64);
        counter!("tx_inbox_history_purged_total").increment(tidied.purged as u64);
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
