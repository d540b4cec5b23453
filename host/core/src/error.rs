//! What can be wrong with input, with stable codes (`semantics.md` §7).

use std::time::Duration;

use thiserror::Error;

use crate::code::Code;

/// Result of reading input.
pub type InputResult<T> = Result<T, InputError>;

/// Something about a caller's message or setting is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InputError {
    /// A text is empty.
    #[error("{field} is empty: leave it out or give it a value")]
    Empty { field: &'static str },
    /// A text is too long.
    #[error("{field} has {bytes} bytes, at most {bytes_max} are taken")]
    TooLong { field: &'static str, bytes: usize, bytes_max: usize },
    /// A text has control characters.
    #[error("{field} holds a control character: remove line breaks and the like")]
    ControlCharacter { field: &'static str },
    /// A name or id that isn't one.
    #[error("{field} {text:?} {rule}")]
    Name {
        field: &'static str,
        /// Its beginning, as given.
        text: String,
        /// What is wrong, and what a name may be.
        rule: &'static str,
    },
    /// The topic's scheme is unknown.
    #[error("topic {topic:?} has no known scheme: use http:<url>, https://..., bus:<subject> or custom:<name>")]
    TopicScheme { topic: String },
    /// The topic's name is bad.
    #[error("topic {topic:?} needs a name without spaces after its scheme")]
    TopicName { topic: String },
    /// The topic's URL is bad.
    #[error("topic {topic:?} isn't a usable URL: {cause}")]
    TopicUrl { topic: String, cause: String },
    /// No route takes the topic.
    #[error("no route matches topic {topic:?}: add a [[route]] whose match covers it, or see `waybill config show`")]
    NoRoute { topic: String },
    /// The payload is too large.
    #[error(
        "payload has {bytes} bytes, outbox.max_payload_bytes allows {bytes_max}: send a reference, or raise the limit"
    )]
    PayloadTooLarge { bytes: usize, bytes_max: usize },
    /// Payload given twice or not decodable.
    #[error("payload isn't usable: {cause}")]
    Payload { cause: String },
    /// Headers break a bound or a rule.
    #[error("headers aren't usable: {cause}")]
    Headers { cause: String },
    /// Neither an event type nor a way to derive one (source document 5, POL-047-001).
    #[error("event_type is empty and can't be taken from the topic: give event_type")]
    NoEventType,
    /// An id twice in one request.
    #[error("it has the same id as message {first} of this request: leave one of them out")]
    IdTwice {
        /// The one before it, from 0.
        first: usize,
    },
    /// `occurred_at` lies in the future (source document 5, POL-047-002).
    #[error(
        "occurred_at is {ahead:?} ahead of the store's clock, at most {ahead_max:?} is taken: check the sender's clock"
    )]
    FutureEvent { ahead: Duration, ahead_max: Duration },
    /// The message is over before it begins.
    #[error("expires_at isn't after not_before and now: such a message would never be sent")]
    Expired,
    /// A `traceparent` that isn't one.
    #[error("traceparent {text:?} isn't a W3C trace context (version-trace-parent-flags in lower-case hex)")]
    TraceParent { text: String },
    /// A cron expression that isn't one, or that no instant matches.
    #[error("cron expression {text:?} isn't usable: {cause}")]
    Cron { text: String, cause: String },
    /// A name of no time zone.
    #[error("there is no time zone {text:?} in the IANA database that Waybill brings: write it as {meant}")]
    TimeZone {
        text: String,
        /// One that is like it, or any.
        meant: String,
    },
    /// Too many messages in one request.
    #[error("the request has {count} messages, at most {count_max} are taken: split it")]
    TooMany { count: usize, count_max: usize },
}

/// Longest beginning of a wrong name that an error repeats, in characters.
const TOLD_CHARS_MAX: usize = 64;

impl InputError {
    /// A text that isn't a name. `rule` goes on after it: what is wrong, and what a name may be.
    pub fn name(field: &'static str, text: &str, rule: &'static str) -> Self {
        Self::Name { field, text: text.chars().take(TOLD_CHARS_MAX).collect(), rule }
    }
    pub fn code(&self) -> Code {
        match self {
            Self::FutureEvent { .. } => Code::FUTURE_EVENT,
            Self::NoEventType => Code::INVALID_OUTBOX,
            Self::NoRoute { .. } => Code::OUTBOX_NO_ROUTE,
            Self::TopicScheme { .. } | Self::TopicName { .. } | Self::TopicUrl { .. } => Code::OUTBOX_TOPIC,
            Self::PayloadTooLarge { .. } => Code::OUTBOX_PAYLOAD_TOO_LARGE,
            Self::TooMany { .. } => Code::OUTBOX_TOO_MANY,
            _ => Code::SCHEMA_VALIDATION_FAILED,
        }
    }
    /// Whether it is a matter of size (HTTP 413).
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::PayloadTooLarge { .. } | Self::TooMany { .. })
    }
}
