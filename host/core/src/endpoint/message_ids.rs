//! How the ids of messages are written on the wire of one transport, e.g. `outbox-{id}` (source document 4).

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use crate::limits::ID_BYTES_MAX;

const PLACE: &str = "{id}";
/// Bytes beside the id: with a digest in the place of an id that is too long for them, the whole still fits.
const WORDS_BYTES_MAX: usize = ID_BYTES_MAX - 64;

/// A template of ids on the wire. Without one an id stands as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageIds {
    before: String,
    behind: String,
}

impl MessageIds {
    /// Reads a template: `{id}` once, and at most 64 other bytes, which are letters, digits and `-_.:/`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(template: &str) -> Result<Self, String> {
        let Some((before, behind)) = template.split_once(PLACE) else {
            return Err(format!("{PLACE} isn't in it: all messages would have one id"));
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
        if !before.bytes().chain(behind.bytes()).all(is_plain) {
            return Err(format!("it takes {PLACE} once, and beside it letters, digits and -_.:/"));
        }
        if before.len() + behind.len() > WORDS_BYTES_MAX {
            return Err(format!("it takes at most {WORDS_BYTES_MAX} bytes beside {PLACE}"));
        }
        Ok(Self { before: before.to_owned(), behind: behind.to_owned() })
    }

    /// An id as the receiver gets it. One that would be longer than 128 bytes has the sha-256 of the message's id, in hex, in its place:
    /// it stays the same whenever it is sent.
    pub fn on_wire<'a>(&self, id: &'a str) -> Cow<'a, str> {
        let Self { before, behind } = self;
        match (before.len() + behind.len(), id.len()) {
            (0, _) => Cow::Borrowed(id),
            (words, bytes) if words + bytes <= ID_BYTES_MAX => Cow::Owned(format!("{before}{id}{behind}")),
            _ => Cow::Owned(format!("{before}{:x}{behind}", Sha256::digest(id))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_on_the_wire_follow_the_template_and_stay_within_their_bound() {
        assert_eq!(MessageIds::default().on_wire("m-1"), "m-1");
        let ids = MessageIds::parse("outbox-{id}").unwrap();
        assert_eq!(ids.on_wire("m-1"), "outbox-m-1");
        let widest = MessageIds::parse(&format!("{}{{id}}", "x".repeat(64))).unwrap();
        let (one, other) = (widest.on_wire(&"1".repeat(65)).into_owned(), widest.on_wire(&"2".repeat(65)).into_owned());
        assert_eq!((one.len(), other.len()), (128, 128));
        assert_ne!(one, other);
        assert_eq!(widest.on_wire(&"1".repeat(64)), format!("{}{}", "x".repeat(64), "1".repeat(64)));
    }

    #[test]
    fn a_template_that_makes_one_id_of_two_or_none_is_refused() {
        for bad in ["", "outbox", "{ID}", "{id}{id}", "a b{id}", "{id}\n", &format!("{{id}}{}", "x".repeat(65))] {
            assert!(MessageIds::parse(bad).is_err(), "{bad}");
        }
    }
}
