//! What a look at the ids of waiting requests costs.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::lookups::Lookups;

use super::bench::*;

/// Ids that are looked up in one request.
const LOOKED_UP: usize = 2_000;
/// Of so many measurements the cheapest counts: something else may have had the caches.
const MEASUREMENTS: usize = 5;

fn named(prefix: &str, count: usize) -> Vec<NewMessage> {
    (0..count).map(|n| NewMessage { id: Some(format!("{prefix}-{n}")), ..message("m") }).collect()
}

fn cpu_of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// CPU time of one look-up beside so many messages that wait for a commit, all with ids of their callers.
fn cost_beside(waiting: usize) -> Duration {
    let mut bench = Bench::new();
    bench.ask(named("waits", waiting));
    let measure = |number: usize| {
        let mut lookups = Lookups::default();
        let drafts = named(&format!("new{number}"), LOOKED_UP).into_iter().map(|new| bench.draft(new)).collect();
        lookups.push(drafts, ());
        let before = cpu_of_this_thread();
        let asked = lookups.ask(&bench.owner);
        let cost = cpu_of_this_thread() - before;
        assert_eq!(asked.len(), LOOKED_UP);
        cost
    };
    (0..MEASUREMENTS).map(measure).min().unwrap()
}

/// A search through all that wait would cost a hundred times as much beside a hundred times as many.
#[test]
fn an_id_is_looked_up_among_those_that_wait_and_not_searched_for() {
    let (few, many) = (cost_beside(450), cost_beside(45_000));
    assert!(many < 20 * few, "{few:?} beside 450 that wait, {many:?} beside 45,000");
}
