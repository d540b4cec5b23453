//! One saga: as it is in memory, else as its row tells.

use std::sync::Arc;

use waybill_core::ids::Tenant;
use waybill_core::port::store::StoreError;
use waybill_core::saga::definition::DefinitionSet;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::id::{DefinitionHash, SagaId, SagaKey};
use waybill_core::saga::state::Tree;
use waybill_core::saga::view::SagaView;

use super::Sagas;

/// A tree and the definitions that it runs on.
pub(super) type Known = (Arc<Tree>, Arc<DefinitionSet>);

impl Sagas {
    /// A tree, by the id of its root or of a sub-saga: from memory if this host writes it.
    pub(super) async fn tree(&self, key: &SagaKey) -> Result<Known, SagaError> {
        let shard = self.shard(key)?;
        let wanted = key.clone();
        if let Some(Some(known)) = shard.visit(move |shard| shard.tree(&wanted)).await {
            return has(known, key);
        }
        let missing = || SagaError::NotFound { id: key.id.to_string() };
        let row = self.store().saga(shard.shard, &key.root()).await?.ok_or_else(missing)?;
        let definitions = self.definitions_of(&row.tree).await?;
        has((Arc::clone(&row.tree), definitions), key)
    }

    async fn definitions_of(&self, tree: &Tree) -> Result<Arc<DefinitionSet>, SagaError> {
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
        Ok(tree.view(&definitions))
    }
}

/// A tree, if it has the saga.
fn has(known: Known, key: &SagaKey) -> Result<Known, SagaError> {
    if known.0.number_of(&key.id).is_none() {
        return Err(SagaError::NotFound { id: key.id.to_string() });
    }
    Ok(known)
}
