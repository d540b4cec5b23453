//! Tests of a conversation with one broker: what it answers for entries, and what becomes of their messages.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use crate::encode::tests::message;
use waybill_plugin::transport::{CallInfo, Message};
use waybill_pulsar_wire::proto::{CloseProducer, SendError, SendReceipt};
use waybill_pulsar_wire::{Auth, Credentials};

const PRODUCER: u64 = 3;
const NOT_ALLOWED: i32 = 22;
const TERMINATED: i32 = 15;
const LIMITS: Limits = Limits { window: 100, messages: 100, bytes: 100_000, message_max: 100_000, patience: 1_000 };

/// Sends these messages through a flight that `act` plays the broker of; answers an outcome each.
fn fly(keys: &[Option<&str>], messages: usize, act: impl FnOnce(&mut Flight<'_, '_>)) -> Vec<Outcome> {
    let batch: Vec<Message> = keys.iter().map(|key| Message { key: key.map(str::to_owned), ..message() }).collect();
    let call = CallInfo { id: 1, timeout: 1_000, traceparent: None, attributes: Vec::new() };
    let mut incoming = Incoming::new(Credentials::read(Auth::None, false).unwrap());
    let mut state = State::new(&call, &batch);
    let mut lanes = vec![Lane {
        topic: "t".to_owned(),
        partition: None,
        name: "t".to_owned(),
        queue: (0..batch.len()).collect(),
        alone: false,
    }];
    let producer = Producer::new(0, PRODUCER, "p".to_owned());
    let mut producers = HashMap::from([("t".to_owned(), producer)]);
    let limits = Limits { messages, ..LIMITS };
    let mut flight = Flight::new(&mut incoming, &mut state, &mut lanes, &mut producers, limits);
    act(&mut flight);
    let State { outcomes, written, .. } = state;
    outcomes.end(&Fault::new("TEST.OPEN", "not told"), |place| written[place])
}

fn write(flight: &mut Flight<'_, '_>) -> usize {
    let before = flight.pending.len();
    flight.write(&mut Vec::new());
    flight.pending.len() - before
}

fn refuse(flight: &mut Flight<'_, '_>, sequence_id: u64, error: i32, message: &str) {
    let error = SendError { producer_id: PRODUCER, sequence_id, error, message: message.to_owned() };
    flight.take(Command::SendError(error));
}

fn acknowledge(flight: &mut Flight<'_, '_>, sequence_id: u64) {
    flight.take(Command::SendReceipt(SendReceipt { producer_id: PRODUCER, sequence_id, message_id: None }));
}

/// An outcome as a letter and its code; a capital may be delivered.
fn fates(outcomes: &[Outcome]) -> Vec<String> {
    let shown = |outcome: &Outcome| match outcome {
        Outcome::Ack(_) => "a".to_owned(),
        Outcome::Retryable(fault) if fault.maybe_delivered => format!("R {}", fault.code),
        Outcome::Retryable(fault) => format!("r {}", fault.code),
        Outcome::Permanent(fault) => format!("d {}", fault.code),
        Outcome::Blocked(block) => format!("b {}", block.fault.code),
        Outcome::Release(fault) => format!("- {}", fault.code),
    };
    outcomes.iter().map(shown).collect()
}

#[test]
fn a_refusal_names_an_entry_by_its_last_number_or_its_first() {
    for sequence in [0, 2] {
        let outcomes = fly(&[Some("a"), Some("a"), Some("a")], 100, |flight| {
            assert_eq!(write(flight), 1);
            refuse(flight, sequence, TERMINATED, "");
            assert!(!flight.waits() && flight.waiting == 0);
        });
        assert_eq!(fates(&outcomes), ["b PULSAR.TERMINATED"; 3], "{sequence}");
    }
}

#[test]
fn a_refusal_of_one_entry_leaves_the_others_alone() {
    let outcomes = fly(&[None, None, None, None], 2, |flight| {
        assert_eq!(write(flight), 2);
        refuse(flight, 3, TERMINATED, "");
        refuse(flight, 9, TERMINATED, "");
        flight.take(Command::SendError(SendError {
            producer_id: PRODUCER + 1,
            sequence_id: 1,
            error: TERMINATED,
            message: String::new(),
        }));
        acknowledge(flight, 0);
    });
    assert_eq!(fates(&outcomes), ["a", "a", "b PULSAR.TERMINATED", "b PULSAR.TERMINATED"]);
}

#[test]
fn what_was_written_in_one_entry_may_be_delivered_all_of_it() {
    // 0: nobody knows what went wrong, so it may be there all the same.
    let outcomes = fly(&[Some("a"), Some("b"), Some("a")], 100, |flight| {
        write(flight);
        refuse(flight, 2, 0, "");
    });
    assert_eq!(fates(&outcomes), ["R PULSAR.SERVER_ERROR"; 3]);
    let outcomes = fly(&[Some("a"), Some("a"), Some("a")], 2, |flight| {
        write(flight);
        flight.take(Command::CloseProducer(CloseProducer { producer_id: PRODUCER, request_id: 1 }));
    });
    assert_eq!(fates(&outcomes), ["R PULSAR.MOVED", "R PULSAR.MOVED", "- PULSAR.BEHIND"]);
}

#[test]
fn messages_of_an_entry_that_is_too_large_go_alone_and_in_order() {
    let outcomes = fly(&[Some("a"), Some("a"), Some("b")], 100, |flight| {
        assert_eq!(write(flight), 1);
        refuse(flight, 2, NOT_ALLOWED, "Exceed maximum message size");
        assert!(!flight.state.written.iter().any(|written| *written), "none of it is there");
        // The head of each key that is next; the second of `a` waits for the first.
        assert_eq!(write(flight), 1);
        acknowledge(flight, 3);
        assert_eq!(write(flight), 2);
        refuse(flight, 4, NOT_ALLOWED, "Exceed maximum message size");
        acknowledge(flight, 5);
    });
    assert_eq!(fates(&outcomes), ["a", "d PULSAR.MESSAGE_SIZE", "a"]);
}
