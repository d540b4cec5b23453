//! Putting a row back, and dropping it. A row is read again before it goes back: what can't be read stays where it is.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::{Place, ShardId};
use waybill_core::message::Message;
use waybill_core::outbox::records::IdState;
use waybill_core::port::quarantine::{QuarantinedRow, Restored};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::DoorGroup;
use waybill_surreal::{Object, RecordIdKey, Row, Transaction, bytes, object};

use super::entry::{Entry, apart_key, forget, is_held};
use super::look::summary;
use super::read::{self, Content};
use super::sagas;
use crate::fault::store_error;
use crate::owner::history::due_of;
use crate::owner::read::id as id_row;
use crate::saga::floor;
use crate::store::{SurrealStore, finish};
use crate::tables::{DONE, DONE_DUE, ID, QUARANTINE, SAGA, SAGA_JOURNAL, id_key, part, part_shard};
use crate::transact::{door_rows, put_door_rows};

/// Tries against whoever writes the same rows.
const TRIES_MAX: u32 = 5;

async fn entry(transaction: &dyn Transaction, id: &str) -> Result<Option<Entry>, StoreError> {
    let found = transaction.get(QUARANTINE, RecordIdKey::String(id.into())).await.map_err(store_error)?;
    Ok(found.map(|fields| Entry::of(&fields)))
}

/// Puts one back.
pub async fn restore(store: &SurrealStore, id: &str) -> Result<Option<(QuarantinedRow, Restored)>, StoreError> {
    let mut tries = 1;
    loop {
        let transaction = store.begin(true).await?;
        let worked = try_restore(store, transaction.as_ref(), id).await;
        match finish(transaction, worked).await {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            done => {
                store.depth_cache().touch();
                return done;
            }
        }
    }
}

async fn try_restore(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    id: &str,
) -> Result<Option<(QuarantinedRow, Restored)>, StoreError> {
    let Some(entry) = entry(transaction, id).await? else { return Ok(None) };
    let summary = summary(id, &entry);
    if entry.table == Some(SAGA) && sagas::restore(transaction, id, &entry).await? {
        return Ok(Some((summary, Restored::AtTakeover)));
    }
    let (Some(table), Some(key)) = (entry.table, entry.key) else {
        return Err(StoreError::Corrupt("this host doesn't know its table or its key".to_owned()));
    };
    let row = Row { key, fields: entry.row };
    let restored = match read::row(table, &row, entry.apart.clone())? {
        Content::Segment(segment) => {
            let shard = part_shard(&row.key).unwrap_or(ShardId(0));
            let of = segment.entries.iter().map(|entry| (Arc::clone(&entry.message), segment.place(shard, entry)));
            queue(store, transaction, shard, of.map(|(message, place)| (message, IdState::At(place))).collect()).await?
        }
        Content::Parked(parked) => {
            let place: Place = parked.place;
            queue(store, transaction, place.shard, vec![(Arc::clone(&parked.message), IdState::At(place))]).await?
        }
        Content::Scheduled(scheduled) => {
            let message = Message { not_before: Some(scheduled.due), ..scheduled.message.as_ref().clone() };
            let state = IdState::Scheduled { shard: scheduled.shard, due: scheduled.due };
            queue(store, transaction, scheduled.shard, vec![(Arc::new(message), state)]).await?
        }
        Content::Row => put_back(transaction, table, row, entry.apart).await?,
    };
    forget(transaction, id).await?;
    Ok(Some((summary, restored)))
}

/// Puts a row in its place, if nothing is there. What a journal record holds of sagas that were set aside is kept with these
/// instead; that is all that becomes of one whose place the journal has been cut past.
async fn put_back(
    transaction: &dyn Transaction,
    table: &'static str,
    row: Row,
    apart: Option<Bytes>,
) -> Result<Restored, StoreError> {
    let there = transaction.get(table, row.key.clone()).await.map_err(store_error)?;
    if there.is_some_and(|there| !is_held(&there)) {
        return Err(StoreError::Exists(format!("{table}:{:?} was written again meanwhile", row.key)));
    }
    if table == SAGA_JOURNAL {
        let given = sagas::take_in(transaction, &row).await?;
        match refuse_cut(transaction, &row.key).await {
            // Its other sagas went on without it.
            Err(StoreError::Exists(_)) if given > 0 => return Ok(Restored::AtTakeover),
            done => done?,
        }
    }
    if let (Some(apart), Some((part, key))) = (apart, apart_key(table, &row.key)) {
        transaction.put(part, key, object([("data", bytes(apart))])).await.map_err(store_error)?;
    }
    if let (DONE, Some(due)) = (table, due_of(&row)) {
        // Retention finds it by that.
        transaction.put(DONE_DUE, due, Object::default()).await.map_err(store_error)?;
    }
    transaction.put(table, row.key, row.fields).await.map_err(store_error)?;
    Ok(if matches!(table, SAGA | SAGA_JOURNAL) { Restored::AtTakeover } else { Restored::InPlace })
}

/// A journal record below the floor would never be read again.
async fn refuse_cut(transaction: &dyn Transaction, key: &RecordIdKey) -> Result<(), StoreError> {
    let (shard, beat) = (part_shard(key).unwrap_or(ShardId(0)), part(key, 1).unwrap_or(0));
    let floor = floor(transaction, shard).await?;
    if beat < floor {
        return Err(StoreError::Exists(format!(
            "the journal of shard {shard} has been cut up to {floor} meanwhile, so nothing would read record {beat}: its sagas went on \
             without it, drop it"
        )));
    }
    Ok(())
}

/// Puts messages on their shard's doorstep, so that they enter the order anew. A message whose id belongs to another place by
/// now is there already.
async fn queue(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    shard: ShardId,
    found: Vec<(Arc<Message>, IdState)>,
) -> Result<Restored, StoreError> {
    let (mut messages, mut old) = (Vec::new(), Vec::new());
    for (message, state) in found {
        match id_row(transaction, &message.tenant, &message.id).await? {
            Some(record) if record.state == state => old.push(id_key(&message.tenant, &message.id)),
            Some(_) => continue,
            None => {}
        }
        messages.push(message);
    }
    let count = messages.len();
    let rows = door_rows(&[DoorGroup { shard, messages }])?;
    for key in old {
        transaction.delete(ID, key).await.map_err(store_error)?;
    }
    put_door_rows(store, transaction, rows).await?;
    Ok(Restored::Queued { messages: count })
}

/// Removes one for good, with the marker in its place.
pub async fn drop_row(store: &SurrealStore, id: &str) -> Result<Option<QuarantinedRow>, StoreError> {
    let mut tries = 1;
    loop {
        let transaction = store.begin(true).await?;
        let worked = try_drop(transaction.as_ref(), id).await;
        match finish(transaction, worked).await {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            done => return done,
        }
    }
}

async fn try_drop(transaction: &dyn Transaction, id: &str) -> Result<Option<QuarantinedRow>, StoreError> {
    let Some(entry) = entry(transaction, id).await? else { return Ok(None) };
    let summary = summary(id, &entry);
    if entry.table == Some(SAGA) {
        sagas::unlink(transaction, id, &entry).await?;
    }
    if let (Some(table), Some(key)) = (entry.table, entry.key) {
        let there = transaction.get(table, key.clone()).await.map_err(store_error)?;
        if there.is_some_and(|there| is_held(&there)) {
            transaction.delete(table, key).await.map_err(store_error)?;
        }
    }
    forget(transaction, id).await?;
    Ok(Some(summary))
}
