//! Every bound of the inbox with its unit, its default and the reason for it.

use std::time::Duration;

/// Default of `window`: deliveries of a source that aren't settled (`max_ack_pending` of source document 5).
pub const WINDOW_DEFAULT: u32 = 50;
/// Default of `window_bytes`: payload bytes of those. Past it a source waits, so that 65,536 large ones never fill the memory.
pub const WINDOW_BYTES_DEFAULT: u32 = 16 * 1024 * 1024;
/// Default of `concurrency`: calls of one consumer at once.
pub const CONCURRENCY_DEFAULT: u32 = 16;
/// Default of `max_attempts` (`max_deliver` of source document 5).
pub const MAX_ATTEMPTS_DEFAULT: u32 = 20;
pub const HANDLER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Default of `stored_max`: rows of one consumer, past which its sources wait. What is in hand then may still become rows.
pub const STORED_MAX_DEFAULT: usize = 5_000;
/// Default of `orphan_wait`, in times of `settle-within`: what was in hand at a crash has come again by then.
pub const ORPHAN_WAIT_FACTOR: u32 = 2;
/// With the rows at their bound, an orphan that its source doesn't bring is given up after so many times of its wait: nothing
/// could be pulled before, and so it would never come.
pub const ORPHAN_PATIENCE: u32 = 4;
/// Default of `dedup_window`, in time that somebody owned the shard.
pub const DEDUP_WINDOW_DEFAULT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Default of `dedup_memory`: filters over ids without a time and without a counter. Bytes.
pub const DEDUP_MEMORY_DEFAULT: usize = 32 * 1024 * 1024;
/// Default of `keep_done`: how long the history for operators stays.
pub const KEEP_DONE_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Default of `claim_ttl`: after it a row of a table that another worker has claimed counts as waiting again.
pub const CLAIM_TTL_DEFAULT: Duration = Duration::from_secs(5 * 60);
/// `settle-within` where a source tells none: nothing is stored for its sake, and orphans wait as long as this says.
pub const SETTLE_WITHIN_DEFAULT: Duration = Duration::from_secs(30);
/// Rule 7: a delivery that its source counts and that it brings so many times more at most is stored before it is handled.
pub const LAST_DELIVERIES: u32 = 2;
/// Rule 7: stored when a `settle-within` has less than this part left.
pub const DEADLINE_PART: u32 = 3;
/// A delivery is extended when its `settle-within` has less than this part left.
pub const EXTEND_PART: u32 = 2;
/// Least of a pause or a hold that a handler asks for, so that a handler that is always busy doesn't spin.
pub const HOLD_LEAST: Duration = Duration::from_millis(20);
/// A pause or a hold without a time of its own.
pub const HOLD_DEFAULT: Duration = Duration::from_secs(5);
/// Longest pause, hold or backoff that a handler may ask for.
pub const HOLD_MAX: Duration = Duration::from_secs(3_600);
/// Contexts that are counted apart; of more, the others count together.
pub const CONTEXTS_MAX: usize = 64;
/// Context under which those beyond [`CONTEXTS_MAX`] count.
pub const OTHER_CONTEXTS: &str = "(other)";
/// Outcomes that one commit takes, so that it stays small beside their payloads.
pub const COMMIT_OUTCOMES_MAX: usize = 1_000;
/// Rows that are read at once before they are called.
pub const LOADS_MAX: usize = 64;
/// Bytes of payloads of rows that are kept in memory while they wait; past it they are read again before they are called.
pub const ROW_BYTES_KEPT: usize = 16 * 1024 * 1024;
/// While the owner is cautious, what a consumer may call next is named ahead up to this many times its concurrency; and so many rows
/// are read ahead although [`ROW_BYTES_KEPT`] is used up.
pub const NAMED_AHEAD: usize = 2;
/// Messages that went with their deliveries and may have been handled are kept by name up to so many; past it all that come are told so.
pub const TOUCHED_MAX: usize = 65_536;
/// Deliveries of a source that are followed until they are settled, to know behind which position it begins again. More are there only
/// if its peer removed them meanwhile.
pub const UNSETTLED_FOLLOWED_MAX: usize = 65_536;
/// Ids with a time so long past lie with those that have none.
pub const ID_TIME_PAST_MAX: Duration = Duration::from_secs(40 * 24 * 3600);
/// Ids with a time so far ahead lie with those that have none.
pub const ID_TIME_AHEAD_MAX: Duration = Duration::from_secs(24 * 3600);
/// Counters that share a bucket: a bitmap of 8 KiB when all were seen.
pub const COUNTER_BLOCK: u64 = 65_536;
/// An owner commits at least so often while it works, so that the time it owned the shard isn't lost with it.
pub const AGE_BEAT: Duration = Duration::from_secs(60);
/// A delivery that can't be extended counts as gone so long after its `settle-within`.
pub const TOKEN_GRACE: Duration = Duration::from_secs(1);
