//! A row as a message, and where it goes.

use std::sync::Arc;

use waybill_core::annotation::{Annotation, Carried};
use waybill_core::annotations::Annotations;
use waybill_core::code::Code;
use waybill_core::inbox::direct::{Aggregate, RowFate};
use waybill_core::message::{Delivery, Message, Payload};
use waybill_core::new_message::{NewMessage, is_traceparent};
use waybill_core::outbox::owner::TransportId;
use waybill_core::port::table::{RowMessage, TableRow};
use waybill_core::port::transport::Fault;
use waybill_core::time::UnixMillis;

use super::config::TableConfig;
use super::table::PAUSED_HOLD;
use crate::live::{Live, TransportEntry};

/// A row on its way.
pub(super) struct Outgoing {
    pub transport: TransportId,
    pub entry: Arc<TransportEntry>,
    pub lane: u32,
    pub delivery: Delivery,
}

/// Finds out where a row goes; an error is what becomes of it without a call.
pub(super) fn outgoing(
    live: &Live,
    table: &TableConfig,
    row: &TableRow,
    aggregate: &Aggregate,
    now: UnixMillis,
) -> Result<Outgoing, RowFate> {
    let row_message = row.message.as_ref().map_err(|fault| broken(fault, table))?;
    let message = message(row_message, table, now, live.config.payload_bytes_max).map_err(RowFate::Permanent)?;
    let route = live.routing.routes.find(&message.topic);
    let found = route.and_then(|route| live.find(&route.transport));
    let found = found.filter(|(id, _)| live.routing.external != Some(*id));
    let (transport, entry) = found.ok_or_else(|| {
        let reason = format!("no transport takes topic {}: add a route", message.topic.as_str());
        RowFate::Blocked { scope: None, fault: Fault::new(Code::OUTBOX_NO_ROUTE, reason) }
    })?;
    if live.is_paused(transport) {
        return Err(RowFate::Later(PAUSED_HOLD));
    }
    let limits = entry.transport.limits();
    let bytes = message.payload.len();
    if let Some(largest) = limits.max_payload_bytes.filter(|largest| bytes > *largest as usize) {
        let reason = format!("the payload has {bytes} bytes, the receiver takes {largest}");
        return Err(RowFate::Permanent(Fault::new(Code::OUTBOX_PAYLOAD_TOO_LARGE, reason)));
    }
    let Payload::Inline(payload) = message.payload.clone() else {
        return Err(RowFate::Permanent(Fault::new(Code::UNKNOWN_INTERNAL, "a row's payload lies elsewhere")));
    };
    let delivery = Delivery {
        destination: message.topic.subject().to_owned(),
        payload,
        attempt: row.attempts.saturating_add(1),
        // No shard owns a table, and a row has no place in a shard's order.
        lease_epoch: 0,
        seq: waybill_core::ids::Seq(0),
        attributes: Vec::new(),
        message,
    };
    Ok(Outgoing { transport, entry: Arc::clone(entry), lane: lane_of(aggregate, limits.lanes), delivery })
}

/// What a plugin said of a row that it can't make a message of.
fn broken(fault: &Fault, table: &TableConfig) -> RowFate {
    if fault.code == Code::FUTURE_EVENT.as_str() {
        return RowFate::Later(fault.after.unwrap_or(table.idle_pause));
    }
    RowFate::Permanent(fault.clone())
}

/// Of one aggregate everything goes through one lane.
fn lane_of(aggregate: &Aggregate, lanes: u32) -> u32 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    aggregate.hash(&mut hasher);
    u32::try_from(hasher.finish() % u64::from(lanes.max(1))).unwrap_or(0)
}

fn message(row: &RowMessage, table: &TableConfig, now: UnixMillis, bytes_max: usize) -> Result<Arc<Message>, Fault> {
    let invalid = |error: waybill_core::error::InputError| Fault::new(error.code(), error.to_string());
    let tenant = tenant(row, table)?;
    let mut headers = row.headers.clone();
    // It goes on as the message's own.
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case(Annotation::Traceparent.dashed()));
    let draft = NewMessage {
        topic: row.topic.clone(),
        payload: row.payload.clone(),
        id: Some(row.id.clone()),
        tenant: Some(tenant),
        key: row.key.clone().filter(|key| !key.is_empty()),
        headers,
        // Whose stamp is ahead was told by the database's clock, not by ours.
        occurred_at: row.occurred_at.map(|at| at.min(now)),
        event_type: row.event_type.clone().filter(|text| !text.is_empty()),
        event_version: row.event_version,
        annotations: annotations(row),
        ..NewMessage::default()
    };
    Ok(draft.check(now, bytes_max).map_err(invalid)?.message)
}

/// The optional texts of a row. What a column of its own says is refused where a message can't have it; of the rest such a text is
/// left out.
fn annotations(row: &RowMessage) -> Annotations {
    let mut annotations = Annotations::default();
    for annotation in Annotation::ALL {
        match annotation.carried() {
            Carried::Member => annotations.set(annotation, member(row, annotation).filter(|text| !text.is_empty())),
            Carried::Header | Carried::Attribute => {
                annotations.inherit(annotation, beside(row, annotation));
            }
        }
    }
    annotations
}

/// The trace context that a row came with, as its message has it.
pub(super) fn context_of(row: &RowMessage) -> Option<&str> {
    beside(row, Annotation::Traceparent).filter(|text| is_traceparent(text))
}

/// One of the texts that a row has no member for.
fn beside(row: &RowMessage, annotation: Annotation) -> Option<&str> {
    annotation.among(&row.attributes).or_else(|| annotation.among(&row.headers))
}

/// One of the texts that a row has a member for.
fn member(row: &RowMessage, annotation: Annotation) -> Option<&str> {
    match annotation {
        Annotation::ContentType => row.content_type.as_deref(),
        Annotation::EnvelopeId => row.envelope_id.as_deref(),
        Annotation::CorrelationId => row.correlation_id.as_deref(),
        Annotation::CausationId => row.causation_id.as_deref(),
        Annotation::ReplyTo => row.reply_to.as_deref(),
        Annotation::AggregateType | Annotation::AggregateId | Annotation::Traceparent => None,
    }
}

/// Whose row it is: what it names has to be one of its source's tenants.
fn tenant(row: &RowMessage, table: &TableConfig) -> Result<String, Fault> {
    let refused = |reason: String| Fault::new(Code::INBOX_TENANT, reason);
    match (&row.tenant, table.tenants.as_slice()) {
        (Some(named), known) if known.iter().any(|tenant| tenant.as_str() == named) => Ok(named.clone()),
        (Some(named), _) => Err(refused(format!("tenant {named:?} isn't one of source {}", table.source))),
        (None, [only]) => Ok(only.to_string()),
        (None, _) => Err(refused(format!("the row names no tenant, and source {} has several", table.source))),
    }
}
