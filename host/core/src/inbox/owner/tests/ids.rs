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
