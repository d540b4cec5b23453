//! Tests of the codec: what servers send, whole and in pieces, and what isn't AMQP.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use crate::wire;
use proptest::prelude::*;

fn one(bytes: &[u8]) -> Frame<'_> {
    let (frame, length) = next(bytes).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    frame
}

fn written(id: (u16, u16), write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    wire::method(&mut out, 1, id, write);
    out
}

#[test]
fn a_greeting_is_read() {
    let bytes = written((10, 10), |out| {
        out.extend_from_slice(&[0, 9]);
        wire::table(out, |out| {
            wire::text_entry(out, "product", "RabbitMQ");
            wire::short(out, "capabilities");
            out.push(b'F');
            wire::table(out, |out| wire::flag_entry(out, "publisher_confirms", true));
            wire::text_entry(out, "version", "3.10.8");
        });
        wire::long(out, b"PLAIN AMQPLAIN");
        wire::long(out, b"en_US");
    });
    let Method::Start { properties, mechanisms } = method(one(&bytes).payload).unwrap() else { panic!() };
    assert_eq!(mechanisms, b"PLAIN AMQPLAIN");
    assert_eq!(properties.text("version").as_deref(), Some("3.10.8"));
    assert_eq!(properties.text("capabilities"), None);
    let Some(Value::Table(capabilities)) = properties.get("capabilities") else { panic!() };
    assert_eq!(capabilities.get("publisher_confirms"), Some(Value::Flag(true)));
    assert_eq!(capabilities.get("other"), None);
}

#[test]
fn methods_are_read() {
    let closing = |out: &mut Vec<u8>| {
        out.extend_from_slice(&320_u16.to_be_bytes());
        wire::short(out, "CONNECTION_FORCED");
        out.extend_from_slice(&[0; 4]);
    };
    for id in [(10, 50), (20, 40), (60, 50)] {
        let bytes = written(id, closing);
        let (Method::Close(read) | Method::ChannelClose(read) | Method::Return(read)) =
            method(one(&bytes).payload).unwrap()
        else {
            panic!("{id:?}")
        };
        assert_eq!((read.code, read.text().as_ref()), (320, "CONNECTION_FORCED"));
    }
    for (bits, multiple) in [(0, false), (1, true)] {
        for (id, taken) in [((60, 80), true), ((60, 120), false)] {
            let bytes = written(id, |out| {
                out.extend_from_slice(&7_u64.to_be_bytes());
                out.push(bits);
            });
            assert_eq!(method(one(&bytes).payload), Ok(Method::Confirm { tag: 7, multiple, taken }));
        }
    }
    let bytes = written((10, 60), |out| wire::short(out, "low on memory"));
    assert_eq!(method(one(&bytes).payload), Ok(Method::Blocked(b"low on memory")));
    let bytes = written((10, 30), |out| out.extend_from_slice(&[7, 255, 0, 2, 0, 0, 0, 60]));
    assert_eq!(method(one(&bytes).payload), Ok(Method::Tune { frame_max: 131_072, heartbeat: 60 }));
    let bytes = written((50, 11), |out| {
        wire::short(out, "orders");
        out.extend_from_slice(&[0, 0, 0, 7, 0, 0, 0, 2]);
    });
    assert_eq!(method(one(&bytes).payload), Ok(Method::Queue { messages: 7, consumers: 2 }));
    let bytes = written((60, 60), |out| {
        wire::short(out, "ctag");
        out.extend_from_slice(&9_u64.to_be_bytes());
        out.push(1);
        wire::short(out, "amq.topic");
        wire::short(out, "orders.created");
    });
    let deliver = Deliver { tag: 9, redelivered: true, exchange: b"amq.topic", routing_key: b"orders.created" };
    assert_eq!(method(one(&bytes).payload), Ok(Method::Deliver(deliver)));
    let mut beat = Vec::new();
    wire::heartbeat(&mut beat);
    assert_eq!(one(&beat), Frame { kind: HEARTBEAT, channel: 0, payload: b"" });
}

/// Every kind of value that RabbitMQ sends is stepped over.
#[test]
fn a_table_is_searched_behind_values_of_every_kind() {
    let values: [&[u8]; 16] = [
        b"t\x01",
        b"b\x01",
        b"B\x01",
        b"s\0\x01",
        b"u\0\x01",
        b"i\0\0\0\x01",
        b"I\0\0\0\x01",
        b"l\0\0\0\0\0\0\0\x01",
        b"f\0\0\0\x01",
        b"d\0\0\0\0\0\0\0\x01",
        b"D\0\0\0\0\x01",
        b"T\0\0\0\0\0\0\0\x01",
        b"S\0\0\0\x02ab",
        b"x\0\0\0\x02ab",
        b"A\0\0\0\x02t\x01",
        b"V",
    ];
    let mut bytes = Vec::new();
    for value in values {
        wire::short(&mut bytes, "other");
        bytes.extend_from_slice(value);
    }
    wire::number_entry(&mut bytes, "wanted", -7);
    assert_eq!(Table(&bytes).get("wanted"), Some(Value::Number(-7)));
    wire::short(&mut bytes, "unknown");
    bytes.push(b'?');
    assert_eq!(Table(&bytes).get("behind"), None);
}

#[test]
fn the_properties_of_a_message_are_read_as_far_as_they_are_needed() {
    let mut bytes = vec![0, 60, 0, 0];
    bytes.extend_from_slice(&5_u64.to_be_bytes());
    let flags = CONTENT_TYPE | HEADERS | DELIVERY_MODE | PRIORITY | CORRELATION_ID | REPLY_TO | EXPIRATION | MESSAGE_ID;
    bytes.extend_from_slice(&(flags | TIMESTAMP | TYPE).to_be_bytes());
    wire::short(&mut bytes, "text/plain");
    wire::table(&mut bytes, |out| wire::text_entry(out, "x-tenant", "acme"));
    bytes.extend_from_slice(&[2, 0]);
    for text in ["cor", "rep", "1000", "m1"] {
        wire::short(&mut bytes, text);
    }
    bytes.extend_from_slice(&1_700_000_000_u64.to_be_bytes());
    wire::short(&mut bytes, "order.created");
    let read = content(&bytes).unwrap();
    assert_eq!((read.body, read.message_id), (5, Some(&b"m1"[..])));
    assert_eq!((read.content_type, read.kind), (Some(&b"text/plain"[..]), Some(&b"order.created"[..])));
    assert_eq!((read.correlation_id, read.reply_to), (Some(&b"cor"[..]), Some(&b"rep"[..])));
    assert_eq!(read.timestamp, Some(1_700_000_000));
    assert_eq!(read.headers.unwrap().get("x-tenant"), Some(Value::Text(b"acme")));
    assert!(content(&bytes[..bytes.len() - 1]).is_err());
    let without = [&[0, 60, 0, 0][..], &[0; 8], &[0, 0]].concat();
    assert_eq!(content(&without), Ok(Content::default()));
}

#[test]
fn what_is_not_amqp_is_refused() {
    for bytes in [
        &b"AMQP\0\0\x09\x01"[..],
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\x15\x03\x01\0\x02\x02\x46",
        b"INFO {}",
        b"\x01\0\0\0\0\0\x01a\xcf",
        b"\x01\0\0\0\xff\xff\xff",
        b"\x01\0\0\x7f\xff\xff\xff",
    ] {
        assert!(next(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
    }
    for payload in
        [&b""[..], b"\0\x0a", b"\0\x0a\0\x32\x01\x40\x05abc", b"\0\x0a\0\x63", b"\0\x3c\0\x50\0\0\0\0\0\0\0\x01"]
    {
        assert!(method(payload).is_err(), "{payload:?}");
    }
}

fn conversation() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let frame = (
        prop::sample::select(vec![METHOD, HEADER, BODY, HEARTBEAT]),
        any::<u16>(),
        prop::collection::vec(any::<u8>(), 0..60),
    )
        .prop_map(|(kind, channel, payload)| {
            let mut out = Vec::new();
            wire::frame(&mut out, kind, channel, |out| out.extend(payload));
            out
        });
    prop::collection::vec(frame, 1..8).prop_map(|all| (all.concat(), all.len()))
}

fn count(mut rest: &[u8]) -> usize {
    let mut count = 0;
    while let Ok(Some((frame, length))) = next(rest) {
        assert!(length > 0 && length <= rest.len());
        // Whatever they hold.
        let _ = (method(frame.payload), content(frame.payload));
        rest = &rest[length..];
        count += 1;
    }
    count
}

proptest! {
    #[test]
    fn garbage_never_panics_and_never_claims_more_than_is_there(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        count(&bytes);
        let _ = (method(&bytes), content(&bytes), Table(&bytes).get("name"));
    }

    #[test]
    fn what_looks_like_a_method_never_panics(
        class in prop::sample::select(vec![10_u16, 20, 40, 50, 60, 85]), number in 0_u16..130, rest in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let payload = [&class.to_be_bytes()[..], &number.to_be_bytes(), &rest].concat();
        if let Ok(Method::Start { properties, .. }) = method(&payload) {
            let _ = properties.get("product");
        }
    }

    #[test]
    fn what_looks_like_a_content_header_never_panics(flags in any::<u16>(), rest in prop::collection::vec(any::<u8>(), 0..80)) {
        let payload = [&[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], &flags.to_be_bytes(), &rest].concat();
        if let Ok(Content { headers: Some(headers), .. }) = content(&payload) {
            let _ = headers.get("x-tenant");
        }
    }

    #[test]
    fn a_conversation_is_read_the_same_however_it_is_cut((bytes, frames) in conversation(), cut in any::<prop::sample::Index>()) {
        prop_assert_eq!(count(&bytes), frames);
        let cut = cut.index(bytes.len());
        let (first, second) = bytes.split_at(cut);
        let mut input = waybill_plugin::net::Input::new();
        let mut seen = 0;
        for piece in [first, second] {
            input.push(piece.to_vec());
            while let Some((_, length)) = next(input.unread()).unwrap() {
                input.consume(length);
                seen += 1;
            }
        }
        prop_assert_eq!(seen, frames);
    }
}
