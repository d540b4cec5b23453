//! The demo's own check against evidence made by hand, and the orders that come with the repository.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashMap;

use serde_json::json;
use waybill_testkit::api::Listed;
use waybill_testkit::receiver::{Arrival, Delivered};

use super::commit::Committed;
use super::evidence::check;
use super::*;

fn order(line: usize, key: &str) -> Order {
    Order { line, id: format!("o{line}"), key: Some(key.into()), body: json!({ "id": format!("o{line}") }) }
}

fn arrive(evidence: &mut Evidence, order: &str, attempt: u32, status: u16) {
    evidence.arrivals.push(Arrival {
        order: evidence.arrivals.len(),
        at: Duration::ZERO,
        delivered: Delivered {
            id: format!("m-{order}"),
            tenant: "default".into(),
            key: None,
            attempt,
            epoch: 1,
            seq: 1,
            path: "/orders".into(),
            body: json!({ "id": order }).to_string().into(),
        },
        status,
        answered: true,
    });
}

/// Three orders: the second is retried, the third is rejected.
fn clean() -> (Vec<Order>, HashMap<String, Committed>, Evidence) {
    let orders = vec![order(1, "a"), order(2, "a"), order(3, "b")];
    let committed = orders
        .iter()
        .map(|order| (order.id.clone(), Committed { begun: Instant::now(), message: format!("m-{}", order.id) }));
    let mut evidence = Evidence::default();
    arrive(&mut evidence, "o1", 1, 204);
    arrive(&mut evidence, "o2", 1, 503);
    arrive(&mut evidence, "o3", 1, 422);
    arrive(&mut evidence, "o2", 2, 204);
    evidence.rows = orders.iter().map(|order| (order.id.clone(), 1)).collect();
    evidence.dead.push(Listed {
        id: "m-o3".into(),
        tenant: "default".into(),
        state: "dead".into(),
        attempts: 1,
        suspect: 0,
        last_error: None,
    });
    (orders.clone(), committed.collect(), evidence)
}

#[test]
fn a_clean_run_passes_and_is_counted() {
    let (orders, committed, evidence) = clean();
    let outcome = Outcome::of(&orders, &committed, &evidence, Instant::now());
    assert!(outcome.passed(), "{outcome}");
    let text = outcome.to_string();
    assert!(text.contains("1 (4 attempts in all)") && !text.contains("FAILED"), "{text}");
}

#[test]
fn every_check_is_seen_to_fail() {
    type Change = fn(&mut Evidence);
    let changes: [(usize, Change); 11] = [
        (0, |evidence| {
            evidence.rows.remove("o1");
        }),
        (0, |evidence| {
            evidence.rows.insert("o9".into(), 1);
        }),
        (1, |evidence| drop(evidence.arrivals.remove(0))),
        (1, |evidence| evidence.dead.clear()),
        (1, |evidence| arrive(evidence, "o1", 2, 204)),
        (2, |evidence| arrive(evidence, "o9", 1, 204)),
        (2, |evidence| evidence.faults.push("no ce-id header".into())),
        (3, |evidence| evidence.arrivals[3].delivered.attempt = 1),
        (3, |evidence| evidence.arrivals[1].answered = false),
        (4, |evidence| evidence.arrivals[0].order = 9),
        (5, |evidence| evidence.left = 1),
    ];
    for (number, (which, change)) in changes.into_iter().enumerate() {
        let (orders, committed, mut evidence) = clean();
        change(&mut evidence);
        let checks = check(&orders, &committed, &evidence);
        assert!(!checks[which].breaches.is_empty(), "change {number} isn't seen: {checks:?}");
    }
}

#[test]
fn the_orders_of_the_repository_meet_all_three_fates() {
    let orders = orders::read(&Repository::find().unwrap().root.join(ORDERS)).unwrap();
    assert_eq!(orders.len(), 1_000);
    let status = |order: &Order, attempt| {
        let body = serde_json::to_vec(&order.body).unwrap().into();
        let delivered = Delivered {
            id: String::new(),
            tenant: String::new(),
            key: None,
            attempt,
            epoch: 1,
            seq: 1,
            path: String::new(),
            body,
        };
        judge::judge(&delivered).status
    };
    let first: Vec<u16> = orders.iter().map(|order| status(order, 1)).collect();
    let count = |statuses: &[u16]| first.iter().filter(|status| statuses.contains(status)).count();
    assert_eq!(count(&[422]), 5, "one in two hundred");
    assert!((90..=110).contains(&count(&[500, 503])), "{} failed", count(&[500, 503]));
    assert!(count(&[500]) > 30 && count(&[503]) > 30, "both kinds of failure");
    let keys: std::collections::HashSet<_> = orders.iter().map(|order| order.key.clone().unwrap()).collect();
    assert!(keys.len() < 300, "keys repeat");
}

#[test]
fn the_configuration_quotes_its_paths() {
    let text = config(Path::new("/tmp/a \"b\"\\c"));
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table["store"]["url"].as_str(), Some("surrealkv:///tmp/a \"b\"\\c"));
    assert_eq!(table["outbox"]["backoff"]["base_ms"].as_integer(), Some(100));
}
