//! API tokens: `waybill_token:name`. A row holds a token's hash and what it may.

use async_trait::async_trait;
use waybill_core::port::store::StoreError;
use waybill_core::port::tokens::{StoredToken, TokenStore};
use waybill_surreal::{Bound, Object, RecordIdKey, Row, Transaction};

use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::rows::{lacks, small};
use crate::store::{SurrealStore, finish};
use crate::tables::TOKEN;

/// Rows read in one page.
const PAGE: usize = 500;
/// Tries against whoever writes the same row.
const TRIES_MAX: u32 = 5;

fn token_key(name: &str) -> RecordIdKey {
    RecordIdKey::String(name.into())
}

/// The token in a row, which lies under its name.
pub(crate) fn token_in(row: &Row) -> Result<StoredToken, StoreError> {
    let token: StoredToken = small::json(TOKEN, row.fields.clone())?;
    if row.key == token_key(&token.name) { Ok(token) } else { Err(lacks(TOKEN, &row.key, "name")) }
}

async fn try_add(transaction: &dyn Transaction, name: &str, fields: Object) -> Result<(), StoreError> {
    if transaction.get(TOKEN, token_key(name)).await.map_err(store_error)?.is_some() {
        return Err(StoreError::Exists(format!("token {name:?}")));
    }
    transaction.put(TOKEN, token_key(name), fields).await.map_err(store_error)
}

async fn try_remove(transaction: &dyn Transaction, name: &str) -> Result<bool, StoreError> {
    if transaction.get(TOKEN, token_key(name)).await.map_err(store_error)?.is_none() {
        return Ok(false);
    }
    transaction.delete(TOKEN, token_key(name)).await.map_err(store_error)?;
    Ok(true)
}

#[async_trait]
impl TokenStore for SurrealStore {
    async fn add_token(&self, token: &StoredToken) -> Result<(), StoreError> {
        let fields = small::of_json(token)?;
        let mut tries = 1;
        loop {
            let transaction = self.begin(true).await?;
            let worked = try_add(transaction.as_ref(), &token.name, fields.clone()).await;
            match finish(transaction, worked).await {
                Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
                done => return done,
            }
        }
    }

    async fn remove_token(&self, name: &str) -> Result<bool, StoreError> {
        let mut tries = 1;
        loop {
            let transaction = self.begin(true).await?;
            let worked = try_remove(transaction.as_ref(), name).await;
            match finish(transaction, worked).await {
                Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
                done => return done,
            }
        }
    }

    async fn stored_tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
        let transaction = self.begin(false).await?;
        let (mut tokens, mut spoilt) = (Vec::new(), Spoilt::default());
        // Names have letters, digits and `-`, `_` and `.` alone: nothing of theirs comes behind a tilde.
        let mut from = Bound::Included(token_key(""));
        let until = Bound::Excluded(token_key("~"));
        loop {
            let rows = transaction.scan(TOKEN, from, until.clone(), PAGE).await.map_err(store_error)?;
            let Some(last) = rows.last() else { break };
            from = Bound::Excluded(last.key.clone());
            for row in &rows {
                tokens.extend(spoilt.sift(TOKEN, &row.key, token_in(row))?);
            }
        }
        self.set_aside(spoilt).await;
        Ok(tokens)
    }
}
