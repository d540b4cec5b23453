//! How event streams do at a host, as the API shows it, too.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a host does with event streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HostStreams)]
pub struct StreamStats {
    /// Shards whose events it numbers, of `shards`.
    pub owned: u64,
    /// All shards that streams are spread over.
    pub shards: u64,
    /// Events that it numbered, since its start.
    pub appended: u64,
    /// Appends that wait for their numbers here.
    pub waiting: u64,
    /// Appends of transactions that lie on the doorsteps of its shards and aren't numbered, as the latest looks found them: a page of each
    /// at most.
    pub door_rows: u64,
    /// Age of the oldest of these, in milliseconds; null = there is none.
    pub door_age_ms: Option<u64>,
    /// Subscriptions that are open, of `readers_max` at most.
    pub readers: u64,
    /// Subscriptions that there may be.
    pub readers_max: u64,
    /// Subscriptions that lagged, since its start.
    pub lagged: u64,
    /// Selectors with somebody who listens live.
    pub rings: u64,
    /// Bytes of events that are held for them.
    pub ring_bytes: u64,
    /// Bytes of pages of replay that are held for readers.
    pub replay_bytes: u64,
    /// Events that retention took, since its start.
    pub trimmed: u64,
    /// Events that compaction took, since its start.
    pub compacted: u64,
    /// Events that retention took before a relay had them.
    pub overtaken: u64,
}
