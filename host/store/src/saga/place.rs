//! Where the row of a saga lies. Rows are ordered by start, so that lists read them newest first; whoever has only the id
//! takes the start from it. An id that the host made is a ULID with the instant of the start in it; for an id that doesn't
//! tell the start there is a row in `saga_start`.

use std::sync::Arc;

use bytes::Bytes;
use ulid::Ulid;
use waybill_core::ids::ShardId;
use waybill_core::port::saga_store::SagaTable;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::records::{SagaRow, SagaShardRecord};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, RecordIdKey, Row, Transaction};

use crate::fault::store_error;
use crate::quarantine::{Spoilt, refuse_held};
use crate::rows::{lacks, saga as rows, saga_small};
use crate::tables::{
    SAGA, SAGA_DONE, SAGA_SHARD, SAGA_START, SAGA_TREE, saga_key, saga_start_key, saga_tree_key, shard_key, unsigned,
};

/// The name of a table.
pub fn name(table: SagaTable) -> &'static str {
    match table {
        SagaTable::Open => SAGA,
        SagaTable::Done => SAGA_DONE,
    }
}

/// When the saga started according to its id, if that is a ULID. A caller's own id may say another time.
pub fn start_in_id(id: &SagaId) -> Option<UnixMillis> {
    Ulid::from_string(id.as_str()).ok().map(|id| UnixMillis(id.timestamp_ms()))
}

/// Whether the start of a saga has to be noted, because its id doesn't tell it.
pub fn needs_start(id: &SagaId, started: UnixMillis) -> bool {
    start_in_id(id) != Some(started)
}

pub fn of_start(started: UnixMillis) -> Object {
    waybill_surreal::object([("started", crate::tables::number(started.0))])
}

/// The shard record, and up to where the journal is gone; the default when there is none.
pub async fn shard(transaction: &dyn Transaction, shard: ShardId) -> Result<(SagaShardRecord, u64), StoreError> {
    let key = shard_key(shard);
    match transaction.get(SAGA_SHARD, key.clone()).await.map_err(store_error)? {
        Some(fields) => saga_small::shard(&key, &fields),
        None => Ok((SagaShardRecord::default(), 0)),
    }
}

/// When a saga began whose id doesn't tell it.
pub fn started(row: &Row) -> Result<UnixMillis, StoreError> {
    refuse_held(SAGA_START, &row.key, &row.fields)?;
    unsigned(row.fields.get("started")).map(UnixMillis).ok_or_else(|| lacks(SAGA_START, &row.key, "started"))
}

/// Journal records below this are gone, or about to be.
pub async fn floor(transaction: &dyn Transaction, of: ShardId) -> Result<u64, StoreError> {
    Ok(shard(transaction, of).await?.0.floor)
}

/// The row of a saga in a table, and when it began.
pub async fn find(
    transaction: &dyn Transaction,
    table: SagaTable,
    shard: ShardId,
    key: &SagaKey,
) -> Result<Option<(UnixMillis, Row)>, StoreError> {
    let at = |started: UnixMillis| saga_key(shard, started, key);
    if let Some(started) = start_in_id(&key.id)
        && let Some(fields) = transaction.get(name(table), at(started)).await.map_err(store_error)?
    {
        return Ok(Some((started, Row { key: at(started), fields })));
    }
    let noted = saga_start_key(shard, key, table == SagaTable::Done);
    let Some(fields) = transaction.get(SAGA_START, noted.clone()).await.map_err(store_error)? else {
        return Ok(None);
    };
    let started = started(&Row { key: noted, fields })?;
    let found = transaction.get(name(table), at(started)).await.map_err(store_error)?;
    Ok(found.map(|fields| (started, Row { key: at(started), fields })))
}

/// The bytes of a saga's tree.
pub async fn tree_bytes(
    transaction: &dyn Transaction,
    fields: &Object,
    tree: RecordIdKey,
) -> Result<Option<Bytes>, StoreError> {
    if let Some(data) = rows::tree_bytes(fields) {
        return Ok(Some(data));
    }
    let apart = transaction.get(SAGA_TREE, tree).await.map_err(store_error)?;
    Ok(apart.as_ref().and_then(rows::tree_bytes))
}

/// A saga that rests, else one that ended. One that ended is found also when an earlier row of it lies in quarantine.
pub async fn saga(
    transaction: &dyn Transaction,
    shard: ShardId,
    key: &SagaKey,
    spoilt: &mut Spoilt,
) -> Result<Option<Arc<SagaRow>>, StoreError> {
    let mut held = Ok(None);
    for table in [SagaTable::Open, SagaTable::Done] {
        let found = match find(transaction, table, shard, key).await {
            Err(error @ StoreError::Corrupt(_)) if table == SagaTable::Open => {
                held = Err(error);
                continue;
            }
            found => found?,
        };
        if let Some((started, row)) = found {
            let apart = saga_tree_key(shard, started, key, table == SagaTable::Done);
            let data = tree_bytes(transaction, &row.fields, apart).await?;
            let read = rows::saga(name(table), &row, data);
            // An open one is its writer's to move.
            return match table {
                SagaTable::Open => read,
                SagaTable::Done => spoilt.note_corrupt(SAGA_DONE, &row.key, read),
            }
            .map(Some);
        }
    }
    held
}
