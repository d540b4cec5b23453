//! Audit events of messages, sagas and received messages: those of one commit in a record.

use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_core::tx_event::{TxRecord, TxRecordKey, TxSubject};
use waybill_surreal::{Object, RecordIdKey, Row, bytes, bytes_of, int, key, object};

use super::{encoded, lacks, unreadable};
use crate::codec::{decode_tx_events, encode_tx_events};
use crate::tables::{TX_EVENT, number, part, parts, shard_value};

/// `[millis, shard, subject, beat, part]`, the subject by its number.
pub fn key_of(of: &TxRecordKey) -> RecordIdKey {
    let subject = i64::from(of.of.number());
    key([number(of.at.0), shard_value(of.shard), int(subject), number(of.beat), int(i64::from(of.part))])
}

/// What a [`key_of`] says.
pub fn key_in(of: &RecordIdKey) -> Option<TxRecordKey> {
    if parts(of).len() != 5 {
        return None;
    }
    Some(TxRecordKey {
        at: UnixMillis(part(of, 0)?),
        shard: ShardId(u16::try_from(part(of, 1)?).ok()?),
        of: TxSubject::of_number(part(of, 2)?)?,
        beat: part(of, 3)?,
        part: u16::try_from(part(of, 4)?).ok()?,
    })
}

/// The columns of a record of audit events.
pub fn of_record(record: &TxRecord) -> Result<Object, StoreError> {
    Ok(object([("data", bytes(encoded(encode_tx_events(record))?))]))
}

/// The record of audit events in a row.
pub fn record(row: &Row) -> Result<TxRecord, StoreError> {
    let key = key_in(&row.key).ok_or_else(|| lacks(TX_EVENT, &row.key, "id"))?;
    let data = bytes_of(row.fields.get("data")).ok_or_else(|| lacks(TX_EVENT, &row.key, "data"))?;
    decode_tx_events(key, &data).map_err(|error| unreadable(TX_EVENT, &row.key, error))
}
