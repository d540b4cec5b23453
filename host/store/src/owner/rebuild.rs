//! A shard record that can't be read. It is moved to quarantine, and another one takes its place, made of what is readable in
//! it and of what lies in the shard. What was claimed is lost with it. Messages that have a row by now as parked, dead or done
//! are taken out of their segments; those that were delivered and had none yet are sent again, in order; none is lost.

use std::time::{SystemTime, UNIX_EPOCH};

use waybill_core::ids::{Seq, ShardId};
use waybill_core::limits::SEGMENT_MESSAGES_MAX;
use waybill_core::outbox::records::ShardRecord;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Object, Transaction};

use crate::fault::store_error;
use crate::quarantine::put;
use crate::rows::shard as rows;
use crate::store::{SurrealStore, finish};
use crate::tables::{DEAD, DONE, OUTBOX, PARKED, SHARD, part, shard_end, shard_key, shard_start, unsigned};

/// Tables whose keys are a shard and a seq that was given out.
const WITH_SEQ: [&str; 4] = [OUTBOX, PARKED, DEAD, DONE];

/// Reads a shard record, and makes another one if it can't be read.
pub async fn shard(store: &SurrealStore, shard: ShardId) -> Result<ShardRecord, StoreError> {
    match super::read::shard(store.begin(false).await?.as_ref(), shard).await {
        Err(StoreError::Corrupt(_)) => {}
        read => return read,
    }
    super::left::take_out(store, shard).await?;
    let transaction = store.begin(true).await?;
    let worked = rebuild(transaction.as_ref(), shard).await;
    finish(transaction, worked).await
}

async fn rebuild(transaction: &dyn Transaction, shard: ShardId) -> Result<ShardRecord, StoreError> {
    // Its owner may have written it again meanwhile.
    let reason = match super::read::shard(transaction, shard).await {
        Err(StoreError::Corrupt(reason)) => reason,
        read => return read,
    };
    let key = shard_key(shard);
    let fields = transaction.get(SHARD, key.clone()).await.map_err(store_error)?.unwrap_or_default();
    let record = ShardRecord {
        // Whoever owns the shard is fenced off: what it has claimed isn't known here.
        token: number(&fields, "token").unwrap_or_else(now_millis) + 1,
        beat: number(&fields, "beat").unwrap_or(0) + 1,
        floor: Seq(number(&fields, "floor").unwrap_or(0)),
        last: last(transaction, shard).await?.max(rows::last(&fields)),
        released: true,
        ..ShardRecord::default()
    };
    let written = rows::of_shard(&record)?;
    put(transaction, SHARD, &key, fields, None, &reason).await?;
    transaction.put(SHARD, key, written).await.map_err(store_error)?;
    Ok(record)
}

fn number(fields: &Object, name: &str) -> Option<u64> {
    unsigned(fields.get(name))
}

/// Far above any number of takeovers.
fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX / 2)
}

/// No seq above this was given out, as far as what lies in the shard tells.
async fn last(transaction: &dyn Transaction, shard: ShardId) -> Result<Seq, StoreError> {
    let mut last = Seq(0);
    for table in WITH_SEQ {
        let (from, until) = (Bound::Included(shard_start(shard)), Bound::Excluded(shard_end(shard)));
        let rows = transaction.scan_back(table, from, until, 1).await.map_err(store_error)?;
        if let Some(seq) = rows.first().and_then(|row| part(&row.key, 1)) {
            // A key may be the first of a whole segment.
            last = last.max(Seq(seq).plus(SEGMENT_MESSAGES_MAX));
        }
    }
    Ok(last)
}
