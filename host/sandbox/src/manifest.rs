//! The manifest inside a component: what the plugin is and what it asks for (`plugins/README.md`).
//!
//! Bounds: [`MANIFEST_BYTES_MAX`]. It is data: reading it runs nothing. It grants nothing; see [`crate::grants`].

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use waybill_core::endpoint::LimitOverlay;

use crate::error::SandboxError;
use crate::grants::{Need, Pattern};
use crate::limits::MANIFEST_BYTES_MAX;
use crate::schema;

/// Contract that a plugin implements. A `-basic` world differs only in its imports and counts as the one without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum World {
    Transport,
    Source,
    /// Transport and source in one file.
    Broker,
    /// Publishes the rows of an outbox table directly.
    Table,
    /// Source and table in one file.
    Database,
    Participant,
    Handler,
    Backoff,
}

impl World {
    /// Reads the name used in a manifest.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.strip_suffix("-basic").unwrap_or(name) {
            "transport" => Self::Transport,
            "source" => Self::Source,
            "broker" => Self::Broker,
            "table" => Self::Table,
            "database" => Self::Database,
            "participant" => Self::Participant,
            "handler" => Self::Handler,
            "backoff" => Self::Backoff,
            _ => return None,
        })
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Source => "source",
            Self::Broker => "broker",
            Self::Table => "table",
            Self::Database => "database",
            Self::Participant => "participant",
            Self::Handler => "handler",
            Self::Backoff => "backoff",
        }
    }

    /// Whether a plugin of this world can be used where `asked` is needed.
    pub fn serves(self, asked: Self) -> bool {
        self == asked
            || (self == Self::Broker && matches!(asked, Self::Transport | Self::Source))
            || (self == Self::Database && matches!(asked, Self::Source | Self::Table))
    }

    /// The kind of section that configures it in `waybill.toml`: a table is a source, whichever way it is published.
    pub fn section(self) -> &'static str {
        match self {
            Self::Table | Self::Database => Self::Source.as_str(),
            other => other.as_str(),
        }
    }

    /// The package of the contract that has it.
    pub fn package(self) -> &'static str {
        match self {
            Self::Source | Self::Broker | Self::Table | Self::Database | Self::Handler => "waybill:inbound",
            Self::Transport | Self::Participant | Self::Backoff => "waybill:plugin",
        }
    }

    /// The interfaces that make a component one of this world, without version.
    pub(crate) fn exports(self) -> &'static [&'static str] {
        match self {
            Self::Transport => &["waybill:plugin/transport-api"],
            Self::Source => &["waybill:inbound/source-api"],
            Self::Broker => &["waybill:plugin/transport-api", "waybill:inbound/source-api"],
            Self::Table => &["waybill:inbound/table-api"],
            Self::Database => &["waybill:inbound/source-api", "waybill:inbound/table-api"],
            Self::Participant => &["waybill:plugin/participant-api"],
            Self::Handler => &["waybill:inbound/handler-api"],
            Self::Backoff => &["waybill:plugin/backoff-api"],
        }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a plugin would like to have. It gets ask ∩ grant and the smaller of two limits.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    pub net: Vec<Pattern>,
    pub http: Vec<Pattern>,
    pub secrets: Vec<String>,
    pub kv: bool,
    pub wasi_http: bool,
    /// `wasi:sockets` beside `net`. This host links it and keeps it closed.
    pub wasi_sockets: bool,
    /// Bounds that it needs; it names only some.
    pub limits: LimitOverlay,
    /// Most instances that can serve side by side, e.g. 1 for a client that its peer knows by name.
    pub instances: Option<u32>,
    /// What it can't do without; all of it is asked for.
    pub required: Vec<Need>,
}

#[derive(Clone, Debug)]
pub struct Manifest {
    pub name: String,
    /// The plugin's own version.
    pub version: String,
    pub world: World,
    /// Version of its world's package ([`World::package`]) that it was built with.
    pub contract: String,
    pub description: String,
    /// JSON Schema of `config`; none = only `{}` is taken.
    pub config_schema: Option<Value>,
    /// What it asks for.
    pub ask: Ask,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    version: String,
    world: String,
    contract: String,
    description: String,
    config_schema: Option<String>,
    #[serde(default)]
    ask: WrittenAsk,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenAsk {
    net: Vec<String>,
    http: Vec<String>,
    secrets: Vec<String>,
    features: Vec<String>,
    memory: Option<String>,
    call_time: Option<String>,
    cpu_per_call: Option<String>,
    connections: Option<usize>,
    instances: Option<u32>,
    required: Vec<String>,
}

fn bad(cause: impl Into<String>) -> SandboxError {
    SandboxError::BadManifest { cause: cause.into() }
}

impl Manifest {
    /// Reads and checks the bytes of a manifest section.
    pub fn parse(bytes: &[u8]) -> Result<Self, SandboxError> {
        if bytes.len() > MANIFEST_BYTES_MAX {
            return Err(bad(format!("it has {} bytes, at most {MANIFEST_BYTES_MAX} are taken", bytes.len())));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| bad("it isn't UTF-8"))?;
        let written: Written = toml::from_str(text).map_err(|error| bad(error.to_string().trim().to_owned()))?;
        if !is_plugin_name(&written.name) {
            return Err(bad(format!("name {:?} must match [a-z][a-z0-9-]* and have at most 64 bytes", written.name)));
        }
        if !is_semver(&written.version) {
            return Err(bad(format!("version {:?} isn't a semantic version like 1.2.0", written.version)));
        }
        if !is_semver(&written.contract) {
            return Err(bad(format!("contract {:?} isn't a semantic version like 0.1.0", written.contract)));
        }
        let world = World::parse(&written.world)
            .ok_or_else(|| bad(format!("world {:?} isn't one of transport, source, broker, table, database, participant, handler (each also with -basic) and backoff", written.world)))?;
        let config_schema = written
            .config_schema
            .map(|schema| {
                let value: Value =
                    serde_json::from_str(&schema).map_err(|error| bad(format!("config_schema isn't JSON: {error}")))?;
                schema::check(&value)
                    .map_err(|cause| bad(format!("config_schema isn't a JSON Schema that is taken: {cause}")))?;
                Ok::<_, SandboxError>(value)
            })
            .transpose()?;
        Ok(Self {
            name: written.name,
            version: written.version,
            world,
            contract: written.contract,
            description: written.description,
            config_schema,
            ask: ask(written.ask)?,
        })
    }
}

fn ask(written: WrittenAsk) -> Result<Ask, SandboxError> {
    if let Some(name) = written.secrets.iter().find(|name| !is_secret_name(name)) {
        return Err(bad(format!("ask.secrets: {name:?} must match [a-z0-9_-]+ and have at most 64 bytes")));
    }
    let mut ask = Ask { secrets: written.secrets, ..Ask::default() };
    for text in &written.net {
        let pattern = Pattern::parse(text).map_err(|error| bad(format!("ask.net: {error}")))?;
        if !pattern.is_stream() {
            return Err(bad(format!(
                "ask.net: {text:?} must begin with tcp://; http:// and https:// belong in ask.http"
            )));
        }
        ask.net.push(pattern);
    }
    for text in &written.http {
        let pattern = Pattern::parse(text).map_err(|error| bad(format!("ask.http: {error}")))?;
        if pattern.is_stream() {
            return Err(bad(format!("ask.http: {text:?} must begin with http:// or https://")));
        }
        ask.http.push(pattern);
    }
    for feature in &written.features {
        match feature.as_str() {
            "kv" => ask.kv = true,
            "wasi-http" => ask.wasi_http = true,
            "wasi-sockets" => ask.wasi_sockets = true,
            _ => return Err(bad(format!("ask.features: {feature:?} isn't one of kv, wasi-http, wasi-sockets"))),
        }
    }
    ask.limits.memory_bytes = written.memory.as_deref().map(memory).transpose()?;
    ask.limits.call_time = written.call_time.as_deref().map(|text| duration("call_time", text)).transpose()?;
    ask.limits.cpu_per_call = written.cpu_per_call.as_deref().map(|text| duration("cpu_per_call", text)).transpose()?;
    ask.limits.connections = written.connections;
    ask.instances = written.instances;
    if ask.limits.connections == Some(0) || ask.instances == Some(0) {
        return Err(bad("ask.connections and ask.instances are at least 1"));
    }
    for text in &written.required {
        let need = Need::parse(text).filter(|need| need.is_asked(&ask)).ok_or_else(|| {
            bad(format!(
                "ask.required: {text:?} isn't one of net, http, kv and secrets.NAME that the manifest asks for"
            ))
        })?;
        ask.required.push(need);
    }
    Ok(ask)
}

/// Reads a time: a number and `ms`, `s` or `m`.
fn duration(key: &str, text: &str) -> Result<Duration, SandboxError> {
    humantime::parse_duration(text)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| bad(format!("ask.{key}: {text:?} must be a number with ms, s or m, like \"500ms\"")))
}

/// Reads a size: a whole number and `KiB`, `MiB` or `GiB`.
fn memory(text: &str) -> Result<usize, SandboxError> {
    let wrong = || bad(format!("ask.memory: {text:?} must be a whole number and KiB, MiB or GiB, like \"64MiB\""));
    let units = [("KiB", 1_usize << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let (digits, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit))).ok_or_else(wrong)?;
    let number: usize = digits.trim_end().parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

/// Whether a text may name a plugin.
pub(crate) fn is_plugin_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// Whether a text may name a secret: operators write it as a key, and read it in messages.
fn is_secret_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
}

/// The numbers of a semantic version; pre-release and build are checked for their alphabet only.
pub(crate) fn semver(text: &str) -> Option<(u64, u64, u64)> {
    let (numbers, rest) = match text.find(['-', '+']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    if !rest.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.')) {
        return None;
    }
    let mut parts = numbers.split('.').map(|part| {
        let canonical = !part.is_empty() && (part == "0" || !part.starts_with('0'));
        if canonical { part.parse::<u64>().ok() } else { None }
    });
    let version = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(version)
}

fn is_semver(text: &str) -> bool {
    semver(text).is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const GOOD: &str = r#"
        name = "http"
        version = "0.1.0"
        world = "transport"
        contract = "0.1.0"
        description = "x"
        config_schema = '{ "type": "object" }'
        [ask]
        http = ["http://*:*", "https://*:*"]
        net = ["tcp://*:4222"]
        secrets = ["signing"]
        features = ["kv"]
        memory = "32MiB"
        call_time = "5s"
        cpu_per_call = "500ms"
        connections = 2
        instances = 1
        required = ["net", "secrets.signing"]
    "#;

    fn cause(text: &str) -> String {
        let error = Manifest::parse(text.as_bytes()).expect_err("refused");
        assert_eq!(error.code().as_str(), "PLUGIN.BAD_MANIFEST");
        error.to_string()
    }

    #[test]
    fn a_good_manifest_is_read() {
        let manifest = Manifest::parse(GOOD.as_bytes()).unwrap();
        assert_eq!((manifest.name.as_str(), manifest.world), ("http", World::Transport));
        assert_eq!(manifest.ask.limits.memory_bytes, Some(32 << 20));
        assert!(manifest.ask.kv && !manifest.ask.wasi_http);
        assert_eq!(manifest.ask.limits.call_time, Some(Duration::from_secs(5)));
        assert_eq!(manifest.ask.limits.cpu_per_call, Some(Duration::from_millis(500)));
        assert_eq!((manifest.ask.limits.connections, manifest.ask.instances), (Some(2), Some(1)));
        assert_eq!(manifest.ask.required, [Need::Net, Need::Secret("signing".to_owned())]);
        assert_eq!((manifest.ask.http.len(), manifest.ask.net.len()), (2, 1));
    }

    #[test]
    fn each_mistake_is_named() {
        for (from, to, says) in [
            ("name = \"http\"", "name = \"Http\"", "[a-z]"),
            ("version = \"0.1.0\"", "version = \"1\"", "semantic version"),
            ("world = \"transport\"", "world = \"tranport\"", "transport, source"),
            ("'{ \"type\": \"object\" }'", "'{'", "isn't JSON"),
            ("'{ \"type\": \"object\" }'", "'{ \"type\": 5 }'", "isn't a JSON Schema"),
            ("\"32MiB\"", "\"32MB\"", "KiB, MiB or GiB"),
            ("\"32MiB\"", "\"99999999999GiB\"", "KiB, MiB or GiB"),
            ("[\"kv\"]", "[\"sql\"]", "isn't one of kv"),
            ("tcp://*:4222", "tcp://*", "port"),
            ("\"5s\"", "\"5\"", "call_time"),
            ("\"500ms\"", "\"0s\"", "cpu_per_call"),
            ("instances = 1", "instances = 0", "at least 1"),
            ("connections = 2", "connections = -2", "connections"),
            ("\"secrets.signing\"]", "\"secrets.other\"]", "secrets.other"),
            ("required = [\"net\"", "required = [\"disk\"", "disk"),
            ("tcp://*:4222", "http://x", "ask.http"),
            ("secrets =", "secret =", "secret"),
            ("[\"signing\"]", "[\"a\\u001b[2K\"]", "\\u{1b}[2K"),
            ("[\"signing\"]", "[\"Signing\"]", "[a-z0-9_-]"),
            ("[\"signing\"]", "[\"\"]", "[a-z0-9_-]"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD, "{from}");
            let cause = cause(&text);
            assert!(cause.contains(says), "{cause}");
        }
    }

    #[test]
    fn a_missing_key_is_named() {
        assert!(cause("name = \"x\"").contains("version"));
    }

    #[test]
    fn a_basic_world_counts_as_the_one_without_it() {
        assert_eq!(World::parse("transport-basic"), Some(World::Transport));
        assert!(World::Broker.serves(World::Transport) && !World::Backoff.serves(World::Transport));
        assert!(World::Database.serves(World::Table) && !World::Table.serves(World::Source));
    }

    #[test]
    fn versions_are_read_strictly() {
        assert_eq!(semver("0.1.0-rc.1+b"), Some((0, 1, 0)));
        for text in ["1", "1.2", "1.2.3.4", "01.2.3", "1.2.x", "", "1.2.3-é"] {
            assert_eq!(semver(text), None, "{text}");
        }
    }
}
