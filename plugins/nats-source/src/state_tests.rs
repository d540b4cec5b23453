//! Tests of what is known between calls.
#![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]

use super::*;

fn state(on_overtaken: Overtaken) -> State {
    let wants = SourceArgs { window: 50, window_bytes: 1_000, on_overtaken, attributes: Vec::new() };
    State::new(&wants, 1)
}

fn consumer() -> Consumer {
    let mut consumer = Consumer::default();
    consumer.max_ack_pending = 3;
    consumer
}

fn of_our_own() -> Consumer {
    let mut consumer = consumer();
    consumer.is_ephemeral = true;
    consumer
}

fn behind(overtaken: u64) -> Consumer {
    let mut consumer = consumer();
    consumer.overtaken = overtaken;
    consumer
}

fn fetched(sequence: u64, delivered: u32, pending: u64) -> (Metadata, Delivery) {
    let token = format!("$JS.ACK.ORDERS.ship.{delivered}.{sequence}.1.1795697050623582361.{pending}");
    let metadata = Metadata::parse(&token).unwrap();
    (metadata, Delivery::new(token, "orders.a", *b""))
}

fn item(sequence: u64, delivered: u32, pending: u64, disposition: Disposition) -> Settlement {
    Settlement { token: fetched(sequence, delivered, pending).1.token, disposition }
}

fn lag(notices: &Notices) -> Option<&str> {
    notices.attributes.iter().find(|(name, _)| name == "lag").map(|(_, value)| value.as_str())
}

#[test]
fn the_last_message_tells_whether_more_wait() {
    let state = state(Overtaken::Stop);
    state.found(consumer()).unwrap();
    let pulled = state.pulled(vec![fetched(1, 1, 5)], Some(End::Whole));
    assert_eq!((pulled.caught_up, lag(&pulled.notices)), (false, Some("5")));
    let pulled = state.pulled(vec![fetched(2, 1, 0)], Some(End::Drained));
    assert_eq!((pulled.caught_up, lag(&pulled.notices)), (true, Some("0")));
    assert!(state.pulled(Vec::new(), Some(End::Drained)).caught_up);
    assert!(!state.pulled(Vec::new(), Some(End::Cut)).caught_up);
    state.pulled(vec![fetched(3, 1, 0)], Some(End::Whole));
    assert!(!state.pulled(Vec::new(), Some(End::Drained)).caught_up, "the consumer may deliver no more now");
    state.settled(&[item(3, 1, 0, Disposition::Ack)], &[Settled::Done]);
    assert!(state.pulled(Vec::new(), Some(End::Drained)).caught_up);
}

#[test]
fn what_a_deleted_consumer_delivered_is_told_as_lost_once() {
    let state = state(Overtaken::Stop);
    state.found(consumer()).unwrap();
    state.pulled(vec![fetched(1, 1, 2), fetched(2, 1, 1)], Some(End::Whole));
    state.settled(&[item(1, 1, 2, Disposition::Ack)], &[Settled::Done]);
    let pulled = state.pulled(Vec::new(), Some(End::Gone));
    assert_eq!(pulled.notices.lost, [fetched(2, 1, 1).1.token]);
    assert!(!pulled.caught_up && state.consumer().is_none());
    assert!(state.notices().lost.is_empty());
    assert_eq!(state.resume(), Resume::Start, "a durable one knows where it stood");
}

#[test]
fn a_consumer_of_our_own_is_made_again_at_the_first_that_is_not_settled() {
    let state = state(Overtaken::Stop);
    state.found(of_our_own()).unwrap();
    state.pulled((4..8).map(|sequence| fetched(sequence, 1, 9)).collect(), Some(End::Whole));
    let items = [
        item(4, 1, 9, Disposition::Ack),
        item(5, 1, 9, Disposition::Release),
        item(6, 1, 9, Disposition::Ack),
        item(7, 1, 9, Disposition::Extend),
    ];
    state.settled(&items, &vec![Settled::Done; 4]);
    state.gone();
    assert_eq!(state.resume(), Resume::At { created: String::new(), sequence: 5 });
}

#[test]
fn what_a_consumer_of_our_own_took_with_it_undone_comes_again() {
    let state = state(Overtaken::Stop);
    state.found(of_our_own()).unwrap();
    state.gone();
    assert_eq!(state.resume(), Resume::Start, "it delivered nothing");
    state.found(of_our_own()).unwrap();
    state.pulled((4..7).map(|sequence| fetched(sequence, 1, 9)).collect(), Some(End::Whole));
    // Nobody answers any more: the consumer is gone, which the next look finds.
    let items =
        [item(4, 1, 9, Disposition::Ack), item(5, 1, 9, Disposition::Extend), item(6, 1, 9, Disposition::Release)];
    state.settled(&items, &vec![Settled::Lost; 3]);
    state.gone();
    assert_eq!(state.resume(), Resume::At { created: String::new(), sequence: 5 });
    state.found(of_our_own()).unwrap();
    state.pulled(vec![fetched(5, 1, 1), fetched(6, 1, 0)], Some(End::Whole));
    state.settled(&[item(5, 1, 1, Disposition::Ack), item(6, 1, 0, Disposition::Ack)], &vec![Settled::Done; 2]);
    state.gone();
    assert_eq!(state.resume(), Resume::At { created: String::new(), sequence: 7 }, "behind the last one");
}

#[test]
fn an_older_token_settles_nothing_of_a_newer_delivery() {
    let state = state(Overtaken::Stop);
    state.found(consumer()).unwrap();
    state.pulled(vec![fetched(1, 1, 0)], Some(End::Whole));
    state.pulled(vec![fetched(1, 2, 0)], Some(End::Whole));
    state.settled(&[item(1, 1, 0, Disposition::Ack)], &[Settled::Done]);
    let fault = waybill_plugin::transport::Fault::new("NATS.LOST", "gone");
    state.settled(&[item(1, 2, 0, Disposition::Ack)], &[Settled::Failed(fault)]);
    state.gone();
    assert_eq!(state.notices().lost, [fetched(1, 2, 0).1.token]);
}

#[test]
fn no_more_is_out_than_the_window_holds() {
    let state = state(Overtaken::Stop);
    state.found(consumer()).unwrap();
    assert_eq!(state.room(), 50);
    state.pulled((1..=50).map(|sequence| fetched(sequence, 1, 9)).collect(), Some(End::Whole));
    assert_eq!(state.room(), 0);
    state.settled(&[item(1, 1, 9, Disposition::Extend)], &[Settled::Done]);
    assert_eq!(state.room(), 0);
    let items = [item(1, 1, 9, Disposition::Ack), item(2, 1, 9, Disposition::Release), item(3, 1, 9, Disposition::Ack)];
    state.settled(&items, &[Settled::Done, Settled::Done, Settled::Lost]);
    assert_eq!(state.room(), 3);
}

fn on_a_stream_of(created: &str) -> Consumer {
    let stream =
        serde_json::json!({ "created": created, "state": { "last_seq": 5, "last_ts": "2026-11-26T12:44:10Z" } });
    let info = serde_json::json!({ "name": "ship", "config": { "ack_policy": "explicit" } });
    Consumer::read(&crate::config::Keys::default(), &stream, &info).unwrap()
}

#[test]
fn what_looks_like_another_streams_costs_nothing_while_the_stream_is_the_same() {
    let state = state(Overtaken::Stop);
    let consumer = on_a_stream_of("2026-11-26T12:44:10Z");
    state.found(consumer.clone()).unwrap();
    let (first, second) = (fetched(6, 1, 1), fetched(3, 1, 0));
    let token = first.1.token.clone();
    state.pulled(vec![first], Some(End::Whole));
    assert!(consumer.is_made_anew(&second.0), "the server's clock was set back before the last one");
    state.recheck();
    assert!(state.is_unsure());
    state.found(on_a_stream_of("2026-11-26T12:44:10Z")).unwrap();
    assert!(!state.is_outdated(&consumer, std::slice::from_ref(&second)));
    let pulled = state.pulled(vec![second], Some(End::Drained));
    assert!(state.knows(&token) && pulled.notices.lost.is_empty());
    assert!(!state.consumer().unwrap().is_made_anew(&fetched(4, 1, 0).0), "it is asked once");
}

#[test]
fn what_another_stream_delivered_gets_no_place_in_the_new_one() {
    let state = state(Overtaken::Stop);
    let before = on_a_stream_of("2026-11-26T12:44:10Z");
    state.found(before.clone()).unwrap();
    let (old, new) = (fetched(6, 1, 0), fetched(1, 1, 0));
    assert!(!state.is_outdated(&before, std::slice::from_ref(&old)));
    // While it was fetched, another call found the stream made anew.
    state.found(on_a_stream_of("2026-11-27T00:00:00Z")).unwrap();
    assert!(state.is_outdated(&before, &[old]));
    assert!(!state.is_outdated(&before, &[new]), "it comes from the new one");
    state.gone();
    assert!(state.is_outdated(&before, &[fetched(6, 1, 0)]));
}

#[test]
fn a_stream_made_anew_is_noticed_when_its_consumer_is_looked_for() {
    let state = state(Overtaken::Stop);
    state.found(on_a_stream_of("2026-11-26T12:44:10Z")).unwrap();
    let (metadata, delivery) = fetched(1, 1, 0);
    let token = delivery.token.clone();
    state.pulled(vec![(metadata, delivery)], Some(End::Whole));
    state.found(on_a_stream_of("2026-11-26T12:44:10Z")).unwrap();
    assert!(state.knows(&token) && !state.knows(&fetched(1, 2, 0).1.token));
    state.found(on_a_stream_of("2026-11-27T00:00:00Z")).unwrap();
    assert!(!state.knows(&token), "it would acknowledge the first message of the new stream");
    assert_eq!(state.notices().lost, [token]);
}

#[test]
fn being_overtaken_stops_or_is_counted_once() {
    let error = state(Overtaken::Stop).found(behind(3)).unwrap_err();
    assert_eq!(error.fault.code, "SOURCE.OVERTAKEN");
    let state = state(Overtaken::GoOn);
    state.found(behind(3)).unwrap();
    state.found(behind(3)).unwrap();
    let told = |notices: Notices| notices.attributes.into_iter().find(|(name, _)| name == "overtaken");
    assert_eq!(told(state.notices()), Some(("overtaken".to_owned(), "3".to_owned())));
    assert_eq!(told(state.notices()), None);
}

#[test]
fn a_stream_that_was_made_anew_is_told_once() {
    let told = |state: &State| {
        let attributes = state.notices().attributes;
        attributes.into_iter().find(|(name, _)| name == "made-anew").map(|(_, count)| count)
    };
    let state = state(Overtaken::Stop);
    let (first, second) = (on_a_stream_of("2026-11-26T00:00:00Z"), on_a_stream_of("2026-11-27T00:00:00Z"));
    state.found(first.clone()).unwrap();
    state.found(first.clone()).unwrap();
    assert_eq!(told(&state), None);
    // Its consumer went with it, and another one is found later.
    state.gone();
    state.found(second.clone()).unwrap();
    assert_eq!((told(&state), told(&state)), (Some("1".to_owned()), None));

    // It was made anew while nothing ran; a position in another stream says nothing of this one.
    for (position, expected) in [
        (first.position(7), Some("1".to_owned())),
        (second.position(7), None),
        ("ELSEWHERE@2026-11-26T00:00:00Z/7".to_owned(), None),
    ] {
        let attributes = vec![(RESUME_AFTER.to_owned(), position.clone())];
        let wants = SourceArgs { window: 50, window_bytes: 1_000, on_overtaken: Overtaken::Stop, attributes };
        let state = State::new(&wants, 1);
        state.found(second.clone()).unwrap();
        assert_eq!(told(&state), expected, "{position}");
    }
}
