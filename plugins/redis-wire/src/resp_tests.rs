//! Tests of taking replies out of bytes: whole, cut anywhere, and garbage; and against another decoder.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use proptest::prelude::*;
use redis_protocol::resp3::decode::complete::decode;
use redis_protocol::resp3::types::OwnedFrame;

use super::*;

fn one(input: &[u8]) -> Reply<'_> {
    let (reply, length) = next(input).unwrap().unwrap();
    assert_eq!(length, input.len());
    reply
}

#[test]
fn each_kind_of_reply_is_taken() {
    for (input, expected) in [
        (&b"+OK\r\n"[..], Reply::Text(b"OK")),
        (b"-ERR no\r\n", Reply::Error(b"ERR no")),
        (b":-7\r\n", Reply::Number(-7)),
        (b"$3\r\na\r\n\r\n", Reply::Text(b"a\r\n")),
        (b"$0\r\n\r\n", Reply::Text(b"")),
        (b"$-1\r\n", Reply::Null),
        (b"*-1\r\n", Reply::Null),
        (b"_\r\n", Reply::Null),
        (b"#t\r\n", Reply::Number(1)),
        (b",1.5\r\n", Reply::Text(b"1.5")),
        (b"(123\r\n", Reply::Text(b"123")),
        (b"!5\r\nERR x\r\n", Reply::Error(b"ERR x")),
        (b"=6\r\ntxt:hi\r\n", Reply::Text(b"hi")),
        (b"*2\r\n:1\r\n$1\r\na\r\n", Reply::List(vec![Reply::Number(1), Reply::Text(b"a")])),
        (b"%1\r\n+a\r\n:1\r\n", Reply::List(vec![Reply::Text(b"a"), Reply::Number(1)])),
        (b"~1\r\n+a\r\n", Reply::List(vec![Reply::Text(b"a")])),
        (b">2\r\n+message\r\n+x\r\n", Reply::Push),
        (b"|1\r\n+ttl\r\n:3\r\n+OK\r\n", Reply::Text(b"OK")),
    ] {
        assert_eq!(one(input), expected, "{}", input.escape_ascii());
    }
}

#[test]
fn a_map_is_looked_up_by_its_keys() {
    let input = b"%2\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$5\r\nproto\r\n:3\r\n";
    let map = one(input);
    assert_eq!(map.get("role").and_then(Reply::text), Some("master"));
    assert_eq!(map.get("proto"), Some(&Reply::Number(3)));
    assert_eq!(map.get("mode"), None);
}

#[test]
fn what_is_no_resp_or_too_much_is_refused_at_once() {
    for input in [
        &b"HTTP/1.1 400 Bad Request\r\n"[..],
        b":x\r\n",
        b"$x\r\n",
        b"$-2\r\n",
        b"$99999999999\r\n",
        b"*9999999\r\n",
        b"$1\r\nabc",
        b"#x\r\n",
        b"_x\r\n",
        b"+a\rb\r\n",
        b"=2\r\nab\r\n",
        b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
    ] {
        assert!(next(input).is_err(), "{}", input.escape_ascii());
    }
    assert!(next(&[b'+'; LINE_BYTES_MAX + 2]).is_err());
}

/// Replies as servers write them, and how many they are.
fn conversation() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let text = "[a-z0-9 -]{0,20}";
    let leaf = prop_oneof![
        text.prop_map(|text| format!("+{text}\r\n").into_bytes()),
        text.prop_map(|text| format!("-ERR {text}\r\n").into_bytes()),
        any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| [
            format!("${}\r\n", bytes.len()).as_bytes(),
            &bytes,
            b"\r\n"
        ]
        .concat()),
        Just(b"_\r\n".to_vec()),
    ];
    let reply = leaf.prop_recursive(3, 24, 6, |inner| {
        prop::collection::vec(inner, 0..6)
            .prop_map(|all| [format!("*{}\r\n", all.len()).into_bytes(), all.concat()].concat())
    });
    prop::collection::vec(reply, 1..8).prop_map(|all| (all.concat(), all.len()))
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

/// Whether the two decoders say the same.
fn agrees(ours: &Reply<'_>, theirs: &OwnedFrame) -> bool {
    match (ours, theirs) {
        (Reply::Text(ours), OwnedFrame::SimpleString { data, .. } | OwnedFrame::BlobString { data, .. }) => {
            ours == data
        }
        (Reply::Error(ours), OwnedFrame::SimpleError { data, .. }) => *ours == data.as_bytes(),
        (Reply::Number(ours), OwnedFrame::Number { data, .. }) => ours == data,
        (Reply::Null, OwnedFrame::Null) => true,
        (Reply::List(ours), OwnedFrame::Array { data, .. }) => {
            ours.len() == data.len() && ours.iter().zip(data).all(|(ours, theirs)| agrees(ours, theirs))
        }
        _ => false,
    }
}

proptest! {
    #[test]
    fn garbage_never_panics_and_never_claims_more_than_is_there(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        count(&bytes);
    }

    #[test]
    fn what_looks_like_resp_never_panics(text in r"([+:$*_,#!(=%~>|-][0-9a-z-]{0,6}(\r\n)?){0,20}") {
        count(text.as_bytes());
    }

    #[test]
    fn a_conversation_is_read_the_same_however_it_is_cut((bytes, replies) in conversation(), cut in any::<prop::sample::Index>()) {
        prop_assert_eq!(count(&bytes), replies);
        let (first, second) = bytes.split_at(cut.index(bytes.len()));
        let mut input = waybill_plugin::net::Input::new();
        let mut seen = 0;
        for piece in [first, second] {
            input.push(piece.to_vec());
            while let Some((_, length)) = next(input.unread()).unwrap() {
                input.consume(length);
                seen += 1;
            }
        }
        prop_assert_eq!(seen, replies);
    }

    #[test]
    fn another_decoder_says_the_same((bytes, _) in conversation()) {
        let mut rest = bytes.as_slice();
        while let Some((ours, length)) = next(rest).unwrap() {
            let (theirs, their_length) = decode(rest).unwrap().unwrap();
            prop_assert_eq!(length, their_length);
            prop_assert!(agrees(&ours, &theirs), "{:?} and {:?}", ours, theirs);
            rest = &rest[length..];
        }
    }
}
