//! The commit of a shard's inbox: one transaction, guarded by the shard record as the outbox owner's is. Everything is encoded before it
//! begins.

use waybill_core::ids::ShardId;
use waybill_core::inbox::records::{InboxCommit, InboxWrite};
use waybill_core::port::inbox_store::SagaDoorKey;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Object, RecordIdKey, Transaction, bytes, object};

use super::done;
use super::seen::bucket::{BucketKey, Part, slot};
use super::seen::{by_bucket, records};
use crate::codec::inbox::seen::SeenIds;
use crate::codec::inbox::{encode_saga_door, encode_takes};
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::rows::{encoded, inbox as rows, tx_event};
use crate::store::{SurrealStore, finish};
use crate::streams::Joint;
use crate::tables::{
    INBOX, INBOX_DATA, INBOX_DEAD, INBOX_DONE, INBOX_SEEN, INBOX_SEEN_DUE, INBOX_SHARD, INBOX_TAKEN, META, SAGA_DOOR,
    TX_EVENT, beat_key, inbox_secret_key, saga_door_key, seq_key, shard_key, unsigned,
};
use crate::transact::{DoorGroupAt, door_rows, put_door_rows};

/// One change of one record.
enum Change {
    Put(&'static str, RecordIdKey, Object),
    Delete(&'static str, RecordIdKey),
}

/// What a commit writes.
struct Changes {
    record: Object,
    list: Vec<Change>,
    doors: Vec<(DoorGroupAt, Object)>,
}

pub async fn commit(store: &SurrealStore, commit: &InboxCommit) -> Result<(), StoreError> {
    if commit.record.beat != commit.expect_beat + 1 {
        return Err(StoreError::Other("a commit of an inbox has to raise the beat by one".into()));
    }
    let seen = by_bucket(&commit.seen, commit.record.age);
    let changes = changes_of(store, commit, &seen)?;
    let pending = store.seen_memory().begin(commit.shard);
    let done = write(store, commit, changes).await;
    match &done {
        Ok(()) => {
            let record = &commit.record;
            pending.committed(commit.expect_beat, record.beat, record.age, &seen);
        }
        // Proved not to be in. What is remembered of a shard that another writer has taken is of no use, and of no harm.
        Err(StoreError::Conflict(_) | StoreError::TooLarge | StoreError::Appends(_)) => pending.refused(),
        // It may be in: what is remembered is forgotten.
        Err(_) => drop(pending),
    }
    done
}

async fn write(store: &SurrealStore, commit: &InboxCommit, changes: Changes) -> Result<(), StoreError> {
    let transaction = store.begin(true).await?;
    let mut spoilt = Spoilt::default();
    let worked = guarded(store, transaction.as_ref(), commit, changes, &mut spoilt).await;
    let done = finish(transaction, worked).await;
    store.set_aside(spoilt).await;
    done
}

async fn guarded(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    commit: &InboxCommit,
    changes: Changes,
    spoilt: &mut Spoilt,
) -> Result<(), StoreError> {
    let shard = commit.shard;
    let stored = transaction.get(INBOX_SHARD, shard_key(shard)).await.map_err(store_error)?;
    let stands = match &stored {
        Some(fields) => unsigned(fields.get("token"))
            .zip(unsigned(fields.get("beat")))
            .ok_or_else(|| StoreError::Corrupt(format!("{INBOX_SHARD}:{shard} has no token and beat")))?,
        None => (0, 0),
    };
    if stands != (commit.expect_token, commit.expect_beat) {
        return Err(StoreError::Conflict(format!(
            "the inbox of shard {shard} stands at token {} beat {}, the commit expected token {} beat {}",
            stands.0, stands.1, commit.expect_token, commit.expect_beat
        )));
    }
    if stored.as_ref().and_then(|fields| unsigned(fields.get("age"))).is_some_and(|age| commit.record.age.0 < age) {
        return Err(StoreError::Other("a commit of an inbox never lowers the age of its shard".into()));
    }
    let events = Joint::decide_group(store, transaction, &commit.events, spoilt).await?;
    transaction.put(INBOX_SHARD, shard_key(shard), changes.record).await.map_err(store_error)?;
    if stored.as_ref().and_then(rows::secret) != Some(commit.record.secret) {
        // Kept a second time: without it the whole seen set would be of no use.
        let secret = rows::of_secret(commit.record.secret);
        transaction.put(META, inbox_secret_key(shard), secret).await.map_err(store_error)?;
    }
    for change in changes.list {
        match change {
            Change::Put(table, key, fields) => transaction.put(table, key, fields).await,
            Change::Delete(table, key) => transaction.delete(table, key).await,
        }
        .map_err(store_error)?;
    }
    events.write(store, transaction, &commit.events).await?;
    put_door_rows(store, transaction, changes.doors).await
}

fn changes_of(
    store: &SurrealStore,
    commit: &InboxCommit,
    seen: &[(BucketKey, SeenIds)],
) -> Result<Changes, StoreError> {
    let (shard, record) = (commit.shard, &commit.record);
    let mut changes = Vec::with_capacity(commit.writes.len() + 4);
    for write in &commit.writes {
        change_of(shard, write, &mut changes)?;
    }
    for (bucket, ids) in seen {
        let key = bucket.record(shard, Part::Added(record.beat));
        changes.push(Change::Put(INBOX_SEEN, key, records::of_added(ids)?));
    }
    for bucket in store.seen_memory().not_noted(shard, record.age, seen.iter().map(|(bucket, _)| bucket)) {
        changes.push(Change::Put(INBOX_SEEN_DUE, bucket.due(shard, false, slot(record.age)), Object::default()));
    }
    if !commit.done.is_empty() {
        changes.push(Change::Put(INBOX_DONE, beat_key(shard, record.beat), done::of_done(&commit.done, record.age)?));
    }
    let mut number = 0_u32;
    for group in &commit.sagas {
        for item in &group.items {
            let key = SagaDoorKey { from: shard, beat: record.beat, number };
            let fields = object([("data", bytes(encoded(encode_saga_door(item))?))]);
            changes.push(Change::Put(SAGA_DOOR, saga_door_key(group.shard, &key), fields));
            number = number.saturating_add(1);
        }
    }
    Ok(Changes { record: rows::of_shard(record)?, list: changes, doors: door_rows(&commit.messages)? })
}

fn change_of(shard: ShardId, write: &InboxWrite, changes: &mut Vec<Change>) -> Result<(), StoreError> {
    match write {
        InboxWrite::PutTakes(takes) => {
            let fields = object([("data", bytes(encoded(encode_takes(takes))?))]);
            changes.push(Change::Put(INBOX_TAKEN, beat_key(shard, takes.beat), fields));
        }
        InboxWrite::DeleteTakes(beat) => changes.push(Change::Delete(INBOX_TAKEN, beat_key(shard, *beat))),
        InboxWrite::PutRow(row) => {
            let key = seq_key(shard, row.seq);
            let records = rows::of_row(row)?;
            // A row's message never changes, so one that lies in its row never lay apart.
            if let Some(data) = records.data {
                changes.push(Change::Put(INBOX_DATA, key.clone(), data));
            }
            changes.push(Change::Put(INBOX, key, records.row));
        }
        InboxWrite::DeleteRow(seq) => {
            changes.push(Change::Delete(INBOX, seq_key(shard, *seq)));
            changes.push(Change::Delete(INBOX_DATA, seq_key(shard, *seq)));
        }
        InboxWrite::PutDead(dead) => {
            changes.push(Change::Put(INBOX_DEAD, seq_key(shard, dead.seq), rows::of_dead(dead)?));
        }
        InboxWrite::DeleteDead(seq) => changes.push(Change::Delete(INBOX_DEAD, seq_key(shard, *seq))),
        InboxWrite::PutTxEvents(record) => {
            changes.push(Change::Put(TX_EVENT, tx_event::key_of(&record.key), tx_event::of_record(record)?));
        }
    }
    Ok(())
}
