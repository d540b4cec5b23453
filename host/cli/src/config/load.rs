//! Finding the file, laying environment and flags over it, and checking the whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use directories::ProjectDirs;
use waybill_core::port::workers::EXTERNAL;
use waybill_core::route::{Pattern, Route, Routes};
use waybill_sandbox::SlotPolicy;

use super::document::{self, Entry, Table, Value};
use super::later;
use super::model::{AuthToken, Config, ParticipantSettings, PluginSource, TenantSettings, TransportSettings};
use super::plugins::Known;
use super::problem::{ConfigError, Origin, Position, Problem, nearest};
use super::reader::{Flag, KeyInfo, Reader, Section};
use super::{sections, tokens};

/// Name of the file looked for.
pub const FILE_NAME: &str = "waybill.toml";

/// Sections with fixed names.
const FIXED: &[&str] =
    &["store", "server", "outbox", "dead", "idempotency", "inbox", "saga", "plugins", "auth", "limits", "log"];
/// Another name of a section: source document 1 has `[tx.idempo]`.
const ALSO: (&str, &str) = ("idempo", "idempotency");
/// Sections with names of their own.
const NAMED: &[&str] = &["transport", "participant", "route", "tenant"];

/// What a configuration is made of.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// File; none = defaults, environment and flags only.
    pub file: Option<PathBuf>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// Flags that set settings.
    pub flags: Vec<Flag>,
    /// Folder for data that nothing else names a place for.
    pub data: Option<PathBuf>,
    /// Folder for compiled plugins when nothing else names one.
    pub cache: Option<PathBuf>,
    /// Names of the bundled plugins.
    pub bundled: Vec<&'static str>,
}

/// The platform's data folder for Waybill, e.g. `~/.local/share/waybill`.
pub fn data_folder() -> Option<PathBuf> {
    ProjectDirs::from("", "", "waybill").map(|dirs| dirs.data_dir().to_owned())
}

/// The platform's cache folder for Waybill's compiled plugins.
pub fn cache_folder() -> Option<PathBuf> {
    ProjectDirs::from("", "", "waybill").map(|dirs| dirs.cache_dir().join("plugins"))
}

/// The file in effect: the one named, `waybill.toml` in the current folder, or in the platform's configuration folder.
pub fn find_file(named: Option<&Path>) -> Option<PathBuf> {
    let beside_me = || Some(PathBuf::from(FILE_NAME)).filter(|path| path.exists());
    let of_platform = || {
        ProjectDirs::from("", "", "waybill").map(|dirs| dirs.config_dir().join(FILE_NAME)).filter(|path| path.exists())
    };
    named.map(Path::to_owned).or_else(beside_me).or_else(of_platform)
}

/// Reads and checks a configuration.
pub fn load(inputs: &Inputs) -> Result<Config, ConfigError> {
    let text = match &inputs.file {
        Some(path) => std::fs::read_to_string(path).map_err(|error| {
            let origin = Origin::File { path: path.clone(), at: None };
            ConfigError::one(Problem::File { cause: error.to_string() }, origin)
        })?,
        None => String::new(),
    };
    read(&text, inputs)
}

/// Every key there is: what a file that uses each section leads to.
pub fn catalogue() -> Vec<KeyInfo> {
    let sample = "[store]\nurl = \"mem://\"\n[transport.sample]\nplugin = \"sample\"\n[[route]]\nmatch = \"bus:**\"\n\
                  transport = \"sample\"\n[participant.sample]\nplugin = \"sample\"\n[[tenant]]\nname = \"sample\"\n[[auth.token]]\nname = \"sample\"\nsha256 = \
                  \"0000000000000000000000000000000000000000000000000000000000000000\"\n";
    let inputs = Inputs { bundled: vec!["sample"], ..Inputs::default() };
    read(sample, &inputs).map(|config| config.keys).unwrap_or_default()
}

fn read(text: &str, inputs: &Inputs) -> Result<Config, ConfigError> {
    let file = inputs.file.clone().unwrap_or_else(|| FILE_NAME.into());
    let root = document::parse(text).map_err(|error| {
        let origin = Origin::File { path: file.clone(), at: Some(error.at) };
        let problem = if error.duplicate {
            Problem::Duplicate {
                what: format!("{:?} is there twice", error.message),
                fix: "rename or remove one of the two".into(),
            }
        } else {
            Problem::Syntax { message: error.message }
        };
        ConfigError::one(problem, origin)
    })?;
    let mut reader = Reader::new(&file, &inputs.env, &inputs.flags);
    check_sections(&mut reader, &root);
    let mut warnings = Vec::new();
    let store = sections::store(fixed(&mut reader, &root, "store"), &file, inputs.data.as_deref());
    let (server, listen_origin) = sections::server(fixed(&mut reader, &root, "server"));
    let plugins = sections::plugin_settings(fixed(&mut reader, &root, "plugins"), &file, inputs.cache.clone());
    let known = Known { bundled: &inputs.bundled, folder: plugins.folder.as_deref() };
    let outbox = sections::outbox(fixed(&mut reader, &root, "outbox"), &known);
    let dead = sections::dead(fixed(&mut reader, &root, "dead"));
    let saga = sections::saga(fixed(&mut reader, &root, "saga"), &file, LOOPBACK, &mut warnings);
    let idempotency = sections::idempotency(fixed(&mut reader, &root, "idempotency"));
    let inbox = sections::inbox(fixed(&mut reader, &root, "inbox"));
    sections::check_dedup_window(&mut reader, &inbox, &dead);
    let (transports, routes) = transports_and_routes(&mut reader, &root, &known, &mut warnings);
    let participants = participants(&mut reader, &root, &known);
    let tenants = tenants(&mut reader, &root);
    let tokens = auth(&mut reader, &root, &file);
    let limits = sections::limits(fixed(&mut reader, &root, "limits"));
    let log = sections::log(fixed(&mut reader, &root, "log"));
    reader.unknown_env(FIXED);
    if !server.listen.ip().is_loopback() && tokens.is_empty() {
        reader.problem(Problem::OpenListen { listen: server.listen.to_string() }, listen_origin);
    }
    let store = match (store, reader.problems.is_empty()) {
        (Some(store), true) => store,
        _ => return Err(ConfigError(std::mem::take(&mut reader.problems))),
    };
    let Reader { shown, keys, .. } = reader;
    Ok(Config {
        file: inputs.file.clone(),
        store,
        server,
        outbox,
        dead,
        saga,
        idempotency,
        inbox,
        plugins,
        transports,
        participants,
        routes,
        tenants,
        tokens,
        limits,
        log,
        shown,
        keys,
        warnings,
    })
}

/// Top level names that are no sections of ours.
fn check_sections(reader: &mut Reader<'_>, root: &Table) {
    let known: Vec<&str> = FIXED.iter().chain(NAMED).copied().collect();
    let mut judge = |entry: &Entry, prefix: &str, known: &[&str]| {
        let name = format!("{prefix}{}", entry.name);
        let name_of = if entry.name == ALSO.0 { ALSO.1 } else { entry.name.as_str() };
        if known.contains(&name_of) {
            return;
        }
        let problem = match later::part_of(&entry.name) {
            Some(part) => Problem::NotBuilt { section: name, part },
            None => Problem::UnknownSection {
                section: name,
                suggestion: nearest(&entry.name, known.iter().copied()),
                known: known.join(", "),
            },
        };
        let at = reader.in_file(entry.name_at);
        reader.problem(problem, at);
    };
    for entry in &root.entries {
        match (entry.name.as_str(), &entry.node.value) {
            // Source document 1 keeps its settings under `tx`.
            ("tx", Value::Table(tx)) => {
                tx.entries.iter().for_each(|entry| judge(entry, "tx.", &["outbox", "saga", "idempotency"]))
            }
            _ => judge(entry, "", &known),
        }
    }
}

/// A section with a fixed name; `[tx.outbox]` is another name of `[outbox]`, `[tx.saga]` of `[saga]`.
fn fixed<'r, 'd>(reader: &'r mut Reader<'d>, root: &'d Table, name: &'static str) -> Section<'r, 'd> {
    let find = |table: &'d Table| {
        let other = || table.entry(ALSO.0).filter(|_| name == ALSO.1);
        table.entry(name).or_else(other)
    };
    let direct = find(root);
    let nested = match root.get("tx").map(|node| &node.value) {
        Some(Value::Table(tx)) => find(tx),
        _ => None,
    };
    if let (Some(_), Some(second)) = (direct, nested) {
        let problem = Problem::Duplicate {
            what: format!("[{name}] and [tx.{}] are the same section", second.name),
            fix: format!("keep [{name}]"),
        };
        let at = reader.in_file(second.name_at);
        reader.problem(problem, at);
    }
    let table = direct.or(nested).and_then(|entry| table_of(reader, entry, name));
    Section::new(reader, name, name, table, true)
}

fn table_of<'d>(reader: &mut Reader<'_>, entry: &'d Entry, path: &str) -> Option<(&'d Table, Position)> {
    if let Value::Table(table) = &entry.node.value {
        return Some((table, entry.name_at));
    }
    let problem = Problem::WrongType {
        key: path.to_owned(),
        expected: format!("a table, [{path}]"),
        found: entry.node.value.kind(),
    };
    let at = reader.in_file(entry.name_at);
    reader.problem(problem, at);
    None
}

/// The tables of an array such as `[[route]]`.
fn tables_of<'d>(reader: &mut Reader<'_>, entry: Option<&'d Entry>, path: &str) -> Vec<(&'d Table, Position)> {
    let Some(entry) = entry else { return Vec::new() };
    let mut wrong = |found: &Value, at: Position| {
        let problem =
            Problem::WrongType { key: path.to_owned(), expected: format!("tables, [[{path}]]"), found: found.kind() };
        let at = reader.in_file(at);
        reader.problem(problem, at);
    };
    let Value::List(items) = &entry.node.value else {
        wrong(&entry.node.value, entry.name_at);
        return Vec::new();
    };
    let mut tables = Vec::new();
    for item in items {
        match &item.value {
            Value::Table(table) => tables.push((table, item.at)),
            other => wrong(other, item.at),
        }
    }
    tables
}

/// Transports and routes. A configuration with neither gets the bundled `http` transport, which reaches loopback only.
fn transports_and_routes<'d>(
    reader: &mut Reader<'d>,
    root: &'d Table,
    known: &Known<'_>,
    warnings: &mut Vec<String>,
) -> (Vec<TransportSettings>, Routes) {
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
    if none {
        return default_http(known.bundled);
    }
    for name in names.iter().filter(|name| !routes.iter().any(|route| route.transport == **name)) {
        warnings.push(format!("no [[route]] names transport {name:?}: it gets nothing to send"));
    }
    (transports, Routes(routes))
}

/// Peers of the transport that is there without a configuration: this machine.
const LOOPBACK: &[&str] = &[
    "http://localhost:*",
    "http://127.0.0.0/8:*",
    "http://[::1]:*",
    "https://localhost:*",
    "https://127.0.0.0/8:*",
    "https://[::1]:*",
];

fn default_http(bundled: &[&str]) -> (Vec<TransportSettings>, Routes) {
    let Some(pattern) = Pattern::parse("http:**").ok().filter(|_| bundled.contains(&"http")) else {
        return (Vec::new(), Routes::default());
    };
    let transport = TransportSettings {
        name: "http".into(),
        plugin: PluginSource::Bundled("http".into()),
        instances: 1,
        config: serde_json::Value::Object(serde_json::Map::new()),
        allow: LOOPBACK.iter().map(|peer| (*peer).to_owned()).collect(),
        kv: None,
        secrets: Vec::new(),
        memory: None,
        cpu_per_call: None,
        connections: None,
        log_per_second: None,
        max_batch: None,
        send_timeout: None,
        http_in_flight: None,
        http_per_peer: None,
        provision: false,
        sha256: None,
        watch: false,
        policy: SlotPolicy::default(),
    };
    (vec![transport], Routes(vec![Route::new(pattern, "http")]))
}

fn participants<'d>(reader: &mut Reader<'d>, root: &'d Table, plugins: &Known<'_>) -> Vec<ParticipantSettings> {
    let mut participants = Vec::new();
    let named = root.entry("participant").and_then(|entry| table_of(reader, entry, "participant"));
    for entry in named.iter().flat_map(|(table, _)| &table.entries) {
        let path = format!("participant.{}", entry.name);
        let Some(table) = table_of(reader, entry, &path) else { continue };
        let section = Section::new(reader, path, "participant.NAME", Some(table), false);
        participants.extend(sections::participant(section, &entry.name, plugins));
    }
    participants
}

fn tenants<'d>(reader: &mut Reader<'d>, root: &'d Table) -> Vec<TenantSettings> {
    let mut tenants: Vec<TenantSettings> = Vec::new();
    for (index, table) in tables_of(reader, root.entry("tenant"), "tenant").into_iter().enumerate() {
        let section = Section::new(reader, format!("tenant[{index}]"), "tenant", Some(table), false);
        let Some((name, tenant)) = sections::tenant(section) else { continue };
        if tenants.iter().any(|earlier| earlier.name == tenant.name) {
            let problem = Problem::Duplicate {
                what: format!("tenant {:?} is there already", tenant.name),
                fix: "remove one [[tenant]]".into(),
            };
            reader.problem(problem, name.origin);
        }
        tenants.push(tenant);
    }
    tenants
}

fn auth<'d>(reader: &mut Reader<'d>, root: &'d Table, file: &Path) -> Vec<AuthToken> {
    let mut all: Vec<AuthToken> = Vec::new();
    let Some((auth, _)) = root.entry("auth").and_then(|entry| table_of(reader, entry, "auth")) else {
        return all;
    };
    for entry in auth.entries.iter().filter(|entry| entry.name != "token") {
        let problem = Problem::UnknownKey {
            key: entry.name.clone(),
            section: "[auth]".into(),
            suggestion: nearest(&entry.name, ["token"]),
            known: "token, as [[auth.token]]".into(),
        };
        let at = reader.in_file(entry.name_at);
        reader.problem(problem, at);
    }
    for (index, table) in tables_of(reader, auth.entry("token"), "auth.token").into_iter().enumerate() {
        let section = Section::new(reader, format!("auth.token[{index}]"), "auth.token", Some(table), false);
        let Some((name, token)) = tokens::read(section, file) else { continue };
        let twice = all.iter().find_map(|earlier| {
            (earlier.name == token.name).then(|| format!("token {:?} is there already", token.name)).or_else(|| {
                (earlier.sha256 == token.sha256)
                    .then(|| format!("tokens {:?} and {:?} are the same", earlier.name, token.name))
            })
        });
        if let Some(what) = twice {
            let problem = Problem::Duplicate { what, fix: "rename or remove one [[auth.token]]".into() };
            reader.problem(problem, name.origin);
        }
        all.push(token);
    }
    all
}
