//! Tests of what is written for messages.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use waybill_pulsar_wire::proto::Command;

pub(crate) fn message() -> Message {
    Message {
        id: "m1".to_owned(),
        tenant: "acme".to_owned(),
        topic: "bus:orders.created".to_owned(),
        destination: "orders.created".to_owned(),
        key: Some("order-1".to_owned()),
        headers: vec![
            ("shop".to_owned(), "berlin".to_owned()),
            ("id".to_owned(), "not ours".to_owned()),
            ("shop".to_owned(), "bonn".to_owned()),
            ("X-Tenant".to_owned(), "other".to_owned()),
        ],
        content_type: Some("application/json".to_owned()),
        payload: b"{}".to_vec(),
        event_type: Some("order.created".to_owned()),
        envelope_id: None,
        correlation_id: Some("cor-1".to_owned()),
        causation_id: None,
        reply_to: None,
        occurred_at: 1_700_000_000_005,
        created_at: 1,
        expires_at: None,
        attempt: 2,
        lease_epoch: 7,
        attributes: vec![("seq".to_owned(), "42".to_owned())],
    }
}

fn written(messages: &[Message]) -> (Send, MessageMetadata, Vec<batch::Message>) {
    let prepared = messages.iter().map(|message| Prepared::of(message, 10_000).unwrap()).collect();
    let mut out = Vec::new();
    entry(&mut out, prepared, Sender { producer: 3, name: "p", sequence: 5 });
    let (length, frame) = frame::next(&out, 100_000).unwrap().unwrap();
    assert_eq!(length, out.len());
    let frame = frame.unwrap();
    let Command::Send(send) = frame.command else { panic!("{frame:?}") };
    let (metadata, payload) = frame::entry(&frame.entry).unwrap();
    let found = batch::messages(metadata.clone(), payload, 100_000).unwrap();
    (send, metadata, found)
}

fn value(message: &batch::Message, name: &str) -> Vec<String> {
    let same = message.properties.iter().filter(|property| property.key == name);
    same.map(|property| property.value.clone()).collect()
}

#[test]
fn one_message_is_an_entry_with_its_envelope_as_properties() {
    let (send, metadata, found) = written(&[message()]);
    assert_eq!((send.producer_id, send.sequence_id, send.num_messages), (3, 5, Some(1)));
    assert_eq!((metadata.num_messages_in_batch, metadata.sequence_id), (None, 5));
    assert_eq!(metadata.partition_key.as_deref(), Some("order-1"));
    assert_eq!(metadata.ordering_key.as_deref(), Some(&b"order-1"[..]));
    assert_eq!(metadata.event_time, Some(1_700_000_000_005));
    let [only] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(only.payload, b"{}");
    for (name, expected) in [
        ("id", "m1"),
        ("x-tenant", "acme"),
        ("x-key", "order-1"),
        ("x-attempt", "2"),
        ("x-seq", "42"),
        ("content-type", "application/json"),
        ("shop", "berlin, bonn"),
    ] {
        assert_eq!(value(only, name), [expected], "{name}");
    }
    assert!(value(only, "X-Tenant").is_empty());
}

#[test]
fn several_messages_are_a_batch_whose_messages_have_numbers_of_their_own() {
    let messages =
        ["a", "b", "c"].map(|id| Message { id: id.to_owned(), payload: id.as_bytes().to_vec(), ..message() });
    let (send, metadata, found) = written(&messages);
    assert_eq!((send.sequence_id, send.highest_sequence_id, send.num_messages), (5, Some(7), Some(3)));
    assert_eq!((metadata.sequence_id, metadata.highest_sequence_id), (5, Some(7)));
    assert_eq!(metadata.num_messages_in_batch, Some(3));
    assert_eq!(metadata.partition_key.as_deref(), Some("order-1"));
    for (found, sent) in found.iter().zip(&messages) {
        assert_eq!(value(found, "id"), std::slice::from_ref(&sent.id));
        assert_eq!((found.payload.as_slice(), found.key.as_deref()), (sent.payload.as_slice(), Some(&b"order-1"[..])));
    }
}

#[test]
fn a_message_without_a_key_has_none() {
    let (_, metadata, found) = written(&[Message { key: None, ..message() }]);
    assert_eq!((metadata.partition_key, metadata.ordering_key), (None, None));
    assert!(found.iter().all(|message| message.key.is_none()));
}

#[test]
fn what_is_larger_than_the_broker_takes_is_not_sent() {
    let large = Message { payload: vec![0; 10_000], ..message() };
    assert_eq!(Prepared::of(&large, 10_000).unwrap_err().code, "PULSAR.MESSAGE_SIZE");
    let prepared = Prepared::of(&large, 20_000).unwrap();
    let size = prepared.size;
    let mut out = Vec::new();
    entry(&mut out, vec![prepared], Sender { producer: 3, name: "p", sequence: 5 });
    assert!(out.len() <= size, "{} {size}", out.len());
}
