//! Tests of what is written for a message.
#![allow(clippy::unwrap_used, clippy::panic)]

use waybill_mqtt_wire::packet::{self, Packet};
use waybill_mqtt_wire::property::{Properties, Property};
use waybill_plugin::annotation::ANNOTATIONS;

use super::*;

pub(crate) fn message() -> Message {
    Message {
        id: "m1".to_owned(),
        tenant: "acme".to_owned(),
        topic: "bus:orders.created".to_owned(),
        destination: "orders.created".to_owned(),
        key: Some("order-1".to_owned()),
        headers: vec![("X-Shop".to_owned(), "berlin".to_owned()), ("x-tenant".to_owned(), "other".to_owned())],
        content_type: Some("application/json".to_owned()),
        payload: b"{}".to_vec(),
        event_type: Some("order.created".to_owned()),
        envelope_id: Some("env-1".to_owned()),
        correlation_id: Some("cor-1".to_owned()),
        causation_id: Some("cau-1".to_owned()),
        reply_to: Some("answers".to_owned()),
        occurred_at: 0,
        created_at: 1,
        expires_at: None,
        attempt: 2,
        lease_epoch: 7,
        attributes: ANNOTATIONS.iter().map(|annotation| (annotation.name.to_owned(), "1".to_owned())).collect(),
    }
}

fn limits() -> Limits {
    Limits { receive_maximum: 20, packet: 4_000, ..Limits::of_silence() }
}

fn encoder(json: &str, version: Version, limits: &Limits) -> Encoder {
    let config: crate::config::Config = waybill_plugin::config::parse(json).unwrap();
    Encoder::new(&config.own, config.own.template().unwrap(), version, limits)
}

fn written(json: &str, version: Version, message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    encoder(json, version, &limits()).add(&mut out, message, 7).unwrap();
    out
}

fn read(bytes: &[u8], version: Version) -> packet::Message<'_> {
    match packet::next(bytes, version).unwrap().unwrap().packet {
        Packet::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_envelope_is_properties_and_no_header_takes_the_place_of_a_part() {
    let bytes = written("{}", Version::V5, &message());
    let message = read(&bytes, Version::V5);
    assert_eq!((message.topic, message.id, message.is_retained), (&b"orders.created"[..], 7, false));
    assert_eq!(message.payload, b"{}");
    let all: Vec<_> = Properties::new(message.properties).collect();
    for expected in [
        Property::Bytes(CONTENT_TYPE, b"application/json"),
        Property::Bytes(CORRELATION_DATA, b"cor-1"),
        Property::Bytes(RESPONSE_TOPIC, b"answers"),
        Property::Pair(b"id", b"m1"),
        Property::Pair(b"x-tenant", b"acme"),
        Property::Pair(b"x-key", b"order-1"),
        Property::Pair(b"x-attempt", b"2"),
        Property::Pair(b"X-Shop", b"berlin"),
    ] {
        assert_eq!(all.iter().filter(|property| **property == expected).count(), 1, "{expected:?}");
    }
    assert!(!all.contains(&Property::Pair(b"x-tenant", b"other")));
}

#[test]
fn the_older_version_has_a_cloudevent_unless_the_operator_wants_the_payload() {
    let bytes = written("{}", Version::V311, &message());
    let body = String::from_utf8_lossy(read(&bytes, Version::V311).payload).into_owned();
    assert!(body.starts_with(r#"{"specversion":"1.0","id":"m1","#) && body.ends_with(r#""data":{}}"#), "{body}");
    let bytes = written(r#"{"body":"plain"}"#, Version::V311, &message());
    assert_eq!(read(&bytes, Version::V311).payload, b"{}");
    let bytes = written(r#"{"body":"cloudevent"}"#, Version::V5, &message());
    let message = read(&bytes, Version::V5);
    let all: Vec<_> = Properties::new(message.properties).collect();
    assert_eq!(all, [Property::Bytes(CONTENT_TYPE, cloudevent::MEDIA_TYPE.as_bytes())]);
}

#[test]
fn retained_is_what_the_setting_or_the_message_says() {
    let own = |value: &str| Message { headers: vec![("MQTT-Retain".to_owned(), value.to_owned())], ..message() };
    for (json, message, expected) in [
        ("{}", message(), false),
        (r#"{"retain":true}"#, message(), true),
        ("{}", own("true"), true),
        (r#"{"retain":true}"#, own("false"), false),
    ] {
        let bytes = written(json, Version::V5, &message);
        let read = read(&bytes, Version::V5);
        assert_eq!(read.is_retained, expected, "{json}");
        let is_sent =
            |property| matches!(property, Property::Pair(name, _) if name.eq_ignore_ascii_case(b"mqtt-retain"));
        assert!(!Properties::new(read.properties).any(is_sent));
    }
    let none = Limits { retains: false, ..limits() };
    let fault = encoder("{}", Version::V5, &none).add(&mut Vec::new(), &own("true"), 7).unwrap_err();
    assert_eq!(fault.code, "MQTT.RETAIN");
}

#[test]
fn what_can_never_be_sent_is_told_and_leaves_nothing_behind() {
    for (message, code) in [
        (Message { payload: vec![0; 4_000], ..message() }, "MQTT.MAX_PACKET"),
        (Message { destination: "a/#".to_owned(), ..message() }, "MQTT.TOPIC"),
        (Message { headers: vec![("a".to_owned(), "b\r\n".to_owned())], ..message() }, "MQTT.HEADER"),
        (Message { key: Some("\u{0}".to_owned()), ..message() }, "MQTT.HEADER"),
        (Message { content_type: Some("a".repeat(65_536)), ..message() }, "MQTT.HEADER"),
    ] {
        let mut out = b"before".to_vec();
        let fault = encoder("{}", Version::V5, &limits()).add(&mut out, &message, 7).unwrap_err();
        assert_eq!((fault.code.as_str(), out.as_slice()), (code, &b"before"[..]));
    }
}

#[test]
fn a_reply_that_is_no_topic_and_an_end_in_time_are_kept() {
    let late = Message { reply_to: Some("answers/#".to_owned()), expires_at: Some(1), ..message() };
    let bytes = written("{}", Version::V5, &late);
    let all: Vec<_> = Properties::new(read(&bytes, Version::V5).properties).collect();
    assert!(all.contains(&Property::Pair(b"x-reply-to", b"answers/#")));
    assert!(all.contains(&Property::Number(MESSAGE_EXPIRY, 1)));
}

#[test]
fn a_packet_as_large_as_the_server_takes_is_sent_and_one_byte_more_is_not() {
    for version in [Version::V5, Version::V311] {
        let size = written("{}", version, &message()).len();
        for (packet, is_sent) in [(size, true), (size - 1, false)] {
            let limits = Limits { packet, ..limits() };
            let added = encoder("{}", version, &limits).add(&mut Vec::new(), &message(), 7);
            assert_eq!(added.is_ok(), is_sent, "{version:?}");
        }
    }
}
