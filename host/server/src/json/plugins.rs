//! Plugins and their generations.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::plugins::{
    BadView, GenerationView, PluginChanged, PluginView, PluginsView, ProbationView, RefusedFile,
};

use super::instant::Instant;

/// All plugins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Plugins)]
pub struct PluginsOut {
    /// By transport.
    pub items: Vec<TransportPluginOut>,
    /// Always null: they fit one page.
    pub next_cursor: Option<String>,
    /// What lies in the plugins folder and can't be used. It stops nothing. Empty for credentials of some tenants.
    pub refused_files: Vec<RefusedFileOut>,
}

/// A file of the plugins folder that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RefusedFile)]
pub struct RefusedFileOut {
    /// Its name.
    pub file: String,
    /// Error code.
    pub code: String,
    /// One sentence.
    pub reason: String,
}

/// The plugin of one transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TransportPlugin)]
pub struct TransportPluginOut {
    /// Transport.
    pub transport: String,
    /// World of its plugin.
    pub world: String,
    /// `bundled:NAME`, or the path of its file on the host; `file` for credentials of some tenants.
    pub source: String,
    /// Its file is watched.
    pub watch: bool,
    /// How a new version takes over: `overlap` or `stop-start`.
    pub reload: String,
    /// Who serves.
    pub live: GenerationOut,
    /// The generation that a rollback goes back to.
    pub previous: Option<GenerationOut>,
    /// Trial of the live one, while it lasts.
    pub probation: Option<ProbationOut>,
    /// The latest candidate that was refused.
    pub refused: Option<GenerationOut>,
    /// All that is remembered, oldest first.
    pub history: Vec<GenerationOut>,
    /// Components that aren't used again unless forced.
    pub bad: Vec<BadDigestOut>,
    /// Why the host started with the last good component instead of the one at its source.
    pub fallback: Option<String>,
}

/// One generation of a transport's plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Generation)]
pub struct GenerationOut {
    /// Number, from 1; grows with every candidate.
    pub generation: u32,
    /// `fetched`, `verified`, `compiled`, `linked`, `probing`, `live`, `draining`, `gone` or `rejected`.
    pub phase: String,
    /// `sha256:<hex>` of the component; empty when it couldn't be read.
    pub digest: String,
    /// Plugin by its manifest.
    pub plugin: Option<String>,
    /// Its version.
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
#[schema(as = Probation)]
pub struct ProbationOut {
    /// Until when it is rolled back by itself if it does worse than the one before.
    pub until: Instant,
    /// Instances lost so far.
    pub losses: u32,
    /// Instances that the one before lost in a time as long.
    pub losses_before: u32,
}

/// A component that isn't used again unless forced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = BadDigest)]
pub struct BadDigestOut {
    /// `sha256:<hex>`.
    pub digest: String,
    /// Code of what it did.
    pub code: String,
    /// The same in a sentence.
    pub reason: String,
    /// When that was noticed.
    pub at: Instant,
}

/// How a reload is asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = PluginReload)]
pub struct ReloadIn {
    /// Digest that the component must have: 64 hex digits, `sha256:` before them or not.
    pub sha256: Option<String>,
    /// Take a component that was rolled back before, one whose peer can't be reached, and one that serves already.
    pub force: bool,
}

/// How a rollback is asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = PluginRollback)]
pub struct RollbackIn {
    /// Why, for the history and the audit trail.
    pub reason: String,
}

/// What a change of plugin led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = PluginChanged)]
pub struct PluginChangedOut {
    /// False: the very same component serves already.
    pub changed: bool,
    /// The plugin as it stands.
    pub plugin: TransportPluginOut,
}

impl From<PluginsView> for PluginsOut {
    fn from(view: PluginsView) -> Self {
        let file = |file: RefusedFile| RefusedFileOut { file: file.file, code: file.code, reason: file.reason };
        Self {
            items: view.plugins.into_iter().map(TransportPluginOut::from).collect(),
            next_cursor: None,
            refused_files: view.refused.into_iter().map(file).collect(),
        }
    }
}

impl PluginsOut {
    /// Without what tells of the host itself: paths, and sentences that may quote them.
    #[must_use]
    pub fn brief(mut self) -> Self {
        self.refused_files.clear();
        for plugin in &mut self.items {
            if !plugin.source.starts_with("bundled:") {
                "file".clone_into(&mut plugin.source);
            }
            plugin.fallback = None;
            let bad = plugin.bad.iter_mut().map(|bad| &mut bad.reason);
            bad.for_each(String::clear);
            let generations = [Some(&mut plugin.live), plugin.previous.as_mut(), plugin.refused.as_mut()];
            for generation in generations.into_iter().flatten().chain(&mut plugin.history) {
                generation.reason = None;
            }
        }
        self
    }
}

impl From<PluginView> for TransportPluginOut {
    fn from(view: PluginView) -> Self {
        let probation = |trial: ProbationView| ProbationOut {
            until: trial.until.into(),
            losses: trial.losses,
            losses_before: trial.losses_before,
        };
        let bad =
            |bad: BadView| BadDigestOut { digest: bad.digest, code: bad.code, reason: bad.reason, at: bad.at.into() };
        Self {
            transport: view.transport,
            world: view.world,
            source: view.source,
            watch: view.watch,
            reload: view.reload,
            live: view.live.into(),
            previous: view.previous.map(GenerationOut::from),
            probation: view.probation.map(probation),
            refused: view.refused.map(GenerationOut::from),
            history: view.history.into_iter().map(GenerationOut::from).collect(),
            bad: view.bad.into_iter().map(bad).collect(),
            fallback: view.fallback,
        }
    }
}

impl From<GenerationView> for GenerationOut {
    fn from(view: GenerationView) -> Self {
        Self {
            generation: view.generation,
            phase: view.phase,
            digest: view.digest,
            plugin: view.plugin,
            version: view.version,
            signature: view.signature,
            since: view.since.into(),
            until: view.until.map(Instant::from),
            code: view.code,
            reason: view.reason,
        }
    }
}

impl From<PluginChanged> for PluginChangedOut {
    fn from(done: PluginChanged) -> Self {
        Self { changed: done.changed, plugin: done.plugin.into() }
    }
}
