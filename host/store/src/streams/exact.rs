//! An append at an expected number, in a transaction of its own. What it decides from, it writes: the head. So whoever gives out a number
//! meanwhile makes one of the two fail.

use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_core::streams::exact::{ExactAnswer, ExactAppend, ExactRefusal, ExactView, ExactWrites, decide};
use waybill_core::streams::rules::Rules;
use waybill_core::time::UnixMillis;
use waybill_surreal::Transaction;

use super::changes::Changes;
use super::heads::Snapshot;
use super::ids;
use crate::store::{SurrealStore, finish, undo};

/// What is written, or why nothing is.
pub type Decided = Result<ExactWrites, ExactRefusal>;

pub async fn append(
    store: &SurrealStore,
    append: &ExactAppend,
    now: UnixMillis,
) -> Result<Result<ExactAnswer, ExactRefusal>, StoreError> {
    let (transaction, decided) = begin(store, append, now).await?;
    let writes = match decided {
        Ok(decided) if !decided.writes.is_empty() => decided,
        ended => {
            undo(transaction).await;
            return Ok(ended.map(|repeat| repeat.answer));
        }
    };
    let worked = write(store, transaction.as_ref(), &writes).await;
    match finish(transaction, worked).await {
        Ok(()) => Ok(Ok(writes.answer)),
        Err(error @ (StoreError::Conflict(_) | StoreError::Exists(_))) => {
            after_conflict(store, append, now, error).await
        }
        Err(error) => Err(error),
    }
}

/// Decides in a transaction that writes. What it would write over and can't be read goes to quarantine first.
async fn begin(
    store: &SurrealStore,
    append: &ExactAppend,
    now: UnixMillis,
) -> Result<(Box<dyn Transaction>, Decided), StoreError> {
    let mut is_first = true;
    loop {
        let transaction = store.begin(true).await?;
        let mut snapshot = Snapshot::of(store, transaction.as_ref());
        let decided = decided(&mut snapshot, append, now).await;
        let spoilt = snapshot.spoilt;
        let decided = match decided {
            Ok(decided) => decided,
            Err(error) => return finish(transaction, Err(error)).await,
        };
        if spoilt.is_empty() || !is_first {
            return Ok((transaction, decided));
        }
        undo(transaction).await;
        store.set_aside(spoilt).await;
        is_first = false;
    }
}

/// What an append decides from what a transaction reads.
pub async fn decided(
    snapshot: &mut Snapshot<'_>,
    append: &ExactAppend,
    now: UnixMillis,
) -> Result<Decided, StoreError> {
    let view = view(snapshot, append).await?;
    Ok(decide(append, &view, now, Rules::default()))
}

async fn view(snapshot: &mut Snapshot<'_>, append: &ExactAppend) -> Result<ExactView, StoreError> {
    let stream = &append.append.stream;
    let mut view = ExactView { head: snapshot.stands(stream).await?.0, ids: Vec::new() };
    for event in &append.append.events {
        view.ids.push(match event.is_indexed {
            true => ids::read(snapshot, &(stream.tenant.clone(), event.id.clone())).await?,
            false => None,
        });
    }
    Ok(view)
}

async fn write(store: &SurrealStore, transaction: &dyn Transaction, writes: &ExactWrites) -> Result<(), StoreError> {
    // Nobody's shard: no write of an exact append lies in one but its note, which names its own.
    Changes::of(ShardId(0), 0, &writes.writes)?.apply(store, transaction).await
}

/// Nothing was written. Where the stream ends elsewhere by now, or the ids are there, that is the answer.
async fn after_conflict(
    store: &SurrealStore,
    append: &ExactAppend,
    now: UnixMillis,
    error: StoreError,
) -> Result<Result<ExactAnswer, ExactRefusal>, StoreError> {
    let transaction = store.begin_snapshot().await?;
    let again = decided(&mut Snapshot::of(store, transaction.as_ref()), append, now).await;
    store.end_snapshot(transaction).await;
    match again? {
        Ok(decided) if !decided.writes.is_empty() => Err(error),
        ended => Ok(ended.map(|repeat| repeat.answer)),
    }
}
