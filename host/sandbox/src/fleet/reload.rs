//! From a source to a live generation.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use waybill_core::code::Code;

use super::{ComponentSource, Entry, Fleet, ForStart};
use crate::endpoint::label;
use crate::error::SandboxError;
use crate::load::LoadedPlugin;
use crate::manifest::World;
use crate::own::write_whole;
use crate::slot::{Phase, RolledBack, Slot, StageOptions, Staged, SwapError, Swapped};
use crate::verify::{Fetched, signature_path, verify};

/// How a reload is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reload {
    /// Digest that is expected, beside the transport's own pin.
    pub sha256: Option<String>,
    /// Take a component that was rolled back before, one that finds its peer unreachable, and one that is live already.
    pub force: bool,
}

/// What a reload led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The very same component serves already.
    Unchanged,
    /// Another generation is live.
    Live(Swapped),
}

impl Fleet {
    /// Reads, verifies and compiles a component for use as `world`. It is read once: each of the digests that are expected is compared with
    /// what is loaded.
    pub async fn load<'p>(
        &self,
        source: &ComponentSource,
        pins: impl IntoIterator<Item = &'p str>,
        world: World,
    ) -> Result<LoadedPlugin, SwapError> {
        let pins: Vec<&str> = pins.into_iter().collect();
        let fetched = fetch(source).await?;
        for pin in pins {
            verify(&fetched, &self.0.trust.read(), Some(pin))?;
        }
        self.load_fetched(fetched, None, world).await
    }

    /// The same for the start of one: a component that was rolled back before gives way to the last good one.
    pub async fn load_for_start(
        &self,
        world: World,
        name: &str,
        source: &ComponentSource,
        sha256: Option<&str>,
    ) -> Result<ForStart, SwapError> {
        let transport = label(world, name);
        let transport = transport.as_str();
        let fetched = fetch(source).await?;
        let state = self.0.state.as_ref();
        let bad = state.and_then(|state| state.find_bad(transport, fetched.digest()));
        let Some(bad) = bad else {
            let plugin = self.load_fetched(fetched, sha256, world).await?;
            return Ok(ForStart { plugin, fallback: None });
        };
        let good = state.and_then(|state| state.read_good(transport, &self.0.bundled));
        let what = format!(
            "the component at {} ({}) was rolled back on {} ({}: {})",
            source.words(),
            fetched.digest(),
            bad.at,
            bad.why.code,
            bad.why.reason
        );
        // A pin is about what lies at the source; the last good one has been what was pinned then.
        if let Some(good) = good
            && let Ok(plugin) = self.load_fetched(good, None, world).await
        {
            let fallback = format!("{what}: the last good one ({}) serves instead", plugin.digest());
            tracing::error!(%transport, code = Code::PLUGIN_REMEMBERED_BAD.as_str(), "{fallback}");
            return Ok(ForStart { plugin, fallback: Some(fallback) });
        }
        tracing::error!(%transport, code = Code::PLUGIN_REMEMBERED_BAD.as_str(), "{what}, and there is no good one to serve instead: it is used all the same");
        let plugin = self.load_fetched(fetched, sha256, world).await?;
        Ok(ForStart { plugin, fallback: None })
    }

    /// Reads a transport's component from its source again and makes it live unless it is already.
    pub async fn reload(&self, transport: &str, reload: Reload) -> Result<Reloaded, SwapError> {
        let (fleet, entry) = (self.clone(), self.entry(transport)?);
        // What was begun is ended, whether or not its caller waits.
        let work = tokio::spawn(async move {
            let _one = entry.reloading.lock().await;
            let source = entry.spec.lock().source.clone();
            let fetched = match fetch(&source).await {
                Ok(fetched) => fetched,
                Err(error) => {
                    entry.slot.refuse(entry.slot.candidate(""), &error);
                    return Err(error);
                }
            };
            fleet.make_live(&entry, fetched, &reload, None).await
        });
        work.await.unwrap_or_else(|_| Err(SwapError::Closed { endpoint: transport.to_owned() }))
    }

    /// Tries a component, puts it where the transport's plugin comes from (a file of the plugins folder), and makes it live.
    pub async fn upload(&self, transport: &str, fetched: Fetched, reload: Reload) -> Result<Reloaded, SwapError> {
        let (fleet, entry) = (self.clone(), self.entry(transport)?);
        let name = transport.to_owned();
        let work = tokio::spawn(async move {
            let _one = entry.reloading.lock().await;
            let target = fleet.upload_target(&name, &entry)?;
            fleet.make_live(&entry, fetched, &reload, Some(target)).await
        });
        work.await.unwrap_or_else(|_| Err(SwapError::Closed { endpoint: transport.to_owned() }))
    }

    /// Goes back to the generation before. What is configured stays configured: a later reload starts from it.
    pub async fn roll_back(&self, transport: &str, reason: &str) -> Result<RolledBack, SwapError> {
        let entry = self.entry(transport)?;
        entry.slot.roll_back(reason).await
    }

    /// A file that nobody else may name: the source itself, when it lies in the plugins folder.
    fn upload_target(&self, transport: &str, entry: &Entry) -> Result<PathBuf, SwapError> {
        let folder = self.0.folder.read().clone();
        let source = entry.spec.lock().source.clone();
        match (source.path(), folder) {
            (Some(path), Some(folder)) if path.parent() == Some(folder.as_path()) => Ok(path.to_owned()),
            _ => Err(SwapError::NotInFolder { endpoint: transport.to_owned(), source_words: source.words() }),
        }
    }

    async fn make_live(
        &self,
        entry: &Entry,
        fetched: Fetched,
        reload: &Reload,
        put: Option<PathBuf>,
    ) -> Result<Reloaded, SwapError> {
        let slot = &entry.slot;
        let pinned = entry.spec.lock().endpoint.settings.sha256.clone();
        let trust = self.0.trust.read().clone();
        let is_live = slot.plugin().digest() == fetched.digest();
        let pins = [reload.sha256.as_deref(), pinned.as_deref()];
        let verified = pins.iter().try_for_each(|pin| verify(&fetched, &trust, *pin).map(|_| ()));
        if is_live && !reload.force && verified.is_ok() {
            return Ok(Reloaded::Unchanged);
        }
        let number = slot.candidate(fetched.digest());
        let staged = match verified {
            Ok(()) => self.try_out(entry, number, fetched.clone(), reload.force).await,
            Err(error) => Err(error.into()),
        };
        // A refusal by the slot itself has been noted; noting it again changes nothing.
        let staged = staged.inspect_err(|error| slot.refuse(number, error))?;
        let before = match put {
            Some(path) => Some(exchange(slot, path, fetched).await.inspect_err(|error| slot.refuse(number, error))?),
            None => None,
        };
        let swapped = match slot.swap(staged).await {
            Ok(swapped) => swapped,
            Err(error) => {
                if let Some(before) = before {
                    before.put_back(slot).await;
                }
                return Err(error);
            }
        };
        *entry.fallback.lock() = None;
        Ok(Reloaded::Live(swapped))
    }

    async fn try_out(&self, entry: &Entry, number: u32, fetched: Fetched, force: bool) -> Result<Staged, SwapError> {
        let slot: &Slot = &entry.slot;
        // Before it is compiled: that takes seconds.
        slot.check_bad(fetched.digest(), force)?;
        slot.advance(number, Phase::Verified);
        let pin = entry.spec.lock().endpoint.settings.sha256.clone();
        let plugin = self.load_fetched(fetched, pin.as_deref(), entry.world).await?;
        slot.advance(number, Phase::Linked);
        let endpoint = entry.spec.lock().endpoint.clone();
        slot.stage(plugin, endpoint, StageOptions { force, number: Some(number), ..StageOptions::default() }).await
    }

    async fn load_fetched(
        &self,
        fetched: Fetched,
        sha256: Option<&str>,
        world: World,
    ) -> Result<LoadedPlugin, SwapError> {
        let signature = verify(&fetched, &self.0.trust.read(), sha256)?;
        let sandbox = self.0.sandbox.clone();
        let loading = tokio::task::spawn_blocking(move || sandbox.load_fetched(fetched, signature, world));
        loading.await.map_err(|error| SandboxError::Compile { cause: error.to_string() })?.map_err(SwapError::from)
    }
}

async fn fetch(source: &ComponentSource) -> Result<Fetched, SwapError> {
    let source = source.clone();
    let fetching = tokio::task::spawn_blocking(move || source.fetch()).await;
    let ended = |error: tokio::task::JoinError| SandboxError::Compile { cause: error.to_string() };
    Ok(fetching.map_err(ended)??)
}

/// What lay in a transport's file before another component took its place.
struct Before {
    path: PathBuf,
    /// None = no file.
    component: Option<Fetched>,
}

/// Puts a component in place and keeps what lay there.
async fn exchange(slot: &Slot, path: PathBuf, fetched: Fetched) -> Result<Before, SwapError> {
    let work = tokio::task::spawn_blocking(move || {
        // What can't be read couldn't be loaded either, and needn't come back.
        let component = Fetched::read(&path).ok();
        put_in_place(&path, &fetched)?;
        Ok(Before { path, component })
    });
    work.await.unwrap_or_else(|_| Err(SwapError::Closed { endpoint: slot.name().to_owned() }))
}

impl Before {
    /// The new one never became live: what a restart finds is what served.
    async fn put_back(self, slot: &Slot) {
        let shown = self.path.display().to_string();
        let work = tokio::task::spawn_blocking(move || match &self.component {
            Some(component) => put_in_place(&self.path, component),
            None => {
                let gone = std::fs::remove_file(&self.path).and(std::fs::remove_file(signature_path(&self.path)));
                gone.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
                    .map_err(|error| write_error(&self.path, &error))
            }
        });
        let put = work.await.unwrap_or_else(|_| Err(SwapError::Closed { endpoint: slot.name().to_owned() }));
        if let Err(error) = put {
            tracing::error!(transport = slot.name(), path = shown, code = error.code().as_str(), %error, "the component that was refused is still in its file: a restart would load it");
        }
    }
}

fn write_error(path: &Path, error: &std::io::Error) -> SwapError {
    SandboxError::Write { path: path.display().to_string(), cause: error.to_string() }.into()
}

/// Writes a component and its signature beside their places and renames them into place: a reader sees all of one or the
/// other. The signature goes first; a component that doesn't fit it yet is refused, not loaded.
fn put_in_place(path: &Path, fetched: &Fetched) -> Result<(), SwapError> {
    let failed = |error: std::io::Error| write_error(path, &error);
    let signature = signature_path(path);
    match fetched.signature() {
        Some(text) => write_whole(&signature, &[text.as_bytes()], true).map_err(failed)?,
        None => match std::fs::remove_file(&signature) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        },
    }
    write_whole(path, &[fetched.bytes()], true).map_err(failed)?;
    Ok(())
}
