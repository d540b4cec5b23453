//! Records as objects. What stopped is readable with the source document's column names (`soulbase-tx.md` §7.1); what the
//! host itself reads is the encoded `data` field beside them.

pub mod columns;
pub mod door;
pub mod event_object;
pub mod fates;
pub mod inbox;
pub mod saga;
pub mod saga_small;
pub mod segment;
pub mod shard;
pub mod small;
pub mod stopped;
pub mod streams;
pub mod tx_event;

use waybill_core::port::store::StoreError;
use waybill_surreal::RecordIdKey;

use crate::codec::CodecError;

/// An error about one record.
pub fn unreadable(table: &str, key: &RecordIdKey, error: CodecError) -> StoreError {
    match error {
        CodecError::Newer(_) => StoreError::NewerData(format!("{table}:{key:?}: {error}")),
        CodecError::Damaged(cause) => StoreError::Corrupt(format!("{table}:{key:?}: {cause}")),
    }
}

/// A record that lacks a field.
pub fn lacks(table: &str, key: &RecordIdKey, field: &str) -> StoreError {
    StoreError::Corrupt(format!("{table}:{key:?} has no usable field {field:?}"))
}

/// Encoding to memory doesn't fail; should it, nothing may be written.
pub fn encoded<E: std::fmt::Display>(result: Result<Vec<u8>, E>) -> Result<Vec<u8>, StoreError> {
    result.map_err(|error| StoreError::Other(format!("a record can't be encoded: {error}")))
}
