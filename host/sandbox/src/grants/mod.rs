//! What an operator lets a plugin do, and the one place where it is judged.
//!
//! Effective = what the manifest asks ∩ what is granted here. Nothing granted, nothing reached.

mod address;
mod names;
mod own;
mod pattern;
mod policy;
mod required;
mod resolve;

use std::collections::BTreeMap;
use std::time::Duration;

use waybill_core::port::kv::KvQuota;

pub use address::{AddressClass, classify};
pub use own::OwnListeners;
pub use pattern::{HostPattern, Pattern, PatternError, PortPattern, Scheme};
pub use policy::{ConnectFailure, EgressPolicy, Target};
pub use required::{Need, check_grants};
pub use resolve::{Resolve, SystemResolver};

use crate::error::SandboxError;

/// What the operator grants to one endpoint (`allow`, `secrets` and `limits` of its section in `waybill.toml`).
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// Peers: `tcp://` patterns for `net`, `http://` and `https://` ones for `http` and `wasi:http`.
    pub peers: Vec<Pattern>,
    /// All names that `peers` has exactly may lead to this machine and to private networks (`allow.internal`), as if each were
    /// marked by itself ([`Pattern::internal`]).
    pub internal: bool,
    /// Where each secret comes from, by the name the plugin asks for, e.g. `token` -> `env:NATS_TOKEN`.
    pub secrets: BTreeMap<String, String>,
    /// Durable state; none = not granted.
    pub kv: Option<KvQuota>,
    /// Linear memory of one instance, in bytes; none = what is asked, up to
    /// [`crate::limits::MEMORY_BYTES_UNGRANTED_MAX`].
    pub memory_bytes: Option<usize>,
    /// CPU time of one call; none = what is asked, up to [`crate::limits::CPU_PER_CALL_UNGRANTED_MAX`].
    pub cpu_per_call: Option<Duration>,
    /// `net` connections of one instance; none = what is asked, up to [`crate::limits::CONNECTIONS_UNGRANTED_MAX`].
    pub connections: Option<usize>,
    /// Log entries a second; none = the host's default.
    pub log_per_second: Option<u32>,
}

impl Grants {
    /// Nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// HTTP to this machine only: what the bundled `http` transport gets without a configuration.
    pub fn loopback_http() -> Self {
        let peers = ["http", "https"]
            .iter()
            .flat_map(|scheme| {
                ["localhost", "127.0.0.0/8", "[::1]"].map(|host| Pattern::parse(&format!("{scheme}://{host}:*")))
            })
            .filter_map(Result::ok)
            .collect();
        Self { peers, ..Self::default() }
    }

    /// Adds patterns as written in `allow.net` or `allow.http`.
    pub fn allow<'a>(mut self, patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, SandboxError> {
        for text in patterns {
            let pattern = Pattern::parse_grant(text)
                .map_err(|error| SandboxError::Grant { pattern: text.to_owned(), cause: error.to_string() })?;
            self.peers.push(pattern);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_loopback_grant_has_every_spelling_of_this_machine() {
        assert_eq!(Grants::loopback_http().peers.len(), 6);
    }

    #[test]
    fn a_bad_pattern_is_an_error_with_the_fix() {
        let error = Grants::none().allow(["tcp://broker"]).unwrap_err();
        assert_eq!(error.code(), "PLUGIN.GRANT");
        assert!(error.to_string().contains("port"), "{error}");
    }
}
