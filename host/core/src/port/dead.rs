//! Which dead letter is meant: a message that can't be delivered, a saga whose compensation is stuck, a received message that can't be
//! handled, or an event of a stream that can't be numbered or relayed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::Tenant;

/// Why a stuck saga can't be edited, and what can be done.
pub const NOTHING_TO_EDIT: &str =
    "it is a stuck saga and has no payload to edit: replay it, skip its step, or end it with accept";

/// Why an event of a stream can't be edited, and what can be done.
pub const EVENTS_STAY: &str =
    "it is an event of a stream, which stays as it was appended: replay it, or append another one and purge it";

/// Kind of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = DeadLetterKind)]
pub enum DeadKind {
    /// A message that wasn't delivered.
    Message,
    /// A saga whose compensation failed for good.
    Saga,
    /// A received message that couldn't be handled.
    Inbox,
    /// An event of a stream that a relay's broker refused, or that couldn't be numbered.
    Event,
}

impl DeadKind {
    pub const ALL: [Self; 4] = [Self::Message, Self::Saga, Self::Inbox, Self::Event];

    /// In a word, as in filters and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Saga => "saga",
            Self::Inbox => "inbox",
            Self::Event => "event",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadId {
    pub tenant: Tenant,
    /// Id of the message, or of the saga (of its root or of a sub-saga). Of a received message its place
    /// ([`crate::inbox::place::InboxPlace`]), which is unique, or its sender's id, which has to be one only. Of an event its place
    /// ([`crate::streams::dead::StreamDeadPlace`]).
    pub id: String,
    /// Of which kind; none = whichever there is, which has to be one only.
    pub kind: Option<DeadKind>,
}

impl DeadId {
    /// One of any kind.
    pub fn new(tenant: &Tenant, id: &str) -> Self {
        Self { tenant: tenant.clone(), id: id.to_owned(), kind: None }
    }

    /// Whether one of this kind may be meant.
    pub fn takes(&self, kind: DeadKind) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
    }
}
