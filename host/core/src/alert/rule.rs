//! The rules, and how a number stands to its bound.

use serde::{Deserialize, Serialize};

/// What there is an alert of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// As many dead letters as are worth an alert.
    DeadLetters,
    /// A message has been ready to be sent for too long.
    OldestMessage,
    /// Sagas wait for a person.
    SagaStuck,
    /// A whole transport is held, or instances of a plugin keep failing.
    BreakerOpen,
    /// A new version of a plugin was taken back.
    PluginRolledBack,
    /// The disk of the store is nearly full.
    DiskLow,
    /// A relay has been behind for too long.
    RelayLag,
    /// Too much waits at the peer of a source.
    SourceLag,
    /// Alerts can't be sent through their transport. Told to the fallback alone.
    AlertsHeld,
}

impl Rule {
    pub const ALL: [Self; 9] = [
        Self::DeadLetters,
        Self::OldestMessage,
        Self::SagaStuck,
        Self::BreakerOpen,
        Self::PluginRolledBack,
        Self::DiskLow,
        Self::RelayLag,
        Self::SourceLag,
        Self::AlertsHeld,
    ];

    /// Its name in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeadLetters => "dead_letters",
            Self::OldestMessage => "oldest_message",
            Self::SagaStuck => "saga_stuck",
            Self::BreakerOpen => "breaker_open",
            Self::PluginRolledBack => "plugin_rolled_back",
            Self::DiskLow => "disk_low",
            Self::RelayLag => "relay_lag",
            Self::SourceLag => "source_lag",
            Self::AlertsHeld => "alerts_held",
        }
    }

    /// Its name in Alertmanager.
    pub const fn alert_name(self) -> &'static str {
        match self {
            Self::DeadLetters => "WaybillDeadLetters",
            Self::OldestMessage => "WaybillOldestMessage",
            Self::SagaStuck => "WaybillSagaStuck",
            Self::BreakerOpen => "WaybillBreakerOpen",
            Self::PluginRolledBack => "WaybillPluginRolledBack",
            Self::DiskLow => "WaybillDiskLow",
            Self::RelayLag => "WaybillRelayLag",
            Self::SourceLag => "WaybillSourceLag",
            Self::AlertsHeld => "WaybillAlertsHeld",
        }
    }

    /// In words for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::DeadLetters => "dead letters",
            Self::OldestMessage => "a message waits for too long",
            Self::SagaStuck => "stuck sagas",
            Self::BreakerOpen => "nothing goes through",
            Self::PluginRolledBack => "a plugin was rolled back",
            Self::DiskLow => "the disk is nearly full",
            Self::RelayLag => "a relay is behind",
            Self::SourceLag => "a source is behind",
            Self::AlertsHeld => "alerts can't be sent",
        }
    }

    /// Whether it can't wait for what it observes to last: a full disk takes no message any more.
    pub const fn is_urgent(self) -> bool {
        matches!(self, Self::DiskLow)
    }
}

/// How what was observed stands to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As good as nothing: an incident may end.
    Within,
    /// Neither begins an incident nor ends one, so that a number near its bound doesn't do both again and again.
    Between,
    /// An incident may begin.
    Past,
}

/// Of a number that is bad from `at` on: good again at four fifths of it.
pub fn rising(value: u64, at: u64) -> Level {
    if value >= at {
        Level::Past
    } else if u128::from(value) * 5 > u128::from(at) * 4 {
        Level::Between
    } else {
        Level::Within
    }
}

/// Of a number that is bad below `at`: good again at five quarters of it.
pub fn falling(value: u64, at: u64) -> Level {
    if value < at {
        Level::Past
    } else if u128::from(value) * 4 < u128::from(at) * 5 {
        Level::Between
    } else {
        Level::Within
    }
}
