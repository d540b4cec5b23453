//! `[[stream]]` and `[relay.NAME]`, each of which there may be several of.

use waybill_core::document::{Table, Value};
use waybill_core::endpoint::{EndpointSettings, PluginRef};
use waybill_core::streams::settings::{PatternSettings, RelayPlan};
use waybill_core::streams::wire::Broker;
use waybill_core::suggest::nearest;

use super::load::{table_of, tables_of};
use super::problem::Problem;
use super::reader::{Reader, Section};
use super::sections;

/// The one key that stands beside the relays, and counts for all of them.
const FOR_ALL: &str = "max_inflight";

/// Reads `[[stream]]`, in order.
pub fn patterns<'d>(reader: &mut Reader<'d>, root: &'d Table) -> Vec<PatternSettings> {
    let mut patterns: Vec<PatternSettings> = Vec::new();
    for (index, table) in tables_of(reader, root.entry("stream"), "stream").into_iter().enumerate() {
        let section = Section::new(reader, format!("stream[{index}]"), "stream", Some(table), false);
        let Some(read) = sections::stream(section) else { continue };
        if patterns.iter().any(|earlier| earlier.pattern == read.value.pattern) {
            let problem = Problem::Duplicate {
                what: format!("a [[stream]] for {:?} is there already", read.value.pattern.as_str()),
                fix: "remove one: the first match wins, so this one would never be used".into(),
            };
            reader.problem(problem, read.origin);
        }
        patterns.push(read.value);
    }
    patterns
}

/// Reads `[relay]` and each `[relay.NAME]`.
pub fn relays<'d>(reader: &mut Reader<'d>, root: &'d Table, transports: &[EndpointSettings]) -> Vec<RelayPlan> {
    let names: Vec<&str> = match root.get("transport").map(|node| &node.value) {
        Some(Value::Table(all)) => all.entries.iter().map(|entry| entry.name.as_str()).collect(),
        _ => Vec::new(),
    };
    let transports = sections::Transports { names: &names, settings: transports };
    let table = root.entry("relay").and_then(|entry| table_of(reader, entry, "relay"));
    let in_flight = sections::for_all_relays(&mut Section::new(reader, "relay", "relay", table, true));
    let mut relays = Vec::new();
    for entry in table.iter().flat_map(|(table, _)| &table.entries).filter(|entry| entry.name != FOR_ALL) {
        let path = format!("relay.{}", entry.name);
        if !matches!(entry.node.value, Value::Table(_)) {
            let problem = Problem::UnknownKey {
                key: entry.name.clone(),
                section: "[relay]".into(),
                suggestion: nearest(&entry.name, [FOR_ALL]),
                known: format!("{FOR_ALL}, and relays as [relay.NAME]"),
            };
            let at = reader.in_file(entry.name_at);
            reader.problem(problem, at);
            continue;
        }
        let Some(table) = table_of(reader, entry, &path) else { continue };
        let section = Section::new(reader, path, "relay.NAME", Some(table), false);
        relays.extend(sections::relay(section, &entry.name, in_flight, transports));
    }
    relays
}

/// What a transport speaks, by its plugin.
pub fn broker_of(transport: &EndpointSettings) -> Broker {
    match &transport.plugin {
        PluginRef::Bundled(plugin) => Broker::of_bundled(plugin),
        PluginRef::File(_) => Broker::Other,
    }
}

/// Transports that relays name, before these are read: they get something to send without a route.
pub fn relayed(root: &Table) -> Vec<&str> {
    let Some(Value::Table(relays)) = root.get("relay").map(|node| &node.value) else { return Vec::new() };
    let named = relays.entries.iter().filter_map(|entry| match &entry.node.value {
        Value::Table(relay) => relay.get("transport").map(|node| &node.value),
        _ => None,
    });
    named
        .filter_map(|value| match value {
            Value::Text(name) => Some(name.as_str()),
            _ => None,
        })
        .collect()
}
