//! The names of the five source documents beside ours, as far as the HTTP API takes them (`product.md`, Sources).
//!
//! One table: input is read by it, and `docs/aliases.md` is checked against it. States are in
//! [`waybill_core::outbox::filter::STATE_ALIASES`], the one of a query parameter is with the query (`ListQuery::cursor`); names of
//! settings belong to the configuration.

use waybill_core::annotation::Annotation;
pub use waybill_core::outbox::filter::STATE_ALIASES;

/// How a value under another name becomes ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Same,
    /// A bus subject: `orders.created` is the topic `bus:orders.created`.
    Subject,
    /// A named target: `memory` is the topic `custom:memory`.
    Target,
}

/// Another name of a field of the message object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Name in the source document.
    pub theirs: &'static str,
    pub ours: Field,
    /// How the value is taken.
    pub meaning: Meaning,
    /// Source documents that use it, numbered as in `product.md`.
    pub sources: &'static [u8],
}

const fn alias(theirs: &'static str, ours: Field, meaning: Meaning, sources: &'static [u8]) -> Alias {
    Alias { theirs, ours, meaning, sources }
}

/// Other names of message fields.
pub const MESSAGE_ALIASES: [Alias; 10] = [
    alias("dispatch_key", Field::Key, Meaning::Same, &[1]),
    alias("outbox_id", Field::Id, Meaning::Same, &[2]),
    alias("payload_md", Field::Payload, Meaning::Same, &[2]),
    alias("next_attempt_at", Field::NotBefore, Meaning::Same, &[2]),
    alias("target_space", Field::Topic, Meaning::Target, &[2]),
    alias("ts_ms", Field::OccurredAt, Meaning::Same, &[3]),
    alias("available_at", Field::NotBefore, Meaning::Same, &[4]),
    alias("routing_key", Field::Topic, Meaning::Subject, &[4]),
    alias("message_id", Field::Id, Meaning::Same, &[5]),
    alias("subject", Field::Topic, Meaning::Subject, &[5]),
];

/// Columns of the sources' outbox rows that the host keeps by itself: refused on input, with this explanation.
pub const HOST_KEPT: [&str; 20] = [
    "status",
    "state",
    "attempts",
    "retry_count",
    "publish_attempts",
    "last_error",
    "publish_error",
    "lease_until",
    "worker",
    "locked_by",
    "locked_at",
    "created_at",
    "updated_at",
    "published_at",
    "payload_sha",
    "payload_sha256",
    "seq",
    "shard",
    "token",
    "suspect",
];

macro_rules! fields {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// A field of the message object (`surface.md`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Field {
            $($variant,)+
            /// One of the message's optional texts.
            Annotation(Annotation),
        }

        /// The fields beside the annotations, numbered.
        enum Plain { $($variant),+ }

        const PLAIN: &[&str] = &[$($name),+];

        impl Field {
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Annotation(annotation) => annotation.name(),
                }
            }
            /// The field of a name of ours.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => Annotation::named(name).map(Self::Annotation),
                }
            }
            /// Its bit in a set of fields.
            pub fn bit(self) -> u64 {
                match self {
                    $(Self::$variant => 1 << (Plain::$variant as u32),)+
                    Self::Annotation(annotation) => 1 << (PLAIN.len() + annotation as usize),
                }
            }
        }
    };
}

fields! {
    Topic = "topic",
    Payload = "payload",
    PayloadBase64 = "payload_base64",
    Key = "key",
    Tenant = "tenant",
    Headers = "headers",
    Id = "id",
    NotBefore = "not_before",
    ExpiresAt = "expires_at",
    OccurredAt = "occurred_at",
    EventType = "event_type",
    EventVersion = "event_version",
}

const FIELDS: usize = PLAIN.len() + Annotation::COUNT;

/// Every field's name, and `last`.
const fn names_and(last: &'static str) -> [&'static str; FIELDS + 1] {
    let mut names = [last; FIELDS + 1];
    let (mut free, mut plain, mut annotations): (&mut [&str], _, &[Annotation]) = (&mut names, PLAIN, &Annotation::ALL);
    while let [slot, rest @ ..] = free {
        match (plain, annotations) {
            ([name, others @ ..], _) => (*slot, plain) = (name, others),
            ([], [annotation, others @ ..]) => (*slot, annotations) = (annotation.name(), others),
            ([], []) => {}
        }
        free = rest;
    }
    names
}

impl Field {
    /// Every field's name, and what may stand in a request in their place.
    pub const NAMES_OR_MESSAGES: &'static [&'static str] = &names_and("messages");
    pub const NAMES: &'static [&'static str] = Self::NAMES_OR_MESSAGES.split_at(FIELDS).0;
}

/// The field that a name of ours or of a source means, and how its value is taken.
pub fn resolve(name: &str) -> Option<(Field, Meaning)> {
    match Field::named(name) {
        Some(field) => Some((field, Meaning::Same)),
        None => MESSAGE_ALIASES.iter().find(|alias| alias.theirs == name).map(|alias| (alias.ours, alias.meaning)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_never_a_name_of_ours_or_of_the_host() {
        for alias in MESSAGE_ALIASES {
            assert!(Field::named(alias.theirs).is_none() && !HOST_KEPT.contains(&alias.theirs), "{}", alias.theirs);
            assert!(alias.sources.iter().all(|source| (1..=5).contains(source)));
        }
        for name in Field::NAMES {
            assert_eq!(resolve(name).map(|(field, _)| field.name()), Some(*name));
            assert!(!HOST_KEPT.contains(name));
        }
    }
}
