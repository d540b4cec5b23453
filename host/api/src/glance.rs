//! What a host has in memory of how it does: for who watches it, second by second.

use crate::status::OutboxStats;

/// How a host does at an instant, as far as it is known without reading a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// Depths and ages by tenant and transport. What only the store counts, scheduled messages and dead letters, is 0.
    pub depths: Vec<OutboxStats>,
    /// All transports, also those for which nothing waits.
    pub transports: Vec<String>,
    /// Dead letters of all kinds as readiness or alerts counted them last; none = neither did, because `dead.alert_at` is 0 and there are no alerts, or the store doesn't answer.
    pub dead: Option<DeadCounted>,
}

/// How many dead letters were counted, without those in quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadCounted {
    pub count: u64,
    /// There are more than are counted.
    pub is_at_least: bool,
}

/// What there was of all tenants since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages that entered the order.
    pub enqueued: u64,
    /// Messages that died since the host runs.
    pub dead: u64,
    pub sagas_started: u64,
}
