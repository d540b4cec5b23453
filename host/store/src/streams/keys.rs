//! Keys of streams, and the ranges that are read of them.
//!
//! Names hold letters, digits and `._:/-%`: a tilde is behind all of them, and texts lie in keys in the order of their bytes.

use ulid::Ulid;
use waybill_core::ids::{RelayName, ShardId, Tenant};
use waybill_core::streams::dead::StreamDeadPlace;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::records::{EventIdKey, Resource};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, RecordIdKey, array, int, key, text};

use crate::tables::{number, part, part_text, parts, shard_value};

/// Behind all that names may hold.
const BEHIND: &str = "~";

/// `[tenant, stream]`, of a head and of what is kept.
pub fn stream_key(stream: &StreamKey) -> RecordIdKey {
    key([text(stream.tenant.as_str()), text(stream.name.as_str())])
}

/// The stream that a [`stream_key`] names.
pub fn stream_in(of: &RecordIdKey) -> Option<StreamKey> {
    (parts(of).len() == 2).then(|| named_at(of, 0)).flatten()
}

/// The tenant at a place of a key, and the name behind it.
fn named_at(of: &RecordIdKey, at: usize) -> Option<StreamKey> {
    let tenant = Tenant::new(part_text(of, at)?).ok()?;
    Some(StreamKey { tenant, name: StreamName::new(part_text(of, at + 1)?).ok()? })
}

/// All streams of all tenants, behind one of them.
pub fn streams_behind(behind: Option<&StreamKey>) -> (Bound, Bound) {
    let from = behind.map_or_else(|| Bound::Included(key([text("")])), |stream| Bound::Excluded(stream_key(stream)));
    // Lists come behind texts.
    (from, Bound::Excluded(key([array([])])))
}

/// Streams of a tenant whose names begin with this, behind a name.
pub fn names_behind(tenant: &Tenant, prefix: &str, behind: Option<&StreamName>) -> (Bound, Bound) {
    let of = |name: &str| key([text(tenant.as_str()), text(name)]);
    let from = match behind.map(StreamName::as_str) {
        Some(behind) if behind >= prefix => Bound::Excluded(of(behind)),
        _ => Bound::Included(of(prefix)),
    };
    (from, Bound::Excluded(of(&format!("{prefix}{BEHIND}"))))
}

/// `[tenant, node or type, stream]`.
pub fn selected_key(stream: &StreamKey, by: &str) -> RecordIdKey {
    key([text(stream.tenant.as_str()), text(by), text(stream.name.as_str())])
}

/// The stream that a [`selected_key`] names.
pub fn selected_in(of: &RecordIdKey) -> Option<StreamName> {
    (parts(of).len() == 3).then(|| StreamName::new(part_text(of, 2)?).ok()).flatten()
}

/// Streams that a node or a type selects, behind a name.
pub fn selected_behind(tenant: &Tenant, by: &str, behind: Option<&StreamName>) -> (Bound, Bound) {
    let of = |name: &str| key([text(tenant.as_str()), text(by), text(name)]);
    let from = behind.map_or_else(|| Bound::Included(of("")), |behind| Bound::Excluded(of(behind.as_str())));
    (from, Bound::Excluded(of(BEHIND)))
}

/// `[tenant, type, id, stream, seq]`, of a resource's last event in a chunk.
pub fn resource_key(stream: &StreamKey, (resource_type, id): &Resource, seq: u64) -> RecordIdKey {
    let tenant = stream.tenant.as_str();
    key([text(tenant), text(resource_type), text(id), text(stream.name.as_str()), number(seq)])
}

/// The id and the number in a [`resource_key`].
pub fn resource_in(of: &RecordIdKey) -> Option<(&str, u64)> {
    (parts(of).len() == 5).then(|| Some((part_text(of, 2)?, part(of, 4)?))).flatten()
}

/// What the index has of resources of a type from this id on, and of all behind it.
pub fn ids_from(tenant: &Tenant, resource_type: &str, id: &str) -> (Bound, Bound) {
    let of = [text(tenant.as_str()), text(resource_type)];
    let [from, until] = [text(id), array([])].map(|end| key(of.clone().into_iter().chain([end])));
    // Lists come behind texts.
    (Bound::Included(from), Bound::Excluded(until))
}

/// Behind all rows of a resource, in whatever stream.
pub fn behind_id(tenant: &Tenant, resource_type: &str, id: &str) -> Bound {
    Bound::Excluded(key([text(tenant.as_str()), text(resource_type), text(id), array([])]))
}

/// What the index has of a resource in a stream, from behind a number up to another.
pub fn resource_rows(stream: &StreamKey, resource: &Resource, (after, upto): (u64, u64)) -> (Bound, Bound) {
    let of = |seq| resource_key(stream, resource, seq);
    (Bound::Excluded(of(after)), Bound::Included(of(upto)))
}

/// `[tenant, stream, last]`, of a chunk.
pub fn chunk_key(stream: &StreamKey, last: u64) -> RecordIdKey {
    key([text(stream.tenant.as_str()), text(stream.name.as_str()), number(last)])
}

/// `[tenant, stream, seq]`, of a payload that lies beside its chunk.
pub fn blob_key(stream: &StreamKey, seq: u64) -> RecordIdKey {
    chunk_key(stream, seq)
}

/// The last number in a [`chunk_key`].
pub fn chunk_last(of: &RecordIdKey) -> Option<u64> {
    (parts(of).len() == 3).then(|| part(of, 2)).flatten()
}

/// Chunks of a stream under keys beyond a number.
pub fn chunks_after(stream: &StreamKey, after: u64) -> (Bound, Bound) {
    (Bound::Excluded(chunk_key(stream, after)), Bound::Included(chunk_key(stream, u64::MAX)))
}

/// `[shard, pos]`, of a feed record.
pub fn feed_key(shard: ShardId, pos: u64) -> RecordIdKey {
    key([shard_value(shard), number(pos)])
}

/// The number in a [`feed_key`].
pub fn feed_pos(of: &RecordIdKey) -> Option<u64> {
    (parts(of).len() == 2).then(|| part(of, 1)).flatten()
}

/// `[tenant, id]`, in the index of ids.
pub fn event_id_key((tenant, id): &EventIdKey) -> RecordIdKey {
    key([text(tenant.as_str()), text(id.as_str())])
}

/// `[millis, ulid]`, of ids that were recorded then.
pub fn event_id_due_key(at: UnixMillis) -> RecordIdKey {
    key([number(at.0), text(Ulid::new().to_string())])
}

/// `[shard, millis, tenant, stream]`: when the age of a stream is looked at.
pub fn due_key(shard: ShardId, at: UnixMillis, stream: &StreamKey) -> RecordIdKey {
    key([shard_value(shard), number(at.0), text(stream.tenant.as_str()), text(stream.name.as_str())])
}

/// The time and the stream in a [`due_key`].
pub fn due_in(of: &RecordIdKey) -> Option<(UnixMillis, StreamKey)> {
    let at = (parts(of).len() == 4).then(|| part(of, 1)).flatten()?;
    Some((UnixMillis(at), named_at(of, 2)?))
}

/// `[shard, beat, number]`: one of the dead letters of a commit.
pub fn dead_key(shard: ShardId, beat: u64, place: u32) -> RecordIdKey {
    key([shard_value(shard), number(beat), int(i64::from(place))])
}

/// The place that a [`dead_key`] names.
pub fn dead_place(of: &RecordIdKey) -> Option<StreamDeadPlace> {
    let [shard, beat, number] = [part(of, 0)?, part(of, 1)?, part(of, 2)?];
    let place =
        StreamDeadPlace { shard: ShardId(u16::try_from(shard).ok()?), beat, number: u32::try_from(number).ok()? };
    (parts(of).len() == 3).then_some(place)
}

/// Dead letters of all shards, behind one of them.
pub fn dead_behind(behind: Option<StreamDeadPlace>) -> (Bound, Bound) {
    let from = match behind {
        Some(place) => Bound::Excluded(dead_key(place.shard, place.beat, place.number)),
        None => Bound::Included(key([int(0)])),
    };
    // Texts come behind numbers.
    (from, Bound::Excluded(key([text("")])))
}

/// `[relay, tenant, stream]`, of a checkpoint.
pub fn checkpoint_key(relay: &RelayName, stream: &StreamKey) -> RecordIdKey {
    key([text(relay.as_str()), text(stream.tenant.as_str()), text(stream.name.as_str())])
}

/// The stream and the first number that an [`overtaken_key`] names.
pub fn overtaken_in(of: &RecordIdKey) -> Option<(StreamKey, u64)> {
    (parts(of).len() == 4).then(|| Some((named_at(of, 1)?, part(of, 3)?))).flatten()
}

/// What a relay never had, behind one range of it.
pub fn overtaken_behind(relay: &RelayName, behind: Option<(&StreamKey, u64)>) -> (Bound, Bound) {
    let from = match behind {
        Some((stream, from)) => Bound::Excluded(overtaken_key(relay, stream, from)),
        None => Bound::Included(key([text(relay.as_str())])),
    };
    // Lists come behind texts.
    (from, Bound::Excluded(key([text(relay.as_str()), array([])])))
}

/// `[relay, tenant, stream, from]`.
pub fn overtaken_key(relay: &RelayName, stream: &StreamKey, from: u64) -> RecordIdKey {
    key([text(relay.as_str()), text(stream.tenant.as_str()), text(stream.name.as_str()), number(from)])
}
