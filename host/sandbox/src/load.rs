//! From bytes to a plugin that can be instantiated: parsed, checked against the contract, compiled, linked.
//!
//! Nothing of the guest runs here. Compiling takes 0.1 s for a Rust component and 8 s for a Python one, so
//! [`Sandbox::load`] does it off the runtime's workers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest, Sha256};
use wasmparser::{Parser, Payload};
use wasmtime::Engine;
use wasmtime::component::{Component, InstancePre};

use waybill_bindings::backoff::exports::waybill::plugin::backoff_api;

use crate::cache::CodeOrigin;
use crate::compile::EngineKind;
use crate::contract;
use crate::engine::Sandbox;
use crate::error::{SandboxError, one_line};
use crate::host::InstanceState;
use crate::instance::Exports;
use crate::limits::COMPONENT_BYTES_MAX;
use crate::manifest::{Manifest, World};
use crate::pure::PureState;
use crate::text::hex;
use crate::verify::{Fetched, SignatureState};

/// Section that holds the manifest.
const MANIFEST_SECTION: &str = "waybill-plugin";

/// Where a plugin's bytes come from.
#[derive(Clone, Debug)]
pub enum PluginSource {
    /// A component in memory, e.g. a bundled one.
    Bytes(Arc<[u8]>),
    /// A component embedded in the binary.
    Embedded(&'static [u8]),
    File(PathBuf),
}

/// What a component says of itself, read without compiling or running it.
#[derive(Clone, Debug)]
pub struct Inspection {
    pub manifest: Manifest,
    /// `sha256:<hex>` of the component.
    pub digest: String,
    /// Size of the component, in bytes.
    pub bytes: usize,
    pub imports: Vec<String>,
    pub exports: Vec<String>,
}

/// A plugin ready to be instantiated. Cheap to clone.
#[derive(Clone)]
pub struct LoadedPlugin(pub(crate) Arc<Loaded>);

pub(crate) struct Loaded {
    pub(crate) inspection: Inspection,
    pub(crate) linked: Linked,
    origin: CodeOrigin,
    /// What was loaded, and who vouches for it.
    fetched: Fetched,
    signature: SignatureState,
    /// Keeps engines and ticker alive.
    pub(crate) sandbox: Sandbox,
}

pub(crate) enum Linked {
    /// A world that does I/O.
    Services {
        pre: InstancePre<InstanceState>,
        exports: Exports,
    },
    Backoff {
        pre: InstancePre<PureState>,
        guest: backoff_api::GuestIndices,
    },
}

impl std::fmt::Debug for LoadedPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedPlugin").field("inspection", &self.0.inspection).finish_non_exhaustive()
    }
}

impl LoadedPlugin {
    pub fn manifest(&self) -> &Manifest {
        &self.0.inspection.manifest
    }
    /// `sha256:<hex>` of the component.
    pub fn digest(&self) -> &str {
        &self.0.inspection.digest
    }
    /// What it says of itself.
    pub fn inspection(&self) -> &Inspection {
        &self.0.inspection
    }
    /// Whether it can create what is missing at its peer.
    pub fn provisions(&self) -> bool {
        matches!(&self.0.linked, Linked::Services { exports, .. } if exports.provisions())
    }
    /// Who vouches for it.
    pub fn signature(&self) -> &SignatureState {
        &self.0.signature
    }
    /// The component it was loaded from.
    pub fn component(&self) -> &Fetched {
        &self.0.fetched
    }
    /// Whether it was compiled now or came from the cache.
    pub fn origin(&self) -> CodeOrigin {
        self.0.origin
    }
}

impl Sandbox {
    /// Loads a plugin for use as `world`, on a thread of the blocking pool. If the answer isn't waited for, a compiler that
    /// runs in a process of its own is ended.
    pub async fn load(&self, source: PluginSource, world: World) -> Result<LoadedPlugin, SandboxError> {
        let sandbox = self.clone();
        let waits = Waits::default();
        let given_up = Arc::clone(&waits.0);
        tokio::task::spawn_blocking(move || {
            let (fetched, signature) = fetch(&source)?;
            sandbox.load_until(fetched, signature, world, &given_up)
        })
        .await
        .map_err(|error| SandboxError::Compile { cause: error.to_string() })?
    }

    /// Loads exactly the bytes that were fetched and verified, on this thread.
    pub fn load_fetched(
        &self,
        fetched: Fetched,
        signature: SignatureState,
        world: World,
    ) -> Result<LoadedPlugin, SandboxError> {
        self.load_until(fetched, signature, world, &AtomicBool::new(false))
    }

    fn load_until(
        &self,
        fetched: Fetched,
        signature: SignatureState,
        world: World,
        given_up: &AtomicBool,
    ) -> Result<LoadedPlugin, SandboxError> {
        let bytes = fetched.bytes();
        let inspection = inspect(bytes)?;
        let manifest = &inspection.manifest;
        if !manifest.world.serves(world) {
            return Err(SandboxError::OtherWorld {
                plugin: manifest.name.clone(),
                found: manifest.world,
                asked: world,
            });
        }
        contract::check(&inspection)?;
        let kind = if world == World::Backoff { EngineKind::Pure } else { EngineKind::Services };
        // What is in this binary is as trusted as the binary.
        let trusted = matches!(signature, SignatureState::Bundled);
        let (component, origin) = self.compile(kind, bytes, &inspection.digest, trusted, given_up)?;
        let linked = self.link(&component, &inspection, world)?;
        Ok(LoadedPlugin(Arc::new(Loaded { inspection, linked, origin, fetched, signature, sandbox: self.clone() })))
    }

    fn compile(
        &self,
        kind: EngineKind,
        bytes: &[u8],
        digest: &str,
        trusted: bool,
        given_up: &AtomicBool,
    ) -> Result<(Component, CodeOrigin), SandboxError> {
        let engine = match kind {
            EngineKind::Services => &self.0.services,
            EngineKind::Pure => &self.0.pure,
        };
        if let Some(component) = self.0.cache.as_ref().and_then(|cache| cache.read(engine, digest)) {
            return Ok((component, CodeOrigin::Cached));
        }
        let (component, code) = self.0.compiler.compile(engine, kind, bytes, trusted, given_up)?;
        if let Some(cache) = &self.0.cache
            && let Err(error) = cache.write(engine, digest, &code)
        {
            // A full disk must not keep a plugin from serving.
            tracing::warn!(%error, "a compiled plugin couldn't be cached");
        }
        Ok((component, CodeOrigin::Compiled))
    }

    fn link(&self, component: &Component, inspection: &Inspection, world: World) -> Result<Linked, SandboxError> {
        let mismatch = |error: wasmtime::Error| SandboxError::TypeMismatch { cause: one_line(&error) };
        if world == World::Backoff {
            let pre = self.0.pure_linker.instantiate_pre(component).map_err(mismatch)?;
            let guest = backoff_api::GuestIndices::new(&pre).map_err(mismatch)?;
            contract::check_backoff_types(&pre).map_err(mismatch)?;
            return Ok(Linked::Backoff { pre, guest });
        }
        let pre = self.0.services_linker.instantiate_pre(component).map_err(mismatch)?;
        let exports = Exports::find(&pre, world, contract::provisions(inspection)).map_err(mismatch)?;
        Ok(Linked::Services { pre, exports })
    }
}

/// The bytes of a source, and who vouches for them.
fn fetch(source: &PluginSource) -> Result<(Fetched, SignatureState), SandboxError> {
    Ok(match source {
        PluginSource::Bytes(bytes) => (Fetched::new(Arc::clone(bytes), None), SignatureState::Unsigned),
        PluginSource::Embedded(bytes) => (Fetched::bundled(bytes), SignatureState::Bundled),
        PluginSource::File(path) => (Fetched::read(path)?, SignatureState::Unsigned),
    })
}

/// Says that nobody waits any more when it is dropped.
#[derive(Default)]
struct Waits(Arc<AtomicBool>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Reads what a component says of itself. Parses all of it, so a truncated file is found here.
pub fn inspect(bytes: &[u8]) -> Result<Inspection, SandboxError> {
    if bytes.len() > COMPONENT_BYTES_MAX {
        return Err(SandboxError::TooLarge { bytes: bytes.len(), bytes_max: COMPONENT_BYTES_MAX });
    }
    if Parser::is_core_wasm(bytes) {
        return Err(SandboxError::CoreModule);
    }
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(SandboxError::Precompiled);
    }
    if !Parser::is_component(bytes) {
        return Err(SandboxError::NotAComponent { cause: "it doesn't begin like one".to_owned() });
    }
    let mut manifests = Manifests::default();
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let mut depth = 0_usize;
    let broken = |error: wasmparser::BinaryReaderError| SandboxError::NotAComponent { cause: error.to_string() };
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(broken)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    imports.push(import.map_err(broken)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    exports.push(export.map_err(broken)?.name.name.to_owned());
                }
            }
            Payload::CustomSection(section) if section.name() == MANIFEST_SECTION => {
                manifests.found(depth, section.data());
            }
            _ => {}
        }
    }
    let manifest = Manifest::parse(manifests.only()?)?;
    let digest = hex(&Sha256::digest(bytes));
    Ok(Inspection { manifest, digest: format!("sha256:{digest}"), bytes: bytes.len(), imports, exports })
}

/// Manifest sections of a component: those at its top level, and those inside its parts.
#[derive(Default)]
struct Manifests<'a> {
    top: Vec<&'a [u8]>,
    inner: Vec<&'a [u8]>,
}

impl<'a> Manifests<'a> {
    fn found(&mut self, depth: usize, data: &'a [u8]) {
        let list = if depth == 0 { &mut self.top } else { &mut self.inner };
        if !list.contains(&data) {
            list.push(data);
        }
    }

    fn only(self) -> Result<&'a [u8], SandboxError> {
        let list = if self.top.is_empty() { self.inner } else { self.top };
        let mut each = list.into_iter();
        let first = each.next().ok_or(SandboxError::NoManifest)?;
        if each.next().is_some() {
            return Err(SandboxError::BadManifest { cause: "it holds two different manifests: keep one".to_owned() });
        }
        Ok(first)
    }
}
