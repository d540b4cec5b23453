//! What a server sends, taken out of the bytes received. Pure; never panics on garbage.

use super::Version;
use super::property::{Properties, Property, REASON_TEXT, read_length, take_text};

/// Largest packet that is held whole. Of a larger message the body is left out.
pub const PACKET_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One packet of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// CONNACK: whether we are let in.
    Connected(Connected<'a>),
    /// PUBLISH: a message.
    Message(Message<'a>),
    /// PUBACK: what became of a message of ours.
    Acknowledged(Answer<'a>),
    /// SUBACK: what became of each filter.
    Subscribed {
        /// The request's id.
        id: u16,
        /// A reason code a filter.
        reasons: &'a [u8],
    },
    /// UNSUBACK.
    Unsubscribed {
        /// The request's id.
        id: u16,
        /// A reason code a filter; none in 3.1.1.
        reasons: &'a [u8],
    },
    /// PINGRESP: a sign of life.
    Alive,
    /// DISCONNECT: the server ends the connection.
    Ended {
        /// Its reason code.
        reason: u8,
        /// Why, as text.
        said: Option<&'a [u8]>,
    },
}

/// What CONNACK says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected<'a> {
    /// The server has a session of this client.
    pub has_session: bool,
    /// Reason code; of 3.1.1 its return code.
    pub reason: u8,
    /// It is the CONNACK of version 3.1.1.
    pub is_older: bool,
    /// Properties of version 5.
    pub properties: &'a [u8],
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The id that it was sent with.
    pub id: u16,
    /// Reason code; 0 in 3.1.1.
    pub reason: u8,
    /// Why, as text.
    pub said: Option<&'a [u8]>,
}

/// A message. What the protocol wants to be UTF-8 isn't checked: one bad text must not end a session for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// It may have come before.
    pub is_again: bool,
    /// It was kept for those who subscribe later, and comes for a subscription.
    pub is_retained: bool,
    /// Id to acknowledge it by; 0 with quality of service 0.
    pub id: u16,
    /// Name of its topic.
    pub topic: &'a [u8],
    /// Properties of version 5.
    pub properties: &'a [u8],
    /// Its body; of one that is too large, what is there of it.
    pub payload: &'a [u8],
    /// Size of a body that is too large to be held.
    pub omitted: Option<usize>,
}

/// Bytes that aren't MQTT, and why; the connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage(
    /// What is wrong, for the operator.
    pub &'static str,
);

/// A packet, and where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    /// Bytes of it that are here.
    pub here: usize,
    /// Bytes of it that are still to come, and to be left out.
    pub beyond: usize,
}

/// Takes the first packet. None: more bytes are needed.
///
/// # Errors
/// The bytes are no MQTT, or nothing that a server sends to us.
pub fn next(input: &[u8], version: Version) -> Result<Option<Frame<'_>>, Garbage> {
    let Some((first, rest)) = input.split_first() else { return Ok(None) };
    let Some((length, digits)) = read_length(rest).map_err(|()| Garbage("a length of more than four bytes"))? else {
        return Ok(None);
    };
    let (kind, body) = (first >> 4, rest.get(digits..).unwrap_or_default());
    // Before its body is waited for, which may never come.
    if !matches!(kind, 2 | 3 | 4 | 9 | 11 | 13 | 14) || kind != 3 && first & 0x0f != 0 {
        return Err(Garbage("a packet that servers don't send"));
    }
    let whole = body.get(..length);
    if kind == 3 && length > PACKET_BYTES_MAX {
        return large(*first, body, length, version, 1 + digits);
    }
    if whole.is_none() && length > PACKET_BYTES_MAX {
        return Err(Garbage("a packet that is too large"));
    }
    let Some(body) = whole else { return Ok(None) };
    let packet = match kind {
        2 => connected(body),
        3 => message(*first, body, version),
        4 => answer(body, version).map(Packet::Acknowledged),
        9 => subscribed(body, version),
        11 => unsubscribed(body, version),
        13 => Some(Packet::Alive),
        14 if version == Version::V5 => ended(body),
        _ => return Err(Garbage("a packet that servers don't send")),
    };
    let packet = packet.ok_or(Garbage("a malformed packet"))?;
    Ok(Some(Frame { packet, here: 1 + digits + length, beyond: 0 }))
}

fn short(body: &[u8]) -> Option<(u16, &[u8])> {
    let (value, rest) = body.split_first_chunk()?;
    Some((u16::from_be_bytes(*value), rest))
}

/// Properties with their length before them, and what follows. None if they aren't all there.
fn properties(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, digits) = read_length(body).ok().flatten()?;
    body.get(digits..)?.split_at_checked(length)
}

/// Properties at the end of a packet, which may be left out; none if they can't be read.
fn last_properties(body: &[u8]) -> Option<&[u8]> {
    if body.is_empty() {
        return Some(&[]);
    }
    let (bytes, rest) = properties(body)?;
    (rest.is_empty() && Properties::new(bytes).are_whole()).then_some(bytes)
}

fn said(properties: &[u8]) -> Option<&[u8]> {
    Properties::new(properties).find_map(|property| match property {
        Property::Bytes(REASON_TEXT, text) => Some(text),
        _ => None,
    })
}

fn connected(body: &[u8]) -> Option<Packet<'_>> {
    let ([flags, reason], rest) = body.split_first_chunk()?;
    // Version 5 always has the length of its properties here.
    let is_older = rest.is_empty();
    Some(Packet::Connected(Connected {
        has_session: flags & 1 != 0,
        reason: *reason,
        is_older,
        properties: last_properties(rest)?,
    }))
}

fn message(first: u8, body: &[u8], version: Version) -> Option<Packet<'_>> {
    let mut at = body;
    let topic = take_text(&mut at)?;
    let mut message = Message { is_again: first & 8 != 0, is_retained: first & 1 != 0, topic, ..Message::default() };
    match first >> 1 & 3 {
        0 => {}
        // We never subscribe with more.
        1 => {
            let (id, rest) = short(at)?;
            if id == 0 {
                return None;
            }
            (message.id, at) = (id, rest);
        }
        _ => return None,
    }
    if version == Version::V5 {
        let (bytes, rest) = properties(at)?;
        if !Properties::new(bytes).are_whole() {
            return None;
        }
        (message.properties, at) = (bytes, rest);
    }
    message.payload = at;
    Some(Packet::Message(message))
}

/// The head of a message whose body is too large to be held.
fn large(first: u8, body: &[u8], length: usize, version: Version, head: usize) -> Result<Option<Frame<'_>>, Garbage> {
    let here = body.get(..length).unwrap_or(body);
    match message(first, here, version) {
        Some(Packet::Message(mut message)) => {
            message.omitted = Some(message.payload.len() + (length - here.len()));
            let packet = Packet::Message(message);
            Ok(Some(Frame { packet, here: head + here.len(), beyond: length - here.len() }))
        }
        // A head has a topic and properties: it is never that large.
        _ if here.len() > PACKET_BYTES_MAX || here.len() == length => Err(Garbage("a malformed packet")),
        _ => Ok(None),
    }
}

fn answer(body: &[u8], version: Version) -> Option<Answer<'_>> {
    let (id, rest) = short(body)?;
    match (version, rest.split_first()) {
        (_, None) => Some(Answer { id, reason: 0, said: None }),
        (Version::V5, Some((reason, rest))) => Some(Answer { id, reason: *reason, said: said(last_properties(rest)?) }),
        (Version::V311, Some(_)) => None,
    }
}

fn subscribed(body: &[u8], version: Version) -> Option<Packet<'_>> {
    let (id, mut rest) = short(body)?;
    if version == Version::V5 {
        rest = properties(rest)?.1;
    }
    (!rest.is_empty()).then_some(Packet::Subscribed { id, reasons: rest })
}

fn unsubscribed(body: &[u8], version: Version) -> Option<Packet<'_>> {
    let (id, rest) = short(body)?;
    let reasons = if version == Version::V5 { properties(rest).map(|(_, reasons)| reasons) } else { None };
    Some(Packet::Unsubscribed { id, reasons: reasons.unwrap_or_default() })
}

fn ended(body: &[u8]) -> Option<Packet<'_>> {
    let Some((reason, rest)) = body.split_first() else { return Some(Packet::Ended { reason: 0, said: None }) };
    Some(Packet::Ended { reason: *reason, said: said(last_properties(rest)?) })
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
