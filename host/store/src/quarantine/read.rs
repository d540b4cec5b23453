//! How a row of each table is read. A row that whoever needs it couldn't read is refused here with the same words.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::{MessageId, Tenant};
use waybill_core::outbox::records::{Parked, Scheduled, Segment};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::AuditEvent;
use waybill_surreal::{Row, bytes_of};

use super::refuse_held;
use crate::inbox::done::done_in;
use crate::inbox::seen::{records, tidy};
use crate::owner::outlived;
use crate::rows::{door, inbox, lacks, saga, saga_small, segment, shard, small, stopped, streams, tx_event};
use crate::saga::{ended, journal_record, started};
use crate::streams::keys::{dead_place, due_in, overtaken_in, resource_in, selected_in, stream_in};
use crate::tables::{
    AUDIT, BLOB, DEAD, DEDUP, DEDUP_DUE, DONE, DONE_DUE, DOOR, EVENT, EVENT_ID, EVENT_ID_DUE, EVENT_RESOURCE, ID,
    ID_DUE, IDEMPOTENCY, IDEMPOTENCY_DUE, INBOX, INBOX_CONSUMER, INBOX_DEAD, INBOX_DONE, INBOX_SEEN, INBOX_SEEN_DUE,
    INBOX_SHARD, INBOX_TAKEN, INDEX, INDEX_SHARD, KV, KV_SCOPE, OPERATIONS, OUTBOX, PARKED, RELAY_AT, RELAY_OVERTAKEN,
    SAGA, SAGA_DEAD, SAGA_DEFINITION, SAGA_DEFINITION_HASH, SAGA_DONE, SAGA_DOOR, SAGA_ENDED, SAGA_JOURNAL, SAGA_SHARD,
    SAGA_START, SCHEDULE, SCHEDULED, SHARD, STREAM, STREAM_DEAD, STREAM_DOOR, STREAM_DUE, STREAM_FEED, STREAM_NODE,
    STREAM_REST, STREAM_SHARD, STREAM_TYPE, TOKEN, TX_EVENT, history_due, part, part_shard, part_text,
};
use crate::{dedup, idempotency, index, kv, schedules, tokens, transact};

/// What a row holds, as far as it matters for putting it back.
pub enum Content {
    /// Messages in the order.
    Segment(Arc<Segment>),
    /// A message that waits for a retry.
    Parked(Arc<Parked>),
    /// A message that waits for its time.
    Scheduled(Arc<Scheduled>),
    Row,
}

/// Reads a row; `apart` is the part of it that lies in another table.
pub type Reader = fn(&Row, Option<Bytes>) -> Result<Content, StoreError>;

/// How rows of a table are read; none for tables whose rows are parts of others', or settings, and those that aren't ours.
pub fn reader(table: &str) -> Option<Reader> {
    Some(match table {
        OUTBOX => |row, apart| segment_in(row, apart),
        PARKED => |row, _| stopped::parked(row).map(Content::Parked),
        SCHEDULED => |row, _| stopped::scheduled(row).map(Content::Scheduled),
        DEAD => |row, _| plain(stopped::dead(row)),
        DONE => |row, _| plain(segment::history(row)),
        DONE_DUE => |row, _| plain(history_due(&row.key).ok_or_else(|| lacks(DONE_DUE, &row.key, "id"))),
        DOOR => |row, _| plain(door::door(row.clone())),
        SHARD => |row, _| plain(shard::shard(&row.key, &row.fields)),
        ID => |row, _| id(row),
        ID_DUE => |row, _| plain(outlived(row)),
        BLOB => |row, _| plain(bytes_of(row.fields.get("data")).ok_or_else(|| lacks(BLOB, &row.key, "data"))),
        INDEX => |row, _| plain(index::place_in(&row.key).ok_or_else(|| lacks(INDEX, &row.key, "id"))),
        INDEX_SHARD => |row, _| plain(index::shard(&row.key, &row.fields)),
        DEDUP => |row, _| plain(dedup::entry_in(row)),
        DEDUP_DUE => |row, _| plain(dedup::due(&row.key).ok_or_else(|| lacks(DEDUP_DUE, &row.key, "id"))),
        IDEMPOTENCY => |row, _| plain(idempotency::entry_in(row)),
        IDEMPOTENCY_DUE => {
            |row, _| plain(idempotency::due(&row.key).ok_or_else(|| lacks(IDEMPOTENCY_DUE, &row.key, "id")))
        }
        SAGA_SHARD => |row, _| plain(saga_small::shard(&row.key, &row.fields)),
        SAGA_JOURNAL => |row, _| plain(journal_record(row)),
        SAGA => |row, apart| plain(saga::saga(SAGA, row, saga::tree_bytes(&row.fields).or(apart))),
        SAGA_DONE => |row, apart| plain(saga::saga(SAGA_DONE, row, saga::tree_bytes(&row.fields).or(apart))),
        SAGA_START => |row, _| plain(started(row)),
        SAGA_ENDED => |row, _| plain(ended(row)),
        SAGA_DEAD => |row, _| plain(saga_small::dead(row)),
        SAGA_DEFINITION => |row, _| plain(saga_small::definition(&row.key, &row.fields)),
        SAGA_DEFINITION_HASH => |row, _| plain(saga_small::definition_named(&row.key, &row.fields)),
        INBOX_SHARD => |row, _| plain(inbox::shard(&row.key, &row.fields)),
        INBOX_TAKEN => |row, _| plain(inbox::takes(row)),
        INBOX => |row, apart| plain(inbox::stopped(row, inbox::message_bytes(&row.fields).or(apart))),
        INBOX_DEAD => |row, _| plain(inbox::dead(row)),
        INBOX_DONE => |row, _| plain(done_in(row)),
        INBOX_SEEN => |row, _| plain(records::read(row)),
        INBOX_SEEN_DUE => |row, _| plain(tidy::note_in(row)),
        INBOX_CONSUMER => |row, _| plain(inbox::home(&row.key, &row.fields)),
        SAGA_DOOR => |row, _| plain(inbox::saga_door(row)),
        STREAM => |row, _| of_stream(STREAM, row, streams::head(&row.key, &row.fields)),
        STREAM_REST => |row, _| of_stream(STREAM_REST, row, streams::rest(&row.key, &row.fields)),
        // One under its number stays where it is, whatever it holds: readers are to hear of it.
        EVENT => |row, _| plain(streams::chunk(row)),
        STREAM_DOOR => |row, _| stream_door(row),
        STREAM_SHARD => |row, _| plain(streams::shard(&row.key, &row.fields)),
        STREAM_FEED => |row, _| plain(streams::feed(row)),
        EVENT_ID => |row, _| event_id(row),
        EVENT_ID_DUE => |row, _| plain(streams::recorded_ids(row)),
        STREAM_NODE => |row, _| plain(selected_in(&row.key).ok_or_else(|| lacks(STREAM_NODE, &row.key, "id"))),
        STREAM_TYPE => |row, _| plain(selected_in(&row.key).ok_or_else(|| lacks(STREAM_TYPE, &row.key, "id"))),
        EVENT_RESOURCE => |row, _| plain(resource_in(&row.key).ok_or_else(|| lacks(EVENT_RESOURCE, &row.key, "id"))),
        STREAM_DUE => |row, _| plain(due_in(&row.key).ok_or_else(|| lacks(STREAM_DUE, &row.key, "id"))),
        STREAM_DEAD => |row, _| {
            let place = dead_place(&row.key).ok_or_else(|| lacks(STREAM_DEAD, &row.key, "id"));
            plain(place.and_then(|place| streams::stored_dead(place, row)))
        },
        RELAY_AT => |row, _| plain(streams::checkpoint(&row.key, &row.fields)),
        RELAY_OVERTAKEN => |row, _| {
            let place = overtaken_in(&row.key).ok_or_else(|| lacks(RELAY_OVERTAKEN, &row.key, "id"));
            plain(place.and_then(|place| streams::overtaken_range(place, row)))
        },
        OPERATIONS => |row, _| plain(transact::operation_in(row)),
        TOKEN => |row, _| plain(tokens::token_in(row)),
        SCHEDULE => |row, _| plain(schedules::schedule_in(row)),
        AUDIT => |row, _| plain(small::json::<AuditEvent>(AUDIT, row.fields.clone())),
        TX_EVENT => |row, _| plain(tx_event::record(row)),
        KV => |row, _| plain(kv::entry_in(row)),
        KV_SCOPE => |row, _| plain(kv::scope_in(row)),
        _ => return None,
    })
}

/// Reads a row of a table.
pub fn row(table: &'static str, row: &Row, apart: Option<Bytes>) -> Result<Content, StoreError> {
    match reader(table) {
        Some(reader) => reader(row, apart),
        None => Ok(Content::Row),
    }
}

fn plain<T>(read: Result<T, StoreError>) -> Result<Content, StoreError> {
    read.map(|_| Content::Row)
}

fn segment_in(row: &Row, apart: Option<Bytes>) -> Result<Content, StoreError> {
    let info = segment::info(row)?;
    let shard = part_shard(&row.key).ok_or_else(|| lacks(OUTBOX, &row.key, "id"))?;
    match segment::segment(shard, info.first, segment::data_of(&row.fields).or(apart))? {
        Ok(segment) => Ok(Content::Segment(segment)),
        Err(malformed) => Err(StoreError::Corrupt(malformed.reason)),
    }
}

fn id(row: &Row) -> Result<Content, StoreError> {
    refuse_held(ID, &row.key, &row.fields)?;
    let tenant = part_text(&row.key, 0).and_then(|text| Tenant::new(text).ok());
    let id = part_text(&row.key, 1).and_then(|text| MessageId::new(text).ok());
    let (Some(tenant), Some(id), None) = (tenant, id, part(&row.key, 2)) else {
        return Err(lacks(ID, &row.key, "id"));
    };
    plain(small::id(&tenant, &id, &row.key, &row.fields))
}

/// A record that lies under its stream.
fn of_stream<T>(table: &str, row: &Row, read: Result<T, StoreError>) -> Result<Content, StoreError> {
    stream_in(&row.key).ok_or_else(|| lacks(table, &row.key, "id"))?;
    plain(read)
}

/// What is put on a doorstep is read there by its owner, who moves what has no content.
fn stream_door(row: &Row) -> Result<Content, StoreError> {
    match streams::door(row.clone())?.content {
        Ok(_) => Ok(Content::Row),
        Err(malformed) => Err(StoreError::Corrupt(malformed.reason)),
    }
}

fn event_id(row: &Row) -> Result<Content, StoreError> {
    let tenant = part_text(&row.key, 0).and_then(|text| Tenant::new(text).ok());
    let tenant = tenant.ok_or_else(|| lacks(EVENT_ID, &row.key, "id"))?;
    plain(streams::event_id(&tenant, &row.key, &row.fields))
}
