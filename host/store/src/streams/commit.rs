//! The commit of the owner of a shard's streams: one transaction, guarded by the shard record as the outbox owner's is, and by the ends of
//! the streams that it numbers in. Those it writes as well, so an exact append that came first since its snapshot makes it fail.

use waybill_core::port::store::StoreError;
use waybill_core::streams::records::{StreamCommit, StreamCommitted};
use waybill_surreal::{Object, Transaction};

use super::changes::Changes;
use super::heads::Snapshot;
use crate::fault::store_error;
use crate::rows::streams as rows;
use crate::store::{SurrealStore, finish, undo};
use crate::tables::{STREAM_SHARD, shard_key};

pub async fn commit(store: &SurrealStore, commit: &StreamCommit) -> Result<StreamCommitted, StoreError> {
    if commit.record.beat != commit.expect_beat + 1 {
        return Err(StoreError::Other("a commit of streams has to raise the beat by one".into()));
    }
    let record = rows::of_shard(&commit.record)?;
    let changes = Changes::of(commit.shard, commit.record.beat, &commit.writes)?;
    let trimmed = changes.trims_feed_to();
    let transaction = store.begin(true).await?;
    let mut snapshot = Snapshot::of(store, transaction.as_ref());
    let guarded = guard(&mut snapshot, commit).await;
    let spoilt = snapshot.spoilt;
    let done = match guarded {
        Ok(StreamCommitted::Applied) => {
            let worked = write(store, transaction.as_ref(), commit, record, changes).await;
            finish(transaction, worked).await.map(|()| StreamCommitted::Applied)
        }
        Ok(moved) => {
            undo(transaction).await;
            Ok(moved)
        }
        Err(error) => finish(transaction, Err(error)).await,
    };
    store.set_aside(spoilt).await;
    if let (Ok(StreamCommitted::Applied), Some(pos)) = (&done, trimmed) {
        store.feed_fronts().reached(commit.shard, pos.saturating_add(1));
    }
    done
}

/// Whether the shard's record and the heads stand where the commit takes them to stand.
async fn guard(snapshot: &mut Snapshot<'_>, commit: &StreamCommit) -> Result<StreamCommitted, StoreError> {
    let shard = commit.shard;
    let stored = snapshot.transaction.get(STREAM_SHARD, shard_key(shard)).await.map_err(store_error)?;
    let stands = match &stored {
        Some(fields) => rows::token_and_beat(fields)
            .ok_or_else(|| StoreError::Corrupt(format!("{STREAM_SHARD}:{shard} has no token and beat")))?,
        None => (0, 0),
    };
    if stands != (commit.expect_token, commit.expect_beat) {
        return Err(StoreError::Conflict(format!(
            "the streams of shard {shard} stand at token {} beat {}, the commit expected token {} beat {}",
            stands.0, stands.1, commit.expect_token, commit.expect_beat
        )));
    }
    let mut moved = Vec::new();
    for (stream, expected) in &commit.heads {
        let last = snapshot.last(stream, *expected).await?;
        if last != *expected {
            moved.push((stream.clone(), last));
        }
    }
    Ok(if moved.is_empty() { StreamCommitted::Applied } else { StreamCommitted::Moved(moved) })
}

async fn write(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    commit: &StreamCommit,
    record: Object,
    changes: Changes,
) -> Result<(), StoreError> {
    transaction.put(STREAM_SHARD, shard_key(commit.shard), record).await.map_err(store_error)?;
    changes.apply(store, transaction).await
}
