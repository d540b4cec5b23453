//! Relays, as operators see and change them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::ids::{RelayName, Tenant};
use crate::streams::name::StreamKey;

/// What a relay does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayState {
    Running,
    /// An operator had it pause.
    Paused,
    /// A refusal or an overtaken range stopped it, as its settings say.
    Stopped,
}

impl RelayState {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        }
    }
}

impl fmt::Display for RelayState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A relay, as far as the shards of this host go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayView {
    pub name: RelayName,
    /// Pattern of the streams that it takes.
    pub streams: String,
    pub transport: String,
    pub state: RelayState,
    /// Why it is stopped or waits, in words.
    pub reason: Option<String>,
    /// Streams with events that it hasn't settled.
    pub streams_behind: u64,
    /// Events that were named and aren't settled.
    pub lag_events: u64,
    /// Age of the earliest of those that are in memory.
    pub lag: Option<Duration>,
    pub in_flight: u64,
    /// Since this host took its shards over.
    pub delivered: u64,
    pub refused: u64,
    /// Events that retention took before it had them.
    pub overtaken: u64,
    /// Of each tenant in whose streams it is behind.
    pub tenants: BTreeMap<Tenant, RelayLag>,
}

/// How far a relay is behind in the streams of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayLag {
    pub streams: u64,
    pub events: u64,
}

/// A relay with its place in streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayDetail {
    pub view: RelayView,
    /// Streams that are behind, by name, at most 100 of them.
    pub behind: Vec<RelayStreamView>,
}

/// Where a relay stands in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayStreamView {
    pub stream: StreamKey,
    /// Everything up to here is settled.
    pub upto: u64,
    /// Up to where the feed names events.
    pub named_to: u64,
    /// Grows with each seek.
    pub generation: u64,
}

/// Where a relay goes on in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// With the event that follows this number.
    After(u64),
    /// With the earliest that is kept.
    Earliest,
    /// Behind what is there now.
    Latest,
}

/// An operator sets a relay's place in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekRequest {
    pub relay: RelayName,
    pub stream: StreamKey,
    pub to: SeekTo,
    pub actor: String,
    pub reason: String,
}
