//! Events that a step or a handler leaves behind: checked before its commit, which puts them on their doorsteps, or numbers those that name
//! where their stream has to end. Their ids are made of the call's key and their places, so that a repeat of the call appends nothing new.

use std::sync::Arc;

use waybill_core::code::Code;
use waybill_core::ids::Tenant;
use waybill_core::port::service::streams::StreamError;
use waybill_core::streams::joint::{JointAppends, JointEvent, derived_id, sort};
use waybill_core::streams::limits::{COMMIT_BYTES_MAX, COMMIT_EVENTS_MAX};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::wire::LeftEvent;

use crate::shard::Context;

/// Why what was left can't be appended, with its code.
pub(crate) type Refused = (Code, String);

/// What a call of this key left, by stream, as part of the call's trace.
pub(crate) fn left(
    context: &Context,
    tenant: &Tenant,
    (key, traceparent): (&str, Option<&str>),
    events: Vec<LeftEvent>,
) -> Result<JointAppends, Refused> {
    let Some(first) = events.first() else { return Ok(JointAppends::default()) };
    if context.config.streams.store.is_none() {
        let stream = &first.stream;
        return Err((
            Code::SAGA_NO_STREAMS,
            format!("it left an event for stream {stream}, and this host has no event streams"),
        ));
    }
    let settings = Arc::clone(&context.live().config.streams.settings);
    let (now, count) = (context.clock.now().wall, events.len());
    let traceparent: Option<Arc<str>> = traceparent.map(Arc::from);
    let asked = events.into_iter().map(|LeftEvent { stream, event, expected_seq }| JointEvent {
        stream: StreamKey { tenant: tenant.clone(), name: stream },
        event,
        expected_seq,
        traceparent: traceparent.clone(),
    });
    let refused = |error: StreamError| (error.code(), format!("of the events that it left: {error}"));
    let sorted = sort(asked.collect(), (context.config.shards, context.steady_now()), |place, stream, input| {
        let id = input.id.clone().map_or_else(|| derived_id(key, place), Ok)?;
        input.into_event(|| id, now).admit(&stream.name, &settings.event_limits(&stream.name), true)
    });
    let appends = sorted.map_err(refused)?.appends;
    let (bytes, bytes_max) = (appends.weight(), COMMIT_BYTES_MAX);
    if bytes > bytes_max || count > COMMIT_EVENTS_MAX {
        return Err(refused(StreamError::AppendTooLarge { bytes, bytes_max }));
    }
    Ok(appends)
}
