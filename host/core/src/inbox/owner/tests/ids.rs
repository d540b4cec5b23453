//! Where ids are looked up, and what a message is told of calls before.

use super::*;
use crate::inbox::seen::Bucket;

#[test]
fn an_id_that_was_filed_by_its_stamp_is_looked_up_there_whatever_is_set_now() {
    let at = UnixMillis(1_700_000_000_000);
    for (id, own) in [("outbox-17", Bucket::Counter { text: "outbox-".into(), block: 0 }), ("a-hash", Bucket::Runs)] {
        for id_time_occurred in [false, true] {
            let mut settings = settings();
            settings.sources[0].id_time_occurred = id_time_occurred;
            let mut owner = owner_of(settings);
            let stamped = InboundMessage { occurred_at: Some(at), ..(*message(id, None, "a")).clone() };
            owner.pulled(SOURCE, SESSION, vec![arrival("t1", &Arc::new(stamped))], true, now(1));
            let lookup = owner.take_lookups().remove(0);
            let asked: Vec<Bucket> = lookup.query.places.into_iter().map(|place| place.bucket).collect();
            assert!(asked.contains(&own) && asked.contains(&Bucket::Minute(at.0 / 60_000)), "{id}: {asked:?}");
            assert!(!id_time_occurred || asked.contains(&Bucket::Runs), "stamps far from now lie there: {asked:?}");
        }
    }
}

#[test]
fn a_call_that_another_one_brought_down_costs_no_attempt_and_the_next_says_maybe_handled() {
    let mut owner = owner();
    bring(&mut owner, vec![arrival("t1", &message("m-1", None, "a"))], 1);
    let call = calls(&mut owner, 1).remove(0);
    owner.answered(call.seq, Verdict::Interrupted, now(2), 0.5);
    let again = calls(&mut owner, 2).remove(0);
    assert_eq!((again.attempt, again.maybe_handled), (1, true));
}

/// An owner whose predecessor died, of a log whose messages go to these consumers.
fn after_crash(consumers: &[&str]) -> InboxOwner {
    let mut settings = settings();
    let one = settings.consumers[0].clone();
    settings.consumers = consumers
        .iter()
        .map(|name| ConsumerSettings { name: ConsumerName::new(*name).unwrap(), concurrency: 20, ..one.clone() })
        .collect();
    let source = &mut settings.sources[0];
    source.by_offsets = true;
    source.orphan_wait = Some(Duration::from_millis(10));
    source.consumers = (0..).map(ConsumerId).take(consumers.len()).collect();
    let config = InboxConfig { unclean: true, ..owner_of(settings).config };
    let record = InboxShardRecord { token: 2, beat: 2, nonce: 2, ..InboxShardRecord::default() };
    InboxOwner::restore(config, record, InboxTakeover::default(), now(0))
}

/// The log brings messages of these numbers, which nothing tells from new ones, and says that no more lie there.
fn bring_log(owner: &mut InboxOwner, numbers: std::ops::RangeInclusive<u64>, at: u64) {
    let consumers = owner.config.settings.sources[0].consumers.clone();
    let of = |number| {
        let message = message(&format!("m-{number}"), None, "a");
        Arrival { group: Some("g".into()), consumers: consumers.clone(), ..arrival("t", &message) }
    };
    bring(owner, numbers.map(of).collect(), at);
}

/// Which numbers are called, in order, and whether they are told that they may have been handled.
fn called_as(owner: &mut InboxOwner, at: u64) -> Vec<(String, bool)> {
    calls(owner, at).into_iter().map(|call| (call.message.id.as_str().to_owned(), call.maybe_handled)).collect()
}

#[test]
fn what_may_have_been_handled_and_is_dropped_with_its_delivery_is_told_so_when_it_comes_again() {
    for is_revoked in [false, true] {
        let mut owner = after_crash(&["ship"]);
        bring_log(&mut owner, 1..=7, 1);
        bring(&mut owner, Vec::new(), 20);
        assert!(!owner.unsure, "all that was in hand then has come");
        if is_revoked {
            owner.revoked(SOURCE, &["g".to_owned()], now(21));
        } else {
            owner.restarted(SOURCE, SESSION);
        }
        assert!(calls(&mut owner, 22).is_empty());
        bring_log(&mut owner, 7..=8, 23);
        assert_eq!(called_as(&mut owner, 23), [("m-7".to_owned(), true), ("m-8".to_owned(), false)], "{is_revoked}");
    }
}

#[test]
fn what_the_last_pull_brings_of_what_was_in_hand_at_a_crash_may_have_been_handled() {
    let mut owner = after_crash(&["ship"]);
    bring_log(&mut owner, 1..=6, 1);
    bring_log(&mut owner, 7..=7, 20);
    bring_log(&mut owner, 8..=8, 21);
    let told = called_as(&mut owner, 22);
    assert_eq!((told.len(), told[6].1, told[7].1), (8, true, false), "{told:?}");
}

#[test]
fn the_first_messages_after_a_crash_are_as_many_for_each_consumer() {
    let mut owner = after_crash(&["ship", "bill"]);
    bring(&mut owner, Vec::new(), 1);
    bring(&mut owner, Vec::new(), 20);
    assert!(!owner.unsure);
    bring_log(&mut owner, 1..=7, 21);
    let told = called_as(&mut owner, 22);
    let untold: Vec<&str> = told.iter().filter(|(_, told)| !told).map(|(id, _)| id.as_str()).collect();
    assert_eq!((told.len(), untold), (14, vec!["m-7", "m-7"]), "a window of six");
}
