//! Why a server closes a connection or a channel, and what follows.

use waybill_plugin::transport::{ErrorKind, Fault, Outcome, PluginError};

use crate::codec::Closing;
use crate::text::shown;

/// The server is stopped, or an operator closed the connection.
const CONNECTION_FORCED: u16 = 320;
const CONTENT_TOO_LARGE: u16 = 311;
const INVALID_PATH: u16 = 402;
const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const RESOURCE_LOCKED: u16 = 405;
const PRECONDITION_FAILED: u16 = 406;
const RESOURCE_ERROR: u16 = 506;
const NOT_ALLOWED: u16 = 530;
const INTERNAL_ERROR: u16 = 541;

/// What a server closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole connection.
    Connection,
    /// One channel; the connection is well.
    Channel,
}

/// What a server said when it closed a connection or a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    scope: Scope,
    code: u16,
    text: String,
}

impl Refusal {
    /// What the server said of its reason.
    pub fn new(scope: Scope, closing: &Closing<'_>) -> Self {
        Self { scope, code: closing.code, text: shown(&closing.text()) }
    }

    /// Whether a message may have brought it about: then those under way go alone the next time, and it is found.
    pub fn blames_a_message(&self) -> bool {
        self.code != CONNECTION_FORCED
    }

    /// Whether the connection is well.
    pub fn is_of_the_channel(&self) -> bool {
        self.scope == Scope::Channel
    }

    /// The server's own words.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// There is no such exchange or queue.
    pub fn says_not_found(&self) -> bool {
        self.code == NOT_FOUND
    }

    /// It is there and different, or somebody else's.
    pub fn says_conflict(&self) -> bool {
        matches!(self.code, PRECONDITION_FAILED | RESOURCE_LOCKED)
    }

    /// As the failure of a call.
    pub fn error(&self) -> PluginError {
        let (kind, code) = match self.code {
            CONNECTION_FORCED => (ErrorKind::Unavailable, "RABBITMQ.CLOSED"),
            INVALID_PATH | NOT_ALLOWED if self.text.contains("limit") => {
                (ErrorKind::Unavailable, "RABBITMQ.MAX_CONNECTIONS")
            }
            INVALID_PATH | NOT_ALLOWED => (ErrorKind::Denied, "RABBITMQ.VHOST"),
            ACCESS_REFUSED if self.scope == Scope::Connection => (ErrorKind::Denied, "RABBITMQ.AUTH"),
            ACCESS_REFUSED => (ErrorKind::Denied, "RABBITMQ.PERMISSIONS"),
            RESOURCE_ERROR | INTERNAL_ERROR => (ErrorKind::Unavailable, "RABBITMQ.UNAVAILABLE"),
            NOT_FOUND => (ErrorKind::Unavailable, "RABBITMQ.NO_EXCHANGE"),
            _ if self.scope == Scope::Channel => (ErrorKind::Unavailable, "RABBITMQ.CHANNEL_CLOSED"),
            _ => (ErrorKind::Unavailable, "RABBITMQ.SERVER_ERROR"),
        };
        PluginError::new(kind, self.fault(code))
    }

    /// The fate of the one message that was under way when the server closed the channel: it is why.
    pub fn fate(&self) -> Outcome {
        let fault = |code| self.fault(code);
        match (self.scope, self.code) {
            (Scope::Channel, NOT_FOUND) => fault("RABBITMQ.NO_EXCHANGE").blocking(""),
            (Scope::Channel, ACCESS_REFUSED) => fault("RABBITMQ.PERMISSIONS").blocking(""),
            (Scope::Channel, PRECONDITION_FAILED) if self.text.contains("size") => {
                Outcome::Permanent(fault("RABBITMQ.MESSAGE_SIZE"))
            }
            (Scope::Channel, CONTENT_TOO_LARGE) => Outcome::Permanent(fault("RABBITMQ.MESSAGE_SIZE")),
            (Scope::Channel, PRECONDITION_FAILED) => Outcome::Permanent(fault("RABBITMQ.REFUSED_MESSAGE")),
            _ => Outcome::Retryable(self.error().fault.with_maybe_delivered(true)),
        }
    }

    /// Whether the server refuses to take messages for this exchange and routing key. It names the exchange, and the key
    /// where that is what we may not write to.
    pub fn is_about(&self, exchange: &str, routing_key: &str) -> bool {
        let names = |name: &str| self.text.contains(&format!("'{name}'"));
        self.scope == Scope::Channel
            && self.code == ACCESS_REFUSED
            && names(exchange)
            && (!self.text.contains("topic '") || names(routing_key))
    }

    fn fault(&self, code: &str) -> Fault {
        let what = match self.scope {
            Scope::Connection => "the connection",
            Scope::Channel => "the channel",
        };
        let fault = Fault::new(code, format!("the server closed {what}: {}", self.text));
        fault.with_attribute("broker-code", self.code.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    fn refusal(scope: Scope, code: u16, text: &str) -> Refusal {
        Refusal { scope, code, text: text.to_owned() }
    }

    #[test]
    fn a_closed_connection_is_sorted_by_its_code() {
        for (code, text, kind, name) in [
            (
                320,
                "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
                ErrorKind::Unavailable,
                "RABBITMQ.CLOSED",
            ),
            (
                403,
                "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN.",
                ErrorKind::Denied,
                "RABBITMQ.AUTH",
            ),
            (530, "NOT_ALLOWED - vhost nowhere not found", ErrorKind::Denied, "RABBITMQ.VHOST"),
            (
                530,
                "NOT_ALLOWED - access to vhost '/' refused for user 'u': connection limit (1) is reached",
                ErrorKind::Unavailable,
                "RABBITMQ.MAX_CONNECTIONS",
            ),
            (541, "INTERNAL_ERROR - Cannot connect to vhost", ErrorKind::Unavailable, "RABBITMQ.UNAVAILABLE"),
            (501, "FRAME_ERROR - type 2", ErrorKind::Unavailable, "RABBITMQ.SERVER_ERROR"),
        ] {
            let error = refusal(Scope::Connection, code, text).error();
            assert_eq!((error.kind, error.fault.code.as_str()), (kind, name), "{text}");
            assert_eq!(error.fault.attributes, [("broker-code".to_owned(), code.to_string())]);
        }
        assert!(!refusal(Scope::Connection, 320, "").blames_a_message());
        assert!(refusal(Scope::Connection, 501, "").blames_a_message());
    }

    #[test]
    fn the_only_message_under_way_is_to_blame_for_a_closed_channel() {
        for (scope, code, text, expected) in [
            (Scope::Channel, 404, "NOT_FOUND - no exchange 'x' in vhost '/'", "blocked RABBITMQ.NO_EXCHANGE"),
            (Scope::Channel, 403, "ACCESS_REFUSED - access to exchange 'x'", "blocked RABBITMQ.PERMISSIONS"),
            (
                Scope::Channel,
                406,
                "PRECONDITION_FAILED - message size 9 is larger than configured max size 8",
                "permanent RABBITMQ.MESSAGE_SIZE",
            ),
            (Scope::Channel, 406, "PRECONDITION_FAILED - invalid expiration", "permanent RABBITMQ.REFUSED_MESSAGE"),
            (Scope::Channel, 541, "INTERNAL_ERROR", "retryable RABBITMQ.UNAVAILABLE"),
            (Scope::Channel, 504, "CHANNEL_ERROR", "retryable RABBITMQ.CHANNEL_CLOSED"),
            (Scope::Connection, 502, "SYNTAX_ERROR", "retryable RABBITMQ.SERVER_ERROR"),
        ] {
            let found = match refusal(scope, code, text).fate() {
                Outcome::Retryable(fault) => format!("retryable {}", fault.code),
                Outcome::Permanent(fault) => format!("permanent {}", fault.code),
                Outcome::Blocked(block) => format!("blocked {}", block.fault.code),
                other => panic!("{other:?}"),
            };
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_refused_exchange_or_topic_is_named() {
        let exchange =
            refusal(Scope::Channel, 403, "ACCESS_REFUSED - access to exchange 'a' in vhost '/' refused for user 'u'");
        assert!(exchange.is_about("a", "anything") && !exchange.is_about("b", "anything"));
        let topic = refusal(
            Scope::Channel,
            403,
            "ACCESS_REFUSED - access to topic 'k' in exchange 'a' in vhost '/' refused for user 'u'",
        );
        assert!(topic.is_about("a", "k") && !topic.is_about("a", "l") && !topic.is_about("b", "k"));
        assert!(!refusal(Scope::Channel, 404, "no exchange 'a'").is_about("a", ""));
    }
}
