//! The event that a step or a handler leaves. What its record in the contract has no member for, it says by attributes.

use std::collections::BTreeMap;

use crate::error::{InputError, InputResult};
use crate::ids::EventId;
use crate::message::Headers;
use crate::port::followup::StreamEvent;
use crate::port::service::streams::EventInput;
use crate::streams::event::{Body, Op};
use crate::streams::name::StreamName;

const OP_RULE: &str =
    "isn't an operation: write CREATE, UPDATE, DELETE, UPSERT, HEARTBEAT, STATE_TRANSITION, or the number of another";
const NUMBER_RULE: &str = "isn't a number that it takes";
/// Version of the schema of a component that says none.
const SCHEMA_VERSION_DEFAULT: u32 = 1;

/// An attribute of `stream-event` that the host reads; others change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventAttribute {
    /// An id of the component's choice; absent, one is derived from the call.
    EventId,
    /// Version of the payload's schema, decimal; 1 if absent.
    SchemaVersion,
    /// The number that the stream has to end at, decimal.
    ExpectedSeq,
    NodeUuid,
    CorrelationId,
    /// Goes on as the header of this name.
    CausationId,
    /// Why it happened, in words.
    Cause,
}

impl EventAttribute {
    pub const ALL: [Self; 7] = [
        Self::EventId,
        Self::SchemaVersion,
        Self::ExpectedSeq,
        Self::NodeUuid,
        Self::CorrelationId,
        Self::CausationId,
        Self::Cause,
    ];

    /// Its name in the contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EventId => "event-id",
            Self::SchemaVersion => "schema-version",
            Self::ExpectedSeq => "expected-seq",
            Self::NodeUuid => "node-uuid",
            Self::CorrelationId => "correlation-id",
            Self::CausationId => "causation-id",
            Self::Cause => "cause",
        }
    }

    /// Its text; an empty one is none.
    fn of(self, event: &StreamEvent) -> Option<&str> {
        let found = event.attributes.iter().find(|(name, _)| name == self.name());
        found.map(|(_, text)| text.as_str()).filter(|text| !text.is_empty())
    }

    fn number<N: std::str::FromStr>(self, event: &StreamEvent) -> InputResult<Option<N>> {
        let read = |text: &str| text.parse().map_err(|_| InputError::name(self.name(), text, NUMBER_RULE));
        self.of(event).map(read).transpose()
    }
}

/// An event of a component as it is appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftEvent {
    pub stream: StreamName,
    pub event: EventInput,
    /// Only if the stream ends at this number.
    pub expected_seq: Option<u64>,
}

impl LeftEvent {
    /// Reads what a component left. What an event may hold at all is checked when it is appended.
    pub fn read(left: StreamEvent) -> InputResult<Self> {
        let text = |attribute: EventAttribute| attribute.of(&left).map(str::to_owned);
        let op = Op::of(&left.op).ok_or_else(|| InputError::name("op", &left.op, OP_RULE))?;
        let mut headers = once_each(&left.headers);
        if let Some(causation_id) = text(EventAttribute::CausationId) {
            headers.insert(EventAttribute::CausationId.name().to_owned(), causation_id);
        }
        let event = EventInput {
            id: EventAttribute::EventId.of(&left).map(EventId::new).transpose()?,
            ts: None,
            op,
            schema_version: EventAttribute::SchemaVersion.number(&left)?.unwrap_or(SCHEMA_VERSION_DEFAULT),
            node_uuid: text(EventAttribute::NodeUuid),
            correlation_id: text(EventAttribute::CorrelationId),
            cause: text(EventAttribute::Cause),
            headers,
            resource_type: left.resource_type.clone(),
            resource_id: left.resource_id.clone(),
            content_type: left.content_type.clone(),
            body: Body::Bytes(left.payload.clone()),
        };
        let expected_seq = EventAttribute::ExpectedSeq.number(&left)?;
        Ok(Self { stream: StreamName::new(&left.stream)?, event, expected_seq })
    }
}

/// An event has each header once: what repeats is joined, as in HTTP.
fn once_each(headers: &Headers) -> BTreeMap<String, String> {
    let mut once: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        match once.get_mut(name) {
            Some(before) => {
                before.push_str(", ");
                before.push_str(value);
            }
            None => {
                once.insert(name.clone(), value.clone());
            }
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTRACT: &str = include_str!("../../../../../docs/plugin-contract.md");

    fn left(attributes: &[(&str, &str)]) -> StreamEvent {
        let pair = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        StreamEvent {
            stream: "task".into(),
            resource_type: "TASK".into(),
            resource_id: "t-1".into(),
            op: "create".into(),
            content_type: Some("text/plain".into()),
            payload: "x".into(),
            headers: [("a", "1"), ("b", "2"), ("a", "3")].iter().map(pair).collect(),
            attributes: attributes.iter().map(pair).collect(),
        }
    }

    #[test]
    fn every_attribute_that_is_read_is_registered() {
        let rows: Vec<&str> = CONTRACT.lines().filter(|line| line.starts_with("| `stream-event` |")).collect();
        for attribute in EventAttribute::ALL {
            let name = format!("`{}`", attribute.name());
            assert!(rows.iter().any(|row| row.contains(&name)), "{rows:?} lack {name}");
        }
    }

    #[test]
    fn a_component_says_by_attributes_what_its_record_has_no_member_for() {
        let given = EventAttribute::ALL.map(|attribute| (attribute.name(), "7"));
        let read = LeftEvent::read(left(&given)).unwrap();
        let event = read.event;
        assert_eq!((event.id, read.expected_seq, event.schema_version), (Some(EventId::new("7").unwrap()), Some(7), 7));
        for text in [&event.node_uuid, &event.correlation_id, &event.cause] {
            assert_eq!(text.as_deref(), Some("7"));
        }
        let headers: Vec<_> = event.headers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(headers, [("a", "1, 3"), ("b", "2"), ("causation-id", "7")]);
        assert_eq!((event.op, event.body), (Op::CREATE, Body::Bytes("x".into())));
    }

    #[test]
    fn what_a_component_leaves_out_is_the_hosts_to_give() {
        let read = LeftEvent::read(left(&[("cause", ""), ("shop", "eu")])).unwrap();
        let event = read.event;
        assert_eq!((event.id, event.ts, event.schema_version, read.expected_seq), (None, None, 1, None));
        assert_eq!((event.cause, event.headers.get("causation-id")), (None, None));
    }

    #[test]
    fn what_can_not_be_read_is_named() {
        let long = "x".repeat(129);
        for (attribute, text) in [("schema-version", "-1"), ("expected-seq", "last"), ("event-id", long.as_str())] {
            let error = LeftEvent::read(left(&[(attribute, text)])).unwrap_err().to_string();
            assert!(error.replace('_', "-").contains(attribute), "{error}");
        }
        let error = |change: fn(&mut StreamEvent)| {
            let mut event = left(&[]);
            change(&mut event);
            LeftEvent::read(event).unwrap_err().to_string()
        };
        assert!(error(|event| event.op = "purge".into()).contains("STATE_TRANSITION"));
        assert!(error(|event| event.stream = "a b".into()).contains("stream"));
    }
}
