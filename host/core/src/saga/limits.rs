//! Every bound of sagas with its unit, its default and the reason for it.

use std::time::Duration;

/// Most steps of one definition: a group of 64 in one row of a screen is still readable, more is a sub-saga.
pub const STEPS_MAX: usize = 64;
/// Largest definition as written, in bytes.
pub const DEFINITION_BYTES_MAX: usize = 256 * 1024;
/// Longest name of a definition, step, signal or concurrency tag, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Longest URL or subject of a step, in bytes.
pub const URI_BYTES_MAX: usize = 2_048;
/// Deepest nesting of sub-sagas, the root counted.
pub const DEPTH_MAX: usize = 8;
/// Most sagas of one tree: root, sub-sagas and theirs.
pub const TREE_SAGAS_MAX: usize = 256;
/// Longest saga id that a caller may choose, in bytes. Ids of sub-sagas are made of it and are longer.
pub const SAGA_ID_BYTES_MAX: usize = 128;
/// Longest CEL expression in a mapping, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 1_024;
/// Most values in input and outputs together when a mapping goes through a list: a thousand items with some fields each.
pub const COMPREHENSION_VALUES_MAX: usize = 10_000;
/// Most that the expressions of one mapping make together, in bytes; the step's own bound is checked after it.
pub const MAPPED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most that the expressions of one mapping may make on the way to that, in bytes, reckoned before each is worked out: some tens
/// of milliseconds of the shard's time.
pub const MAPPING_WORK_BYTES_MAX: usize = 4 * MAPPED_BYTES_MAX;
/// Deepest nesting of a mapping, in arrays and objects.
pub const MAPPING_DEPTH_MAX: usize = 32;
/// Most attempts that a retry policy may ask for.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// Longest timeout or deadline: a year. Longer waits are another saga.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
pub const TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Default `timeout_ms` of a step that calls (`http:`, `fn:`): as long as an HTTP client waits.
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Default `timeout_ms` of a `bus:` step: the message, the work and the reply.
pub const REPLY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(300);
/// Default `timeout_ms` of a `wait:` step: people sleep.
pub const WAIT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Attempts of a step by default (source document 1, §10).
pub const RETRY_ATTEMPTS_DEFAULT: u32 = 6;
/// Delay after the first failure by default.
pub const RETRY_BASE_DEFAULT: Duration = Duration::from_millis(1_000);
/// Growth of the delay by default.
pub const RETRY_FACTOR_DEFAULT: f64 = 2.0;
/// Random share of the delay by default.
pub const RETRY_JITTER_DEFAULT: f64 = 0.2;
/// Longest delay by default.
pub const RETRY_CAP_DEFAULT: Duration = Duration::from_secs(60);
/// A peer's wish to wait (`after`) is cut at this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Delay before a step that was not tried is tried again, when nobody said how long; it doubles up to
/// [`RELEASED_DELAY_MAX`].
pub const RELEASED_DELAY: Duration = Duration::from_millis(200);
/// Longest delay before a step that was not tried is tried again.
pub const RELEASED_DELAY_MAX: Duration = Duration::from_secs(30);
/// A call counts as unanswered this long after its timeout: whoever calls keeps the timeout itself and tells more.
pub const CALL_GRACE: Duration = Duration::from_millis(1_000);
/// Deaths of the host during calls of one step, with no answer in between, past which another one pauses its saga, if the step was
/// the only suspect that was called, and called after a wait. An end after a drain had begun, a shard given back and a takeover by
/// the process that had it are none.
pub const LOST_MAX: u32 = 5;
/// Deaths from which on a step is suspect: the next one may have been by chance, too.
pub const LOST_SUSPECT: u32 = 2;
/// A new writer lives for so long before it calls suspects again. Four times as long with each further death, if one is called by
/// itself, and after [`LOST_MAX`] deaths at least twice as long as the last writer lived.
pub const LOST_QUIET: Duration = Duration::from_secs(1);
/// Longest such time: who lives for longer isn't killed often, and what hangs has run into its timeout.
pub const LOST_QUIET_MAX: Duration = Duration::from_secs(600);
/// Signals kept that came before their wait.
pub const SIGNALS_MAX: usize = 64;
/// Largest data of a signal, in bytes.
pub const SIGNAL_BYTES_MAX: usize = 64 * 1024;
/// Longest note of an operator, in bytes.
pub const NOTE_BYTES_MAX: usize = 1_024;
/// Longest error text kept, in bytes; longer ones are cut.
pub const REASON_BYTES_MAX: usize = 2_048;
/// Events kept from the beginning of a long history.
pub const HISTORY_FIRST_MAX: usize = 200;
/// Latest events kept of a long history; what lies between is counted and dropped.
pub const HISTORY_LAST_MAX: usize = 800;
/// Ended sagas remembered so that a start that was looked up before their end isn't taken twice.
pub const RECENT_MAX: usize = 4_096;
/// Due timers worked on in one tick, so that requests get their turn.
pub const TICK_MAX: usize = 1_000;

/// Settings of the sagas of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SagaLimits {
    /// Largest input of a saga and of a step, in bytes.
    pub input_bytes_max: usize,
    /// Largest output of a step, in bytes.
    pub output_bytes_max: usize,
    /// Sagas (trees) in memory: running, waiting, paused or stuck. A start past it is refused.
    pub running_max: usize,
    /// Inputs and outputs of those together, in bytes. A start past it is refused.
    pub running_bytes_max: usize,
    /// A saga that waits at least this long gets a row of its own.
    pub rest_after: Duration,
    /// A commit takes no further transitions past this many bytes.
    pub commit_bytes_max: usize,
    /// Journal records after which a saga that still needs the oldest one gets a row, so that the journal can be cut.
    pub journal_records_max: u64,
    /// Rows written only for that in one commit.
    pub checkpoints_max: usize,
    /// Largest payload of a message for the outbox (`outbox.max_payload_bytes`).
    pub message_bytes_max: usize,
    /// Shards of the outbox, for messages of `bus:` steps.
    pub outbox_shards: u16,
}

impl Default for SagaLimits {
    fn default() -> Self {
        Self {
            input_bytes_max: 256 * 1024,
            output_bytes_max: 256 * 1024,
            running_max: 50_000,
            running_bytes_max: 256 * 1024 * 1024,
            rest_after: Duration::from_secs(2),
            commit_bytes_max: crate::limits::COMMIT_BYTES_MAX,
            journal_records_max: 2_000,
            checkpoints_max: 100,
            message_bytes_max: crate::limits::PAYLOAD_BYTES_MAX_DEFAULT,
            outbox_shards: 1,
        }
    }
}
