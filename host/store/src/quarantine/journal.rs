//! A record of the journal of sagas that lies in quarantine. Since it came here its sagas went on without it, were set aside, or are
//! gone, so it never goes back into the journal: what it holds goes to its sagas. Nothing of it goes unless all of it fits them; then
//! it goes as far as a transaction takes it, and the rest, which lies here until then, with the next ones.

use std::collections::HashSet;

use waybill_core::ids::ShardId;
use waybill_core::port::saga_store::SagaTable;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::records::{JournalEntry, JournalRecord, SagaRow, SagaTakeover};
use waybill_core::saga::state::Tree;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction, Value, bytes};

use super::sagas::{Piece, made_of, pieces, put_row, tree_in};
use super::{MOVED_BYTES_MAX, weight};
use crate::codec::saga::{decode_journal, encode_journal};
use crate::fault::store_error;
use crate::rows::{encoded, lacks, unreadable};
use crate::saga::{dropped, find_saga, floor, forgotten_until, journal_record};
use crate::tables::{
    QUARANTINE, SAGA, SAGA_DONE, SAGA_JOURNAL, SAGA_START, beat_key, part_shard, saga_key, saga_start_key, shard_end,
};

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

/// Why an entry belongs nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misfit {
    /// Its saga runs, rests or has ended, or other events have its numbers.
    WentOn,
    /// Its saga didn't begin in it, and nothing else of it is there.
    NoBeginning,
    /// Its saga was dropped from quarantine since.
    Dropped,
    /// Its saga may have ended, or have been dropped, so long ago that nobody knows it any more.
    Forgotten,
}

impl Misfit {
    fn text(self) -> &'static str {
        match self {
            Self::WentOn => "went on or ended without it",
            Self::NoBeginning => "lacks its beginning",
            Self::Dropped => "was dropped since",
            Self::Forgotten => "may have ended too long ago for anybody to know",
        }
    }
}

/// Gives what a record holds to its sagas, as far as one transaction takes it; answers the rest. `Err(Exists)` names those that it
/// fits no more; then nothing is written.
pub async fn hand_out(transaction: &dyn Transaction, record: &Row) -> Result<Vec<JournalEntry>, StoreError> {
    let shard = part_shard(&record.key).ok_or_else(|| lacks(SAGA_JOURNAL, &record.key, "id"))?;
    let mut elsewhere = running(transaction, shard).await?;
    let forgotten = forgotten_until(transaction).await?;
    let (mut homes, mut strangers) = (Vec::new(), Vec::new());
    let mut entries = journal_record(record)?.entries;
    // That a saga ended says its row.
    entries.retain(|entry| !entry.ended);
    for entry in &entries {
        let key = entry.key.clone();
        let home = match elsewhere.contains(&key) {
            true => Err(Misfit::WentOn),
            false => home(transaction, shard, entry.clone(), forgotten).await?,
        };
        match home {
            Ok(home) => homes.push((key.clone(), home)),
            Err(misfit) => strangers.push((key.clone(), misfit)),
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

fn refusal(strangers: &[(SagaKey, Misfit)]) -> StoreError {
    let named: Vec<String> =
        strangers.iter().take(NAMED_MAX).map(|(key, misfit)| format!("{key} {}", misfit.text())).collect();
    let others = match strangers.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        count => format!("; and {count} more"),
    };
    let is = |wanted: Misfit| strangers.iter().any(|(_, misfit)| *misfit == wanted);
    let advice = if is(Misfit::Dropped) || is(Misfit::Forgotten) {
        "It can't be put back any more: drop it."
    } else if is(Misfit::WentOn) {
        "Drop it, unless one of these is about to be set aside: then try again in a moment."
    } else {
        "Put back the record in which they begin first; if there is none, drop this one."
    };
    StoreError::Exists(format!(
        "it wasn't put back, because it holds events of sagas that they don't fit any more. {}{others}. {advice}",
        named.join("; ")
    ))
}

/// Where an entry belongs of a saga that the journal knows nothing of. Of a saga that ended or was dropped at `forgotten` or before
/// nothing may be known.
async fn home(
    transaction: &dyn Transaction,
    shard: ShardId,
    entry: JournalEntry,
    forgotten: UnixMillis,
) -> Result<Result<Home, Misfit>, StoreError> {
    let key = entry.key.clone();
    if has_row(transaction, shard, &entry).await? {
        return Ok(Err(Misfit::WentOn));
    }
    // A saga neither ends nor is dropped before its last event.
    let last = entry.events.last().map_or(UnixMillis(0), |event| event.at);
    if dropped(transaction, shard, &key).await?.is_some_and(|at| last <= at) {
        return Ok(Err(Misfit::Dropped));
    }
    let pieces = pieces(transaction, (shard, &key, false)).await?;
    if let Some(latest) = pieces.iter().position(|piece| piece.entry.table == Some(SAGA)) {
        return beside(pieces, latest, entry);
    }
    for ended in [false, true] {
        let noted = transaction.get(SAGA_START, saga_start_key(shard, &key, ended)).await.map_err(store_error)?;
        if noted.is_some() {
            return Ok(Err(Misfit::WentOn));
        }
    }
    if entry.from > 0 {
        return Ok(Err(Misfit::NoBeginning));
    }
    if last <= forgotten {
        return Ok(Err(Misfit::Forgotten));
    }
    let journal = vec![JournalRecord { beat: 0, entries: vec![entry] }];
    let row = made_of(transaction, &key, &SagaTakeover { journal, ..SagaTakeover::default() }).await?;
    Ok(Ok(Home::Row(row)))
}

/// Whether a saga rests or has ended, or its row as an ended one lies in quarantine.
async fn has_row(transaction: &dyn Transaction, shard: ShardId, entry: &JournalEntry) -> Result<bool, StoreError> {
    for table in [SagaTable::Open, SagaTable::Done] {
        match find_saga(transaction, table, shard, &entry.key).await {
            // A marker.
            Err(StoreError::Corrupt(_)) if table == SagaTable::Open => {}
            Err(StoreError::Corrupt(_)) => return Ok(true),
            found => {
                if found?.is_some() {
                    return Ok(true);
                }
            }
        }
    }
    // What said when it began may have been dropped, but its first event says it too.
    let Some(first) = entry.events.first().filter(|_| entry.from == 0) else { return Ok(false) };
    for table in [SAGA, SAGA_DONE] {
        let row = transaction.get(table, saga_key(shard, first.at, &entry.key)).await.map_err(store_error)?;
        if row.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// With what was set aside of its saga, if none of that is of a history that went on without the entry.
fn beside(mut pieces: Vec<Piece>, latest: usize, entry: JournalEntry) -> Result<Result<Home, Misfit>, StoreError> {
    for piece in &pieces {
        let is_twice = entries_of(piece)?.iter().any(|other| *other != entry && is_overlap(other, &entry));
        if is_twice || tree_in(&piece.entry).is_some_and(|tree| is_other(&tree, &entry)) {
            return Ok(Err(Misfit::WentOn));
        }
    }
    let piece = pieces.swap_remove(latest);
    let mut entries = entries_of(&piece)?;
    entries.push(entry);
    Ok(Ok(Home::Aside { piece, entries }))
}

/// Whether a row is of a history that went on without the entry: commits end where it doesn't, or it is newer and the entry would
/// come behind it.
fn is_other(row: &Tree, entry: &JournalEntry) -> bool {
    let (from, events) = (entry.from as usize, row.events as usize);
    let is_cut = from < events && events < end_of(entry);
    let is_older = entry.events.first().is_some_and(|first| first.at < row.updated_at);
    is_cut || (from >= events && is_older)
}

/// What the journal held of a saga, as far as it lies with this row.
fn entries_of(piece: &Piece) -> Result<Vec<JournalEntry>, StoreError> {
    let Some(journal) = &piece.entry.journal else { return Ok(Vec::new()) };
    let at = RecordIdKey::String(piece.id.as_str().into());
    decode_journal(journal).map_err(|error| unreadable(QUARANTINE, &at, error))
}

/// The number behind that of its last event.
fn end_of(entry: &JournalEntry) -> usize {
    entry.from as usize + entry.events.len()
}

fn is_overlap(one: &JournalEntry, other: &JournalEntry) -> bool {
    (one.from as usize) < end_of(other) && (other.from as usize) < end_of(one)
}

/// Sagas of which the journal holds more than their end: they run, or are about to be set aside.
pub async fn running(transaction: &dyn Transaction, shard: ShardId) -> Result<HashSet<SagaKey>, StoreError> {
    let mut found = HashSet::new();
    let mut from = Bound::Included(beat_key(shard, floor(transaction, shard).await?));
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
