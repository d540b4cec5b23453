//! Keys of sagas' records.

use waybill_core::ids::ShardId;
use waybill_core::port::inbox_store::SagaDoorKey;
use waybill_core::saga::id::SagaKey;
use waybill_core::time::UnixMillis;
use waybill_surreal::{RecordIdKey, array, int, key, text};

use super::{number, part, parts, shard_value};

/// `[shard, started, tenant, id]`.
pub fn saga_key(shard: ShardId, started: UnixMillis, of: &SagaKey) -> RecordIdKey {
    key([shard_value(shard), number(started.0), text(of.tenant.as_str()), text(of.id.as_str())])
}

/// `[shard, started]`: before all sagas that began then.
pub fn saga_start_of(shard: ShardId, started: UnixMillis) -> RecordIdKey {
    key([shard_value(shard), number(started.0)])
}

/// `[shard, started, tenant, id, ended]`.
pub fn saga_tree_key(shard: ShardId, started: UnixMillis, of: &SagaKey, ended: bool) -> RecordIdKey {
    let (tenant, id) = (text(of.tenant.as_str()), text(of.id.as_str()));
    key([shard_value(shard), number(started.0), tenant, id, int(i64::from(ended))])
}

/// `[shard, tenant, id, ended]`.
pub fn saga_start_key(shard: ShardId, of: &SagaKey, ended: bool) -> RecordIdKey {
    key([shard_value(shard), text(of.tenant.as_str()), text(of.id.as_str()), int(i64::from(ended))])
}

pub fn saga_ended_key(first: UnixMillis, shard: ShardId, beat: u64) -> RecordIdKey {
    key([number(first.0), shard_value(shard), number(beat)])
}

pub fn saga_dead_key(shard: ShardId, of: &SagaKey) -> RecordIdKey {
    key([shard_value(shard), text(of.tenant.as_str()), text(of.id.as_str())])
}

/// `[shard, shard of the inbox, beat, number]`.
pub fn saga_door_key(shard: ShardId, of: &SagaDoorKey) -> RecordIdKey {
    key([shard_value(shard), shard_value(of.from), number(of.beat), int(i64::from(of.number))])
}

/// What a [`saga_door_key`] says.
pub fn saga_door(of: &RecordIdKey) -> Option<SagaDoorKey> {
    if parts(of).len() != 4 {
        return None;
    }
    let from = part(of, 1).and_then(|number| u16::try_from(number).ok()).map(ShardId)?;
    Some(SagaDoorKey { from, beat: part(of, 2)?, number: u32::try_from(part(of, 3)?).ok()? })
}

/// The first part of the keys of [`META`](super::META) under which marks of dropped sagas lie.
const DROPPED: &str = "saga_dropped";

/// `["saga_dropped", shard, tenant, id]`, in [`META`](super::META): the mark of a saga that was dropped from quarantine.
pub fn saga_dropped_key(shard: ShardId, of: &SagaKey) -> RecordIdKey {
    key([text(DROPPED), shard_value(shard), text(of.tenant.as_str()), text(of.id.as_str())])
}

/// Before all those marks.
pub fn dropped_start() -> RecordIdKey {
    key([text(DROPPED)])
}

/// Behind all those marks: lists come behind numbers.
pub fn dropped_end() -> RecordIdKey {
    key([text(DROPPED), array([])])
}

pub fn definition_key(name: &str, version: u32) -> RecordIdKey {
    key([text(name), int(-i64::from(version))])
}

/// The shard in a key of [`SAGA_ENDED`](super::SAGA_ENDED).
pub fn part_ended_shard(key: &RecordIdKey) -> Option<ShardId> {
    part(key, 1).and_then(|number| u16::try_from(number).ok()).map(ShardId)
}
