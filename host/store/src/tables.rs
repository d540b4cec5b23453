//! Names of Waybill's tables, and the keys of their records.

use waybill_core::ids::{MessageId, Seq, ShardId, Tenant};
use waybill_core::outbox::records::DoorKey;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Number, RecordIdKey, Value, int, key, text};

/// A segment: `[shard, first]`. Small ones hold their data, larger ones have it in [`DATA`].
pub const OUTBOX: &str = "outbox";
/// Data of a segment too large to lie in the directory: `[shard, first]`.
pub const DATA: &str = "outbox_data";
/// The doorstep: `[shard, nanos, ordinal, ulid]`.
pub const DOOR: &str = "outbox_door";
/// Ownership, order and claims: `shard`.
pub const SHARD: &str = "outbox_shard";
/// Failed heads: `[shard, seq]`.
pub const PARKED: &str = "parked";
/// Messages whose time hasn't come: `[shard, due, id]`.
pub const SCHEDULED: &str = "scheduled";
/// Dead letters: `[shard, seq]`.
pub const DEAD: &str = "dead_letters";
/// Finished messages: `[shard, segment, beat]`.
pub const DONE: &str = "outbox_done";
/// The id index: `[tenant, id]`.
pub const ID: &str = "outbox_id";
/// Large payloads: name.
pub const BLOB: &str = "outbox_blob";
/// What was delivered where, by payload: `[tenant, transport, target, sha256]`.
pub const DEDUP: &str = "outbox_dedup";
/// The same by the end of their windows: `[until, tenant, transport, target, sha256]`.
pub const DEDUP_DUE: &str = "outbox_dedup_due";
/// Segments that can't be decoded: `[shard, first]`.
pub const QUARANTINE: &str = "outbox_quarantine";
/// Bulk acts: ULID.
pub const OPERATIONS: &str = "waybill_operation";
/// Audit trail: `[millis, ulid]`.
pub const AUDIT: &str = "waybill_audit";
/// State of plugins: `[scope, key]`.
pub const KV: &str = "plugin_kv";
/// What one scope of [`KV`] holds: `scope`. Every write of the scope writes it, so that two can't overdraw the quota.
pub const KV_SCOPE: &str = "plugin_kv_scope";
/// Settings for `fn::waybill::enqueue`: `limits`.
pub const META: &str = "waybill_meta";
/// Migrations: number.
pub const MIGRATION: &str = "waybill_migration";

/// All of them: no caller's statement may touch one.
pub const OWN: [&str; 19] = [
    OUTBOX, DATA, DOOR, SHARD, PARKED, SCHEDULED, DEAD, DONE, ID, BLOB, DEDUP, DEDUP_DUE, QUARANTINE, OPERATIONS,
    AUDIT, KV, KV_SCOPE, META, MIGRATION,
];

/// A number of the domain as the database's signed integer. Orders are kept; what is past the end is the end.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// [`signed`] as a value.
pub fn number(number: u64) -> Value {
    int(signed(number))
}

/// The inverse of [`signed`].
pub fn unsigned(value: Option<&Value>) -> Option<u64> {
    u64::try_from(waybill_surreal::int_of(value)?).ok()
}

fn shard_value(shard: ShardId) -> Value {
    int(i64::from(shard.0))
}

/// `shard`.
pub fn shard_key(shard: ShardId) -> RecordIdKey {
    RecordIdKey::Number(i64::from(shard.0))
}

/// `[shard, seq]`.
pub fn seq_key(shard: ShardId, seq: Seq) -> RecordIdKey {
    key([shard_value(shard), number(seq.0)])
}

/// `[shard]`: before all keys of the shard.
pub fn shard_start(shard: ShardId) -> RecordIdKey {
    key([shard_value(shard)])
}

/// `[shard + 1]`: behind all keys of the shard.
pub fn shard_end(shard: ShardId) -> RecordIdKey {
    key([int(i64::from(shard.0) + 1)])
}

/// `[shard, due, id]`.
pub fn scheduled_key(shard: ShardId, due: UnixMillis, id: &MessageId) -> RecordIdKey {
    key([shard_value(shard), number(due.0), text(id.as_str())])
}

/// `[shard, nanos, ordinal, ulid]`.
pub fn door_key(shard: ShardId, stamp: &DoorKey) -> RecordIdKey {
    key([shard_value(shard), number(stamp.nanos), int(i64::from(stamp.ordinal)), text(&stamp.ulid)])
}

/// `[shard, nanos]`: before all rows of that stamp.
pub fn door_start(shard: ShardId, nanos: u64) -> RecordIdKey {
    key([shard_value(shard), number(nanos)])
}

/// `[shard, segment, beat]`.
pub fn history_key(shard: ShardId, segment: Seq, beat: u64) -> RecordIdKey {
    key([shard_value(shard), number(segment.0), number(beat)])
}

/// `[tenant, id]`.
pub fn id_key(tenant: &Tenant, id: &MessageId) -> RecordIdKey {
    key([text(tenant.as_str()), text(id.as_str())])
}

/// The parts of a key made of parts.
pub fn parts(key: &RecordIdKey) -> &[Value] {
    match key {
        RecordIdKey::Array(parts) => &parts.0,
        _ => &[],
    }
}

/// The `at`-th part as a number.
pub fn part(key: &RecordIdKey, at: usize) -> Option<u64> {
    match parts(key).get(at) {
        Some(Value::Number(Number::Int(number))) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// The `at`-th part as a text.
pub fn part_text(key: &RecordIdKey, at: usize) -> Option<&str> {
    waybill_surreal::text_of(parts(key).get(at))
}

/// The shard a key begins with.
pub fn part_shard(key: &RecordIdKey) -> Option<ShardId> {
    part(key, 0).and_then(|number| u16::try_from(number).ok()).map(ShardId)
}
