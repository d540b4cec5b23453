//! Tests of entries and their messages.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use waybill_pulsar_wire::proto::{Command, MessageMetadata, Send, SingleMessageMetadata};

const CONSUMER: u64 = 3;

/// An entry with these payloads: a batch, if there are several.
fn entry(payloads: &[&str]) -> Vec<u8> {
    let mut metadata = MessageMetadata { producer_name: "p".to_owned(), ..MessageMetadata::default() };
    let mut payload = Vec::new();
    if let [only] = payloads {
        payload.extend_from_slice(only.as_bytes());
    } else {
        metadata.num_messages_in_batch = i32::try_from(payloads.len()).ok();
        for text in payloads {
            let size = i32::try_from(text.len()).unwrap();
            let single = SingleMessageMetadata { payload_size: size, ..SingleMessageMetadata::default() };
            batch::add(&mut payload, &single, text.as_bytes());
        }
    }
    let mut out = Vec::new();
    frame::send(&mut out, Send::default(), &metadata, &payload);
    let (_, frame) = frame::next(&out, 10_000).unwrap().unwrap();
    let frame = frame.unwrap();
    assert!(matches!(frame.command, Command::Send(_)));
    frame.entry
}

fn delivered(number: u64, before: u32, ack_set: Vec<i64>) -> Delivered {
    let message_id = MessageIdData { ledger_id: 1, entry_id: number, ..MessageIdData::default() };
    Delivered { consumer_id: CONSUMER, message_id, redelivery_count: Some(before), ack_set }
}

fn entries(messages: u32) -> Entries {
    let mut entries = Entries::new(1, Window { messages, bytes: 1_000_000 });
    entries.permits().add(CONSUMER);
    assert_eq!(grants(&mut entries), [(CONSUMER, 1)]);
    entries
}

fn grants(entries: &mut Entries) -> Vec<(u64, u32)> {
    entries.permits().grants(|_| 0)
}

fn next(entries: &mut Entries) -> (String, Vec<u8>) {
    let (held, token) = entries.next(None).unwrap();
    (String::from_utf8(held.message.payload).unwrap(), token)
}

fn numbers(of: HashMap<u64, Vec<MessageIdData>>) -> Vec<u64> {
    let mut numbers: Vec<u64> = of.into_values().flatten().map(|id| id.entry_id).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn an_entry_is_done_when_all_its_messages_are_settled() {
    let mut entries = entries(10);
    entries.take(delivered(5, 0, vec![]), entry(&["a", "b", "c"]));
    let tokens: Vec<_> = (0..3).map(|_| next(&mut entries).1).collect();
    assert!(entries.settle(&tokens[2]) && entries.settle(&tokens[0]));
    assert!(!entries.settle(&tokens[0]), "once");
    assert!(numbers(entries.done()).is_empty());
    assert!(entries.settle(&tokens[1]));
    assert_eq!(numbers(entries.done()), [5]);
    assert!(numbers(entries.done()).is_empty() && entries.handed() == 0);
}

#[test]
fn what_is_given_back_comes_again_before_what_is_behind_it() {
    let mut entries = entries(10);
    for (number, text) in [(1, "a"), (2, "b"), (3, "c")] {
        entries.take(delivered(number, 0, vec![]), entry(&[text]));
    }
    let (first, second) = (next(&mut entries).1, next(&mut entries).1);
    assert!(entries.release(&second) && entries.release(&first) && !entries.release(&first));
    let (held, token) = entries.next(None).unwrap();
    assert_eq!((held.message.payload.as_slice(), held.is_again), (&b"a"[..], true));
    assert_eq!(next(&mut entries).0, "b");
    assert_eq!(next(&mut entries).0, "c");
    assert!(entries.settle(&token));
    assert_eq!(numbers(entries.done()), [1]);
}

#[test]
fn permits_are_given_as_messages_are_settled_and_a_large_batch_is_made_up_for() {
    let mut entries = entries(4);
    entries.take(delivered(1, 0, vec![]), entry(&["a", "b", "c", "d", "e", "f"]));
    // It was sent five more than it was allowed; what it is told now makes up for three of them.
    assert_eq!(grants(&mut entries), [(CONSUMER, 3)]);
    let tokens: Vec<_> = (0..6).map(|_| next(&mut entries).1).collect();
    assert!(grants(&mut entries).is_empty());
    for token in &tokens[..4] {
        assert!(entries.settle(token));
    }
    // Two of four are open, and none is allowed: it was sent two more than it was allowed.
    assert_eq!(grants(&mut entries), [(CONSUMER, 4)]);
    assert!(entries.settle(&tokens[4]));
    assert!(grants(&mut entries).is_empty(), "not for one");
    assert!(entries.settle(&tokens[5]));
    assert_eq!(grants(&mut entries), [(CONSUMER, 2)]);
}

#[test]
fn bits_that_are_off_are_messages_that_were_acknowledged() {
    let mut entries = entries(10);
    entries.take(delivered(1, 2, vec![0b101]), entry(&["a", "b", "c"]));
    let (held, _) = entries.next(None).unwrap();
    assert_eq!((held.message.payload.as_slice(), held.before, held.is_again), (&b"a"[..], 2, true));
    assert_eq!(next(&mut entries).0, "c");
    assert!(entries.next(None).is_none());
}

#[test]
fn what_was_not_handed_over_goes_back_and_what_was_does_not() {
    let mut entries = entries(10);
    entries.take(delivered(1, 0, vec![]), entry(&["a", "b"]));
    entries.take(delivered(2, 0, vec![]), entry(&["c"]));
    let (_, token) = next(&mut entries);
    assert_eq!(numbers(entries.give_back()), [2]);
    assert_eq!((entries.held(), entries.held_bytes()), (1, 1), "b is of an entry that is in hand");
    assert_eq!(entries.lost(), std::slice::from_ref(&token));
    assert_eq!(entries.remove_consumer(CONSUMER), std::slice::from_ref(&token));
    assert!(!entries.settle(&token) && entries.held() == 0 && entries.held_bytes() == 0 && entries.handed() == 0);
}

#[test]
fn a_token_of_another_session_settles_nothing() {
    let mut entries = entries(10);
    entries.take(delivered(1, 0, vec![]), entry(&["a"]));
    let (_, token) = next(&mut entries);
    let mut other = Entries::new(2, Window { messages: 10, bytes: 1_000_000 });
    other.permits().add(CONSUMER);
    other.take(delivered(1, 0, vec![]), entry(&["a"]));
    next(&mut other);
    assert!(!other.settle(&token) && !other.settle(b"garbage") && !other.release(&token));
}

#[test]
fn what_can_not_be_read_is_handed_over_as_it_is() {
    let mut entries = entries(10);
    let mut bytes = entry(&["a"]);
    *bytes.last_mut().unwrap() ^= 1;
    entries.take(delivered(1, 0, vec![]), bytes);
    let (held, token) = entries.next(None).unwrap();
    assert!(held.invalid.unwrap().contains("checksum"));
    assert!(entries.settle(&token));
    assert_eq!(numbers(entries.done()), [1]);
}

#[test]
fn a_message_that_does_not_fit_waits_unless_it_is_the_first() {
    let mut entries = entries(10);
    entries.take(delivered(1, 0, vec![]), entry(&["abc"]));
    assert!(entries.next(Some(2)).is_none());
    assert!(entries.next(None).is_some());
}

#[test]
fn an_entry_stays_as_it_came_until_its_turn() {
    let mut entries = entries(10);
    let (first, second) = (entry(&["a", "b"]), entry(&["c", "d"]));
    let size = first.len() + second.len();
    entries.take(delivered(1, 0, vec![]), first);
    entries.take(delivered(2, 0, vec![]), second.clone());
    assert_eq!((entries.held(), entries.held_bytes()), (4, size));
    assert!(entries.done().is_empty(), "nobody has had them");
    let (_, token) = next(&mut entries);
    assert_eq!((entries.held(), entries.held_bytes(), entries.bytes()), (3, 1 + second.len(), 2 + second.len()));
    assert_eq!(numbers(entries.give_back()), [2], "the other one is in hand");
    assert!(entries.settle(&token));
    assert_eq!((next(&mut entries).0.as_str(), entries.held(), entries.bytes()), ("b", 0, 1));
}

#[test]
fn an_entry_that_says_a_wrong_number_costs_no_time() {
    let metadata = MessageMetadata { num_messages_in_batch: Some(i32::MAX), ..MessageMetadata::default() };
    let mut bytes = Vec::new();
    frame::send(&mut bytes, Send::default(), &metadata, b"a");
    let bytes = frame::next(&bytes, 10_000).unwrap().unwrap().1.unwrap().entry;
    let mut entries = entries(10);
    entries.take(delivered(1, 0, vec![]), bytes.clone());
    entries.take(delivered(2, 0, vec![0b110]), bytes);
    assert!(entries.next(None).unwrap().0.invalid.unwrap().contains("impossible"));
    assert_eq!(entries.held(), 2, "as its bits say");
    assert!(entries.next(None).unwrap().0.invalid.is_some(), "although its first message is acknowledged");
}

#[test]
fn an_entry_with_a_wrong_checksum_is_counted_as_its_broker_counts_it() {
    let mut entries = entries(100);
    let mut bytes = entry(&["a", "b", "c"]);
    *bytes.last_mut().unwrap() ^= 1;
    entries.take(delivered(1, 0, vec![]), bytes);
    assert_eq!(entries.held(), 3);
    let (held, token) = entries.next(None).unwrap();
    assert!(held.invalid.is_some() && entries.settle(&token));
    // One was allowed and three came: two are made up for, and all are settled.
    assert_eq!(grants(&mut entries), [(CONSUMER, 102)]);
}
