//! Reading definitions.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use super::problem::Severity;
use super::{Action, Definition, DefinitionSet, parse};
use crate::port::saga::DefinitionFormat::{Json, Toml};
use crate::saga::json::Json as JsonText;

const ORDER: &str = r#"
name = "order"
version = 2
deadline_ms = 60000

[[steps]]
name = "reserve"
action = "fn:shop/reserve"
compensation = "fn:shop/release"
input = { sku = "${ input.sku }", note = "for ${ saga.id }", n = 3 }

[[steps]]
name = "charge"
action = "https://pay.example/charge"
compensation = "https://pay.example/refund"
idempotent = false
timeout_ms = 5000
retry = { max_attempts = 3, base_ms = 10 }
concurrency_tag = "both"
input = { amount = "${ steps.reserve.output.price * 2 }" }

[[steps]]
name = "mail"
action = "bus:mail.send"
concurrency_tag = "both"

[[steps]]
name = "ok"
action = "wait:approval"
"#;

fn errors(text: &str) -> Vec<super::problem::Problem> {
    parse(text, Toml).unwrap_err().0
}

#[test]
fn a_definition_says_the_same_in_toml_and_in_json() {
    let toml = parse(ORDER, Toml).unwrap();
    assert!(toml.warnings.is_empty());
    let json = parse(toml.definition.canonical.as_str(), Json).unwrap();
    assert_eq!(json.definition, toml.definition);
    assert_eq!(Definition::restore(&toml.definition.canonical).unwrap().hash, toml.definition.hash);
    assert_eq!(toml.definition.groups, [0..1, 1..3, 3..4]);
    let charge = &toml.definition.steps[1];
    assert_eq!((charge.timeout, charge.retry.max_attempts), (Some(Duration::from_secs(5)), Some(3)));
    assert_eq!((charge.retry.base_ms, charge.retry.cap_ms), (Some(10), None));
    assert!(!charge.idempotent && toml.definition.steps[0].idempotent);
}

#[test]
fn the_stored_form_holds_of_retries_what_was_said_and_no_default() {
    let canonical = |retry: &str| {
        let text = format!("name = \"a\"\n[[steps]]\nname = \"x\"\naction = \"fn:x\"\n{retry}");
        parse(&text, Toml).unwrap().definition.canonical.as_str().to_owned()
    };
    assert!(!canonical("").contains("retry"));
    assert_eq!(canonical("retry = {}"), canonical(""));
    let said = canonical("retry = { jitter = 0.0, max_attempts = 4, policy = \"calm\" }");
    assert!(said.contains(r#""retry":{"jitter":0.0,"max_attempts":4,"policy":"calm"}"#), "{said}");
    let wrong = "name = \"a\"\n[[steps]]\nname = \"x\"\naction = \"fn:x\"\nretry = { base_ms = 20, cap_ms = 10 }\n";
    assert!(errors(wrong)[0].what.contains("below base_ms"));
}

#[test]
fn aliases_of_the_sources_are_taken() {
    let text =
        "def_name = \"a\"\nttl_ms = 5\n[[steps]]\nname = \"x\"\naction_uri = \"fn:x\"\ncompensate_uri = \"fn:y\"\n";
    let definition = parse(text, Toml).unwrap().definition;
    assert_eq!(definition.deadline, Some(Duration::from_millis(5)));
    assert_eq!(definition.steps[0].compensation.as_ref().unwrap().to_string(), "fn:y");
}

#[test]
fn everything_wrong_is_told_at_once_with_line_column_and_a_suggestion() {
    let text = "name = \"a b\"\nversoin = 1\n[[steps]]\nname = \"x\"\nacton = \"fn:x\"\ntimeout_ms = 0\n";
    let found = errors(text);
    let told: Vec<(usize, &str)> = found.iter().map(|problem| (problem.at.line, problem.path.as_str())).collect();
    for expected in [(1, "name"), (2, "versoin"), (5, "steps[0].acton"), (6, "steps[0].timeout_ms")] {
        assert!(told.contains(&expected), "{expected:?} in {told:?}");
    }
    assert!(found.iter().any(|problem| problem.fix.contains("\"action\"")), "{found:?}");
    assert!(found.iter().any(|problem| problem.fix.contains("\"version\"")), "{found:?}");
}

#[test]
fn positions_are_known_in_json_too() {
    let text = "{\n  \"name\": \"a\",\n  \"steps\": [\n    {\"name\": \"x\", \"action\": \"fn:x\",\n     \"tiemout_ms\": 5}\n  ]\n}";
    let found = parse(text, Json).unwrap_err().0;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].at.line, found[0].at.column), (5, 7));
    assert_eq!(parse("{\n \"name\": }", Json).unwrap_err().0[0].at.line, 2);
    assert_eq!(parse("name = \n", Toml).unwrap_err().0[0].at.line, 1);
}

fn two(first: &str, second: &str) -> String {
    format!("name = \"a\"\n[[steps]]\nname = \"one\"\n{first}\n[[steps]]\nname = \"two\"\n{second}\n")
}

#[test]
fn mappings_may_only_read_what_is_done_before() {
    for (first, second, what) in [
        ("action = \"fn:x\"\ninput = \"${ steps.two.output }\"", "action = \"fn:x\"", "comes later"),
        ("action = \"fn:x\"", "action = \"fn:x\"\ninput = \"${ steps.oen.output }\"", "which there isn't"),
        ("action = \"fn:x\"", "action = \"fn:x\"\ninput = \"${ steps.two.output }\"", "its own output"),
        (
            "action = \"fn:x\"\nconcurrency_tag = \"t\"",
            "action = \"fn:x\"\nconcurrency_tag = \"t\"\ninput = \"${ steps['one'].output }\"",
            "at the same time",
        ),
        ("action = \"fn:x\"", "action = \"fn:x\"\ninput = \"${ inptu.x }\"", "isn't known"),
        ("action = \"fn:x\"", "action = \"fn:x\"\ninput = \"${ input.x\"", "isn't closed"),
        ("action = \"fn:x\"", "action = \"fn:x\"\ninput = \"${ input. }\"", "expression"),
        ("action = \"fn:x\"", "action = \"fn:x\"\ninput = \"${ input.a.map(x, input.b.map(y, x)) }\"", "within"),
    ] {
        let found = errors(&two(first, second));
        assert!(found.iter().any(|problem| problem.what.contains(what)), "{what}: {found:?}");
    }
}

#[test]
fn the_graph_is_checked() {
    let apart = "name = \"a\"\n[[steps]]\nname = \"one\"\naction = \"fn:x\"\nconcurrency_tag = \"t\"\n[[steps]]\nname = \"two\"\naction = \"fn:x\"\n[[steps]]\nname = \"one\"\naction = \"fn:x\"\nconcurrency_tag = \"t\"\n";
    let found = errors(apart);
    assert!(found.iter().any(|problem| problem.what.contains("stand together")), "{found:?}");
    assert!(found.iter().any(|problem| problem.what.contains("is named \"one\"")), "{found:?}");
    let risky = parse(&two("action = \"fn:x\"\nidempotent = false", "action = \"fn:x\""), Toml).unwrap();
    assert_eq!(risky.warnings[0].severity, Severity::Warning);
    assert_eq!(risky.warnings.len(), 1);
    assert!(errors("name = \"a\"\nsteps = []\n")[0].what.contains("1 to 64"));
}

#[test]
fn sub_sagas_must_exist_and_not_go_round_in_a_circle() {
    let define = |text: &str| Arc::new(parse(text, Toml).unwrap().definition);
    let a = define("name = \"a\"\n[[steps]]\nname = \"x\"\naction = \"saga:b\"\n");
    let b = define("name = \"b\"\n[[steps]]\nname = \"x\"\naction = \"saga:c@1\"\n");
    let c = define("name = \"c\"\n[[steps]]\nname = \"x\"\naction = \"fn:x\"\n");
    let round = define("name = \"c\"\n[[steps]]\nname = \"x\"\naction = \"saga:a\"\n");
    let lookup = |c: Arc<Definition>| {
        let (a, b) = (Arc::clone(&a), Arc::clone(&b));
        move |name: &str, _: Option<u32>| match name {
            "a" => Some(Arc::clone(&a)),
            "b" => Some(Arc::clone(&b)),
            "c" => Some(Arc::clone(&c)),
            _ => None,
        }
    };
    let set = DefinitionSet::resolve(Arc::clone(&a), None, lookup(Arc::clone(&c))).unwrap();
    assert_eq!(set.resolve_uri("saga:c@1").unwrap().hash, c.hash);
    let found = DefinitionSet::resolve(Arc::clone(&a), None, lookup(round)).unwrap_err();
    assert!(found.to_string().contains("a -> b -> c -> a"), "{found}");
    let found = DefinitionSet::resolve(Arc::clone(&a), None, |_, _| None).unwrap_err();
    assert!(found.to_string().contains("isn't there"));
}

/// A definition whose steps each begin the same sub-saga, if there is one.
fn level(name: &str, steps: usize, below: Option<&str>) -> Arc<Definition> {
    let action = below.map_or_else(|| "fn:x".to_owned(), |below| format!("saga:{below}"));
    let steps: String = (0..steps).map(|n| format!("[[steps]]\nname = \"s{n}\"\naction = \"{action}\"\n")).collect();
    Arc::new(parse(&format!("name = \"{name}\"\n{steps}"), Toml).unwrap().definition)
}

/// `levels` of such definitions, the root first.
fn levels(levels: usize, steps: usize) -> Result<DefinitionSet, super::problem::Problems> {
    let below = |n: usize| (n + 1 < levels).then(|| format!("l{}", n + 1));
    let all: Vec<_> = (0..levels).map(|n| level(&format!("l{n}"), steps, below(n).as_deref())).collect();
    let lookup = |name: &str, _: Option<u32>| all.iter().find(|known| *known.name == *name).cloned();
    DefinitionSet::resolve(Arc::clone(&all[0]), None, lookup)
}

#[test]
fn a_tree_of_too_many_sagas_is_refused_without_walking_through_it() {
    assert_eq!(levels(8, 1).unwrap().pinned().len(), 7);
    assert_eq!(levels(3, 15).unwrap().pinned().len(), 2);
    let found = levels(8, 64).unwrap_err();
    assert_eq!(found.0.len(), 1, "{found}");
    assert!(found.to_string().contains("4467856773185 sagas, at most 256 are"), "{found}");
    assert!(levels(3, 16).unwrap_err().to_string().contains("273 sagas"));
    assert!(levels(9, 1).unwrap_err().to_string().contains("deeper than 8"));
}

#[test]
fn a_definition_that_is_known_already_still_counts_for_depth_and_circles() {
    let define = |text: &str| Arc::new(parse(text, Toml).unwrap().definition);
    let begins = |name: &str, first: &str, then: &str| {
        define(&format!(
            "name = \"{name}\"\n[[steps]]\nname = \"x\"\naction = \"{first}\"\n[[steps]]\nname = \"y\"\naction = \"{then}\"\n"
        ))
    };
    // `d` is followed first below the root, where nothing is wrong with it, and then below another version of `x`.
    let (root, d) = (begins("r", "saga:d", "saga:x@2"), begins("d", "saga:x@1", "fn:x"));
    let (old, new) = (begins("x", "fn:x", "fn:x"), begins("x", "saga:d", "fn:x"));
    let lookup = |name: &str, version: Option<u32>| match (name, version) {
        ("d", _) => Some(Arc::clone(&d)),
        ("x", Some(1)) => Some(Arc::clone(&old)),
        ("x", _) => Some(Arc::clone(&new)),
        _ => None,
    };
    let found = DefinitionSet::resolve(root, None, lookup).unwrap_err();
    assert!(found.to_string().contains("r -> x -> d -> .. -> x"), "{found}");

    let all: Vec<_> =
        (0..8).map(|n| level(&format!("l{n}"), 1, (n < 7).then(|| format!("l{}", n + 1)).as_deref())).collect();
    let top = begins("top", "saga:l1", "saga:l0");
    let lookup = |name: &str, _: Option<u32>| all.iter().find(|known| *known.name == *name).cloned();
    let found = DefinitionSet::resolve(top, None, lookup).unwrap_err();
    assert!(found.to_string().contains("deeper than 8"), "{found}");
}

fn mapped(mapping: &str, input: &str, output: &str) -> Result<String, String> {
    let text = two("action = \"fn:x\"", &format!("action = \"fn:x\"\ninput = {mapping}"));
    let definition = parse(&text, Toml).unwrap().definition;
    let (input, output) = (JsonText::parse(input).unwrap(), JsonText::parse(output).unwrap());
    let mapping = definition.steps[1].input.as_ref().unwrap();
    mapping.evaluate(&input, [("one", &output)].into_iter(), "s-1", "acme").map(|json| json.as_str().to_owned())
}

#[test]
fn a_mapping_makes_values_and_texts() {
    let made = mapped(
        r#"{ a = "${ input.n + 1 }", b = "no ${ input.n } of ${ saga.tenant }", c = ["${ steps.one.output.list.filter(x, x > 1) }"], d = true, e = "${ {'k': input.s} }" }"#,
        r#"{"n": 41, "s": "}"}"#,
        r#"{"list": [1, 2, 3]}"#,
    );
    assert_eq!(made.unwrap(), r#"{"a":42,"b":"no 41 of acme","c":[[2,3]],"d":true,"e":{"k":"}"}}"#);
    assert_eq!(mapped("\"${ input }\"", "[1.5,null]", "1").unwrap(), "[1.5,null]");
}

#[test]
fn a_mapping_that_fails_says_which_expression_and_bounds_hold() {
    let error = mapped("\"${ input.missing.x }\"", "{}", "1").unwrap_err();
    assert!(error.contains("input.missing.x"), "{error}");
    let large = format!("[{}]", vec!["\"0123456789\""; 20_000].join(","));
    let error = mapped("\"${ input.map(x, 1) }\"", &large, "1").unwrap_err();
    assert!(error.contains("at most 10000"), "{error}");
    let large = format!("\"{}\"", "x".repeat(1_500_000));
    let error = mapped("[\"${ input }\", \"${ input }\", \"${ input }\"]", &large, "1").unwrap_err();
    assert!(error.contains("makes more than"), "{error}");
}

#[test]
fn an_expression_that_would_make_too_much_is_refused_before_it_is_worked_out() {
    let ones = vec!["1"; 1_900].join(",");
    let input = format!("{{\"a\":[{ones}],\"s\":\"{}\"}}", "x".repeat(200_000));
    let twice = "input.s + ".repeat(80);
    for expression in [
        "input.a.map(x, input.s + input.s + input.s + input.s)",
        "input.a.map(x, input)",
        "input.a.map(x, {'k': [input.s]})",
        "input.a.filter(x, input.s + 'a' == input.s)",
        "input.a.all(x, string(input.s) != '')",
        "input.a.map(x, [x]).map(y, input.s)",
        "(input.a + input.a).exists(x, size(input.s + input.s) == x)",
        &format!("{twice}'end'"),
    ] {
        let error = mapped(&format!("\"${{ {expression} }}\""), &input, "1").unwrap_err();
        assert!(error.contains("could make more than 16777216 bytes"), "{expression}: {error}");
    }
    let busy = format!("\"${{ input.a.all(x, {}x == 1) }}\"", "x == 1 && ".repeat(90));
    let error = mapped(&format!("[{}]", vec![busy; 20].join(",")), &input, "1").unwrap_err();
    assert!(error.contains("more than"), "{error}");
    let several = vec!["\"${ input.s + input.s }\""; 60].join(",");
    let error = mapped(&format!("[{several}]"), &input, "1").unwrap_err();
    assert!(error.contains("more than"), "{error}");
}

#[test]
fn ordinary_mappings_over_a_thousand_items_are_taken() {
    let item = |n: usize| {
        format!(
            r#"{{"sku":"sku-{n}","count":{n},"price":{{"net":{n},"vat":1.19}},"text":"{}","tags":["a"]}}"#,
            "t".repeat(100)
        )
    };
    let items: Vec<String> = (0..1_000).map(item).collect();
    let prices: Vec<String> = (0..300).map(|n| format!("\"sku-{n}\":{n}")).collect();
    let input = format!(r#"{{"items":[{}],"prices":{{{}}},"id":"o"}}"#, items.join(","), prices.join(","));
    for expression in [
        "input.items",
        "input.items.map(x, x.sku)",
        "input.items.map(x, {'a': x.sku, 'b': x.count, 'c': x.price.net, 'd': x.text, 'e': x['tags'], 'f': input.id})",
        "input.items.map(x, x.sku + '-' + input.id + '-' + string(x.count))",
        "input.items.filter(x, x.count > 3 && x.sku != input.id).map(x, {'sku': x.sku, 'text': x.text})",
        "input.items.filter(x, x.sku in input.prices).map(x, {'sku': x.sku, 'price': input.prices[x.sku]})",
        "input.items.map(x, has(x.note) ? x.note : x.text)",
        "input.items.all(x, x.count * 2 + 1 - x.count > 0)",
        "input.items.exists_one(x, x.sku == 'sku-7')",
        "input.prices.map(name, name + '!')",
        "size(input.items) + input.items[0].count",
    ] {
        let made = mapped(&format!("\"${{ {expression} }}\""), &input, "1");
        assert!(made.is_ok(), "{expression}: {made:?}");
    }
}

#[test]
fn what_cannot_be_read_fails_the_mapping_and_is_not_null() {
    let text = two("action = \"fn:x\"", "action = \"fn:x\"\ninput = \"${ steps.one.output }\"");
    let definition = parse(&text, Toml).unwrap().definition;
    let mapping = definition.steps[1].input.as_ref().unwrap();
    let (good, bad) = (JsonText::null(), JsonText::stored("[1e999]").unwrap());
    let evaluate = |input: &JsonText, output: &JsonText| {
        mapping.evaluate(input, [("one", output)].into_iter(), "s-1", "acme").unwrap_err()
    };
    assert!(evaluate(&bad, &good).contains("input can't be read"));
    assert!(evaluate(&good, &bad).contains("\"one\" can't be read: number out of range"));
}

#[test]
fn steps_that_nobody_serves_are_a_warning() {
    let parsed = parse(ORDER, Toml).unwrap();
    let address = |text: &str| crate::step_address::StepAddress::parse(text).unwrap();
    let served = [(address("fn:shop/reserve"), true), (address("fn:shop/relese"), true)];
    let found = parsed.check_participants(&served);
    assert_eq!(found.len(), 1);
    assert!(found[0].fix.contains("fn:shop/relese"));
    assert!(matches!(parsed.definition.steps[0].action, Action::Fn(_)));
}
