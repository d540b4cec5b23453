//! Alerts: what an operator is told of without asking, once when it begins and once when it is over.
//!
//! | file | holds |
//! |---|---|
//! | `rule` | the rules, and how a number stands to its bound |
//! | `incidents` | which incidents are open, as a state machine over observations; their record outlives the host |
//! | `format` | the message of an incident as its receiver reads it |
//! | `settings` | `[alert]` as the host uses it |
//!
//! docs/design/alerts.md says how the host uses them.

mod format;
mod incidents;
mod rule;
mod settings;

#[cfg(test)]
mod tests;

pub use format::Format;
pub use incidents::{Incident, Incidents, Notice, Observation, Observations, Pace, Phase};
pub use rule::{Level, Rule, falling, rising};
pub use settings::{AlertSettings, Bounds, Target};

/// Tenant of alerts: a dead one among them is told from everybody else's, and none waits for their turns.
pub const TENANT: &str = "waybill-alerts";
/// Key of alerts, so that the end of an incident never overtakes its beginning.
pub const KEY: &str = "alerts";
/// Key of those that go to the fallback: they don't wait for one that can't be sent to the first.
pub const FALLBACK_KEY: &str = "alerts-fallback";
/// Incidents that are open at once: their record is written as a whole.
pub const INCIDENTS_MAX: usize = 100;
/// Longest detail of an incident, in bytes; a longer one is cut.
pub const DETAIL_BYTES_MAX: usize = 1_000;
