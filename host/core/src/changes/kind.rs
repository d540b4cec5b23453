//! What kinds of changes there are.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The first generation of a plugin serves.
    PluginLoaded,
    /// Another generation took the place of the one that served.
    PluginSwapped,
    /// The earlier generation came back.
    PluginRolledBack,
    /// A generation was tried and refused; the one that served goes on.
    PluginRefused,
    /// An instance of a plugin kept failing and isn't opened again for a time.
    BreakerOpened,
    /// All instances of the plugin are opened again.
    BreakerClosed,
    /// Another configuration is in force.
    ConfigurationReloaded,
    /// A configuration was refused; the one before stays in force.
    ConfigurationRefused,
    OperationBegun,
    OperationEnded,
    /// Somebody had it stopped.
    OperationCancelled,
    TransportPaused,
    TransportResumed,
    /// The whole transport is held.
    TransportBlocked,
    /// It isn't any more.
    TransportFlowing,
    SourcePaused,
    SourceResumed,
    RelayPaused,
    RelayResumed,
    /// It stopped by itself until somebody resumes it.
    RelayStopped,
}

impl ChangeKind {
    pub const ALL: [Self; 20] = [
        Self::PluginLoaded,
        Self::PluginSwapped,
        Self::PluginRolledBack,
        Self::PluginRefused,
        Self::BreakerOpened,
        Self::BreakerClosed,
        Self::ConfigurationReloaded,
        Self::ConfigurationRefused,
        Self::OperationBegun,
        Self::OperationEnded,
        Self::OperationCancelled,
        Self::TransportPaused,
        Self::TransportResumed,
        Self::TransportBlocked,
        Self::TransportFlowing,
        Self::SourcePaused,
        Self::SourceResumed,
        Self::RelayPaused,
        Self::RelayResumed,
        Self::RelayStopped,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PluginLoaded => "plugin_loaded",
            Self::PluginSwapped => "plugin_swapped",
            Self::PluginRolledBack => "plugin_rolled_back",
            Self::PluginRefused => "plugin_refused",
            Self::BreakerOpened => "breaker_opened",
            Self::BreakerClosed => "breaker_closed",
            Self::ConfigurationReloaded => "configuration_reloaded",
            Self::ConfigurationRefused => "configuration_refused",
            Self::OperationBegun => "operation_begun",
            Self::OperationEnded => "operation_ended",
            Self::OperationCancelled => "operation_cancelled",
            Self::TransportPaused => "transport_paused",
            Self::TransportResumed => "transport_resumed",
            Self::TransportBlocked => "transport_blocked",
            Self::TransportFlowing => "transport_flowing",
            Self::SourcePaused => "source_paused",
            Self::SourceResumed => "source_resumed",
            Self::RelayPaused => "relay_paused",
            Self::RelayResumed => "relay_resumed",
            Self::RelayStopped => "relay_stopped",
        }
    }

    /// The host does it by itself, and may do so again and again.
    pub(super) const fn is_of_host(self) -> bool {
        matches!(
            self,
            Self::PluginRolledBack
                | Self::PluginRefused
                | Self::BreakerOpened
                | Self::BreakerClosed
                | Self::ConfigurationRefused
                | Self::TransportBlocked
                | Self::TransportFlowing
                | Self::RelayStopped
        )
    }

    /// Without a tenant it is about something that all tenants have and may know of. A source or a relay may be for the messages of
    /// another tenant, and an operation may name them.
    pub(super) const fn is_everybodys(self) -> bool {
        !matches!(
            self,
            Self::OperationBegun
                | Self::OperationEnded
                | Self::OperationCancelled
                | Self::SourcePaused
                | Self::SourceResumed
                | Self::RelayPaused
                | Self::RelayResumed
                | Self::RelayStopped
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_kind_is_written_as_it_is_called() {
        for kind in ChangeKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
