//! Plugins of a host that has no sandbox: generations that follow one another by the rules of swaps, and nothing that runs.
//! What it doesn't do: compile, probe, probation. A new generation takes over at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use waybill_api::plugin_outcomes::{GenerationOutcomes, PluginShown};
use waybill_api::plugins::{
    BadDigest, Generation, PluginChanged, PluginLog, PluginLogAsked, PluginLogLine, PluginReload, PluginService,
    PluginUpload, Plugins, RefusedFile, TransportPlugin,
};
use waybill_core::code::Code;
use waybill_core::message::Payload;
use waybill_core::outbox::records::payload_sha256;
use waybill_core::port::plugins::PluginsError;
use waybill_core::port::transport::{PluginIdentity, Transport};

use super::StandingClock;
use crate::fake_transport::FakeTransport;

/// How a WebAssembly file begins.
const MAGIC: &[u8] = b"\0asm";

pub struct MemoryPlugins {
    clock: StandingClock,
    slots: Mutex<BTreeMap<String, Slot>>,
    refused_files: Mutex<Vec<RefusedFile>>,
}

/// The plugin of one transport.
struct Slot {
    transport: Arc<FakeTransport>,
    plugin: TransportPlugin,
    /// Digest of what a reload finds.
    source: String,
    /// What every change comes to; none = it is done.
    refusal: Option<PluginsError>,
    log: Vec<PluginLogLine>,
    outcomes: Vec<GenerationOutcomes>,
}

impl MemoryPlugins {
    pub(super) fn new(clock: StandingClock, transports: impl IntoIterator<Item = Arc<FakeTransport>>) -> Self {
        let slots = transports.into_iter().map(|transport| {
            let slot = Slot::new(&clock, transport);
            (slot.plugin.transport.clone(), slot)
        });
        Self { slots: Mutex::new(slots.collect()), clock, refused_files: Mutex::default() }
    }

    /// Puts another component where the transport's plugin is read from. `sha256` is its digest in hex.
    pub fn build(&self, transport: &str, sha256: &str) {
        self.with(transport, |slot| slot.source = format!("sha256:{sha256}"));
    }

    /// From now on every change of this transport's plugin is refused.
    pub fn refuse(&self, transport: &str, code: Code, reason: &str) {
        let refusal = PluginsError::Refused { code, reason: reason.to_owned() };
        self.with(transport, |slot| slot.refusal = Some(refusal));
    }

    /// A generation of the plugin did so.
    pub fn did(&self, transport: &str, outcomes: GenerationOutcomes) {
        self.with(transport, |slot| slot.outcomes.push(outcomes));
    }

    /// The plugin writes a line into its log.
    pub fn writes(&self, transport: &str, level: &str, message: &str, fields: &[(&str, &str)]) {
        let at = self.clock.wall().into();
        self.with(transport, |slot| {
            slot.log.push(PluginLogLine {
                number: slot.log.len() as u64 + 1,
                at,
                level: level.to_owned(),
                generation: slot.plugin.live.generation,
                instance: Some(0),
                message: message.to_owned(),
                fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            });
        });
    }

    /// Puts a file into the folder of plugins that can't be used.
    pub fn refuse_file(&self, file: &str, code: Code, reason: &str) {
        let (file, code, reason) = (file.to_owned(), code.as_str().to_owned(), reason.to_owned());
        self.refused_files.lock().push(RefusedFile { file, code, reason });
    }

    fn with(&self, transport: &str, change: impl FnOnce(&mut Slot)) {
        change(self.slots.lock().get_mut(transport).unwrap_or_else(|| panic!("there is no transport {transport}")));
    }

    fn change(
        &self,
        transport: &str,
        change: impl FnOnce(&mut Slot) -> Result<bool, PluginsError>,
    ) -> Result<PluginChanged, PluginsError> {
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(transport).ok_or_else(|| PluginsError::NotFound(transport.to_owned()))?;
        if let Some(refusal) = &slot.refusal {
            return Err(refusal.clone());
        }
        let changed = change(slot)?;
        Ok(PluginChanged { changed, plugin: slot.plugin.clone() })
    }
}

impl Slot {
    fn new(clock: &StandingClock, transport: Arc<FakeTransport>) -> Self {
        let PluginIdentity { plugin, version, digest, generation } = transport.identity();
        let live = Generation {
            generation,
            phase: "live".to_owned(),
            digest: digest.clone(),
            plugin: Some(plugin.clone()),
            version: Some(version),
            signature: None,
            since: clock.wall().into(),
            until: None,
            code: None,
            reason: None,
        };
        let plugin = TransportPlugin {
            transport: transport.name().to_owned(),
            world: "transport".to_owned(),
            source: format!("bundled:{plugin}"),
            watch: false,
            reload: "overlap".to_owned(),
            live,
            previous: None,
            probation: None,
            refused: None,
            rolled_back: None,
            history: Vec::new(),
            bad: Vec::new(),
            fallback: None,
        };
        Self { transport, plugin, source: digest, refusal: None, log: Vec::new(), outcomes: Vec::new() }
    }

    /// Takes another component, unless it is the live one or one that was rolled back. True when it is another generation.
    fn take(&mut self, clock: &StandingClock, digest: &str, asked: &PluginReload) -> Result<bool, PluginsError> {
        let refused = |code, reason: String| Err(PluginsError::Refused { code, reason });
        if asked.sha256.as_ref().is_some_and(|pinned| format!("sha256:{pinned}") != digest) {
            return refused(Code::PLUGIN_DIGEST_MISMATCH, format!("it is {digest}"));
        }
        if let Some(bad) = self.plugin.bad.iter().find(|bad| bad.digest == digest && !asked.force) {
            return refused(Code::PLUGIN_REMEMBERED_BAD, format!("it was rolled back: {}", bad.reason));
        }
        if self.plugin.live.digest == digest {
            return Ok(false);
        }
        self.follow(clock, digest, None);
        Ok(true)
    }

    /// The next generation takes over. `why` = the one before is given up for this code and reason.
    fn follow(&mut self, clock: &StandingClock, digest: &str, why: Option<(Code, &str)>) {
        let now = clock.wall().into();
        let live = Generation {
            generation: self.plugin.live.generation + 1,
            digest: digest.to_owned(),
            since: now,
            ..self.plugin.live.clone()
        };
        let mut before = std::mem::replace(&mut self.plugin.live, live);
        (before.phase, before.until) = ("gone".to_owned(), Some(now));
        before.code = why.map(|(code, _)| code.as_str().to_owned());
        before.reason = why.map(|(_, reason)| reason.to_owned());
        self.plugin.history.push(before.clone());
        self.plugin.rolled_back = why.is_some().then(|| before.clone());
        self.plugin.previous = Some(before);
        let (generation, digest) = (self.plugin.live.generation, digest.to_owned());
        self.transport.set_identity(|identity| (identity.generation, identity.digest) = (generation, digest));
    }
}

#[async_trait]
impl PluginService for MemoryPlugins {
    async fn plugins(&self) -> Plugins {
        let items = self.slots.lock().values().map(|slot| slot.plugin.clone()).collect();
        Plugins { items, next_cursor: None, refused_files: self.refused_files.lock().clone() }
    }

    async fn plugin(&self, name: &str) -> Result<PluginShown, PluginsError> {
        let slots = self.slots.lock();
        let slot = slots.get(name).ok_or_else(|| PluginsError::NotFound(name.to_owned()))?;
        Ok(PluginShown { plugin: slot.plugin.clone(), outcomes: slot.outcomes.iter().rev().cloned().collect() })
    }

    async fn log(&self, name: &str, asked: PluginLogAsked) -> Result<PluginLog, PluginsError> {
        let slots = self.slots.lock();
        let slot = slots.get(name).ok_or_else(|| PluginsError::NotFound(name.to_owned()))?;
        let items: Vec<PluginLogLine> =
            slot.log.iter().filter(|line| line.number > asked.after).take(asked.limit).cloned().collect();
        Ok(PluginLog { next: items.last().map_or(asked.after, |line| line.number), items, missed: 0 })
    }

    async fn reload(&self, transport: &str, asked: PluginReload, _actor: &str) -> Result<PluginChanged, PluginsError> {
        self.change(transport, |slot| {
            let digest = slot.source.clone();
            slot.take(&self.clock, &digest, &asked)
        })
    }

    async fn roll_back(&self, transport: &str, reason: &str, actor: &str) -> Result<PluginChanged, PluginsError> {
        self.change(transport, |slot| {
            let none =
                || PluginsError::Refused { code: Code::PLUGIN_NO_PREVIOUS, reason: "it is the first".to_owned() };
            let digest = slot.plugin.previous.as_ref().ok_or_else(none)?.digest.clone();
            let (code, reason) = (Code::PLUGIN_ROLLED_BACK, format!("by {actor}: {reason}"));
            let bad = slot.plugin.live.digest.clone();
            let at = self.clock.wall().into();
            slot.plugin.bad.push(BadDigest { digest: bad, code: code.as_str().to_owned(), reason: reason.clone(), at });
            slot.follow(&self.clock, &digest, Some((code, &reason)));
            Ok(true)
        })
    }

    async fn upload(&self, transport: &str, upload: PluginUpload, _actor: &str) -> Result<PluginChanged, PluginsError> {
        let PluginUpload { component, signature, reload } = upload;
        self.change(transport, |slot| {
            if !component.starts_with(MAGIC) {
                let reason = "it doesn't begin as WebAssembly does".to_owned();
                return Err(PluginsError::Refused { code: Code::PLUGIN_NOT_A_COMPONENT, reason });
            }
            let changed = slot.take(&self.clock, &digest_of(component), &reload)?;
            slot.plugin.live.signature = signature.map(|signature| format!("signed: {signature}"));
            Ok(changed)
        })
    }
}

fn digest_of(component: Bytes) -> String {
    format!("sha256:{}", payload_sha256(&Payload::Inline(component)))
}
