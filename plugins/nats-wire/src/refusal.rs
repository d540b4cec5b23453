//! `-ERR`: what a server says when it refuses something beside JetStream's answers.

use waybill_plugin::transport::{ErrorKind, Fault, PluginError};

use crate::text::shown;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// We may not publish to this subject. The connection stays.
    Publish(String),
    /// Everything else ends the connection: why, and whether only an operator can mend it.
    Connection {
        /// Code for the operator.
        code: &'static str,
        /// The server's own words.
        reason: String,
        /// Credentials, rights or settings.
        denied: bool,
    },
}

/// Sorts out the text of an `-ERR`. Servers promise no exact words, so it looks for the known parts of them.
pub(crate) fn sort(text: &str) -> Refusal {
    let lower = text.to_ascii_lowercase();
    if lower.contains("permissions violation for publish")
        && let Some(subject) = quoted(text)
    {
        return Refusal::Publish(subject.to_owned());
    }
    let (code, denied) = [
        ("permissions violation", "NATS.PERMISSIONS", true),
        ("authorization violation", "NATS.AUTH", true),
        ("authentication expired", "NATS.AUTH", true),
        ("authentication revoked", "NATS.AUTH", true),
        ("authentication timeout", "NATS.AUTH_TIMEOUT", false),
        ("tls required", "NATS.TLS", true),
        ("maximum payload", "NATS.MAX_PAYLOAD", false),
        ("stale connection", "NATS.STALE", false),
        ("slow consumer", "NATS.SLOW_CONSUMER", false),
        ("maximum connections", "NATS.MAX_CONNECTIONS", false),
        ("maximum account active connections", "NATS.MAX_CONNECTIONS", false),
    ]
    .into_iter()
    .find(|(part, _, _)| lower.contains(part))
    .map_or(("NATS.SERVER_ERROR", false), |(_, code, denied)| (code, denied));
    Refusal::Connection { code, reason: shown(text), denied }
}

impl Refusal {
    /// As the failure of a call.
    pub(crate) fn error(&self) -> PluginError {
        match self {
            Self::Publish(subject) => PluginError::denied("NATS.PERMISSIONS", no_publish(subject)),
            Self::Connection { code, reason, denied } => {
                let kind = if *denied { ErrorKind::Denied } else { ErrorKind::Unavailable };
                PluginError::new(kind, Fault::new(*code, format!("the server refused us: {reason}")))
            }
        }
    }
}

/// Why a subject is blocked.
pub fn no_publish(subject: &str) -> String {
    format!("our user may not publish to `{}`: allow it in the server's permissions", shown(subject))
}

/// The part in double quotes.
fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_subject_is_named_and_leaves_the_connection() {
        assert_eq!(sort("Permissions Violation for Publish to \"a.b\""), Refusal::Publish("a.b".to_owned()));
    }

    #[test]
    fn what_an_operator_has_to_mend_is_denied() {
        for (text, code, kind) in [
            ("Authorization Violation", "NATS.AUTH", ErrorKind::Denied),
            ("User Authentication Expired", "NATS.AUTH", ErrorKind::Denied),
            ("Account Authentication Expired", "NATS.AUTH", ErrorKind::Denied),
            ("Permissions Violation for Subscription to \"_INBOX.>\"", "NATS.PERMISSIONS", ErrorKind::Denied),
            ("Secure Connection - TLS Required", "NATS.TLS", ErrorKind::Denied),
            ("Maximum Payload Violation", "NATS.MAX_PAYLOAD", ErrorKind::Unavailable),
            ("Stale Connection", "NATS.STALE", ErrorKind::Unavailable),
            ("maximum connections exceeded", "NATS.MAX_CONNECTIONS", ErrorKind::Unavailable),
            ("Unknown Protocol Operation", "NATS.SERVER_ERROR", ErrorKind::Unavailable),
        ] {
            let error = sort(text).error();
            assert_eq!((error.fault.code.as_str(), error.kind), (code, kind), "{text}");
        }
    }
}
