//! The shard record.

use waybill_core::ids::Seq;
use waybill_core::outbox::records::ShardRecord;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Object, Value, bool_of, bytes, bytes_of, int, int_of, object, text, text_of};

use super::{encoded, lacks, unreadable};
use crate::codec::{decode_open, encode_open};
use crate::tables::{SHARD, number, unsigned};
use waybill_surreal::RecordIdKey;

/// Of a shard record. `open` is bytes because it is rewritten by every commit; `open_segments` says how many it holds.
pub fn of_shard(record: &ShardRecord) -> Result<Object, StoreError> {
    let mut fields = object([
        ("owner", text(&record.owner)),
        ("token", number(record.token)),
        ("beat", number(record.beat)),
        // A random number: its bits are kept, not its value.
        ("nonce", int(i64::from_ne_bytes(record.nonce.to_ne_bytes()))),
        ("floor", number(record.floor.0)),
        ("last", number(record.last.0)),
        ("open_segments", int(record.open.len() as i64)),
        ("open", bytes(encoded(encode_open(&record.open))?)),
        ("released", Value::Bool(record.released)),
    ]);
    if let Some(solo) = record.solo {
        fields.insert("solo", number(solo.0));
    }
    Ok(fields)
}

/// Token and beat alone: what the guard of a commit looks at.
pub fn token_and_beat(fields: &Object) -> Option<(u64, u64)> {
    Some((unsigned(fields.get("token"))?, unsigned(fields.get("beat"))?))
}

/// The highest seq given out.
pub fn last(fields: &Object) -> Seq {
    Seq(unsigned(fields.get("last")).unwrap_or(0))
}

/// A shard record.
pub fn shard(key: &RecordIdKey, fields: &Object) -> Result<ShardRecord, StoreError> {
    let field = |name: &str| unsigned(fields.get(name)).ok_or_else(|| lacks(SHARD, key, name));
    let open = bytes_of(fields.get("open")).ok_or_else(|| lacks(SHARD, key, "open"))?;
    let nonce = int_of(fields.get("nonce")).ok_or_else(|| lacks(SHARD, key, "nonce"))?;
    Ok(ShardRecord {
        owner: text_of(fields.get("owner")).unwrap_or("").to_owned(),
        token: field("token")?,
        beat: field("beat")?,
        nonce: u64::from_ne_bytes(nonce.to_ne_bytes()),
        floor: Seq(field("floor")?),
        last: Seq(field("last")?),
        open: decode_open(&open).map_err(|error| unreadable(SHARD, key, error))?,
        solo: unsigned(fields.get("solo")).map(Seq),
        released: bool_of(fields.get("released")).unwrap_or(false),
    })
}
