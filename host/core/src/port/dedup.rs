//! The port for payload dedup: what was delivered where, by the sha-256 of its payload.
//!
//! An entry is first reserved by the message that is about to be sent and then says what became of it. It ends with its
//! window, counted from the reservation. Tenants and transports never share one.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::ids::{MessageId, Tenant};
use crate::port::store::StoreError;
use crate::port::transport::Receipt;
use crate::time::UnixMillis;

/// What has to be equal for a message to be a repeat.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DedupKey {
    pub tenant: Tenant,
    pub transport: String,
    /// Destination: the topic without its scheme.
    pub target: String,
    /// sha-256 of the payload, in lower-case hex.
    pub sha256: String,
}

/// A message that is about to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DedupAsk {
    pub key: DedupKey,
    pub id: MessageId,
    /// How long its delivery is remembered.
    pub window: Duration,
}

/// The first delivery of a payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstDelivery {
    /// The message that was delivered.
    pub id: String,
    /// What the receiver gave back.
    pub receipt: Receipt,
    pub at: UnixMillis,
}

/// The answer to an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// The message is the first, or the same one again: send it.
    Reserved,
    /// It was delivered within the window.
    Delivered(FirstDelivery),
    /// Another message of the same payload is on its way.
    Held,
}

/// What became of a message that had reserved its entry, or that a worker outside delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DedupEnd {
    pub ask: DedupAsk,
    /// Delivered with this; none = not, so that the next one may go.
    pub receipt: Option<Receipt>,
}

/// Entries of payload dedup. Each call is one transaction, durable when it is answered.
#[async_trait]
pub trait DedupStore: Send + Sync + 'static {
    /// Reserves entries, in order. One that another message reserved before `stale` and that isn't decided is taken over:
    /// no call takes that long.
    async fn reserve(
        &self,
        asks: &[DedupAsk],
        now: UnixMillis,
        stale: UnixMillis,
    ) -> Result<Vec<Reservation>, StoreError>;
    /// Writes what became of messages. A delivery is noted unless another one is there; what wasn't delivered gives its own
    /// reservation up.
    async fn conclude(&self, ends: &[DedupEnd], now: UnixMillis) -> Result<(), StoreError>;
    /// The first delivery within the window.
    async fn delivered(&self, key: &DedupKey, now: UnixMillis) -> Result<Option<FirstDelivery>, StoreError>;
    /// Removes entries whose window is over, at most `limit`; how many.
    async fn purge_dedup(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError>;
}
