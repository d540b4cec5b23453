//! Tests of what is known between calls.
#![allow(clippy::unwrap_used)]

use super::*;

fn state_that(on_overtaken: Overtaken) -> State {
    let wants = SourceArgs { window: 50, window_bytes: 1_000_000, on_overtaken, attributes: Vec::new() };
    State::new(&wants, 60_000)
}

fn state() -> State {
    state_that(Overtaken::GoOn)
}

fn entry(id: &str, bytes: usize) -> Entry {
    let mut delivery = Delivery::new(id, "orders", vec![b'x'; bytes]);
    delivery.position = Some(id.to_owned());
    Entry { id: id.to_owned(), delivery: Some(delivery) }
}

fn ids(pulled: &Pulled) -> Vec<&str> {
    pulled.deliveries.iter().filter_map(|delivery| delivery.position.as_deref()).collect()
}

fn attribute<'a>(notices: &'a Notices, name: &str) -> Option<&'a str> {
    notices.attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

#[test]
fn what_was_left_behind_is_read_before_what_is_new() {
    let state = state();
    assert_eq!(state.step(), Step::Own(FIRST.to_owned()));
    state.own(Some("7-0".to_owned()));
    assert_eq!(state.step(), Step::Own("7-0".to_owned()));
    state.own(None);
    assert_eq!(state.step(), Step::Others(FIRST.to_owned()));
    state.swept("9-0");
    assert_eq!(state.step(), Step::Others("9-0".to_owned()));
    state.swept(FIRST);
    assert_eq!(state.step(), Step::New);
    state.sweep();
    assert_eq!(state.step(), Step::Others(FIRST.to_owned()), "something was given back");
}

#[test]
fn no_more_is_handed_over_than_there_is_room_for_and_the_rest_waits() {
    let state = state();
    state.read(vec![entry("1-0", 600), entry("2-0", 600), entry("3-0", 10)]);
    let first = state.pulled(10, 1_000, true);
    assert_eq!((ids(&first), first.caught_up), (vec!["1-0"], false));
    let second = state.pulled(1, 1_000, true);
    assert_eq!(ids(&second), ["2-0"]);
    let third = state.pulled(10, 1_000, true);
    assert_eq!((ids(&third), third.caught_up), (vec!["3-0"], true));
    state.read(vec![entry("4-0", 5_000)]);
    assert_eq!(ids(&state.pulled(10, 1_000, true)), ["4-0"], "one is never too many");
    assert_eq!(state.room(), 46);
    state.settled("1-0");
    assert_eq!(state.room(), 47);
}

#[test]
fn what_is_in_hand_is_not_handed_over_again() {
    let state = state();
    state.read(vec![entry("1-0", 1), entry("2-0", 1)]);
    state.pulled(10, 1_000, true);
    state.settled("2-0");
    state.read(vec![entry("1-0", 1), entry("2-0", 1)]);
    assert_eq!(ids(&state.pulled(10, 1_000, true)), ["2-0"]);
    state.lose(["1-0".to_owned(), "9-0".to_owned()]);
    assert_eq!(state.notices().lost, [b"1-0".to_vec()]);
    assert!(state.notices().lost.is_empty());
}

#[test]
fn large_entries_are_asked_for_in_smaller_numbers() {
    let state = state();
    assert_eq!(state.count(50, 1_048_576), 50);
    state.read(vec![entry("1-0", 500_000)]);
    assert_eq!(state.count(50, 1_048_576), 2);
    assert_eq!(state.count(50, 1_000), 1);
    for _ in 0..20 {
        state.read(vec![entry("2-0", 10)]);
    }
    assert_eq!(state.count(50, 1_048_576), 50);
}

#[test]
fn counts_tell_what_was_delivered_before() {
    let state = state();
    state.read(vec![entry("1-0", 1), entry("2-0", 1)]);
    assert_eq!(state.range(), Some(("1-0".to_owned(), "2-0".to_owned())));
    state.counted("1-0", 3);
    let pulled = state.pulled(10, 1_000, true);
    let first = pulled.deliveries.first().unwrap();
    assert_eq!((first.delivery_count, first.redelivered), (Some(3), true));
}

#[test]
fn removed_entries_stop_the_source_or_are_counted() {
    let removed = Entry { id: "1-0".to_owned(), delivery: None };
    let state = state();
    assert_eq!(state.read(vec![removed]), ["1-0"]);
    state.removed(1).unwrap();
    state.overtaken(3).unwrap();
    assert_eq!(attribute(&state.notices(), "overtaken"), Some("4"));
    state.overtaken(3).unwrap();
    assert_eq!(attribute(&state.notices(), "overtaken"), None);
    let strict = state_that(Overtaken::Stop);
    assert!(strict.removed(0).is_ok() && strict.overtaken(0).is_ok());
    assert_eq!(strict.overtaken(3).unwrap_err().fault.code, "SOURCE.OVERTAKEN");
}

#[test]
fn what_was_not_handed_over_is_given_back_at_the_end() {
    let state = state();
    state.read(vec![entry("1-0", 1), entry("2-0", 1)]);
    state.pulled(1, 1_000, true);
    assert_eq!(state.quiesce(), ["2-0"]);
    assert!(state.is_quiet() && !state.has_some());
}
