//! Tests of what becomes of each message of a batch.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use crate::encode::tests::message;
use waybill_rabbitmq_wire::codec::{self, Closing, Method};
use waybill_rabbitmq_wire::{Scope, wire};

/// Number of the batch's first message: others went before it.
const FIRST: u64 = 11;

struct Case {
    call: CallInfo,
    batch: Vec<Message>,
    routing: Routing,
    suspects: Suspects,
    missing: HashMap<String, Refusal>,
}

impl Case {
    fn new(count: usize) -> Self {
        let batch = (0..count).map(|number| Message { id: format!("m{number}"), ..message() });
        Self {
            call: CallInfo { id: 0, timeout: 1_000, traceparent: None, attributes: Vec::new() },
            batch: batch.collect(),
            routing: Routing::new(&[], "amq.topic", "{destination}", Unroutable::Block).unwrap(),
            suspects: Suspects::default(),
            missing: HashMap::new(),
        }
    }

    fn state(&self, proven: bool) -> State<'_> {
        State::new(&self.call, &self.batch, &self.routing, &self.suspects, &self.missing, FIRST, proven)
    }

    /// All of it written.
    fn written(&self) -> State<'_> {
        let mut state = self.state(true);
        write(&mut state, 100);
        assert_eq!(state.waiting, self.batch.len());
        state
    }
}

/// How many messages went out.
fn write(state: &mut State<'_>, window: usize) -> usize {
    let before = state.sent.len();
    state.write(&mut Vec::new(), Encoder { frame_max: 4096, persistent: true }, window);
    state.sent.len() - before
}

fn refusal(code: u16, text: &str) -> Refusal {
    let mut bytes = Vec::new();
    wire::method(&mut bytes, 1, (20, 40), |out| {
        out.extend_from_slice(&code.to_be_bytes());
        wire::short(out, text);
        out.extend_from_slice(&[0; 4]);
    });
    let Ok(Method::ChannelClose(closing)) = codec::method(&bytes[7..bytes.len() - 1]) else { panic!() };
    let closing: Closing<'_> = closing;
    Refusal::new(Scope::Channel, &closing)
}

/// One letter a message: acknowledged, retried, dead, blocked, given back; a capital may be delivered.
fn fates(outcomes: &[Outcome]) -> String {
    let letter = |outcome: &Outcome| match outcome {
        Outcome::Ack(_) => 'a',
        Outcome::Retryable(fault) if fault.maybe_delivered => 'R',
        Outcome::Retryable(_) => 'r',
        Outcome::Permanent(_) => 'd',
        Outcome::Blocked(_) => 'b',
        Outcome::Release(_) => '-',
    };
    outcomes.iter().map(letter).collect()
}

fn end(state: State<'_>, refusal: Option<&Refusal>) -> String {
    let lost = refusal.map(Refusal::error);
    fates(&state.end(lost.as_ref(), refusal, None))
}

#[test]
fn a_confirm_is_for_one_message_or_for_all_up_to_it() {
    let case = Case::new(6);
    let mut state = case.written();
    // Of an earlier batch, and of nobody.
    for tag in [0, 1, FIRST - 1, FIRST + 6, u64::MAX] {
        state.confirm(tag, false, true);
    }
    assert_eq!(state.waiting, 6);
    state.confirm(FIRST + 3, false, true);
    state.confirm(FIRST + 1, true, true);
    state.confirm(FIRST + 1, true, true);
    assert_eq!((state.waiting, state.oldest), (3, 2));
    state.confirm(FIRST + 4, true, false);
    assert_eq!((state.waiting, state.oldest), (1, 5));
    assert_eq!(end(state, None), "aaRaRR");
}

#[test]
fn a_confirm_of_all_so_far_is_one() {
    let case = Case::new(3);
    let mut state = case.written();
    state.confirm(0, true, true);
    assert_eq!(end(state, None), "aaa");
}

#[test]
fn no_more_than_the_window_is_under_way() {
    let case = Case::new(5);
    let mut state = case.state(true);
    assert_eq!(write(&mut state, 2), 2);
    assert_eq!(write(&mut state, 2), 0);
    state.confirm(FIRST, false, true);
    assert_eq!(write(&mut state, 2), 1);
    assert_eq!(end(state, None), "aRR--");
}

#[test]
fn a_connection_that_proved_nothing_begins_with_one_message() {
    let case = Case::new(5);
    let mut state = case.state(false);
    assert_eq!(write(&mut state, 100), 1);
    assert_eq!(write(&mut state, 100), 0);
    state.confirm(FIRST, false, true);
    assert!(state.proven);
    assert_eq!(write(&mut state, 100), 4);
}

#[test]
fn what_comes_back_is_told_by_tenant_id_and_attempt() {
    let mut case = Case::new(4);
    // The id of one is that of another tenant's.
    case.batch[1].id = "m2".to_owned();
    case.batch[1].tenant = "other".to_owned();
    let mut state = case.written();
    let mut entries = Vec::new();
    let headers = |tenant: &str, attempt: i64| {
        let mut bytes = Vec::new();
        wire::text_entry(&mut bytes, TENANT, tenant);
        wire::number_entry(&mut bytes, ATTEMPT, attempt);
        bytes
    };
    for (tenant, attempt) in [("acme", 1), ("acme", 2)] {
        entries.push(headers(tenant, attempt));
    }
    for bytes in &entries {
        let payload = returned("m2", bytes);
        state.returned(&codec::content(&payload).unwrap());
    }
    // Its confirm says nothing more.
    state.confirm(FIRST + 3, true, true);
    assert_eq!(state.waiting, 0);
    assert_eq!(end(state, None), "aaba");
}

/// A content header as it comes back.
fn returned(id: &str, headers: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    bytes.extend_from_slice(&(codec::HEADERS | codec::MESSAGE_ID).to_be_bytes());
    wire::table(&mut bytes, |out| out.extend_from_slice(headers));
    wire::short(&mut bytes, id);
    bytes
}

#[test]
fn the_only_message_under_way_is_why_the_channel_was_closed() {
    for (code, text, expected) in [
        (404, "NOT_FOUND - no exchange 'x'", "b-"),
        (406, "PRECONDITION_FAILED - message size 9 is larger than configured max size 8", "d-"),
        (541, "INTERNAL_ERROR", "R-"),
    ] {
        let case = Case::new(2);
        let mut state = case.state(true);
        assert_eq!(write(&mut state, 1), 1);
        assert_eq!(end(state, Some(&refusal(code, text))), expected, "{text}");
        assert!(case.suspects.is_empty());
    }
}

#[test]
fn a_refused_topic_is_blocked_and_what_follows_it_was_not_looked_at() {
    let mut case = Case::new(5);
    case.batch[2].destination = "secret".to_owned();
    case.batch[4].destination = "secret".to_owned();
    let mut state = case.written();
    state.confirm(FIRST, false, true);
    let refusal =
        refusal(403, "ACCESS_REFUSED - access to topic 'secret' in exchange 'amq.topic' in vhost '/' refused");
    assert_eq!(end(state, Some(&refusal)), "aRb-b");
    assert!(case.suspects.is_empty());
}

#[test]
fn of_several_that_may_have_closed_the_channel_each_goes_alone_the_next_time() {
    let case = Case::new(3);
    let mut state = case.written();
    state.confirm(FIRST, false, true);
    assert_eq!(end(state, Some(&refusal(406, "PRECONDITION_FAILED - something"))), "aRR");
    assert!(!case.suspects.has(&case.batch[0]) && case.suspects.has(&case.batch[1]));
    let mut state = case.state(true);
    assert_eq!(write(&mut state, 100), 1);
    state.confirm(FIRST, false, true);
    // The first suspect, alone; then the next one, which turns out to be it.
    assert_eq!((write(&mut state, 100), write(&mut state, 100)), (1, 0));
    state.confirm(FIRST + 1, false, true);
    assert_eq!(write(&mut state, 100), 1);
    assert_eq!(end(state, Some(&refusal(406, "PRECONDITION_FAILED - something"))), "aad");
    assert!(case.suspects.is_empty());
}

#[test]
fn a_shutdown_suspects_nobody() {
    let case = Case::new(2);
    assert_eq!(end(case.written(), Some(&refusal(320, "CONNECTION_FORCED"))), "RR");
    assert!(case.suspects.is_empty());
}

#[test]
fn messages_for_an_exchange_that_is_not_there_cost_the_others_nothing() {
    let mut case = Case::new(3);
    let rule = waybill_plugin::config::parse(r#"{"match":"lost","exchange":"nowhere"}"#).unwrap();
    case.routing = Routing::new(&[rule], "amq.topic", "{destination}", Unroutable::Block).unwrap();
    case.missing.insert("nowhere".to_owned(), refusal(404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'"));
    case.batch[1].destination = "lost".to_owned();
    let mut state = case.state(true);
    assert_eq!(write(&mut state, 100), 2);
    state.confirm(FIRST + 1, true, true);
    assert_eq!(end(state, None), "aba");
}
