//! A business transaction of a Rust application that holds the store itself: statements, messages and events, committed together.

use std::collections::{HashMap, HashSet};

use ulid::Ulid;
use waybill_core::error::InputError;
use waybill_core::ids::{EventId, MessageId, ShardId};
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::records::DoorKey;
use waybill_core::port::service::streams::{AppendRequest, StreamError};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{DoorGroup, Statement};
use waybill_core::streams::event::EventLimits;
use waybill_core::streams::joint::{JointAppends, JointEvent, sort};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Transaction, Value, to_json};

use super::run::{refuse_taken_ids, run};
use crate::fault::store_error;
use crate::guard::{Checked, Held, check};
use crate::quarantine::Spoilt;
use crate::rows::door::of_group;
use crate::store::SurrealStore;
use crate::streams::Joint;
use crate::tables::{DOOR, door_key};

/// Why a message, an event or a statement wasn't taken into a [`BusinessTransaction`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusinessError {
    /// The message is wrong.
    #[error(transparent)]
    Message(#[from] InputError),
    /// The events are wrong, or their stream ends elsewhere. Nothing of them was written; cancel the transaction unless it is right
    /// without them.
    #[error(transparent)]
    Events(#[from] StreamError),
    /// The statement or the store failed. The transaction can only be cancelled after it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An open transaction. Dropping it undoes everything.
///
/// Keep it short: the store can't be opened again while it is open, which it has to be whenever its write buffer is full, and
/// everybody else waits for that. After a second its next call fails with a conflict; one that makes no call isn't interrupted.
///
/// It takes the same statements as `POST /v1/transactions`, on an embedded store only, and keeps Waybill's own tables closed. Messages go to the doorstep of
/// their shard; a host in this process looks there when [`BusinessTransaction::commit`] is followed by the engine's `wake_door`, any other
/// host at its next look. Topics aren't checked against routes here: a message that no route takes waits, visibly.
pub struct BusinessTransaction {
    store: SurrealStore,
    transaction: Box<dyn Transaction>,
    lets: HashSet<String>,
    values: HashMap<String, Value>,
    /// What LETs take; results are handed out.
    held: Held,
    statements: usize,
    /// Stamp of all its messages, and the clock then: those of the first, so that they stay in order whatever the clock does.
    stamp: Option<(u64, UnixMillis)>,
    ordinals: HashMap<ShardId, u32>,
    spread: u64,
}

impl SurrealStore {
    /// Begins a business transaction.
    pub async fn begin_business(&self) -> Result<BusinessTransaction, StoreError> {
        let transaction = self.begin(true).await?;
        Ok(BusinessTransaction {
            store: self.clone(),
            transaction,
            lets: HashSet::new(),
            values: HashMap::new(),
            held: Held::default(),
            statements: 0,
            stamp: None,
            ordinals: HashMap::new(),
            spread: self.door_nanos().await?,
        })
    }
}

impl BusinessTransaction {
    /// Runs one statement and answers its result as JSON; null for a LET.
    pub async fn run(&mut self, statement: &Statement) -> Result<serde_json::Value, BusinessError> {
        self.store.refuse_if_shared()?;
        self.statements += 1;
        let Checked { plan, sets } = check(statement, self.statements, &self.lets)?;
        let rows_bytes_max = self.held.fits(statement, self.statements, &plan)?;
        let transaction = self.transaction.as_ref();
        let value = run(transaction, self.statements, statement, plan, &self.values, rows_bytes_max).await?;
        match sets {
            Some(name) => {
                self.held.keep(self.statements, Some(&name), &value)?;
                self.lets.insert(name.clone());
                self.values.insert(name, value);
                Ok(serde_json::Value::Null)
            }
            None => Ok(to_json(value).map_err(store_error)?),
        }
    }

    /// Commits statements, messages and events together. [`StoreError::Conflict`] proves that nothing was written: run it all again.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.transaction.commit().await.map_err(store_error)
    }

    pub async fn cancel(self) -> Result<(), StoreError> {
        self.transaction.cancel().await.map_err(store_error)
    }
}

/// Puts a message into a business transaction and answers its id (`semantics.md` §1, Enqueue (a)). A caller's id that is taken is
/// [`StoreError::Exists`]; one that lies on a doorstep isn't taken yet, so the application sees to it itself that its statements run once.
pub async fn enqueue_in_tx(
    tx: &mut BusinessTransaction,
    message: NewMessage,
    payload_bytes_max: usize,
) -> Result<MessageId, BusinessError> {
    let (nanos, now) = match tx.stamp {
        Some(stamp) => stamp,
        None => {
            let clock = tx.store.door_nanos().await?;
            (tx.store.stamps().next(clock), UnixMillis(clock / 1_000_000))
        }
    };
    tx.stamp = Some((nanos, now));
    let draft = message.check(now, payload_bytes_max)?;
    let id = MessageId::new(Ulid::new().to_string())?;
    let message = draft.finish(|| id);
    let caller_id = message.caller_id.then_some(&message.id);
    let shard = ShardId::of(&message.tenant, message.key.as_ref(), caller_id, tx.spread, tx.store.shards());
    let id = message.id.clone();
    let group = DoorGroup { shard, messages: vec![message] };
    refuse_taken_ids(tx.transaction.as_ref(), std::slice::from_ref(&group)).await?;
    let ordinal = tx.ordinals.entry(shard).or_default();
    let key = DoorKey { nanos, ordinal: *ordinal, ulid: Ulid::new().to_string() };
    *ordinal += 1;
    let fields = of_group(&group.messages)?;
    tx.transaction.put(DOOR, door_key(shard, &key), fields).await.map_err(store_error)?;
    Ok(id)
}

/// Events that [`append_in_tx`] put into a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedInTx {
    pub ids: Vec<EventId>,
    /// Their numbers when the transaction commits; none = the owner of the stream's shard gives them after that.
    pub seqs: Option<Vec<u64>>,
}

/// Appends events of one stream in a business transaction. Without `expected_seq` they never make it fail; with it the transaction fails
/// where the stream ends elsewhere, now or when it commits. Ids that were numbered before with the same content answer the first numbers.
/// `limits` are those of the host's configuration for this stream.
pub async fn append_in_tx(
    tx: &mut BusinessTransaction,
    request: AppendRequest,
    limits: &EventLimits,
) -> Result<AppendedInTx, BusinessError> {
    let now = UnixMillis(tx.store.door_nanos().await? / 1_000_000);
    let AppendRequest { stream, events, mut expected_seq, traceparent } = request;
    let asked = events.into_iter().map(|event| JointEvent {
        stream: stream.clone(),
        event,
        expected_seq: expected_seq.take(),
        traceparent: traceparent.clone(),
    });
    let sorted = sort(asked.collect(), (tx.store.shards(), now), |_, stream, input| {
        let is_indexed = input.id.is_some();
        let id = input.id.clone().map_or_else(|| EventId::new(Ulid::new().to_string()), Ok)?;
        input.into_event(|| id, now).admit(&stream.name, limits, is_indexed)
    })?;
    let ids = sorted.ids().map(|(id, _)| id.clone()).collect();
    let seqs = append(tx, &sorted.appends).await?;
    Ok(AppendedInTx { ids, seqs: seqs.into_iter().next().flatten() })
}

async fn append(tx: &BusinessTransaction, appends: &JointAppends) -> Result<Vec<Option<Vec<u64>>>, BusinessError> {
    let mut spoilt = Spoilt::default();
    let decided = Joint::decide(&tx.store, tx.transaction.as_ref(), appends, &mut spoilt).await;
    if !spoilt.is_empty() {
        // In a task of its own: it may have to wait for the end of this transaction.
        let store = tx.store.clone();
        tokio::spawn(async move { store.set_aside(spoilt).await });
    }
    let joint = decided.map_err(|error| match error {
        StoreError::Append(refusal) => BusinessError::Events(StreamError::Exact(*refusal)),
        error => BusinessError::Store(error),
    })?;
    let seqs = joint.seqs();
    joint.write(&tx.store, tx.transaction.as_ref(), appends).await?;
    Ok(seqs)
}
