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
    delivery.position = Some(format!("orders/{id}"));
    Entry { id: id.to_owned(), delivery: Some(delivery) }
}

fn ids(pulled: &Pulled) -> Vec<&str> {
    pulled.deliveries.iter().filter_map(|delivery| delivery.position.as_deref()?.strip_prefix("orders/")).collect()
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
fn an_instance_begins_with_one_entry_and_asks_for_more_while_reads_are_full() {
    let state = state();
    for expected in [1, 2, 4] {
        assert_eq!(state.count(50, 1_048_576), Some(expected));
        state.read((0..expected).map(|number| entry(&format!("{expected}-{number}"), 10)).collect());
        state.pulled(50, 1_048_576, false);
    }
    state.read(vec![entry("9-0", 10)]);
    state.pulled(50, 1_048_576, false);
    assert_eq!(state.count(50, 1_048_576), Some(8), "a read that wasn't full says nothing");
    assert_eq!(state.count(5, 1_048_576), Some(5));
}

#[test]
fn large_entries_are_asked_for_in_smaller_numbers() {
    let state = state();
    state.pace.set(50);
    assert_eq!(state.count(50, 1_048_576), Some(50));
    state.read(vec![entry("1-0", 500_000)]);
    assert_eq!(state.count(50, 1_048_576), Some(1), "beside the one that waits");
    assert_eq!(state.count(50, 600_000), None);
    assert_eq!(state.count(1, 1_048_576), None);
    state.pulled(50, 1_048_576, true);
    assert_eq!(state.count(50, 1_048_576), Some(2));
    assert_eq!(state.count(50, 1_000), Some(1), "the first is always asked for");
    for _ in 0..20 {
        state.read(Vec::new());
    }
    assert_eq!(state.count(50, 1_048_576), Some(50));
}

#[test]
fn after_a_lost_connection_our_own_entries_are_read_again_and_what_is_in_hand_stays_there() {
    let state = state();
    state.own(None);
    state.swept(FIRST);
    state.read(vec![entry("1-0", 1)]);
    state.pulled(10, 1_000, true);
    state.again();
    assert_eq!(state.step(), Step::Own(FIRST.to_owned()));
    let gone = |id: &str| Entry { id: id.to_owned(), delivery: None };
    // One in hand that the stream has lost meanwhile isn't lost: the host has its payload.
    assert_eq!(state.read(vec![gone("1-0"), entry("2-0", 1), gone("3-0")]), ["3-0"]);
    assert_eq!(ids(&state.pulled(10, 1_000, true)), ["2-0"]);
    let swept = vec!["1-0".to_owned(), "4-0".to_owned()];
    assert_eq!(state.not_in_hand(swept).collect::<Vec<_>>(), ["4-0"]);
}

#[test]
fn counts_tell_what_was_delivered_before() {
    let state = state();
    state.read(vec![entry("1-0", 1), entry("2-0", 1)]);
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
fn a_stream_that_was_made_anew_is_told_once() {
    let state = state();
    let stream = |added: u64, first: u64| {
        let (length, last) = (added, (first + added, 0));
        Stream { length, added: Some(added), first: Some((first, 0)), last }
    };
    let told = || attribute(&state.notices(), "made-anew").map(str::to_owned);
    state.stands(stream(4, 10));
    state.stands(stream(6, 10));
    assert_eq!(told(), None);
    state.stands(stream(2, 90));
    state.stands(stream(3, 90));
    assert_eq!((told().as_deref(), told()), (Some("1"), None));
}

#[test]
fn what_was_not_handed_over_is_given_back_at_the_end() {
    let state = state();
    state.read(vec![entry("1-0", 1), entry("2-0", 1)]);
    state.pulled(1, 1_000, true);
    assert_eq!(state.quiesce(), ["2-0"]);
    assert!(state.is_quiet() && !state.has_some());
}
