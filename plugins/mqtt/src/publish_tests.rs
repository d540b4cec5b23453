//! Tests of a batch under way, without a server.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use waybill_mqtt_wire::packet;
use waybill_mqtt_wire::{Limits, Version};

use super::*;
use crate::encode::tests::message;

fn encoder(json: &str) -> Encoder {
    let config: Config = waybill_plugin::config::parse(json).unwrap();
    Encoder::new(&config.own, config.own.template().unwrap(), Version::V5, &Limits::of_silence())
}

fn call() -> CallInfo {
    CallInfo { id: 1, timeout: 1_000, traceparent: None, attributes: Vec::new() }
}

fn batch(attempts: &[u32]) -> Vec<Message> {
    attempts.iter().map(|attempt| Message { attempt: *attempt, ..message() }).collect()
}

/// Ids of the messages in a chunk.
fn ids(chunk: &[u8]) -> Vec<u16> {
    let (mut ids, mut rest) = (Vec::new(), chunk);
    while let Some(frame) = packet::next(rest, Version::V5).unwrap() {
        let Packet::Message(message) = frame.packet else { panic!("{frame:?}") };
        ids.push(message.id);
        rest = &rest[frame.here..];
    }
    ids
}

fn answer(flight: &mut Flight<'_>, id: u16, reason: u8) {
    flight.take(Packet::Acknowledged(Answer { id, reason, said: None })).unwrap();
}

fn names(sent: &Sent) -> Vec<String> {
    let name = |outcome: &Outcome| match outcome {
        Outcome::Ack(receipt) => format!("ack {}", receipt.broker_ref.as_deref().unwrap_or_default()),
        Outcome::Retryable(fault) => format!("retryable {} {}", fault.code, fault.maybe_delivered),
        Outcome::Permanent(fault) => format!("permanent {}", fault.code),
        Outcome::Blocked(block) => format!("blocked {}", block.fault.code),
        Outcome::Release(fault) => format!("release {}", fault.code),
    };
    sent.outcomes.iter().map(|outcome| name(outcome).trim().to_owned()).collect()
}

#[test]
fn no_more_is_under_way_than_the_server_takes_and_ids_come_again() {
    let (call, batch, mut encoder) = (call(), batch(&[1; 5]), encoder("{}"));
    let mut flight = Flight::new(&call, &batch, &mut encoder, 2, NoSubscribers::Accept);
    assert_eq!(ids(&flight.chunk()), [1, 2]);
    assert!(flight.chunk().is_empty());
    answer(&mut flight, 2, 0);
    assert_eq!(ids(&flight.chunk()), [2]);
    answer(&mut flight, 1, 0);
    answer(&mut flight, 2, 0x87);
    assert_eq!(ids(&flight.chunk()).len(), 2);
    assert_eq!(flight.under_way, 2);
    let sent = flight.end(Some(PluginError::unavailable("MQTT.LOST", "gone")));
    let unknown = "retryable MQTT.LOST true";
    assert_eq!(names(&sent), ["ack", "ack", "blocked MQTT.PERMISSIONS", unknown, unknown]);
}

#[test]
fn what_was_not_written_is_given_back() {
    let (call, batch, mut encoder) = (call(), batch(&[1; 3]), encoder("{}"));
    let mut flight = Flight::new(&call, &batch, &mut encoder, 1, NoSubscribers::Accept);
    flight.chunk();
    let sent = flight.end(Some(PluginError::unavailable("MQTT.LOST", "gone")));
    assert_eq!(names(&sent), ["retryable MQTT.LOST true", "release MQTT.LOST", "release MQTT.LOST"]);
}

#[test]
fn what_was_tried_before_goes_alone_and_is_blamed_for_the_end() {
    let (call, batch, mut encoder) = (call(), batch(&[1, 2, 1]), encoder("{}"));
    let mut flight = Flight::new(&call, &batch, &mut encoder, 10, NoSubscribers::Accept);
    assert_eq!(ids(&flight.chunk()), [1]);
    answer(&mut flight, 1, 0);
    assert_eq!(ids(&flight.chunk()).len(), 1);
    assert!(flight.chunk().is_empty(), "it is alone");
    let ended = flight.take(Packet::Ended { reason: 0x95, said: None }).unwrap_err();
    let sent = flight.end(Some(ended));
    assert_eq!(names(&sent), ["ack", "permanent MQTT.MAX_PACKET", "release MQTT.CLOSED"]);
}

#[test]
fn a_message_that_nobody_hears_is_what_the_operator_says() {
    for (json, no_subscribers, expected) in [
        ("{}", NoSubscribers::Accept, "ack no-subscribers"),
        ("{}", NoSubscribers::Hold, "blocked MQTT.NO_SUBSCRIBERS"),
        (r#"{"retain":true}"#, NoSubscribers::Hold, "ack"),
    ] {
        let (call, batch, mut encoder) = (call(), batch(&[1]), encoder(json));
        let mut flight = Flight::new(&call, &batch, &mut encoder, 1, no_subscribers);
        flight.chunk();
        let place = flight.put(1, None).unwrap();
        assert_eq!(names(&Sent { outcomes: vec![flight.unheard(place)], lost: None }), [expected]);
    }
}

#[test]
fn an_acknowledgement_of_nothing_ends_the_connection() {
    let (call, batch, mut encoder) = (call(), batch(&[1]), encoder("{}"));
    let mut flight = Flight::new(&call, &batch, &mut encoder, 1, NoSubscribers::Accept);
    for id in [0, 1, 9] {
        let taken = flight.take(Packet::Acknowledged(Answer { id, reason: 0, said: None }));
        assert_eq!(taken.unwrap_err().fault.code, "MQTT.PROTOCOL");
    }
}

#[test]
fn signs_of_life_are_no_acknowledgements_and_ask_for_no_more_of_them() {
    let (call, batch, mut encoder) = (call(), batch(&[1; 3]), encoder("{}"));
    let mut flight = Flight::new(&call, &batch, &mut encoder, 10, NoSubscribers::Accept);
    let (mut incoming, mut beat) = (Incoming::new(Version::V5), Beat::new(60));
    let mut publishing = Publishing::new(&mut flight, &mut incoming, &mut beat, 50);
    assert_eq!(ids(&publishing.piece()), [1, 2, 3]);
    assert!(publishing.piece().is_empty() && !publishing.overdue());
    publishing.take(b"\x40\x02\0\x01".to_vec()).unwrap();
    assert_eq!(publishing.piece(), PING, "the others may be held back");
    std::thread::sleep(Duration::from_millis(60));
    publishing.take(b"\xd0\0".to_vec()).unwrap();
    assert!(publishing.piece().is_empty(), "one sign of life an acknowledgement");
    assert!(publishing.overdue(), "nothing was acknowledged in time");
    assert_eq!(publishing.pulse(), Some(50));
    publishing.take(b"\x40\x02\0\x02\x40\x02\0\x03".to_vec()).unwrap();
    assert!(!publishing.overdue() && !publishing.waits());
}
