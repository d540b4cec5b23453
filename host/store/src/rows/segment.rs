//! Segments: a row of the directory, and the data in it or beside it.

use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use waybill_core::ids::{Seq, ShardId, Tenant};
use waybill_core::outbox::records::{HistoryChunk, Malformed, Segment};
use waybill_core::port::store::{SegmentInfo, StoreError};
use waybill_surreal::{Object, RecordIdKey, Row, bytes_of, int, object, text, text_of};

use super::{encoded, unreadable};
use crate::codec::{CodecError, decode_history, decode_segment, encode_history, encode_segment};
use crate::tables::{DONE, OUTBOX, part, part_shard, parts, unsigned};

/// Data up to this many bytes lies in the directory row itself: the size from which surrealkv keeps a value apart from its
/// key, so a directory page of 2,000 rows reads 8 MiB at most and usually far less.
pub const INLINE_DATA_BYTES_MAX: usize = 4096;

/// The two records of a segment.
pub struct SegmentRows {
    /// Row of the directory.
    pub row: Object,
    /// Record of the data, if it lies apart.
    pub data: Option<Object>,
}

pub fn of_segment(segment: &Segment) -> Result<SegmentRows, StoreError> {
    let encoded = encoded(encode_segment(segment))?;
    let mut row = object([
        ("tenant", text(segment.tenant.as_str())),
        ("messages", int(segment.entries.len() as i64)),
        ("bytes", int(segment.weight() as i64)),
    ]);
    let data = object([("data", waybill_surreal::bytes(encoded.clone()))]);
    if encoded.len() <= INLINE_DATA_BYTES_MAX {
        row.insert("data", waybill_surreal::bytes(encoded));
        return Ok(SegmentRows { row, data: None });
    }
    Ok(SegmentRows { row, data: Some(data) })
}

/// What the directory says. Of a row whose content can't be read as much as that there is one: reading it tells why.
pub fn info(row: &Row) -> Result<SegmentInfo, StoreError> {
    let (Some(_), Some(first), [_, _]) = (part_shard(&row.key), part(&row.key, 1), parts(&row.key)) else {
        return Err(super::lacks(OUTBOX, &row.key, "id"));
    };
    let count = |name: &str| unsigned(row.fields.get(name)).and_then(|number| u32::try_from(number).ok());
    Ok(SegmentInfo {
        first: Seq(first),
        tenant: text_of(row.fields.get("tenant"))
            .and_then(|tenant| Tenant::new(tenant).ok())
            .unwrap_or_else(Tenant::unnamed),
        messages: count("messages").unwrap_or(1),
        bytes: count("bytes").unwrap_or(0),
    })
}

/// A segment, or why it can't be decoded. Data of a newer host is an error of the whole read: the shard is given back.
pub fn segment(shard: ShardId, first: Seq, data: Option<Bytes>) -> Result<Result<Arc<Segment>, Malformed>, StoreError> {
    let Some(data) = data else {
        return Ok(Err(Malformed { reason: "its data is missing".into(), raw: String::new() }));
    };
    match decode_segment(first, &data) {
        Ok(segment) => Ok(Ok(Arc::new(segment))),
        Err(CodecError::Damaged(reason)) => {
            Ok(Err(Malformed { reason, raw: base64::engine::general_purpose::STANDARD.encode(&data) }))
        }
        Err(newer @ CodecError::Newer(_)) => Err(unreadable(OUTBOX, &crate::tables::seq_key(shard, first), newer)),
    }
}

/// The data in a record, if it has any.
pub fn data_of(fields: &Object) -> Option<Bytes> {
    bytes_of(fields.get("data"))
}

/// Of a chunk of finished messages.
pub fn of_history(chunk: &HistoryChunk) -> Result<Object, StoreError> {
    Ok(object([
        ("at", waybill_surreal::millis(chunk.at.0)),
        ("messages", int(chunk.entries.len() as i64)),
        ("data", waybill_surreal::bytes(encoded(encode_history(chunk))?)),
    ]))
}

/// A chunk of finished messages.
pub fn history(row: &Row) -> Result<Arc<HistoryChunk>, StoreError> {
    let key: &RecordIdKey = &row.key;
    let (Some(shard), Some(segment), Some(beat)) = (part_shard(key), part(key, 1), part(key, 2)) else {
        return Err(super::lacks(DONE, key, "id"));
    };
    // Retention goes by it.
    waybill_surreal::millis_of(row.fields.get("at")).ok_or_else(|| super::lacks(DONE, key, "at"))?;
    let data = data_of(&row.fields).ok_or_else(|| super::lacks(DONE, key, "data"))?;
    let chunk = decode_history(shard, Seq(segment), beat, &data).map_err(|error| unreadable(DONE, key, error))?;
    Ok(Arc::new(chunk))
}
