//! The plugins of a host as the API sees them: their generations, and how one follows another.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::time::UnixMillis;

/// One generation of a transport's plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationView {
    /// Number, from 1.
    pub generation: u32,
    /// `fetched`, `verified`, `compiled`, `linked`, `probing`, `live`, `draining`, `gone`, `rejected`.
    pub phase: String,
    /// `sha256:<hex>` of the component; empty when it couldn't be read.
    pub digest: String,
    /// Plugin by its manifest, once that is read.
    pub plugin: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// `bundled`, `unsigned`, `signed by NAME`, `signed, not checked`.
    pub signature: Option<String>,
    /// Since when it is in this phase; of one that was live: since when it was.
    pub since: UnixMillis,
    /// Until when it was live.
    pub until: Option<UnixMillis>,
    /// Code of why it was refused, rolled back or came back.
    pub code: Option<String>,
    /// The same in a sentence.
    pub reason: Option<String>,
}

/// The trial of a new generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbationView {
    /// Until when it is rolled back if it does worse than the one before.
    pub until: UnixMillis,
    /// Instances lost so far.
    pub losses: u32,
    /// Instances the one before had lost in a time as long.
    pub losses_before: u32,
}

/// A component that isn't used again by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadView {
    /// `sha256:<hex>`.
    pub digest: String,
    /// Code of what it did.
    pub code: String,
    /// The same in a sentence.
    pub reason: String,
    /// When that was noticed.
    pub at: UnixMillis,
}

/// The plugin of one transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginView {
    /// Transport.
    pub transport: String,
    /// World of its plugin.
    pub world: String,
    /// `bundled:NAME`, or the path of its file.
    pub source: String,
    /// Its file is watched.
    pub watch: bool,
    /// `overlap` or `stop-start`.
    pub reload: String,
    /// Who serves.
    pub live: GenerationView,
    /// The generation a rollback goes back to.
    pub previous: Option<GenerationView>,
    /// Trial of the live one, while it lasts.
    pub probation: Option<ProbationView>,
    /// The latest candidate that was refused.
    pub refused: Option<GenerationView>,
    /// All that is remembered, oldest first.
    pub history: Vec<GenerationView>,
    /// Components that aren't used again by themselves.
    pub bad: Vec<BadView>,
    /// Why the host started with the last good component instead of the one at its source.
    pub fallback: Option<String>,
}

/// A file in the plugins folder that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedFile {
    /// Its name.
    pub file: String,
    /// Stable code.
    pub code: String,
    /// One sentence.
    pub reason: String,
}

/// All plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginsView {
    /// By transport.
    pub plugins: Vec<PluginView>,
    /// What lies in the plugins folder and can't be used.
    pub refused: Vec<RefusedFile>,
}

/// How a change of plugin is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginChange {
    /// The digest that is expected, if one is.
    pub sha256: Option<String>,
    /// Take a component that was rolled back before, and one that finds its peer unreachable.
    pub force: bool,
}

/// A component handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginUpload {
    /// Its bytes.
    pub component: Bytes,
    /// Its signature: `ed25519 PUBLIC-KEY SIGNATURE`.
    pub signature: Option<String>,
    /// As for any change.
    pub change: PluginChange,
}

/// What a change led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginChanged {
    /// False: the component that serves is the very same.
    pub changed: bool,
    /// The plugin as it stands.
    pub plugin: PluginView,
}

/// Why a change was refused. The running generation goes on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PluginsError {
    /// There is no such transport.
    #[error("there is no transport {0:?} with a plugin")]
    NotFound(String),
    /// It can't be done.
    #[error("{reason}")]
    Refused {
        /// Stable code, `PLUGIN.*`.
        code: &'static str,
        /// What is wrong, and what to do.
        reason: String,
    },
}

impl PluginsError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "OUTBOX.NOT_FOUND",
            Self::Refused { code, .. } => code,
        }
    }
}

/// The plugins of this host. `actor` is who asks, for the log.
#[async_trait]
pub trait PluginService: Send + Sync + 'static {
    /// All, with their generations.
    async fn plugins(&self) -> PluginsView;
    /// Reads the component of a transport's plugin from its source again, tries it, and makes it live.
    async fn reload(&self, transport: &str, change: PluginChange, actor: &str) -> Result<PluginChanged, PluginsError>;
    /// Goes back to the generation before.
    async fn roll_back(&self, transport: &str, reason: &str, actor: &str) -> Result<PluginChanged, PluginsError>;
    /// Tries a component, puts it in the plugins folder, and makes it live.
    async fn upload(&self, transport: &str, upload: PluginUpload, actor: &str) -> Result<PluginChanged, PluginsError>;
}
