//! The demo's own checks against evidence made by hand, and the files of the example.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;

use serde_json::json;

use super::evidence::{Node, Shown as Saga, Step, check};
use super::plan::{Order, STEPS, orders};
use super::shop::{Accounts, Asked};
use super::*;

/// A request to the shop, as its log has it.
fn asked(order: &Order, step: usize, undo: bool, changed: u64) -> Asked {
    let (name, kind) = STEPS[step];
    let key = format!("{}/{name}/{}", order.id, if undo { "compensate" } else { "execute" });
    Asked { order: order.id.clone(), kind: kind.to_owned(), undo, key, changed }
}

/// What a good run leaves: every order as its words say.
fn clean(orders: &[Order]) -> Evidence {
    let before = Accounts {
        shelf: [("tea", 1_000), ("coffee", 1_000), ("cocoa", 1_000)].map(|(sku, count)| (sku.to_owned(), count)).into(),
        ..Accounts::default()
    };
    let mut evidence = Evidence { after: before.clone(), before, ..Evidence::default() };
    for order in orders {
        let (undone, end) = (order.undone(), order.fails().unwrap_or(STEPS.len()));
        let done: Vec<usize> = (0..STEPS.len()).filter(|step| *step < end || undone.contains(step)).collect();
        for step in &done {
            evidence.log.push(asked(order, *step, false, 1));
            evidence.log.push(asked(order, *step, false, 0));
        }
        evidence.log.extend(undone.iter().map(|step| asked(order, *step, true, 1)));
        let state = |step: usize| match (undone.contains(&step), done.contains(&step)) {
            (true, _) => "compensated",
            (false, true) => "succeeded",
            (false, false) if step == end => "failed",
            (false, false) => "ready",
        };
        let output = json!({ "hold": "hold-1", "cents": 430 });
        let steps = (0..STEPS.len()).map(|step| Step {
            name: STEPS[step].0.to_owned(),
            state: state(step).to_owned(),
            output: Some(output.clone()),
        });
        let saga = Saga { state: order.end().to_owned(), saga: Node { steps: steps.collect() } };
        evidence.sagas.insert(order.id.clone(), saga);
        if order.gets_stuck() {
            evidence.stuck.insert(order.id.clone());
        }
        if order.fails().is_none() {
            let sku = order.input["sku"].as_str().unwrap().rsplit(' ').next().unwrap();
            *evidence.after.shelf.get_mut(sku).unwrap() -= order.input["count"].as_i64().unwrap();
            evidence.after.cents += 430;
            evidence.after.parcels += 1;
            evidence.after.confirmed += 1;
        }
    }
    evidence
}

#[test]
fn a_clean_run_passes_and_is_counted() {
    let orders = orders(40);
    let outcome = outcome(&orders, &clean(&orders), 1, std::time::Duration::from_secs(2));
    assert!(outcome.passed(), "{outcome}");
    let text = outcome.to_string();
    assert!(text.contains("4 at reserve, 4 at charge") && !text.contains("FAILED"), "{text}");
}

/// The entry of a request in the log.
fn entry<'e>(evidence: &'e mut Evidence, order: &str, step: usize, undo: bool) -> &'e mut Asked {
    let wanted = |asked: &&mut Asked| asked.order == order && asked.kind == STEPS[step].1 && asked.undo == undo;
    evidence.log.iter_mut().find(wanted).unwrap()
}

#[test]
fn every_check_is_seen_to_fail() {
    type Change = fn(&mut Evidence);
    // Order 7 fails at the last step with three undone, 9 as well, 19 gets stuck, 0 goes through.
    let changes: [(usize, Change); 17] = [
        (0, |evidence| evidence.sagas.get_mut("order-0000").unwrap().state = "paused".into()),
        (0, |evidence| drop(evidence.sagas.remove("order-0000"))),
        (1, |evidence| evidence.after.cents += 1),
        (1, |evidence| evidence.after.parcels -= 1),
        (1, |evidence| evidence.after.confirmed += 1),
        (1, |evidence| *evidence.after.shelf.get_mut("tea").unwrap() -= 1),
        (2, |evidence| evidence.log.retain(|asked| !(asked.order == "order-0007" && asked.undo))),
        (2, |evidence| {
            // Undone in the order in which it was done.
            entry(evidence, "order-0007", 2, true).kind = STEPS[1].1.into();
            let last =
                evidence.log.iter_mut().rev().find(|asked| asked.order == "order-0007" && asked.kind == "charges");
            last.unwrap().kind = STEPS[2].1.into();
        }),
        (2, |evidence| {
            let order = orders(1).remove(0);
            evidence.log.push(asked(&order, 3, true, 1));
        }),
        (2, |evidence| entry(evidence, "order-0007", 0, false).changed = 0),
        (3, |evidence| entry(evidence, "order-0000", 0, false).changed = 2),
        (3, |evidence| {
            let again = entry(evidence, "order-0007", 1, true).clone();
            evidence.log.push(again);
        }),
        (4, |evidence| entry(evidence, "order-0000", 2, false).key = "another".into()),
        (4, |evidence| entry(evidence, "order-0003", 0, true).key = "order-0003/reserve/execute".into()),
        (5, |evidence| evidence.sagas.get_mut("order-0007").unwrap().saga.steps[1].state = "succeeded".into()),
        (6, |evidence| {
            evidence.stuck.remove("order-0019");
        }),
        (7, |evidence| evidence.log[0].order = "order-9999".into()),
    ];
    let orders = orders(20);
    for (number, (which, change)) in changes.into_iter().enumerate() {
        let mut evidence = clean(&orders);
        change(&mut evidence);
        let checks = check(&orders, &evidence);
        assert!(!checks[which].breaches.is_empty(), "change {number} isn't seen: {checks:?}");
    }
    let mut evidence = clean(&orders);
    evidence.stuck.insert("order-0000".into());
    assert_eq!(check(&orders, &evidence)[6].breaches, ["order-0000 stopped, and had no reason to"]);
}

#[test]
fn after_a_crash_a_step_that_failed_may_be_undone_too_but_only_then() {
    let orders = orders(8);
    let order = &orders[7];
    let mut evidence = clean(&orders);
    let first = evidence.log.iter().position(|asked| asked.order == order.id && asked.undo).unwrap();
    evidence.log.insert(first, asked(order, 3, true, 0));
    evidence.sagas.get_mut(&order.id).unwrap().saga.steps[3].state = "compensated".into();
    let breaches =
        |evidence: &Evidence| check(&orders, evidence).iter().map(|check| check.breaches.len()).sum::<usize>();
    assert_eq!(breaches(&evidence), 2);
    evidence.killed = true;
    assert_eq!(breaches(&evidence), 0);
    evidence.log.retain(|asked| !(asked.order == order.id && asked.undo && asked.kind == "charges"));
    assert!(breaches(&evidence) > 0, "what was done has to be undone all the same");
}

#[test]
fn some_orders_fail_at_each_step_and_some_get_stuck() {
    let orders = orders(200);
    let failing: Vec<usize> =
        (0..STEPS.len()).map(|step| orders.iter().filter(|order| order.fails() == Some(step)).count()).collect();
    assert!(failing.iter().all(|count| *count >= 10), "{failing:?}");
    let through = orders.iter().filter(|order| order.fails().is_none()).count();
    assert!((80..=120).contains(&through), "{through} go through");
    assert_eq!(orders.iter().filter(|order| order.gets_stuck()).count(), 10);
    let ids: BTreeSet<&str> = orders.iter().map(|order| order.id.as_str()).collect();
    assert_eq!(ids.len(), orders.len());
}

#[test]
fn the_example_has_the_steps_that_the_demo_knows() {
    let example = Repository::find().unwrap().root.join(EXAMPLE);
    let shop = "http://127.0.0.1:4711";
    let definition = definition(&read(&example.join("order.toml")).unwrap(), shop).unwrap();
    let steps = definition["steps"].as_array().unwrap();
    let names: Vec<&str> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, STEPS.map(|(name, _)| name));
    assert!(steps.iter().all(|step| step["compensation"].is_string()));
    assert_eq!(steps[3]["action"], json!(format!("{shop}/confirmations")));

    let text = read(&example.join("waybill.toml")).unwrap();
    let text = config(&text, Path::new("/tmp/a \"b\""), Path::new("/tmp/orders.wasm"), shop).unwrap();
    let config: toml::Table = text.parse().unwrap();
    assert_eq!(config["store"]["url"].as_str(), Some("surrealkv:///tmp/a \"b\"/data"));
    let orders = &config["participant"]["orders"];
    assert_eq!(orders["plugin"].as_str(), Some("/tmp/orders.wasm"));
    assert_eq!((orders["config"]["url"].as_str(), orders["allow"]["http"][0].as_str()), (Some(shop), Some(shop)));
}
