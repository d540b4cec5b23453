//! `[alert]` as the host uses it.

use std::time::Duration;

use super::format::Format;
use super::incidents::Pace;

/// Where alerts go, and how they are read there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the transport to which routes lead `topic`.
    pub transport: String,
    pub topic: String,
    pub format: Format,
}

/// From when on there is an alert; none = never.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// So many dead letters.
    pub dead: Option<u64>,
    /// Age of the oldest message that is ready to be sent.
    pub oldest: Option<Duration>,
    /// Sagas that are stuck.
    pub stuck: Option<u64>,
    /// Of transports that are held, and of plugins whose instances keep failing.
    pub breaker: bool,
    /// Of plugins that were rolled back.
    pub rollback: bool,
    /// Bytes that are left on the store's disk.
    pub disk_free: Option<u64>,
    /// Time for which a relay is behind.
    pub relay_lag: Option<Duration>,
    /// Messages that wait at a source's peer.
    pub source_lag: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertSettings {
    pub to: Target,
    /// Where they go while the first can't be reached.
    pub fallback: Option<Target>,
    pub pace: Pace,
    pub bounds: Bounds,
}
