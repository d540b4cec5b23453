//! Properties of version 5, written and read.

use super::topic::{TEXT_BYTES_MAX, is_text};

/// Seconds until the server forgets a message.
pub const MESSAGE_EXPIRY: u8 = 2;
/// Media type of a message.
pub const CONTENT_TYPE: u8 = 3;
/// Where a reply is expected.
pub const RESPONSE_TOPIC: u8 = 8;
/// What a reply repeats.
pub const CORRELATION_DATA: u8 = 9;
/// Seconds until the server forgets a session.
pub const SESSION_EXPIRY: u8 = 17;
/// The id that a server gave to a client without one.
pub const ASSIGNED_CLIENT_ID: u8 = 18;
/// Seconds of silence that the server bears.
pub const SERVER_KEEP_ALIVE: u8 = 19;
/// Why, as text.
pub const REASON_TEXT: u8 = 31;
/// Messages that may be unacknowledged.
pub const RECEIVE_MAXIMUM: u8 = 33;
/// Best quality of service that the server has.
pub const MAXIMUM_QOS: u8 = 36;
/// Whether the server keeps retained messages.
pub const RETAIN_AVAILABLE: u8 = 37;
/// Name and value of the sender's own.
pub const USER_PROPERTY: u8 = 38;
/// Largest packet that is taken, in bytes.
pub const MAXIMUM_PACKET: u8 = 39;
/// Whether the server has filters with wildcards.
pub const WILDCARDS_AVAILABLE: u8 = 40;
/// Whether the server has subscriptions that are shared.
pub const SHARED_AVAILABLE: u8 = 42;

/// A property that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property<'a> {
    /// A number and the property's identifier.
    Number(u8, u32),
    /// A text or bytes, and the property's identifier.
    Bytes(u8, &'a [u8]),
    /// A user property.
    Pair(&'a [u8], &'a [u8]),
}

/// Reads properties one after the other; ends at the first that can't be read.
#[derive(Clone, Copy, Debug)]
pub struct Properties<'a> {
    rest: &'a [u8],
}

impl<'a> Properties<'a> {
    /// Those in these bytes, without the length before them.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether all of them can be read.
    pub fn are_whole(mut self) -> bool {
        while self.next().is_some() {}
        self.rest.is_empty()
    }

    fn read(&mut self) -> Option<Property<'a>> {
        let (id, rest) = self.rest.split_first()?;
        let mut at = rest;
        let property = match *id {
            1 | 23 | 25 | MAXIMUM_QOS | RETAIN_AVAILABLE | WILDCARDS_AVAILABLE | 41 | SHARED_AVAILABLE => {
                let (value, rest) = at.split_first()?;
                at = rest;
                Property::Number(*id, u32::from(*value))
            }
            SERVER_KEEP_ALIVE | RECEIVE_MAXIMUM | 34 | 35 => {
                let (value, rest) = at.split_first_chunk()?;
                at = rest;
                Property::Number(*id, u32::from(u16::from_be_bytes(*value)))
            }
            MESSAGE_EXPIRY | SESSION_EXPIRY | 24 | MAXIMUM_PACKET => {
                let (value, rest) = at.split_first_chunk()?;
                at = rest;
                Property::Number(*id, u32::from_be_bytes(*value))
            }
            11 => {
                let (value, length) = read_length(at).ok().flatten()?;
                at = at.get(length..)?;
                Property::Number(*id, u32::try_from(value).ok()?)
            }
            CONTENT_TYPE | RESPONSE_TOPIC | CORRELATION_DATA | ASSIGNED_CLIENT_ID | 21 | 22 | 26 | 28 | REASON_TEXT => {
                Property::Bytes(*id, take_text(&mut at)?)
            }
            USER_PROPERTY => Property::Pair(take_text(&mut at)?, take_text(&mut at)?),
            _ => return None,
        };
        self.rest = at;
        Some(property)
    }
}

impl<'a> Iterator for Properties<'a> {
    type Item = Property<'a>;

    fn next(&mut self) -> Option<Property<'a>> {
        self.read()
    }
}

/// Takes bytes with their length in two bytes before them; none if they aren't all there.
pub(crate) fn take_text<'a>(at: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = at.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *at = rest;
    Some(text)
}

/// A length in seven bits a byte, and how many bytes it has; none: more are needed.
///
/// # Errors
/// It has more than four.
pub(crate) fn read_length(bytes: &[u8]) -> Result<Option<(usize, usize)>, ()> {
    let mut length = 0_usize;
    for (place, byte) in bytes.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(Some((length, place + 1)));
        }
    }
    if bytes.len() < 4 { Ok(None) } else { Err(()) }
}

/// Adds a length in seven bits a byte; at most 268,435,455.
pub(crate) fn push_length(out: &mut Vec<u8>, mut length: usize) {
    loop {
        let byte = (length & 0x7f) as u8;
        length >>= 7;
        if length == 0 {
            return out.push(byte);
        }
        out.push(byte | 0x80);
    }
}

/// Adds bytes with their length before them; what is longer than the length can say is cut off.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    let text = text.get(..TEXT_BYTES_MAX).unwrap_or(text);
    // It is no longer than that.
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text);
}

/// Adds a number of one byte.
pub fn push_byte(out: &mut Vec<u8>, id: u8, value: u8) {
    out.extend_from_slice(&[id, value]);
}

/// Adds a number of two bytes.
pub fn push_short(out: &mut Vec<u8>, id: u8, value: u16) {
    out.push(id);
    out.extend_from_slice(&value.to_be_bytes());
}

/// Adds a number of four bytes.
pub fn push_number(out: &mut Vec<u8>, id: u8, value: u32) {
    out.push(id);
    out.extend_from_slice(&value.to_be_bytes());
}

/// Adds a text. Answers whether every server takes it; else nothing is added.
#[must_use]
pub fn push_property(out: &mut Vec<u8>, id: u8, text: &str) -> bool {
    let is_taken = is_text(text);
    if is_taken {
        out.push(id);
        push_text(out, text.as_bytes());
    }
    is_taken
}

/// Adds a user property. Answers whether every server takes it; else nothing is added.
#[must_use]
pub fn push_pair(out: &mut Vec<u8>, name: &str, value: &str) -> bool {
    let is_taken = is_text(name) && is_text(value);
    if is_taken {
        out.push(USER_PROPERTY);
        push_text(out, name.as_bytes());
        push_text(out, value.as_bytes());
    }
    is_taken
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut out = Vec::new();
        push_byte(&mut out, MAXIMUM_QOS, 1);
        push_short(&mut out, RECEIVE_MAXIMUM, 20);
        push_number(&mut out, MAXIMUM_PACKET, 70_000);
        assert!(push_property(&mut out, CONTENT_TYPE, "text/plain") && push_pair(&mut out, "id", "größe"));
        assert!(!push_pair(&mut out, "a", "b\n") && !push_property(&mut out, CONTENT_TYPE, &"a".repeat(65_536)));
        assert!(Properties::new(&out).are_whole());
        let all: Vec<_> = Properties::new(&out).collect();
        let expected = [
            Property::Number(MAXIMUM_QOS, 1),
            Property::Number(RECEIVE_MAXIMUM, 20),
            Property::Number(MAXIMUM_PACKET, 70_000),
            Property::Bytes(CONTENT_TYPE, b"text/plain"),
            Property::Pair(b"id", "größe".as_bytes()),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_not_whole() {
        for bytes in [&[38, 0, 1, b'a', 0, 2, b'b'][..], &[33, 1], &[99, 0], &[11, 0x80], &[11, 0x80, 0x80, 0x80, 0x80]]
        {
            assert!(!Properties::new(bytes).are_whole(), "{bytes:?}");
        }
        assert!(Properties::new(&[11, 0x80, 1]).are_whole());
    }

    #[test]
    fn lengths_have_one_to_four_bytes() {
        for (length, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[128, 1]),
            (16_384, &[128, 128, 1]),
            (268_435_455, &[255, 255, 255, 127]),
        ] {
            let mut out = Vec::new();
            push_length(&mut out, length);
            assert_eq!((out.as_slice(), read_length(&out).unwrap().unwrap()), (bytes, (length, bytes.len())));
        }
        assert_eq!((read_length(&[]), read_length(&[255, 255]), read_length(&[255; 5])), (Ok(None), Ok(None), Err(())));
    }
}
