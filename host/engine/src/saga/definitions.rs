//! Definitions that were read: by content, because they never change, and by name for as long as the name means the same.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use waybill_core::port::saga_store::SagaStore;
use waybill_core::port::store::StoreError;
use waybill_core::saga::definition::{Action, Definition, DefinitionSet};
use waybill_core::saga::error::SagaError;
use waybill_core::saga::id::DefinitionHash;
use waybill_core::saga::records::StoredDefinition;

/// Definitions kept by content; past it all are forgotten and read again.
const KEPT_MAX: usize = 2_000;
/// Names kept, with their versions.
const NAMES_MAX: usize = 2_000;
/// On a store that others write to, a name is looked up again after this.
const SHARED_TTL: Duration = Duration::from_secs(1);

/// A name, and a version if one was named.
type Name = (Arc<str>, Option<u32>);

#[derive(Debug)]
pub(crate) struct Definitions {
    by_hash: Mutex<HashMap<DefinitionHash, Arc<Definition>>>,
    by_name: Mutex<HashMap<Name, (Arc<DefinitionSet>, Instant)>>,
    exclusive: bool,
}

impl Definitions {
    /// `exclusive`: nobody else writes to this store.
    pub fn new(exclusive: bool) -> Self {
        Self { by_hash: Mutex::default(), by_name: Mutex::default(), exclusive }
    }

    /// Somebody defined something here: names may mean something else now.
    pub fn changed(&self) {
        self.by_name.lock().clear();
    }

    /// Those with these contents; what the store doesn't have, or can't be read, isn't among them.
    pub async fn by_hashes(
        &self,
        store: &dyn SagaStore,
        hashes: BTreeSet<DefinitionHash>,
    ) -> Result<HashMap<DefinitionHash, Arc<Definition>>, StoreError> {
        let mut found = HashMap::new();
        for hash in hashes {
            match self.by_hash(store, &hash).await {
                Ok(definition) => found.extend(definition.map(|definition| (hash, definition))),
                // The sagas that run on it can't be restored; all the others can.
                Err(error @ StoreError::Corrupt(_)) => {
                    tracing::error!(code = error.code().as_str(), %error, "a definition can't be read");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// The one with this content.
    pub async fn by_hash(
        &self,
        store: &dyn SagaStore,
        hash: &DefinitionHash,
    ) -> Result<Option<Arc<Definition>>, StoreError> {
        if let Some(known) = self.by_hash.lock().get(hash) {
            return Ok(Some(Arc::clone(known)));
        }
        let stored = store.definition_by_hash(hash).await?;
        Ok(stored.and_then(|stored| self.read(&stored)))
    }

    /// A definition with all below it, as they are now; without a version the latest.
    pub async fn set(
        &self,
        store: &dyn SagaStore,
        name: &str,
        version: Option<u32>,
    ) -> Result<Arc<DefinitionSet>, SagaError> {
        let key: Name = (Arc::from(name), version);
        if let Some((set, at)) = self.by_name.lock().get(&key)
            && (self.exclusive || at.elapsed() < SHARED_TTL)
        {
            return Ok(Arc::clone(set));
        }
        let root = self.named(store, name, version).await?;
        let below = self.below(store, &root).await?;
        let lookup = |name: &str, version: Option<u32>| below.get(&(Arc::from(name), version)).cloned();
        let set = Arc::new(DefinitionSet::resolve(root, None, lookup)?);
        let mut names = self.by_name.lock();
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        names.insert(key, (Arc::clone(&set), Instant::now()));
        Ok(set)
    }

    async fn named(
        &self,
        store: &dyn SagaStore,
        name: &str,
        version: Option<u32>,
    ) -> Result<Arc<Definition>, SagaError> {
        let missing = || SagaError::NoDefinition { name: name.to_owned() };
        let Some(stored) = store.definition(name, version).await? else {
            let latest = if version.is_some() { store.definition(name, None).await? } else { None };
            return Err(match (version, latest) {
                (Some(version), Some(latest)) => {
                    SagaError::NoVersion { name: name.to_owned(), version, latest: latest.reference.version }
                }
                _ => missing(),
            });
        };
        let hash = stored.reference.hash.clone();
        let corrupt = || StoreError::Corrupt(format!("definition {name:?} ({hash}) can't be read"));
        Ok(self.read(&stored).ok_or_else(corrupt)?)
    }

    /// All sub-sagas below a definition that are there, by the names that steps use.
    pub async fn below(
        &self,
        store: &dyn SagaStore,
        root: &Definition,
    ) -> Result<HashMap<Name, Arc<Definition>>, SagaError> {
        let mut found: HashMap<Name, Arc<Definition>> = HashMap::new();
        let mut open = names_in(root);
        while let Some(name) = open.pop() {
            if found.contains_key(&name) {
                continue;
            }
            match self.named(store, &name.0, name.1).await {
                Ok(definition) => {
                    open.extend(names_in(&definition));
                    found.insert(name, definition);
                }
                // Who resolves the names says what is missing and where.
                Err(SagaError::NoDefinition { .. } | SagaError::NoVersion { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Reads a stored one, and keeps it.
    fn read(&self, stored: &StoredDefinition) -> Option<Arc<Definition>> {
        let hash = &stored.reference.hash;
        if let Some(known) = self.by_hash.lock().get(hash) {
            return Some(Arc::clone(known));
        }
        match Definition::restore(&stored.canonical) {
            Ok(definition) => {
                let definition = Arc::new(definition);
                let mut kept = self.by_hash.lock();
                if kept.len() >= KEPT_MAX {
                    kept.clear();
                }
                kept.insert(hash.clone(), Arc::clone(&definition));
                Some(definition)
            }
            Err(problems) => {
                tracing::error!(%hash, %problems, "a stored saga definition can't be read");
                None
            }
        }
    }
}

fn names_in(definition: &Definition) -> Vec<Name> {
    let actions = definition.steps.iter().map(|step| &step.action);
    let named = actions.filter_map(|action| match action {
        Action::Saga { definition, version } => Some((Arc::clone(definition), *version)),
        _ => None,
    });
    named.collect()
}
