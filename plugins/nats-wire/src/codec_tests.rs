//! Tests of the codec: what servers send, whole and in pieces, and what isn't NATS.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use proptest::prelude::*;

fn one(bytes: &[u8]) -> Operation<'_> {
    let (operation, length) = next(bytes).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    operation
}

#[test]
fn operations_are_read() {
    assert_eq!(one(b"PING\r\n"), Operation::Ping);
    assert_eq!(one(b"PONG\r\n"), Operation::Pong);
    assert_eq!(one(b"+OK\r\n"), Operation::Fine);
    assert_eq!(one(b"INFO {\"a\":1} \r\n"), Operation::Info(b"{\"a\":1}"));
    assert_eq!(one(b"-ERR 'Stale Connection'\r\n"), Operation::Error("Stale Connection"));
    assert_eq!(
        one(b"MSG _INBOX.a.7 1 11\r\nhello world\r\n"),
        Operation::Message(Message {
            subject: b"_INBOX.a.7",
            reply: b"",
            headers: b"",
            payload: b"hello world",
            omitted: None
        })
    );
    assert_eq!(
        one(b"MSG a 1 reply 2\r\n\r\n\r\n"),
        Operation::Message(Message { subject: b"a", reply: b"reply", headers: b"", payload: b"\r\n", omitted: None })
    );
}

#[test]
fn a_status_is_read_from_the_version_line() {
    for (bytes, expected) in [
        (&b"HMSG _INBOX.a.7 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"[..], Some(503)),
        (b"HMSG _INBOX.a.7 1 32 32\r\nNATS/1.0 408 Request Timeout\r\n\r\n\r\n", Some(408)),
        (b"HMSG a 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", None),
    ] {
        match next(bytes) {
            Ok(Some((Operation::Message(message), _))) => assert_eq!(message.status(), expected),
            Ok(None) => assert_eq!(expected, None),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn headers_are_read_in_their_order_and_values_lose_the_spaces_around_them() {
    let block = b"NATS/1.0 409 Consumer Deleted\r\nNats-Msg-Id: m1\r\nx-a:1\r\nno colon\r\nx-a:  2 : 3 \r\n\r\n";
    let message = Message { subject: b"a", reply: b"", headers: block, payload: b"", omitted: None };
    let lines: Vec<_> = message.header_lines().collect();
    assert_eq!(lines, [(&b"Nats-Msg-Id"[..], &b"m1"[..]), (b"x-a", b"1"), (b"x-a", b"2 : 3")]);
    assert_eq!((message.header("x-a"), message.header("X-A")), (Some(&b"1"[..]), None));
    assert_eq!((message.status(), message.status_text().as_ref()), (Some(409), "Consumer Deleted"));
    let bare = Message { headers: b"", ..message };
    assert_eq!((bare.header_lines().count(), bare.status_text().as_ref()), (0, ""));
}

#[test]
fn a_message_that_is_too_large_is_told_with_its_headers_and_skipped_by_its_size() {
    let head = b"NATS/1.0\r\nNats-Msg-Id: m1\r\n\r\n";
    let total = head.len() + 9_000_000;
    let mut bytes = format!("HMSG a.b 1 ack {} {total}\r\n", head.len()).into_bytes();
    assert_eq!(next(&bytes), Ok(None), "its headers are waited for");
    bytes.extend_from_slice(head);
    let (operation, length) = next(&bytes).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    let Operation::Message(message) = operation else { panic!("{operation:?}") };
    assert_eq!((message.header("Nats-Msg-Id"), message.omitted), (Some(&b"m1"[..]), Some(9_000_000)));
}

/// The counter of a connection that lives long.
#[test]
fn numbers_have_as_many_digits_as_a_connection_needs() {
    assert_eq!(number(b"0"), Some(0));
    assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
    for text in [&b""[..], b"18446744073709551616", b"1a", b"-1", b"+1", b" 1"] {
        assert_eq!(number(text), None);
    }
}

#[test]
fn what_is_not_nats_is_refused() {
    for bytes in [
        &b"\n"[..],
        b"\r\n",
        b"PING\n",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"MSG\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 x\r\n",
        b"MSG a 1 r x 3\r\n",
        b"MSG a 1 2\r\nabXY",
        b"MSG a 1 99999999\r\n",
        b"MSG a 1 99999999999999999999\r\n",
        b"HMSG a 1 5 3\r\nabc\r\n",
        b"-ERR '\xff'\r\n",
    ] {
        assert!(next(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
    }
    assert!(next(&vec![b'a'; LINE_BYTES_MAX]).is_err());
    let mut long = b"INFO ".to_vec();
    long.resize(INFO_BYTES_MAX, b' ');
    assert!(next(&long).is_err());
}

fn conversation() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let operation = prop_oneof![
        Just(b"PING\r\n".to_vec()),
        Just(b"INFO {\"max_payload\":1}\r\n".to_vec()),
        Just(b"-ERR 'Permissions Violation for Publish to \"a\"'\r\n".to_vec()),
        (prop::collection::vec(any::<u8>(), 0..40), any::<bool>()).prop_map(|(payload, headers)| {
            let head = if headers { &b"NATS/1.0\r\na: b\r\n\r\n"[..] } else { b"" };
            let verb = if headers { format!("HMSG a.b 1 {} ", head.len()) } else { "MSG a.b 1 ".to_owned() };
            let mut bytes = format!("{verb}{}\r\n", head.len() + payload.len()).into_bytes();
            bytes.extend([head, &payload, b"\r\n"].concat());
            bytes
        }),
    ];
    prop::collection::vec(operation, 1..8).prop_map(|all| (all.concat(), all.len()))
}

fn count(mut rest: &[u8]) -> usize {
    let mut count = 0;
    while let Ok(Some((_, length))) = next(rest) {
        assert!(length > 0 && length <= rest.len());
        rest = &rest[length..];
        count += 1;
    }
    count
}

proptest! {
    #[test]
    fn garbage_never_panics_and_never_claims_more_than_is_there(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        count(&bytes);
    }

    #[test]
    fn what_looks_like_nats_never_panics(text in "(MSG|HMSG|INFO|-ERR|PING)[ \t0-9a-z.'\"{}-]{0,60}(\r\n)?[a-zN/1.0 \r\n]{0,40}") {
        count(text.as_bytes());
    }

    #[test]
    fn a_conversation_is_read_the_same_however_it_is_cut((bytes, operations) in conversation(), cut in any::<prop::sample::Index>()) {
        prop_assert_eq!(count(&bytes), operations);
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
        prop_assert_eq!(seen, operations);
    }
}
