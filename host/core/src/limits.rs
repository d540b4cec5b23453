//! Every bound of the core with its unit, its default and the reason for it.

use std::time::Duration;

/// Payloads above this go to the blob table, so that a segment stays cheap to rewrite. Bytes.
pub const INLINE_PAYLOAD_BYTES_MAX: usize = 64 * 1024;
pub const PAYLOAD_BYTES_MAX_DEFAULT: usize = 256 * 1024;
/// Longest message id, in bytes.
pub const ID_BYTES_MAX: usize = 128;
/// Longest tenant, in bytes.
pub const TENANT_BYTES_MAX: usize = 128;
/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 512;
/// Longest topic, in bytes: long enough for a webhook URL with a query.
pub const TOPIC_BYTES_MAX: usize = 4096;
/// Most headers of one message.
pub const HEADERS_MAX: usize = 64;
/// Names and values of all headers of one message together, in bytes.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Longest of the short text fields (`event_type`, `correlation_id`, ...), in bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// `occurred_at` may be ahead of the store's clock by this much (source document 5, CHECK constraint).
pub const FUTURE_SKEW_MAX: Duration = Duration::from_secs(60);
/// A peer's wish to wait is honoured up to this by default: past the longest retry of source document 2, 3,600 s with its jitter of 0.3.
pub const RETRY_AFTER_MAX_DEFAULT: Duration = Duration::from_secs(80 * 60);
/// Most messages of one enqueue request.
pub const REQUEST_MESSAGES_MAX: usize = 10_000;
/// A segment is cut at this many bytes: the unit that a takeover or an eviction rewrites.
pub const SEGMENT_BYTES_MAX: usize = 512 * 1024;
/// A segment is cut at this many messages: the index in a host-made id has 12 bits.
pub const SEGMENT_MESSAGES_MAX: usize = 4096;
/// Default of [`SchedulerLimits::commit_bytes`]: with the last of what a commit takes (a segment, a row of the doorstep) it stays
/// below the least write buffer of the store, 8 MiB.
pub const COMMIT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Least of what an owner cuts its commits at after the store refused one as too large. Bytes.
pub const COMMIT_BYTES_LEAST: usize = 1024;
/// Commits that go in one behind the other, after which an owner that cut them lets them be twice as large again: some seconds
/// of a busy shard.
pub const COMMIT_GROWS_AFTER: u32 = 64;
/// The same for a store that refused them each time they had grown: then one commit in so many is refused at most.
pub const COMMIT_GROWS_AFTER_MAX: u32 = 65_536;
/// Errors kept with a parked message or a dead letter; older ones are dropped, the first is kept.
pub const ATTEMPT_RECORDS_MAX: usize = 20;
/// Crashes while a suspect was on trial by itself after which it is a dead letter (`SUSPECTED_POISON`).
pub const ALONE_CRASHES_MAX: u32 = 3;
/// While a suspect is on trial by itself, its owner commits at least so often: its record tells how long it lived to within that.
pub const LIFE_BEAT: Duration = Duration::from_secs(1);
/// Suspects that a shard record holds; of more, the rest isn't suspected.
pub const SUSPECTS_MAX: usize = 10_000;
/// Dead letters that a count, a grouping or the depths look at, the latest first: about a second's work. Past it a number is a
/// lower bound and says how far it got. The depths look at as many scheduled messages, the soonest due first.
pub const DEAD_READS_MAX: usize = 100_000;
/// Longest idempotency key, in bytes: what the `Idempotency-Key` header commonly takes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// Longest hash of a request, in bytes: sha-512 in hex.
pub const REQUEST_HASH_BYTES_MAX: usize = 128;
/// Longest token of who has an idempotency key, in bytes.
pub const HOLD_TOKEN_BYTES_MAX: usize = 64;
/// Longest error kept for an idempotency key, in bytes; a longer one is cut.
pub const IDEMPOTENCY_ERROR_BYTES_MAX: usize = 4_096;
/// Default of `idempotency.result_max_bytes` (source document 1 §2.2).
pub const IDEMPOTENCY_RESULT_BYTES_DEFAULT: usize = 4_096;
pub const IDEMPOTENCY_TTL_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Default of `idempotency.lease`: as long as a request to the host may take.
pub const IDEMPOTENCY_LEASE_DEFAULT: Duration = Duration::from_secs(60);
/// Shortest time an idempotency key is remembered.
pub const IDEMPOTENCY_TTL_MIN: Duration = Duration::from_millis(100);
/// Longest time an idempotency key is remembered.
pub const IDEMPOTENCY_TTL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Shortest lease of an idempotency key: a shorter one could end before its answer arrived.
pub const IDEMPOTENCY_LEASE_MIN: Duration = Duration::from_millis(100);
/// Longest lease of an idempotency key: who takes longer renews.
pub const IDEMPOTENCY_LEASE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Longest id of a message that a source brings, in bytes.
pub const INBOUND_ID_BYTES_MAX: usize = 512;
/// Longest name of a source or a consumer, in bytes: it is part of the keys of what is stored. Configuration takes one byte less, for
/// what a source's refused messages are kept under.
pub const INBOX_NAME_BYTES_MAX: usize = 65;

/// Messages of a tenant that are always read into memory, however full the window is of others': so that each gets on. They come
/// on top of [`SchedulerLimits::window_messages`], or as many as those where those are fewer.
pub const TENANT_MESSAGES_MIN: usize = 64;

/// Bounds of one shard's scheduler; each is where a scan stops, and nothing is skipped unremembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerLimits {
    /// Messages held in memory, over all tenants of the shard.
    pub window_messages: usize,
    /// Bytes held in memory, over all tenants of the shard.
    pub window_bytes: usize,
    /// Messages of one key held in memory; the rest of the key is read again from its resume point.
    pub key_messages: usize,
    /// Segments claimed at once (`open` in the shard record).
    pub open_segments: usize,
    /// Keys remembered with a resume point; when full, the scan of that tenant stops.
    pub resume_points: usize,
    /// Doorstep rows read in one page of a pass.
    pub door_page: usize,
    /// Parked messages held in memory; past it a failed head stays in memory and counts against the window.
    pub scheduled_page: usize,
    /// Settlements taken into one commit.
    pub settle_max: usize,
    /// Bytes past which a commit takes nothing further ([`crate::outbox::weight`]). A single larger request still goes, with little
    /// beside it.
    pub commit_bytes: usize,
}

impl Default for SchedulerLimits {
    fn default() -> Self {
        Self {
            window_messages: 20_000,
            window_bytes: 32 * 1024 * 1024,
            key_messages: 64,
            open_segments: 128,
            resume_points: 100_000,
            door_page: 1_000,
            scheduled_page: 1_000,
            settle_max: 20_000,
            commit_bytes: COMMIT_BYTES_MAX,
        }
    }
}

/// Rows of one doorstep that are looked through for an id at most: behind them it isn't known whether it is there, until the shard's
/// owner has taken them in.
pub const DOOR_LOOK_ROWS_MAX: usize = 1_000;
/// The same for their payloads, in bytes.
pub const DOOR_LOOK_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Rows of a doorstep read at once: each may hold a megabyte.
pub const DOOR_LOOK_PAGE: usize = 16;
