//! The end of history, and of what indexes have of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use waybill_core::idempotency::is_derived;
use waybill_core::ids::{MessageId, Place, Tenant, place_of};
use waybill_core::message::Payload;
use waybill_core::outbox::filter::ContentField;
use waybill_core::outbox::records::{HistoryChunk, IdRecord, IdState};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{RecordIdKey, Row, Transaction};

use super::read;
use crate::fault::store_error;
use crate::fronts::{PurgeFronts, Reached};
use crate::index::{fields, rows_of_done};
use crate::quarantine::put;
use crate::rows::{lacks, small};
use crate::store::{SurrealStore, finish};
use crate::tables::{
    BLOB, DONE, DONE_DUE, ID, ID_DUE, INDEX, history_due_key, history_key, id_due_key, id_key, part_text,
};

/// Messages that have rows in indexes and go in one transaction, or little more: what a transaction deletes has to fit into the store's
/// smallest write buffer.
const INDEXED_AT_ONCE: usize = 1_000;
/// Tries when an owner writes one of the same id rows meanwhile.
const TRIES_MAX: u32 = 5;

/// Removes chunks with the id rows, blobs and rows of indexes of their entries; ids made from idempotency keys stay for their time.
pub async fn purge_history(
    store: &SurrealStore,
    chunks: &[Arc<HistoryChunk>],
    keep_derived: Duration,
    now: UnixMillis,
) -> Result<(), StoreError> {
    // Whatever is indexed now: what was indexed by an earlier configuration goes, too.
    let indexed = fields(store.begin(false).await?.as_ref()).await?;
    store.indexes().found(indexed.clone());
    if indexed.is_empty() {
        return purge_at_once(store, chunks, &indexed, keep_derived, now).await;
    }
    let mut messages = 0;
    let parts = chunks.chunk_by(|_, next| {
        messages += next.entries.len();
        let goes_on = messages <= INDEXED_AT_ONCE;
        messages = if goes_on { messages } else { next.entries.len() };
        goes_on
    });
    for part in parts {
        purge_at_once(store, part, &indexed, keep_derived, now).await?;
    }
    Ok(())
}

async fn purge_at_once(
    store: &SurrealStore,
    chunks: &[Arc<HistoryChunk>],
    indexed: &BTreeSet<ContentField>,
    keep_derived: Duration,
    now: UnixMillis,
) -> Result<(), StoreError> {
    let mut tries = 1;
    loop {
        let transaction = store.begin(true).await?;
        let worked = purge(transaction.as_ref(), chunks, indexed, keep_derived, now).await;
        match finish(transaction, worked).await {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            done => return done,
        }
    }
}

async fn purge(
    transaction: &dyn Transaction,
    chunks: &[Arc<HistoryChunk>],
    indexed: &BTreeSet<ContentField>,
    keep_derived: Duration,
    now: UnixMillis,
) -> Result<(), StoreError> {
    let (mut ids, mut kept) = (Vec::new(), Vec::new());
    for chunk in chunks {
        for done in &chunk.entries {
            let place = Place { shard: chunk.shard, segment: chunk.segment, index: done.index };
            let message = &done.message;
            // An id that the host made from this very place has no row.
            if place_of(message.id.as_str()) == Some(place) {
                continue;
            }
            // One that was put back into the order meanwhile belongs to its new place.
            let record = match read::id(transaction, &message.tenant, &message.id).await {
                // Whoever asks for that id is told; the history goes all the same.
                Err(StoreError::Corrupt(_)) => continue,
                record => record?,
            };
            let Some(record) = record.filter(|record| record.state == IdState::At(place)) else { continue };
            let until = chunk.at.plus(keep_derived);
            if is_derived(message.id.as_str()) && until > now {
                kept.push((id_due_key(until, &message.tenant, &message.id), small::of_id(&record)));
            } else {
                ids.push(id_key(&message.tenant, &message.id));
            }
        }
    }
    for key in ids {
        transaction.delete(ID, key).await.map_err(store_error)?;
    }
    for (key, fields) in kept {
        transaction.put(ID_DUE, key, fields).await.map_err(store_error)?;
    }
    for chunk in chunks {
        transaction.delete(DONE, history_key(chunk.shard, chunk.segment, chunk.beat)).await.map_err(store_error)?;
        transaction.delete(DONE_DUE, history_due_key(chunk.shard, &chunk.key())).await.map_err(store_error)?;
        for row in rows_of_done(indexed, chunk) {
            transaction.delete(INDEX, row).await.map_err(store_error)?;
        }
        for done in &chunk.entries {
            if let Payload::Blob { blob, .. } = &done.message.payload {
                transaction.delete(BLOB, RecordIdKey::String(blob.as_str().into())).await.map_err(store_error)?;
            }
        }
    }
    Ok(())
}

/// An id that outlived its history, as it was kept.
pub fn outlived(row: &Row) -> Result<IdRecord, StoreError> {
    let tenant = part_text(&row.key, 1).and_then(|text| Tenant::new(text).ok());
    let id = part_text(&row.key, 2).and_then(|text| MessageId::new(text).ok());
    let (Some(tenant), Some(id)) = (tenant, id) else { return Err(lacks(ID_DUE, &row.key, "id")) };
    small::id(&tenant, &id, &row.key, &row.fields)
}

/// Removes id rows whose time is over.
pub async fn purge_ids(store: &SurrealStore, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
    let transaction = store.begin(true).await?;
    let worked = try_purge_ids(store.purge_fronts(), transaction.as_ref(), now, limit).await;
    let (count, reached) = finish(transaction, worked).await?;
    store.purge_fronts().reached(ID_DUE, reached);
    Ok(count)
}

async fn try_purge_ids(
    fronts: &PurgeFronts,
    transaction: &dyn Transaction,
    now: UnixMillis,
    limit: usize,
) -> Result<(usize, Reached), StoreError> {
    let rows = fronts.scan(transaction, ID_DUE, now, limit).await?;
    let (mut gone, mut spoilt) = (Vec::new(), Vec::new());
    for row in &rows {
        let was = match outlived(row) {
            Err(error @ StoreError::Corrupt(_)) => {
                spoilt.push((row, error));
                continue;
            }
            was => was?,
        };
        // One that is somewhere else by now isn't the one that was kept.
        match read::id(transaction, &was.tenant, &was.id).await {
            // Whoever asks for that id is told.
            Err(StoreError::Corrupt(_)) => {}
            record => {
                if record?.is_some_and(|record| record.state == was.state) {
                    gone.push(id_key(&was.tenant, &was.id));
                }
            }
        }
    }
    for key in gone {
        transaction.delete(ID, key).await.map_err(store_error)?;
    }
    for row in &rows {
        transaction.delete(ID_DUE, row.key.clone()).await.map_err(store_error)?;
    }
    for (row, error) in spoilt {
        put(transaction, ID_DUE, &row.key, row.fields.clone(), None, &error.to_string()).await?;
    }
    Ok((rows.len(), Reached::of(&rows)))
}
