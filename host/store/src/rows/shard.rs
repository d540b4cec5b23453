//! The shard record.

use waybill_core::ids::Seq;
use waybill_core::outbox::records::ShardRecord;
use waybill_core::outbox::suspicion::{Suspect, Suspicion};
use waybill_core::port::store::StoreError;
use waybill_surreal::{Object, Value, bool_of, bytes, bytes_of, int, int_of, object, text, text_of};

use super::{encoded, lacks, unreadable};
use crate::codec::{decode_open, decode_suspicion, encode_open, encode_suspicion};
use crate::tables::{SHARD, number, unsigned};
use waybill_surreal::RecordIdKey;

/// Of a shard record. `open` is bytes because it is rewritten by every commit; `open_segments` says how many it holds.
pub fn of_shard(record: &ShardRecord) -> Result<Object, StoreError> {
    let mut fields = object([
        ("owner", text(&record.owner)),
        ("token", number(record.token)),
        ("beat", number(record.beat)),
        ("nonce", random(record.nonce)),
        ("floor", number(record.floor.0)),
        ("last", number(record.last.0)),
        ("open_segments", int(record.open.len() as i64)),
        ("open", bytes(encoded(encode_open(&record.open))?)),
        ("released", Value::Bool(record.released)),
    ]);
    if !record.suspicion.is_empty() {
        fields.insert("suspects", int(record.suspicion.suspects.len() as i64));
        fields.insert("suspicion", bytes(encoded(encode_suspicion(&record.suspicion))?));
    }
    if record.taken != 0 {
        fields.insert("taken", random(record.taken));
    }
    if record.leaving {
        fields.insert("leaving", Value::Bool(true));
    }
    Ok(fields)
}

/// Of a random number the bits are kept, not the value.
fn random(number: u64) -> Value {
    int(i64::from_ne_bytes(number.to_ne_bytes()))
}

fn random_of(value: Option<&Value>) -> Option<u64> {
    int_of(value).map(|number| u64::from_ne_bytes(number.to_ne_bytes()))
}

/// Token and beat alone: what the guard of a commit looks at.
pub fn token_and_beat(fields: &Object) -> Option<(u64, u64)> {
    Some((unsigned(fields.get("token"))?, unsigned(fields.get("beat"))?))
}

/// The highest seq given out.
pub fn last(fields: &Object) -> Seq {
    Seq(unsigned(fields.get("last")).unwrap_or(0))
}

pub fn shard(key: &RecordIdKey, fields: &Object) -> Result<ShardRecord, StoreError> {
    let field = |name: &str| unsigned(fields.get(name)).ok_or_else(|| lacks(SHARD, key, name));
    let open = bytes_of(fields.get("open")).ok_or_else(|| lacks(SHARD, key, "open"))?;
    let nonce = random_of(fields.get("nonce")).ok_or_else(|| lacks(SHARD, key, "nonce"))?;
    let suspicion = match bytes_of(fields.get("suspicion")) {
        Some(bytes) => decode_suspicion(&bytes).map_err(|error| unreadable(SHARD, key, error))?,
        None => before_suspicion(fields),
    };
    Ok(ShardRecord {
        owner: text_of(fields.get("owner")).unwrap_or("").to_owned(),
        token: field("token")?,
        // Earlier versions didn't write it; the next takeover does.
        taken: random_of(fields.get("taken")).unwrap_or(0),
        beat: field("beat")?,
        nonce,
        floor: Seq(field("floor")?),
        last: Seq(field("last")?),
        open: decode_open(&open).map_err(|error| unreadable(SHARD, key, error))?,
        suspicion,
        leaving: bool_of(fields.get("leaving")).unwrap_or(false),
        released: bool_of(fields.get("released")).unwrap_or(false),
    })
}

/// In an earlier version a record named the one message that was sent alone, and each message had a count of the takeovers
/// that it was claimed at. Those were no proof of a crash, so of all that only this one is suspect, and nothing is held against it yet.
fn before_suspicion(fields: &Object) -> Suspicion {
    let solo = unsigned(fields.get("solo")).map(|solo| (Seq(solo), Suspect { crashes: 1, alone: 0 }));
    Suspicion { suspects: solo.into_iter().collect(), ..Suspicion::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn of_an_earlier_record_only_the_message_that_was_sent_alone_is_suspect() {
        let mut fields = of_shard(&ShardRecord { owner: "host".into(), token: 4, ..ShardRecord::default() }).unwrap();
        assert!(fields.get("suspicion").is_none() && fields.get("leaving").is_none(), "nothing is written for nothing");
        let key = RecordIdKey::Number(0);
        assert_eq!(shard(&key, &fields).unwrap().suspicion, Suspicion::default());
        fields.insert("solo", number(77));
        let suspicion = shard(&key, &fields).unwrap().suspicion;
        let suspects = [(Seq(77), Suspect { crashes: 1, alone: 0 })].into();
        assert_eq!(suspicion, Suspicion { suspects, ..Suspicion::default() });
    }
}
