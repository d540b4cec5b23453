//! The definitions of `examples/order-saga` are right, name what the example's participant serves, and map what they should.

use std::sync::Arc;

use serde_json::{Value, json};
use waybill_core::port::saga::DefinitionFormat;
use waybill_core::saga::definition::{Definition, DefinitionSet, Parsed, parse};
use waybill_core::saga::json::Json;
use waybill_core::step_address::StepAddress;

const ORDER: &str = include_str!("../../../../examples/order-saga/order.toml");
const LARGE_ORDER: &str = include_str!("../../../../examples/order-saga/large-order.toml");

fn read(text: &str) -> Parsed {
    let parsed = parse(text, DefinitionFormat::Toml).unwrap();
    assert_eq!(parsed.warnings, []);
    parsed
}

/// What a step of an order is called with.
fn mapped(definition: &Definition, step: usize, input: &Value, outputs: &[(&str, Value)]) -> Value {
    let outputs: Vec<(&str, Json)> = outputs.iter().map(|(name, output)| (*name, Json::of(output))).collect();
    let outputs = outputs.iter().map(|(name, output)| (*name, output));
    let mapping = definition.steps[step].input.as_ref().unwrap();
    mapping.evaluate(&Json::of(input), outputs, "o-1", "default").unwrap().value().unwrap()
}

#[test]
fn an_order_has_steps_that_its_participant_serves_and_undoes() {
    let served = ["reserve-stock", "charge-payment", "book-shipment"]
        .map(|step| (StepAddress::parse(&format!("fn:orders/{step}")).unwrap(), true));
    assert_eq!(read(ORDER).check_participants(&served), []);
}

#[test]
fn what_an_order_needs_comes_from_its_input_and_from_the_steps_before() {
    let order = read(ORDER).definition;
    let input = json!({ "sku": "tea", "count": 2, "card": "visa", "address": "Berlin", "customer": "ada" });
    let outputs = [("reserve", json!({ "hold": "hold-1", "cents": 860 })), ("ship", json!({ "tracking": "WB-1" }))];
    for (step, expected) in [
        (0, json!({ "order": "o-1", "sku": "tea", "count": 2 })),
        (1, json!({ "order": "o-1", "card": "visa", "cents": 860 })),
        (2, json!({ "order": "o-1", "address": "Berlin" })),
        (3, json!({ "order": "o-1", "customer": "ada", "tracking": "WB-1" })),
    ] {
        assert_eq!(mapped(&order, step, &input, &outputs), expected);
    }
}

#[test]
fn a_large_order_is_an_order_that_somebody_approves() {
    let (order, large) = (Arc::new(read(ORDER).definition), Arc::new(read(LARGE_ORDER).definition));
    let lookup = |name: &str, _| (name == "order").then(|| Arc::clone(&order));
    let set = DefinitionSet::resolve(large, None, lookup).unwrap();
    assert_eq!(set.pinned().len(), 1);
}
