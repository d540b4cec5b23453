//! Tests of what is written for a message.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

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
        created_at: 1,
        expires_at: None,
        attempt: 2,
        lease_epoch: 7,
        attributes: vec![("seq".to_owned(), "42".to_owned())],
    }
}

fn encoder() -> Encoder<'static> {
    Encoder::new("_INBOX.x.".to_owned(), Some("ORDERS"), 1024)
}

fn encoded(message: &Message) -> String {
    let mut out = Vec::new();
    encoder().publish(&mut out, message, 17).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_message_is_one_hpub_with_right_lengths() {
    let text = encoded(&message());
    let (line, rest) = text.split_once("\r\n").unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let ["HPUB", "orders.created", "_INBOX.x.17", headers, total] = words.as_slice() else { panic!("{line}") };
    let (headers, total): (usize, usize) = (headers.parse().unwrap(), total.parse().unwrap());
    assert_eq!(rest.len(), total + 2);
    let (head, body) = rest.split_at(headers);
    assert_eq!(body, "{}\r\n");
    assert_eq!(
        head,
        "NATS/1.0\r\nNats-Msg-Id: m1\r\nNats-Expected-Stream: ORDERS\r\nx-tenant: acme\r\nx-topic: bus:orders.created\r\n\
         x-key: order-1\r\nx-event-type: order.created\r\nx-correlation-id: cor-1\r\nx-seq: 42\r\n\
         content-type: application/json\r\nx-occurred-at: 1970-01-01T00:00:00.000Z\r\n\
         x-created-at: 1970-01-01T00:00:00.001Z\r\nx-attempt: 2\r\nx-lease-epoch: 7\r\nX-Shop: berlin\r\n\
         traceparent: 00-1-2-01\r\n\r\n"
    );
}

#[test]
fn a_caller_commands_neither_jetstream_nor_the_envelope() {
    let mut wanted = message();
    wanted.headers = ["Nats-Msg-Id", "nats-rollup", "NATS-Expected-Last-Sequence", "X-Tenant", "Content-Type", "x-own"]
        .map(|name| (name.to_owned(), "evil".to_owned()))
        .into();
    let text = encoded(&wanted);
    assert_eq!(text.matches("evil").count(), 1);
    assert!(text.contains("x-own: evil\r\n"));
    wanted.content_type = None;
    assert!(encoded(&wanted).contains("Content-Type: evil\r\n"));
}

/// What the README says of them.
#[test]
fn a_cloud_event_of_the_callers_goes_as_it_is() {
    let mut wanted = message();
    wanted.headers = [("ce-specversion", "1.0"), ("ce-id", "m1"), ("ce-source", "/shop"), ("ce-type", "order.created")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let all = "ce-specversion: 1.0\r\nce-id: m1\r\nce-source: /shop\r\nce-type: order.created\r\n";
    assert!(encoded(&wanted).contains(all));
}

#[test]
fn what_could_break_out_of_its_place_is_refused_and_leaves_no_trace() {
    type Change = (fn(&mut Message), &'static str);
    let changes: [Change; 8] = [
        (|message| message.destination = "a b".to_owned(), "NATS.SUBJECT"),
        (|message| message.destination = "orders.*".to_owned(), "NATS.SUBJECT"),
        (|message| message.headers = vec![("a".to_owned(), "b\r\nNats-Rollup: all".to_owned())], "NATS.HEADER"),
        (|message| message.headers = vec![("a:b".to_owned(), "c".to_owned())], "NATS.HEADER"),
        (|message| message.headers = vec![("a b".to_owned(), "c".to_owned())], "NATS.HEADER"),
        (|message| message.headers = vec![(String::new(), "c".to_owned())], "NATS.HEADER"),
        (|message| message.key = Some("a\nb".to_owned()), "NATS.HEADER"),
        (|message| message.payload = vec![b'x'; 1024], "NATS.MAX_PAYLOAD"),
    ];
    for (change, code) in changes {
        let mut wanted = message();
        change(&mut wanted);
        let mut out = b"before".to_vec();
        let fault = encoder().publish(&mut out, &wanted, 1).unwrap_err();
        assert_eq!(fault.code, code);
        assert!(!fault.reason.contains(['\r', '\n']), "{}", fault.reason);
        assert_eq!(out, b"before");
    }
}

#[test]
fn numbers_are_decimal() {
    for number in [0, 7, 10, 99, 100, 1_234_567, u64::MAX] {
        let mut out = Vec::new();
        push_number(&mut out, number);
        assert_eq!(out, number.to_string().as_bytes());
    }
}
