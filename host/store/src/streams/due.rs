//! Rows that say when a stream is looked at for the age of what it holds.

use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::DueStream;
use waybill_surreal::{Bound, Row};

use super::heads::Snapshot;
use super::keys::due_in;
use crate::quarantine::sifted;
use crate::rows::lacks;
use crate::tables::{STREAM_DUE, shard_end, shard_start};

/// The first ones of a shard, by time, with what their streams say.
pub async fn first(snapshot: &mut Snapshot<'_>, shard: ShardId, limit: usize) -> Result<Vec<DueStream>, StoreError> {
    let range = (Bound::Included(shard_start(shard)), Bound::Excluded(shard_end(shard)));
    let transaction = snapshot.transaction;
    let read = |row: Row| due_in(&row.key).ok_or_else(|| lacks(STREAM_DUE, &row.key, "id"));
    let rows = sifted(transaction, STREAM_DUE, range, limit, &mut snapshot.spoilt, read).await?;
    let mut found = Vec::with_capacity(rows.len());
    for (at, stream) in rows {
        let (_, rest) = snapshot.stands(&stream).await?;
        found.push(DueStream { at, stream, noted: rest.due });
    }
    Ok(found)
}
