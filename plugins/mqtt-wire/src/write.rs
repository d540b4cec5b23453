//! Packets that are sent to a server.

use crate::Version;
use crate::property::{RECEIVE_MAXIMUM, SESSION_EXPIRY, push_length, push_number, push_short, push_text};

/// Largest packet that the protocol has, without its head.
pub const BODY_BYTES_MAX: usize = 268_435_455;

/// PINGREQ.
pub const PING: [u8; 2] = [0xc0, 0];
/// DISCONNECT, without a reason: what the session holds stays.
pub const GOODBYE: [u8; 2] = [0xe0, 0];

const CLEAN: u8 = 2;
const HAS_PASSWORD: u8 = 0x40;
const HAS_USER: u8 = 0x80;
const RETAIN: u8 = 1;
/// Quality of service 1.
const AT_LEAST_ONCE: u8 = 2;

/// What CONNECT says.
#[derive(Clone, Copy, Debug)]
pub struct Connect<'a> {
    /// Which version is spoken from then on.
    pub version: Version,
    /// Name of the client; empty = the server gives one.
    pub client_id: &'a str,
    /// Whether a session that is there is forgotten.
    pub clean: bool,
    /// Seconds for which the server keeps the session after the connection's end.
    pub session_expiry: u32,
    /// Messages that we take without having acknowledged them.
    pub receive_maximum: u16,
    /// Seconds of silence on our side.
    pub keep_alive: u16,
    /// Who we are.
    pub user: Option<&'a str>,
    /// And its proof.
    pub password: Option<&'a str>,
}

fn packet(out: &mut Vec<u8>, first: u8, body: &[u8]) {
    out.push(first);
    push_length(out, body.len());
    out.extend_from_slice(body);
}

/// Adds CONNECT.
pub fn connect(out: &mut Vec<u8>, connect: &Connect<'_>) {
    let mut body = Vec::with_capacity(128);
    push_text(&mut body, b"MQTT");
    body.push(if connect.version == Version::V5 { 5 } else { 4 });
    let mut flags = if connect.clean { CLEAN } else { 0 };
    flags |= if connect.user.is_some() { HAS_USER } else { 0 };
    flags |= if connect.password.is_some() { HAS_PASSWORD } else { 0 };
    body.push(flags);
    body.extend_from_slice(&connect.keep_alive.to_be_bytes());
    if connect.version == Version::V5 {
        let mut properties = Vec::new();
        push_number(&mut properties, SESSION_EXPIRY, connect.session_expiry);
        push_short(&mut properties, RECEIVE_MAXIMUM, connect.receive_maximum.max(1));
        push_length(&mut body, properties.len());
        body.extend_from_slice(&properties);
    }
    push_text(&mut body, connect.client_id.as_bytes());
    for text in [connect.user, connect.password].into_iter().flatten() {
        push_text(&mut body, text.as_bytes());
    }
    packet(out, 0x10, &body);
}

/// A message on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Publish<'a> {
    /// Name of its topic, as [`crate::topic::check_name`] allows it.
    pub topic: &'a str,
    /// Id by which it is acknowledged: not 0.
    pub id: u16,
    /// Whether the server keeps it for those who subscribe later.
    pub retain: bool,
    /// Properties of version 5; none in 3.1.1.
    pub properties: Option<&'a [u8]>,
    /// Its body.
    pub payload: &'a [u8],
}

impl Publish<'_> {
    /// Bytes behind the packet's length.
    fn body(&self) -> usize {
        let properties = self.properties.map_or(0, |properties| length_digits(properties.len()) + properties.len());
        4 + self.topic.len() + properties + self.payload.len()
    }

    /// Bytes of the packet.
    pub fn size(&self) -> usize {
        let body = self.body();
        1 + length_digits(body) + body
    }

    /// Adds PUBLISH with quality of service 1. It has to fit into [`BODY_BYTES_MAX`].
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.size());
        out.push(0x30 | AT_LEAST_ONCE | if self.retain { RETAIN } else { 0 });
        push_length(out, self.body());
        push_text(out, self.topic.as_bytes());
        out.extend_from_slice(&self.id.to_be_bytes());
        if let Some(properties) = self.properties {
            push_length(out, properties.len());
            out.extend_from_slice(properties);
        }
        out.extend_from_slice(self.payload);
    }
}

/// Bytes that a length takes, seven bits in each.
fn length_digits(length: usize) -> usize {
    match length {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        _ => 4,
    }
}

/// Adds PUBACK: the message is settled.
pub fn acknowledge(out: &mut Vec<u8>, id: u16) {
    let [high, low] = id.to_be_bytes();
    out.extend_from_slice(&[0x40, 2, high, low]);
}

/// When a server sends what it retained for a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retained {
    /// At each subscription.
    Each,
    /// At a subscription that wasn't there.
    New,
    /// Never.
    Never,
}

/// Adds SUBSCRIBE with quality of service 1. 3.1.1 has no word for what is retained: it always comes.
pub fn subscribe<'a>(
    out: &mut Vec<u8>,
    version: Version,
    id: u16,
    retained: Retained,
    filters: impl Iterator<Item = &'a str>,
) {
    let handling = match retained {
        Retained::Each => 0,
        Retained::New => 1 << 4,
        Retained::Never => 2 << 4,
    };
    let options = 1 | if version == Version::V5 { handling } else { 0 };
    let mut body = request(version, id);
    for filter in filters {
        push_text(&mut body, filter.as_bytes());
        body.push(options);
    }
    packet(out, 0x82, &body);
}

/// Adds UNSUBSCRIBE.
pub fn unsubscribe<'a>(out: &mut Vec<u8>, version: Version, id: u16, filters: impl Iterator<Item = &'a str>) {
    let mut body = request(version, id);
    for filter in filters {
        push_text(&mut body, filter.as_bytes());
    }
    packet(out, 0xa2, &body);
}

/// The id of a request, and no properties.
fn request(version: Version, id: u16) -> Vec<u8> {
    let mut body = id.to_be_bytes().to_vec();
    if version == Version::V5 {
        body.push(0);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_says_who_and_for_how_long() {
        let mut out = Vec::new();
        let login = Connect {
            version: Version::V311,
            client_id: "a",
            clean: false,
            session_expiry: 9,
            receive_maximum: 9,
            keep_alive: 60,
            user: Some("u"),
            password: Some("p"),
        };
        connect(&mut out, &login);
        assert_eq!(out, b"\x10\x13\0\x04MQTT\x04\xc0\0\x3c\0\x01a\0\x01u\0\x01p");
        out.clear();
        connect(&mut out, &Connect { version: Version::V5, clean: true, user: None, password: None, ..login });
        assert_eq!(out, b"\x10\x16\0\x04MQTT\x05\x02\0\x3c\x08\x11\0\0\0\x09\x21\0\x09\0\x01a");
    }

    #[test]
    fn requests_and_acknowledgements_are_written_as_servers_read_them() {
        let mut out = Vec::new();
        subscribe(&mut out, Version::V5, 1, Retained::Never, ["a/#", "b"].into_iter());
        assert_eq!(out, b"\x82\x0d\0\x01\0\0\x03a/#\x21\0\x01b\x21");
        out.clear();
        subscribe(&mut out, Version::V311, 1, Retained::Never, ["a"].into_iter());
        unsubscribe(&mut out, Version::V311, 2, ["a"].into_iter());
        acknowledge(&mut out, 258);
        assert_eq!(out, b"\x82\x06\0\x01\0\x01a\x01\xa2\x05\0\x02\0\x01a\x40\x02\x01\x02");
    }

    #[test]
    fn a_message_has_properties_in_the_newer_version_only() {
        let message = Publish { topic: "a", id: 7, retain: true, properties: None, payload: b"hi" };
        let mut out = Vec::new();
        message.write(&mut out);
        assert_eq!(out, b"\x33\x07\0\x01a\0\x07hi");
        assert_eq!(out.len(), message.size());
        out.clear();
        let message = Publish { properties: Some(b"\x26\0\x01a\0\0"), retain: false, ..message };
        message.write(&mut out);
        assert_eq!(out, b"\x32\x0e\0\x01a\0\x07\x06\x26\0\x01a\0\0hi");
        assert_eq!(out.len(), message.size());
    }
    #[test]
    fn the_size_of_a_message_is_told_to_the_byte() {
        for count in [0, 1, 117, 118, 127, 128, 16_370, 16_383, 16_384, 2_097_140, 2_097_152] {
            let bytes = vec![0; count];
            for (properties, payload) in
                [(None, &bytes[..]), (Some(&bytes[..]), &b""[..]), (Some(&b""[..]), &bytes[..])]
            {
                let message = Publish { topic: "a", id: 7, retain: false, properties, payload };
                let mut out = Vec::new();
                message.write(&mut out);
                assert_eq!(out.len(), message.size(), "{count}");
            }
        }
    }
}
