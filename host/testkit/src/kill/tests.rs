//! The check against evidence made by hand: a clean run passes, and every law is broken at least once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Duration;

use super::check::check;
use super::judge::{checksum, is_rejected};
use super::plan::host_config;
use super::*;
use crate::api::Listed;
use crate::ledger::{Fate, Kind, Operation, Sent};
use crate::receiver::{Arrival, Delivered};

const SEED: u64 = 6;

fn listed(tag: &str, state: &str, last_error: Option<&str>) -> Listed {
    Listed {
        id: format!("id-{tag}"),
        tenant: "acme".into(),
        state: state.into(),
        attempts: 1,
        suspect: 0,
        last_error: last_error.map(str::to_owned),
    }
}

fn sent(tag: &str) -> Sent {
    Sent {
        tag: tag.into(),
        tenant: "acme".into(),
        key: Some("k".into()),
        scheduled: false,
        id: Some(format!("id-{tag}")),
    }
}

/// A run in which one producer sends `tags`, each in a transaction of its own, all taken at the first attempt.
fn clean(tags: &[&str]) -> Evidence {
    let mut evidence = Evidence { seed: SEED, starts: 3, ..Evidence::default() };
    for (number, tag) in tags.iter().enumerate() {
        evidence.operations.push(Operation {
            number,
            producer: 0,
            kind: Kind::Transaction,
            messages: vec![sent(tag)],
            row: Some(format!("row-{tag}")),
            fate: Fate::Ok,
            tries: 1,
            began: Duration::from_millis(number as u64),
            ended: None,
        });
        evidence.rows.insert(format!("row-{tag}"), 1);
        evidence.done.push(listed(tag, "done", None));
        arrive(&mut evidence, tag, 1, 1, 204);
    }
    evidence
}

fn arrive(evidence: &mut Evidence, tag: &str, epoch: u64, attempt: u32, status: u16) {
    let pad = "x";
    let body = serde_json::json!({ "tag": tag, "pad": pad, "sum": checksum(pad) });
    evidence.arrivals.push(Arrival {
        order: evidence.arrivals.len(),
        at: Duration::ZERO,
        delivered: Delivered {
            id: format!("id-{tag}"),
            tenant: "acme".into(),
            key: Some("k".into()),
            attempt,
            epoch,
            seq: 1,
            path: "/kill/a".into(),
            body: serde_json::to_vec(&body).unwrap().into(),
        },
        status,
        answered: true,
    });
}

#[track_caller]
fn breaks(law: Law, evidence: &Evidence) {
    let verdict = check(evidence);
    assert!(verdict.count(law) > 0, "{law:?} isn't seen in {:?}", verdict.violations);
}

#[test]
fn a_clean_run_breaks_no_law() {
    let mut evidence = clean(&["a", "b", "c"]);
    // A failure, a crash, and the message comes again each time with a cause.
    arrive(&mut evidence, "d", 1, 1, 503);
    arrive(&mut evidence, "d", 1, 2, 204);
    arrive(&mut evidence, "d", 2, 2, 204);
    let mut operation = evidence.operations[0].clone();
    operation.messages = vec![sent("d")];
    operation.row = Some("row-d".into());
    evidence.rows.insert("row-d".into(), 1);
    evidence.done.push(listed("d", "done", None));
    evidence.operations.push(operation);
    let verdict = check(&evidence);
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.acknowledged, verdict.delivered, verdict.transactions), (4, 4, 4));
    assert_eq!((verdict.redelivered, verdict.arrivals), (1, 6));
}

#[test]
fn an_acknowledged_message_that_never_arrives_is_lost() {
    let mut evidence = clean(&["a", "b"]);
    evidence.arrivals.pop();
    evidence.done.pop();
    breaks(Law::Lost, &evidence);
    breaks(Law::RowXorMessage, &evidence);
}

#[test]
fn what_nobody_sent_or_what_was_refused_is_uninvited() {
    let mut evidence = clean(&["a"]);
    arrive(&mut evidence, "z", 1, 1, 204);
    breaks(Law::Uninvited, &evidence);
    let mut evidence = clean(&["a"]);
    evidence.operations[0].fate = Fate::Failed("503".into());
    breaks(Law::Uninvited, &evidence);
    let mut evidence = clean(&["a"]);
    evidence.done.push(listed("z", "done", None));
    breaks(Law::Uninvited, &evidence);
}

#[test]
fn a_second_delivery_needs_a_failure_or_a_crash() {
    for (epoch, attempt, allowed) in [(1, 1, false), (1, 2, false), (2, 1, true), (0, 1, false)] {
        let mut evidence = clean(&["a"]);
        arrive(&mut evidence, "a", epoch, attempt, 204);
        assert_eq!(check(&evidence).count(Law::DoubledWithoutCause) == 0, allowed, "epoch {epoch}, attempt {attempt}");
    }
    // After a failure the attempt has to count, and after a crash it must not go back.
    for (epoch, attempt, allowed) in [(1, 1, false), (1, 2, true), (2, 1, true)] {
        let mut evidence = clean(&["a"]);
        evidence.arrivals[0].status = 503;
        arrive(&mut evidence, "a", epoch, attempt, 204);
        assert_eq!(check(&evidence).count(Law::DoubledWithoutCause) == 0, allowed, "epoch {epoch}, attempt {attempt}");
    }
    let mut evidence = clean(&["a"]);
    evidence.arrivals[0].delivered.attempt = 2;
    arrive(&mut evidence, "a", 2, 1, 204);
    breaks(Law::DoubledWithoutCause, &evidence);
}

#[test]
fn the_next_of_a_key_waits_for_the_one_before() {
    let mut evidence = clean(&["a", "b"]);
    evidence.arrivals[0].order = 1;
    evidence.arrivals[1].order = 0;
    breaks(Law::OutOfOrder, &evidence);
    // A late second delivery of the first is out of order too, with or without a crash.
    let mut evidence = clean(&["a", "b"]);
    arrive(&mut evidence, "a", 2, 1, 204);
    breaks(Law::OutOfOrder, &evidence);
    // Scheduled and unknown ones have no place in the order.
    for change in [
        |operation: &mut Operation| operation.messages[0].scheduled = true,
        |operation: &mut Operation| operation.fate = Fate::Unknown("reset".into()),
    ] {
        let mut evidence = clean(&["a", "b"]);
        change(&mut evidence.operations[0]);
        arrive(&mut evidence, "a", 2, 1, 204);
        assert_eq!(check(&evidence).violations, []);
    }
}

#[test]
fn a_row_without_its_message_and_a_message_without_its_row_are_seen() {
    for rows in [0, 2] {
        let mut evidence = clean(&["a"]);
        evidence.rows.insert("row-a".into(), rows);
        breaks(Law::RowXorMessage, &evidence);
    }
    let mut evidence = clean(&["a"]);
    evidence.rows.insert("row-z".into(), 1);
    breaks(Law::RowXorMessage, &evidence);
    let mut evidence = clean(&["a"]);
    evidence.operations[0].fate = Fate::Unknown("reset".into());
    evidence.arrivals.clear();
    evidence.done.clear();
    breaks(Law::RowXorMessage, &evidence);
    evidence.rows.clear();
    let verdict = check(&evidence);
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.unknown_absent, verdict.unknown_committed), (1, 0));
}

#[test]
fn half_a_batch_is_seen_even_when_nobody_was_told() {
    let mut evidence = clean(&["a"]);
    evidence.operations[0].messages.push(sent("b"));
    evidence.operations[0].fate = Fate::Unknown("reset".into());
    breaks(Law::Torn, &evidence);
}

#[test]
fn a_changed_id_tenant_key_or_payload_is_seen() {
    for change in [
        |delivered: &mut Delivered| delivered.id = "other".into(),
        |delivered: &mut Delivered| delivered.tenant = "globex".into(),
        |delivered: &mut Delivered| delivered.key = None,
        |delivered: &mut Delivered| delivered.body = r#"{"tag":"a","pad":"y","sum":1}"#.into(),
        |delivered: &mut Delivered| delivered.body = "{}".into(),
    ] {
        let mut evidence = clean(&["a"]);
        change(&mut evidence.arrivals[0].delivered);
        breaks(Law::Altered, &evidence);
    }
}

#[test]
fn a_dead_letter_needs_a_cause() {
    let rejected = (0..).map(|n| format!("r{n}")).find(|tag| is_rejected(SEED, tag)).unwrap();
    let mut evidence = clean(&[&rejected]);
    evidence.arrivals[0].status = 422;
    evidence.done.clear();
    breaks(Law::Lost, &evidence);
    breaks(Law::StoreDiffers, &evidence);
    evidence.dead.push(listed(&rejected, "dead", Some("HTTP.422: no")));
    let verdict = check(&evidence);
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.acknowledged, verdict.delivered, verdict.dead), (1, 0, 1));

    let mut evidence = clean(&["a"]);
    evidence.arrivals.clear();
    evidence.done.clear();
    evidence.dead.push(listed("a", "dead", Some("HTTP.503: no")));
    breaks(Law::DeadWithoutCause, &evidence);
    // Nor is being killed often a cause.
    evidence.dead[0].last_error = Some("SUSPECTED_POISON: three crashes alone".into());
    breaks(Law::DeadWithoutCause, &evidence);
}

#[test]
fn the_store_has_to_tell_the_same_story() {
    let mut evidence = clean(&["a"]);
    evidence.done.clear();
    breaks(Law::StoreDiffers, &evidence);
    let mut evidence = clean(&["a"]);
    evidence.arrivals.clear();
    breaks(Law::StoreDiffers, &evidence);
    let evidence = Evidence { left: 1, ..clean(&["a"]) };
    breaks(Law::StoreDiffers, &evidence);
}

#[test]
fn owners_are_no_more_than_starts_and_never_come_back() {
    let mut evidence = clean(&["a", "b"]);
    evidence.arrivals[1].delivered.epoch = 2;
    evidence.starts = 1;
    breaks(Law::TooManyOwners, &evidence);
    let mut evidence = clean(&["a", "b"]);
    evidence.arrivals[0].delivered.epoch = 2;
    breaks(Law::TooManyOwners, &evidence);
}

#[test]
fn refusals_and_requests_without_an_end_are_seen() {
    let mut evidence = clean(&["a"]);
    evidence.operations[0].fate = Fate::Open;
    breaks(Law::Refused, &evidence);
    let evidence = Evidence { refusals: vec!["400".into()], ..clean(&["a"]) };
    breaks(Law::Refused, &evidence);
    let evidence = Evidence { faults: vec!["no ce-id header".into()], ..clean(&["a"]) };
    breaks(Law::Altered, &evidence);
}

#[test]
fn a_run_that_shows_nothing_proves_nothing() {
    let nothing = Proof {
        acknowledged: 0,
        kills_with_requests: 0,
        kills_with_deliveries: 0,
        redelivered: 0,
        transactions: 0,
        dead: 0,
    };
    assert_eq!(Proof::needed(100).missing(nothing).len(), 6);
    assert!(Proof::needed(100).missing(Proof::needed(100)).is_empty());
    // A very short run can't be asked for the rare things.
    assert_eq!((Proof::needed(3).redelivered, Proof::needed(3).kills_with_requests), (0, 1));
}

#[test]
fn the_configuration_quotes_its_paths() {
    let config = host_config(std::path::Path::new("/tmp/a \"b\"\\c"));
    assert!(config.contains(r#"url = "surrealkv:///tmp/a \"b\"\\c""#), "{config}");
}
