//! Every bound that holds for all endpoints, with its unit and the reason for it. What may differ from one endpoint to the next
//! is in [`waybill_core::endpoint::PluginLimits`].

mod table;

use std::time::Duration;

pub use table::limits_table;

/// Largest component taken, in bytes: a Python component has about 20 MB.
pub const COMPONENT_BYTES_MAX: usize = 48 * 1024 * 1024;
/// CPU time of one compilation in a process of its own: a Python component takes 12 s.
pub const COMPILE_CPU: Duration = Duration::from_secs(60);
/// How many times its CPU time a compilation may take by the clock: its priority is low, and the machine may be busy.
pub const COMPILE_CLOCK_FACTOR: u32 = 20;
/// Address space of one compilation in a process of its own, in bytes: a Python component uses 350 MB and stays below 1 GiB.
pub const COMPILE_MEMORY_BYTES: u64 = 2 << 30;
/// Compilations in processes of their own at once; the others wait.
pub const COMPILES_AT_ONCE_MAX: usize = 2;
/// Largest machine code a compilation may answer, in bytes: a JavaScript component with its engine has 52 MB.
pub const COMPILED_BYTES_MAX: u64 = 512 << 20;
/// Machine code that is kept on disk, in bytes, over all plugins and versions: more than what one host loads.
pub const COMPILED_CACHE_BYTES_MAX: u64 = 4 * COMPILED_BYTES_MAX;
/// Largest manifest, in bytes.
pub const MANIFEST_BYTES_MAX: usize = 64 * 1024;
/// Period of the epoch ticker while guests are at work: how soon a busy one gives its thread back. At ten times as much, a
/// guest that spins doubles the 99th percentile of its neighbours.
pub const EPOCH_TICK: Duration = Duration::from_millis(1);
/// Period of the epoch ticker while no guest is at work, so that an idle host stays idle.
pub const EPOCH_TICK_IDLE: Duration = Duration::from_millis(10);
/// Table elements of one instance, all tables together: CPython's function table has about 15,000.
pub const TABLE_ELEMENTS_MAX: usize = 100_000;
/// Core instances inside one component instance: Python components have about 30.
pub const CORE_INSTANCES_MAX: usize = 100;
/// Tables inside one component instance.
pub const TABLES_MAX: usize = 100;
/// Linear memories inside one component instance.
pub const MEMORIES_MAX: usize = 32;
/// Live handles and host resources of one instance (wasmtime's default is 100,000).
pub const HANDLES_MAX: usize = 1_000;
/// Stack of one call, in bytes (wasmtime's default).
pub const STACK_BYTES_MAX: usize = 512 * 1024;
/// Header names and values of one HTTP request together, in bytes.
pub const REQUEST_HEADER_BYTES_MAX: usize = 32 * 1024;
/// Most random bytes in one call: more is no key and no seed.
pub const RANDOM_BYTES_MAX: u64 = 64 * 1024;
/// Header fields of one `wasi:http` message, in bytes, in-memory overhead included.
pub const WASI_HTTP_FIELD_BYTES_MAX: usize = 32 * 1024;

/// CPU time for instantiation and `open` together: starting a Python interpreter takes seconds.
pub const CPU_OPEN: Duration = Duration::from_secs(10);
/// Most changes one provisioning call may answer; more are cut.
pub const PROVISION_CHANGES_MAX: usize = 1_000;
/// Commands waiting for one instance: more would only wait past their deadline.
pub const LANE_QUEUE: usize = 64;
/// A call counts as cancelled for `control.cancelled` when this is left of it, at most a fifth of its timeout.
pub const CANCEL_MARGIN_MAX: Duration = Duration::from_secs(1);
/// `unavailable` answers in a row after which an instance is replaced.
pub const UNAVAILABLE_STREAK_MAX: u32 = 3;

/// Groups and deliveries that one instance's notices may name, each; and that are kept of a lane until they are asked for.
pub const NOTICES_MAX: usize = 10_000;
/// Contexts whose counts a table may answer.
pub const TABLE_CONTEXTS_MAX: usize = 10_000;
/// Longest error of a dead row that is shown, in bytes.
pub const DEAD_ERROR_BYTES_MAX: usize = 4 * 1024;

/// What a source's `pull` may take beyond the time it waits for the first delivery.
pub const PULL_MARGIN: Duration = Duration::from_secs(10);

/// Largest input of a saga step, in bytes: what mappings make of earlier outputs.
pub const STEP_INPUT_BYTES_MAX: usize = 1024 * 1024;
/// Largest output of a saga step, in bytes: it is kept with the saga.
pub const STEP_OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Most messages and events that one step or handled message leaves behind.
pub const FOLLOWUPS_MAX: usize = 1_000;
/// Their payloads and headers together, in bytes.
pub const FOLLOWUP_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most steps one participant serves.
pub const STEPS_MAX: usize = 256;
/// Longest name of a step, in bytes: it is part of `fn:` addresses.
pub const STEP_NAME_BYTES_MAX: usize = 64;
/// Instances of a participant that are kept warm between calls, at most.
pub const PARTICIPANT_IDLE_INSTANCES_MAX: usize = 8;
/// How long a warm instance of a participant is kept without a call.
pub const PARTICIPANT_IDLE_TIME: Duration = Duration::from_secs(60);
/// Calls after which an instance of a participant is replaced: what it leaks, it leaks so often at most.
pub const PARTICIPANT_USES_MAX: u32 = 1_000;
/// How long a call of a participant waits for a free instance.
pub const PARTICIPANT_WAIT_MAX: Duration = Duration::from_secs(5);
/// Calls of one participant that may wait for a free instance; more are told to come back.
pub const PARTICIPANT_WAITERS_MAX: usize = 1_000;
/// When to come back, told to a call that found no free instance.
pub const PARTICIPANT_BUSY_AFTER: Duration = Duration::from_millis(500);
/// Longest call of a participant where the configuration says nothing.
pub const PARTICIPANT_CALL_TIME: Duration = Duration::from_secs(30);

/// How long a guest's word that its peer asked to wait (`blocked`) holds back sending; then a call is tried, so that a
/// guest that never takes it back isn't stuck for ever.
pub const PEER_BLOCKED_TRUST: Duration = Duration::from_secs(5);

/// Restarts within [`RESTART_WINDOW`] that happen at once; the next one opens the breaker.
pub const RESTARTS_MAX: usize = 5;
/// Window in which restarts are counted.
pub const RESTART_WINDOW: Duration = Duration::from_secs(60);
/// First time the breaker stays open; doubles with each failed try.
pub const BREAKER_DELAY_MIN: Duration = Duration::from_secs(1);
/// Longest time the breaker stays open.
pub const BREAKER_DELAY_MAX: Duration = Duration::from_secs(60);
/// First delay after an `open` that found nobody; doubles.
pub const REOPEN_DELAY_MIN: Duration = Duration::from_millis(200);
/// Longest delay between two `open`s; also cuts a guest's wish.
pub const REOPEN_DELAY_MAX: Duration = Duration::from_secs(30);

/// Longest code of a fault, in bytes.
pub const FAULT_CODE_BYTES_MAX: usize = 64;
/// Longest reason of a fault, in bytes.
pub const FAULT_REASON_BYTES_MAX: usize = 1_024;
/// Most attributes of a receipt or fault.
pub const ATTRIBUTES_MAX: usize = 32;
/// Longest name or value of an attribute, in bytes.
pub const ATTRIBUTE_BYTES_MAX: usize = 256;

/// Longest log message, in bytes.
pub const LOG_MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// Log lines of one endpoint that are kept for who follows it: a panic with what led to it.
pub const LOG_KEPT_LINES_MAX: usize = 500;
/// The same in bytes.
pub const LOG_KEPT_BYTES_MAX: usize = 256 * 1024;
/// Endpoints whose lines are kept, those that are gone included.
pub const LOG_KEPT_ENDPOINTS_MAX: usize = 1_024;
/// Most fields of one log entry.
pub const LOG_FIELDS_MAX: usize = 32;
/// Longest line taken from stdout or stderr, in bytes; longer ones are cut into several.
pub const STDIO_LINE_BYTES_MAX: usize = 2 * 1024;

/// Lines of stderr that are kept of an instance, to tell with a trap.
pub const LAST_WORDS_LINES_MAX: usize = 16;
/// Longest of them, in bytes.
pub const LAST_WORDS_LINE_BYTES_MAX: usize = 512;

/// Metric series (name and labels) of one endpoint.
pub const METRIC_SERIES_MAX: usize = 256;
/// Longest metric or label name, in bytes.
pub const METRIC_NAME_BYTES_MAX: usize = 64;
/// Longest label value, in bytes.
pub const METRIC_LABEL_BYTES_MAX: usize = 64;
/// Most labels of one metric.
pub const METRIC_LABELS_MAX: usize = 8;

/// Largest secret, in bytes: a certificate chain fits.
pub const SECRET_BYTES_MAX: usize = 64 * 1024;
/// Most keys one `kv.keys` answers.
pub const KV_KEYS_MAX: u32 = 1_000;

/// Most bytes one `net` read answers.
pub const NET_READ_BYTES_MAX: usize = 1024 * 1024;
/// Most addresses of one name that are looked at.
pub const ADDRESSES_MAX: usize = 32;
/// Time for one name to be resolved, within the caller's own timeout.
pub const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Name lookups under way in the whole host: each takes a thread of the blocking pool.
pub const RESOLVES_IN_FLIGHT_MAX: usize = 32;
/// Name lookups under way of one endpoint: names that nobody answers for must not hold up the others.
pub const RESOLVES_PER_ENDPOINT_MAX: usize = 8;
/// How long what a name resolves to is used again, by one endpoint. Every use is judged anew.
pub const RESOLVED_FRESH: Duration = Duration::from_secs(5);
/// How long a name that can't be resolved isn't looked up again, by one endpoint.
pub const UNRESOLVED_FRESH: Duration = Duration::from_secs(2);
/// Names of one endpoint whose addresses are remembered.
pub const RESOLVED_NAMES_MAX: usize = 1_024;

/// Most requests in one `http.send`: more go in another one, beside it.
pub const HTTP_REQUESTS_PER_SEND_MAX: usize = 256;
/// Bytes that a peer may send ahead of what is read, in one HTTP/2 stream; four times as many over a connection.
pub const HTTP2_WINDOW_BYTES: u32 = 256 * 1024;
/// Longest exchange, whatever the guest asks for.
pub const HTTP_TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// Idle connections kept for one peer.
pub const HTTP_IDLE_PER_PEER_MAX: usize = 64;
/// How long an idle connection is kept: below the 60 s of common servers and balancers.
pub const HTTP_IDLE_TIMEOUT: Duration = Duration::from_secs(45);
/// Header fields of one answer.
pub const HTTP_HEADERS_MAX: usize = 100;
/// Header bytes of one answer (the read buffer of HTTP/1, the header list of HTTP/2).
pub const HTTP_HEADER_BYTES_MAX: usize = 64 * 1024;
/// Peers whose concurrency is tracked for one endpoint; idle ones are forgotten first.
pub const HTTP_PEERS_MAX: usize = 1_024;

/// Fuel of one decision of a retry policy, in instructions: about 10 ms. Fuel, not time, so that the same arguments always
/// get the same answer.
pub const BACKOFF_FUEL: u64 = 20_000_000;
/// Fuel to instantiate a policy and check its configuration, in instructions.
pub const BACKOFF_VALIDATE_FUEL: u64 = 500_000_000;
/// Ticks after which a decision is stopped whatever its fuel: a backstop for what fuel doesn't count.
pub const BACKOFF_TICKS: u64 = 1_000;
/// Linear memory of a policy, in bytes.
pub const BACKOFF_MEMORY_BYTES: usize = 16 * 1024 * 1024;
/// Longest delay a policy may answer; a longer one is cut.
pub const BACKOFF_DELAY_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
