//! Every bound of the sandbox with its unit, its default and the reason for it.
//!
//! [`PluginLimits`] holds what may differ from one endpoint to the next; the constants hold for all.

mod table;

use std::time::Duration;

pub use table::{LimitRow, LimitUnit, limits_table};

use crate::grants::Grants;
use crate::manifest::Ask;

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
/// Largest manifest, in bytes.
pub const MANIFEST_BYTES_MAX: usize = 64 * 1024;
/// Period of the epoch ticker while guests are at work: how soon a busy one gives its thread back. At ten times as much, a
/// guest that spins doubles the 99th percentile of its neighbours.
pub const EPOCH_TICK: Duration = Duration::from_millis(1);
/// Period of the epoch ticker while no guest is at work, so that an idle host stays idle.
pub const EPOCH_TICK_IDLE: Duration = Duration::from_millis(10);
/// Linear memory of one instance where the manifest asks for no size, in bytes.
pub const MEMORY_BYTES_DEFAULT: usize = 64 * 1024 * 1024;
/// Linear memory a plugin gets by asking alone, without a grant that names a size, in bytes: enough for a Python component.
pub const MEMORY_BYTES_UNGRANTED_MAX: usize = 128 * 1024 * 1024;
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
/// Bytes a guest may hand over in one call beyond the batch itself (wasmtime's default is 128 MiB).
pub const HOSTCALL_BYTES_MIN: usize = 4 * 1024 * 1024;
/// Stack of one call, in bytes (wasmtime's default).
pub const STACK_BYTES_MAX: usize = 512 * 1024;
/// Header names and values of one HTTP request together, in bytes.
pub const REQUEST_HEADER_BYTES_MAX: usize = 32 * 1024;
/// Most random bytes in one call: more is no key and no seed.
pub const RANDOM_BYTES_MAX: u64 = 64 * 1024;
/// Header fields of one `wasi:http` message, in bytes, in-memory overhead included.
pub const WASI_HTTP_FIELD_BYTES_MAX: usize = 32 * 1024;

/// Longest call, whatever is asked and granted.
pub const CALL_TIME_MAX: Duration = Duration::from_secs(600);
/// CPU time of one call where neither manifest nor operator says one.
pub const CPU_PER_CALL_DEFAULT: Duration = Duration::from_secs(2);
/// CPU time of one call that a plugin gets by asking alone.
pub const CPU_PER_CALL_UNGRANTED_MAX: Duration = Duration::from_secs(10);
/// `net` connections of one instance where neither manifest nor operator says a number.
pub const CONNECTIONS_DEFAULT: usize = 16;
/// `net` connections of one instance that a plugin gets by asking alone.
pub const CONNECTIONS_UNGRANTED_MAX: usize = 64;

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
/// Most fields of one log entry.
pub const LOG_FIELDS_MAX: usize = 32;
/// Longest line taken from stdout or stderr, in bytes; longer ones are cut into several.
pub const STDIO_LINE_BYTES_MAX: usize = 2 * 1024;

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
/// Bytes of answers, headers included, that one endpoint's guests have been sent and don't have yet, over all its instances:
/// the host holds them until then. Past it bodies are cut, and requests that weren't sent aren't.
pub const HTTP_ANSWERS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of requests, headers included, that one endpoint's guests have handed over and that aren't sent and answered yet, over all
/// its instances: the host holds them until then, also while they wait for their turn. Past it requests are refused.
pub const HTTP_BODIES_BYTES_MAX: usize = 128 * 1024 * 1024;
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

/// Bounds of one endpoint. Effective = the smaller of what the plugin asks, what the operator grants and these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// Linear memory of one instance, all memories together, in bytes.
    pub memory_bytes: usize,
    /// Time for one batch; what the engine gives a call may be less.
    pub call_time: Duration,
    /// CPU time of one call. Calls that run at once share what they bring.
    pub cpu_per_call: Duration,
    /// Calls one instance runs at once, at most.
    pub calls_per_instance: u32,
    /// Messages in one call, at most.
    pub max_batch: u32,
    /// Payload bytes in one call, at most; a single larger message still goes alone.
    pub max_batch_bytes: u32,
    /// `net` connections of one instance.
    pub connections: usize,
    /// HTTP requests of one endpoint under way at once, over all its instances.
    pub http_in_flight: usize,
    /// HTTP requests of one endpoint to one peer under way at once.
    pub http_per_peer: usize,
    /// Body bytes of one HTTP answer; the rest is cut and `truncated` set.
    pub http_response_bytes: usize,
    /// Bytes of HTTP answers of one endpoint that its guests don't have yet.
    pub http_answers_bytes: usize,
    /// Bytes of HTTP requests of one endpoint under way or waiting.
    pub http_bodies_bytes: usize,
    /// Log entries a second of one endpoint; ten times as many in a burst.
    pub log_per_second: u32,
    /// Time for `open`, instantiation included.
    pub open_timeout: Duration,
    /// Time for `tick`.
    pub tick_timeout: Duration,
    /// Time for `health`.
    pub health_timeout: Duration,
    /// Time for one provisioning call, instantiation included: below what `waybill` waits for an answer by default.
    pub provision_timeout: Duration,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            memory_bytes: MEMORY_BYTES_DEFAULT,
            call_time: CALL_TIME_MAX,
            cpu_per_call: CPU_PER_CALL_DEFAULT,
            calls_per_instance: 64,
            max_batch: 1_000,
            max_batch_bytes: 1024 * 1024,
            connections: CONNECTIONS_DEFAULT,
            http_in_flight: 512,
            http_per_peer: 64,
            http_response_bytes: 256 * 1024,
            http_answers_bytes: HTTP_ANSWERS_BYTES_MAX,
            http_bodies_bytes: HTTP_BODIES_BYTES_MAX,
            log_per_second: 20,
            open_timeout: Duration::from_secs(15),
            tick_timeout: Duration::from_secs(10),
            health_timeout: Duration::from_secs(5),
            provision_timeout: Duration::from_secs(25),
        }
    }
}

impl PluginLimits {
    /// These limits with what the manifest asks for and the operator grants: the smaller of the two where both say something;
    /// by asking alone a plugin gets so much and no more; what nobody speaks of stays.
    #[must_use]
    pub fn effective(mut self, ask: &Ask, grants: &Grants) -> Self {
        self.memory_bytes = smaller(ask.memory, grants.memory_bytes, self.memory_bytes, MEMORY_BYTES_UNGRANTED_MAX);
        self.cpu_per_call =
            smaller(ask.cpu_per_call, grants.cpu_per_call, self.cpu_per_call, CPU_PER_CALL_UNGRANTED_MAX);
        self.connections = smaller(ask.connections, grants.connections, self.connections, CONNECTIONS_UNGRANTED_MAX);
        self.call_time = self.call_time.min(ask.call_time.unwrap_or(CALL_TIME_MAX));
        self.log_per_second = grants.log_per_second.unwrap_or(self.log_per_second);
        self
    }

    /// Bytes a guest may hand over in one call: a whole batch with its headers must fit.
    pub fn hostcall_bytes(&self) -> usize {
        HOSTCALL_BYTES_MIN.max((self.max_batch_bytes as usize).saturating_mul(2).saturating_add(1024 * 1024))
    }
}

fn smaller<T: Ord>(ask: Option<T>, grant: Option<T>, normal: T, ungranted_max: T) -> T {
    match (ask, grant) {
        (Some(ask), grant) => ask.min(grant.unwrap_or(ungranted_max)),
        (None, grant) => grant.unwrap_or(normal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_the_smaller_of_ask_and_grant() {
        let memory = |ask, grant| {
            let ask = Ask { memory: ask, ..Ask::default() };
            let grants = Grants { memory_bytes: grant, ..Grants::none() };
            PluginLimits::default().effective(&ask, &grants).memory_bytes
        };
        assert_eq!(memory(None, None), MEMORY_BYTES_DEFAULT);
        assert_eq!(memory(Some(1 << 30), None), MEMORY_BYTES_UNGRANTED_MAX);
        assert_eq!(memory(Some(1 << 30), Some(1 << 29)), 1 << 29);
        assert_eq!(memory(Some(1 << 20), Some(1 << 29)), 1 << 20);
        assert_eq!(memory(None, Some(1 << 29)), 1 << 29);
    }

    #[test]
    fn each_limit_follows_the_same_rule() {
        let second = Duration::from_secs(1);
        let ask = Ask {
            cpu_per_call: Some(3600 * second),
            connections: Some(1_000),
            call_time: Some(second),
            ..Ask::default()
        };
        let asked = PluginLimits::default().effective(&ask, &Grants::none());
        assert_eq!((asked.cpu_per_call, asked.connections), (CPU_PER_CALL_UNGRANTED_MAX, CONNECTIONS_UNGRANTED_MAX));
        assert_eq!(asked.call_time, second);
        let grants =
            Grants { cpu_per_call: Some(second), connections: Some(3), log_per_second: Some(5), ..Grants::none() };
        let granted = PluginLimits::default().effective(&ask, &grants);
        assert_eq!((granted.cpu_per_call, granted.connections, granted.log_per_second), (second, 3, 5));
    }

    #[test]
    fn a_whole_batch_fits_into_one_host_call() {
        let limits = PluginLimits { max_batch_bytes: 16 * 1024 * 1024, ..PluginLimits::default() };
        assert!(limits.hostcall_bytes() > 16 * 1024 * 1024);
        assert_eq!(PluginLimits::default().hostcall_bytes(), HOSTCALL_BYTES_MIN);
    }
}
