//! The bounds of one endpoint: their defaults, what its plugin asks and its operator grants, and what comes of the three.
//!
//! A bound has a field and a default in [`PluginLimits`]; one that manifests or operators set has a field in [`LimitOverlay`],
//! its line in [`PluginLimits::tighten`] and its row in [`PluginLimits::settable`] besides.

use std::time::Duration;

/// Linear memory of one instance where the manifest asks for no size, in bytes.
pub const MEMORY_BYTES_DEFAULT: usize = 64 * 1024 * 1024;
/// Linear memory a plugin gets by asking alone, without a grant that names a size, in bytes: enough for a Python component.
pub const MEMORY_BYTES_UNGRANTED_MAX: usize = 128 * 1024 * 1024;
/// Longest call, whatever is asked and granted.
pub const CALL_TIME_MAX: Duration = Duration::from_secs(600);
/// CPU time of one call that a plugin gets by asking alone.
pub const CPU_PER_CALL_UNGRANTED_MAX: Duration = Duration::from_secs(10);
/// `net` connections of one instance that a plugin gets by asking alone.
pub const CONNECTIONS_UNGRANTED_MAX: usize = 64;
/// Bytes a guest may hand over in one call beyond the batch itself (wasmtime's default is 128 MiB).
pub const HOSTCALL_BYTES_MIN: usize = 4 * 1024 * 1024;

/// Bounds of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// Linear memory of one instance, all memories together, in bytes.
    pub memory_bytes: usize,
    /// Time for one call; what the engine gives a call may be less.
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
    /// Bytes of HTTP answers, headers included, that one endpoint's guests have been sent and don't have yet, over all its
    /// instances: the host holds them until then. Past it bodies are cut, and requests that weren't sent aren't.
    pub http_answers_bytes: usize,
    /// Bytes of HTTP requests, headers included, that one endpoint's guests have handed over and that aren't sent and answered
    /// yet, over all its instances: the host holds them until then, also while they wait for their turn. Past it requests are
    /// refused.
    pub http_bodies_bytes: usize,
    /// Log entries a second of one endpoint; ten times as many in a burst.
    pub log_per_second: u32,
    /// Time for `open`, instantiation included.
    pub open_timeout: Duration,
    pub tick_timeout: Duration,
    pub health_timeout: Duration,
    /// Time for one provisioning call, instantiation included: below what `waybill` waits for an answer by default.
    pub provision_timeout: Duration,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            memory_bytes: MEMORY_BYTES_DEFAULT,
            call_time: CALL_TIME_MAX,
            cpu_per_call: Duration::from_secs(2),
            calls_per_instance: 64,
            max_batch: 1_000,
            max_batch_bytes: 1024 * 1024,
            connections: 16,
            http_in_flight: 512,
            http_per_peer: 64,
            http_response_bytes: 256 * 1024,
            http_answers_bytes: 64 * 1024 * 1024,
            http_bodies_bytes: 128 * 1024 * 1024,
            log_per_second: 20,
            open_timeout: Duration::from_secs(15),
            tick_timeout: Duration::from_secs(10),
            health_timeout: Duration::from_secs(5),
            provision_timeout: Duration::from_secs(25),
        }
    }
}

/// Bounds as a manifest asks for them, or as an operator grants them; none = nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitOverlay {
    /// [`PluginLimits::memory_bytes`].
    pub memory_bytes: Option<usize>,
    /// [`PluginLimits::call_time`]: `send_timeout` of a transport, `call_time` of a participant.
    pub call_time: Option<Duration>,
    /// [`PluginLimits::cpu_per_call`].
    pub cpu_per_call: Option<Duration>,
    /// [`PluginLimits::max_batch`].
    pub max_batch: Option<u32>,
    /// [`PluginLimits::connections`].
    pub connections: Option<usize>,
    /// [`PluginLimits::http_in_flight`].
    pub http_in_flight: Option<usize>,
    /// [`PluginLimits::http_per_peer`].
    pub http_per_peer: Option<usize>,
    /// [`PluginLimits::log_per_second`].
    pub log_per_second: Option<u32>,
}

impl PluginLimits {
    /// These limits with what the manifest asks for and the operator grants: the smaller of the two where both say something;
    /// by asking alone a plugin gets so much and no more; what nobody speaks of stays.
    #[must_use]
    pub fn tighten(self, ask: &LimitOverlay, grant: &LimitOverlay) -> Self {
        let Self { memory_bytes, call_time, cpu_per_call, max_batch, connections, .. } = self;
        let Self { http_in_flight, http_per_peer, log_per_second, .. } = self;
        Self {
            memory_bytes: smaller(ask.memory_bytes, grant.memory_bytes, memory_bytes, MEMORY_BYTES_UNGRANTED_MAX),
            call_time: smaller(ask.call_time, grant.call_time, call_time, call_time).min(call_time),
            cpu_per_call: smaller(ask.cpu_per_call, grant.cpu_per_call, cpu_per_call, CPU_PER_CALL_UNGRANTED_MAX),
            max_batch: smaller(ask.max_batch, grant.max_batch, max_batch, max_batch),
            connections: smaller(ask.connections, grant.connections, connections, CONNECTIONS_UNGRANTED_MAX),
            http_in_flight: smaller(ask.http_in_flight, grant.http_in_flight, http_in_flight, http_in_flight),
            http_per_peer: smaller(ask.http_per_peer, grant.http_per_peer, http_per_peer, http_per_peer),
            log_per_second: smaller(ask.log_per_second, grant.log_per_second, log_per_second, log_per_second),
            ..self
        }
    }

    /// Bytes a guest may hand over in one call: a whole batch with its headers must fit.
    pub fn hostcall_bytes(&self) -> usize {
        HOSTCALL_BYTES_MIN.max((self.max_batch_bytes as usize).saturating_mul(2).saturating_add(1024 * 1024))
    }

    /// The bounds that an operator can set, for people.
    pub fn settable(&self) -> [LimitRow; 8] {
        use LimitUnit::{Bytes, Count, PerSecond};
        let memory = "linear memory of one instance, summed; refused, mostly fatal";
        [
            LimitRow::new("memory", self.memory_bytes, Bytes, memory).set_by("memory"),
            LimitRow::time("cpu", self.cpu_per_call, "CPU time of one call; fatal").set_by("cpu_per_call"),
            LimitRow::time("call-time", self.call_time, "time of one batch, and no more than send_timeout; fatal")
                .set_by("send_timeout"),
            LimitRow::new("connections", self.connections, Count, "net connections of one instance; refused")
                .set_by("connections"),
            LimitRow::new(
                "http-requests",
                self.http_in_flight,
                Count,
                "HTTP requests under way, all instances; waited for",
            )
            .set_by("http_in_flight"),
            LimitRow::new("log", self.log_per_second as usize, PerSecond, "log entries, all instances; dropped")
                .set_by("log_per_second"),
            LimitRow::new(
                "http-per-peer",
                self.http_per_peer,
                Count,
                "HTTP requests under way to one peer; waited for",
            )
            .set_by("http_per_peer"),
            LimitRow::new("batch", self.max_batch as usize, Count, "messages of one call").set_by("max_batch"),
        ]
    }
}

fn smaller<T: Ord>(ask: Option<T>, grant: Option<T>, normal: T, ungranted_max: T) -> T {
    match (ask, grant) {
        (Some(ask), grant) => ask.min(grant.unwrap_or(ungranted_max)),
        (None, grant) => grant.unwrap_or(normal),
    }
}

/// What a bound is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    Bytes,
    Milliseconds,
    /// A number of things.
    Count,
    /// A number a second.
    PerSecond,
}

impl LimitUnit {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Milliseconds => "ms",
            Self::Count => "count",
            Self::PerSecond => "per-second",
        }
    }
}

/// One bound, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRow {
    /// Name; label `limit` of `waybill_plugin_limit_hits_total` where `counted`.
    pub name: &'static str,
    pub value: u64,
    pub unit: LimitUnit,
    /// Key of the transport's section that changes it.
    pub setting: Option<&'static str>,
    /// Whether meeting it is counted.
    pub counted: bool,
    /// What is bounded, and what follows.
    pub what: &'static str,
}

impl LimitRow {
    /// A bound that nothing sets and nobody counts.
    pub fn new(name: &'static str, value: usize, unit: LimitUnit, what: &'static str) -> Self {
        Self { name, value: value as u64, unit, setting: None, counted: false, what }
    }

    /// The same of a time.
    pub fn time(name: &'static str, value: Duration, what: &'static str) -> Self {
        let millis = usize::try_from(value.as_millis()).unwrap_or(usize::MAX);
        Self::new(name, millis, LimitUnit::Milliseconds, what)
    }

    /// The same with the key that changes it.
    #[must_use]
    pub fn set_by(self, setting: &'static str) -> Self {
        Self { setting: Some(setting), ..self }
    }

    #[must_use]
    pub fn counted(self) -> Self {
        Self { counted: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_the_smaller_of_ask_and_grant() {
        let memory = |ask, grant| {
            let ask = LimitOverlay { memory_bytes: ask, ..LimitOverlay::default() };
            let grant = LimitOverlay { memory_bytes: grant, ..LimitOverlay::default() };
            PluginLimits::default().tighten(&ask, &grant).memory_bytes
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
        let ask = LimitOverlay {
            cpu_per_call: Some(3600 * second),
            connections: Some(1_000),
            call_time: Some(second),
            ..LimitOverlay::default()
        };
        let asked = PluginLimits::default().tighten(&ask, &LimitOverlay::default());
        assert_eq!((asked.cpu_per_call, asked.connections), (CPU_PER_CALL_UNGRANTED_MAX, CONNECTIONS_UNGRANTED_MAX));
        assert_eq!(asked.call_time, second);
        let grant = LimitOverlay {
            cpu_per_call: Some(second),
            connections: Some(3),
            log_per_second: Some(5),
            http_in_flight: Some(1_000),
            ..LimitOverlay::default()
        };
        let granted = PluginLimits::default().tighten(&ask, &grant);
        assert_eq!((granted.cpu_per_call, granted.connections, granted.log_per_second), (second, 3, 5));
        assert_eq!((granted.http_in_flight, granted.http_per_peer), (1_000, 64));
    }

    #[test]
    fn no_call_takes_longer_than_the_longest_whatever_is_granted() {
        let grant = LimitOverlay { call_time: Some(2 * CALL_TIME_MAX), ..LimitOverlay::default() };
        assert_eq!(PluginLimits::default().tighten(&LimitOverlay::default(), &grant).call_time, CALL_TIME_MAX);
    }

    #[test]
    fn a_whole_batch_fits_into_one_host_call() {
        let limits = PluginLimits { max_batch_bytes: 16 * 1024 * 1024, ..PluginLimits::default() };
        assert!(limits.hostcall_bytes() > 16 * 1024 * 1024);
        assert_eq!(PluginLimits::default().hostcall_bytes(), HOSTCALL_BYTES_MIN);
    }
}
