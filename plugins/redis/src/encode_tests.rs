//! Tests of what is written for a message.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use proptest::prelude::*;

use super::*;
use crate::config::Config;
use waybill_redis_wire::resp::{self, Reply};

pub(crate) fn message() -> Message {
    Message {
        id: "m1".to_owned(),
        tenant: "acme".to_owned(),
        topic: "bus:orders.created".to_owned(),
        destination: "orders.created".to_owned(),
        key: Some("order-1".to_owned()),
        headers: vec![("X-Shop".to_owned(), "berlin".to_owned()), ("id".to_owned(), "not ours".to_owned())],
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

fn encoder(json: &str) -> Encoder {
    let config: Config = waybill_plugin::config::parse(json).unwrap();
    config.check().unwrap();
    Encoder::new(&config.own, config.own.template().unwrap(), 1024)
}

/// The words of the one command in these bytes.
fn words(bytes: &[u8]) -> Vec<String> {
    let (Reply::List(list), length) = resp::next(bytes).unwrap().unwrap() else { panic!("no command") };
    assert_eq!(length, bytes.len());
    list.iter().map(|word| word.text().unwrap().to_owned()).collect()
}

fn encoded(encoder: &mut Encoder, message: &Message) -> Vec<String> {
    let mut out = Vec::new();
    encoder.tick();
    encoder.add(&mut out, message).unwrap();
    words(&out)
}

const FIELDS: &str = "id m1 tenant acme topic bus:orders.created key order-1 event-type order.created correlation-id cor-1 seq 42 \
    content-type application/json occurred-at 1970-01-01T00:00:00.000Z created-at 1970-01-01T00:00:00.001Z attempt 2 \
    lease-epoch 7 h:X-Shop berlin h:id";

#[test]
fn a_message_is_one_xadd_with_its_envelope_as_fields() {
    let found = encoded(&mut encoder("{}"), &message()).join(" ");
    assert_eq!(found, format!("XADD orders.created * {FIELDS} not ours payload {{}}"));
}

#[test]
fn what_an_operator_sets_stands_before_the_fields() {
    for (json, expected) in [
        (r#"{"create_streams":false}"#, "XADD orders.created NOMKSTREAM * id"),
        (r#"{"trim":{"max_len":1000}}"#, "XADD orders.created MAXLEN ~ 1000 * id"),
        (r#"{"trim":{"max_len":1000,"exact":true},"stream":"{tenant}"}"#, "XADD acme MAXLEN = 1000 * id"),
    ] {
        let found = encoded(&mut encoder(json), &message()).join(" ");
        assert!(found.starts_with(expected), "{json}: {found}");
    }
    let by_age = encoded(&mut encoder(r#"{"trim":{"max_age":"1h"}}"#), &message());
    assert_eq!(&by_age[2..4], ["MINID", "~"]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let age = now - by_age[4].parse::<u128>().unwrap();
    assert!((3_600_000..7_200_000).contains(&age), "{age}");
}

#[test]
fn the_script_goes_out_whole_once_and_by_its_hash_from_then_on() {
    let mut encoder = encoder(r#"{"dedup":"window","dedup_window":"10m"}"#);
    for command in [["EVAL", SCRIPT], ["EVALSHA", SHA1]] {
        let found = encoded(&mut encoder, &message());
        assert_eq!(&found[..2], command);
        let expected = ["2", "orders.created", "waybill:sent:14:{orders.created}:4:acme:m1", "600000", "*", "id", "m1"];
        assert_eq!(&found[2..9], expected);
    }
    encoder.knows_script = false;
    assert_eq!(encoded(&mut encoder, &message())[0], "EVAL");
}

#[test]
fn what_can_not_be_sent_leaves_nothing_behind() {
    let mut encoder = encoder(r#"{"stream":"{key}"}"#);
    for (message, code) in [
        (Message { key: None, ..message() }, "REDIS.STREAM"),
        (Message { payload: vec![b'x'; 1025], ..message() }, "REDIS.MAX_PAYLOAD"),
    ] {
        let mut out = b"before".to_vec();
        assert_eq!(encoder.add(&mut out, &message).unwrap_err().code, code);
        assert_eq!(out, b"before");
    }
}

proptest! {
    /// Lengths are told, so nothing in a message can become a command.
    #[test]
    fn whatever_is_in_a_message_it_is_one_command(
        id in ".{1,20}", header in ".{0,20}", value in ".{0,20}", payload in prop::collection::vec(any::<u8>(), 0..60),
        dedup in any::<bool>(),
    ) {
        let mut encoder = encoder(if dedup { r#"{"dedup":"window"}"# } else { "{}" });
        let message = Message { id, headers: vec![(header, value)], payload: payload.clone(), ..message() };
        let mut out = Vec::new();
        encoder.add(&mut out, &message).unwrap();
        let (reply, length) = resp::next(&out).unwrap().unwrap();
        prop_assert_eq!(length, out.len());
        let Reply::List(list) = reply else { panic!("{reply:?}") };
        prop_assert_eq!(list.last(), Some(&Reply::Text(&payload)));
    }
}
