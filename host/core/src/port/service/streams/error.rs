//! Why a request about streams fails, and the code that it is told by.

use thiserror::Error;

use crate::code::Code;
use crate::ids::{EventId, RelayName};
use crate::streams::event::EventError;
use crate::streams::exact::ExactRefusal;
use crate::streams::name::{StreamKey, StreamName};
use crate::streams::reading::{PageError, TokenError};

/// Why a request about streams failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// `index` names the event in the request, from 0.
    #[error("event {index}: {error}")]
    Event { index: usize, error: EventError },
    #[error(transparent)]
    Exact(#[from] ExactRefusal),
    #[error("event id {id} was used before with other content: choose another id, or send exactly the same again")]
    IdTaken { id: EventId },
    /// An append goes into one commit, or not at all.
    #[error("the append has {bytes} bytes with all its events, at most {bytes_max} are taken at once: split it")]
    AppendTooLarge { bytes: usize, bytes_max: usize },
    #[error("{0} is a saga's history, which is only read: it goes with its saga, `saga.keep_done` after its end")]
    History(StreamName),
    #[error(transparent)]
    Read(#[from] PageError),
    /// Something that a reader of many streams should have had next is gone.
    #[error("events behind this cursor aren't kept any more: begin again without one")]
    Expired,
    #[error("events can't be read: {0}")]
    Unreadable(String),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("cursor {text:?} isn't one of this subscription: use the text of the last event's id, or none")]
    Cursor { text: String },
    /// Its number says nothing of what a reader of a prefix gets.
    #[error(
        "the cursor names stream {0}, which this subscription doesn't read: leave it out, or subscribe to it by its name"
    )]
    CursorStream(StreamName),
    #[error("{0} isn't empty: events are imported into streams that never had one")]
    NotEmpty(StreamKey),
    /// An import has a number where this one, or one behind it, belongs.
    #[error("event {index} has seq {seq}, where {expected} comes next, or a later one: numbers rise")]
    ImportOrder { index: usize, seq: u64, expected: u64 },
    #[error("relay {relay} can't go to {asked} in {stream}, which has {first} to {last}")]
    Seek { relay: RelayName, stream: StreamKey, asked: u64, first: u64, last: u64 },
    #[error("relay {relay} doesn't take {stream}")]
    NotRelayed { relay: RelayName, stream: StreamKey },
}

impl StreamError {
    pub fn code(&self) -> Code {
        match self {
            Self::Event { error, .. } => match error {
                EventError::Input(error) => error.code(),
                EventError::ReadOnly(_) => Code::STREAM_READ_ONLY,
                EventError::PayloadTooLarge { .. } => Code::EVENT_PAYLOAD_TOO_LARGE,
                EventError::NoSchemaVersion | EventError::SchemaVersion { .. } => Code::SCHEMA_VERSION,
            },
            Self::Exact(refusal) => refusal.code(),
            Self::IdTaken { .. } => Code::EVENT_ID_TAKEN,
            Self::History(_) => Code::STREAM_READ_ONLY,
            Self::ImportOrder { .. } => Code::SCHEMA_VALIDATION_FAILED,
            Self::AppendTooLarge { .. } => Code::EVENT_PAYLOAD_TOO_LARGE,
            Self::Read(PageError::Expired { .. }) | Self::Expired => Code::EVENT_CURSOR_EXPIRED,
            Self::Read(PageError::Ahead { .. }) => Code::EVENT_CURSOR_AHEAD,
            Self::Read(PageError::Unreadable { .. }) | Self::Unreadable(_) => Code::STORAGE_CORRUPT,
            Self::Token(_) | Self::Cursor { .. } | Self::CursorStream(_) => Code::EVENT_CURSOR,
            Self::NotEmpty(_) => Code::STREAM_NOT_EMPTY,
            Self::Seek { .. } | Self::NotRelayed { .. } => Code::RELAY_SEEK,
        }
    }
}
