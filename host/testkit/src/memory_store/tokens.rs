//! API tokens.

use std::collections::btree_map::Entry;

use async_trait::async_trait;
use waybill_core::port::store::StoreError;
use waybill_core::port::tokens::{StoredToken, TokenStore};

use super::MemoryStore;

#[async_trait]
impl TokenStore for MemoryStore {
    async fn add_token(&self, token: &StoredToken) -> Result<(), StoreError> {
        self.check()?;
        self.write(|tables| match tables.tokens.entry(token.name.clone()) {
            Entry::Occupied(_) => Err(StoreError::Exists(format!("token {:?}", token.name))),
            Entry::Vacant(free) => {
                free.insert(token.clone());
                Ok(())
            }
        })
    }

    async fn remove_token(&self, name: &str) -> Result<bool, StoreError> {
        self.check()?;
        Ok(self.write(|tables| tables.tokens.remove(name).is_some()))
    }

    async fn stored_tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.tokens.values().cloned().collect()))
    }
}
