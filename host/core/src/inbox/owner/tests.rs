//! What one owner does, step by step. Schedules are drawn by the model (`waybill_testkit::inbox_model`).
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::code::Code;
use crate::commit::Writer;
use crate::ids::{ConsumerName, InboundId, Key, SourceName, Tenant};
use crate::inbox::message::InboundMessage;
use crate::inbox::records::{InboxCommit, InboxTakeover, InboxWrite, RowHead};
use crate::inbox::settings::{ConsumerId, ConsumerSettings, SourceSettings, Target};
use crate::inbox::verdict::{Leavings, Verdict};
use crate::port::transport::Fault;
use crate::time::UnixMillis;

mod audit;
mod bounds;
mod exact;
mod ids;
mod undone;

const SOURCE: SourceId = SourceId(0);
const SESSION: u64 = 7;

fn now(ms: u64) -> Now {
    Now { wall: UnixMillis(1_700_000_000_000 + ms), mono: Monotonic(Duration::from_millis(ms)) }
}

fn message(id: &str, key: Option<&str>, payload: &'static str) -> Arc<InboundMessage> {
    Arc::new(InboundMessage {
        id: InboundId::new(id).unwrap(),
        source: SourceName::new("shop").unwrap(),
        tenant: Tenant::unnamed(),
        subject: "sales.event.paid.v1".into(),
        context: "sales".into(),
        key: key.map(|key| Key::new(key).unwrap()),
        headers: Vec::new(),
        content_type: None,
        payload: Bytes::from_static(payload.as_bytes()),
        event_type: None,
        event_version: None,
        correlation_id: None,
        causation_id: None,
        reply_to: None,
        occurred_at: None,
        received_at: UnixMillis(1_700_000_000_000),
        position: Some(format!("orders/{id}")),
        attributes: Vec::new(),
        omitted: None,
    })
}

fn arrival(token: &'static str, message: &Arc<InboundMessage>) -> Arrival {
    Arrival {
        token: Bytes::from_static(token.as_bytes()),
        group: None,
        settle_within: None,
        deliveries_left: None,
        redelivered: false,
        message: Arc::clone(message),
        anonymous: false,
        consumers: vec![ConsumerId(0)],
        refusal: None,
    }
}

fn settings() -> InboxSettings {
    let source = SourceSettings {
        window: 6,
        consumers: vec![ConsumerId(0)],
        ..SourceSettings::new(SourceName::new("shop").unwrap())
    };
    let mut consumer = ConsumerSettings::new(ConsumerName::new("ship").unwrap(), Target::Handler);
    consumer.dlq_subject = Some("dead.{subject}".into());
    InboxSettings { sources: vec![source], consumers: vec![consumer], ..InboxSettings::default() }
}

fn owner_of(settings: InboxSettings) -> InboxOwner {
    let config = InboxConfig {
        shard: ShardId(0),
        shards: 1,
        settings: Arc::new(settings),
        caution: Caution::default(),
        unclean: false,
        tx_events: None,
        rules: Rules::default(),
    };
    let record = InboxShardRecord { token: 1, beat: 1, nonce: 1, ..InboxShardRecord::default() };
    InboxOwner::restore(config, record, InboxTakeover::default(), now(0))
}

fn owner() -> InboxOwner {
    owner_of(settings())
}

/// Takes in deliveries that the seen set doesn't know.
fn bring(owner: &mut InboxOwner, arrivals: Vec<Arrival>, at: u64) {
    owner.pulled(SOURCE, SESSION, arrivals, true, now(at));
    for lookup in owner.take_lookups() {
        owner.looked_up(lookup.seq, None, now(at));
    }
}

fn commit(owner: &mut InboxOwner, at: u64) -> InboxCommit {
    let commit = owner.build(now(at), 1_000 + at).unwrap();
    owner.committed(now(at));
    commit
}

fn calls(owner: &mut InboxOwner, at: u64) -> Vec<Call> {
    owner.take_calls(now(at), Monotonic(Duration::from_secs(3_600)))
}

fn acks(owner: &mut InboxOwner, at: u64) -> Vec<Bytes> {
    let orders = owner.take_settlements(SOURCE, now(at));
    orders.iter().for_each(|order| owner.settled(order, SettleResult::Done, now(at)));
    orders.into_iter().filter(|order| order.settle_as == SettleAs::Ack).map(|order| order.token).collect()
}

fn processed() -> Verdict {
    Verdict::Processed(Leavings::default())
}

#[test]
fn a_delivery_is_acknowledged_behind_the_commit_that_finishes_it() {
    let mut owner = owner();
    bring(&mut owner, vec![arrival("t1", &message("m-1", None, "a"))], 1);
    let call = calls(&mut owner, 1).remove(0);
    assert_eq!((call.attempt, call.maybe_handled), (1, false));
    owner.answered(call.seq, processed(), now(2), 0.5);
    assert!(acks(&mut owner, 2).is_empty());
    let made = owner.build(now(3), 9).unwrap();
    assert_eq!((made.seen.len(), made.done.len(), made.writes.len()), (1, 1, 0));
    assert!(acks(&mut owner, 3).is_empty());
    owner.committed(now(4));
    assert_eq!(acks(&mut owner, 4), ["t1"]);
    assert_eq!((owner.depths().messages, owner.in_hand(SOURCE)), (0, 0));
}

#[test]
fn what_was_seen_is_acknowledged_without_a_call() {
    let mut owner = owner();
    owner.pulled(SOURCE, SESSION, vec![arrival("t1", &message("m-1", Some("k"), "a"))], true, now(1));
    let lookup = owner.take_lookups().remove(0);
    let check = owner.record().secret.of_content(b"a").check();
    owner.looked_up(lookup.seq, Some(check), now(1));
    assert_eq!(acks(&mut owner, 1), ["t1"]);
    assert!(calls(&mut owner, 1).is_empty());
    assert_eq!(owner.counts().duplicates, 1);
}

#[test]
fn the_same_id_with_another_content_is_a_dead_letter_with_its_dlq_message() {
    let mut owner = owner();
    owner.pulled(SOURCE, SESSION, vec![arrival("t1", &message("m-1", None, "b"))], true, now(1));
    let lookup = owner.take_lookups().remove(0);
    let check = owner.record().secret.of_content(b"a").check();
    owner.looked_up(lookup.seq, Some(check), now(1));
    let again = owner.take_lookups().remove(0);
    owner.looked_up(again.seq, None, now(1));
    let made = commit(&mut owner, 2);
    let [InboxWrite::PutDead(dead)] = made.writes.as_slice() else { panic!("{:?}", made.writes) };
    assert_eq!(dead.code, Code::INBOX_ID_REUSED.as_str());
    assert_eq!(made.messages.len(), 1);
    assert_eq!(acks(&mut owner, 2), ["t1"]);
    assert_eq!(owner.counts().reused, 1);
}

#[test]
fn a_second_copy_of_what_is_in_hand_is_settled_with_it() {
    let mut owner = owner();
    let first = message("m-1", None, "a");
    let second = Arc::new(InboundMessage { position: Some("orders/other".into()), ..(*first).clone() });
    bring(&mut owner, vec![arrival("t1", &first)], 1);
    let call = calls(&mut owner, 1).remove(0);
    bring(&mut owner, vec![arrival("t2", &second), arrival("t3", &first)], 2);
    assert_eq!(owner.in_hand(SOURCE), 2, "the newer token of one position replaces the older");
    owner.answered(call.seq, processed(), now(3), 0.5);
    commit(&mut owner, 3);
    assert_eq!(acks(&mut owner, 4), ["t2", "t3"]);
}

#[test]
fn a_message_with_a_key_of_a_queue_is_taken_before_it_is_called_and_holds_those_behind_it() {
    let mut owner = owner();
    let (one, two) = (message("m-1", Some("k"), "a"), message("m-2", Some("k"), "b"));
    bring(&mut owner, vec![arrival("t1", &one), arrival("t2", &two)], 1);
    assert!(calls(&mut owner, 1).is_empty());
    let made = commit(&mut owner, 2);
    let [InboxWrite::PutTakes(record)] = made.writes.as_slice() else { panic!("{:?}", made.writes) };
    assert_eq!((record.takes.len(), made.record.open.len()), (2, 1));
    let call = calls(&mut owner, 2);
    assert_eq!(call.iter().map(|call| call.message.id.as_str()).collect::<Vec<_>>(), ["m-1"]);
    owner.answered(call[0].seq, Verdict::Failed(Fault::new("X", "x")), now(3), 0.5);
    let made = commit(&mut owner, 3);
    assert!(matches!(made.writes.as_slice(), [InboxWrite::PutRow(row)] if row.attempts == 1));
    assert!(calls(&mut owner, 4).is_empty(), "it waits for its retry, and what is behind it for it");
    assert!(acks(&mut owner, 4).is_empty(), "a row that failed isn't acknowledged while there is room");
    let later = calls(&mut owner, 60_000);
    assert_eq!((later.len(), later[0].attempt, later[0].maybe_handled), (1, 2, true));
    owner.answered(later[0].seq, processed(), now(60_001), 0.5);
    commit(&mut owner, 60_001);
    assert_eq!(calls(&mut owner, 60_002)[0].message.id.as_str(), "m-2");
}

#[test]
fn the_last_attempt_makes_a_dead_letter() {
    let mut changed = settings();
    changed.consumers[0].retry.max_attempts = 1;
    let mut owner = owner_of(changed);
    bring(&mut owner, vec![arrival("t1", &message("m-1", None, "a"))], 1);
    let call = calls(&mut owner, 1).remove(0);
    owner.answered(call.seq, Verdict::Failed(Fault::new("HTTP.500", "no")), now(2), 0.5);
    let made = commit(&mut owner, 2);
    let [InboxWrite::PutDead(dead)] = made.writes.as_slice() else { panic!("{:?}", made.writes) };
    assert_eq!((dead.code.as_str(), dead.attempts, made.messages.len()), ("HTTP.500", 1, 1));
    assert_eq!(acks(&mut owner, 3), ["t1"]);
}

#[test]
fn under_pressure_what_waits_is_stored_and_acknowledged_with_what_is_before_it() {
    let mut owner = owner();
    let messages: Vec<_> = (1..=4).map(|n| message(&format!("m-{n}"), Some("k"), "a")).collect();
    let tokens = ["t1", "t2", "t3", "t4"];
    bring(&mut owner, tokens.iter().zip(&messages).map(|(token, message)| arrival(token, message)).collect(), 1);
    let made = commit(&mut owner, 2);
    let rows = made.writes.iter().filter(|write| matches!(write, InboxWrite::PutRow(_))).count();
    assert_eq!(rows, 4, "four of a window of six are two thirds: the head goes with those behind it");
    assert_eq!(acks(&mut owner, 3), tokens);
    assert_eq!((owner.room(SOURCE), owner.rows(ConsumerId(0))), (6, 4));
    assert_eq!(made.record.contexts.values().map(|count| count.count).collect::<Vec<_>>(), [4]);
}

#[test]
fn a_window_that_is_full_of_bytes_is_full() {
    let mut changed = settings();
    changed.sources[0].window_bytes = 10;
    let mut owner = owner_of(changed);
    let large = [message("m-1", None, "1234567"), message("m-2", None, "1234567")];
    bring(&mut owner, vec![arrival("t1", &large[0]), arrival("t2", &large[1])], 1);
    assert_eq!(owner.room(SOURCE), 0, "more than ten bytes are in hand");
    for call in calls(&mut owner, 1) {
        owner.answered(call.seq, processed(), now(2), 0.5);
    }
    commit(&mut owner, 3);
    assert_eq!((acks(&mut owner, 4).len(), owner.room(SOURCE)), (2, 6));
    let waiting = [message("m-3", Some("k"), "1234"), message("m-4", Some("k"), "1234")];
    bring(&mut owner, vec![arrival("t3", &waiting[0]), arrival("t4", &waiting[1])], 5);
    let made = commit(&mut owner, 6);
    let rows = made.writes.iter().filter(|write| matches!(write, InboxWrite::PutRow(_))).count();
    assert_eq!((rows, acks(&mut owner, 7).len()), (2, 2), "eight bytes of ten are pressure");
}

#[test]
fn at_its_last_deliveries_a_message_is_stored_before_it_is_called() {
    let mut owner = owner();
    let last = Arrival { deliveries_left: Some(2), ..arrival("t1", &message("m-1", None, "a")) };
    bring(&mut owner, vec![last], 1);
    assert!(calls(&mut owner, 1).is_empty());
    commit(&mut owner, 2);
    assert_eq!(acks(&mut owner, 2), ["t1"]);
    assert_eq!(calls(&mut owner, 2).len(), 1);
}

#[test]
fn a_pause_costs_no_attempt_but_for_one_who_asks_again_while_others_go_through() {
    let mut owner = owner();
    let busy = || Verdict::Busy(Fault { after: Some(Duration::from_secs(1)), ..Fault::new("HTTP.429", "slow down") });
    bring(&mut owner, vec![arrival("t1", &message("m-1", None, "a")), arrival("t2", &message("m-2", None, "b"))], 1);
    let both = calls(&mut owner, 1);
    owner.answered(both[1].seq, Verdict::NotCalled, now(1), 0.5);
    owner.answered(both[0].seq, busy(), now(1), 0.5);
    assert!(calls(&mut owner, 900).is_empty());
    let probe = calls(&mut owner, 1_100);
    assert_eq!(probe.iter().map(|call| call.message.id.as_str()).collect::<Vec<_>>(), ["m-2"], "another one probes");
    owner.answered(probe[0].seq, processed(), now(1_101), 0.5);
    commit(&mut owner, 1_102);
    let again = calls(&mut owner, 1_103);
    assert_eq!(again[0].attempt, 1);
    owner.answered(again[0].seq, busy(), now(1_104), 0.5);
    let made = commit(&mut owner, 1_105);
    assert!(matches!(made.writes.as_slice(), [InboxWrite::PutRow(row)] if row.attempts == 1));
}

#[test]
fn an_orphan_keeps_its_place_until_its_source_has_caught_up() {
    let mut owner = owner();
    bring(&mut owner, vec![arrival("t1", &message("m-1", Some("k"), "a"))], 1);
    let made = commit(&mut owner, 2);
    let takes = made.writes.iter().find_map(|write| match write {
        InboxWrite::PutTakes(record) => Some(record.clone()),
        _ => None,
    });
    let found = InboxTakeover { rows: Vec::new(), takes: takes.into_iter().collect() };
    let record = InboxShardRecord { token: 2, beat: made.record.beat + 1, ..made.record };
    let mut next = InboxOwner::restore(owner.config.clone(), record, found, now(10));
    bring(&mut next, vec![arrival("u2", &message("m-2", Some("k"), "b"))], 11);
    commit(&mut next, 12);
    assert!(calls(&mut next, 13).is_empty(), "the orphan is before it");
    bring(&mut next, vec![arrival("u1", &message("m-1", Some("k"), "a"))], 14);
    let call = calls(&mut next, 15).remove(0);
    assert_eq!((call.message.id.as_str(), call.maybe_handled), ("m-1", true));
}

#[test]
fn a_drain_acknowledges_what_is_stored_and_gives_the_rest_back() {
    let mut owner = owner();
    bring(&mut owner, vec![arrival("t1", &message("m-1", None, "a"))], 1);
    let call = calls(&mut owner, 1).remove(0);
    owner.answered(call.seq, Verdict::Failed(Fault::new("X", "x")), now(2), 0.5);
    commit(&mut owner, 3);
    bring(&mut owner, vec![arrival("t2", &message("m-2", None, "b"))], 4);
    owner.drain();
    assert_eq!((owner.room(SOURCE), calls(&mut owner, 5).len()), (0, 0));
    let mut orders: Vec<(Bytes, SettleAs)> =
        owner.take_settlements(SOURCE, now(6)).into_iter().map(|order| (order.token, order.settle_as)).collect();
    orders.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(orders, [(Bytes::from("t1"), SettleAs::Ack), (Bytes::from("t2"), SettleAs::Release)]);
    assert!(owner.is_drained());
}

#[test]
fn a_commit_that_never_went_in_is_made_again_and_nothing_is_settled_before() {
    let mut owner = owner();
    bring(&mut owner, vec![arrival("t1", &message("m-1", None, "a"))], 1);
    let call = calls(&mut owner, 1).remove(0);
    owner.answered(call.seq, processed(), now(2), 0.5);
    let stored = owner.record().clone();
    owner.build(now(3), 50).unwrap();
    owner.commit_failed();
    assert!(matches!(owner.resolve(&stored, now(4), 51), crate::commit::Step::Barrier(_)));
    let barrier = InboxShardRecord { beat: stored.beat + 1, nonce: 51, ..stored };
    assert!(matches!(owner.resolve(&barrier, now(5), 52), crate::commit::Step::NotApplied(())));
    assert!(acks(&mut owner, 5).is_empty());
    let made = commit(&mut owner, 6);
    assert_eq!((made.expect_beat, made.done.len()), (barrier.beat, 1));
    assert_eq!(acks(&mut owner, 7), ["t1"]);
}

#[test]
fn what_no_consumer_takes_is_a_dead_letter_of_its_source() {
    let mut owner = owner();
    let nobody = Arrival { consumers: Vec::new(), ..arrival("t1", &message("m-1", Some("k"), "a")) };
    bring(&mut owner, vec![nobody], 1);
    let made = commit(&mut owner, 2);
    let [InboxWrite::PutDead(dead)] = made.writes.as_slice() else { panic!("{:?}", made.writes) };
    assert_eq!((dead.code.as_str(), dead.consumer.as_str()), (Code::INBOX_NO_CONSUMER.as_str(), "~shop"));
    assert_eq!((dead.attempts, made.messages.len()), (0, 0));
    assert_eq!(acks(&mut owner, 3), ["t1"]);
}

#[test]
fn a_replay_is_a_row_at_a_new_place_without_attempts() {
    let mut owner = owner();
    bring(&mut owner, vec![arrival("t1", &message("m-1", None, "a"))], 1);
    let call = calls(&mut owner, 1).remove(0);
    owner.answered(call.seq, Verdict::Poison(Fault::new("HTTP.422", "no")), now(2), 0.5);
    let made = commit(&mut owner, 3);
    let InboxWrite::PutDead(dead) = &made.writes[0] else { panic!("{:?}", made.writes) };
    let replay = Replay { dead: Arc::clone(dead), message: Arc::clone(&dead.message), consumer: ConsumerId(0) };
    assert!(owner.replay(replay.clone()));
    assert!(!owner.replay(replay), "once");
    let made = commit(&mut owner, 4);
    assert!(made.writes.contains(&InboxWrite::DeleteDead(dead.seq)));
    let call = calls(&mut owner, 5).remove(0);
    assert!(call.seq > dead.seq && call.attempt == 1 && call.maybe_handled);
    owner.answered(call.seq, processed(), now(6), 0.5);
    let made = commit(&mut owner, 7);
    assert_eq!(made.writes, [InboxWrite::DeleteRow(call.seq)]);
}

/// Of a row in quarantine the delivery that its source still holds may be the only readable copy.
#[test]
fn a_row_that_can_not_be_read_gives_its_deliveries_back() {
    let mut owner = owner();
    let sent = message("m-1", None, "a");
    bring(&mut owner, vec![arrival("t1", &sent)], 1);
    let call = calls(&mut owner, 1).remove(0);
    owner.answered(call.seq, Verdict::Failed(Fault::new("X", "x")), now(2), 0.5);
    let made = commit(&mut owner, 3);
    let InboxWrite::PutRow(row) = &made.writes[0] else { panic!("{:?}", made.writes) };
    let rows = vec![RowHead { due: UnixMillis(0), ..row.head() }];
    let record = InboxShardRecord { token: 2, beat: made.record.beat + 1, ..made.record.clone() };
    let found = InboxTakeover { rows, takes: Vec::new() };
    let mut next = InboxOwner::restore(owner.config.clone(), record, found, now(10));
    bring(&mut next, vec![arrival("u1", &sent)], 11);
    assert_eq!(next.take_loads(), [row.seq], "it joined the row");
    next.loaded(row.seq, Ok(None), now(12));
    let orders = next.take_settlements(SOURCE, now(12));
    assert!(matches!(orders.as_slice(), [order] if order.settle_as == SettleAs::Release), "{orders:?}");
    next.settled(&orders[0], SettleResult::Done, now(13));
    bring(&mut next, vec![arrival("u2", &sent)], 14);
    let call = calls(&mut next, 15).remove(0);
    next.answered(call.seq, processed(), now(16), 0.5);
    commit(&mut next, 17);
    assert_eq!(acks(&mut next, 17), ["u2"]);
}
