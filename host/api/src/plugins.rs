//! Plugins and their generations, and how one follows another.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::plugins::PluginsError;

use crate::instant::Instant;
use crate::plugin_outcomes::PluginShown;

/// The plugins of a host, and files that can't be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plugins {
    /// One a place in the configuration, by name.
    pub items: Vec<TransportPlugin>,
    /// Always null: they fit one page.
    pub next_cursor: Option<String>,
    /// What lies in the plugins folder and can't be used. It stops nothing. Empty for credentials of some tenants.
    pub refused_files: Vec<RefusedFile>,
}

/// A file of the plugins folder that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedFile {
    /// Its name in the folder; `.` when the folder can't be read.
    pub file: String,
    /// Error code of why it can't be used.
    pub code: String,
    /// The same in a sentence.
    pub reason: String,
}

/// The plugin of one transport, handler, participant, source, or of the retry policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TransportPlugin {
    /// Name of the transport in the configuration; else `handler.CONSUMER`, `participant.NAME`, `source.NAME` or `outbox.backoff`.
    pub transport: String,
    /// World of its plugin.
    pub world: String,
    /// `bundled:NAME`, or the path of its file on the host; `file` for credentials of some tenants.
    pub source: String,
    /// Its file is watched.
    pub watch: bool,
    /// How a new version takes over: `overlap` or `stop-start`.
    pub reload: String,
    /// The generation that serves the calls now.
    pub live: Generation,
    /// The generation that a rollback goes back to.
    pub previous: Option<Generation>,
    /// Trial of the live one, while it lasts.
    pub probation: Option<Probation>,
    /// The latest candidate that was refused.
    pub refused: Option<Generation>,
    /// The generation that was rolled back, as long as the one that came back for it serves.
    pub rolled_back: Option<Generation>,
    /// All that is remembered, oldest first.
    pub history: Vec<Generation>,
    /// Components that aren't used again unless forced.
    pub bad: Vec<BadDigest>,
    /// Why the host started with the last good component instead of the one at its source.
    pub fallback: Option<String>,
}

/// One generation of a transport's plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Generation {
    /// Number, from 1; grows with every candidate.
    pub generation: u32,
    /// `fetched`, `verified`, `compiled`, `linked`, `probing`, `live`, `draining`, `gone` or `rejected`.
    pub phase: String,
    /// `sha256:<hex>` of the component; empty when it couldn't be read.
    pub digest: String,
    /// Plugin by its manifest.
    pub plugin: Option<String>,
    /// Version by its manifest; null when no manifest was read.
    pub version: Option<String>,
    /// `bundled`, `unsigned`, `signed by NAME`, or `signed, not checked`.
    pub signature: Option<String>,
    /// Since when it is in this phase; of one that was live: since when it was.
    pub since: Instant,
    /// Until when it was live.
    pub until: Option<Instant>,
    /// Code of why it was refused, rolled back or came back.
    pub code: Option<String>,
    /// The same in a sentence.
    pub reason: Option<String>,
}

/// The trial of a new generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Probation {
    /// Until when it is rolled back by itself if it does worse than the one before.
    pub until: Instant,
    /// Instances lost so far.
    pub losses: u32,
    /// Instances that the one before lost in a time as long.
    pub losses_before: u32,
}

/// A component that isn't used again unless forced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BadDigest {
    /// `sha256:<hex>` of the component.
    pub digest: String,
    /// Code of what it did.
    pub code: String,
    /// The same in a sentence.
    pub reason: String,
    /// When that was noticed.
    pub at: Instant,
}

/// Lines of a plugin's log: what it said itself, and what the host said of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PluginLog {
    /// Those that are kept, oldest first.
    pub items: Vec<PluginLogLine>,
    /// What to ask for as `after` to get what comes behind these.
    pub next: u64,
    /// Lines behind `after` that aren't kept any more.
    pub missed: u64,
}

/// A line of a plugin's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PluginLogLine {
    /// Grows with every line, over restarts too.
    pub number: u64,
    pub at: Instant,
    /// `trace`, `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// Which load of the plugin wrote it.
    pub generation: u32,
    /// Which instance wrote it; null = the host, of all of them.
    pub instance: Option<u32>,
    /// On one line, without secrets that the plugin has read.
    pub message: String,
    /// Names and values that the plugin gave along.
    pub fields: BTreeMap<String, String>,
}

/// Which lines of a plugin's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginLogAsked {
    /// Those behind this number; 0 = all that are kept.
    pub after: u64,
    /// Most lines of one answer.
    pub limit: usize,
    /// How long to wait for the first.
    pub wait: Duration,
}

/// How a reload is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PluginReload {
    /// Digest that the component must have: 64 hex digits, `sha256:` before them or not.
    pub sha256: Option<String>,
    /// Take a component that was rolled back before, one whose peer can't be reached, one that serves already, and one that lacks a step
    /// which running sagas may still call.
    pub force: bool,
}

/// How a rollback is asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PluginRollback {
    /// Why, for the history and the audit trail.
    pub reason: String,
}

/// A component handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginUpload {
    pub component: Bytes,
    /// Its signature: `ed25519 PUBLIC-KEY SIGNATURE`.
    pub signature: Option<String>,
    /// As for a reload.
    pub reload: PluginReload,
}

/// What a change of plugin led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PluginChanged {
    /// False: the very same component serves already.
    pub changed: bool,
    /// The plugin as it stands.
    pub plugin: TransportPlugin,
}

/// The plugins of this host. `actor` is who asks, for the log.
#[async_trait]
pub trait PluginService: Send + Sync + 'static {
    /// All, with their generations.
    async fn plugins(&self) -> Plugins;
    /// One, and how its generations did.
    async fn plugin(&self, name: &str) -> Result<PluginShown, PluginsError>;
    /// Lines of the log of a plugin, by the name that logs and measurements know it by. Waits for the first if it is asked to.
    async fn log(&self, name: &str, asked: PluginLogAsked) -> Result<PluginLog, PluginsError>;
    /// Reads the component of a transport's plugin from its source again, tries it, and makes it live.
    async fn reload(&self, transport: &str, asked: PluginReload, actor: &str) -> Result<PluginChanged, PluginsError>;
    /// Goes back to the generation before.
    async fn roll_back(&self, transport: &str, reason: &str, actor: &str) -> Result<PluginChanged, PluginsError>;
    /// Tries a component, puts it in the plugins folder, and makes it live.
    async fn upload(&self, transport: &str, upload: PluginUpload, actor: &str) -> Result<PluginChanged, PluginsError>;
}
