//! What the inbox left for sagas at the shard's door. It is done like a command of a caller, and removed there by the commit that holds
//! what came of it: a signal that came twice would be taken by the next wait of its name.

use super::SagaShard;
use crate::inbox::records::SagaDoorItem;
use crate::port::inbox_store::{SagaDoorKey, SagaDoorRow};
use crate::port::saga::ActedBy;
use crate::port::store::StoreError;
use crate::saga::error::SagaError;
use crate::saga::id::SagaKey;
use crate::time::UnixMillis;

/// Rows of the door that one commit removes besides those whose events it holds.
const SETTLED_MAX: usize = 1_000;

/// Whether a row of the door stays there for another try: its saga may take it later.
pub fn stays(error: &SagaError) -> bool {
    error.retryable() || matches!(error, SagaError::Store(StoreError::TooLarge))
}

impl SagaShard {
    /// Takes in a row of the door. An error says why nothing comes of it; it is removed all the same, unless it [`stays`]. A row that
    /// was taken in isn't to be given again while this writer has the shard. `random` is uniform in [0, 1).
    pub fn take_in(&mut self, row: SagaDoorRow, now: UnixMillis, random: f64) -> Result<(), SagaError> {
        let is_tried = match &row.item {
            SagaDoorItem::Signal { key, .. } => self.is_saga_tried(key),
            SagaDoorItem::Reply { tenant, reply } => {
                self.is_saga_tried(&SagaKey { tenant: tenant.clone(), id: reply.id.clone() })
            }
        };
        if is_tried {
            return Err(SagaError::LookAgain);
        }
        let turn = self.turn(now, random);
        let (slot, reply) = match row.item {
            SagaDoorItem::Signal { key, name, data, by } => {
                self.signal(&key, &name, data, ActedBy { actor: by, note: None }, turn)
            }
            SagaDoorItem::Reply { tenant, reply } => self.reply(tenant, *reply, turn),
        };
        if let Some(slot) = slot {
            self.go_on_with_trials(slot, turn);
        }
        if !reply.as_ref().is_err_and(stays) {
            match slot.and_then(|slot| self.waiting.get(slot)) {
                Some(entry) => entry.door.push(row.key),
                None => self.settled_door.push(row.key),
            }
        }
        reply.map(|_acted| ())
    }

    /// What the next commit removes of the door besides: only if everything that waits is in it, for what led to nothing may rest on
    /// what isn't committed yet. `may` = it sets no saga aside.
    pub(super) fn take_settled_door(&mut self, may: bool) -> Vec<SagaDoorKey> {
        if !may || !self.waiting.entries.is_empty() {
            return Vec::new();
        }
        let count = self.settled_door.len().min(SETTLED_MAX);
        self.settled_door.drain(..count).collect()
    }
}
