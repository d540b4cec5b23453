//! Metrics of the outbox (`semantics.md` §8). Label values are bounded: tenants up to a number, routes instead of
//! topics, codes up to a number.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{Counter, Histogram, Label, counter, gauge, histogram};
use parking_lot::RwLock;
use waybill_core::code::Code;
use waybill_core::ids::Tenant;
use waybill_core::message::Message;
use waybill_core::outbox::owner::Routing;
use waybill_core::outbox::records::DeadLetter;
use waybill_core::port::transport::Fault;
use waybill_core::port::workers::EXTERNAL;
use waybill_core::time::UnixMillis;
use waybill_core::topic::Topic;

use crate::history::Counts;
use crate::labels::{CODES_MAX, FAILURES_MAX, Labels, OTHER};
use crate::live::Live;

/// Names and help of every metric that the engine writes.
pub const METRICS: &[(&str, &str)] = &[
    ("tx_outbox_enqueued_total", "Messages committed to the outbox."),
    ("tx_outbox_dispatched_total", "Messages delivered."),
    ("tx_outbox_retry_total", "Failed attempts that are tried again."),
    ("tx_outbox_dead_total", "Messages that became dead letters."),
    ("waybill_outbox_expired_total", "Messages whose expires_at passed before they could be sent."),
    (
        "tx_outbox_latency_seconds",
        "Time from enqueue, or from not_before, to when the delivery was known to have succeeded, by tenant, in seconds.",
    ),
    ("tx_replay_total", "Dead letters replayed."),
    (
        "waybill_outbox_flush_total",
        "Settlements by result code (outbox_flush_success, _retry, _dead, _conflict, _dedup_hit, _db_error, _db_timeout).",
    ),
    ("waybill_outbox_leases_lost_total", "Settlements that came after the lease had gone to another owner."),
    ("waybill_commit_seconds", "Time of one owner commit."),
    ("waybill_commit_writes", "Changes in one owner commit."),
    ("waybill_commit_failures_total", "Owner commits that failed or whose outcome was unknown, by code."),
    ("waybill_takeovers_total", "Shards taken over by this host."),
    ("waybill_window_messages", "Messages held in memory."),
    ("waybill_window_bytes", "Bytes of segments held in memory."),
    ("waybill_open_segments", "Segments claimed."),
    ("waybill_history_series", "Series of the last hour that are kept in memory; 600 at most."),
    (
        "waybill_task_failures_total",
        "Tasks of the host that failed, by task: a background task was begun again, a delivery ended with an unknown fate.",
    ),
    ("waybill_store_timeouts_total", "Calls of the store that were given up because no answer came in time, by call."),
    ("waybill_history_purged_total", "Finished messages removed after keep_done."),
    ("tx_saga_compensate_total", "Sagas that began to compensate, by tenant and definition."),
    ("tx_saga_commit_seconds", "Time of one commit of sagas."),
    ("tx_saga_commit_sagas", "Running sagas that moved in one commit."),
    ("tx_saga_commit_rows", "Rows of resting or ended sagas written or removed in one commit."),
    ("tx_saga_commit_failures_total", "Commits of sagas that failed or whose outcome was unknown, by code."),
    ("tx_saga_expired_total", "Ended sagas removed after saga.keep_done."),
    ("tx_saga_door_total", "Signals and replies that messages brought for sagas, by result: taken or refused."),
    ("tx_saga_shard_running", "Sagas in memory by shard."),
    ("tx_saga_calls", "Calls of steps under way."),
    ("tx_saga_calls_waiting", "Calls of steps that wait for room."),
    ("tx_saga_held_targets", "Participants, steps and origins that are held because they were said to be at fault."),
    (
        "waybill_table_rows_total",
        "Rows of outbox tables that were sent, by source and fate: published, retried, blocked or failed.",
    ),
    (
        "waybill_table_transactions_total",
        "Transactions of outbox tables, by source and end: committed, refused or lost.",
    ),
    ("waybill_table_claim_seconds", "Time of one claim in an outbox table."),
    ("waybill_table_held", "Aggregates of an outbox table that this host leaves out for a time."),
    ("waybill_table_unmarkable", "Rows whose mark their table refuses: they wait for a person."),
    ("waybill_table_suspects", "Rows that were sent when the host died, and are sent alone."),
    ("tx_stream_appended_total", "Events numbered by owners of streams."),
    ("tx_stream_adopted_total", "Events that were appended at an expected number and named in the feed."),
    ("tx_stream_duplicates_total", "Events that were there already and were dropped when they were numbered."),
    ("tx_stream_dead_total", "Events of the doorstep whose id belonged to another event."),
    ("tx_stream_moved_total", "Commits that found a stream appended to meanwhile and were made anew."),
    ("tx_stream_quarantined_total", "Rows of the doorstep of streams that couldn't be read."),
    ("tx_stream_unreadable_total", "Chunks that couldn't be read when they were to be named."),
    ("tx_stream_commit_seconds", "Time of one commit of an owner of streams."),
    ("tx_stream_commit_failures_total", "Commits of streams that failed or whose outcome was unknown, by code."),
    ("tx_stream_refused_total", "Appends that weren't taken, by code."),
    ("tx_stream_waiting", "Appends that wait for their numbers, by shard."),
    (
        "tx_stream_door_rows",
        "Rows of a shard's doorstep that its owner found at its last look: events that aren't numbered yet, a page of them at most.",
    ),
    ("tx_stream_feed_trimmed_to", "Record of a shard's feed up to which they were removed after events.feed_keep."),
    ("tx_stream_trimmed_total", "Events that retention or an operator took away."),
    ("tx_stream_compacted_total", "Events that compaction took away."),
    ("tx_stream_ids_forgotten_total", "About how many ids of events were forgotten after events.keep_ids."),
    ("tx_stream_readers", "Subscriptions of this host; events.subscriptions_max bounds them."),
    ("tx_stream_lagged_total", "Subscriptions that the ring passed."),
    ("tx_stream_stalled_total", "Subscriptions that took nothing for events.stall_timeout."),
    ("tx_stream_rings", "Streams and selectors with live readers."),
    ("tx_stream_ring_bytes", "Bytes of live events in memory; events.live_bytes_total bounds them."),
    (
        "tx_stream_replay_pages_total",
        "Pages of replay that subscriptions read; events.replay_max_batch and replay_max_bytes bound each.",
    ),
    ("tx_stream_replay_waits_total", "Those among them that waited because of events.replay_bytes_total."),
    ("tx_stream_replay_bytes", "Bytes of pages of replay in memory; events.replay_bytes_total bounds them."),
    ("tx_relay_events_total", "Events of relays, by relay and result: delivered, retried or refused."),
    ("tx_relay_overtaken_total", "Events that retention took before a relay had sent them, by relay."),
    ("tx_relay_in_flight", "Events of a relay under way; relay.max_inflight bounds them."),
    ("tx_relay_lag_events", "Events that a relay hasn't settled, by relay and shard."),
    ("tx_relay_lag_seconds", "How long a relay has been behind, by relay and shard."),
    ("tx_relay_streams_behind", "Streams with events that a relay hasn't settled, by relay and shard."),
    (
        "tx_idempo_hits_total",
        "Begins of idempotency keys answered with a known outcome, by where it was found: memory or store.",
    ),
    ("tx_idempo_conflicts_total", "Acts on idempotency keys that were refused, by kind: busy, mismatch or lost."),
    ("tx_idempo_begun_total", "Idempotency keys begun, by kind: new, or takeover of a holder whose lease had ended."),
    ("tx_idempo_settled_total", "Idempotency keys settled, by act: finish, fail, release, yield or forget."),
    ("tx_idempo_expired_total", "Idempotency keys collected after their time."),
    ("tx_idempo_commit_seconds", "Time of one commit of acts on idempotency keys."),
    ("tx_idempo_commit_writes", "Acts on idempotency keys in one commit."),
    (
        "tx_idempo_commit_failures_total",
        "Commits of acts on idempotency keys that failed or whose outcome was unknown, by code.",
    ),
    ("tx_idempo_waiting", "Acts on idempotency keys that wait for a commit."),
    ("tx_idempo_cached", "Idempotency keys held in memory."),
];

/// Tenants that get a label of their own; the rest share `other`.
const TENANT_LABELS_MAX: usize = 200;

/// Cached handles, so that a message costs no formatting.
pub(crate) struct Meter {
    counts: Arc<Counts>,
    tenants: Labels,
    codes: Labels,
    /// A code and a tenant.
    failures: Labels,
    flush_success: Counter,
    flush_retry: Counter,
    flush_dead: Counter,
    flush_dedup: Counter,
    expired: Counter,
    commit_seconds: Histogram,
    commit_writes: Histogram,
}

/// Handles by tenant and route. Each routing has its own, because routes are numbers here.
pub(crate) struct RouteMeters {
    tenants: RwLock<HashMap<String, Arc<TenantMeters>>>,
    other: Arc<TenantMeters>,
    routes: usize,
}

impl RouteMeters {
    pub fn new(routes: usize) -> Self {
        Self { tenants: RwLock::default(), other: TenantMeters::new(OTHER, routes), routes }
    }
}

/// Handles of one tenant; by route, the last for topics that no route takes any more.
struct TenantMeters {
    label: String,
    enqueued: Vec<OnceLock<Counter>>,
    delivered: Vec<OnceLock<Counter>>,
    latency: OnceLock<Histogram>,
}

impl TenantMeters {
    fn new(label: &str, routes: usize) -> Arc<Self> {
        let slots = || (0..=routes).map(|_| OnceLock::new()).collect();
        Arc::new(Self { label: label.to_owned(), enqueued: slots(), delivered: slots(), latency: OnceLock::new() })
    }

    fn count(
        &self,
        name: &'static str,
        slots: &[OnceLock<Counter>],
        route: Option<usize>,
        routing: &Routing,
        count: u64,
    ) {
        let index = route.unwrap_or(slots.len().saturating_sub(1));
        let Some(slot) = slots.get(index) else { return };
        let counter = slot.get_or_init(|| {
            let topic = routing.routes.0.get(index).map_or("none", |route| route.pattern.as_str());
            counter!(name, vec![Label::new("tenant", self.label.clone()), Label::new("topic", topic.to_owned())])
        });
        counter.increment(count);
    }
}

/// A run of messages of one tenant and route.
struct Run<'a> {
    message: &'a Message,
    route: Option<usize>,
    latency: Duration,
    count: usize,
}

impl Meter {
    pub fn new(counts: Arc<Counts>) -> Self {
        Self {
            counts,
            tenants: Labels::up_to(TENANT_LABELS_MAX),
            codes: Labels::up_to(CODES_MAX),
            failures: Labels::up_to(FAILURES_MAX),
            flush_success: flush("outbox_flush_success"),
            flush_retry: flush("outbox_flush_retry"),
            flush_dead: flush("outbox_flush_dead"),
            flush_dedup: flush("outbox_flush_dedup_hit"),
            expired: counter!("waybill_outbox_expired_total"),
            commit_seconds: histogram!("waybill_commit_seconds"),
            commit_writes: histogram!("waybill_commit_writes"),
        }
    }

    fn of(&self, meters: &RouteMeters, tenant: &str) -> Arc<TenantMeters> {
        if let Some(mine) = meters.tenants.read().get(tenant) {
            return Arc::clone(mine);
        }
        if !self.tenants.has(tenant) {
            return Arc::clone(&meters.other);
        }
        let mut tenants = meters.tenants.write();
        Arc::clone(tenants.entry(tenant.to_owned()).or_insert_with(|| TenantMeters::new(tenant, meters.routes)))
    }

    pub fn expired(&self, count: usize) {
        self.expired.increment(count as u64);
    }

    /// Messages that a commit took into the outbox.
    pub fn enqueued(&self, live: &Live, messages: &[Arc<Message>]) {
        let routing = &*live.routing;
        let mut run: Option<(&Tenant, &Topic, u64)> = None;
        let count = |(tenant, topic, count): (&Tenant, &Topic, u64)| {
            let meters = self.of(&live.meters, tenant.as_str());
            let route = routing.routes.index_of(topic);
            let transport = route.and_then(|index| routing.routes.0.get(index)).map(|route| route.transport.as_str());
            self.counts.of(transport).enqueued.fetch_add(count, Ordering::Relaxed);
            meters.count("tx_outbox_enqueued_total", &meters.enqueued, route, routing, count);
        };
        for (tenant, topic) in messages.iter().map(|message| (&message.tenant, &message.topic)) {
            match &mut run {
                Some((same, alike, count)) if *same == tenant && *alike == topic => *count += 1,
                _ => run.replace((tenant, topic, 1)).into_iter().for_each(count),
            }
        }
        run.into_iter().for_each(count);
    }

    /// Messages that a transport delivered, with the instant at which that was known.
    pub fn delivered<'a>(
        &self,
        live: &Live,
        transport: &str,
        messages: impl Iterator<Item = (&'a Message, UnixMillis)>,
    ) {
        let mut run: Option<Run<'_>> = None;
        let mut all = 0;
        for (message, at) in messages {
            all += 1;
            let latency = at.since(message.not_before.unwrap_or(message.created_at));
            match &mut run {
                Some(run)
                    if run.latency == latency
                        && run.message.tenant == message.tenant
                        && run.message.topic == message.topic =>
                {
                    run.count += 1;
                }
                _ => {
                    let route = match &run {
                        Some(run) if run.message.topic == message.topic => run.route,
                        _ => live.routing.routes.index_of(&message.topic),
                    };
                    let ended = run.replace(Run { message, route, latency, count: 1 });
                    ended.into_iter().for_each(|run| self.count_delivered(live, &run));
                }
            }
        }
        run.into_iter().for_each(|run| self.count_delivered(live, &run));
        if all > 0 {
            self.counts.of(Some(transport)).delivered.fetch_add(all, Ordering::Relaxed);
        }
    }

    fn count_delivered(&self, live: &Live, run: &Run<'_>) {
        let (routing, meters) = (&*live.routing, self.of(&live.meters, run.message.tenant.as_str()));
        meters.count("tx_outbox_dispatched_total", &meters.delivered, run.route, routing, run.count as u64);
        self.flush_success.increment(run.count as u64);
        let latency = meters
            .latency
            .get_or_init(|| histogram!("tx_outbox_latency_seconds", vec![Label::new("tenant", meters.label.clone())]));
        latency.record_many(run.latency.as_secs_f64(), run.count);
    }

    pub fn retried(&self, transport: &str, tenant: &Tenant, fault: &Fault) {
        self.counts.of(Some(transport)).retried.fetch_add(1, Ordering::Relaxed);
        self.failed("tx_outbox_retry_total", tenant, &fault.code);
        self.flush_retry.increment(1);
    }

    /// An attempt that its message dies of.
    pub fn settled_dead(&self) {
        self.flush_dead.increment(1);
    }

    /// Messages that a commit made dead letters of. They count for the transport that tried them last, else for that of their route.
    pub fn died(&self, live: &Live, dead: &[Arc<DeadLetter>]) {
        for dead in dead {
            let last = dead.history.last().map(|attempt| &*attempt.transport);
            let tried = dead.history.iter().rev().map(|attempt| &*attempt.transport).find(|name| !name.is_empty());
            let routed = || live.routing.routes.find(&dead.message.topic).map(|route| route.transport.as_str());
            let transport = tried.or_else(routed);
            self.counts.of(transport).dead.fetch_add(1, Ordering::Relaxed);
            // Codes of workers have no bound.
            let code = if last == Some(EXTERNAL) { Code::EXTERNAL_FAILED.as_str() } else { dead.code.as_str() };
            self.failed("tx_outbox_dead_total", &dead.message.tenant, code);
        }
    }

    fn failed(&self, name: &'static str, tenant: &Tenant, code: &str) {
        let (tenant, code) = (self.tenants.of(tenant.as_str()), self.codes.of(code));
        // Two hundred tenants with as many codes each would still be forty thousand series.
        let tenant = if self.failures.has(&format!("{code} {tenant}")) { tenant } else { OTHER };
        counter!(name, "tenant" => tenant.to_owned(), "code" => code.to_owned()).increment(1);
    }

    /// A payload that was delivered before.
    pub fn dedup_hit(&self) {
        self.flush_dedup.increment(1);
    }

    pub fn lease_lost(&self) {
        counter!("waybill_outbox_leases_lost_total").increment(1);
        flush("outbox_flush_conflict").increment(1);
    }

    pub fn commit(&self, took: Duration, writes: usize) {
        self.commit_seconds.record(took.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
        self.commit_writes.record(writes as f64);
    }

    pub fn commit_failed(&self, code: Code) {
        counter!("waybill_commit_failures_total", "code" => code.as_str()).increment(1);
        flush(if code == Code::PROVIDER_UNAVAILABLE { "outbox_flush_db_timeout" } else { "outbox_flush_db_error" })
            .increment(1);
    }

    pub fn memory(&self, shard: u16, messages: usize, bytes: usize, open: usize) {
        let shard = shard.to_string();
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        for (name, value) in [
            ("waybill_window_messages", messages as f64),
            ("waybill_window_bytes", bytes as f64),
            ("waybill_open_segments", open as f64),
        ] {
            gauge!(name, "shard" => shard.clone()).set(value);
        }
    }
}

fn flush(result: &'static str) -> Counter {
    counter!("waybill_outbox_flush_total", "result" => result)
}
