//! Dead letters of both kinds as the API sees them: messages that can't be delivered, and sagas whose compensation is
//! stuck.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::Tenant;
use crate::port::saga::{Acted, RetryMode};
use crate::port::service::MessageView;
use crate::saga::records::SagaDead;

/// Why a stuck saga can't be edited, and what can be done.
pub const NOTHING_TO_EDIT: &str =
    "it is a stuck saga and has no payload to edit: replay it, skip its step, or end it with accept";

/// Kind of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeadKind {
    /// A message that wasn't delivered.
    Message,
    /// A saga whose compensation failed for good.
    Saga,
}

impl DeadKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Message, Self::Saga];

    /// In a word, as in filters and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Saga => "saga",
        }
    }
}

/// Which dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadId {
    /// Whose.
    pub tenant: Tenant,
    /// Id of the message, or of the saga (of its root or of a sub-saga).
    pub id: String,
    /// Of which kind; none = whichever there is, which has to be one only.
    pub kind: Option<DeadKind>,
}

impl DeadId {
    /// One of either kind.
    pub fn new(tenant: &Tenant, id: &str) -> Self {
        Self { tenant: tenant.clone(), id: id.to_owned(), kind: None }
    }

    /// Whether one of this kind may be meant.
    pub fn takes(&self, kind: DeadKind) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
    }
}

/// A dead letter as shown.
#[derive(Clone, Debug, PartialEq)]
pub enum DeadView {
    /// A message.
    Message(Box<MessageView>),
    /// A stuck saga.
    Saga(Arc<SagaDead>),
}

impl DeadView {
    /// Its kind.
    pub fn kind(&self) -> DeadKind {
        match self {
            Self::Message(_) => DeadKind::Message,
            Self::Saga(_) => DeadKind::Saga,
        }
    }

    /// The message, if it is one.
    pub fn message(&self) -> Option<&MessageView> {
        match self {
            Self::Message(message) => Some(message),
            Self::Saga(_) => None,
        }
    }

    /// The stuck saga, if it is one.
    pub fn saga(&self) -> Option<&SagaDead> {
        match self {
            Self::Message(_) => None,
            Self::Saga(saga) => Some(saga),
        }
    }
}

/// How a dead letter is put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Of a stuck saga: which way it goes on; none = the failed compensation again. A message takes none.
    pub mode: Option<RetryMode>,
    /// Why, for the audit.
    pub reason: String,
}

impl Replay {
    /// In the usual way.
    pub fn because(reason: &str) -> Self {
        Self { mode: None, reason: reason.to_owned() }
    }
}

/// What became of a replay.
#[derive(Clone, Debug, PartialEq)]
pub enum Replayed {
    /// The message, pending again.
    Message(Box<MessageView>),
    /// The saga goes on.
    Saga {
        /// Whose.
        tenant: Tenant,
        /// The root and its state.
        acted: Acted,
    },
}

impl Replayed {
    /// The message, if it was one.
    pub fn message(&self) -> Option<&MessageView> {
        match self {
            Self::Message(message) => Some(message),
            Self::Saga { .. } => None,
        }
    }
}
