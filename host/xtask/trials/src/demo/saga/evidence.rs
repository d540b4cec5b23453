//! What the demo compares: what had to become of each order, what the host says, and what the shop saw.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::plan::{Order, STEPS};
use super::shop::{Accounts, Asked};
use crate::demo::evidence::Check;

/// A saga as the host shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct Shown {
    /// State in a word.
    pub state: String,
    /// The root with its steps.
    pub saga: Node,
}

/// The steps of a saga.
#[derive(Clone, Debug, Deserialize)]
pub struct Node {
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Step {
    pub name: String,
    /// State in a word.
    pub state: String,
    /// Output of its action.
    #[serde(default)]
    pub output: Option<serde_json::Value>,
}

/// All that was seen.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Sagas at their end, by id.
    pub sagas: BTreeMap<String, Shown>,
    /// Those that had stopped on the way back before the shop was mended.
    pub stuck: BTreeSet<String>,
    /// What the shop had before.
    pub before: Accounts,
    /// What it has now.
    pub after: Accounts,
    /// What the shop was asked.
    pub log: Vec<Asked>,
    /// The host was killed meanwhile.
    pub killed: bool,
}

/// What the shop was asked for one order.
struct Trail<'e> {
    asked: Vec<&'e Asked>,
}

impl Trail<'_> {
    /// Steps that changed something, in the order in which they did.
    fn done(&self) -> Vec<usize> {
        self.asked.iter().filter(|asked| !asked.undo && asked.changed > 0).filter_map(|asked| step(asked)).collect()
    }

    /// Steps whose undoing was asked for, in the order in which it was, repeats left out.
    fn undone(&self) -> Vec<usize> {
        let mut steps: Vec<usize> =
            self.asked.iter().filter(|asked| asked.undo).filter_map(|asked| step(asked)).collect();
        steps.dedup();
        steps
    }

    /// Requests by step and direction.
    fn groups(&self) -> BTreeMap<(&str, bool), Vec<&Asked>> {
        let mut groups: BTreeMap<(&str, bool), Vec<&Asked>> = BTreeMap::new();
        for asked in &self.asked {
            groups.entry((asked.kind.as_str(), asked.undo)).or_default().push(asked);
        }
        groups
    }
}

fn step(asked: &Asked) -> Option<usize> {
    STEPS.iter().position(|(_, kind)| *kind == asked.kind)
}

fn names(steps: &[usize]) -> String {
    let names: Vec<&str> = steps.iter().filter_map(|step| STEPS.get(*step)).map(|(name, _)| *name).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// All checks, in the order in which they are shown.
pub fn check(orders: &[Order], evidence: &Evidence) -> Vec<Check> {
    let mut trails: BTreeMap<&str, Trail<'_>> =
        orders.iter().map(|order| (order.id.as_str(), Trail { asked: Vec::new() })).collect();
    let mut strangers = Vec::new();
    for asked in &evidence.log {
        match trails.get_mut(asked.order.as_str()) {
            Some(trail) => trail.asked.push(asked),
            None => strangers.push(format!("{} of {}, which nobody ordered", asked.kind, asked.order)),
        }
    }
    let each = |wrong: &dyn Fn(&Order, &Trail<'_>) -> Option<String>| -> Vec<String> {
        let found = orders.iter().filter_map(|order| Some((order, trails.get(order.id.as_str())?)));
        found.filter_map(|(order, trail)| Some(format!("{}: {}", order.id, wrong(order, trail)?))).collect()
    };
    vec![
        Check { rule: "every saga ended as it had to", breaches: each(&|order, _| ended(order, evidence)) },
        Check { rule: "stock, money, parcels and confirmations add up", breaches: accounts(orders, evidence) },
        Check {
            rule: "what was done, or may have been, was undone in reverse order, and nothing else",
            breaches: each(&|order, trail| undone(order, trail, evidence.killed)),
        },
        Check { rule: "nothing was done or undone twice", breaches: each(&|_, trail| twice(trail)) },
        Check { rule: "every attempt of a step had the same key", breaches: each(&|_, trail| keys(trail)) },
        Check {
            rule: "the host's own account is what the shop saw",
            breaches: each(&|order, trail| agrees(order, trail, evidence)),
        },
        Check {
            rule: "what couldn't be undone stopped visibly, and went on when told",
            breaches: stuck(orders, evidence),
        },
        Check { rule: "nothing was asked that nobody ordered", breaches: strangers },
    ]
}

fn ended(order: &Order, evidence: &Evidence) -> Option<String> {
    let Some(saga) = evidence.sagas.get(&order.id) else { return Some("the host doesn't know it".to_owned()) };
    (saga.state != order.end()).then(|| format!("it is {}, not {}", saga.state, order.end()))
}

/// What the shop has has to be what the orders that the host calls completed add up to.
fn accounts(orders: &[Order], evidence: &Evidence) -> Vec<String> {
    let mut due = evidence.before.clone();
    for order in orders {
        let Some(saga) = evidence.sagas.get(&order.id).filter(|saga| saga.state == "completed") else { continue };
        let text = |field: &str| order.input.get(field).and_then(|value| value.as_str()).unwrap_or_default();
        let count = order.input.get("count").and_then(serde_json::Value::as_i64).unwrap_or(0);
        let sku = text("sku");
        let goods = sku.rsplit(' ').next().unwrap_or(sku);
        *due.shelf.entry(goods.to_owned()).or_default() -= count;
        let hold = saga.saga.steps.first().and_then(|step| step.output.as_ref());
        due.cents += hold.and_then(|hold| hold.get("cents")).and_then(serde_json::Value::as_i64).unwrap_or(0);
        due.parcels += 1;
        due.confirmed += 1;
    }
    let after = &evidence.after;
    let mut breaches = Vec::new();
    for (what, due, found) in [
        ("cents", due.cents, after.cents),
        ("parcels", due.parcels, after.parcels),
        ("confirmations", due.confirmed, after.confirmed),
    ] {
        if due != found {
            breaches.push(format!("{found} {what}, and the completed orders make {due}"));
        }
    }
    for goods in due.shelf.keys().chain(after.shelf.keys()).collect::<BTreeSet<_>>() {
        let of = |accounts: &Accounts| accounts.shelf.get(goods).copied().unwrap_or(0);
        if of(&due) != of(after) {
            breaches.push(format!("{} {goods} on the shelf, and the completed orders leave {}", of(after), of(&due)));
        }
    }
    breaches
}

fn undone(order: &Order, trail: &Trail<'_>, killed: bool) -> Option<String> {
    let (mut undone, due) = (trail.undone(), order.undone());
    if killed && undone == order.undone_after_a_crash() {
        let changed = |step: &usize| trail.done().contains(step);
        undone.retain(changed);
    } else if undone != due {
        return Some(format!("undone: {}; it had to be: {}", names(&undone), names(&due)));
    }
    let mut done = trail.done();
    done.reverse();
    (order.fails().is_some() && done != undone).then(|| {
        done.reverse();
        format!("done: {}; undone: {}", names(&done), names(&undone))
    })
}

fn twice(trail: &Trail<'_>) -> Option<String> {
    trail.groups().into_iter().find_map(|((kind, undo), asked)| {
        let times: u64 = asked.iter().map(|asked| asked.changed).sum();
        (times > 1).then(|| format!("{kind} {} {times} times", if undo { "undone" } else { "done" }))
    })
}

fn keys(trail: &Trail<'_>) -> Option<String> {
    let mut all = BTreeSet::new();
    trail.groups().into_iter().find_map(|((kind, undo), asked)| {
        let keys: BTreeSet<&str> = asked.iter().map(|asked| asked.key.as_str()).collect();
        let what = if undo { "its undoing" } else { "it" };
        if keys.len() > 1 {
            return Some(format!("{kind}: {what} was asked for under {keys:?}"));
        }
        let taken = keys.into_iter().find(|key| !all.insert(key.to_owned()));
        taken.map(|key| format!("{kind}: {what} was asked for under {key:?}, the key of another step"))
    })
}

/// The states of the steps against what the shop did.
fn agrees(order: &Order, trail: &Trail<'_>, evidence: &Evidence) -> Option<String> {
    let saga = evidence.sagas.get(&order.id)?;
    let (done, undone) = (trail.done(), trail.undone());
    STEPS.iter().enumerate().find_map(|(place, (name, _))| {
        let Some(step) = saga.saga.steps.iter().find(|step| step.name == *name) else {
            return Some(format!("the host shows no step {name}"));
        };
        let fits = match (done.contains(&place), undone.contains(&place)) {
            (true, false) => step.state == "succeeded",
            (true, true) => step.state == "compensated",
            (false, false) => matches!(step.state.as_str(), "ready" | "failed"),
            (false, true) => evidence.killed && order.fails() == Some(place) && step.state == "compensated",
        };
        (!fits).then(|| {
            format!("the host says that {name} is {}; done: {}; undone: {}", step.state, names(&done), names(&undone))
        })
    })
}

fn stuck(orders: &[Order], evidence: &Evidence) -> Vec<String> {
    let due = orders.iter().filter(|order| order.gets_stuck()).map(|order| order.id.clone());
    let due: BTreeSet<String> = due.collect();
    let missing = due.difference(&evidence.stuck).map(|id| format!("{id} had to stop, and didn't"));
    missing.chain(evidence.stuck.difference(&due).map(|id| format!("{id} stopped, and had no reason to"))).collect()
}
