//! Tests of what is written for a message.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use waybill_rabbitmq_wire::codec::{self, Frame, METHOD, Table, Value};
use waybill_rabbitmq_wire::wire;

pub(crate) fn message() -> Message {
    Message {
        id: "m1".to_owned(),
        tenant: "acme".to_owned(),
        topic: "bus:orders.created".to_owned(),
        destination: "orders.created".to_owned(),
        key: Some("order-1".to_owned()),
        headers: vec![("X-Shop".to_owned(), "berlin".to_owned()), ("traceparent".to_owned(), "00-1-2-01".to_owned())],
        content_type: Some("application/json".to_owned()),
        payload: b"{}".to_vec(),
        event_type: Some("order.created".to_owned()),
        envelope_id: None,
        correlation_id: Some("cor-1".to_owned()),
        causation_id: None,
        reply_to: None,
        occurred_at: 0,
        created_at: 1_500,
        expires_at: None,
        attempt: 2,
        lease_epoch: 7,
        attributes: vec![("seq".to_owned(), "42".to_owned())],
    }
}

fn target(unroutable: Unroutable) -> Target<'static> {
    Target { exchange: "amq.topic", routing_key: "orders.created".to_owned(), unroutable }
}

fn encoder() -> Encoder {
    Encoder { frame_max: 4096, persistent: true }
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    encoder().publish(&mut out, message, &target(Unroutable::Block)).unwrap();
    out
}

fn frames(mut rest: &[u8]) -> Vec<Frame<'_>> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (frame, length) = codec::next(rest).unwrap().unwrap();
        all.push(frame);
        rest = &rest[length..];
    }
    all
}

fn headers(bytes: &[u8]) -> Table<'_> {
    codec::content(frames(bytes)[1].payload).unwrap().headers.unwrap()
}

#[test]
fn a_message_is_a_method_a_header_and_its_body() {
    let bytes = encoded(&message());
    let all = frames(&bytes);
    assert!(all.iter().all(|frame| frame.channel == CHANNEL));
    let [publish, header, body] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((publish.kind, publish.payload), (METHOD, &b"\0\x3c\0\x28\0\0\x09amq.topic\x0eorders.created\x01"[..]));
    assert_eq!((body.kind, body.payload), (BODY, &b"{}"[..]));
    let content = codec::content(header.payload).unwrap();
    assert_eq!((content.body, content.message_id), (2, Some(&b"m1"[..])));
    // What follows the table: delivery mode, correlation id, message id, timestamp, type.
    let mut tail = vec![2];
    wire::short(&mut tail, "cor-1");
    wire::short(&mut tail, "m1");
    tail.extend_from_slice(&1_u64.to_be_bytes());
    wire::short(&mut tail, "order.created");
    assert!(header.payload.ends_with(&tail));
    let table = headers(&bytes);
    for (name, value) in [
        ("x-tenant", "acme"),
        ("x-topic", "bus:orders.created"),
        ("x-key", "order-1"),
        ("x-seq", "42"),
        ("x-occurred-at", "1970-01-01T00:00:00.000Z"),
        ("x-created-at", "1970-01-01T00:00:01.500Z"),
        ("X-Shop", "berlin"),
        ("traceparent", "00-1-2-01"),
    ] {
        assert_eq!(table.text(name).as_deref(), Some(value), "{name}");
    }
    assert_eq!((table.get("x-attempt"), table.get("x-lease-epoch")), (Some(Value::Number(2)), Some(Value::Number(7))));
    for name in ["x-event-type", "x-correlation-id", "content-type", "x-reply-to", "x-expires-at"] {
        assert_eq!(table.get(name), None, "{name}");
    }
}

#[test]
fn a_body_takes_as_many_frames_as_it_needs_and_an_empty_one_none() {
    for (length, parts) in [(0, 0), (1, 1), (4088, 1), (4089, 2), (10_000, 3)] {
        let payload: Vec<u8> = (0..length).map(|byte| (byte % 251) as u8).collect();
        let bytes = encoded(&Message { payload: payload.clone(), ..message() });
        let all = frames(&bytes);
        assert!(all.iter().all(|frame| frame.payload.len() + FRAME_OVERHEAD <= 4096));
        assert_eq!(all.len(), 2 + parts);
        assert_eq!(all[2..].iter().flat_map(|frame| frame.payload.to_vec()).collect::<Vec<_>>(), payload);
        assert_eq!(codec::content(all[1].payload).unwrap().body, length as u64);
    }
}

#[test]
fn only_what_somebody_wants_back_is_mandatory() {
    for (unroutable, bit) in [(Unroutable::Block, 1), (Unroutable::DeadLetter, 1), (Unroutable::Accept, 0)] {
        let mut out = Vec::new();
        encoder().publish(&mut out, &message(), &target(unroutable)).unwrap();
        assert_eq!(frames(&out)[0].payload.last(), Some(&bit));
    }
}

#[test]
fn a_caller_commands_neither_the_server_nor_the_envelope() {
    let wanted = Message {
        headers: [
            "CC",
            "BCC",
            "x-death",
            "x-first-death-queue",
            "X-Tenant",
            "x-attempt",
            "Content-Type",
            "cc",
            "x-own",
        ]
        .map(|name| (name.to_owned(), "evil".to_owned()))
        .into(),
        ..message()
    };
    let bytes = encoded(&wanted);
    assert_eq!(String::from_utf8_lossy(&bytes).matches("evil").count(), 2);
    assert_eq!(headers(&bytes).text("x-own").as_deref(), Some("evil"));
    let bytes = encoded(&Message { content_type: None, ..wanted });
    assert_eq!(headers(&bytes).text("Content-Type").as_deref(), Some("evil"));
}

#[test]
fn a_header_that_repeats_is_joined() {
    let repeated = [("a", "1"), ("b", "2"), ("a", "3"), ("a", "4")];
    let wanted =
        Message { headers: repeated.map(|(name, value)| (name.to_owned(), value.to_owned())).into(), ..message() };
    let bytes = encoded(&wanted);
    assert_eq!(headers(&bytes).text("a").as_deref(), Some("1, 3, 4"));
    assert_eq!(headers(&bytes).text("b").as_deref(), Some("2"));
    assert_eq!(String::from_utf8_lossy(&bytes).matches("\u{1}aS").count(), 1);
}

/// A property holds 255 bytes; a reply address of RabbitMQ's own would close the channel.
#[test]
fn what_does_not_fit_a_property_is_a_header() {
    let long = "a".repeat(256);
    let wanted = Message {
        correlation_id: Some(long.clone()),
        event_type: Some(long.clone()),
        content_type: Some(long.clone()),
        reply_to: Some("amq.rabbitmq.reply-to".to_owned()),
        ..message()
    };
    let bytes = encoded(&wanted);
    let table = headers(&bytes);
    for name in ["x-correlation-id", "x-event-type", "content-type"] {
        assert_eq!(table.text(name).as_deref(), Some(long.as_str()), "{name}");
    }
    assert_eq!(table.text("x-reply-to").as_deref(), Some("amq.rabbitmq.reply-to"));
    let content = frames(&bytes)[1].payload;
    let flags = u16::from_be_bytes([content[12], content[13]]);
    assert_eq!(flags & (CORRELATION_ID | TYPE | CONTENT_TYPE | REPLY_TO), 0);
}

#[test]
fn a_message_that_expires_says_when() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    for (until, least, most) in [(now + 60_000, 50_000, 60_000), (0, 1, 1), (u64::MAX, 4_294_967_295, 4_294_967_295)] {
        let left: u64 = time_left(until).parse().unwrap();
        assert!((least..=most).contains(&left), "{left}");
    }
    let bytes = encoded(&Message { expires_at: Some(now + 60_000), ..message() });
    let content = frames(&bytes)[1].payload;
    assert_ne!(u16::from_be_bytes([content[12], content[13]]) & EXPIRATION, 0);
}

#[test]
fn what_can_never_be_sent_is_refused_and_leaves_no_trace() {
    type Change = (fn(&mut Message), &'static str);
    let changes: [Change; 4] = [
        (|message| message.id = "a".repeat(256), "RABBITMQ.MESSAGE_ID"),
        (|message| message.headers = vec![(String::new(), "c".to_owned())], "RABBITMQ.HEADER"),
        (|message| message.headers = vec![("a".repeat(256), "c".to_owned())], "RABBITMQ.HEADER"),
        (|message| message.headers = vec![("a".to_owned(), "c".repeat(4096))], "RABBITMQ.HEADERS_TOO_LARGE"),
    ];
    for (change, code) in changes {
        let mut wanted = message();
        change(&mut wanted);
        let mut out = b"before".to_vec();
        let fault = encoder().publish(&mut out, &wanted, &target(Unroutable::Block)).unwrap_err();
        assert_eq!((fault.code.as_str(), out.as_slice()), (code, &b"before"[..]));
    }
}
