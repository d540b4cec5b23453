//! Names of Waybill's tables, and the keys of their records.

use waybill_core::ids::{MessageId, Seq, ShardId, SourceName, Tenant};
use waybill_core::outbox::records::{DoorKey, HistoryKey};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Number, RecordIdKey, Value, int, key, text};

mod sagas;

pub use sagas::*;

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
/// The same by the time of their writing: `[shard, at, segment, beat]`.
pub const DONE_DUE: &str = "outbox_done_due";
/// The id index: `[tenant, id]`.
pub const ID: &str = "outbox_id";
/// Ids that outlived their history: `[until, tenant, id]`.
pub const ID_DUE: &str = "outbox_id_due";
pub const BLOB: &str = "outbox_blob";
/// Messages by what they hold, as `[[index]]` asks for: `[field, value, tenant, shard, segment, index]`.
pub const INDEX: &str = "outbox_index";
/// Which indexes a shard has, and since when: `shard`.
pub const INDEX_SHARD: &str = "outbox_index_shard";
/// What was delivered where, by payload: `[tenant, transport, target, sha256]`.
pub const DEDUP: &str = "outbox_dedup";
/// The same by the end of their windows: `[until, tenant, transport, target, sha256]`.
pub const DEDUP_DUE: &str = "outbox_dedup_due";
/// Idempotency keys: `[tenant, key]`.
pub const IDEMPOTENCY: &str = "idempotency";
/// The same by their end: `[until, tenant, key]`.
pub const IDEMPOTENCY_DUE: &str = "idempotency_due";
/// Rows of any table that can't be read: ULID.
pub const QUARANTINE: &str = "outbox_quarantine";
/// Who writes the sagas of a shard, and where its journal stands: `shard`.
pub const SAGA_SHARD: &str = "saga_shard";
/// What commits hold of running sagas: `[shard, beat]`.
pub const SAGA_JOURNAL: &str = "saga_journal";
/// Sagas that rest and haven't ended: `[shard, started, tenant, id]`.
pub const SAGA: &str = "saga";
/// Sagas that have ended: `[shard, started, tenant, id]`.
pub const SAGA_DONE: &str = "saga_done";
/// Trees too large to lie in their rows: `[shard, started, tenant, id, 0 or 1]`, 1 = ended.
pub const SAGA_TREE: &str = "saga_tree";
/// When those sagas began whose ids don't say it: `[shard, tenant, id, 0 or 1]`, 1 = ended.
pub const SAGA_START: &str = "saga_start";
/// What commits ended, by the first end: `[ended, shard, beat]`.
pub const SAGA_ENDED: &str = "saga_ended";
/// Stuck sagas: `[shard, tenant, id]`.
pub const SAGA_DEAD: &str = "saga_dead";
/// Definitions: `[name, -version]`, so that the latest version comes first.
pub const SAGA_DEFINITION: &str = "saga_definition";
/// The definition with a content: `hash`.
pub const SAGA_DEFINITION_HASH: &str = "saga_definition_hash";
/// Where earlier versions put journal records and rows of sagas that can't be read.
pub const SAGA_QUARANTINE: &str = "saga_quarantine";
/// Who writes the inbox of a shard, and what has to be known at once: `shard`.
pub const INBOX_SHARD: &str = "inbox_shard";
/// Messages that were taken before they are handled: `[shard, beat]`.
pub const INBOX_TAKEN: &str = "inbox_taken";
/// Stopped messages of the inbox: `[shard, seq]`. Small ones hold their message, larger ones have it in [`INBOX_DATA`].
pub const INBOX: &str = "inbox";
/// A stopped message too large to lie in its row: `[shard, seq]`.
pub const INBOX_DATA: &str = "inbox_data";
/// Dead letters of the inbox: `[shard, seq]`.
pub const INBOX_DEAD: &str = "inbox_dead";
/// What commits finished in the inbox: `[shard, beat]`.
pub const INBOX_DONE: &str = "inbox_done";
/// Ids that were finished: `[shard, consumer, form, text, number, part, ...]`, see `inbox/seen`.
pub const INBOX_SEEN: &str = "inbox_seen";
/// When a bucket of [`INBOX_SEEN`] is packed, and when it is over: `[shard, 0 or 1, slot, consumer, form, text, number]`, 1 = over.
pub const INBOX_SEEN_DUE: &str = "inbox_seen_due";
/// Where the sources of a consumer are at home: its name.
pub const INBOX_CONSUMER: &str = "inbox_consumer";
/// What the inbox left for sagas: `[shard, shard of the inbox, beat, number]`.
pub const SAGA_DOOR: &str = "saga_door";
/// Heads of event streams: `[tenant, stream]`.
pub const STREAM: &str = "stream";
/// What is kept of a stream, and up to where the feed names it: `[tenant, stream]`.
pub const STREAM_REST: &str = "stream_rest";
/// Chunks of events: `[tenant, stream, last]`.
pub const EVENT: &str = "event";
/// Payloads that lie beside their chunks: `[tenant, stream, seq]`.
pub const EVENT_BLOB: &str = "event_blob";
/// The doorstep of streams: `[shard, nanos, ordinal, ulid]`.
pub const STREAM_DOOR: &str = "stream_door";
/// Who numbers the streams of a shard, and where its feed ends: `shard`.
pub const STREAM_SHARD: &str = "stream_shard";
/// What each commit added to the streams of a shard: `[shard, pos]`.
pub const STREAM_FEED: &str = "stream_feed";
/// Ids of events that callers chose or that were derived: `[tenant, id]`.
pub const EVENT_ID: &str = "event_id";
/// Ids that one commit put into [`EVENT_ID`], of one tenant: `[millis, ulid]`.
pub const EVENT_ID_DUE: &str = "event_id_due";
/// Streams with events of a node: `[tenant, node, stream]`.
pub const STREAM_NODE: &str = "stream_node";
/// Streams with events of resources of a type: `[tenant, type, stream]`.
pub const STREAM_TYPE: &str = "stream_type";
/// In which sealed chunks a resource has events, by the last one there: `[tenant, type, id, stream, seq]`.
pub const EVENT_RESOURCE: &str = "event_resource";
/// When the age of a stream is looked at: `[shard, millis, tenant, stream]`.
pub const STREAM_DUE: &str = "stream_due";
/// Dead letters of streams: `[shard, beat, number]`.
pub const STREAM_DEAD: &str = "stream_dead";
/// How far a relay is in a stream: `[relay, tenant, stream]`.
pub const RELAY_AT: &str = "relay_at";
/// Ranges that retention took before a relay had them: `[relay, tenant, stream, from]`.
pub const RELAY_OVERTAKEN: &str = "relay_overtaken";
pub const OPERATIONS: &str = "waybill_operation";
/// API tokens that were made while a host ran: name.
pub const TOKEN: &str = "waybill_token";
/// Schedules, and where each stands: `[tenant, name]`.
pub const SCHEDULE: &str = "waybill_schedule";
/// The audit trail's acts of operators and hosts: `[millis, order, ulid]`.
pub const AUDIT: &str = "waybill_audit";
/// Its events of messages, sagas, received messages and dead letters of streams, those of one commit in a record: `[millis, shard,
/// subject, beat, part]`, the subject by its number ([`waybill_core::tx_event::TxSubject::number`]).
pub const TX_EVENT: &str = "waybill_tx_event";
/// State of plugins: `[scope, key]`.
pub const KV: &str = "plugin_kv";
/// What one scope of [`KV`] holds: `scope`. Every write of the scope writes it, so that two can't overdraw the quota.
pub const KV_SCOPE: &str = "plugin_kv_scope";
/// Settings for `fn::waybill::enqueue` and `fn::waybill::append`: `limits` and `event_limits`. What has to be known of the store as a whole, each
/// under its name.
pub const META: &str = "waybill_meta";
pub const MIGRATION: &str = "waybill_migration";

/// Where functions put what its owner takes: also those that a client calls in his own transaction, and events of his tables.
pub const DOORSTEPS: [&str; 2] = [DOOR, STREAM_DOOR];

/// All of them: no caller's statement may touch one.
pub const OWN: [&str; 65] = [
    OUTBOX,
    DATA,
    DOOR,
    SHARD,
    PARKED,
    SCHEDULED,
    DEAD,
    DONE,
    DONE_DUE,
    ID,
    ID_DUE,
    BLOB,
    INDEX,
    INDEX_SHARD,
    DEDUP,
    DEDUP_DUE,
    IDEMPOTENCY,
    IDEMPOTENCY_DUE,
    QUARANTINE,
    SAGA_SHARD,
    SAGA_JOURNAL,
    SAGA,
    SAGA_DONE,
    SAGA_TREE,
    SAGA_START,
    SAGA_ENDED,
    SAGA_DEAD,
    SAGA_DEFINITION,
    SAGA_DEFINITION_HASH,
    SAGA_QUARANTINE,
    INBOX_SHARD,
    INBOX_TAKEN,
    INBOX,
    INBOX_DATA,
    INBOX_DEAD,
    INBOX_DONE,
    INBOX_SEEN,
    INBOX_SEEN_DUE,
    INBOX_CONSUMER,
    SAGA_DOOR,
    STREAM,
    STREAM_REST,
    EVENT,
    EVENT_BLOB,
    STREAM_DOOR,
    STREAM_SHARD,
    STREAM_FEED,
    EVENT_ID,
    EVENT_ID_DUE,
    STREAM_NODE,
    STREAM_TYPE,
    EVENT_RESOURCE,
    STREAM_DUE,
    STREAM_DEAD,
    RELAY_AT,
    RELAY_OVERTAKEN,
    OPERATIONS,
    TOKEN,
    SCHEDULE,
    AUDIT,
    TX_EVENT,
    KV,
    KV_SCOPE,
    META,
    MIGRATION,
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

/// A shard as a part of a key.
pub fn shard_value(shard: ShardId) -> Value {
    int(i64::from(shard.0))
}

pub fn shard_key(shard: ShardId) -> RecordIdKey {
    RecordIdKey::Number(i64::from(shard.0))
}

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

pub fn scheduled_key(shard: ShardId, due: UnixMillis, id: &MessageId) -> RecordIdKey {
    key([shard_value(shard), number(due.0), text(id.as_str())])
}

/// `[shard, nanos, ordinal, ulid]`.
pub fn door_key(shard: ShardId, stamp: &DoorKey) -> RecordIdKey {
    key([shard_value(shard), number(stamp.nanos), int(i64::from(stamp.ordinal)), text(&stamp.ulid)])
}

/// The stamp in a [`door_key`]: a row under any other key could not be removed by its stamp.
pub fn door_stamp_in(of: &RecordIdKey) -> Option<DoorKey> {
    if parts(of).len() != 4 {
        return None;
    }
    let ordinal = u32::try_from(part(of, 2)?).ok()?;
    Some(DoorKey { nanos: part(of, 1)?, ordinal, ulid: part_text(of, 3)?.to_owned() })
}

/// `[shard, nanos]`: before all rows of that stamp.
pub fn door_start(shard: ShardId, nanos: u64) -> RecordIdKey {
    key([shard_value(shard), number(nanos)])
}

pub fn history_key(shard: ShardId, segment: Seq, beat: u64) -> RecordIdKey {
    key([shard_value(shard), number(segment.0), number(beat)])
}

/// `[shard, at, segment, beat]`.
pub fn history_due_key(shard: ShardId, of: &HistoryKey) -> RecordIdKey {
    key([shard_value(shard), number(of.at.0), number(of.segment.0), number(of.beat)])
}

/// What a [`history_due_key`] says.
pub fn history_due(of: &RecordIdKey) -> Option<HistoryKey> {
    Some(HistoryKey { at: UnixMillis(part(of, 1)?), segment: Seq(part(of, 2)?), beat: part(of, 3)? })
}

pub fn id_due_key(until: UnixMillis, tenant: &Tenant, id: &MessageId) -> RecordIdKey {
    key([number(until.0), text(tenant.as_str()), text(id.as_str())])
}

pub fn id_key(tenant: &Tenant, id: &MessageId) -> RecordIdKey {
    key([text(tenant.as_str()), text(id.as_str())])
}

/// `[shard, beat]`: what one commit wrote.
pub fn beat_key(shard: ShardId, beat: u64) -> RecordIdKey {
    key([shard_value(shard), number(beat)])
}

/// The first part of the keys of [`META`] under which the secrets of the inboxes' hashes lie.
const INBOX_SECRET: &str = "inbox_secret";

/// `["inbox_secret", shard]`, in [`META`].
pub fn inbox_secret_key(shard: ShardId) -> RecordIdKey {
    key([text(INBOX_SECRET), shard_value(shard)])
}

/// The first part of the keys of [`META`] under which what hosts know of tables lies.
const DIRECT: &str = "direct";

/// `["direct", host, source]`, in [`META`]: what a host knows of a table that it publishes directly.
pub fn direct_key(host: &str, source: &SourceName) -> RecordIdKey {
    key([text(DIRECT), text(host), text(source.as_str())])
}

/// The first part of the keys of [`META`] under which counts of bulk operations lie.
const FATES: &str = "fates";

/// `["fates", operation, shard]`, in [`META`]: what a shard counts of the messages that a bulk operation put back.
pub fn fates_key(operation: &str, shard: ShardId) -> RecordIdKey {
    key([text(FATES), text(operation), shard_value(shard)])
}

/// Before and behind all [`fates_key`]s of an operation.
pub fn fates_range(operation: &str) -> (RecordIdKey, RecordIdKey) {
    let behind = i64::from(u16::MAX) + 1;
    (key([text(FATES), text(operation)]), key([text(FATES), text(operation), int(behind)]))
}

/// Before all [`fates_key`]s, and before those of an operation.
pub fn fates_until(operation: &str) -> (RecordIdKey, RecordIdKey) {
    (key([text(FATES)]), key([text(FATES), text(operation)]))
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
