//! What the demo compares, and the comparison: it takes nobody's word for it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde_json::Value;
use waybill_testkit::api::Listed;
use waybill_testkit::receiver::Arrival;

use super::commit::Committed;
use super::orders::Order;

/// Breaches that are spelled out.
const SHOWN_BREACHES: usize = 5;

/// What the receiver saw and the store holds.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Every request to the receiver.
    pub arrivals: Vec<Arrival>,
    /// Requests that weren't deliveries.
    pub faults: Vec<String>,
    pub dead: Vec<Listed>,
    /// Business rows, with how often each is there.
    pub rows: BTreeMap<String, usize>,
    /// Messages still on their way.
    pub left: u64,
}

/// One check with what it found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What has to be so.
    pub rule: &'static str,
    pub breaches: Vec<String>,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.breaches.is_empty() { "ok" } else { "FAILED" };
        writeln!(f, "  {verdict:<6}  {}", self.rule)?;
        for breach in self.breaches.iter().take(SHOWN_BREACHES) {
            writeln!(f, "          {breach}")?;
        }
        match self.breaches.len().checked_sub(SHOWN_BREACHES) {
            Some(more @ 1..) => writeln!(f, "          and {more} more"),
            _ => Ok(()),
        }
    }
}

/// The order that an arrival carries.
pub fn order_of(arrival: &Arrival) -> Option<String> {
    order_in(&arrival.delivered.body)
}

/// The id of the order in a payload.
pub fn order_in(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body.get("id").and_then(Value::as_str).map(str::to_owned)
}

/// All checks, in the order in which they are shown.
pub fn check(orders: &[Order], committed: &HashMap<String, Committed>, evidence: &Evidence) -> Vec<Check> {
    let mut arrivals: HashMap<String, Vec<&Arrival>> = HashMap::new();
    let mut strangers = Vec::new();
    for arrival in &evidence.arrivals {
        match order_of(arrival).filter(|id| committed.contains_key(id)) {
            Some(id) => arrivals.entry(id).or_default().push(arrival),
            None => strangers.push(format!("message {} to {}", arrival.delivered.id, arrival.delivered.path)),
        }
    }
    strangers.extend(evidence.faults.iter().cloned());
    let of = |order: &Order| arrivals.get(&order.id).map_or([].as_slice(), Vec::as_slice);
    let dead: HashSet<&str> = evidence.dead.iter().map(|dead| dead.id.as_str()).collect();
    let is_dead = |order: &Order| committed.get(&order.id).is_some_and(|done| dead.contains(done.message.as_str()));
    let where_wrong = |wrong: &dyn Fn(&Order) -> Option<String>| -> Vec<String> {
        orders
            .iter()
            .filter_map(|order| wrong(order).map(|how| format!("{} (line {}): {how}", order.id, order.line)))
            .collect()
    };

    let mut rows = where_wrong(&|order| {
        let there = evidence.rows.get(&order.id).copied().unwrap_or(0);
        (there != 1).then(|| format!("its row is there {there} times"))
    });
    rows.extend(
        evidence.rows.keys().filter(|id| !committed.contains_key(*id)).map(|id| format!("row {id} was never sent")),
    );
    let arrived = where_wrong(&|order| {
        let accepted = of(order).iter().filter(|arrival| arrival.accepted()).count();
        match (accepted, is_dead(order)) {
            (1, false) | (0, true) => None,
            (0, false) => Some("neither delivered nor a dead letter".to_owned()),
            (count, dead) => Some(format!("accepted {count} times{}", if dead { " and a dead letter" } else { "" })),
        }
    });
    let repeated = where_wrong(&|order| {
        let mut pairs = of(order).iter().zip(of(order).iter().skip(1));
        let unexplained = pairs.find(|(first, second)| {
            first.accepted() || !first.answered || second.delivered.attempt != first.delivered.attempt + 1
        });
        unexplained.map(|(_, second)| format!("attempt {} came without a failure before it", second.delivered.attempt))
    });
    vec![
        Check { rule: "every order's row is in the store, once", breaches: rows },
        Check { rule: "every order was accepted once, or is a dead letter", breaches: arrived },
        Check { rule: "nothing was delivered that wasn't committed", breaches: strangers },
        Check { rule: "every further attempt followed a failure", breaches: repeated },
        Check {
            rule: "each customer's orders came in the order they were committed",
            breaches: inversions(orders, &of),
        },
        Check {
            rule: "the outbox is empty",
            breaches: if evidence.left == 0 {
                Vec::new()
            } else {
                vec![format!("{} messages are left", evidence.left)]
            },
        },
    ]
}

/// Orders that were tried before the order of the same key before them was through.
fn inversions<'e>(orders: &[Order], of: &impl Fn(&Order) -> &'e [&'e Arrival]) -> Vec<String> {
    let mut through: HashMap<&str, (&str, usize)> = HashMap::new();
    let mut breaches = Vec::new();
    for order in orders {
        let Some(key) = order.key.as_deref() else { continue };
        let places = || of(order).iter().map(|arrival| arrival.order);
        let (Some(first), Some(last)) = (places().min(), places().max()) else { continue };
        if let Some((before, end)) = through.get(key)
            && *end > first
        {
            breaches.push(format!("{} was tried before {before} of {key} was through", order.id));
        }
        through.insert(key, (&order.id, last));
    }
    breaches
}
