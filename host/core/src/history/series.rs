//! What is measured, and of what.

use serde::{Deserialize, Serialize};

/// What a series tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Messages committed to the outbox.
    Enqueued,
    Delivered,
    /// Failed attempts that are tried again.
    Retried,
    /// Messages that became dead letters.
    Dead,
    /// Messages in the order that aren't being sent.
    Waiting,
    /// Those among them, in memory, that a hold keeps back, or whose retry or key they wait for.
    Blocked,
    SagasStarted,
    /// Sagas that ended, however.
    SagasEnded,
    /// Sagas that wait for a person because a compensation failed.
    SagasStuck,
    /// Received messages that a consumer finished.
    InboxProcessed,
    /// Events that a relay hasn't settled.
    RelayLagEvents,
    /// How long a relay has been behind, in milliseconds.
    RelayLagMs,
    /// Messages known to wait at a source's peer.
    SourceLag,
}

impl Measure {
    pub const ALL: [Self; 13] = [
        Self::Enqueued,
        Self::Delivered,
        Self::Retried,
        Self::Dead,
        Self::Waiting,
        Self::Blocked,
        Self::SagasStarted,
        Self::SagasEnded,
        Self::SagasStuck,
        Self::InboxProcessed,
        Self::RelayLagEvents,
        Self::RelayLagMs,
        Self::SourceLag,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enqueued => "enqueued",
            Self::Delivered => "delivered",
            Self::Retried => "retried",
            Self::Dead => "dead",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::SagasStarted => "sagas_started",
            Self::SagasEnded => "sagas_ended",
            Self::SagasStuck => "sagas_stuck",
            Self::InboxProcessed => "inbox_processed",
            Self::RelayLagEvents => "relay_lag_events",
            Self::RelayLagMs => "relay_lag_ms",
            Self::SourceLag => "source_lag",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.as_str() == text)
    }

    /// A point is how many there were in its step, and not how many there are.
    pub const fn is_count(self) -> bool {
        matches!(
            self,
            Self::Enqueued
                | Self::Delivered
                | Self::Retried
                | Self::Dead
                | Self::SagasStarted
                | Self::SagasEnded
                | Self::InboxProcessed
        )
    }
}

/// Of what a series tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    All,
    Transport(String),
    Relay(String),
    Source(String),
}

/// One line of a chart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    pub measure: Measure,
    pub by: By,
}

impl Series {
    pub const fn of_all(measure: Measure) -> Self {
        Self { measure, by: By::All }
    }

    pub fn of_transport(measure: Measure, transport: &str) -> Self {
        Self { measure, by: By::Transport(transport.to_owned()) }
    }

    /// What it is of, and its name; none = of all.
    pub fn subject(&self) -> Option<(&'static str, &str)> {
        match &self.by {
            By::All => None,
            By::Transport(name) => Some(("transport", name)),
            By::Relay(name) => Some(("relay", name)),
            By::Source(name) => Some(("source", name)),
        }
    }

    pub(super) fn name_bytes(&self) -> usize {
        self.subject().map_or(0, |(_, name)| name.len())
    }
}

/// What was seen of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// So many since the process began.
    Total(u64),
    Level(u64),
}
