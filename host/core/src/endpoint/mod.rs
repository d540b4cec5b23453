//! An endpoint: one configured use of a plugin (`[transport.NAME]`, `[participant.NAME]`), with what its operator says of it.
//!
//! A setting is declared here, or in `limits` if it is a bound, with its default and its meaning. Configuration reads it into
//! these types, and whoever it takes effect in (sandbox, engine) is handed them whole.

mod limits;
mod message_ids;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::outbox::rates::Rate;
use crate::port::kv::KvQuota;

pub use limits::{
    CALL_TIME_MAX, CONNECTIONS_UNGRANTED_MAX, CPU_PER_CALL_UNGRANTED_MAX, HOSTCALL_BYTES_MIN, LimitOverlay, LimitRow,
    LimitUnit, MEMORY_BYTES_DEFAULT, MEMORY_BYTES_UNGRANTED_MAX, PluginLimits,
};

pub use message_ids::MessageIds;

/// How long a new generation is watched, unless the configuration says otherwise.
const PROBATION_DEFAULT: Duration = Duration::from_secs(60);
/// How long calls under way on an old generation may take: more than the 30 s that a call has by default.
const DRAIN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// What an operator says of one endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSettings {
    pub name: String,
    pub plugin: PluginRef,
    /// Instances that serve at once; at least 1.
    pub instances: u32,
    /// Document for the plugin, checked against its manifest's schema.
    pub config: Value,
    /// What it may reach, keep and take.
    pub grants: Grants,
    /// Create what is missing at the peer before the first instance serves. A conflict keeps a transport from opening.
    pub provision: bool,
    /// Digest that the component must have, `sha256:<hex>` or the hex digits.
    pub sha256: Option<String>,
    /// A file that changes is loaded by itself.
    pub watch: bool,
    /// How a new version takes over.
    pub policy: SlotPolicy,
    /// How a transport's messages are named on the wire.
    pub message_ids: MessageIds,
    /// Messages of a transport that are sent a second; none = as many as there are.
    pub rate: Option<Rate>,
}

impl Default for EndpointSettings {
    /// One instance, no configuration, nothing granted.
    fn default() -> Self {
        Self {
            name: String::new(),
            plugin: PluginRef::Bundled(String::new()),
            instances: 1,
            config: Value::Null,
            grants: Grants::none(),
            provision: false,
            sha256: None,
            watch: false,
            policy: SlotPolicy::default(),
            message_ids: MessageIds::default(),
            rate: None,
        }
    }
}

impl EndpointSettings {
    /// An endpoint of this name with the defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Whether a plugin that serves by these settings goes on as it is by others: they differ at most in how long its calls may take
    /// when it is replaced, and in what is sent through it a second.
    pub fn goes_on_as(&self, next: &Self) -> bool {
        let policy = SlotPolicy { drain_timeout: self.policy.drain_timeout, ..next.policy };
        *self == Self { policy, rate: self.rate, ..next.clone() }
    }
}

/// Where a plugin comes from, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginRef {
    Bundled(String),
    File(PathBuf),
}

/// What an operator lets an endpoint do (`allow`, `secrets` and the bounds of its section), as written. Nothing granted,
/// nothing reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grants {
    /// Patterns of peers: `tcp://` ones for `net`, `http://` and `https://` ones for `http` and `wasi:http`.
    pub peers: Vec<String>,
    /// Exact names among them may lead to this machine and to private networks, as if each were marked `internal:` by itself.
    pub internal: bool,
    /// Where each secret comes from, by the name the plugin asks for, e.g. `token` -> `env:NATS_TOKEN`.
    pub secrets: BTreeMap<String, String>,
    /// Durable state; none = not granted.
    pub kv: Option<KvQuota>,
    pub limits: LimitOverlay,
}

impl Grants {
    pub fn none() -> Self {
        Self::default()
    }

    /// HTTP to this machine only: what the bundled `http` transport gets without a configuration.
    pub fn loopback_http() -> Self {
        Self::none().allow(LOOPBACK.iter().copied())
    }

    /// Adds patterns of peers.
    #[must_use]
    pub fn allow<'a>(mut self, patterns: impl IntoIterator<Item = &'a str>) -> Self {
        self.peers.extend(patterns.into_iter().map(str::to_owned));
        self
    }
}

/// This machine, in every spelling.
pub const LOOPBACK: &[&str] = &[
    "http://localhost:*",
    "http://127.0.0.0/8:*",
    "http://[::1]:*",
    "https://localhost:*",
    "https://127.0.0.0/8:*",
    "https://[::1]:*",
];

/// How a generation follows another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReloadPolicy {
    /// The new one is open before the old one drains.
    #[default]
    Overlap,
    /// The old one has ended before the new one is opened: for peers that take one client of an identity.
    StopStart,
}

impl ReloadPolicy {
    /// As in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Overlap => "overlap",
            Self::StopStart => "stop-start",
        }
    }
}

/// How the generations of a transport's plugin follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPolicy {
    pub reload: ReloadPolicy,
    /// How long a new generation is watched and rolled back if it does worse; zero = not at all.
    pub probation: Duration,
    /// How long calls under way on an old generation may take; then they are cut and their messages sent again.
    pub drain_timeout: Duration,
}

impl Default for SlotPolicy {
    fn default() -> Self {
        Self { reload: ReloadPolicy::Overlap, probation: PROBATION_DEFAULT, drain_timeout: DRAIN_TIMEOUT_DEFAULT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_goes_on_by_settings_that_differ_in_the_drain_time_alone() {
        let settings = EndpointSettings::new("ship");
        let with = |policy| EndpointSettings { policy, ..settings.clone() };
        let longer = SlotPolicy { drain_timeout: Duration::from_secs(120), ..SlotPolicy::default() };
        assert!(settings.goes_on_as(&settings) && settings.goes_on_as(&with(longer)));
        let other_policy = SlotPolicy { reload: ReloadPolicy::StopStart, ..longer };
        assert!(!settings.goes_on_as(&with(other_policy)));
        assert!(!settings.goes_on_as(&EndpointSettings { instances: 2, ..with(longer) }));
    }
}
