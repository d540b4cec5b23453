//! How each generation of a plugin does.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::plugins::TransportPlugin;

/// A plugin, and how its generations did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PluginShown {
    pub plugin: TransportPlugin,
    /// Of each generation that served since this host runs, the latest 8, newest first. Empty for sources and retry policies, and for
    /// credentials of some tenants.
    pub outcomes: Vec<GenerationOutcomes>,
}

/// What was counted of one generation since it serves, over all its instances. It is kept in memory: a host that was started again counts
/// anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GenerationOutcomes {
    /// Its number, as in `plugin.history`.
    pub generation: u32,
    /// Messages that a receiver has, received messages that were handled, steps that were done or undone.
    pub delivered: u64,
    /// Those of which it said that they never will be.
    pub refused: u64,
    /// Those that it wants to be tried again.
    pub retried: u64,
    /// Those that it gave back untried, or whose destination it found at fault.
    pub held: u64,
    /// Calls that gave it work.
    pub calls: u64,
    /// Those that failed as a whole: of what was in them only what was told early is counted above.
    pub failed_calls: u64,
    /// Instances that trapped, ran out of time or broke the contract.
    pub traps: u64,
    /// How long its calls took; null before the first.
    pub took: Option<CallTimes>,
    /// Most memory of all its instances together.
    pub memory_peak_bytes: u64,
}

/// How long calls took, in microseconds. Quantiles are told a quarter too long at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallTimes {
    pub mean_us: u64,
    /// Half of all calls took no longer.
    pub p50_us: u64,
    /// 95 of 100 took no longer.
    pub p95_us: u64,
    /// 99 of 100 took no longer.
    pub p99_us: u64,
}
