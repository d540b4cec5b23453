//! `waybill plugin inspect`: what a plugin is, without compiling or running it.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use waybill_core::code::Code;
use waybill_core::endpoint::{LimitOverlay, LimitRow, LimitUnit, PluginLimits};
use waybill_sandbox::{Fetched, Inspection, Trust, inspect, limits_table, verify};

use super::sandbox;
use crate::exit::{CliError, Exit};
use crate::output::{self, Format, format_size, text};
use crate::term::Term;

/// Which plugin.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill plugin inspect nats\n  waybill plugin inspect target/ledger.wasm -o json")]
pub struct Inspect {
    /// A bundled plugin's name, or the path of a .wasm
    pub plugin: String,
}

pub fn run(args: &Inspect, format: Format, term: &mut Term) -> Result<(), CliError> {
    let (fetched, inspection) = find(&args.plugin)?;
    let mut item = described(&inspection);
    // Nobody is trusted here: who signed it is told by `plugin verify`, whether this host trusts them by `plugin check`.
    let signature =
        verify(&fetched, &Trust::default(), None).map_or_else(|error| error.to_string(), |state| state.words());
    if let Value::Object(members) = &mut item {
        members.insert("signature".to_owned(), json!(signature));
        members.insert("language".to_owned(), json!(language(fetched.bytes())));
    }
    let digest = inspection.digest.clone();
    output::one(term, format, &format!("{item:#}"), &digest, rows(&item, &inspection))
}

/// What it was written in, as far as that can be told from what is inside.
fn language(component: &[u8]) -> Option<&'static str> {
    let holds = |mark: &str| component.windows(mark.len()).any(|window| window == mark.as_bytes());
    let marks = [
        ("libpython", "Python"),
        ("componentize-qjs", "JavaScript"),
        ("StarlingMonkey", "JavaScript"),
        ("wit-bindgen-rust", "Rust"),
    ];
    marks.into_iter().find_map(|(mark, language)| holds(mark).then_some(language))
}

/// A bundled plugin by its name, or a file by its path, with the signature beside it.
pub(super) fn find(plugin: &str) -> Result<(Fetched, Inspection), CliError> {
    let fetched = match waybill_bundled::find(plugin) {
        Some(bundled) => Fetched::bundled(bundled.component),
        None => match std::fs::metadata(plugin) {
            Ok(_) => Fetched::read(plugin.as_ref()).map_err(|error| sandbox::failed(&error))?,
            Err(cause) => return Err(missing(plugin, &cause)),
        },
    };
    let inspection = read(fetched.bytes(), plugin)?;
    Ok((fetched, inspection))
}

fn missing(plugin: &str, cause: &std::io::Error) -> CliError {
    let names: Vec<&str> = waybill_bundled::all().iter().map(|bundled| bundled.name).collect();
    CliError::Host {
        code: Code::CONFIG_PLUGIN_MISSING,
        what: format!(
            "{plugin:?} is neither bundled nor a readable file ({cause})\n  fix name a bundled plugin ({}) or the path of a .wasm",
            names.join(", ")
        ),
        exit: Exit::NotFound,
    }
}

/// Reads what a component says of itself.
pub fn read(bytes: &[u8], name: &str) -> Result<Inspection, CliError> {
    inspect(bytes).map_err(|error| CliError::Host {
        code: error.code(),
        what: format!("{name}: {error}"),
        exit: Exit::Failed,
    })
}

/// All of it as JSON.
pub fn described(inspection: &Inspection) -> Value {
    let manifest = &inspection.manifest;
    let ask = &manifest.ask;
    let patterns =
        |list: &[waybill_sandbox::grants::Pattern]| -> Vec<String> { list.iter().map(ToString::to_string).collect() };
    json!({
        "name": manifest.name,
        "version": manifest.version,
        "world": manifest.world.as_str(),
        "contract": manifest.contract,
        "description": manifest.description,
        "digest": inspection.digest,
        "bytes": inspection.bytes,
        "asks": {
            "net": patterns(&ask.net),
            "http": patterns(&ask.http),
            "secrets": ask.secrets,
            "kv": ask.kv,
            "memory": ask.limits.memory_bytes,
            "call_time_ms": ask.limits.call_time.map(millis),
            "cpu_per_call_ms": ask.limits.cpu_per_call.map(millis),
            "connections": ask.limits.connections,
            "instances": ask.instances,
            "required": ask.required.iter().map(ToString::to_string).collect::<Vec<_>>(),
        },
        "limits": limits(inspection).iter().map(|limit| json!({
            "name": limit.name,
            "value": limit.value,
            "unit": limit.unit.as_str(),
            "setting": limit.setting,
            "counted": limit.counted,
            "what": limit.what,
        })).collect::<Vec<_>>(),
        "config_schema": manifest.config_schema,
        "imports": inspection.imports,
        "exports": inspection.exports,
    })
}

/// Whole milliseconds; what doesn't fit isn't a time that a manifest takes.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The bounds it gets with what it asks for and no grant of the operator.
fn limits(inspection: &Inspection) -> Vec<LimitRow> {
    limits_table(&PluginLimits::default().tighten(&inspection.manifest.ask.limits, &LimitOverlay::default()))
}

/// One line of the table of bounds.
fn limit_line(limit: &LimitRow) -> String {
    let value = match limit.unit {
        LimitUnit::Bytes => format_size(limit.value),
        LimitUnit::Milliseconds => humantime::format_duration(Duration::from_millis(limit.value)).to_string(),
        LimitUnit::Count => limit.value.to_string(),
        LimitUnit::PerSecond => format!("{}/s", limit.value),
    };
    let setting = limit.setting.map(|key| format!(" [{key}]")).unwrap_or_default();
    format!("{} {value}: {}{setting}", limit.name, limit.what)
}

fn rows(item: &Value, inspection: &Inspection) -> Vec<(String, String)> {
    let manifest = &inspection.manifest;
    let mut rows: Vec<(String, String)> =
        ["name", "version", "world", "contract", "description", "language", "digest", "signature"]
            .map(|name| (name.to_owned(), text(item, name)))
            .into();
    rows.push(("size".into(), format_size(inspection.bytes as u64)));
    let mut asks = Vec::new();
    for (name, patterns) in [("net", &manifest.ask.net), ("http", &manifest.ask.http)] {
        asks.extend(patterns.iter().map(|pattern| format!("{name} {pattern}")));
    }
    asks.extend(manifest.ask.secrets.iter().map(|name| format!("secret {name}")));
    if manifest.ask.kv {
        asks.push("durable state (kv)".into());
    }
    if let Some(memory) = manifest.ask.limits.memory_bytes {
        asks.push(format!("memory {}", format_size(memory as u64)));
    }
    for (name, time) in
        [("call time", manifest.ask.limits.call_time), ("CPU per call", manifest.ask.limits.cpu_per_call)]
    {
        asks.extend(time.map(|time| format!("{name} {}", humantime::format_duration(time))));
    }
    asks.extend(manifest.ask.limits.connections.map(|number| format!("connections {number}")));
    asks.extend(manifest.ask.instances.map(|number| format!("at most {number} instances")));
    rows.push(("asks for".into(), if asks.is_empty() { "nothing".into() } else { asks.join("\n") }));
    if !manifest.ask.required.is_empty() {
        let needs: Vec<String> = manifest.ask.required.iter().map(ToString::to_string).collect();
        rows.push(("required".into(), needs.join("\n")));
    }
    rows.push(("configuration".into(), config_keys(manifest.config_schema.as_ref())));
    let bounds: Vec<String> = limits(inspection).iter().map(limit_line).collect();
    rows.push(("limits".into(), bounds.join("\n")));
    rows.push(("imports".into(), inspection.imports.join("\n")));
    rows.push(("exports".into(), inspection.exports.join("\n")));
    rows
}

/// The keys of a schema with their descriptions.
fn config_keys(schema: Option<&Value>) -> String {
    let Some(Value::Object(keys)) = schema.and_then(|schema| schema.get("properties")) else {
        return "takes none".into();
    };
    let lines: Vec<String> = keys
        .iter()
        .map(|(name, key)| {
            let default = key.get("default").map(|value| format!(" (default {value})")).unwrap_or_default();
            let description = key.get("description").and_then(Value::as_str).unwrap_or_default();
            format!("{name}{default} {description}").trim_end().to_owned()
        })
        .collect();
    if lines.is_empty() { "takes none".into() } else { lines.join("\n") }
}
