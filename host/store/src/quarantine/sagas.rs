//! Sagas that could not be restored. Of each there is a row in quarantine with its columns and its tree, and with what the
//! journal held of it. A marker in `saga_start` names that row, so that whoever asks for the saga hears where it is and nobody
//! begins another one with its id; a further row of the same saga names the one before.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::store::StoreError;
use waybill_core::saga::definition::Definition;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::records::{BrokenSaga, JournalRecord, SagaRow, SagaTakeover};
use waybill_core::saga::shard::rebuilt;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, RecordIdKey, Row, Transaction, bytes, object, text};

use super::Spoilt;
use super::entry::{Entry, MARK, apart, forget, held_by, keep, kept, of_key};
use crate::codec::saga::{decode_journal, encode_journal};
use crate::fault::store_error;
use crate::rows::{encoded, saga as rows, unreadable};
use crate::saga::{definition_by_hash, journal_record, needs_start, of_start, told};
use crate::tables::{
    QUARANTINE, SAGA, SAGA_DEAD, SAGA_DONE, SAGA_START, SAGA_TREE, part_shard, part_text, saga_dead_key, saga_key,
    saga_start_key, saga_tree_key, unsigned,
};

/// Most rows of one saga in quarantine.
const PIECES_MAX: usize = 1_000;

/// The saga that the key of a row of `saga` names, and its shard.
pub fn saga_of(at: &RecordIdKey) -> Option<(ShardId, SagaKey)> {
    let key = SagaKey { tenant: Tenant::new(part_text(at, 2)?).ok()?, id: SagaId::new(part_text(at, 3)?).ok()? };
    Some((part_shard(at)?, key))
}

/// A saga on its way to quarantine.
pub struct SetAside {
    at: RecordIdKey,
    marker: RecordIdKey,
    row: Object,
    apart: Option<Bytes>,
    journal: Vec<u8>,
    before: Option<String>,
    reason: String,
}

/// Reads what goes there. `journal` is what the journal holds of it, encoded.
pub async fn look(
    transaction: &dyn Transaction,
    shard: ShardId,
    broken: &BrokenSaga,
    journal: Vec<u8>,
) -> Result<SetAside, StoreError> {
    let key = &broken.key;
    let marker = saga_start_key(shard, key, false);
    let noted = transaction.get(SAGA_START, marker.clone()).await.map_err(store_error)?;
    let started = broken.started_at().or_else(|| told(&key.id));
    let started = started.or_else(|| unsigned(noted.as_ref()?.get("started")).map(UnixMillis));
    let at = saga_key(shard, started.unwrap_or(UnixMillis(0)), key);
    let (mut row, mut tree) = (Object::default(), None);
    if broken.row.is_some() {
        row = transaction.get(SAGA, at.clone()).await.map_err(store_error)?.unwrap_or_default();
        tree = apart(transaction, SAGA, &at).await?;
    }
    let before = noted.as_ref().and_then(held_by).map(str::to_owned);
    Ok(SetAside { at, marker, row, apart: tree, journal, before, reason: broken.reason.clone() })
}

/// Moves it there. Only writes.
pub async fn set_aside(transaction: &dyn Transaction, saga: SetAside) -> Result<(), StoreError> {
    let SetAside { at, marker, row, apart, journal, before, reason } = saga;
    tracing::error!(key = ?at, reason, "a saga can't be restored and is moved to quarantine");
    let mut fields = kept(SAGA, of_key(&at), row, apart, &reason);
    fields.insert("journal", bytes(journal));
    if let Some(before) = before {
        fields.insert("before", text(before));
    }
    let id = keep(transaction, fields).await?;
    transaction.delete(SAGA, at.clone()).await.map_err(store_error)?;
    if let Some((part, key)) = super::entry::apart_key(SAGA, &at) {
        transaction.delete(part, key).await.map_err(store_error)?;
    }
    transaction.put(SAGA_START, marker, object([(MARK, text(id))])).await.map_err(store_error)
}

/// A row of a saga in quarantine.
pub struct Piece {
    id: String,
    fields: Object,
    entry: Entry,
}

/// All rows of a saga in quarantine that its marker leads to, the latest first.
pub async fn pieces(transaction: &dyn Transaction, shard: ShardId, of: &SagaKey) -> Result<Vec<Piece>, StoreError> {
    let marker = transaction.get(SAGA_START, saga_start_key(shard, of, false)).await.map_err(store_error)?;
    let mut next = marker.as_ref().and_then(held_by).map(str::to_owned);
    let mut pieces = Vec::new();
    while let Some(id) = next.filter(|_| pieces.len() < PIECES_MAX) {
        let found = transaction.get(QUARANTINE, RecordIdKey::String(id.as_str().into())).await.map_err(store_error)?;
        let Some(fields) = found else { break };
        let entry = Entry::of(&fields);
        next = entry.before.clone();
        pieces.push(Piece { id, fields, entry });
    }
    Ok(pieces)
}

/// The row that a saga gets, made of what is in quarantine. `Err(Corrupt)` says why it still can't be restored.
async fn whole(transaction: &dyn Transaction, of: &SagaKey, entries: &[&Entry]) -> Result<SagaRow, StoreError> {
    let mut all = SagaTakeover::default();
    for entry in entries {
        if let (Some(key), false) = (&entry.key, entry.row.0.is_empty()) {
            let row = Row { key: key.clone(), fields: entry.row.clone() };
            let data = rows::tree_bytes(&row.fields).or_else(|| entry.apart.clone());
            all.rows.push(rows::saga(SAGA, &row, data)?);
        }
        if let (Some(key), Some(journal)) = (&entry.key, &entry.journal) {
            let entries = decode_journal(journal).map_err(|error| unreadable(SAGA, key, error))?;
            all.journal.push(JournalRecord { beat: 0, entries });
        }
    }
    let mut definitions = HashMap::new();
    for hash in all.definitions() {
        // One that can't be read counts as missing; whoever needs it for itself moves it to quarantine.
        let stored = match definition_by_hash(transaction, &hash, &mut Spoilt::default()).await {
            Err(StoreError::Corrupt(_)) => None,
            found => found?,
        };
        if let Some(definition) = stored.and_then(|stored| Definition::restore(&stored.canonical).ok()) {
            definitions.insert(hash, Arc::new(definition));
        }
    }
    rebuilt(of, &all, |hash| definitions.get(hash).cloned()).map_err(StoreError::Corrupt)
}

/// Why a saga still can't be put back; none = it could be.
pub async fn unrestorable(
    transaction: &dyn Transaction,
    shard: ShardId,
    of: &SagaKey,
) -> Result<Option<String>, StoreError> {
    let pieces = pieces(transaction, shard, of).await?;
    let entries: Vec<&Entry> = pieces.iter().map(|piece| &piece.entry).collect();
    match whole(transaction, of, &entries).await {
        Ok(_) => Ok(None),
        Err(StoreError::Corrupt(reason)) => Ok(Some(reason)),
        Err(error) => Err(error),
    }
}

/// Puts a saga back, if the row `id` is one of a saga that was set aside or that has journal entries there: all that is known of
/// it becomes one row, which the next takeover reads. False when it is a row like any other.
pub async fn restore(transaction: &dyn Transaction, id: &str, entry: &Entry) -> Result<bool, StoreError> {
    let Some((shard, of)) = entry.key.as_ref().and_then(saga_of) else { return Ok(false) };
    let pieces = pieces(transaction, shard, &of).await?;
    if pieces.is_empty() && entry.journal.is_none() {
        return Ok(false);
    }
    let mut entries: Vec<&Entry> = pieces.iter().map(|piece| &piece.entry).collect();
    if !pieces.iter().any(|piece| piece.id == id) {
        entries.push(entry);
    }
    let row = whole(transaction, &of, &entries).await?;
    let started = row.summary.started_at;
    let at = saga_key(shard, started, &of);
    for table in [SAGA, SAGA_DONE] {
        if transaction.get(table, at.clone()).await.map_err(store_error)?.is_some() {
            return Err(StoreError::Exists(format!("{table}:{at:?} was written again meanwhile")));
        }
    }
    let records = rows::of_saga(&row)?;
    transaction.put(SAGA, at, records.row).await.map_err(store_error)?;
    if let Some(tree) = records.tree {
        transaction.put(SAGA_TREE, saga_tree_key(shard, started, &of, false), tree).await.map_err(store_error)?;
    }
    let marker = saga_start_key(shard, &of, false);
    let noted = match needs_start(&of.id, started) {
        true => transaction.put(SAGA_START, marker, of_start(started)).await,
        false => transaction.delete(SAGA_START, marker).await,
    };
    noted.map_err(store_error)?;
    for piece in &pieces {
        forget(transaction, &piece.id).await?;
    }
    forget(transaction, id).await.map(|()| true)
}

/// Gives what a journal record holds of sagas that were set aside to these; answers of how many.
pub async fn take_in(transaction: &dyn Transaction, record: &Row) -> Result<usize, StoreError> {
    let Some(shard) = part_shard(&record.key) else { return Ok(0) };
    let mut given = 0;
    for entry in journal_record(record)?.entries {
        let Some(latest) = pieces(transaction, shard, &entry.key).await?.into_iter().next() else { continue };
        let known = latest.entry.journal.as_deref().map_or_else(|| Ok(Vec::new()), decode_journal);
        let mut entries = known.map_err(|error| unreadable(SAGA, &record.key, error))?;
        entries.push(entry);
        let mut fields = latest.fields;
        fields.insert("journal", bytes(encoded(encode_journal(&entries))?));
        let at = RecordIdKey::String(latest.id.as_str().into());
        transaction.put(QUARANTINE, at, fields).await.map_err(store_error)?;
        given += 1;
    }
    Ok(given)
}

/// Before the row `id` is dropped: whoever led to it leads to the one before. With the last one the saga is gone: its id may be
/// used again, and it is no dead letter any more.
pub async fn unlink(transaction: &dyn Transaction, id: &str, entry: &Entry) -> Result<(), StoreError> {
    let Some((shard, of)) = entry.key.as_ref().and_then(saga_of) else { return Ok(()) };
    let mut pieces = pieces(transaction, shard, &of).await?;
    let Some(at) = pieces.iter().position(|piece| piece.id == id) else { return Ok(()) };
    let before = pieces.remove(at).entry.before;
    let marker = saga_start_key(shard, &of, false);
    let later = at.checked_sub(1).and_then(|later| pieces.get(later));
    let done = match (later, before) {
        (Some(later), before) => {
            let mut fields = later.fields.clone();
            fields.remove("before");
            if let Some(before) = before {
                fields.insert("before", text(before));
            }
            transaction.put(QUARANTINE, RecordIdKey::String(later.id.as_str().into()), fields).await
        }
        (None, Some(before)) => transaction.put(SAGA_START, marker, object([(MARK, text(before))])).await,
        (None, None) => {
            transaction.delete(SAGA_DEAD, saga_dead_key(shard, &of)).await.map_err(store_error)?;
            transaction.delete(SAGA_START, marker).await
        }
    };
    done.map_err(store_error)
}
