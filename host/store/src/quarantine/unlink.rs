//! Dropping rows of sagas: with the last one the saga is gone, and a mark says so.

use waybill_core::ids::ShardId;
use waybill_core::port::saga_store::SagaTable;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::SagaKey;
use waybill_core::time::UnixMillis;
use waybill_surreal::{RecordIdKey, Transaction, object, text};

use super::entry::{Entry, MARK};
use super::journal::running;
use super::sagas::{of_row, pieces, tree_in};
use crate::codec::saga::decode_journal;
use crate::fault::store_error;
use crate::saga::{find_saga, mark_dropped, wall};
use crate::tables::{QUARANTINE, SAGA, SAGA_DEAD, SAGA_DONE, SAGA_START, saga_dead_key, saga_start_key};

/// Before the row `id` is dropped: whoever led to it leads to the one before. With the last one the saga is gone, unless it has a
/// newer row by now: its id may be used again, and it is no dead letter any more. False when no marker leads to it.
pub async fn unlink(transaction: &dyn Transaction, id: &str, entry: &Entry) -> Result<bool, StoreError> {
    let named = entry.table.zip(entry.key.as_ref()).and_then(|(table, key)| of_row(table, key));
    let Some((shard, of, ended)) = named else { return Ok(false) };
    let mut pieces = pieces(transaction, (shard, &of, ended)).await?;
    let Some(at) = pieces.iter().position(|piece| piece.id == id) else {
        if pieces.is_empty() {
            note_dropped(transaction, (shard, &of), entry).await?;
        }
        return Ok(false);
    };
    let before = pieces.remove(at).entry.before;
    let marker = saga_start_key(shard, &of, ended);
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
            note_dropped(transaction, (shard, &of), entry).await?;
            let lives = match find_saga(transaction, SagaTable::Open, shard, &of).await {
                // This marker.
                Err(StoreError::Corrupt(_)) => false,
                found => found?.is_some(),
            };
            // Of what only says when it began, the saga itself may be there.
            if entry.table == Some(SAGA) && !lives {
                transaction.delete(SAGA_DEAD, saga_dead_key(shard, &of)).await.map_err(store_error)?;
            }
            transaction.delete(SAGA_START, marker).await
        }
    };
    done.map_err(store_error).map(|()| true)
}

/// Notes that a saga is dropped with its last row, so that none of it is put back later, unless it is somewhere else as well.
async fn note_dropped(
    transaction: &dyn Transaction,
    (shard, of): (ShardId, &SagaKey),
    entry: &Entry,
) -> Result<(), StoreError> {
    // What only says when it began isn't the saga.
    if !matches!(entry.table, Some(SAGA | SAGA_DONE)) {
        return Ok(());
    }
    for table in [SagaTable::Open, SagaTable::Done] {
        match find_saga(transaction, table, shard, of).await {
            // This row's marker.
            Err(StoreError::Corrupt(_)) => {}
            found => {
                if found?.is_some() {
                    return Ok(());
                }
            }
        }
    }
    let runs = match running(transaction, shard).await {
        // A part of the journal can't be read: nothing keeps a row from being dropped.
        Err(StoreError::Corrupt(_)) => false,
        running => running?.contains(of),
    };
    if runs { Ok(()) } else { mark_dropped(transaction, shard, of, last_known(entry)).await }
}

/// Now, and not before anything that is known of a saga, should the clock have been set back.
fn last_known(entry: &Entry) -> UnixMillis {
    let entries = entry.journal.as_ref().and_then(|journal| decode_journal(journal).ok()).unwrap_or_default();
    let last = entries.iter().flat_map(|entry| &entry.events).map(|event| event.at).max();
    let moved = tree_in(entry).map(|tree| tree.updated_at);
    let known = [Some(wall()), entry.at.map(UnixMillis), last, moved];
    known.into_iter().flatten().max().unwrap_or_default()
}
