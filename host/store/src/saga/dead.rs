//! Stuck sagas: dead letters of kind saga.

use std::sync::Arc;

use waybill_core::ids::ShardId;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::records::SagaDead;
use waybill_surreal::{Bound, Row, Transaction};

use super::TRIES_MAX;
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::query::cursor::{At, Filling};
use crate::query::{end_key, first_key};
use crate::rows::saga_small;
use crate::store::{SurrealStore, finish};
use crate::tables::{SAGA_DEAD, part_shard, saga_dead_key};

/// Rows of one page of the walk.
const WALK_PAGE: usize = 500;
/// Numbers of a cursor: the shard, the length of the tenant.
const CURSOR_NUMBERS: usize = 2;

/// The dead letter of a saga.
pub async fn one(
    transaction: &dyn Transaction,
    shard: ShardId,
    of: &SagaKey,
) -> Result<Option<Arc<SagaDead>>, StoreError> {
    let key = saga_dead_key(shard, of);
    let fields = transaction.get(SAGA_DEAD, key.clone()).await.map_err(store_error)?;
    fields.map(|fields| saga_small::dead(&Row { key, fields })).transpose()
}

fn at(shard: ShardId, of: &SagaKey) -> At {
    let (tenant, id) = (of.tenant.as_str(), of.id.as_str());
    At::new(shard, &[tenant.len() as u64], &format!("{tenant}{id}"))
}

/// Those that match, by shard, tenant and id.
pub async fn list(
    transaction: &dyn Transaction,
    filter: &Filter,
    (cursor, limit): (Option<&str>, usize),
    spoilt: &mut Spoilt,
) -> Result<Page<Arc<SagaDead>>, StoreError> {
    let after = cursor.map(|cursor| At::from_cursor(cursor, CURSOR_NUMBERS)).transpose()?;
    let mut from = match &after {
        Some(at) => Bound::Excluded(saga_dead_key(at.shard(), &at.saga(0)?)),
        None => Bound::Included(first_key()),
    };
    let mut page = Filling::new(after, limit);
    loop {
        let rows =
            transaction.scan(SAGA_DEAD, from, Bound::Excluded(end_key()), WALK_PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(page.end()) };
        from = Bound::Excluded(last.key.clone());
        for row in &rows {
            if !page.has_room() {
                return Ok(page.cut());
            }
            let Some(dead) = spoilt.sift(SAGA_DEAD, &row.key, saga_small::dead(row))? else { continue };
            let shard = part_shard(&row.key).unwrap_or(ShardId(0));
            let takes = filter.takes_dead_saga(&dead);
            page.visit(at(shard, &dead.key), takes.then_some(dead));
        }
    }
}

/// Changes the condition of one.
pub async fn mark(store: &SurrealStore, shard: ShardId, of: &SagaKey, state: &DeadState) -> Result<bool, StoreError> {
    let mut tries = 1;
    loop {
        let transaction = store.begin(true).await?;
        let worked = try_mark(transaction.as_ref(), shard, of, state).await;
        match finish(transaction, worked).await {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            done => return done,
        }
    }
}

async fn try_mark(
    transaction: &dyn Transaction,
    shard: ShardId,
    of: &SagaKey,
    state: &DeadState,
) -> Result<bool, StoreError> {
    let key = saga_dead_key(shard, of);
    let Some(mut fields) = transaction.get(SAGA_DEAD, key.clone()).await.map_err(store_error)? else {
        return Ok(false);
    };
    saga_small::mark(&mut fields, state);
    transaction.put(SAGA_DEAD, key, fields).await.map_err(store_error)?;
    Ok(true)
}
