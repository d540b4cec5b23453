//! Reason codes of the server: what is at fault, and what follows.

use waybill_plugin::transport::{ErrorKind, Fault, Outcome, PluginError};

/// What is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// This message, for ever.
    Message,
    /// This message, this time.
    Attempt,
    /// Its topic: an operator has to act, or the server has no room there for now.
    Topic,
    /// The server, for a while: nothing can be sent.
    Server,
    /// Our credentials, rights or settings: nothing can be sent.
    Denied,
    /// The server can't do it.
    Unsupported,
    /// Somebody else goes by our name.
    Fenced,
}

/// A refusal of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is at fault.
    pub class: Class,
    code: &'static str,
    reason: String,
    number: u8,
}

/// The topic exists for nobody: a success.
pub const NO_SUBSCRIBERS: u8 = 0x10;
/// From here on a reason code is a refusal.
pub const REFUSED: u8 = 0x80;
/// The server doesn't speak this version.
pub const OTHER_VERSION: u8 = 0x84;

/// Longest text of a server that is shown.
const SHOWN_LETTERS_MAX: usize = 200;

/// What a server answers to a message, or ends a connection with because of one.
const OF_MESSAGES: &[(u8, Class, &str, &str)] = &[
    (0x87, Class::Topic, "MQTT.PERMISSIONS", "our user may not publish there: allow it the topic"),
    (0x90, Class::Topic, "MQTT.REFUSED_TOPIC", "the server takes no such topic"),
    (0x95, Class::Message, "MQTT.MAX_PACKET", "the message is larger than the server takes"),
    (0x97, Class::Topic, "MQTT.QUOTA", "the server has no room for more"),
    (0x99, Class::Message, "MQTT.PAYLOAD_FORMAT", "the payload isn't what its media type says"),
    (0x9a, Class::Topic, "MQTT.RETAIN", "the server retains nothing: leave `retain` out"),
];

/// What a server answers to a login, or ends a connection with.
const OF_CONNECTIONS: &[(u8, Class, &str, &str)] = &[
    (OTHER_VERSION, Class::Unsupported, "MQTT.VERSION", "the server doesn't speak this version: set `version`"),
    (0x85, Class::Denied, "MQTT.CLIENT_ID", "the server takes no client of this name: set `client_id`"),
    (0x86, Class::Denied, "MQTT.AUTH", "user or password are wrong"),
    (0x87, Class::Denied, "MQTT.AUTH", "the server doesn't let our user or client in"),
    (0x88, Class::Server, "MQTT.BUSY", "the server isn't ready"),
    (0x89, Class::Server, "MQTT.BUSY", "the server has too much to do"),
    (0x8a, Class::Denied, "MQTT.AUTH", "the server has banned our user or client"),
    (0x8b, Class::Server, "MQTT.BUSY", "the server shuts down"),
    (0x8c, Class::Denied, "MQTT.AUTH", "the server wants another way of logging in than user and password"),
    (0x8d, Class::Server, "MQTT.STALE", "the server heard nothing of us for too long"),
    (0x8e, Class::Fenced, "MQTT.TAKEN_OVER", "another client came with the same `client_id`"),
    (0x96, Class::Server, "MQTT.BUSY", "the server wants messages more slowly"),
    (0x97, Class::Server, "MQTT.QUOTA", "a quota of the server is used up"),
    (0x98, Class::Server, "MQTT.CLOSED", "somebody ended the connection at the server"),
    (0x9a, Class::Unsupported, "MQTT.RETAIN", "the server retains nothing: leave `retain` out"),
    (0x9b, Class::Unsupported, "MQTT.QOS", "the server has no quality of service 1"),
    (0x9c, Class::Server, "MQTT.MOVED", "the server wants us at another one: name it in `servers`"),
    (0x9d, Class::Server, "MQTT.MOVED", "the server has moved: name its new address in `servers`"),
    (0x9e, Class::Unsupported, "MQTT.SHARED", "the server has no shared subscriptions: leave `share` out"),
    (0x9f, Class::Server, "MQTT.BUSY", "the server wants fewer new connections"),
    (0xa2, Class::Unsupported, "MQTT.FILTER", "the server has no filters with wildcards"),
];

/// What a server answers to a subscription.
const OF_FILTERS: &[(u8, Class, &str, &str)] = &[
    (0x87, Class::Denied, "MQTT.PERMISSIONS", "our user may not subscribe to it: allow it the filter"),
    (0x8f, Class::Denied, "MQTT.FILTER", "the server takes no such filter"),
    (0x97, Class::Server, "MQTT.QUOTA", "the server has no room for more subscriptions"),
    (0x9e, Class::Unsupported, "MQTT.SHARED", "the server has no shared subscriptions: leave `share` out"),
    (0xa2, Class::Unsupported, "MQTT.FILTER", "the server has no filters with wildcards"),
];

/// Return codes of version 3.1.1 as those of version 5.
const OLDER: [u8; 6] = [0, OTHER_VERSION, 0x85, 0x88, 0x86, 0x87];

/// A return code of a login by version 3.1.1, as version 5 has it.
pub fn of_older(code: u8) -> u8 {
    OLDER.get(usize::from(code)).copied().unwrap_or(REFUSED)
}

/// A text of the server for an operator: one line, not too long.
pub fn shown(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    text.chars().filter(|letter| !letter.is_control()).take(SHOWN_LETTERS_MAX).collect()
}

/// Sorts what a server answers to a message.
pub fn of_message(number: u8, said: Option<&[u8]>) -> Refusal {
    let other = (Class::Attempt, "MQTT.REFUSED_MESSAGE", "the server refused the message");
    sort(OF_MESSAGES, other, number, said)
}

/// Sorts the end of a connection that may be a message's fault; none if it can't be.
pub fn of_message_at_end(number: u8, said: Option<&[u8]>) -> Option<Refusal> {
    OF_MESSAGES.iter().any(|(known, ..)| *known == number).then(|| of_message(number, said))
}

/// Sorts what a server answers to a login, or ends a connection with.
pub fn of_connection(number: u8, said: Option<&[u8]>) -> Refusal {
    sort(OF_CONNECTIONS, (Class::Server, "MQTT.CLOSED", "the server ended the connection"), number, said)
}

/// Sorts what a server answers to a subscription.
pub fn of_filter(number: u8, filter: &str) -> Refusal {
    let other = (Class::Denied, "MQTT.FILTER", "the server refused the subscription: is our user allowed it?");
    let mut refusal = sort(OF_FILTERS, other, number, None);
    refusal.reason = format!("`{}`: {}", shown(filter.as_bytes()), refusal.reason);
    refusal
}

fn sort(
    table: &[(u8, Class, &'static str, &str)],
    other: (Class, &'static str, &str),
    number: u8,
    said: Option<&[u8]>,
) -> Refusal {
    let known = table.iter().find(|(known, ..)| *known == number);
    let (class, code, hint) = known.map_or(other, |(_, class, code, hint)| (*class, *code, *hint));
    let said = said.map(shown).filter(|said| !said.is_empty());
    let reason = said.map_or_else(|| hint.to_owned(), |said| format!("{hint}; it says: {said}"));
    Refusal { class, code, reason, number }
}

impl Refusal {
    fn fault(&self) -> Fault {
        Fault::new(self.code, self.reason.clone()).with_attribute("broker-code", format!("{:#04x}", self.number))
    }

    /// The fate of the message that it is about.
    pub fn outcome(&self) -> Outcome {
        match self.class {
            Class::Message => Outcome::Permanent(self.fault()),
            Class::Topic => self.fault().blocking(""),
            _ => Outcome::Retryable(self.fault()),
        }
    }

    /// The failure of a call.
    pub fn error(&self) -> PluginError {
        let kind = match self.class {
            Class::Denied | Class::Topic => ErrorKind::Denied,
            Class::Unsupported => ErrorKind::Unsupported,
            Class::Fenced => ErrorKind::Fenced,
            Class::Message | Class::Attempt | Class::Server => ErrorKind::Unavailable,
        };
        PluginError::new(kind, self.fault())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[test]
    fn a_message_has_the_fate_that_its_reason_says() {
        for (number, code, fate) in [
            (0x80, "MQTT.REFUSED_MESSAGE", "retryable"),
            (0x83, "MQTT.REFUSED_MESSAGE", "retryable"),
            (0x87, "MQTT.PERMISSIONS", "blocked"),
            (0x90, "MQTT.REFUSED_TOPIC", "blocked"),
            (0x95, "MQTT.MAX_PACKET", "permanent"),
            (0x97, "MQTT.QUOTA", "blocked"),
            (0x99, "MQTT.PAYLOAD_FORMAT", "permanent"),
        ] {
            let (name, fault) = match of_message(number, Some(b"so\n")).outcome() {
                Outcome::Retryable(fault) => ("retryable", fault),
                Outcome::Permanent(fault) => ("permanent", fault),
                Outcome::Blocked(block) => ("blocked", block.fault),
                other => panic!("{other:?}"),
            };
            assert_eq!((name, fault.code.as_str()), (fate, code), "{number:#x}");
            assert!(fault.reason.ends_with("it says: so"), "{}", fault.reason);
        }
        assert!(of_message_at_end(0x95, None).is_some() && of_message_at_end(0x8b, None).is_none());
    }

    #[test]
    fn the_end_of_a_connection_says_who_has_to_act() {
        for (number, kind, code) in [
            (0x86, ErrorKind::Denied, "MQTT.AUTH"),
            (0x8e, ErrorKind::Fenced, "MQTT.TAKEN_OVER"),
            (0x8b, ErrorKind::Unavailable, "MQTT.BUSY"),
            (0x84, ErrorKind::Unsupported, "MQTT.VERSION"),
            (0x82, ErrorKind::Unavailable, "MQTT.CLOSED"),
        ] {
            let error = of_connection(number, None).error();
            assert_eq!((error.kind, error.fault.code.as_str()), (kind, code));
            assert_eq!(error.fault.attributes, [("broker-code".to_owned(), format!("{number:#x}"))]);
        }
        assert_eq!([0, 1, 2, 3, 4, 5, 9].map(of_older), [0, 0x84, 0x85, 0x88, 0x86, 0x87, 0x80]);
    }

    #[test]
    fn a_refused_filter_is_named() {
        let error = of_filter(0x80, "orders/#").error();
        assert!(error.kind == ErrorKind::Denied && error.fault.reason.starts_with("`orders/#`: "));
        assert_eq!(of_filter(0x9e, "a").error().kind, ErrorKind::Unsupported);
    }
}
