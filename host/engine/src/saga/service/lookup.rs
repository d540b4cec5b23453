//! One saga: as it is in memory, else as its row tells.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use waybill_api::sagas::SagaView;
use waybill_core::ids::Tenant;
use waybill_core::port::store::StoreError;
use waybill_core::saga::definition::DefinitionSet;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::id::{DefinitionHash, SagaId, SagaKey};
use waybill_core::saga::records::SagaSummary;
use waybill_core::saga::shard::ActKnown;
use waybill_core::saga::state::{SagaState, Tree};

use super::Sagas;
use crate::commit::Condition;
use crate::saga::mail::{Known, MemoryQuery};
use crate::saga::takeover::why_not;
use crate::saga::view::saga_view;
use crate::saga::{SHUTTING_DOWN, SagaHandle};

/// A saga that another host runs is looked at this often by those who wait for it.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Sagas {
    /// A tree, by the id of its root or of a sub-saga: from memory if this host writes it.
    pub(super) async fn tree(&self, key: &SagaKey) -> Result<Known, SagaError> {
        let shard = self.shard(key)?;
        if let Some(Some(known)) = shard.query(|reply| MemoryQuery::Tree { key: key.clone(), reply }).await {
            return has(known, key);
        }
        let row = self.store().saga(shard.shard, &key.root()).await?.ok_or_else(|| missing(shard, key))?;
        let definitions = self.definitions_of(&row.tree).await?;
        has((Arc::clone(&row.tree), definitions), key)
    }

    /// The state of a tree as soon as it is durably at rest; none if that takes longer than `within`.
    pub(super) async fn rests(&self, key: &SagaKey, within: Duration) -> Result<Option<SagaState>, SagaError> {
        let until = Instant::now() + within;
        loop {
            let shard = self.shard(key)?;
            match timeout_at(until, shard.at_rest(key.root())).await {
                Ok(Some(state)) => return Ok(Some(state)),
                Ok(None) => {}
                Err(_late) => return Ok(None),
            }
            let row = self.store().saga(shard.shard, &key.root()).await?.ok_or_else(|| missing(shard, key))?;
            let state = row.tree.state();
            if state.is_at_rest() {
                return Ok(Some(state));
            }
            if Instant::now() + LOOK_EVERY >= until {
                return Ok(None);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// A saga that this host writes as it is now, and whether this actor has acted on it. None = it isn't in memory. While a shard of
    /// this host alone is being taken over nobody knows.
    pub async fn act_of(&self, key: &SagaKey, actor: &str) -> Result<Option<(SagaSummary, ActKnown)>, SagaError> {
        let (wanted, actor) = (key.clone(), actor.to_owned());
        let shard = self.shard(key)?;
        match shard.query(|reply| MemoryQuery::Act { key: wanted, actor, reply }).await {
            None if self.shared.context.config.exclusive => Err(SagaError::Unavailable(why_not(&shard.condition()))),
            known => Ok(known.flatten()),
        }
    }

    /// Whether this actor has acted on a saga, which may have ended.
    pub async fn has_acted(&self, key: &SagaKey, actor: &str) -> Result<bool, SagaError> {
        match self.tree(key).await {
            Ok((tree, _)) => Ok(tree.events().any(|event| event.actor.as_deref() == Some(actor))),
            Err(SagaError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn definitions_of(&self, tree: &Tree) -> Result<Arc<DefinitionSet>, SagaError> {
        let started = &tree.started;
        let pinned = started.pinned.iter().map(|(_, pinned)| pinned.hash.clone());
        let hashes = std::iter::once(started.definition.hash.clone()).chain(pinned).collect();
        let found = self.shared.definitions.by_hashes(self.store(), hashes).await?;
        let lookup = |hash: &DefinitionHash| found.get(hash).cloned();
        let missing = || {
            let hash = &started.definition.hash;
            StoreError::Corrupt(format!("the definition {hash} that saga {} runs on can't be read", tree.key))
        };
        Ok(Arc::new(DefinitionSet::restore(started, lookup).ok_or_else(missing)?))
    }

    pub(super) async fn show_saga(&self, tenant: &Tenant, id: &SagaId) -> Result<SagaView, SagaError> {
        let key = SagaKey { tenant: tenant.clone(), id: id.clone() };
        let (tree, definitions) = self.tree(&key).await?;
        Ok(saga_view(&tree, &definitions, self.shared.context.clock.now().wall))
    }
}

/// There is no row. Whether there is a saga is known to whoever writes the shard: one that runs has no row.
pub(super) fn missing(shard: &SagaHandle, key: &SagaKey) -> SagaError {
    match shard.condition() {
        Condition::Owning { .. } => SagaError::NotFound { id: key.id.to_string() },
        condition @ (Condition::Starting | Condition::Observing { .. }) => SagaError::Unavailable(why_not(&condition)),
        Condition::Trouble { error, .. } => SagaError::Store(error),
        Condition::Released => SagaError::Unavailable(SHUTTING_DOWN.to_owned()),
    }
}

/// A tree, if it has the saga.
fn has(known: Known, key: &SagaKey) -> Result<Known, SagaError> {
    if known.0.number_of(&key.id).is_none() {
        return Err(SagaError::NotFound { id: key.id.to_string() });
    }
    Ok(known)
}
