//! The end of history.

use std::sync::Arc;

use waybill_core::ids::{Place, place_of};
use waybill_core::message::Payload;
use waybill_core::outbox::records::{HistoryChunk, IdState};
use waybill_core::port::store::StoreError;
use waybill_surreal::{RecordIdKey, Transaction};

use super::read;
use crate::fault::store_error;
use crate::store::{SurrealStore, finish};
use crate::tables::{BLOB, DONE, ID, history_key, id_key};

/// Tries when an owner writes one of the same id rows meanwhile.
const TRIES_MAX: u32 = 5;

/// Removes chunks with the id rows and blobs of their entries.
pub async fn purge_history(store: &SurrealStore, chunks: &[Arc<HistoryChunk>]) -> Result<(), StoreError> {
    let mut tries = 1;
    loop {
        let transaction = store.begin(true).await?;
        let worked = purge(transaction.as_ref(), chunks).await;
        match finish(transaction, worked).await {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            done => return done,
        }
    }
}

async fn purge(transaction: &dyn Transaction, chunks: &[Arc<HistoryChunk>]) -> Result<(), StoreError> {
    let mut ids = Vec::new();
    for chunk in chunks {
        for done in &chunk.entries {
            let place = Place { shard: chunk.shard, segment: chunk.segment, index: done.index };
            let message = &done.message;
            // An id that the host made from this very place has no row.
            if place_of(message.id.as_str()) == Some(place) {
                continue;
            }
            // One that was put back into the order meanwhile belongs to its new place.
            let record = read::id(transaction, &message.tenant, &message.id).await?;
            if record.is_some_and(|record| record.state == IdState::At(place)) {
                ids.push(id_key(&message.tenant, &message.id));
            }
        }
    }
    for key in ids {
        transaction.delete(ID, key).await.map_err(store_error)?;
    }
    for chunk in chunks {
        transaction.delete(DONE, history_key(chunk.shard, chunk.segment, chunk.beat)).await.map_err(store_error)?;
        for done in &chunk.entries {
            if let Payload::Blob { blob, .. } = &done.message.payload {
                transaction.delete(BLOB, RecordIdKey::String(blob.as_str().into())).await.map_err(store_error)?;
            }
        }
    }
    Ok(())
}
