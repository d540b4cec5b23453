//! A caller's transaction: statements, then events, then the messages on their doorsteps, committed together.

use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use surrealdb_expr::expr::LogicalPlan;
use ulid::Ulid;
use waybill_core::ids::ShardId;
use waybill_core::outbox::records::DoorKey;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{Conclusion, DoorGroup, Statement, Transacted};
use waybill_core::streams::joint::{JointAppends, is_repeat};
use waybill_surreal::{Bindings, Fault, Object, Reads, Transaction, Value, from_json, int_of, to_json};

use super::repeats::Attempt;
use crate::fault::store_error;
use crate::guard::{Checked, Held, Names, check, scan_of};
use crate::idempotency::conclude;
use crate::owner::read::door_newest;
use crate::quarantine::Spoilt;
use crate::rows::door::{cut, of_group};
use crate::store::{SurrealStore, finish};
use crate::streams::Joint;
use crate::tables::{DOOR, ID, door_key, id_key};

/// Text of the statements that stay parsed until they run, in bytes: what is parsed takes many times its text. Those behind it are
/// parsed again.
const PARSED_BYTES_MAX: usize = 128 * 1024;

pub async fn transact(
    store: &SurrealStore,
    statements: &[Statement],
    (groups, events): (&[DoorGroup], &JointAppends),
    conclusion: Option<&Conclusion>,
) -> Result<Transacted, StoreError> {
    if !statements.is_empty() {
        store.refuse_if_shared()?;
    }
    // Before they are parsed: what waits for its turn takes no more than its text.
    let mut attempt = store.repeats().begin(store.stamps(), groups).await;
    let mut lets = HashSet::new();
    let mut checked = Vec::with_capacity(statements.len());
    let mut text_bytes = 0;
    for (number, statement) in (1..).zip(statements) {
        let known = check(statement, number, &lets)?;
        lets.extend(known.sets.clone());
        text_bytes += statement.query.len();
        checked.push((number, statement, (text_bytes <= PARSED_BYTES_MAX).then_some(known)));
    }
    // Encoded beforehand: the transaction's snapshot should be young.
    let rows = door_rows(groups)?;

    let transaction = store.begin(true).await?;
    let mut spoilt = Spoilt::default();
    let worked = decide(store, transaction.as_ref(), &mut attempt, (groups, events), &mut spoilt).await;
    let worked = match worked {
        Ok(joint) => work(store, transaction.as_ref(), checked, (groups, rows), (events, joint)).await,
        Err(error) => Err(error),
    };
    let worked = match (worked, conclusion) {
        (Ok(done), Some(conclusion)) => conclude(transaction.as_ref(), conclusion, &done).await.map(|()| done),
        (worked, _) => worked,
    };
    let done = finish(transaction, worked).await;
    store.set_aside(spoilt).await;
    if done.is_ok() {
        attempt.committed();
    }
    done
}

/// What becomes of the events, unless the messages were there before: then all of it is a repeat, whose streams went on with the first.
async fn decide(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    attempt: &mut Attempt<'_>,
    (groups, events): (&[DoorGroup], &JointAppends),
    spoilt: &mut Spoilt,
) -> Result<Joint, StoreError> {
    refuse_taken_ids(transaction, groups).await?;
    attempt.refuse_waiting(transaction, groups).await?;
    Joint::decide(store, transaction, events, spoilt).await
}

async fn work(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    checked: Vec<(usize, &Statement, Option<Checked>)>,
    (groups, rows): (&[DoorGroup], Vec<(DoorGroupAt, Object)>),
    (events, joint): (&JointAppends, Joint),
) -> Result<Transacted, StoreError> {
    let refused = |refusal| StoreError::Append(Box::new(refusal));
    if is_repeat(events, &joint.answers(), groups).map_err(refused)? {
        return Ok(Transacted { results: Vec::new(), seqs: joint.seqs(), is_repeat: true });
    }
    let mut lets: HashMap<String, Value> = HashMap::new();
    let mut held = Held::default();
    let mut results = Vec::with_capacity(checked.len());
    let mut names = HashSet::new();
    for (number, statement, known) in checked {
        // Small statements may all be run without ever waiting.
        tokio::task::yield_now().await;
        let Checked { plan, sets } = known.map_or_else(|| check(statement, number, &names), Ok)?;
        names.extend(sets.clone());
        let rows_bytes_max = held.fits(statement, number, &plan)?;
        let value = run(transaction, number, statement, plan, &lets, rows_bytes_max).await?;
        held.keep(number, sets.as_deref(), &value)?;
        results.push(match sets {
            Some(name) => {
                lets.insert(name, value);
                serde_json::Value::Null
            }
            None => to_json(value).map_err(store_error)?,
        });
    }
    let seqs = joint.seqs();
    joint.write(store, transaction, events).await?;
    put_door_rows(store, transaction, rows).await?;
    Ok(Transacted { results, seqs, is_repeat: false })
}

/// Puts rows on their doorsteps. Call it at the end: a row's stamp shouldn't be older than its commit by the time that the rest
/// took.
pub(crate) async fn put_door_rows(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    rows: Vec<(DoorGroupAt, Object)>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let nanos = door_stamp(store, transaction, DOOR, rows.iter().map(|(at, _)| at.shard).collect()).await?;
    for (at, fields) in rows {
        let key = DoorKey { nanos, ordinal: at.ordinal, ulid: Ulid::new().to_string() };
        transaction.put(DOOR, door_key(at.shard, &key), fields).await.map_err(store_error)?;
    }
    Ok(())
}

/// The stamp of rows that are put on these shards' doorsteps now: behind all that lies there.
pub(crate) async fn door_stamp(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    doorstep: &'static str,
    shards: HashSet<ShardId>,
) -> Result<u64, StoreError> {
    let clock = store.door_nanos().await?;
    for shard in shards {
        // A client's function may have put it there before the clock was set back.
        if let Some(newest) = door_newest(transaction, doorstep, shard, clock).await? {
            store.stamps().begin_after(newest);
        }
    }
    Ok(store.stamps().next(clock))
}

/// Runs what was checked of one statement.
pub(super) async fn run(
    transaction: &dyn Transaction,
    number: usize,
    statement: &Statement,
    plan: LogicalPlan,
    lets: &HashMap<String, Value>,
    rows_bytes_max: u64,
) -> Result<Value, StoreError> {
    let given = statement.bindings.iter().filter(|(name, _)| !lets.contains_key(name.as_str()));
    let mut bindings: Bindings = given.map(|(name, value)| (name.clone(), from_json(value.clone()))).collect();
    bindings.extend(lets.iter().map(|(name, value)| (name.clone(), value.clone())));
    let scan = scan_of(&plan, &Names { lets, bindings: &statement.bindings });
    transaction.run(plan, bindings, Reads { held_max: rows_bytes_max, scan }).await.map_err(|fault| match fault {
        Fault::Statement(cause) | Fault::Other(cause) => StoreError::Statement(format!("statement {number}: {cause}")),
        // A record of the caller's own that exists already: their statement failed, no message's id is taken.
        Fault::Exists(cause) => StoreError::Statement(format!("statement {number}: {cause}")),
        fault => store_error(fault),
    })
}

pub(super) async fn refuse_taken_ids(transaction: &dyn Transaction, groups: &[DoorGroup]) -> Result<(), StoreError> {
    for message in groups.iter().flat_map(|group| &group.messages).filter(|message| message.caller_id) {
        let found = transaction.get(ID, id_key(&message.tenant, &message.id)).await.map_err(store_error)?;
        if found.is_some() {
            return Err(StoreError::Exists(format!(
                "id {:?} of tenant {:?}",
                message.id.as_str(),
                message.tenant.as_str()
            )));
        }
    }
    Ok(())
}

/// Shard and ordinal of a row.
pub(crate) struct DoorGroupAt {
    shard: ShardId,
    ordinal: u32,
}

/// The rows of some groups: each shard's in order.
pub(crate) fn door_rows(groups: &[DoorGroup]) -> Result<Vec<(DoorGroupAt, Object)>, StoreError> {
    let mut rows = Vec::new();
    let mut ordinals: HashMap<ShardId, u32> = HashMap::new();
    for group in groups {
        for messages in cut(&group.messages) {
            let ordinal = ordinals.entry(group.shard).or_default();
            rows.push((DoorGroupAt { shard: group.shard, ordinal: *ordinal }, of_group(messages)?));
            *ordinal += 1;
        }
    }
    Ok(rows)
}

impl SurrealStore {
    /// Callers' statements would run on a server with the rights of this host's own user, who may do everything there.
    pub(super) fn refuse_if_shared(&self) -> Result<(), StoreError> {
        if self.is_embedded() { Ok(()) } else { Err(StoreError::Shared) }
    }

    /// The clock that stamps doorstep rows: this process's own where the database is in it, else the server's.
    pub(crate) async fn door_nanos(&self) -> Result<u64, StoreError> {
        if self.is_embedded() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            return Ok(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        }
        let answers = self.engine.run("RETURN time::nano(time::now())", Vec::new()).await.map_err(store_error)?;
        let nanos = int_of(answers.first()).and_then(|nanos| u64::try_from(nanos).ok());
        nanos.ok_or_else(|| StoreError::Other("the server didn't tell its time".into()))
    }
}
