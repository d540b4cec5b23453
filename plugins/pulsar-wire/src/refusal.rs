//! Why a broker refuses, and what follows.

use waybill_plugin::transport::{ErrorKind, Fault, Outcome, PluginError};

use crate::proto::Command;
use crate::topic::shown;

const METADATA: i32 = 1;
const PERSISTENCE: i32 = 2;
const AUTHENTICATION: i32 = 3;
const AUTHORIZATION: i32 = 4;
const CONSUMER_BUSY: i32 = 5;
const NOT_READY: i32 = 6;
const QUOTA_ERROR: i32 = 7;
const QUOTA_EXCEPTION: i32 = 8;
const CHECKSUM: i32 = 9;
const UNSUPPORTED_VERSION: i32 = 10;
const TOPIC_NOT_FOUND: i32 = 11;
const SUBSCRIPTION_NOT_FOUND: i32 = 12;
const TOO_MANY_REQUESTS: i32 = 14;
const TERMINATED: i32 = 15;
const PRODUCER_BUSY: i32 = 16;
const INVALID_TOPIC: i32 = 17;
const SCHEMA: i32 = 18;
const NOT_ALLOWED: i32 = 22;
const FENCED: i32 = 25;

/// A broker's refusal of one request or entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    number: i32,
    text: String,
}

impl Refusal {
    /// By the broker's number and words.
    pub fn new(number: i32, text: &str) -> Self {
        Self { number, text: shown(text) }
    }

    /// What an answer refuses; none if it doesn't.
    pub(crate) fn of(answer: &Command) -> Option<Self> {
        let told = |number: Option<i32>, text: &Option<String>| {
            Self::new(number.unwrap_or_default(), text.as_deref().unwrap_or_default())
        };
        match answer {
            Command::Error(error) => Some(Self::new(error.error, &error.message)),
            Command::PartitionMetadataResponse(answer) if answer.response == Some(1) => {
                Some(told(answer.error, &answer.message))
            }
            Command::LookupResponse(answer) if answer.response == Some(2) => Some(told(answer.error, &answer.message)),
            Command::ConsumerStatsResponse(answer) if answer.error_code.is_some() => {
                Some(told(answer.error_code, &answer.error_message))
            }
            Command::AckResponse(answer) if answer.error.is_some() => Some(told(answer.error, &answer.message)),
            _ => None,
        }
    }

    /// Whether the same may be granted a moment later, perhaps by another broker: the topic is on its way between brokers, or too much
    /// is asked at once.
    pub fn is_passing(&self) -> bool {
        matches!(self.number, METADATA | NOT_READY | TOO_MANY_REQUESTS)
    }

    /// Whether what was asked about isn't there.
    pub fn says_not_found(&self) -> bool {
        matches!(self.number, TOPIC_NOT_FOUND | SUBSCRIPTION_NOT_FOUND)
    }

    /// The same, with what was asked about before the broker's words, which seldom name it.
    #[must_use]
    pub fn about(self, what: &str) -> Self {
        let text = match self.text.as_str() {
            "" => what.to_owned(),
            text => format!("{what}: {text}"),
        };
        Self { text, ..self }
    }

    /// As the failure of a call.
    pub fn error(&self) -> PluginError {
        let kind = match self.number {
            AUTHENTICATION | AUTHORIZATION => ErrorKind::Denied,
            TOO_MANY_REQUESTS => ErrorKind::Throttled,
            UNSUPPORTED_VERSION => ErrorKind::Unsupported,
            INVALID_TOPIC => ErrorKind::InvalidConfig,
            _ => ErrorKind::Unavailable,
        };
        PluginError::new(kind, self.fault())
    }

    /// The fate of a message whose topic, or whose entry, was refused.
    pub fn fate(&self) -> Outcome {
        let fault = self.fault();
        match self.number {
            NOT_ALLOWED if self.is_about_size() => Outcome::Permanent(fault),
            INVALID_TOPIC => Outcome::Permanent(fault),
            // The bookies may have it all the same.
            PERSISTENCE => fault.with_after(Some(1_000)).with_maybe_delivered(true).blocking(""),
            METADATA | NOT_READY | TOO_MANY_REQUESTS => fault.with_after(Some(500)).blocking(""),
            AUTHENTICATION | AUTHORIZATION | QUOTA_ERROR | QUOTA_EXCEPTION | TOPIC_NOT_FOUND | TERMINATED
            | PRODUCER_BUSY | SCHEMA | NOT_ALLOWED => fault.blocking(""),
            _ => Outcome::Retryable(fault.with_maybe_delivered(true)),
        }
    }

    /// The fate of a message for a topic that was refused before anything was sent to it: it isn't there, and no attempt counts.
    pub fn fate_unsent(&self) -> Outcome {
        match self.fate() {
            Outcome::Retryable(fault) => fault.with_after(Some(1_000)).with_maybe_delivered(false).blocking(""),
            Outcome::Blocked(mut block) => {
                block.fault.maybe_delivered = false;
                Outcome::Blocked(block)
            }
            fate => fate,
        }
    }

    /// Whether an entry has more bytes than the broker takes.
    pub fn is_about_size(&self) -> bool {
        self.number == NOT_ALLOWED && self.text.to_ascii_lowercase().contains("size")
    }

    fn fault(&self) -> Fault {
        let code = match self.number {
            METADATA | NOT_READY => "PULSAR.NOT_READY",
            PERSISTENCE => "PULSAR.STORAGE",
            AUTHENTICATION => "PULSAR.AUTH",
            AUTHORIZATION => "PULSAR.PERMISSIONS",
            CONSUMER_BUSY => "PULSAR.CONSUMER_BUSY",
            QUOTA_ERROR | QUOTA_EXCEPTION => "PULSAR.QUOTA",
            CHECKSUM => "PULSAR.CHECKSUM",
            UNSUPPORTED_VERSION => "PULSAR.UNSUPPORTED",
            TOPIC_NOT_FOUND => "PULSAR.NO_TOPIC",
            SUBSCRIPTION_NOT_FOUND => "PULSAR.NO_SUBSCRIPTION",
            TOO_MANY_REQUESTS => "PULSAR.THROTTLED",
            TERMINATED => "PULSAR.TERMINATED",
            PRODUCER_BUSY | FENCED => "PULSAR.PRODUCER",
            INVALID_TOPIC => "PULSAR.TOPIC",
            SCHEMA => "PULSAR.SCHEMA",
            NOT_ALLOWED if self.is_about_size() => "PULSAR.MESSAGE_SIZE",
            NOT_ALLOWED => "PULSAR.NOT_ALLOWED",
            _ => "PULSAR.SERVER_ERROR",
        };
        let reason = match self.text.as_str() {
            "" => "the broker refuses and doesn't say why".to_owned(),
            text => format!("the broker refuses: {text}"),
        };
        Fault::new(code, reason).with_attribute("broker-code", self.number.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[test]
    fn a_refused_message_has_a_fate_by_the_number() {
        for (number, text, expected) in [
            (0, "", "retryable PULSAR.SERVER_ERROR"),
            (PERSISTENCE, "not enough bookies", "blocked PULSAR.STORAGE"),
            (AUTHORIZATION, "", "blocked PULSAR.PERMISSIONS"),
            (NOT_READY, "Namespace bundle is being unloaded", "blocked PULSAR.NOT_READY"),
            (QUOTA_EXCEPTION, "", "blocked PULSAR.QUOTA"),
            (CHECKSUM, "", "retryable PULSAR.CHECKSUM"),
            (TOPIC_NOT_FOUND, "", "blocked PULSAR.NO_TOPIC"),
            (TERMINATED, "", "blocked PULSAR.TERMINATED"),
            (INVALID_TOPIC, "", "permanent PULSAR.TOPIC"),
            (NOT_ALLOWED, "Exceed maximum message size", "permanent PULSAR.MESSAGE_SIZE"),
            (NOT_ALLOWED, "the topic is migrated", "blocked PULSAR.NOT_ALLOWED"),
            (FENCED, "", "retryable PULSAR.PRODUCER"),
            (99, "", "retryable PULSAR.SERVER_ERROR"),
        ] {
            let found = match Refusal::new(number, text).fate() {
                Outcome::Retryable(fault) => format!("retryable {}", fault.code),
                Outcome::Permanent(fault) => format!("permanent {}", fault.code),
                Outcome::Blocked(block) => format!("blocked {}", block.fault.code),
                other => panic!("{other:?}"),
            };
            assert_eq!(found, expected, "{number} {text}");
        }
    }

    #[test]
    fn what_was_refused_before_it_was_sent_burns_no_attempt_and_is_nowhere() {
        for number in [0, METADATA, PERSISTENCE, AUTHORIZATION, NOT_READY, CHECKSUM, PRODUCER_BUSY, FENCED, 99] {
            let Outcome::Blocked(block) = Refusal::new(number, "").fate_unsent() else { panic!("{number}") };
            assert!(!block.fault.maybe_delivered, "{number}");
        }
        assert!(matches!(Refusal::new(INVALID_TOPIC, "").fate_unsent(), Outcome::Permanent(_)));
    }

    #[test]
    fn what_only_an_operator_can_mend_is_denied() {
        for (number, kind) in [
            (AUTHENTICATION, ErrorKind::Denied),
            (AUTHORIZATION, ErrorKind::Denied),
            (NOT_READY, ErrorKind::Unavailable),
            (TOO_MANY_REQUESTS, ErrorKind::Throttled),
        ] {
            let error = Refusal::new(number, "").error();
            assert_eq!(error.kind, kind);
            assert_eq!(error.fault.attributes, [("broker-code".to_owned(), number.to_string())]);
        }
    }
}
