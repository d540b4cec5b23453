//! An event as it is appended: its envelope without tenant, stream and seq, checked, and packed as it is stored.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::envelope;
use super::limits::{PAYLOAD_BYTES_MAX_DEFAULT, RESOURCE_BYTES_MAX};
use super::name::StreamName;
use crate::error::InputError;
use crate::ids::EventId;
use crate::limits::{HEADER_BYTES_MAX, HEADERS_MAX, TEXT_BYTES_MAX};
use crate::time::UnixMillis;

/// What happened to a resource. One that isn't known is kept as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op(pub i32);

impl Op {
    pub const UNSPECIFIED: Self = Self(0);
    pub const CREATE: Self = Self(1);
    pub const UPDATE: Self = Self(2);
    pub const DELETE: Self = Self(3);
    pub const UPSERT: Self = Self(4);
    pub const HEARTBEAT: Self = Self(5);
    pub const STATE_TRANSITION: Self = Self(6);

    const NAMES: [&str; 7] =
        ["OP_UNSPECIFIED", "CREATE", "UPDATE", "DELETE", "UPSERT", "HEARTBEAT", "STATE_TRANSITION"];

    /// By name, in any case; a number as text is one that isn't known by name.
    pub fn of(text: &str) -> Option<Self> {
        let known = Self::NAMES.iter().position(|name| name.eq_ignore_ascii_case(text));
        known.and_then(|at| i32::try_from(at).ok()).or_else(|| text.parse().ok()).map(Self)
    }

    /// Its name, if it has one.
    pub fn name(self) -> Option<&'static str> {
        usize::try_from(self.0).ok().and_then(|at| Self::NAMES.get(at)).copied()
    }
}

/// What an event carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Body {
    #[default]
    None,
    Any {
        type_url: String,
        value: Bytes,
    },
    /// Bytes whose kind is in `content_type`.
    Bytes(Bytes),
    /// Kept beside its chunk under the event's number ([`super::blob`]), because it is larger than
    /// [`crate::limits::INLINE_PAYLOAD_BYTES_MAX`]. Never on the wire: who reads it puts the bytes back.
    Blob {
        bytes: u32,
        /// Checksum of these bytes: the chunk's own says nothing of what lies elsewhere.
        crc: u32,
        /// Of an `Any`; none for plain bytes.
        type_url: Option<String>,
    },
}

impl Body {
    /// Bytes of the payload, wherever they lie.
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Any { value, .. } => value.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Blob { bytes, .. } => *bytes as usize,
        }
    }
    /// Whether there is none, or an empty one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The envelope of an event, without tenant, stream and seq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: EventId,
    pub ts: UnixMillis,
    pub resource_type: String,
    pub resource_id: String,
    pub op: Op,
    pub schema_version: u32,
    pub node_uuid: Option<String>,
    pub correlation_id: Option<String>,
    /// Why it happened, in words.
    pub cause: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub content_type: Option<String>,
    pub body: Body,
}

/// Why an event isn't taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EventError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("{0} is a saga's history, which is only read: append to a stream whose name doesn't begin with saga.")]
    ReadOnly(StreamName),
    #[error(
        "the payload has {bytes} bytes, events.max_payload_bytes allows {bytes_max}: send a reference, or raise the limit"
    )]
    PayloadTooLarge { bytes: usize, bytes_max: usize },
    #[error("schema_version is 0: say which version of its schema the payload has, from 1")]
    NoSchemaVersion,
    #[error("schema_version {version} isn't taken by this stream, only {first}..={last}")]
    SchemaVersion { version: u32, first: u32, last: u32 },
}

/// What is taken of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimits {
    pub payload_bytes_max: usize,
    /// Versions that the stream takes, first and last; none = any.
    pub schema_versions: Option<(u32, u32)>,
    /// The event lies in the store, where only what a text may be at all was asked when it came: its `type_url` is taken as it is.
    pub is_stored: bool,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self { payload_bytes_max: PAYLOAD_BYTES_MAX_DEFAULT, schema_versions: None, is_stored: false }
    }
}

/// Short digest of what an event says: two appends of one id are the same if it is equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventDigest(pub [u8; 16]);

/// An event that was checked and packed, ready to be numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    pub id: EventId,
    /// The caller chose the id, or it was derived from a call's key: it is looked up, and kept in the index.
    pub is_indexed: bool,
    pub packed: Bytes,
    pub digest: EventDigest,
    pub resource_type: String,
    pub node_uuid: Option<String>,
}

impl Event {
    /// Checks an event for a stream, and packs it. A node that it doesn't name is taken from the stream's name.
    pub fn admit(
        mut self,
        stream: &StreamName,
        limits: &EventLimits,
        is_indexed: bool,
    ) -> Result<NewEvent, EventError> {
        if stream.is_saga() {
            return Err(EventError::ReadOnly(stream.clone()));
        }
        self.check(limits)?;
        if self.node_uuid.is_none() {
            self.node_uuid = stream.node().map(str::to_owned);
        }
        Ok(NewEvent {
            is_indexed,
            packed: Bytes::from(envelope::pack(&self)),
            digest: self.digest(),
            resource_type: self.resource_type,
            node_uuid: self.node_uuid,
            id: self.id,
        })
    }

    fn check(&self, limits: &EventLimits) -> Result<(), EventError> {
        required("resource_type", &self.resource_type)?;
        required("resource_id", &self.resource_id)?;
        if let Some(node) = &self.node_uuid {
            required("node_uuid", node)?;
        }
        let texts =
            [("correlation_id", &self.correlation_id), ("cause", &self.cause), ("content_type", &self.content_type)];
        for (field, text) in texts {
            optional(field, text.as_deref().unwrap_or_default(), TEXT_BYTES_MAX)?;
        }
        if let Body::Any { type_url, .. } = &self.body
            && !limits.is_stored
        {
            optional("payload.type_url", type_url, TEXT_BYTES_MAX)?;
        }
        self.check_headers()?;
        let (bytes, bytes_max) = (self.body.len(), limits.payload_bytes_max);
        if bytes > bytes_max {
            return Err(EventError::PayloadTooLarge { bytes, bytes_max });
        }
        match (self.schema_version, limits.schema_versions) {
            (0, _) => Err(EventError::NoSchemaVersion),
            (version, Some((first, last))) if !(first..=last).contains(&version) => {
                Err(EventError::SchemaVersion { version, first, last })
            }
            _ => Ok(()),
        }
    }

    fn check_headers(&self) -> Result<(), InputError> {
        let refuse = |cause: String| Err(InputError::Headers { cause });
        if self.headers.len() > HEADERS_MAX {
            return refuse(format!("there are {}, at most {HEADERS_MAX} are taken", self.headers.len()));
        }
        let bytes: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > HEADER_BYTES_MAX {
            return refuse(format!("they have {bytes} bytes, at most {HEADER_BYTES_MAX} are taken"));
        }
        match self.headers.keys().find(|name| name.is_empty() || name.chars().any(char::is_control)) {
            Some(name) => refuse(format!("{name:?} isn't a name")),
            None => Ok(()),
        }
    }

    /// Over what makes a repeated append the same: everything but the id and the time, which the host may have filled in. It is said in
    /// texts, each behind its length, so that `fn::waybill::append` can say the same: in the database only texts are hashed.
    fn digest(&self) -> EventDigest {
        let mut hash = Sha256::new();
        let mut say = |text: &str| {
            hash.update(text.len().to_string());
            hash.update(":");
            hash.update(text);
        };
        say(&self.resource_type);
        say(&self.resource_id);
        say(&self.op.0.to_string());
        say(&self.schema_version.to_string());
        for text in [&self.node_uuid, &self.correlation_id, &self.cause] {
            say(text.as_deref().unwrap_or_default());
        }
        say(&self.headers.len().to_string());
        for (name, value) in &self.headers {
            say(name);
            say(value);
        }
        say(self.content_type.as_deref().unwrap_or_default());
        match &self.body {
            Body::None => say("none"),
            Body::Any { type_url, value } => {
                ["any", type_url.as_str(), STANDARD_NO_PAD.encode(value).as_str()].into_iter().for_each(say);
            }
            Body::Bytes(bytes) => ["bytes", STANDARD_NO_PAD.encode(bytes).as_str()].into_iter().for_each(say),
            Body::Blob { bytes, type_url, .. } => {
                say("blob");
                say(&bytes.to_string());
                say(type_url.as_deref().unwrap_or_default());
            }
        }
        let mut digest = EventDigest::default();
        for (to, from) in digest.0.iter_mut().zip(hash.finalize()) {
            *to = from;
        }
        digest
    }
}

fn required(field: &'static str, text: &str) -> Result<(), InputError> {
    if text.is_empty() {
        return Err(InputError::Empty { field });
    }
    optional(field, text, RESOURCE_BYTES_MAX)
}

fn optional(field: &'static str, text: &str, bytes_max: usize) -> Result<(), InputError> {
    if text.len() > bytes_max {
        return Err(InputError::TooLong { field, bytes: text.len(), bytes_max });
    }
    if text.chars().any(char::is_control) {
        return Err(InputError::ControlCharacter { field });
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn event(id: &str) -> Event {
        Event {
            id: EventId::new(id).unwrap(),
            ts: UnixMillis(1_700_000_000_000),
            resource_type: "TASK".into(),
            resource_id: "t-1".into(),
            op: Op::UPDATE,
            schema_version: 1,
            node_uuid: None,
            correlation_id: None,
            cause: None,
            headers: BTreeMap::new(),
            content_type: Some("application/json".into()),
            body: Body::Bytes(Bytes::from_static(b"{}")),
        }
    }

    fn admit(event: Event, limits: EventLimits) -> Result<NewEvent, EventError> {
        event.admit(&StreamName::new("task").unwrap(), &limits, true)
    }

    #[test]
    fn one_byte_over_the_limit_is_refused_with_the_limit() {
        let of = |bytes: usize| Event { body: Body::Bytes(Bytes::from(vec![1; bytes])), ..event("a") };
        assert!(admit(of(262_144), EventLimits::default()).is_ok());
        let error = admit(of(262_145), EventLimits::default()).unwrap_err();
        assert!(error.to_string().contains("262145 bytes") && error.to_string().contains("allows 262144"), "{error}");
    }

    #[test]
    fn an_event_names_its_resource_and_its_schema() {
        let default = EventLimits::default();
        for bad in [
            Event { resource_type: String::new(), ..event("a") },
            Event { resource_id: "x".repeat(256), ..event("a") },
            Event { cause: Some("two\nlines".into()), ..event("a") },
            Event { schema_version: 0, ..event("a") },
            Event { headers: BTreeMap::from([(String::new(), "x".into())]), ..event("a") },
        ] {
            assert!(admit(bad.clone(), default).is_err(), "{bad:?}");
        }
        let some = EventLimits { schema_versions: Some((1, 3)), ..default };
        assert!(admit(Event { schema_version: 3, ..event("a") }, some).is_ok());
        assert_eq!(
            admit(Event { schema_version: 4, ..event("a") }, some),
            Err(EventError::SchemaVersion { version: 4, first: 1, last: 3 })
        );
    }

    #[test]
    fn the_type_of_a_payload_is_bounded_as_other_texts_are() {
        let of = |type_url: String| {
            let body = Body::Any { type_url, value: Bytes::new() };
            admit(Event { body, ..event("a") }, EventLimits::default())
        };
        assert!(of(String::new()).is_ok() && of("x".repeat(TEXT_BYTES_MAX)).is_ok());
        let error = of("x".repeat(TEXT_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(error.to_string(), "payload.type_url has 513 bytes, at most 512 are taken");
        let field = "payload.type_url";
        assert_eq!(of("two\nlines".into()), Err(InputError::ControlCharacter { field }.into()));
    }

    #[test]
    fn the_same_content_has_one_digest_whatever_its_id_and_time() {
        let digest = |event: Event| admit(event, EventLimits::default()).unwrap().digest;
        let first = digest(event("a"));
        assert_eq!(first, digest(Event { ts: UnixMillis(5), ..event("b") }));
        assert_ne!(first, digest(Event { cause: Some("manual".into()), ..event("a") }));
        assert_ne!(first, digest(Event { body: Body::Bytes(Bytes::from_static(b"{ }")), ..event("a") }));
        assert_ne!(first, digest(Event { op: Op(77), ..event("a") }));
    }

    #[test]
    fn nobody_appends_to_a_sagas_history_and_a_name_tells_the_node() {
        let saga = StreamName::of_saga("a").unwrap();
        assert_eq!(event("a").admit(&saga, &EventLimits::default(), false), Err(EventError::ReadOnly(saga.clone())));
        let uuid = "0190a2f0-7b1e-7c3d-9e4f-1a2b3c4d5e6f";
        let stream = StreamName::new(format!("task.node.{uuid}")).unwrap();
        let new = event("a").admit(&stream, &EventLimits::default(), false).unwrap();
        assert_eq!(new.node_uuid.as_deref(), Some(uuid));
    }

    #[test]
    fn operations_have_names_and_others_are_kept() {
        assert_eq!((Op::of("delete"), Op::of("STATE_TRANSITION")), (Some(Op::DELETE), Some(Op::STATE_TRANSITION)));
        assert_eq!((Op::of("41"), Op::of("PURGE"), Op(41).name()), (Some(Op(41)), None, None));
    }
}
