//! Texts that callers and operators write: topics, patterns, filters, addresses, grants, keys.

use url::Url;
use waybill_core::idempotency::{EntryFilter, EntryKey};
use waybill_core::outbox::filter::Filter;
use waybill_core::port::saga::DefinitionFormat;
use waybill_core::route::Pattern;
use waybill_core::saga::definition::{self, Action};
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::json::Json;
use waybill_core::step_address::StepAddress;
use waybill_core::time::UnixMillis;
use waybill_core::topic::{Scheme, Topic};
use waybill_sandbox::grants::Pattern as Grant;
use waybill_sandbox::{PublicKey, Signature};
use waybill_server::cursor as of_callers;
use waybill_store::At;

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[
    Target::of_text("topic", topic),
    Target::of_text("route", route),
    Target::of_text("filter", filter),
    Target::of_text("definition", definition),
    Target::of_text("address", address),
    Target::of_text("grant", grant),
    Target::of_text("json", json),
    Target { name: "cursor", read: cursor, seeds: cursors },
];

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
/// A list, and another one.
const LISTS: [[&str; 3]; 2] = [["/v1/messages", "acme", ""], ["/v1/dead-letters", "acme", ""]];

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// What was accepted is accepted again as it is shown, and a URL is one for whoever delivers to it.
fn topic(bytes: &[u8]) {
    let Some(topic) = text(bytes).and_then(|text| Topic::parse(text).ok()) else { return };
    let again = Topic::parse(&topic.to_string()).expect("a topic as it is shown");
    assert_eq!(again, topic);
    if topic.scheme() == Scheme::Http {
        Url::parse(topic.subject()).expect("a URL");
    }
}

/// First line: a pattern. Second: a topic. Matching never panics, a pattern is read as it is shown, and a URL is matched by what is
/// really called, however it is written.
fn route(bytes: &[u8]) {
    let Some((pattern, topic)) = text(bytes).and_then(|text| text.split_once('\n')) else { return };
    let Ok(pattern) = Pattern::parse(pattern) else { return };
    assert_eq!(Pattern::parse(pattern.as_str()).expect("a pattern as it is shown"), pattern);
    let Ok(topic) = Topic::parse(topic) else { return };
    let matched = pattern.matches(&topic);
    if topic.scheme() == Scheme::Http
        && let Ok(called) = Url::parse(topic.subject())
        && let Ok(called) = Topic::parse(called.as_str())
    {
        assert_eq!(pattern.matches(&called), matched, "{called}");
    }
}

fn filter(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let _ = Filter::parse(text, NOW);
    let _ = SagaFilter::parse(text, NOW);
    let _ = EntryFilter::parse(text, NOW);
}

fn definition(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    for format in [DefinitionFormat::Toml, DefinitionFormat::Json] {
        if let Err(problems) = definition::parse(text, format) {
            assert!(!problems.to_string().is_empty());
        }
    }
}

fn address(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let _ = StepAddress::parse(text);
    let _ = Action::parse(text);
    if let Some(key) = EntryKey::from_cursor(text) {
        assert_eq!(EntryKey::from_cursor(&key.to_cursor()), Some(key));
    }
}

fn grant(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Ok(pattern) = Grant::parse(text) {
        let again = Grant::parse(pattern.as_str()).expect("a pattern as it is shown");
        assert_eq!(again.as_str(), pattern.as_str());
    }
    let _ = PublicKey::parse(text);
    let _ = Signature::parse(text);
}

/// Any JSON keeps its text.
fn json(bytes: &[u8]) {
    let Ok(json) = Json::parse_bytes(bytes) else { return };
    assert_eq!(Json::parse(json.as_str()).expect("JSON as it is kept"), json);
}

/// A cursor of the store is the same place again as it is written, and one of a caller the same text; any text comes back out of the
/// cursor that was made of it, in its own list only.
fn cursor(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    // As many numbers as any list has.
    for numbers in 1..=4 {
        let Ok(at) = At::from_cursor(text, numbers) else { continue };
        assert_eq!(At::from_cursor(&at.to_cursor(), numbers).expect("a cursor as it is written"), at);
        for index in 0..numbers {
            let _ = at.saga(index);
        }
    }
    let [list, other] = LISTS;
    if let Ok(inner) = of_callers::unwrap(&list, text) {
        assert_eq!(of_callers::wrap(&list, &inner), text);
    }
    let wrapped = of_callers::wrap(&list, text);
    assert_eq!(of_callers::unwrap(&list, &wrapped).as_deref(), Ok(text));
    assert!(of_callers::unwrap(&other, &wrapped).is_err(), "a cursor of another list was taken");
}

fn cursors() -> Vec<Vec<u8>> {
    // The last one is a saga's: tenant and id, with the length of the tenant before them.
    let places = ["0/order", "3.17/m-1", "3.1099511627776.4/m/1", "3.1800000000000.4/acmes-1"];
    let wrapped = places.map(|place| of_callers::wrap(&LISTS[0], place));
    places.map(str::to_owned).into_iter().chain(wrapped).map(String::into_bytes).collect()
}
