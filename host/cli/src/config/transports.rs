//! `[transport.NAME]` and `[[route]]` together, and what stands in their place where there are none.

use waybill_core::document::Table;
use waybill_core::endpoint::{EndpointSettings, Grants, PluginRef};
use waybill_core::port::workers::EXTERNAL;
use waybill_core::route::{Pattern, Route, Routes};
use waybill_core::suggest::nearest;

use super::load::{table_of, tables_of};
use super::plugins::Known;
use super::problem::Problem;
use super::reader::{Reader, Section};
use super::{sections, streams};

/// Transports and routes. A configuration with neither gets the bundled `http` transport, which reaches loopback only, unless
/// it asks for tokens (`is_open` is false): then others than programs of this machine may send, and what listens on loopback often
/// trusts whoever gets there.
pub fn transports_and_routes<'d>(
    reader: &mut Reader<'d>,
    root: &'d Table,
    known: &Known<'_>,
    is_open: bool,
    warnings: &mut Vec<String>,
) -> (Vec<EndpointSettings>, Routes) {
    let mut transports = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let named = root.entry("transport").and_then(|entry| table_of(reader, entry, "transport"));
    for entry in named.iter().flat_map(|(table, _)| &table.entries) {
        if entry.name == EXTERNAL {
            let problem = Problem::Duplicate {
                what: format!("the transport {EXTERNAL:?} is built in: workers claim its messages through the API"),
                fix: format!("give this one another name; a [[route]] names {EXTERNAL:?} without a section"),
            };
            let at = reader.in_file(entry.name_at);
            reader.problem(problem, at);
            continue;
        }
        names.push(&entry.name);
        let path = format!("transport.{}", entry.name);
        let Some(table) = table_of(reader, entry, &path) else { continue };
        let section = Section::new(reader, path, "transport.NAME", Some(table), false);
        transports.extend(sections::transport(section, &entry.name, known));
    }
    let mut routes: Vec<Route> = Vec::new();
    let tables = tables_of(reader, root.entry("route"), "route");
    let none = names.is_empty() && tables.is_empty();
    for (index, table) in tables.into_iter().enumerate() {
        let section = Section::new(reader, format!("route[{index}]"), "route", Some(table), false);
        let Some((route, transport_origin)) = sections::route(section) else { continue };
        if routes.iter().any(|earlier| earlier.pattern == route.value.pattern) {
            let problem = Problem::Duplicate {
                what: format!("a route for {:?} is there already", route.value.pattern.as_str()),
                fix: "remove one: the first match wins, so this one would never be used".into(),
            };
            reader.problem(problem, route.origin.clone());
        }
        if route.value.transport != EXTERNAL && !names.contains(&route.value.transport.as_str()) {
            let problem = Problem::UnknownTransport {
                pattern: route.value.pattern.as_str().to_owned(),
                suggestion: nearest(&route.value.transport, names.iter().copied().chain([EXTERNAL])),
                transport: route.value.transport.clone(),
            };
            reader.problem(problem, transport_origin);
        }
        routes.push(route.value);
    }
    if none && is_open {
        return default_http(known.bundled);
    }
    if none {
        warnings.push(NO_TRANSPORT.to_owned());
    }
    let relayed = streams::relayed(root);
    let is_named = |name: &str| relayed.contains(&name) || routes.iter().any(|route| route.transport == name);
    for name in names.iter().filter(|name| !is_named(name)) {
        warnings.push(format!("no [[route]] and no [relay.NAME] names transport {name:?}: it gets nothing to send"));
    }
    (transports, Routes(routes))
}

/// What is told where none is configured and none is implied.
const NO_TRANSPORT: &str = "no [transport.NAME] and no [[route]]: a host with tokens implies none, so every topic is refused. \
To deliver to receivers write, e.g.: [transport.http] plugin = \"http\" allow = { http = [\"https://hooks.example.com\"] } \
and [[route]] match = \"http:**\" transport = \"http\"";

fn default_http(bundled: &[&str]) -> (Vec<EndpointSettings>, Routes) {
    let Some(pattern) = Pattern::parse("http:**").ok().filter(|_| bundled.contains(&"http")) else {
        return (Vec::new(), Routes::default());
    };
    let transport = EndpointSettings {
        plugin: PluginRef::Bundled("http".into()),
        config: serde_json::Value::Object(serde_json::Map::new()),
        grants: Grants::loopback_http(),
        ..EndpointSettings::new("http")
    };
    (vec![transport], Routes(vec![Route::new(pattern, "http")]))
}
