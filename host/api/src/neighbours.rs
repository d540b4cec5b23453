//! Messages before and behind one of its key.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::service::MessageState;
use waybill_core::seq_json::SeqJson;

use crate::instant::Instant;
use crate::messages::Waiting;

/// The nearest messages of a message's key, five on each side at most, as far as the shard's owner has them in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Neighbours)]
pub struct NeighboursView {
    /// The key; null = the message has none, and goes in no order.
    pub key: Option<String>,
    /// Whether they are known: another host may own the shard, or the message has no place in the order yet.
    pub known: bool,
    /// Those that go before it, the nearest last. Dead letters that hold the key are among them.
    pub before: Vec<NeighbourView>,
    /// How many more in memory do.
    pub further_before: u64,
    /// Those that wait behind it, the nearest first. Dead letters that hold the key are among them.
    pub behind: Vec<NeighbourView>,
    /// How many more in memory do.
    pub further_behind: u64,
}

/// A message of the same key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Neighbour)]
pub struct NeighbourView {
    pub id: String,
    pub state: MessageState,
    /// Place in its shard's order.
    pub seq: SeqJson,
    /// When it was enqueued.
    pub created_at: Instant,
    /// Definite failures to deliver it.
    pub attempts: u32,
    /// What it waits for; null while it is sent, and of a dead letter.
    pub waiting: Option<Waiting>,
}
