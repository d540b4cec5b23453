//! The commit of a shard's saga writer: one transaction, guarded by the shard record as the outbox owner's is. Everything is
//! encoded before it begins.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use waybill_core::ids::{MessageId, ShardId, Tenant};
use waybill_core::message::Message;
use waybill_core::port::saga_store::SagaTable;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::DoorGroup;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::records::{BrokenSaga, SagaCommit, SagaRow, SagaWrite};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, RecordIdKey, Transaction, bytes, object};

use super::place;
use crate::codec::saga::{Ended, encode_ended, encode_journal};
use crate::fault::store_error;
use crate::owner::read;
use crate::quarantine::{SetAside, Spoilt, read_for_quarantine, set_aside};
use crate::rows::{encoded, saga as rows, saga_small, tx_event};
use crate::store::{SurrealStore, finish};
use crate::streams::Joint;
use crate::tables::{
    SAGA, SAGA_DEAD, SAGA_DONE, SAGA_DOOR, SAGA_ENDED, SAGA_JOURNAL, SAGA_SHARD, SAGA_START, SAGA_TREE, TX_EVENT,
    beat_key, saga_dead_key, saga_door_key, saga_ended_key, saga_key, saga_start_key, saga_tree_key, shard_key,
};
use crate::transact::{DoorGroupAt, door_rows, put_door_rows};

/// Journal records removed in one commit at most: what is left goes with the next ones.
const SWEEP_MAX: u64 = 256;

/// Rows of a doorstep in which repeats are looked for.
const DOOR_ROWS_MAX: usize = 1_000;

/// One change of one record.
enum Change {
    Put(&'static str, RecordIdKey, Object),
    Delete(&'static str, RecordIdKey),
    /// Of a row that an earlier commit has written; with its start if the commit says it.
    DeleteOpen(SagaKey, Option<UnixMillis>),
}

#[derive(Default)]
struct Changes {
    list: Vec<Change>,
    ended: Vec<Ended>,
    /// Rows of this commit: it may remove them again.
    open: HashMap<SagaKey, UnixMillis>,
    /// When those began that end in this commit.
    ending: HashMap<SagaKey, UnixMillis>,
    /// Sagas to set aside, with what the journal holds of them.
    aside: Vec<(Arc<BrokenSaga>, Vec<u8>)>,
}

pub async fn commit(store: &SurrealStore, commit: &SagaCommit) -> Result<(), StoreError> {
    if commit.record.beat != commit.expect_beat + 1 {
        return Err(StoreError::Other("a commit of sagas has to raise the beat by one".into()));
    }
    let changes = changes_of(commit)?;
    let doors = door_rows(&commit.messages)?;
    let transaction = store.begin(true).await?;
    let mut spoilt = Spoilt::default();
    let worked = guarded(store, transaction.as_ref(), commit, (changes, doors), &mut spoilt).await;
    let done = finish(transaction, worked).await;
    store.set_aside(spoilt).await;
    done
}

fn changes_of(commit: &SagaCommit) -> Result<Changes, StoreError> {
    let shard = commit.shard;
    let mut changes = Changes::default();
    if !commit.journal.is_empty() {
        let data = encoded(encode_journal(&commit.journal))?;
        let fields = object([("data", bytes(data))]);
        changes.list.push(Change::Put(SAGA_JOURNAL, beat_key(shard, commit.record.beat), fields));
    }
    for write in &commit.writes {
        if let SagaWrite::PutDone(row) = write {
            changes.ending.insert(row.summary.key.clone(), row.summary.started_at);
        }
    }
    for write in &commit.writes {
        changes.add(shard, write)?;
    }
    let door = commit.door.iter().map(|key| Change::Delete(SAGA_DOOR, saga_door_key(shard, key)));
    changes.list.extend(door);
    changes.ended.sort();
    if let Some(first) = changes.ended.first() {
        let key = saga_ended_key(first.at, shard, commit.record.beat);
        let fields = object([("data", bytes(encoded(encode_ended(&changes.ended))?))]);
        changes.list.push(Change::Put(SAGA_ENDED, key, fields));
    }
    Ok(changes)
}

impl Changes {
    fn add(&mut self, shard: ShardId, write: &SagaWrite) -> Result<(), StoreError> {
        match write {
            SagaWrite::PutRow(row) => {
                self.open.insert(row.summary.key.clone(), row.summary.started_at);
                let apart = self.put(shard, SAGA, row)?;
                if !apart {
                    // An earlier row of it may have been larger.
                    let tree = saga_tree_key(shard, row.summary.started_at, &row.summary.key, false);
                    self.list.push(Change::Delete(SAGA_TREE, tree));
                }
            }
            SagaWrite::DeleteRow(key) => match self.open.remove(key) {
                Some(started) => {
                    self.list.push(Change::Delete(SAGA, saga_key(shard, started, key)));
                    self.list.push(Change::Delete(SAGA_TREE, saga_tree_key(shard, started, key, false)));
                    self.list.push(Change::Delete(SAGA_START, saga_start_key(shard, key, false)));
                }
                None => self.list.push(Change::DeleteOpen(key.clone(), self.ending.get(key).copied())),
            },
            SagaWrite::PutDone(row) => {
                let apart = self.put(shard, SAGA_DONE, row)?;
                let summary = &row.summary;
                self.ended.push(Ended {
                    at: summary.ended_at.unwrap_or(summary.updated_at),
                    started_at: summary.started_at,
                    key: summary.key.clone(),
                    apart,
                    put_off: false,
                });
            }
            SagaWrite::PutDead(dead) => {
                let key = saga_dead_key(shard, &dead.key);
                self.list.push(Change::Put(SAGA_DEAD, key, saga_small::of_dead(dead)));
            }
            SagaWrite::DeleteDead(key) => self.list.push(Change::Delete(SAGA_DEAD, saga_dead_key(shard, key))),
            SagaWrite::PutTxEvents(record) => {
                self.list.push(Change::Put(TX_EVENT, tx_event::key_of(&record.key), tx_event::of_record(record)?));
            }
            SagaWrite::SetAside(broken) => {
                self.aside.push((Arc::clone(broken), encoded(encode_journal(&broken.entries))?));
            }
        }
        Ok(())
    }

    /// Writes a row; answers whether its tree lies apart.
    fn put(&mut self, shard: ShardId, table: &'static str, row: &SagaRow) -> Result<bool, StoreError> {
        let (key, started) = (&row.summary.key, row.summary.started_at);
        let done = table == SAGA_DONE;
        let encoded = rows::of_saga(row)?;
        self.list.push(Change::Put(table, saga_key(shard, started, key), encoded.row));
        if place::needs_start(&key.id, started) {
            let at = saga_start_key(shard, key, done);
            self.list.push(Change::Put(SAGA_START, at, place::of_start(started)));
        }
        let apart = encoded.tree.is_some();
        if let Some(tree) = encoded.tree {
            self.list.push(Change::Put(SAGA_TREE, saga_tree_key(shard, started, key, done), tree));
        }
        Ok(apart)
    }
}

async fn guarded(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    commit: &SagaCommit,
    (changes, doors): (Changes, Vec<(DoorGroupAt, Object)>),
    spoilt: &mut Spoilt,
) -> Result<(), StoreError> {
    let (stands, swept) = place::shard(transaction, commit.shard).await?;
    if (stands.token, stands.beat) != (commit.expect_token, commit.expect_beat) {
        return Err(StoreError::Conflict(format!(
            "the sagas of shard {} stand at token {} beat {}, the commit expected token {} beat {}",
            commit.shard, stands.token, stands.beat, commit.expect_token, commit.expect_beat
        )));
    }
    let doors = match new_messages(transaction, &commit.messages).await? {
        Some(new) => door_rows(&new)?,
        None => doors,
    };
    let mut aside: Vec<SetAside> = Vec::with_capacity(changes.aside.len());
    for (broken, journal) in changes.aside {
        aside.push(read_for_quarantine(transaction, commit.shard, &broken, journal).await?);
    }
    let changes = located(transaction, commit.shard, changes.list).await?;
    let events = Joint::decide_group(store, transaction, &commit.events, spoilt).await?;
    // All reads are done: from here on it is only written.
    let floor = commit.record.floor.min(swept.saturating_add(SWEEP_MAX)).max(swept);
    let record = saga_small::of_shard(&commit.record, floor);
    transaction.put(SAGA_SHARD, shard_key(commit.shard), record).await.map_err(store_error)?;
    for beat in swept..floor {
        transaction.delete(SAGA_JOURNAL, beat_key(commit.shard, beat)).await.map_err(store_error)?;
    }
    for change in changes {
        match change {
            Change::Put(table, key, fields) => transaction.put(table, key, fields).await,
            Change::Delete(table, key) => transaction.delete(table, key).await,
            Change::DeleteOpen(..) => Ok(()),
        }
        .map_err(store_error)?;
    }
    for saga in aside {
        set_aside(transaction, saga).await?;
    }
    events.write(store, transaction, &commit.events).await?;
    put_door_rows(store, transaction, doors).await
}

/// The changes with the rows found that they remove.
async fn located(transaction: &dyn Transaction, shard: ShardId, list: Vec<Change>) -> Result<Vec<Change>, StoreError> {
    if !list.iter().any(|change| matches!(change, Change::DeleteOpen(..))) {
        return Ok(list);
    }
    let mut changes = Vec::with_capacity(list.len());
    for change in list {
        let Change::DeleteOpen(key, ending) = change else {
            changes.push(change);
            continue;
        };
        let found = match place::find(transaction, SagaTable::Open, shard, &key).await {
            // Its row lies in quarantine, or what says when it began does: the marker stays, and the row goes if it is there.
            Err(StoreError::Corrupt(_)) => {
                if let Some(started) = ending {
                    changes.push(Change::Delete(SAGA, saga_key(shard, started, &key)));
                    changes.push(Change::Delete(SAGA_TREE, saga_tree_key(shard, started, &key, false)));
                }
                continue;
            }
            found => found?,
        };
        if let Some((started, row)) = found {
            changes.push(Change::Delete(SAGA, row.key));
            if rows::tree_bytes(&row.fields).is_none() {
                changes.push(Change::Delete(SAGA_TREE, saga_tree_key(shard, started, &key, false)));
            }
            if place::needs_start(&key.id, started) {
                changes.push(Change::Delete(SAGA_START, saga_start_key(shard, &key, false)));
            }
        }
    }
    Ok(changes)
}

/// The messages without those whose ids are taken, by a message in the order or on the doorstep: they are repeats of one step.
/// None when all are new.
async fn new_messages(
    transaction: &dyn Transaction,
    groups: &[DoorGroup],
) -> Result<Option<Vec<DoorGroup>>, StoreError> {
    let mut left_out = false;
    let mut new = Vec::with_capacity(groups.len());
    for group in groups {
        let waiting = match group.messages.iter().any(|message| message.caller_id) {
            true => waiting(transaction, group.shard).await?,
            false => HashSet::new(),
        };
        let mut messages = Vec::with_capacity(group.messages.len());
        for message in &group.messages {
            let taken = message.caller_id
                && (waiting.contains(&(message.tenant.clone(), message.id.clone()))
                    || is_known(transaction, message).await?);
            left_out |= taken;
            if !taken {
                messages.push(Arc::clone(message));
            }
        }
        if !messages.is_empty() {
            new.push(DoorGroup { shard: group.shard, messages });
        }
    }
    Ok(left_out.then_some(new))
}

/// Whether a message with this id was numbered. A row that can't be read doesn't say so: the shard's owner refuses the id then,
/// as a dead letter that somebody sees.
async fn is_known(transaction: &dyn Transaction, message: &Message) -> Result<bool, StoreError> {
    match read::id(transaction, &message.tenant, &message.id).await {
        Ok(found) => Ok(found.is_some()),
        Err(StoreError::Corrupt(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ids on a doorstep. It is drained all the time; of one that is not, only the first rows are looked at, and the shard's owner
/// sorts repeats out when it numbers them.
async fn waiting(transaction: &dyn Transaction, shard: ShardId) -> Result<HashSet<(Tenant, MessageId)>, StoreError> {
    // Its owner moves what can't be read.
    let mut spoilt = Spoilt::default();
    let rows = read::door(transaction, shard, (0, u64::MAX), None, DOOR_ROWS_MAX, &mut spoilt).await?;
    let messages = rows.into_iter().filter_map(|row| row.content.ok()).flatten().filter(|message| message.caller_id);
    Ok(messages.map(|message| (message.tenant.clone(), message.id.clone())).collect())
}
