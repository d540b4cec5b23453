//! A record of the journal of sagas that lies in quarantine. Since it came here its sagas went on without it, were set aside, or are
//! gone, so it never goes back into the journal: what it holds goes to its sagas. Nothing of it goes unless all of it fits them; then
//! it goes as far as a transaction takes it, and the rest, which lies here until then, with the next ones.

use std::collections::HashSet;

use waybill_core::ids::ShardId;
use waybill_core::port::saga_store::SagaTable;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::records::{JournalEntry, JournalRecord, SagaRow, SagaTakeover};
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction, Value, bytes};

use super::sagas::{Piece, made_of, pieces, put_row};
use super::{MOVED_BYTES_MAX, weight};
use crate::codec::saga::{decode_journal, encode_journal};
use crate::fault::store_error;
use crate::rows::{encoded, lacks, unreadable};
use crate::saga::{find_saga, floor, journal_record};
use crate::tables::{QUARANTINE, SAGA, SAGA_JOURNAL, SAGA_START, journal_key, part_shard, saga_start_key, shard_end};

/// Records of one page of a walk: each may hold a whole commit.
const WALK_PAGE: usize = 8;
/// Most sagas that a refusal names.
const NAMED_MAX: usize = 20;

/// Where an entry belongs.
enum Home {
    /// With what was set aside of its saga, behind the entries that are there.
    Aside { piece: Piece, entries: Vec<JournalEntry> },
    /// In a row: its saga began in this record, and nothing else of it is left.
    Row(SagaRow),
}

/// Gives what a record holds to its sagas, as far as one transaction takes it; answers the rest. `Err(Exists)` names those that it
/// fits no more; then nothing is written.
pub async fn hand_out(transaction: &dyn Transaction, record: &Row) -> Result<Vec<JournalEntry>, StoreError> {
    let shard = part_shard(&record.key).ok_or_else(|| lacks(SAGA_JOURNAL, &record.key, "id"))?;
    let mut elsewhere = running(transaction, shard).await?;
    let (mut homes, mut strangers) = (Vec::new(), Vec::new());
    let mut entries = journal_record(record)?.entries;
    // That a saga ended says its row.
    entries.retain(|entry| !entry.ended);
    for entry in &entries {
        let key = entry.key.clone();
        let home = match elsewhere.contains(&key) {
            true => None,
            false => home(transaction, shard, entry.clone()).await?,
        };
        match home {
            Some(home) => homes.push((key.clone(), home)),
            None => strangers.push(key.to_string()),
        }
        // No record names a saga twice; should one do so, the second entry isn't written over the first.
        elsewhere.insert(key);
    }
    if !strangers.is_empty() {
        return Err(refusal(&strangers));
    }
    let (mut given, mut written) = (0, 0);
    for (key, home) in homes {
        if written >= MOVED_BYTES_MAX {
            break;
        }
        written += give(transaction, shard, &key, home).await?;
        given += 1;
    }
    Ok(entries.split_off(given))
}

/// Writes what an entry makes of its saga; answers the bytes of that, about.
async fn give(transaction: &dyn Transaction, shard: ShardId, key: &SagaKey, home: Home) -> Result<usize, StoreError> {
    match home {
        Home::Row(row) => {
            put_row(transaction, shard, key, &row).await?;
            Ok(row.tree.weight)
        }
        Home::Aside { piece, entries } => {
            let mut fields = piece.fields;
            fields.insert("journal", bytes(encoded(encode_journal(&entries))?));
            let written = weight(&fields, None);
            let at = RecordIdKey::String(piece.id.as_str().into());
            transaction.put(QUARANTINE, at, fields).await.map_err(store_error)?;
            Ok(written)
        }
    }
}

/// Leaves the rest of a record where the whole of it lay, under this name.
pub async fn leave(
    transaction: &dyn Transaction,
    id: &str,
    record: &Row,
    rest: &[JournalEntry],
) -> Result<(), StoreError> {
    let at = RecordIdKey::String(id.into());
    let Some(mut fields) = transaction.get(QUARANTINE, at.clone()).await.map_err(store_error)? else {
        return Ok(());
    };
    let mut row = record.fields.clone();
    row.insert("data", bytes(encoded(encode_journal(rest))?));
    fields.insert("row", Value::Object(row));
    transaction.put(QUARANTINE, at, fields).await.map_err(store_error)
}

fn refusal(strangers: &[String]) -> StoreError {
    let named = strangers.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let others = match strangers.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    StoreError::Exists(format!(
        "nothing of it was put back, because it holds events of sagas that went on or ended without it, or whose beginning is \
         missing: {named}{others}"
    ))
}

/// Where an entry belongs of a saga that the journal knows nothing of; none when it fits nowhere.
async fn home(transaction: &dyn Transaction, shard: ShardId, entry: JournalEntry) -> Result<Option<Home>, StoreError> {
    let key = entry.key.clone();
    let open = match find_saga(transaction, SagaTable::Open, shard, &key).await {
        // A marker.
        Err(StoreError::Corrupt(_)) => None,
        found => found?,
    };
    let done = match find_saga(transaction, SagaTable::Done, shard, &key).await {
        Err(StoreError::Corrupt(_)) => return Ok(None),
        found => found?,
    };
    if open.is_some() || done.is_some() {
        return Ok(None);
    }
    let mut pieces = pieces(transaction, (shard, &key, false)).await?;
    if let Some(latest) = pieces.iter().position(|piece| piece.entry.table == Some(SAGA)) {
        let mut known = Vec::new();
        for piece in &pieces {
            known.extend(entries_of(piece)?);
        }
        if known.iter().any(|other| *other != entry && is_overlap(other, &entry)) {
            return Ok(None);
        }
        let piece = pieces.swap_remove(latest);
        let mut entries = entries_of(&piece)?;
        entries.push(entry);
        return Ok(Some(Home::Aside { piece, entries }));
    }
    for ended in [false, true] {
        let noted = transaction.get(SAGA_START, saga_start_key(shard, &key, ended)).await.map_err(store_error)?;
        if noted.is_some() {
            return Ok(None);
        }
    }
    if entry.from > 0 {
        return Ok(None);
    }
    let journal = vec![JournalRecord { beat: 0, entries: vec![entry] }];
    let row = made_of(transaction, &key, &SagaTakeover { journal, ..SagaTakeover::default() }).await?;
    Ok(Some(Home::Row(row)))
}

/// What the journal held of a saga, as far as it lies with this row.
fn entries_of(piece: &Piece) -> Result<Vec<JournalEntry>, StoreError> {
    let Some(journal) = &piece.entry.journal else { return Ok(Vec::new()) };
    let at = RecordIdKey::String(piece.id.as_str().into());
    decode_journal(journal).map_err(|error| unreadable(QUARANTINE, &at, error))
}

fn is_overlap(one: &JournalEntry, other: &JournalEntry) -> bool {
    let end = |entry: &JournalEntry| entry.from as usize + entry.events.len();
    (one.from as usize) < end(other) && (other.from as usize) < end(one)
}

/// Sagas of which the journal holds more than their end: they run, or are about to be set aside.
pub async fn running(transaction: &dyn Transaction, shard: ShardId) -> Result<HashSet<SagaKey>, StoreError> {
    let mut found = HashSet::new();
    let mut from = Bound::Included(journal_key(shard, floor(transaction, shard).await?));
    loop {
        let until = Bound::Excluded(shard_end(shard));
        let rows = transaction.scan(SAGA_JOURNAL, from, until, WALK_PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(found) };
        from = Bound::Excluded(last.key.clone());
        for row in &rows {
            for entry in journal_record(row)?.entries {
                match entry.ended {
                    true => found.remove(&entry.key),
                    false => found.insert(entry.key),
                };
            }
        }
    }
}
