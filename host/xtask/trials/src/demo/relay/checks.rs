//! The comparison: it takes the host's word for nothing that the tables, the stream and the handler tell.

use std::collections::{BTreeMap, BTreeSet};

use super::evidence::{Call, Evidence, Order, Row};
use super::stage::Victim;
use crate::demo::evidence::Check;

/// A commit follows its call within this time, or the call's deadline.
const COMMIT_WITHIN_MS: i64 = 15_000;
/// A request that is under way when its sender dies may be noted a moment later.
const LATE_MS: i64 = 500;
const HANDLE: &str = "/handle";
const WEBHOOK: &str = "/webhook";

/// All checks, in the order in which they are shown.
pub fn check(orders: u32, evidence: &Evidence) -> Vec<Check> {
    vec![
        Check {
            rule: "every order is in the tables once, with both rows, and both are published",
            breaches: tables(orders, evidence),
        },
        Check {
            rule: "every row is in the stream as it is in the table, and nothing else is there",
            breaches: stream(evidence),
        },
        Check {
            rule: "the stream has each customer's orders in order",
            breaches: in_order(&first_in_stream(evidence)),
        },
        Check { rule: "the webhook took every row, each customer's in order", breaches: webhooks(evidence) },
        Check { rule: "the handler has written one bill for each order", breaches: bills(evidence) },
        Check { rule: "the inbox has finished each message once", breaches: finished(evidence) },
        Check {
            rule: "a second call came only after a failure, or a kill between call and commit, and said so",
            breaches: second_calls(evidence),
        },
        Check {
            rule: "no order was handled before an earlier one of its customer was through",
            breaches: calls_in_order(evidence),
        },
        Check {
            rule: "there are no dead letters",
            breaches: (evidence.dead > 0).then(|| format!("{} of them", evidence.dead)).into_iter().collect(),
        },
    ]
}

fn tables(orders: u32, evidence: &Evidence) -> Vec<String> {
    let known: BTreeSet<&str> = evidence.orders.iter().map(String::as_str).collect();
    let mut breaches = Vec::new();
    if known.len() != orders as usize || evidence.orders.len() != orders as usize {
        breaches.push(format!("{} orders are there, {orders} were placed", evidence.orders.len()));
    }
    for (table, rows) in [("outbox_events", &evidence.events), ("webhook_events", &evidence.webhooks)] {
        let mut seen = BTreeSet::new();
        for Row { id, status, order } in rows {
            if status != "published" {
                breaches.push(format!("row {id} of {table} is {status}"));
            }
            if !seen.insert(order.id.as_str()) {
                breaches.push(format!("{} is in {table} twice", order.id));
            }
        }
        let missing = known.symmetric_difference(&seen);
        breaches.extend(missing.map(|order| format!("{order} is in one of orders and {table} only")));
    }
    breaches
}

fn stream(evidence: &Evidence) -> Vec<String> {
    let mut missing: BTreeMap<String, &Order> =
        evidence.events.iter().map(|row| (format!("outbox-{}", row.id), &row.order)).collect();
    let rows = missing.clone();
    let mut breaches = Vec::new();
    for message in &evidence.stream {
        let id = message.header("Nats-Msg-Id").unwrap_or_default();
        let order: Option<Order> = serde_json::from_slice(&message.payload).ok();
        if rows.get(id).copied() != order.as_ref() {
            breaches.push(format!("message {} has id {id:?} and holds {order:?}", message.sequence));
        } else if missing.remove(id).is_none() {
            // The stream's own window of two minutes is longer than any outage here.
            breaches.push(format!("{id} is there again, at {}", message.sequence));
        }
    }
    breaches.extend(missing.into_keys().map(|id| format!("{id} isn't there")));
    breaches
}

fn first_in_stream(evidence: &Evidence) -> Vec<Order> {
    let mut seen = BTreeSet::new();
    let orders = evidence.stream.iter().filter_map(|message| serde_json::from_slice::<Order>(&message.payload).ok());
    orders.filter(|order| seen.insert(order.id.clone())).collect()
}

/// Each customer's numbers are 1, 2, 3 and so on.
fn in_order(orders: &[Order]) -> Vec<String> {
    let mut latest: BTreeMap<&str, u32> = BTreeMap::new();
    let mut breaches = Vec::new();
    for Order { customer, number, .. } in orders {
        let before = latest.insert(customer, *number).unwrap_or_default();
        if *number != before + 1 {
            breaches.push(format!("{customer}: {number} came after {before}"));
        }
    }
    breaches
}

/// What came to one path, in order.
fn calls<'e>(evidence: &'e Evidence, path: &'static str) -> impl Iterator<Item = &'e Call> {
    evidence.report.calls.iter().filter(move |call| call.path == path)
}

fn webhooks(evidence: &Evidence) -> Vec<String> {
    let mut missing: BTreeMap<String, &Order> =
        evidence.webhooks.iter().map(|row| (format!("webhook-{}", row.id), &row.order)).collect();
    let rows = missing.clone();
    let (mut breaches, mut first) = (Vec::new(), Vec::new());
    for call in calls(evidence, WEBHOOK) {
        let order = call.order();
        if order.is_none() || rows.get(&call.id).copied() != order.as_ref() {
            breaches.push(format!("{} came with {order:?}", call.id));
        } else if call.is_accepted() && missing.remove(&call.id).is_some() {
            first.extend(order);
        }
    }
    breaches.extend(missing.into_keys().map(|id| format!("{id} wasn't taken")));
    breaches.extend(in_order(&first));
    breaches
}

fn bills(evidence: &Evidence) -> Vec<String> {
    let mut count: BTreeMap<&Order, usize> = evidence.events.iter().map(|row| (&row.order, 0)).collect();
    for bill in &evidence.report.bills {
        *count.entry(bill).or_insert(usize::MAX / 2) += 1;
    }
    let wrong = count.into_iter().filter(|(_, count)| *count != 1);
    wrong
        .map(|(order, count)| match count {
            0 => format!("{} has no bill", order.id),
            count if count < usize::MAX / 2 => format!("{} has {count} bills", order.id),
            _ => format!("{} was never placed, and is billed", order.id),
        })
        .collect()
}

fn finished(evidence: &Evidence) -> Vec<String> {
    let each = evidence.events.iter().filter_map(|row| {
        let id = format!("outbox-{}", row.id);
        let status = evidence.inbox.get(&id).cloned().unwrap_or_default();
        let ends: Vec<&str> = status.ended.iter().map(|end| end.end.as_str()).collect();
        match ends.as_slice() {
            ["processed" | "duplicate"] if status.seen => None,
            other => Some(format!("{id}: seen {}, ended {other:?}", status.seen)),
        }
    });
    each.collect()
}

fn second_calls(evidence: &Evidence) -> Vec<String> {
    let mut by_key: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls(evidence, HANDLE) {
        by_key.entry(&call.key).or_default().push(call);
    }
    let mut breaches = Vec::new();
    for (key, calls) in by_key {
        for (first, second) in calls.iter().zip(calls.iter().skip(1)) {
            if second.maybe_handled == 0 {
                breaches.push(format!("{key}: a further call didn't say that it may have been handled"));
            }
            let failed = first.status.is_some_and(|status| status >= 500);
            if !failed && !killed_between(evidence, first.at_ms, second.at_ms) {
                breaches.push(format!("{key}: answered {:?}, and called again with no kill between", first.status));
            }
        }
        if !calls.iter().any(|call| call.is_accepted()) {
            breaches.push(format!("{key}: no call of it was answered with yes"));
        }
    }
    breaches
}

/// Whether the host or the handler was killed after a call began and before its commit, at the latest when it was called again.
fn killed_between(evidence: &Evidence, first: i64, second: i64) -> bool {
    let until = second.min(first + COMMIT_WITHIN_MS);
    let ends_calls = evidence.kills.iter().filter(|kill| matches!(kill.victim, Victim::Host | Victim::Handler));
    ends_calls.map(|kill| kill.at_ms).any(|at| first - LATE_MS <= at && at <= until)
}

fn calls_in_order(evidence: &Evidence) -> Vec<String> {
    let mut latest: BTreeMap<String, u32> = BTreeMap::new();
    let mut breaches = Vec::new();
    for call in calls(evidence, HANDLE) {
        let Some(Order { customer, number, id }) = call.order() else {
            breaches.push(format!("{} came without an order", call.id));
            continue;
        };
        let before = latest.get(&customer).copied().unwrap_or_default();
        if number < before {
            breaches.push(format!("{id} was called after number {before} of {customer}"));
        }
        latest.insert(customer, number.max(before));
    }
    breaches
}
