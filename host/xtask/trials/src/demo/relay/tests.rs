//! The demo's own checks against evidence made by hand, and the example's configuration.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use serde_json::json;
use waybill_testkit::nats::Stored;

use super::checks::check;
use super::evidence::{Call, End, Evidence, Order, Row, Status};
use super::stage::{Kill, Victim};
use super::*;

fn order(number: u32) -> Order {
    Order { customer: "ada".into(), number, id: format!("order-{number}") }
}

fn json_of(order: &Order) -> serde_json::Value {
    json!({ "order": order.id, "customer": order.customer, "number": order.number, "cents": 100 })
}

fn row(id: i64, number: u32) -> Row {
    Row { id, status: "published".into(), order: order(number) }
}

fn call(row: &Row, at_ms: i64, status: u16) -> Call {
    let id = format!("outbox-{}", row.id);
    let body = json!({ "message_id": id, "payload": json_of(&row.order) }).to_string();
    let key = format!("billing/{id}");
    Call { path: "/handle".into(), key, id, maybe_handled: 0, at_ms, status: Some(status), body }
}

fn post(row: &Row) -> Call {
    let id = format!("webhook-{}", row.id);
    let body = json_of(&row.order).to_string();
    Call { path: "/webhook".into(), key: id.clone(), id, maybe_handled: 0, at_ms: 0, status: Some(204), body }
}

/// Three orders; the second is called again after a failure, the third because the host was killed.
fn clean() -> Evidence {
    let mut evidence = Evidence {
        orders: (1..=3).map(|number| order(number).id).collect(),
        events: vec![row(1, 1), row(3, 2), row(5, 3)],
        webhooks: vec![row(2, 1), row(4, 2), row(6, 3)],
        kills: vec![Kill { victim: Victim::Host, at_ms: 3_010 }],
        ..Evidence::default()
    };
    for (place, row) in evidence.events.iter().enumerate() {
        let id = format!("outbox-{}", row.id);
        evidence.stream.push(Stored {
            sequence: place as u64 + 1,
            subject: "shop.event.order_placed.v1".into(),
            headers: vec![("Nats-Msg-Id".into(), id.clone())],
            payload: json_of(&row.order).to_string().into(),
        });
        evidence.inbox.insert(id, Status { seen: true, ended: vec![End { end: "processed".into() }] });
        evidence.report.bills.push(row.order.clone());
    }
    let again = |call: Call| Call { maybe_handled: 1, ..call };
    let [first, second, third] = [0, 1, 2].map(|place| evidence.events[place].clone());
    evidence.report.calls = vec![
        call(&first, 1_000, 204),
        call(&second, 2_000, 500),
        again(call(&second, 2_500, 409)),
        call(&third, 3_000, 204),
        again(call(&third, 9_000, 409)),
    ];
    evidence.report.calls.extend(evidence.webhooks.iter().map(post));
    evidence
}

#[test]
fn a_clean_run_passes_and_is_counted() {
    let outcome = outcome(3, &clean(), std::time::Duration::from_secs(60));
    assert!(outcome.passed(), "{outcome}");
    assert!(outcome.to_string().contains("the host"), "{outcome}");
}

#[test]
fn every_check_is_seen_to_fail() {
    type Change = fn(&mut Evidence);
    let changes: [(usize, Change); 22] = [
        (0, |evidence| drop(evidence.orders.pop())),
        (0, |evidence| drop(evidence.events.pop())),
        (0, |evidence| evidence.webhooks[0].status = "pending".into()),
        (1, |evidence| drop(evidence.stream.pop())),
        (1, |evidence| evidence.stream.push(evidence.stream[0].clone())),
        (1, |evidence| evidence.stream[0].payload = b"{}".to_vec()),
        (2, |evidence| evidence.stream.swap(0, 1)),
        (3, |evidence| drop(evidence.report.calls.pop())),
        (3, |evidence| evidence.report.calls.swap(5, 6)),
        (3, |evidence| evidence.report.calls[5].body = "{}".into()),
        (4, |evidence| drop(evidence.report.bills.pop())),
        (4, |evidence| evidence.report.bills.push(order(1))),
        (4, |evidence| evidence.report.bills.push(order(9))),
        (5, |evidence| drop(evidence.inbox.remove("outbox-1"))),
        (5, |evidence| evidence.inbox.get_mut("outbox-1").unwrap().ended.push(End { end: "processed".into() })),
        (5, |evidence| evidence.inbox.get_mut("outbox-3").unwrap().seen = false),
        (6, |evidence| evidence.kills.clear()),
        (6, |evidence| evidence.kills[0].victim = Victim::Broker),
        (6, |evidence| evidence.report.calls[2].maybe_handled = 0),
        (6, |evidence| evidence.report.calls[0].status = None),
        (7, |evidence| evidence.report.calls.swap(0, 3)),
        (8, |evidence| evidence.dead = 1),
    ];
    for (number, (which, change)) in changes.into_iter().enumerate() {
        let mut evidence = clean();
        change(&mut evidence);
        let checks = check(3, &evidence);
        assert!(!checks[which].breaches.is_empty(), "change {number} isn't seen: {checks:?}");
    }
}

#[test]
fn the_examples_configuration_takes_the_servers_of_a_run() {
    let example = Repository::find().unwrap().root.join(EXAMPLE);
    let text = std::fs::read_to_string(example.join("waybill.toml")).unwrap();
    let text = config(&text, Path::new("/tmp/a"), &Addresses { postgres: 1, nats: 2, billing: 3 }).unwrap();
    for gone in [POSTGRES, NATS, BILLING] {
        assert!(!text.contains(gone), "{text}");
    }
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table["store"]["url"].as_str(), Some("surrealkv:///tmp/a/data"));
    assert_eq!(table["source"]["orders"]["config"]["ack_wait"].as_str(), Some("10s"), "at most 30 s");
}
