//! What a request names that isn't there.

use std::fmt;

use crate::code::Code;

/// What isn't there, or belongs to a tenant that the caller may not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Message,
    /// A dead letter of any kind.
    DeadLetter,
    Operation,
    /// What a bulk operation would do.
    OperationKind,
    Transport,
    /// A route to the transport that workers claim from.
    ExternalRoute,
    IdempotencyKey,
    /// A row in quarantine.
    QuarantinedRow,
    Saga,
    Tenant,
    /// A received message.
    InboxMessage,
    /// A consumer of received messages.
    Consumer,
    /// A source of messages.
    Source,
    /// A stream that never had an event.
    Stream,
    /// What brings events of streams to a broker.
    Relay,
}

impl Missing {
    pub fn code(self) -> Code {
        match self {
            Self::Message | Self::Tenant => Code::OUTBOX_NOT_FOUND,
            Self::DeadLetter => Code::DEAD_NOT_FOUND,
            Self::Operation | Self::OperationKind => Code::OPERATION_NOT_FOUND,
            Self::Transport | Self::ExternalRoute => Code::TRANSPORT_NOT_FOUND,
            Self::IdempotencyKey => Code::TX_IDEMPOTENT_NOT_FOUND,
            Self::QuarantinedRow => Code::QUARANTINE_NOT_FOUND,
            Self::Saga => Code::SAGA_NOT_FOUND,
            Self::InboxMessage | Self::Consumer => Code::INBOX_NOT_FOUND,
            Self::Source => Code::SOURCE_NOT_FOUND,
            Self::Stream => Code::STREAM_NOT_FOUND,
            Self::Relay => Code::RELAY_NOT_FOUND,
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message => "message",
            Self::DeadLetter => "dead letter",
            Self::Operation => "operation",
            Self::OperationKind => {
                "kind of operation (replay, quarantine, purge, pause, resume, cancel, kill, retry, accept)"
            }
            Self::Transport => "transport",
            Self::ExternalRoute => "route to the transport",
            Self::IdempotencyKey => "idempotency key",
            Self::QuarantinedRow => "row in quarantine",
            Self::Saga => "saga",
            Self::Tenant => "tenant",
            Self::InboxMessage => "received message",
            Self::Consumer => "consumer",
            Self::Source => "source",
            Self::Stream => "stream",
            Self::Relay => "relay",
        })
    }
}
