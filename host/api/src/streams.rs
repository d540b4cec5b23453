//! Streams as they are listed, shown, read, cut short and imported; and tickets for who subscribes without a token. Events as they are
//! appended are in [`crate::events`].

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_core::port::service::streams::{
    EventInput, ImportEvent, StreamActed, StreamDetail, StreamError, StreamSummary,
};
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::event::Event;
use waybill_core::streams::limits::COMMIT_EVENTS_MAX;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::wire::EnvelopeJson;

use crate::instant::Instant;

/// Most events of one part of an import.
pub const IMPORT_EVENTS_MAX: usize = COMMIT_EVENTS_MAX;

/// A stream as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Stream)]
pub struct StreamView {
    pub name: String,
    pub tenant: String,
    /// The first number that is kept; `last_seq + 1` if nothing is.
    pub first_seq: SeqJson,
    /// The highest number given out.
    pub last_seq: SeqJson,
    /// Bytes of all events that it ever had.
    pub bytes: u64,
    /// Subscriptions at this host that name it.
    pub readers: u64,
}

impl From<StreamSummary> for StreamView {
    fn from(summary: StreamSummary) -> Self {
        Self {
            name: summary.stream.name.to_string(),
            tenant: summary.stream.tenant.to_string(),
            first_seq: summary.first.into(),
            last_seq: summary.last.into(),
            bytes: summary.bytes,
            readers: summary.readers,
        }
    }
}

/// A stream by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = StreamDetail)]
pub struct StreamDetailView {
    /// As lists show it.
    #[serde(flatten)]
    pub stream: StreamView,
    /// Shard whose owner numbers its events.
    pub shard: u16,
    /// This host is that owner.
    pub here: bool,
    /// Up to this number other hosts' readers and relays know of its events.
    pub named_to: SeqJson,
    /// The highest number of a delete that compaction dropped; 0 = none.
    pub purged: SeqJson,
    /// `match` of the `[[stream]]` that it goes by; null = the defaults.
    pub settings: Option<String>,
    /// Relays that take it.
    pub relays: Vec<RelayedTo>,
}

impl From<StreamDetail> for StreamDetailView {
    fn from(detail: StreamDetail) -> Self {
        Self {
            stream: detail.summary.into(),
            shard: detail.shard.0,
            here: detail.is_owned_here,
            named_to: detail.named_to.into(),
            purged: detail.purged.into(),
            settings: detail.settings,
            relays: detail
                .relays
                .into_iter()
                .map(|(relay, upto)| RelayedTo { relay: relay.into(), upto: upto.into() })
                .collect(),
        }
    }
}

/// How far a relay is in a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RelayedTo {
    pub relay: String,
    /// Everything up to this number is settled.
    pub upto: SeqJson,
}

/// A page of one stream.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StreamEvents {
    /// Events, by number.
    #[schema(value_type = Vec<EnvelopeJson>)]
    pub items: Vec<Box<RawValue>>,
    /// The first number that is kept; `last_seq + 1` if nothing is.
    pub first_seq: SeqJson,
    /// The highest number given out.
    pub last_seq: SeqJson,
    /// What `after` has to be for the next page: a number, behind which `~` and another one may stand.
    pub next_after: String,
    /// There is nothing behind this page now.
    pub end: bool,
}

/// A page of events of many streams.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ManyEvents {
    /// By name of the stream, then by number.
    #[schema(value_type = Vec<EnvelopeJson>)]
    pub items: Vec<Box<RawValue>>,
    /// Pass it as `cursor` to go on; null = there is nothing else now.
    pub next_cursor: Option<String>,
}

/// Takes away events from the front of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeStream {
    /// Only those before this number; all if absent. Whole chunks go, so a few before it may stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<SeqJson>,
    /// Tells what would go, and takes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Why, for the audit; up to 2,000 bytes.
    #[serde(default)]
    pub reason: String,
}

/// What an act on a stream would do, or did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = StreamActed)]
pub struct StreamActedView {
    pub stream: String,
    pub tenant: String,
    /// It is a plan: nothing was done.
    pub dry_run: bool,
    /// Events that are concerned.
    pub events: u64,
    /// The first number that is kept afterwards; `last_seq + 1` if nothing is.
    pub first_seq: SeqJson,
    /// The highest number given out. The next event gets the one behind it, also when all others are gone.
    pub last_seq: SeqJson,
    /// What an import can't know, if there is something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What is said of an import that leaves numbers free between its events.
const UNKNOWN_DELETES: &str = "compaction took events between these, and which deletes it dropped isn't in what was imported: readers \
    that hadn't read the stream to its end where it was have to begin anew, they aren't told to";

impl StreamActedView {
    pub fn of(stream: &StreamKey, dry_run: bool, acted: StreamActed) -> Self {
        Self {
            stream: stream.name.to_string(),
            tenant: stream.tenant.to_string(),
            dry_run,
            events: acted.events,
            first_seq: acted.first.into(),
            last_seq: acted.last.into(),
            note: (acted.left_out > 0).then(|| UNKNOWN_DELETES.to_owned()),
        }
    }
}

/// A part of a stream that was kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportStream {
    /// 1 to 4,096 of them, by number, with their ids and times. What was trimmed or compacted is left out: its numbers stay free. `stream` and
    /// `tenant` are those of the request. What is refused of an event that is appended is refused here, too.
    #[schema(value_type = Vec<EnvelopeJson>, min_items = 1, max_items = 4096)]
    pub events: Vec<EnvelopeJson<'static>>,
    /// Why, for the audit; up to 2,000 bytes.
    #[serde(default)]
    pub reason: String,
}

/// Why a part of an import isn't taken as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportFault {
    /// There is none, or too many.
    Count(usize),
    /// An event says that it belongs to another stream.
    OtherStream {
        index: usize,
        stream: StreamKey,
    },
    Event(StreamError),
}

impl ImportStream {
    /// Its events for the host to import into a stream. One without a tenant is of the stream's.
    pub fn into_events(self, into: &StreamKey) -> Result<Vec<ImportEvent>, ImportFault> {
        if self.events.is_empty() || self.events.len() > IMPORT_EVENTS_MAX {
            return Err(ImportFault::Count(self.events.len()));
        }
        let read = |(index, mut envelope): (usize, EnvelopeJson<'static>)| {
            envelope.tenant.get_or_insert_with(|| into.tenant.to_string().into());
            let (stream, seq, event) = envelope
                .into_event()
                .map_err(|error| ImportFault::Event(StreamError::Event { index, error: error.into() }))?;
            if stream != *into {
                return Err(ImportFault::OtherStream { index, stream });
            }
            Ok(ImportEvent { seq, event: whole(event) })
        };
        self.events.into_iter().enumerate().map(read).collect()
    }
}

/// An event of which the host gives nothing.
fn whole(event: Event) -> EventInput {
    EventInput {
        id: Some(event.id),
        ts: Some(event.ts),
        resource_type: event.resource_type,
        resource_id: event.resource_id,
        op: event.op,
        schema_version: event.schema_version,
        node_uuid: event.node_uuid,
        correlation_id: event.correlation_id,
        cause: event.cause,
        headers: event.headers,
        content_type: event.content_type,
        body: event.body,
    }
}

/// Which subscription a ticket is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TicketRequest {
    /// As the subscription will name it, e.g. `stream:task.node.7` or `prefix:task.`.
    pub selector: String,
    /// Tenant; the credential's only one, else `default`, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// Opens one subscription to whoever shows it, as a browser's EventSource does, which can't send a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ticket {
    /// For `GET /v1/subscribe?ticket=...&selector=...`; used once.
    pub ticket: String,
    pub selector: String,
    pub tenant: String,
    /// It has to be used before.
    pub expires_at: Instant,
}

/// The `data:` of an event `error`, with which a subscription ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubscriptionEnded {
    /// Address of the page about this code, relative to the host.
    #[serde(rename = "type")]
    pub kind: String,
    /// `EVENT.LAGGED` or `EVENT.STALLED`: resume with the id of the last event. Others say what else to do.
    pub code: String,
    /// What happened.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use waybill_core::ids::Tenant;
    use waybill_core::streams::name::StreamName;

    fn stream() -> StreamKey {
        StreamKey { tenant: Tenant::new("acme").unwrap(), name: StreamName::new("task").unwrap() }
    }

    fn event(seq: u64) -> Value {
        json!({"event_id": format!("e-{seq}"), "ts_ms": 1_700_000_000_123_u64, "stream": "task", "seq": seq,
            "resource_type": "TASK", "resource_id": "t", "op": "CREATE", "schema_version": 1})
    }

    fn read(events: Vec<Value>) -> Result<Vec<ImportEvent>, ImportFault> {
        let part: ImportStream = serde_json::from_str(&json!({ "events": events }).to_string()).unwrap();
        part.into_events(&stream())
    }

    #[test]
    fn an_import_keeps_number_id_and_time() {
        let events = read(vec![event(1), event(2)]).unwrap();
        assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2]);
        let second = &events[1].event;
        assert_eq!(second.id.as_ref().map(|id| id.as_str()), Some("e-2"));
        assert_eq!(second.ts.map(|ts| ts.0), Some(1_700_000_000_123));
    }

    #[test]
    fn an_import_takes_events_of_its_stream_only() {
        let mut elsewhere = event(2);
        elsewhere["tenant"] = json!("other");
        let fault = read(vec![event(1), elsewhere]).unwrap_err();
        assert!(matches!(fault, ImportFault::OtherStream { index: 1, .. }), "{fault:?}");
        assert_eq!(read(vec![]), Err(ImportFault::Count(0)));
        let mut nameless = event(1);
        nameless["event_id"] = json!("");
        assert!(matches!(read(vec![nameless]), Err(ImportFault::Event(StreamError::Event { index: 0, .. }))));
    }
}
