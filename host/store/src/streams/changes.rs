//! What a commit of streams changes, encoded before its transaction begins, so that its snapshot is young and it is open for microseconds.

use std::time::{SystemTime, UNIX_EPOCH};

use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_core::streams::records::StreamWrite;
use waybill_surreal::{Bound, Object, RecordIdKey, Transaction};

use super::door;
use super::ids::Recorded;
use super::keys::{
    blob_key, checkpoint_key, chunk_key, dead_key, due_key, event_id_key, feed_key, overtaken_key, resource_key,
    selected_key, stream_key,
};
use crate::fault::store_error;
use crate::quarantine::put;
use crate::rows::{streams as rows, tx_event};
use crate::store::SurrealStore;
use crate::tables::{
    EVENT, EVENT_BLOB, EVENT_ID, EVENT_ID_DUE, EVENT_RESOURCE, RELAY_AT, RELAY_OVERTAKEN, STREAM, STREAM_DEAD,
    STREAM_DOOR, STREAM_DUE, STREAM_FEED, STREAM_NODE, STREAM_REST, STREAM_TYPE, TX_EVENT, door_key,
};

/// Feed records removed at once.
const FEED_PAGE: usize = 500;

/// One change of one record, or of what is only known in the transaction.
enum Change {
    Put(&'static str, RecordIdKey, Object),
    Create(&'static str, RecordIdKey, Object),
    Delete(&'static str, RecordIdKey),
    TrimFeed(u64),
    QuarantineDoor(RecordIdKey, String),
}

/// What one commit changes.
pub struct Changes {
    shard: ShardId,
    list: Vec<Change>,
    recorded: Recorded,
    /// Rows for doorsteps, which are stamped last.
    doors: Vec<(ShardId, Object)>,
}

impl Changes {
    /// Of a commit that raises the shard's beat to this one. Without an owner there are no writes that depend on the two.
    pub fn of(shard: ShardId, beat: u64, writes: &[StreamWrite]) -> Result<Self, StoreError> {
        let mut changes =
            Self { shard, list: Vec::with_capacity(writes.len()), recorded: Recorded::default(), doors: Vec::new() };
        let mut dead = 0;
        for write in writes {
            changes.add(beat, &mut dead, write)?;
        }
        let due = changes.recorded.rows().map(|(key, fields)| Change::Put(EVENT_ID_DUE, key, fields));
        changes.list.extend(due);
        Ok(changes)
    }

    fn add(&mut self, beat: u64, dead: &mut u32, write: &StreamWrite) -> Result<(), StoreError> {
        self.list.push(match write {
            StreamWrite::PutHead { stream, head } => Change::Put(STREAM, stream_key(stream), rows::of_head(head)),
            StreamWrite::PutRest { stream, rest } => Change::Put(STREAM_REST, stream_key(stream), rows::of_rest(rest)),
            StreamWrite::PutChunk { stream, key, chunk } => {
                Change::Put(EVENT, chunk_key(stream, *key), rows::of_chunk(chunk))
            }
            StreamWrite::DeleteChunk { stream, key } => Change::Delete(EVENT, chunk_key(stream, *key)),
            StreamWrite::PutBlob { stream, seq, payload } => {
                Change::Put(EVENT_BLOB, blob_key(stream, *seq), rows::of_blob(payload))
            }
            StreamWrite::DeleteBlob { stream, seq } => Change::Delete(EVENT_BLOB, blob_key(stream, *seq)),
            StreamWrite::CreateId { id, record } => {
                self.recorded.add(id, record.at);
                Change::Create(EVENT_ID, event_id_key(id), rows::of_event_id(record))
            }
            StreamWrite::PutFeed(record) => {
                Change::Put(STREAM_FEED, feed_key(self.shard, record.pos), rows::of_feed(record)?)
            }
            StreamWrite::TrimFeed(pos) => Change::TrimFeed(*pos),
            StreamWrite::PutDoor { shard, content } => {
                self.doors.push((*shard, rows::of_door(content)?));
                return Ok(());
            }
            StreamWrite::DeleteDoor(stamp) => Change::Delete(STREAM_DOOR, door_key(self.shard, stamp)),
            StreamWrite::QuarantineDoor { key, reason } => {
                Change::QuarantineDoor(door_key(self.shard, key), reason.clone())
            }
            StreamWrite::PutDead(letter) => {
                let key = dead_key(self.shard, beat, *dead);
                *dead = dead.saturating_add(1);
                Change::Put(STREAM_DEAD, key, rows::of_dead(letter, now_millis())?)
            }
            StreamWrite::PutTxEvents(record) => {
                Change::Put(TX_EVENT, tx_event::key_of(&record.key), tx_event::of_record(record)?)
            }
            StreamWrite::PutNode { stream, node } => {
                Change::Put(STREAM_NODE, selected_key(stream, node), Object::default())
            }
            StreamWrite::PutType { stream, resource_type } => {
                Change::Put(STREAM_TYPE, selected_key(stream, resource_type), Object::default())
            }
            StreamWrite::PutResource { stream, resource, seq } => {
                Change::Put(EVENT_RESOURCE, resource_key(stream, resource, *seq), Object::default())
            }
            StreamWrite::DeleteResource { stream, resource, seq } => {
                Change::Delete(EVENT_RESOURCE, resource_key(stream, resource, *seq))
            }
            StreamWrite::PutDue { shard, at, stream } => {
                Change::Put(STREAM_DUE, due_key(*shard, *at, stream), Object::default())
            }
            StreamWrite::DeleteDue { shard, at, stream } => Change::Delete(STREAM_DUE, due_key(*shard, *at, stream)),
            StreamWrite::PutCheckpoint { relay, stream, checkpoint } => {
                Change::Put(RELAY_AT, checkpoint_key(relay, stream), rows::of_checkpoint(checkpoint)?)
            }
            StreamWrite::NoteOvertaken { relay, stream, from, to } => {
                Change::Put(RELAY_OVERTAKEN, overtaken_key(relay, stream, *from), rows::of_overtaken(*to, now_millis()))
            }
        });
        Ok(())
    }

    /// Up to where the commit trims the feed of its shard.
    pub fn trims_feed_to(&self) -> Option<u64> {
        let trims = self.list.iter().filter_map(|change| match change {
            Change::TrimFeed(pos) => Some(*pos),
            _ => None,
        });
        trims.max()
    }

    /// Writes all of it.
    pub async fn apply(self, store: &SurrealStore, transaction: &dyn Transaction) -> Result<(), StoreError> {
        for change in self.list {
            let done = match change {
                Change::Put(table, key, fields) => transaction.put(table, key, fields).await,
                Change::Create(table, key, fields) => transaction.create(table, key, fields).await,
                Change::Delete(table, key) => transaction.delete(table, key).await,
                Change::TrimFeed(pos) => {
                    trim_feed(store, transaction, self.shard, pos).await?;
                    Ok(())
                }
                Change::QuarantineDoor(key, reason) => {
                    quarantine(transaction, key, &reason).await?;
                    Ok(())
                }
            };
            done.map_err(store_error)?;
        }
        door::put(store, transaction, self.doors).await
    }
}

/// Removes the feed records of a shard up to one, from where the trim before ended.
async fn trim_feed(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    shard: ShardId,
    upto: u64,
) -> Result<(), StoreError> {
    let mut from = Bound::Included(feed_key(shard, store.feed_fronts().begin(shard)));
    let until = Bound::Included(feed_key(shard, upto));
    loop {
        let rows = transaction.scan(STREAM_FEED, from, until.clone(), FEED_PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(()) };
        from = Bound::Excluded(last.key.clone());
        for row in rows {
            transaction.delete(STREAM_FEED, row.key).await.map_err(store_error)?;
        }
    }
}

async fn quarantine(transaction: &dyn Transaction, key: RecordIdKey, reason: &str) -> Result<(), StoreError> {
    match transaction.get(STREAM_DOOR, key.clone()).await.map_err(store_error)? {
        Some(row) => put(transaction, STREAM_DOOR, &key, row, None, reason).await,
        // Somebody else who met it was first.
        None => Ok(()),
    }
}

fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
