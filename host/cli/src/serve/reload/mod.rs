//! The configuration of a running host, read again: by SIGHUP, by a change of its file, by the API.
//!
//! ```text
//! source (file, environment, flags) ─▶ load and check ─▶ load plugins ─▶ try every change beside what serves
//!                                                                             │ all of them, or nothing
//!                                                   Engine::reconfigure ◀── swap ◀┘
//! ```
//! | file | holds |
//! |---|---|
//! | `diff` | what differs, and when it counts |
//! | `apply` | trying transports, handlers and sources, and making them live |
//! | `steps` | the same of participants and of the retry policy |
//! | `watch` | a file that changes |
//!
//! Until everything has been tried nothing has changed. What needs a restart is named in the answer and stays pending: the
//! next reload names it again.

mod apply;
mod diff;
mod steps;
mod watch;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use parking_lot::RwLock;
use serde_json::json;
use tokio::sync::Mutex;
use waybill_api::configuration::{ConfigurationService, Effect, ReloadRefused, Reloaded, SettingView};
use waybill_core::changes::{Change, ChangeKind};
use waybill_core::code::Code;
use waybill_core::port::changes::Changes as _;
use waybill_core::port::transact::{AuditEvent, TransactStore};
use waybill_core::route::Routes;
use waybill_core::time::UnixMillis;
use waybill_engine::{ChangeFeed, Engine, Participants, Refusal};
use waybill_sandbox::{Fleet, SwapError};
use waybill_server::auth::Tokens;
use waybill_server::tls::{Encryption, Tls};
use waybill_store::SurrealStore;

use crate::config::reader::Shown;
use crate::config::{Config, TlsSettings};
use crate::exit::CliError;
use crate::plugins::{self, PluginError};
use crate::saga_definitions;
use crate::serve::compose;
use crate::serve::inbound::{self, InForce};
use crate::setup::Source;

pub use watch::watch;

/// What a reload works on.
#[derive(Clone)]
pub struct Host {
    /// Where the configuration is read from.
    pub source: Source,
    /// Transports with their plugins.
    pub fleet: Fleet,
    /// Routes, retries, and what is sent.
    pub engine: Arc<Engine>,
    /// Sources, consumers and tables, as they are in force.
    pub inbound: InForce,
    /// What `fn:` steps of sagas are called through.
    pub participants: Arc<Participants>,
    pub store: Arc<SurrealStore>,
    /// Where reloads are noted.
    pub trail: Arc<dyn TransactStore>,
    /// Its certificate, if there is one, is read again, from where the configuration now says it is.
    pub encryption: Encryption,
    /// Told of each reload, and of each that was refused.
    pub changes: Arc<ChangeFeed>,
    /// Who may call, where anybody is asked for a token.
    pub tokens: Tokens,
    /// Whoever calls is asked for one, as long as this host runs.
    pub asks_for_tokens: bool,
}

/// A running host's configuration. Cheap to clone.
#[derive(Clone)]
pub struct Reloader {
    host: Host,
    /// What is in force. Held while it is changed: one reload at a time.
    running: Arc<Mutex<Config>>,
    /// The same as it is shown. A look at it waits for no reload.
    settings: Arc<RwLock<Vec<SettingView>>>,
}

impl Reloader {
    /// Over a host that runs with this configuration.
    pub fn new(host: Host, running: Config) -> Self {
        let settings = Arc::new(RwLock::new(in_force(&running.shown)));
        Self { host, running: Arc::new(Mutex::new(running)), settings }
    }

    /// Reads the configuration again and logs what came of it. The answer is whether it was refused for something that passes: then the
    /// same may be tried again.
    pub async fn reload_and_log(&self, because: &str) -> bool {
        match self.reload(true, because).await {
            Ok(reloaded) if reloaded.changes.is_empty() => {
                tracing::info!(because, "the configuration is as it was");
                false
            }
            Ok(reloaded) => {
                for warning in &reloaded.warnings {
                    tracing::warn!("{warning}");
                }
                let keys = |effect: Effect| -> Vec<&str> {
                    let those = reloaded.changes.iter().filter(|change| change.effect == effect);
                    those.map(|change| change.key.as_str()).collect()
                };
                let (now, restart) = (keys(Effect::Now), keys(Effect::Restart));
                tracing::info!(because, changed = ?now, after_a_restart = ?restart, "another configuration is in force");
                false
            }
            Err(refused) => {
                // A log entry is one line, whatever its fields are.
                let why = refused.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ");
                tracing::error!(
                    because,
                    code = Code::CONFIG_RELOAD_REFUSED.as_str(),
                    "the configuration before stays in force: {why}"
                );
                refused.retryable
            }
        }
    }

    async fn reload_now(&self, apply: bool, actor: &str) -> Result<Reloaded, ReloadRefused> {
        let mut running = self.running.lock().await;
        let mut next = self.host.source.read().map_err(|error| refused(error.code(), error.to_string(), false))?;
        if self.host.asks_for_tokens && !next.auth.required {
            leave_out_implied(&mut next);
        }
        let certificate = match (&self.host.encryption, &next.server.tls) {
            (Encryption::Tls(tls), Some(TlsSettings { cert, key })) => {
                let renewed =
                    Tls::renewed(cert, key).map_err(|error| refused(error.code(), error.to_string(), false))?;
                Some((tls, renewed))
            }
            // To begin with TLS or to end with it takes a restart.
            _ => None,
        };
        // To begin to ask for tokens, or to end it, takes a restart.
        let known = crate::serve::tokens(&next.auth.tokens).map_err(|error| of_cli(&error))?;
        let trust = |config: &Config| (plugins::trust(&config.plugins), config.plugins.folder.clone());
        let (keys, folder) = trust(&next);
        // Whose signatures count is part of the trial: nothing that is loaded meanwhile goes by it.
        let draft = self.host.fleet.draft(keys.clone(), folder.clone());
        let mut reloaded = self.put_in_force(&mut running, next, &draft, apply).await;
        if apply && let Ok(done) = &mut reloaded {
            if let Some((tls, renewed)) = certificate {
                tls.put_in_force(renewed);
            }
            self.host.tokens.put_in_force(&known);
            self.host.fleet.configure(keys, folder).await;
            done.warnings.extend(self.define(running.saga.definitions.as_deref()).await);
        }
        if apply {
            self.audit(actor, &reloaded).await;
        }
        reloaded
    }

    /// Stores the folder of definitions, whose files may have changed. The answer are those that weren't stored: each is told, none
    /// stops the reload.
    async fn define(&self, folder: Option<&Path>) -> Vec<String> {
        let Some((sagas, folder)) = self.host.engine.sagas().zip(folder) else { return Vec::new() };
        let results = saga_definitions::define_all(sagas.as_ref(), folder).await;
        saga_definitions::log(&results);
        let refused = results.iter().filter_map(|one| one.result.as_ref().err().map(|error| (&one.file, error)));
        refused.map(|(file, error)| format!("{}: not stored as a saga's definition: {error}", file.display())).collect()
    }

    async fn put_in_force(
        &self,
        running: &mut Config,
        mut next: Config,
        draft: &Fleet,
        apply: bool,
    ) -> Result<Reloaded, ReloadRefused> {
        let prepared = plugins::prepare(draft, &next).await.map_err(|errors| of_plugins(&errors))?;
        // What a call may hold is part of what an instance is opened with.
        let same_calls =
            (running.outbox.batch, running.outbox.batch_bytes) == (next.outbox.batch, next.outbox.batch_bytes);
        let mut sagas =
            compose::saga_settings(&next, self.host.fleet.sandbox().own_listeners()).map_err(|error| of_cli(&error))?;
        if running.saga == next.saga {
            // The client of `http:` steps keeps its connections.
            sagas.http = None;
        }
        let transports = diff::transports(&running.transports, &next.transports, same_calls);
        let mut reloaded = Reloaded {
            applied: apply,
            file: next.file.as_ref().map(|file| file.display().to_string()),
            changes: diff::changes(&running.shown, &next.shown),
            added: transports.added.clone(),
            changed: transports.changed.clone(),
            removed: transports.removed.clone(),
            warnings: next.warnings.clone(),
        };
        reloaded.warnings.extend(plugins::warnings(&prepared));
        let refusal = self.host.engine.refusal(&inbound::homes(&next)).map(of_engine);
        match refusal {
            Some(refused) if apply => return Err(refused),
            Some(refused) => diff::refuse(&mut reloaded, &refused),
            None => {}
        }
        if !apply {
            return Ok(reloaded);
        }
        // Most of it counts after a restart: what runs goes on with what it began with.
        next.streams = running.streams.reloaded(&next.streams);
        apply::apply(&self.host, (&*running, &next), sagas, prepared, &transports).await?;
        self.host.store.set_indexes(next.indexes.clone());
        if let Err(error) = self.host.store.publish_event_limits(&next.streams).await {
            let goes_on = "fn::waybill::append goes by the limits of before: reload again";
            reloaded.warnings.push(format!("[events]: {goes_on} ({error})"));
        }
        next.shown = still_pending(&running.shown, std::mem::take(&mut next.shown));
        *self.settings.write() = in_force(&next.shown);
        *running = next;
        Ok(reloaded)
    }

    /// Tells of a reload that changed something, and of one that was refused.
    fn tell(&self, actor: &str, result: &Result<Reloaded, ReloadRefused>) {
        let change = |kind| Change::new(now(), kind, "configuration").by(actor);
        let told = match result {
            Ok(done) if done.changes.is_empty() => return,
            Ok(done) => {
                let keys: Vec<&str> = done.changes.iter().map(|change| change.key.as_str()).collect();
                change(ChangeKind::ConfigurationReloaded).detail(&keys.join(", "))
            }
            Err(refused) => change(ChangeKind::ConfigurationRefused).code(&refused.code).detail(&refused.message),
        };
        self.host.changes.note(told);
    }

    async fn audit(&self, actor: &str, result: &Result<Reloaded, ReloadRefused>) {
        let detail = match result {
            Ok(done) => json!({
                "file": done.file, "added": done.added, "changed": done.changed, "removed": done.removed,
                "settings": done.changes.iter().map(|change| &change.key).collect::<Vec<_>>(),
            }),
            Err(refused) => json!({ "code": refused.code, "error": refused.message }),
        };
        let event = AuditEvent {
            at: now(),
            kind: "ConfigurationReloaded".to_owned(),
            actor: actor.to_owned(),
            tenant: None,
            object: "configuration".to_owned(),
            detail,
        };
        // What is done is done: a trail that can't be written is told to the log.
        if let Err(error) = self.host.trail.audit(&event).await {
            tracing::error!(code = error.code().as_str(), %error, ?event, "an operator's act could not be written to the audit trail");
        }
    }
}

#[async_trait]
impl ConfigurationService for Reloader {
    async fn reload(&self, apply: bool, actor: &str) -> Result<Reloaded, ReloadRefused> {
        let (this, actor) = (self.clone(), actor.to_owned());
        // In a task of its own: what was begun is ended, whether or not its caller waits.
        let work = tokio::spawn(async move {
            let result = this.reload_now(apply, &actor).await;
            if apply {
                this.tell(&actor, &result);
            }
            result
        });
        work.await.unwrap_or_else(|ended| Err(refused(Code::UNKNOWN_INTERNAL, ended.to_string(), true)))
    }

    fn settings(&self) -> Vec<SettingView> {
        self.settings.read().clone()
    }
}

/// Settings in force as they are shown, by key.
fn in_force(shown: &[Shown]) -> Vec<SettingView> {
    let view = |shown: &Shown| SettingView {
        key: shown.path.clone(),
        value: shown.value.clone(),
        origin: shown.origin.to_string(),
        effect: diff::effect(&shown.path, true),
    };
    let mut settings: Vec<SettingView> = shown.iter().map(view).collect();
    settings.sort_by(|one, other| one.key.cmp(&other.key));
    settings
}

fn now() -> UnixMillis {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX))
}

/// What is implied where only programs of this machine send isn't in force where others may, until a restart.
fn leave_out_implied(next: &mut Config) {
    let is_written = |shown: &Shown| shown.path.starts_with("transport.") || shown.path.starts_with("route[");
    if !next.shown.iter().any(is_written) {
        next.transports.clear();
        next.routes = Routes::default();
    }
}

/// What is shown as in force: settings that count after a restart are still what they were.
fn still_pending(before: &[Shown], read: Vec<Shown>) -> Vec<Shown> {
    let is_in = |list: &[Shown], path: &str| list.iter().any(|shown| shown.path == path);
    let stay: HashSet<String> =
        read.iter().filter(|shown| is_in(before, &shown.path)).map(|shown| shown.path.clone()).collect();
    let waits = |shown: &Shown| diff::effect(&shown.path, stay.contains(&shown.path)) == Effect::Restart;
    let live = read.into_iter().filter(|shown| !waits(shown));
    live.chain(before.iter().filter(|shown| waits(shown)).cloned()).collect()
}

/// Errors of this program begin with their code, which the refusal has besides.
fn refused(code: Code, message: String, retryable: bool) -> ReloadRefused {
    let message = message.strip_prefix(&format!("{code}: ")).map(str::to_owned).unwrap_or(message);
    ReloadRefused { code: code.into(), message, retryable }
}

fn of_plugins(errors: &[PluginError]) -> ReloadRefused {
    let code = errors.first().map_or(Code::PLUGIN_READ, |error| error.cause.code());
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    refused(code, lines.join("\n"), errors.iter().all(|error| error.cause.retryable()))
}

fn of_engine(refusal: Refusal) -> ReloadRefused {
    ReloadRefused { code: refusal.fault.code, message: refusal.fault.reason, retryable: refusal.passes }
}

pub(super) fn of_swap(section: &str, error: &SwapError) -> ReloadRefused {
    refused(error.code(), format!("[{section}]: {error}"), error.retryable())
}

pub(super) fn of_cli(error: &CliError) -> ReloadRefused {
    refused(error.code().unwrap_or(Code::CONFIG_RELOAD_REFUSED), error.to_string(), false)
}
