//! Putting a row back, and dropping it. A row is read again before it goes back: what can't be read stays where it is.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use waybill_core::ids::{EventId, MessageId, Place, ShardId, Tenant};
use waybill_core::limits::IDEMPOTENCY_TTL_DEFAULT;
use waybill_core::message::Message;
use waybill_core::outbox::records::{IdRecord, IdState, Segment, ShardRecord};
use waybill_core::port::quarantine::{QuarantinedRow, Restored};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::DoorGroup;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Object, RecordIdKey, Row, Transaction, bool_of, bytes, key, object};

use super::entry::{Entry, apart_key, forget, held_by, is_held};
use super::list::summary;
use super::read::{self, Content};
use super::{Spoilt, journal, sagas, unlink};
use crate::fault::store_error;
use crate::inbox::seen::tidy::note_of;
use crate::owner::history::due_of;
use crate::owner::left_of;
use crate::owner::read::{id as id_row, scheduled, shard as shard_record};
use crate::query::at;
use crate::rows::{small, streams};
use crate::store::{SurrealStore, finish};
use crate::streams::keys::event_id_due_key;
use crate::tables::{
    DEAD, DEDUP, DEDUP_DUE, DONE, DONE_DUE, EVENT_ID, EVENT_ID_DUE, ID, ID_DUE, IDEMPOTENCY, IDEMPOTENCY_DUE, INBOX,
    INBOX_SEEN, INBOX_SEEN_DUE, INBOX_TAKEN, KV, KV_SCOPE, QUARANTINE, SAGA, SAGA_JOURNAL, id_due_key, id_key, number,
    part_shard, part_text,
};
use crate::transact::{door_rows, put_door_rows};
use crate::{dedup, idempotency, kv};

/// Tries against whoever writes the same rows.
const TRIES_MAX: u32 = 5;
/// Rows of one millisecond that are looked through for an event's id: no host makes so many commits in it.
const MILLISECOND_MAX: usize = 256;
/// An id that is put back when its message is nowhere any more is known for so long: as long as an idempotency key by default.
const ID_KEPT: Duration = IDEMPOTENCY_TTL_DEFAULT;

async fn entry(transaction: &dyn Transaction, id: &str) -> Result<Option<Entry>, StoreError> {
    let found = transaction.get(QUARANTINE, RecordIdKey::String(id.into())).await.map_err(store_error)?;
    Ok(found.map(|fields| Entry::of(&fields)))
}

pub async fn restore(store: &SurrealStore, id: &str) -> Result<Option<(QuarantinedRow, Restored)>, StoreError> {
    let mut tries = 1;
    loop {
        let transaction = store.begin(true).await?;
        let worked = try_restore(store, transaction.as_ref(), id).await;
        match finish(transaction, worked).await {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            Ok(Some((_, None))) => tries = 1,
            done => {
                store.depth_cache().touch();
                // It may have been a row of a doorstep, of the seen set, of the inbox's history or of a feed.
                store.repeats().begin_anew();
                store.seen_memory().forget_all();
                store.inbox_fronts().begin_anew();
                store.feed_fronts().begin_anew();
                return Ok(done?.and_then(|(row, restored)| restored.map(|restored| (row, restored))));
            }
        }
    }
}

/// Puts one back, or as much of it as one transaction takes: then there is no word yet of what became of it, and the rest follows.
async fn try_restore(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    id: &str,
) -> Result<Option<(QuarantinedRow, Option<Restored>)>, StoreError> {
    let Some(entry) = entry(transaction, id).await? else { return Ok(None) };
    let summary = summary(id, &entry);
    if entry.table == Some(SAGA) && sagas::restore(transaction, id, &entry).await? {
        return Ok(Some((summary, Some(Restored::AtTakeover))));
    }
    let (Some(table), Some(key)) = (entry.table, entry.key) else {
        return Err(StoreError::Corrupt("this host doesn't know its table or its key".to_owned()));
    };
    let row = Row { key, fields: entry.row };
    let restored = match read::row(table, &row, entry.apart.clone())? {
        Content::Segment(segment) => {
            let shard = part_shard(&row.key).unwrap_or(ShardId(0));
            let messages = still_in(transaction, shard, &segment).await?;
            queue(store, transaction, shard, messages).await?
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
        Content::Row if table == SAGA_JOURNAL => {
            let rest = journal::hand_out(transaction, &row).await?;
            if !rest.is_empty() {
                journal::leave(transaction, id, &row, &rest).await?;
                return Ok(Some((summary, None)));
            }
            Restored::AtTakeover
        }
        Content::Row => put_back(transaction, table, id, row, entry.apart).await?,
    };
    forget(transaction, id).await?;
    Ok(Some((summary, Some(restored))))
}

/// Puts a row in its place, if nothing is there.
async fn put_back(
    transaction: &dyn Transaction,
    table: &'static str,
    id: &str,
    row: Row,
    apart: Option<Bytes>,
) -> Result<Restored, StoreError> {
    let there = transaction.get(table, row.key.clone()).await.map_err(store_error)?;
    if there.is_some_and(|there| !is_held(&there)) {
        return Err(StoreError::Exists(format!("{table}:{:?} was written again meanwhile", row.key)));
    }
    sagas::prepare(transaction, table, id, &row.key).await?;
    if let (Some(apart), Some((part, key))) = (apart, apart_key(table, &row.key)) {
        transaction.put(part, key, object([("data", bytes(apart))])).await.map_err(store_error)?;
    }
    if let Some((due, key, fields)) = due_row(transaction, table, &row).await? {
        transaction.put(due, key, fields).await.map_err(store_error)?;
    }
    // The shard's owner has a list of the keys that are held, and makes that when it takes the shard.
    let holds_key = table == DEAD && bool_of(row.fields.get("holds_key")) == Some(true);
    transaction.put(table, row.key, row.fields).await.map_err(store_error)?;
    // Rows and takes of the inbox are in its writer's memory.
    let at_takeover = holds_key || [SAGA, INBOX, INBOX_TAKEN].contains(&table);
    Ok(if at_takeover { Restored::AtTakeover } else { Restored::InPlace })
}

/// The row by which whoever removes what is over finds a row that is put back.
async fn due_row(
    transaction: &dyn Transaction,
    table: &str,
    row: &Row,
) -> Result<Option<(&'static str, RecordIdKey, Object)>, StoreError> {
    let (due, key) = match table {
        DONE => (DONE_DUE, due_of(row)),
        IDEMPOTENCY => (IDEMPOTENCY_DUE, idempotency::due_of(row)),
        DEDUP => (DEDUP_DUE, dedup::due_of(row)),
        INBOX_SEEN => (INBOX_SEEN_DUE, note_of(row)),
        ID => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let until = UnixMillis(u64::try_from((now + ID_KEPT).as_millis()).unwrap_or(u64::MAX));
            let nowhere = is_nowhere(transaction, row).await?;
            return Ok(
                nowhere.map(|record| (ID_DUE, id_due_key(until, &record.tenant, &record.id), small::of_id(&record)))
            );
        }
        EVENT_ID => {
            let due = event_id_due(transaction, row).await?;
            return Ok(due.map(|(key, fields)| (EVENT_ID_DUE, key, fields)));
        }
        _ => return Ok(None),
    };
    Ok(key.map(|key| (due, key, Object::default())))
}

/// The record of an id whose message is nowhere any more: its history went while the id lay in quarantine, and nothing else
/// would remove the id.
async fn is_nowhere(transaction: &dyn Transaction, row: &Row) -> Result<Option<IdRecord>, StoreError> {
    let tenant = part_text(&row.key, 0).and_then(|text| Tenant::new(text).ok());
    let id = part_text(&row.key, 1).and_then(|text| MessageId::new(text).ok());
    let (Some(tenant), Some(id)) = (tenant, id) else { return Ok(None) };
    let record = small::id(&tenant, &id, &row.key, &row.fields)?;
    // What is there and can't be read is still there.
    let is_there = match &record.state {
        IdState::At(place) => match at(transaction, *place, &mut Spoilt::default()).await {
            Err(StoreError::Corrupt(_)) => true,
            found => found?.is_some(),
        },
        IdState::Scheduled { shard, due } => match scheduled(transaction, *shard, *due, &id).await {
            Err(StoreError::Corrupt(_)) => true,
            found => found?.is_some(),
        },
    };
    Ok(Some(record).filter(|_| !is_there))
}

/// The row that says when an event's id is old; none where one says so. The time may have come while the id lay in quarantine, and the row
/// went with its marker.
async fn event_id_due(transaction: &dyn Transaction, row: &Row) -> Result<Option<(RecordIdKey, Object)>, StoreError> {
    let tenant = part_text(&row.key, 0).and_then(|text| Tenant::new(text).ok());
    let id = part_text(&row.key, 1).and_then(|text| EventId::new(text).ok());
    let (Some(tenant), Some(id)) = (tenant, id) else { return Ok(None) };
    let at = streams::event_id(&tenant, &row.key, &row.fields)?.at;
    let instant = |millis: u64| key([number(millis)]);
    let (from, until) = (Bound::Included(instant(at.0)), Bound::Excluded(instant(at.0.saturating_add(1))));
    let due = transaction.scan(EVENT_ID_DUE, from, until, MILLISECOND_MAX).await.map_err(store_error)?;
    let is_due =
        due.iter().any(|row| matches!(streams::recorded_ids(row), Ok((of, ids)) if of == tenant && ids.contains(&id)));
    Ok((!is_due).then(|| (event_id_due_key(at), streams::of_recorded_ids(&tenant, &[id]))))
}

/// The messages of a segment that haven't left it as ones that are parked, dead or done, as far as that is known.
async fn still_in(
    transaction: &dyn Transaction,
    shard: ShardId,
    segment: &Segment,
) -> Result<Vec<(Arc<Message>, IdState)>, StoreError> {
    let left = left_of(transaction, shard, segment.first).await?;
    let record = match shard_record(transaction, shard).await {
        // Whoever takes the shard makes it anew.
        Err(StoreError::Corrupt(_)) => ShardRecord::default(),
        record => record?,
    };
    let open = record.open.get(&segment.first);
    let gone = |index: u16| left.contains(&index) || open.is_some_and(|open| open.is_gone(index));
    let still = segment.entries.iter().filter(|entry| !gone(entry.index));
    Ok(still.map(|entry| (Arc::clone(&entry.message), IdState::At(segment.place(shard, entry)))).collect())
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
    if messages.is_empty() {
        return Ok(Restored::Queued { messages: 0 });
    }
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
    if unlink::unlink(transaction, id, &entry).await? {
        return forget(transaction, id).await.map(|()| Some(summary));
    }
    if let (Some(table), Some(key)) = (entry.table, entry.key) {
        let there = transaction.get(table, key.clone()).await.map_err(store_error)?;
        if there.is_some_and(|there| held_by(&there) == Some(id)) {
            if table == KV
                && let Some((scope, fields)) = kv::recounted(transaction, &key).await?
            {
                transaction.put(KV_SCOPE, scope, fields).await.map_err(store_error)?;
            }
            transaction.delete(table, key).await.map_err(store_error)?;
        }
    }
    forget(transaction, id).await?;
    Ok(Some(summary))
}
