//! Events that commit with something else of the caller's: what is decided of them in its transaction, and written there.

use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_core::streams::exact::{ExactAnswer, ExactWrites};
use waybill_core::streams::joint::{JointAppend, JointAppends};
use waybill_core::streams::records::StreamWrite;
use waybill_surreal::Transaction;

use super::changes::Changes;
use super::exact::decided;
use super::heads::Snapshot;
use crate::quarantine::Spoilt;
use crate::store::SurrealStore;

/// What was decided of the events of a transaction.
#[derive(Default)]
pub struct Joint {
    /// Of each append that numbers itself, in order; none = its owner numbers it.
    exact: Vec<Option<ExactWrites>>,
}

impl Joint {
    /// Decides in the transaction of one caller, before anything is written. What can't be read is left in `spoilt`, to be set aside when
    /// the transaction is over: it is a conflict, and the next try finds it gone.
    pub async fn decide(
        store: &SurrealStore,
        transaction: &dyn Transaction,
        appends: &JointAppends,
        spoilt: &mut Spoilt,
    ) -> Result<Self, StoreError> {
        Self::decide_group(store, transaction, appends, spoilt).await.map_err(StoreError::of_one_caller)
    }

    /// The same in a group commit: all appends that can't be made are named.
    pub async fn decide_group(
        store: &SurrealStore,
        transaction: &dyn Transaction,
        appends: &JointAppends,
        spoilt: &mut Spoilt,
    ) -> Result<Self, StoreError> {
        let mut snapshot = Snapshot::of(store, transaction);
        let (mut exact, mut refused) = (Vec::with_capacity(appends.list.len()), Vec::new());
        for (place, joint) in appends.list.iter().enumerate() {
            exact.push(match joint {
                JointAppend::Plain { .. } => None,
                JointAppend::Exact(append) => match decided(&mut snapshot, append, appends.at).await? {
                    Ok(decided) => Some(decided),
                    Err(refusal) => {
                        refused.push((place, refusal));
                        None
                    }
                },
            });
        }
        *spoilt = snapshot.spoilt;
        if !spoilt.is_empty() {
            return Err(StoreError::Conflict("a record of a stream can't be read, and is set aside first".into()));
        }
        if refused.is_empty() { Ok(Self { exact }) } else { Err(StoreError::Appends(refused)) }
    }

    /// Those of the appends that number themselves.
    pub fn answers(&self) -> Vec<&ExactAnswer> {
        self.exact.iter().flatten().map(|decided| &decided.answer).collect()
    }

    /// Numbers of each append, as far as they are known.
    pub fn seqs(&self) -> Vec<Option<Vec<u64>>> {
        self.exact.iter().map(|decided| decided.as_ref().map(|decided| decided.answer.seqs.clone())).collect()
    }

    /// Writes all of it. Call it at the end, as of [`crate::transact::put_door_rows`].
    pub async fn write(
        self,
        store: &SurrealStore,
        transaction: &dyn Transaction,
        appends: &JointAppends,
    ) -> Result<(), StoreError> {
        let mut writes: Vec<StreamWrite> =
            self.exact.into_iter().flatten().flat_map(|decided| decided.writes).collect();
        writes.extend(appends.list.iter().filter_map(JointAppend::door_row));
        if writes.is_empty() {
            return Ok(());
        }
        // Nobody's shard: rows of the doorstep name their own, and nothing else of these lies in one.
        Changes::of(ShardId(0), 0, &writes)?.apply(store, transaction).await
    }
}
