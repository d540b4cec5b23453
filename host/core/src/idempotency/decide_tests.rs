//! Each rule in a sentence.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;

const TTL: Duration = Duration::from_secs(100);
const LEASE: Duration = Duration::from_secs(10);

fn at(seconds: u64) -> UnixMillis {
    UnixMillis(1_700_000_000_000 + seconds * 1_000)
}

fn token(text: &str) -> HoldToken {
    HoldToken::new(text).unwrap()
}

fn begin_as(name: &str, hash: &str) -> Act {
    Act::Begin { hash: RequestHash::new(hash).unwrap(), token: token(name), ttl: TTL, lease: LEASE }
}

fn finish(name: &str, result: &'static str) -> Act {
    Act::Finish { token: token(name), answer: Answer::of_json(result) }
}

/// Runs acts one after another on one entry; the replies.
fn run(acts: &[(u64, Act)]) -> (Option<Entry>, Vec<Reply>) {
    let mut entry = None;
    let mut replies = Vec::new();
    for (seconds, act) in acts {
        let decision = decide(entry.as_ref(), act, at(*seconds));
        if !decision.changed {
            assert_eq!(decision.next, entry, "{act:?} changed an entry and says that it didn't");
        }
        entry = decision.next;
        replies.push(decision.reply);
    }
    (entry, replies)
}

fn last(acts: &[(u64, Act)]) -> Reply {
    run(acts).1.pop().unwrap()
}

fn busy(until: u64) -> Reply {
    Reply::Begin(Begun::Busy { lease_until: at(until) })
}

fn succeeded(result: &'static str) -> Reply {
    Reply::Begin(Begun::Succeeded(Answer::of_json(result)))
}

fn is_begun(reply: &Reply, name: &str, times: u32) -> bool {
    matches!(reply, Reply::Begin(Begun::New(grant)) if grant.token == token(name) && grant.begun == times)
}

#[test]
fn the_first_begins_and_the_second_hears_until_when_it_is_busy() {
    let (_, replies) = run(&[(0, begin_as("a", "h")), (9, begin_as("b", "h"))]);
    assert!(is_begun(&replies[0], "a", 1));
    assert_eq!(replies[1], busy(10));
}

#[test]
fn a_finished_key_answers_its_result_until_it_is_over() {
    let done = [(0, begin_as("a", "h")), (5, finish("a", "7"))];
    let at_of = |seconds| last(&[done[0].clone(), done[1].clone(), (seconds, begin_as("b", "h"))]);
    assert_eq!(at_of(6), succeeded("7"));
    assert_eq!(at_of(99), succeeded("7"));
    assert!(is_begun(&at_of(100), "b", 1));
}

#[test]
fn a_failed_key_answers_its_error() {
    let fail = Act::Fail { token: token("a"), error: "no stock".to_owned() };
    let (_, replies) = run(&[(0, begin_as("a", "h")), (1, fail.clone()), (2, fail), (3, begin_as("b", "h"))]);
    assert_eq!(replies[1..], [Reply::Applied, Reply::Applied, Reply::Begin(Begun::Failed("no stock".to_owned()))]);
}

#[test]
fn another_hash_is_refused_in_every_state() {
    for acts in [
        vec![(0, begin_as("a", "h"))],
        vec![(0, begin_as("a", "h")), (1, finish("a", "7"))],
        vec![(0, begin_as("a", "h")), (1, Act::Fail { token: token("a"), error: String::new() })],
        vec![(0, begin_as("a", "h")), (1, Act::Yield { token: token("a") })],
    ] {
        let acts: Vec<(u64, Act)> = acts.into_iter().chain([(50, begin_as("b", "other"))]).collect();
        assert_eq!(last(&acts), Reply::Begin(Begun::Mismatch), "{acts:?}");
    }
}

#[test]
fn a_crashed_holder_is_taken_over_when_its_lease_ends_and_changes_nothing_afterwards() {
    let (entry, replies) = run(&[
        (0, begin_as("a", "h")),
        (10, begin_as("b", "h")),
        (11, finish("a", "1")),
        (11, Act::Fail { token: token("a"), error: "x".to_owned() }),
        (11, Act::Release { token: token("a") }),
        (11, Act::Yield { token: token("a") }),
        (11, Act::Renew { token: token("a"), lease: LEASE }),
        (12, finish("b", "2")),
        (13, finish("a", "1")),
    ]);
    assert!(is_begun(&replies[1], "b", 2));
    assert!(replies[2..7].iter().all(|reply| *reply == Reply::Lost), "{replies:?}");
    assert_eq!(replies[7..], [Reply::Applied, Reply::Lost]);
    let entry = entry.unwrap();
    assert_eq!((entry.state, entry.origin), (EntryState::Succeeded(Answer::of_json("2")), token("a")));
}

#[test]
fn a_holder_settles_after_its_lease_if_nobody_took_over() {
    assert_eq!(last(&[(0, begin_as("a", "h")), (50, finish("a", "1"))]), Reply::Applied);
    assert_eq!(last(&[(0, begin_as("a", "h")), (100, finish("a", "1"))]), Reply::Lost);
}

#[test]
fn every_act_may_be_repeated_with_its_token() {
    let (_, replies) = run(&[
        (0, begin_as("a", "h")),
        (20, begin_as("a", "h")),
        (21, finish("a", "1")),
        (22, finish("a", "1")),
        (23, finish("a", "2")),
        (24, begin_as("a", "h")),
    ]);
    assert!(is_begun(&replies[1], "a", 1));
    assert_eq!(replies[2..5], [Reply::Applied, Reply::Applied, Reply::Lost]);
    assert_eq!(replies[5], succeeded("1"));
}

#[test]
fn a_release_forgets_and_a_yield_keeps_the_origin() {
    let (_, replies) = run(&[
        (0, begin_as("a", "h")),
        (1, Act::Release { token: token("a") }),
        (2, begin_as("b", "other")),
        (3, Act::Yield { token: token("b") }),
        (3, begin_as("c", "other")),
    ]);
    assert!(is_begun(&replies[2], "b", 1));
    let Reply::Begin(Begun::New(grant)) = &replies[4] else { panic!("{replies:?}") };
    assert_eq!((&grant.origin, grant.begun), (&token("b"), 2));
}

#[test]
fn a_renewed_lease_never_ends_earlier_and_keeps_the_key_alive() {
    let renew = |lease| Act::Renew { token: token("a"), lease: Duration::from_secs(lease) };
    let begin_a = (0, begin_as("a", "h"));
    assert_eq!(last(&[begin_a.clone(), (5, renew(1)), (6, begin_as("b", "h"))]), busy(10));
    let (entry, replies) = run(&[begin_a, (95, renew(30)), (120, begin_as("b", "h"))]);
    assert_eq!(replies[2], busy(125));
    assert_eq!(entry.unwrap().until, at(125));
}

#[test]
fn a_short_time_to_live_never_ends_before_the_lease() {
    let begin = |name: &str| Act::Begin {
        hash: RequestHash::new("h").unwrap(),
        token: token(name),
        ttl: Duration::from_secs(1),
        lease: LEASE,
    };
    assert_eq!(last(&[(0, begin("a")), (9, begin("b"))]), busy(10));
    assert!(is_begun(&last(&[(0, begin("a")), (10, begin("b"))]), "b", 1));
}

#[test]
fn an_operator_forgets_what_is_in_flight_and_an_outcome_only_when_told() {
    let forget = |finished| Act::Forget { finished };
    assert_eq!(last(&[(0, forget(true))]), Reply::Absent);
    let (entry, replies) = run(&[(0, begin_as("a", "h")), (1, forget(false)), (2, finish("a", "1"))]);
    assert!(matches!(&replies[1], Reply::Forgotten(entry) if entry.token == token("a")));
    assert_eq!((entry, &replies[2]), (None, &Reply::Lost));
    let done = [(0, begin_as("a", "h")), (1, finish("a", "1"))];
    let after = |act| last(&[done[0].clone(), done[1].clone(), (2, act)]);
    assert!(after(forget(false)) == Reply::Finished);
    assert!(matches!(after(forget(true)), Reply::Forgotten(_)));
}

#[test]
fn what_was_seen_to_be_over_is_gone_whatever_the_clock_does() {
    let seen = |seconds| run(&[(0, begin_as("a", "h")), (seconds, finish("a", "1"))]);
    assert_eq!(seen(100), (None, vec![seen(0).1[0].clone(), Reply::Lost]));
    let (_, replies) = run(&[(0, begin_as("a", "h")), (100, finish("a", "1")), (50, begin_as("b", "other"))]);
    assert!(is_begun(&replies[2], "b", 1));
}

#[test]
fn a_clock_behind_the_latest_change_neither_revives_nor_takes_over() {
    let (entry, replies) = run(&[(50, begin_as("a", "h")), (10, begin_as("b", "h")), (10, finish("a", "1"))]);
    assert_eq!(replies[1], busy(60));
    let entry = entry.unwrap();
    assert_eq!((entry.changed_at, entry.until), (at(50), at(150)));
}

#[test]
fn what_is_known_without_a_decision_is_what_is_decided() {
    let (hash, other) = (RequestHash::new("h").unwrap(), RequestHash::new("i").unwrap());
    let fail = Act::Fail { token: token("a"), error: "no".to_owned() };
    let mut known = 0;
    for second in [None, Some(finish("a", "1")), Some(fail)] {
        let acts: Vec<_> = [(0, begin_as("a", "h"))].into_iter().chain(second.map(|act| (5, act))).collect();
        let entry = run(&acts).0.unwrap();
        for hash in [&hash, &other] {
            // Before its last change, in its lease, after its lease, after its end.
            for now in [at(1), at(9), at(10), at(11), at(99), at(100), at(101)] {
                let decision = decide(Some(&entry), &begin_as("b", hash.as_str()), now);
                let decided = match decision.reply {
                    Reply::Begin(begun) if !decision.changed => Some(begun),
                    _ => None,
                };
                assert_eq!(known_answer(&entry, hash, now), decided, "{entry:?} at {now:?}");
                known += usize::from(decided.is_some());
            }
        }
    }
    assert!(known > 20, "{known}");
}
