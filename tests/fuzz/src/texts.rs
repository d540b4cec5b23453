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

use crate::Target;

pub(crate) const TARGETS: &[Target] = &[
    Target::of_text("topic", topic),
    Target::of_text("route", route),
    Target::of_text("filter", filter),
    Target::of_text("definition", definition),
    Target::of_text("address", address),
    Target::of_text("grant", grant),
    Target::of_text("json", json),
];

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

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
