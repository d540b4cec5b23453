//! Sagas whose rows can't be read, or that could not be restored. Of the latter there is a row in quarantine with columns and
//! tree, and with what the journal held of it. A marker in `saga_start` names that row, so that whoever asks for the saga hears
//! where it is and nobody begins another one with its id; a further row of the same saga names the one before. Ended sagas have
//! markers of their own.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::saga_store::SagaTable;
use waybill_core::port::store::StoreError;
use waybill_core::saga::definition::Definition;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::records::{BrokenSaga, JournalRecord, SagaRow, SagaTakeover};
use waybill_core::saga::shard::rebuilt;
use waybill_core::saga::state::Tree;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, RecordIdKey, Row, Transaction, bytes, object, text};

use super::Spoilt;
use super::entry::{Entry, MARK, apart, forget, held_by, keep, kept, of_key};
use super::journal::running;
use crate::codec::saga::decode_journal;
use crate::fault::store_error;
use crate::rows::{saga as rows, unreadable};
use crate::saga::{definition_by_hash, find_saga, needs_start, of_start, start_in_id};
use crate::tables::{
    QUARANTINE, SAGA, SAGA_DONE, SAGA_START, SAGA_TREE, part, part_shard, part_text, saga_key, saga_start_key,
    saga_tree_key, unsigned,
};

/// Most rows of one saga in quarantine.
const PIECES_MAX: usize = 1_000;

/// The saga that the key of a row of `saga` names, and its shard.
pub fn saga_of(at: &RecordIdKey) -> Option<(ShardId, SagaKey)> {
    let key = SagaKey { tenant: Tenant::new(part_text(at, 2)?).ok()?, id: SagaId::new(part_text(at, 3)?).ok()? };
    Some((part_shard(at)?, key))
}

/// The saga that the key of a row of `saga_start` names, its shard, and whether the row is of an ended one.
fn noted_of(at: &RecordIdKey) -> Option<(ShardId, SagaKey, bool)> {
    let key = SagaKey { tenant: Tenant::new(part_text(at, 1)?).ok()?, id: SagaId::new(part_text(at, 2)?).ok()? };
    Some((part_shard(at)?, key, part(at, 3)? == 1))
}

/// The saga that a row of `saga`, `saga_done` or `saga_start` is of, its shard, and whether it is the row of an ended one.
pub fn of_row(table: &str, at: &RecordIdKey) -> Option<(ShardId, SagaKey, bool)> {
    match table {
        SAGA | SAGA_DONE => saga_of(at).map(|(shard, of)| (shard, of, table == SAGA_DONE)),
        SAGA_START => noted_of(at),
        _ => None,
    }
}

/// Where the marker lies of a row of `saga`, `saga_done` or `saga_start`; none when its key doesn't say whose it is.
pub fn marker_of(table: &str, at: &RecordIdKey) -> Option<RecordIdKey> {
    of_row(table, at).map(|(shard, of, ended)| saga_start_key(shard, &of, ended))
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
pub async fn read_for_quarantine(
    transaction: &dyn Transaction,
    shard: ShardId,
    broken: &BrokenSaga,
    journal: Vec<u8>,
) -> Result<SetAside, StoreError> {
    let key = &broken.key;
    let marker = saga_start_key(shard, key, false);
    let noted = transaction.get(SAGA_START, marker.clone()).await.map_err(store_error)?;
    let started = broken.started_at().or_else(|| start_in_id(&key.id));
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
    pub id: String,
    pub fields: Object,
    pub entry: Entry,
}

/// The tree of a saga's row in quarantine, if it can be read by now.
pub fn tree_in(entry: &Entry) -> Option<Tree> {
    let data = rows::tree_bytes(&entry.row).or_else(|| entry.apart.clone())?;
    rows::tree(SAGA, entry.key.as_ref()?, Some(data)).ok()
}

/// All rows of a saga in quarantine that its marker leads to, the latest first: of the ended one, or of the other.
pub async fn pieces(
    transaction: &dyn Transaction,
    (shard, of, ended): (ShardId, &SagaKey, bool),
) -> Result<Vec<Piece>, StoreError> {
    let marker = transaction.get(SAGA_START, saga_start_key(shard, of, ended)).await.map_err(store_error)?;
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

/// Whether a saga was set aside with what the journal held of it, and lies in quarantine since.
pub async fn is_set_aside(transaction: &dyn Transaction, shard: ShardId, of: &SagaKey) -> Result<bool, StoreError> {
    let pieces = pieces(transaction, (shard, of, false)).await?;
    Ok(pieces.iter().any(|piece| piece.entry.journal.is_some()))
}

/// The row that a saga gets, made of what is in quarantine. `Err(Corrupt)` says why it still can't be restored.
async fn whole(transaction: &dyn Transaction, of: &SagaKey, entries: &[&Entry]) -> Result<SagaRow, StoreError> {
    let mut all = SagaTakeover::default();
    // What only said when it began isn't needed.
    for entry in entries.iter().filter(|entry| entry.table == Some(SAGA)) {
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
    made_of(transaction, of, &all).await
}

/// The row of a saga, made of what is known of it. `Err(Corrupt)` says why that isn't enough.
pub async fn made_of(transaction: &dyn Transaction, of: &SagaKey, all: &SagaTakeover) -> Result<SagaRow, StoreError> {
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
    rebuilt(of, all, |hash| definitions.get(hash).cloned()).map_err(StoreError::Corrupt)
}

/// What is in quarantine of the saga that the row `id` is of, that row included; none when it is a row like any other, which
/// only an earlier version has left.
fn all_of<'e>(pieces: &'e [Piece], id: &str, entry: &'e Entry) -> Option<Vec<&'e Entry>> {
    if pieces.is_empty() && entry.journal.is_none() {
        return None;
    }
    let mut entries: Vec<&Entry> = pieces.iter().map(|piece| &piece.entry).collect();
    if !pieces.iter().any(|piece| piece.id == id) {
        entries.push(entry);
    }
    Some(entries)
}

/// Why the saga that a row of `saga` is of still can't be put back; none = it could be. `None` when it is a row like any other.
pub async fn unrestorable(
    transaction: &dyn Transaction,
    id: &str,
    entry: &Entry,
) -> Result<Option<Option<String>>, StoreError> {
    let named = entry.key.as_ref().filter(|_| entry.table == Some(SAGA)).and_then(saga_of);
    let Some((shard, of)) = named else { return Ok(None) };
    let pieces = pieces(transaction, (shard, &of, false)).await?;
    let Some(entries) = all_of(&pieces, id, entry) else { return Ok(None) };
    match whole(transaction, &of, &entries).await {
        Ok(_) => Ok(Some(None)),
        Err(StoreError::Corrupt(reason)) => Ok(Some(Some(reason))),
        Err(error) => Err(error),
    }
}

/// Refuses to put a row of a saga back whose id has another one by now, or that goes on from the journal: it would run again, or
/// hide what is newer.
async fn refuse_other(transaction: &dyn Transaction, shard: ShardId, of: &SagaKey) -> Result<(), StoreError> {
    for table in [SagaTable::Open, SagaTable::Done] {
        match find_saga(transaction, table, shard, of).await {
            // Its own marker, or that of another row of it: none of these is in its table.
            Err(StoreError::Corrupt(_)) if table == SagaTable::Open => {}
            found => {
                if let Some((_, row)) = found? {
                    return Err(StoreError::Exists(format!(
                        "saga {} has another row by now, {:?} ({table:?}): what lies here is older, drop it",
                        of.id, row.key
                    )));
                }
            }
        }
    }
    if running(transaction, shard).await?.contains(of) {
        return Err(StoreError::Exists(format!(
            "the journal holds saga {}: it goes on without this row, so drop it; unless the saga itself is set aside in a moment, \
             then try again",
            of.id
        )));
    }
    Ok(())
}

/// Puts a saga back, if the row `id` is one of a saga that a marker leads to or that has journal entries there: all that is known
/// of it becomes one row, which the next takeover reads. False when it is a row like any other.
pub async fn restore(transaction: &dyn Transaction, id: &str, entry: &Entry) -> Result<bool, StoreError> {
    let Some((shard, of)) = entry.key.as_ref().and_then(saga_of) else { return Ok(false) };
    refuse_other(transaction, shard, &of).await?;
    let pieces = pieces(transaction, (shard, &of, false)).await?;
    let Some(entries) = all_of(&pieces, id, entry) else { return Ok(false) };
    let row = whole(transaction, &of, &entries).await?;
    let started = row.summary.started_at;
    let at = saga_key(shard, started, &of);
    for table in [SAGA, SAGA_DONE] {
        if transaction.get(table, at.clone()).await.map_err(store_error)?.is_some() {
            return Err(StoreError::Exists(format!("{table}:{at:?} was written again meanwhile")));
        }
    }
    put_row(transaction, shard, &of, &row).await?;
    for piece in &pieces {
        forget(transaction, &piece.id).await?;
    }
    forget(transaction, id).await.map(|()| true)
}

/// Writes the row of a saga, and when it began if its id doesn't tell it; its marker goes.
pub async fn put_row(
    transaction: &dyn Transaction,
    shard: ShardId,
    of: &SagaKey,
    row: &SagaRow,
) -> Result<(), StoreError> {
    let started = row.summary.started_at;
    let records = rows::of_saga(row)?;
    transaction.put(SAGA, saga_key(shard, started, of), records.row).await.map_err(store_error)?;
    if let Some(tree) = records.tree {
        transaction.put(SAGA_TREE, saga_tree_key(shard, started, of, false), tree).await.map_err(store_error)?;
    }
    let marker = saga_start_key(shard, of, false);
    let noted = match needs_start(&of.id, started) {
        true => transaction.put(SAGA_START, marker, of_start(started)).await,
        false => transaction.delete(SAGA_START, marker).await,
    };
    noted.map_err(store_error)
}

/// Before a row of an ended saga is put back: its start is noted again and the marker goes; it is refused when its id has another
/// row by now. Before one that says when a saga began: it is refused as long as more of its saga lies in quarantine.
pub async fn prepare(
    transaction: &dyn Transaction,
    table: &str,
    id: &str,
    row: &RecordIdKey,
) -> Result<(), StoreError> {
    let Some((shard, of, ended)) = of_row(table, row) else { return Ok(()) };
    let pieces = pieces(transaction, (shard, &of, ended)).await?;
    if table == SAGA_START {
        return match pieces.iter().find(|piece| piece.id != id) {
            Some(other) => Err(StoreError::Exists(format!(
                "more of saga {} lies in quarantine: put {} back, and this row isn't needed any more",
                of.id, other.id
            ))),
            None => Ok(()),
        };
    }
    if table != SAGA_DONE {
        return Ok(());
    }
    // The marker of an ended one is this row's own.
    for table in [SagaTable::Open, SagaTable::Done] {
        match find_saga(transaction, table, shard, &of).await {
            Err(StoreError::Corrupt(_)) => {}
            found => {
                if let Some((_, other)) = found? {
                    return Err(StoreError::Exists(format!("saga {} has another row by now, {:?}", of.id, other.key)));
                }
            }
        }
    }
    let (started, marker) = (UnixMillis(part(row, 1).unwrap_or(0)), saga_start_key(shard, &of, true));
    let noted = match needs_start(&of.id, started) {
        true => transaction.put(SAGA_START, marker, of_start(started)).await,
        false => transaction.delete(SAGA_START, marker).await,
    };
    noted.map_err(store_error)?;
    for piece in pieces.iter().filter(|piece| piece.entry.table == Some(SAGA_START)) {
        forget(transaction, &piece.id).await?;
    }
    Ok(())
}
