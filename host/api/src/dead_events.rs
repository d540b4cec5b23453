//! Dead letters of event streams: events that couldn't be numbered, or that a relay's broker refused.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::service::MessageState;
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::dead::StoredDead;
use waybill_core::streams::envelope::{self, EventHead};
use waybill_core::streams::wire::EnvelopeJson;

use crate::instant::Instant;

/// An event of a stream that couldn't be numbered or relayed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeadEvent {
    /// `event-<shard>-<beat>-<number>`.
    pub id: String,
    /// Id of the event; null where it can't be read.
    pub event_id: Option<String>,
    pub tenant: String,
    pub stream: String,
    /// Its number in the stream; null where it never got one.
    pub seq: Option<SeqJson>,
    /// Relay whose broker refused it; null where it couldn't be numbered.
    pub relay: Option<String>,
    /// `dead`, or `quarantined` once an operator fenced it off.
    pub state: MessageState,
    /// Code of the error that it died of.
    pub code: String,
    /// Text of that error, for people.
    pub reason: String,
    /// Both, `CODE: reason`, as a message has it.
    pub last_error: String,
    /// When it became a dead letter.
    pub ended_at: Instant,
    /// Operator's note on a quarantined one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The event, as pages of its stream have it; in single views only. Without a number its `seq` is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<EnvelopeJson>)]
    pub event: Option<Box<RawValue>>,
}

impl DeadEvent {
    /// As a list shows it, without the event's own content.
    pub fn of(stored: &StoredDead) -> Self {
        let (stream, why) = (stored.stream(), stored.why());
        let (state, note) = match &stored.state {
            DeadState::Dead => (MessageState::Dead, None),
            DeadState::Quarantined { note, .. } => (MessageState::Quarantined, Some(note.clone())),
        };
        Self {
            id: stored.place.to_string(),
            event_id: EventHead::of(stored.packed()).ok().map(|head| head.id.to_owned()),
            tenant: stream.tenant.to_string(),
            stream: stream.name.to_string(),
            seq: stored.seq().map(SeqJson),
            relay: stored.relay().map(ToString::to_string),
            state,
            code: why.code.clone(),
            reason: why.reason.clone(),
            last_error: format!("{}: {}", why.code, why.reason),
            ended_at: stored.died_at.into(),
            note,
            event: None,
        }
    }

    /// The same with its event, as far as it can be read.
    #[must_use]
    pub fn with_event(mut self, stored: &StoredDead) -> Self {
        let event = envelope::unpack(stored.packed()).ok();
        let written = event.as_ref().and_then(|event| {
            let shown = EnvelopeJson::of(stored.stream(), stored.seq().unwrap_or(0), event, None)?;
            serde_json::value::to_raw_value(&shown).ok()
        });
        self.event = written;
        self
    }
}
