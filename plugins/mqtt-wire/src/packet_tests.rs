//! Tests of taking packets out of bytes: whole, cut anywhere, and garbage; and against another decoder.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use bytes::{Bytes, BytesMut};
use mqttbytes::{QoS, v4, v5};
use proptest::prelude::*;

use super::*;
use crate::property::{self, push_pair, push_property};
use crate::write::Publish;

fn one(input: &[u8], version: Version) -> Packet<'_> {
    let frame = next(input, version).unwrap().unwrap();
    assert_eq!((frame.here, frame.beyond), (input.len(), 0));
    frame.packet
}

#[test]
fn each_packet_of_a_server_is_taken() {
    let connected =
        |reason, is_older, properties| Packet::Connected(Connected { has_session: true, reason, is_older, properties });
    let acknowledged = |reason, said| Packet::Acknowledged(Answer { id: 7, reason, said });
    for (input, expected) in [
        (&b"\x20\x03\x01\0\0"[..], connected(0, false, &[][..])),
        (b"\x20\x06\x01\0\x03\x21\0\x14", connected(0, false, b"\x21\0\x14")),
        // What an older server answers to a newer client.
        (b"\x20\x02\x01\x01", connected(1, true, &[])),
        (b"\x40\x02\0\x07", acknowledged(0, None)),
        (b"\x40\x03\0\x07\x10", acknowledged(0x10, None)),
        (b"\x40\x09\0\x07\x87\x05\x1f\0\x02no", acknowledged(0x87, Some(&b"no"[..]))),
        (b"\x90\x05\0\x01\0\x01\x87", Packet::Subscribed { id: 1, reasons: &[1, 0x87] }),
        (b"\xb0\x05\0\x02\0\0\x87", Packet::Unsubscribed { id: 2, reasons: &[0, 0x87] }),
        (b"\xd0\0", Packet::Alive),
        (b"\xe0\0", Packet::Ended { reason: 0, said: None }),
        (b"\xe0\x01\x8e", Packet::Ended { reason: 0x8e, said: None }),
        (b"\xe0\x02\x8b\0", Packet::Ended { reason: 0x8b, said: None }),
    ] {
        assert_eq!(one(input, Version::V5), expected, "{}", input.escape_ascii());
    }
    assert_eq!(one(b"\xb0\x02\0\x02", Version::V311), Packet::Unsubscribed { id: 2, reasons: &[] });
    assert_eq!(one(b"\x90\x04\0\x01\x01\x80", Version::V311), Packet::Subscribed { id: 1, reasons: &[1, 0x80] });
}

#[test]
fn a_message_is_taken_with_all_that_it_says() {
    let Packet::Message(message) = one(b"\x3b\x0f\0\x01a\0\x07\x07\x26\0\x01k\0\x01vhi", Version::V5) else { panic!() };
    assert_eq!((message.is_again, message.is_retained, message.id, message.topic), (true, true, 7, &b"a"[..]));
    assert_eq!((Properties::new(message.properties).count(), message.payload), (1, &b"hi"[..]));
    let Packet::Message(message) = one(b"\x30\x05\0\x01ahi", Version::V311) else { panic!() };
    assert_eq!((message.id, message.payload, message.omitted), (0, &b"hi"[..], None));
}

#[test]
fn what_is_no_mqtt_or_not_for_us_is_refused_at_once() {
    for input in [
        &b"HTTP/1.1 400 Bad Request\r\n"[..],
        b"\x20\x01\0",
        b"\x40\x01\0",
        b"\x10\0",
        b"\x00\0",
        b"\xd0\xff\xff\xff\xff\x01",
        // Quality of service 2, an id of 0, properties that aren't whole.
        b"\x34\x06\0\x01a\0\x07\0",
        b"\x32\x06\0\x01a\0\0\0",
        b"\x32\x08\0\x01a\0\x07\x02\x63\0",
        b"\x90\x03\0\x01\0",
    ] {
        assert!(next(input, Version::V5).is_err(), "{}", input.escape_ascii());
    }
    assert!(next(b"\xe0\0", Version::V311).is_err(), "3.1.1 has no DISCONNECT of a server");
}

/// A message as we write it.
fn written(topic: &str, id: u16, pairs: &[(String, String)], payload: &[u8], version: Version) -> Vec<u8> {
    let mut properties = Vec::new();
    assert!(push_property(&mut properties, property::CONTENT_TYPE, "text/plain"));
    for (name, value) in pairs {
        assert!(push_pair(&mut properties, name, value));
    }
    let mut out = Vec::new();
    let properties = (version == Version::V5).then_some(properties.as_slice());
    Publish { topic, id, retain: false, properties, payload }.write(&mut out);
    out
}

proptest! {
    #[test]
    fn garbage_never_panics_and_never_claims_more_than_is_there(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0_u8..16, is_new in any::<bool>(),
    ) {
        let version = if is_new { Version::V5 } else { Version::V311 };
        if let [first, length, ..] = bytes.as_mut_slice() {
            *first = *first & 0x0f | kind << 4;
            *length &= 0x7f;
        }
        let mut rest = bytes.as_slice();
        while let Ok(Some(frame)) = next(rest, version) {
            prop_assert!(frame.here > 0 && frame.here <= rest.len());
            rest = &rest[frame.here..];
        }
    }

    #[test]
    fn another_decoder_reads_what_we_write_and_we_read_what_it_writes(
        topic in "[a-z/]{1,30}", id in 1_u16.., payload in prop::collection::vec(any::<u8>(), 0..300),
        pairs in prop::collection::vec(("[a-zäß-]{0,9}", "[ -~äß]{0,200}"), 0..5),
    ) {
        let ours = written(&topic, id, &pairs, &payload, Version::V5);
        let read = v5::read(&mut BytesMut::from(ours.as_slice()), 1 << 20);
        let Ok(v5::Packet::Publish(theirs)) = read else { panic!("{read:?}") };
        let properties = theirs.properties.clone().unwrap();
        prop_assert_eq!((theirs.topic.as_str(), theirs.pkid, theirs.qos), (topic.as_str(), id, QoS::AtLeastOnce));
        prop_assert_eq!((&theirs.payload[..], &properties.user_properties), (&payload[..], &pairs));
        prop_assert_eq!(properties.content_type.as_deref(), Some("text/plain"));
        let mut out = BytesMut::new();
        theirs.write(&mut out).unwrap();
        let (Packet::Message(from_them), Packet::Message(from_us)) = (one(&out, Version::V5), one(&ours, Version::V5))
        else { panic!() };
        prop_assert_eq!((from_them.topic, from_them.id, from_them.payload), (from_us.topic, from_us.id, from_us.payload));
        let sorted = |message: &Message<'_>| {
            let mut all: Vec<_> = Properties::new(message.properties).map(|each| format!("{each:?}")).collect();
            all.sort();
            all
        };
        prop_assert_eq!(sorted(&from_them), sorted(&from_us));
    }

    #[test]
    fn the_older_version_is_read_the_same(
        topic in "[a-z/]{1,30}", id in 1_u16.., payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let ours = written(&topic, id, &[], &payload, Version::V311);
        let read = v4::read(&mut BytesMut::from(ours.as_slice()), 1 << 20);
        let Ok(v4::Packet::Publish(theirs)) = read else { panic!("{read:?}") };
        prop_assert_eq!((theirs.topic.as_str(), theirs.pkid, &theirs.payload), (topic.as_str(), id, &Bytes::from(payload)));
    }

    #[test]
    fn a_conversation_is_read_the_same_however_it_is_cut(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8), cut in any::<prop::sample::Index>(),
    ) {
        let bytes: Vec<u8> =
            payloads.iter().flat_map(|payload| written("a", 1, &[], payload, Version::V5)).chain(*b"\xd0\0").collect();
        let (first, second) = bytes.split_at(cut.index(bytes.len()));
        let mut incoming = crate::Incoming::new(Version::V5);
        let mut read = Vec::new();
        for piece in [first, second] {
            incoming.push(piece.to_vec());
            while let Some(payload) = incoming.next(|packet| match packet {
                Packet::Message(message) => message.payload.to_vec(),
                _ => b"alive".to_vec(),
            }).unwrap() {
                read.push(payload);
            }
        }
        prop_assert_eq!(read.pop().unwrap(), b"alive".to_vec());
        prop_assert_eq!(read, payloads);
    }
}
