//! Finding the file, laying environment and flags over it, and checking the whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use directories::ProjectDirs;
use waybill_core::document::{self, DocumentError, Entry, Fault, Position, Table, Value};
use waybill_core::endpoint::EndpointSettings;
use waybill_core::streams::settings::StreamsSettings;
use waybill_core::suggest::nearest;

use super::inbound::Source;
use super::inbound_checks;
use super::indexes::indexes;
use super::model::{Config, OutboxSettings, StoreKind, TenantSettings};
use super::plugins::Known;
use super::problem::{ConfigError, Origin, Problem};
use super::reader::{Flag, KeyInfo, Reader, Section};
use super::scalar::kind_of;
use super::sections::{ReadConsumer, Tables};
use super::transports::transports_and_routes;
use super::{sections, streams, tokens};

/// Name of the file looked for.
pub const FILE_NAME: &str = "waybill.toml";

/// What is said of a store that hosts share.
const PREVIEW: &str = "store.url: a shared store (ws://, wss://) is a preview: it hasn't been tried through crashes and partitions against a \
                       real server; for production use surrealkv:// (docs/configuration.md, [store])";
/// Sections with fixed names. Those of relays are within `[relay]`, which has a key of its own.
const FIXED: &[&str] = &[
    "store",
    "server",
    "outbox",
    "dead",
    "audit",
    "alert",
    "idempotency",
    "inbox",
    "events",
    "relay",
    "saga",
    "plugins",
    "auth",
    "ui",
    "limits",
    "log",
    "otel",
];
/// Another name of a section: source document 1 has `[tx.idempo]`.
const ALSO: (&str, &str) = ("idempo", "idempotency");
/// Sections with names of their own.
const NAMED: &[&str] = &["transport", "participant", "source", "consumer", "route", "stream", "tenant", "index"];

/// What a configuration is made of.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// File; none = defaults, environment and flags only.
    pub file: Option<PathBuf>,
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
    read(&text(inputs)?, inputs)
}

/// What the file holds; nothing where there is none.
pub(super) fn text(inputs: &Inputs) -> Result<String, ConfigError> {
    let Some(path) = &inputs.file else { return Ok(String::new()) };
    std::fs::read_to_string(path).map_err(|error| {
        let origin = Origin::File { path: path.clone(), at: None };
        ConfigError::one(Problem::File { cause: error.to_string() }, origin)
    })
}

/// The file by which messages name it.
pub(super) fn named_file(inputs: &Inputs) -> PathBuf {
    inputs.file.clone().unwrap_or_else(|| FILE_NAME.into())
}

/// Reads the text, and none of its settings yet.
pub(super) fn tables(text: &str, file: &Path) -> Result<Table, ConfigError> {
    document::toml(text, usize::MAX).map_err(|DocumentError { at, fault }| {
        let problem = match fault {
            Fault::Syntax { duplicate: Some(name), .. } => Problem::Duplicate {
                what: format!("{name:?} is there twice"),
                fix: "rename or remove one of the two".into(),
            },
            other => Problem::Syntax { message: other.to_string() },
        };
        ConfigError::one(problem, Origin::File { path: file.to_owned(), at: Some(at) })
    })
}

/// Every key there is: what a file that uses each section leads to.
pub fn catalogue() -> Vec<KeyInfo> {
    let sample = "[store]\nurl = \"mem://\"\n[transport.sample]\nplugin = \"sample\"\n[[route]]\nmatch = \"bus:**\"\n\
                  transport = \"sample\"\n[participant.sample]\nplugin = \"sample\"\n[source.sample]\nplugin = \"sample\"\n\
                  [consumer.sample]\nsource = \"sample\"\nhandler = \"http://127.0.0.1/\"\n[[tenant]]\nname = \"sample\"\n[[index]]\ntenant = \"sample\"\npath = \"header.sample\"\n[[auth.token]]\nname = \"sample\"\nsha256 = \
                  \"0000000000000000000000000000000000000000000000000000000000000000\"\n[[stream]]\nmatch = \"**\"\n\
                  [relay.sample]\nmatch = \"**\"\ntransport = \"sample\"\ntopic = \"{stream}\"\n\
                  [auth.oidc]\nissuer = \"https://sample\"\nclient_id = \"sample\"\nsecret = \"env:SAMPLE\"\n\
                  roles = { sample = \"viewer\" }\n";
    let env = [("SAMPLE".to_owned(), "sample".to_owned())].into();
    let inputs = Inputs { env, bundled: vec!["sample"], ..Inputs::default() };
    read(sample, &inputs).map(|config| config.keys).unwrap_or_default()
}

fn read(text: &str, inputs: &Inputs) -> Result<Config, ConfigError> {
    let file = named_file(inputs);
    let root = tables(text, &file)?;
    let mut reader = Reader::new(&file, &inputs.env, &inputs.flags);
    check_sections(&mut reader, &root);
    let mut warnings = Vec::new();
    let store = sections::store(fixed(&mut reader, &root, "store"), &file, inputs.data.as_deref());
    let (server, listen_origin) = sections::server(fixed(&mut reader, &root, "server"), &file);
    let plugins = sections::plugin_settings(fixed(&mut reader, &root, "plugins"), &file, inputs.cache.clone());
    let known = Known { bundled: &inputs.bundled, folder: plugins.folder.as_deref() };
    let outbox = sections::outbox(fixed(&mut reader, &root, "outbox"), &known);
    let dead = sections::dead(fixed(&mut reader, &root, "dead"));
    let audit = sections::audit(fixed(&mut reader, &root, "audit"));
    let saga = sections::saga(fixed(&mut reader, &root, "saga"), &file, &mut warnings);
    let idempotency = sections::idempotency(fixed(&mut reader, &root, "idempotency"));
    let inbox = sections::inbox(fixed(&mut reader, &root, "inbox"));
    sections::check_dedup_window(&mut reader, &inbox, &dead);
    let ui = sections::ui(fixed(&mut reader, &root, "ui"));
    let auth = tokens::auth(&mut reader, &root, &file, &server, ui.is_some(), &mut warnings);
    let (transports, routes) = transports_and_routes(&mut reader, &root, &known, !auth.required, &mut warnings);
    let alert = sections::alert(fixed(&mut reader, &root, "alert"), &routes);
    let mut events = sections::events(fixed(&mut reader, &root, "events"));
    sections::bound_subscriptions(&reader, &mut events, &server, &mut warnings);
    let patterns = streams::patterns(&mut reader, &root);
    let relays = streams::relays(&mut reader, &root, &transports);
    let participants = participants(&mut reader, &root, &known);
    let sources = sources(&mut reader, &root, &known);
    let read = consumers(&mut reader, &root, &known, &sources, &outbox);
    inbound_checks::check(&mut reader, &sources, &read, &routes, (&inbox, &outbox), &mut warnings);
    let tenants = tenants(&mut reader, &root);
    let indexes = indexes(&mut reader, &root);
    let limits = sections::limits(fixed(&mut reader, &root, "limits"));
    let log = sections::log(fixed(&mut reader, &root, "log"));
    let otel = sections::otel(fixed(&mut reader, &root, "otel"));
    reader.unknown_env(FIXED);
    sections::check_listen(&mut reader, &server, auth.required, listen_origin);
    if let Some(file) = &inputs.file {
        reader.warn_if_written_by_others(file);
    }
    let store = match (store, reader.problems.is_empty()) {
        (Some(store), true) => store,
        _ => return Err(ConfigError(std::mem::take(&mut reader.problems))),
    };
    if matches!(store.kind, StoreKind::Server) {
        warnings.push(PREVIEW.to_owned());
    }
    let Reader { shown, keys, warnings: of_files, .. } = reader;
    warnings.extend(of_files);
    Ok(Config {
        file: inputs.file.clone(),
        store,
        server,
        outbox,
        dead,
        audit,
        alert,
        saga,
        idempotency,
        inbox,
        plugins,
        transports,
        participants,
        sources,
        consumers: read.into_iter().map(|read| read.consumer).collect(),
        streams: StreamsSettings { events, patterns, relays },
        routes,
        tenants,
        indexes,
        auth,
        ui,
        limits,
        log,
        otel,
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
        let problem = Problem::UnknownSection {
            section: name,
            suggestion: nearest(&entry.name, known.iter().copied()),
            known: known.join(", "),
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
pub(super) fn fixed<'r, 'd>(reader: &'r mut Reader<'d>, root: &'d Table, name: &'static str) -> Section<'r, 'd> {
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

pub(super) fn table_of<'d>(reader: &mut Reader<'_>, entry: &'d Entry, path: &str) -> Option<(&'d Table, Position)> {
    if let Value::Table(table) = &entry.node.value {
        return Some((table, entry.name_at));
    }
    let problem = Problem::WrongType {
        key: path.to_owned(),
        expected: format!("a table, [{path}]"),
        found: kind_of(&entry.node.value),
    };
    let at = reader.in_file(entry.name_at);
    reader.problem(problem, at);
    None
}

/// The tables of an array such as `[[route]]`.
pub(super) fn tables_of<'d>(
    reader: &mut Reader<'_>,
    entry: Option<&'d Entry>,
    path: &str,
) -> Vec<(&'d Table, Position)> {
    let Some(entry) = entry else { return Vec::new() };
    let mut wrong = |found: &Value, at: Position| {
        let problem =
            Problem::WrongType { key: path.to_owned(), expected: format!("tables, [[{path}]]"), found: kind_of(found) };
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

fn participants<'d>(reader: &mut Reader<'d>, root: &'d Table, plugins: &Known<'_>) -> Vec<EndpointSettings> {
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

fn sources<'d>(reader: &mut Reader<'d>, root: &'d Table, plugins: &Known<'_>) -> Vec<Source> {
    let mut sources = Vec::new();
    let named = root.entry("source").and_then(|entry| table_of(reader, entry, "source"));
    for entry in named.iter().flat_map(|(table, _)| &table.entries) {
        let path = format!("source.{}", entry.name);
        let Some(table) = table_of(reader, entry, &path) else { continue };
        let section = Section::new(reader, path, "source.NAME", Some(table), false);
        sources.extend(sections::source(section, &entry.name, plugins));
    }
    sources
}

fn consumers<'d>(
    reader: &mut Reader<'d>,
    root: &'d Table,
    plugins: &Known<'_>,
    sources: &[Source],
    outbox: &OutboxSettings,
) -> Vec<ReadConsumer> {
    let mut consumers = Vec::new();
    let named = root.entry("consumer").and_then(|entry| table_of(reader, entry, "consumer"));
    let feeding: Vec<&str> = named.iter().flat_map(|(table, _)| &table.entries).flat_map(named_sources).collect();
    let has_several = |source: &str| feeding.iter().filter(|name| **name == source).count() > 1;
    // The default of `publish` is known for tables that have one consumer.
    let tables: Vec<&str> =
        sources.iter().filter(|source| source.is_table).map(|source| source.name.as_str()).collect();
    let of_one: Vec<&str> = tables.iter().copied().filter(|name| !has_several(name)).collect();
    let found = Tables { all: &tables, of_one: &of_one };
    for entry in named.iter().flat_map(|(table, _)| &table.entries) {
        let path = format!("consumer.{}", entry.name);
        let Some(table) = table_of(reader, entry, &path) else { continue };
        let section = Section::new(reader, path, "consumer.NAME", Some(table), false);
        consumers.extend(sections::consumer(section, &entry.name, plugins, found, outbox.backoff.policy));
    }
    consumers
}

/// What a consumer's table names as its sources, before it is read.
fn named_sources(consumer: &Entry) -> Vec<&str> {
    let Value::Table(table) = &consumer.node.value else { return Vec::new() };
    match table.get("source").map(|node| &node.value) {
        Some(Value::Text(name)) => vec![name],
        Some(Value::List(names)) => names
            .iter()
            .filter_map(|node| match &node.value {
                Value::Text(name) => Some(name.as_str()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
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
