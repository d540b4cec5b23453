//! The port that the API uses.

use async_trait::async_trait;
use waybill_api::instant::Instant;
use waybill_api::plugin_outcomes::PluginShown;
use waybill_api::plugins::{
    BadDigest, Generation, PluginChanged, PluginLog, PluginLogAsked, PluginReload, PluginService, PluginUpload,
    Plugins, Probation, TransportPlugin,
};
use waybill_core::port::plugins::PluginsError;

use super::{Entry, Fleet, Reload, Reloaded};
use crate::slot::{Phase, Record, SwapError};
use crate::verify::Fetched;

#[async_trait]
impl PluginService for Fleet {
    async fn plugins(&self) -> Plugins {
        let items = self.0.entries.read().values().map(|entry| view(entry)).collect();
        Plugins { items, next_cursor: None, refused_files: self.refused_files().await }
    }

    async fn plugin(&self, name: &str) -> Result<PluginShown, PluginsError> {
        let plugin = self.known(name)?;
        let entry = self.0.entries.read().get(name).cloned();
        Ok(PluginShown { plugin, outcomes: entry.map(|entry| entry.slot.outcomes()).unwrap_or_default() })
    }

    async fn log(&self, name: &str, asked: PluginLogAsked) -> Result<PluginLog, PluginsError> {
        let page = self.0.sandbox.0.log_book.find(name);
        Ok(page.ok_or_else(|| PluginsError::NotFound(name.to_owned()))?.read(asked).await)
    }

    async fn reload(&self, transport: &str, asked: PluginReload, actor: &str) -> Result<PluginChanged, PluginsError> {
        self.known(transport)?;
        tracing::info!(%transport, %actor, force = asked.force, "a reload of the plugin is asked for");
        let reloaded = Fleet::reload(self, transport, of(asked)).await;
        self.changed_to(transport, reloaded)
    }

    async fn roll_back(&self, transport: &str, reason: &str, actor: &str) -> Result<PluginChanged, PluginsError> {
        self.known(transport)?;
        let reason = if reason.is_empty() { "no reason given" } else { reason };
        Fleet::roll_back(self, transport, &format!("by {actor}: {reason}")).await.map_err(refused)?;
        Ok(PluginChanged { changed: true, plugin: self.known(transport)? })
    }

    async fn upload(&self, transport: &str, upload: PluginUpload, actor: &str) -> Result<PluginChanged, PluginsError> {
        self.known(transport)?;
        tracing::info!(%transport, %actor, bytes = upload.component.len(), "a component is handed over, and tried");
        let fetched = Fetched::new(upload.component.to_vec(), upload.signature);
        let reloaded = Fleet::upload(self, transport, fetched, of(upload.reload)).await;
        self.changed_to(transport, reloaded)
    }
}

impl Fleet {
    fn known(&self, transport: &str) -> Result<TransportPlugin, PluginsError> {
        let entry = self.0.entries.read().get(transport).cloned();
        entry.map(|entry| view(&entry)).ok_or_else(|| PluginsError::NotFound(transport.to_owned()))
    }

    fn changed_to(
        &self,
        transport: &str,
        reloaded: Result<Reloaded, SwapError>,
    ) -> Result<PluginChanged, PluginsError> {
        let changed = reloaded.map_err(refused)? != Reloaded::Unchanged;
        Ok(PluginChanged { changed, plugin: self.known(transport)? })
    }
}

fn of(asked: PluginReload) -> Reload {
    Reload { sha256: asked.sha256, force: asked.force }
}

fn refused(error: SwapError) -> PluginsError {
    PluginsError::Refused { code: error.code(), reason: error.to_string() }
}

fn view(entry: &Entry) -> TransportPlugin {
    let (life, spec) = (entry.slot.life(), entry.spec.lock().clone());
    let plugin = entry.slot.plugin();
    let history: Vec<Generation> = life.records().map(generation).collect();
    let find = |number: Option<u32>| history.iter().find(|view| Some(view.generation) == number).cloned();
    let identity = waybill_core::port::transport::Transport::identity(&entry.slot);
    // Between two, the one that serves the calls under way is told.
    let live = find(life.live()).unwrap_or_else(|| Generation {
        generation: identity.generation,
        phase: Phase::Live.word().to_owned(),
        digest: identity.digest,
        plugin: Some(identity.plugin),
        version: Some(identity.version),
        signature: Some(plugin.signature().words()),
        since: Instant::default(),
        until: None,
        code: None,
        reason: None,
    });
    TransportPlugin {
        transport: entry.slot.name().to_owned(),
        world: plugin.manifest().world.to_string(),
        source: spec.source.words(),
        watch: spec.endpoint.settings.watch && spec.source.path().is_some(),
        reload: entry.slot.policy().reload.as_str().to_owned(),
        live,
        previous: find(life.previous()),
        // Without one to go back to it only decides what a restart may go back to.
        probation: life.probation().filter(|_| life.previous().is_some()).map(|probation| Probation {
            until: probation.until_wall.into(),
            losses: probation.losses,
            losses_before: probation.losses_before,
        }),
        rolled_back: life.rolled_back().map(generation),
        refused: history.iter().rev().find(|view| view.phase == Phase::Rejected.word()).cloned(),
        bad: life
            .bad_digests()
            .map(|bad| BadDigest {
                digest: bad.digest.clone(),
                code: bad.why.code.clone(),
                reason: bad.why.reason.clone(),
                at: bad.at.into(),
            })
            .collect(),
        history,
        fallback: entry.fallback.lock().clone(),
    }
}

fn generation(record: &Record) -> Generation {
    let named = record.named.as_ref();
    Generation {
        generation: record.number,
        phase: record.phase.word().to_owned(),
        digest: record.digest.clone(),
        plugin: named.map(|named| named.plugin.clone()),
        version: named.map(|named| named.version.clone()),
        signature: named.map(|named| named.signature.clone()),
        since: record.since.into(),
        until: record.until.map(Into::into),
        code: record.why.as_ref().map(|why| why.code.clone()),
        reason: record.why.as_ref().map(|why| why.reason.clone()),
    }
}
