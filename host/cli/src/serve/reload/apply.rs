//! Trying every changed and new transport, handler, participant, source and table beside what serves, and making all of them live.

use std::sync::Arc;

use futures::future::join_all;
use waybill_api::configuration::ReloadRefused;
use waybill_core::endpoint::{EndpointSettings, ReloadPolicy};
use waybill_core::port::transport::Transport;
use waybill_engine::{EngineConfig, SagaConfig};
use waybill_sandbox::{Fleet, LoadedPlugin, StagedChange, SwapError, TransportSpec, World};

use super::{Host, diff, of_cli, of_swap, steps};
use crate::config::Config;
use crate::config::inbound::Target;
use crate::plugins::inbound::{PreparedHandler, PreparedSource};
use crate::plugins::{Plugins, Prepared};
use crate::serve::compose;
use crate::serve::inbound::{self, Begun, CLOSE_TIMEOUT, Inbound, Running};

/// A change that was tried.
struct Tried {
    slot: ChangedSlot,
    change: StagedChange,
    /// What it was before.
    before: Option<Before>,
    /// The old one ends before the new one is opened, so this one may still fail.
    stops_first: bool,
}

/// A changed transport, handler, participant or retry policy that is to be tried.
pub(super) struct Change {
    pub slot: ChangedSlot,
    pub spec: TransportSpec,
    pub plugin: LoadedPlugin,
}

/// How it served before it was changed.
type Before = (TransportSpec, LoadedPlugin);

/// Whose plugin or settings are changed.
pub(super) struct ChangedSlot {
    pub world: World,
    pub name: String,
}

impl ChangedSlot {
    /// The section that configures it.
    fn section(&self) -> String {
        let name = &self.name;
        match self.world {
            World::Handler => format!("consumer.{name}"),
            World::Backoff => name.clone(),
            world => format!("{world}.{name}"),
        }
    }

    fn before(&self, fleet: &Fleet) -> Option<Before> {
        let slot = fleet.slot(self.world, &self.name);
        fleet.spec(self.world, &self.name).zip(slot.map(|slot| slot.plugin()))
    }

    async fn stage(
        &self,
        fleet: &Fleet,
        spec: TransportSpec,
        plugin: LoadedPlugin,
        force: bool,
    ) -> Result<StagedChange, SwapError> {
        fleet.stage(self.world, spec, plugin, force).await
    }
}

/// All that was started for a configuration that isn't in force yet.
#[derive(Default)]
struct Trial {
    /// Transports that are new.
    added: Vec<String>,
    /// Participants, and the retry policy, that are new.
    steps: steps::Begun,
    /// Handlers and tables that are new.
    begun: Begun,
}

impl Trial {
    async fn give_up(self, host: &Host) {
        for name in self.added {
            give_up(host, &name).await;
        }
        self.steps.give_up(&host.fleet).await;
        self.begun.give_up(&host.fleet).await;
    }
}

/// Puts a configuration in force whose plugins are loaded, in place of the one that runs, and that the engine can take over. An error
/// leaves everything as it was.
pub(super) async fn apply(
    host: &Host,
    (running, next): (&Config, &Config),
    sagas: SagaConfig,
    prepared: Plugins,
    transports: &diff::Transports,
) -> Result<(), ReloadRefused> {
    let Plugins { transports: prepared, participants, backoff, sources, handlers } = prepared;
    let mut trial = Trial::default();
    let result = async {
        let mut changes = start_transports(host, next, prepared, transports, &mut trial).await?;
        changes.extend(start_handlers(host, (running, next), handlers, &mut trial).await?);
        steps::may_go(host, (running, next)).await?;
        changes.extend(steps::start_participants(host, running, participants, &mut trial.steps).await?);
        changes.extend(steps::start_policy(host, running, backoff, &mut trial.steps).await?);
        let mut tried = try_all(host, changes).await?;
        let inbound = try_inbound(host, (running, next), sources, &mut trial).await?;
        // Those that may still fail go first, while going back costs nothing.
        tried.sort_by_key(|one| !one.stops_first);
        swap_all(host, tried).await?;
        Ok::<Inbound, ReloadRefused>(inbound)
    };
    let result = result.await;
    let inbound = match result {
        Ok(inbound) => inbound,
        Err(refused) => {
            trial.give_up(host).await;
            return Err(refused);
        }
    };
    let slots = next.transports.iter().filter_map(|settings| host.fleet.slot(World::Transport, &settings.name));
    let slots: Vec<Arc<dyn Transport>> = slots.map(|slot| Arc::new(slot) as _).collect();
    let config = compose::engine_config(next, &host.store, slots, steps::policy(&host.fleet, next));
    // Before the engine goes by it: what it has no more is held by nobody else then.
    host.inbound.set(inbound.clone());
    let Inbound { inbox, direct, .. } = inbound;
    host.engine.reconfigure(EngineConfig { sagas, inbound: inbox, direct, ..config }).await;
    set_drain_times(host, (running, next)).await;
    steps::put_in_force(host, (running, next)).await;
    for name in &transports.removed {
        // The engine closes it when its calls have ended.
        host.fleet.remove(World::Transport, name);
    }
    for consumer in running.consumers.iter().map(|consumer| consumer.name.as_str()) {
        if component_of(running, consumer).is_some() && component_of(next, consumer).is_none() {
            // So it does with a handler.
            host.fleet.remove(World::Handler, consumer);
        }
    }
    Ok(())
}

/// Starts transports that are new; the answer are those that are changed.
async fn start_transports(
    host: &Host,
    next: &Config,
    prepared: Vec<Prepared>,
    transports: &diff::Transports,
    trial: &mut Trial,
) -> Result<Vec<Change>, ReloadRefused> {
    let mut changes = Vec::new();
    for prepared in prepared {
        let name = prepared.settings.name.clone();
        if transports.added.contains(&name) {
            compose::transport(next, prepared, &host.fleet, &host.store).await.map_err(|error| of_cli(&error))?;
            trial.added.push(name);
        } else if transports.changed.contains(&name) {
            let (spec, loaded) = compose::spec(next, prepared, &host.store);
            let slot = ChangedSlot { world: World::Transport, name };
            changes.push(Change { slot, spec, plugin: loaded.plugin });
        }
    }
    Ok(changes)
}

/// The same of handlers.
async fn start_handlers(
    host: &Host,
    (running, next): (&Config, &Config),
    prepared: Vec<PreparedHandler>,
    trial: &mut Trial,
) -> Result<Vec<Change>, ReloadRefused> {
    let mut changes = Vec::new();
    for prepared in prepared {
        let name = prepared.settings.name.clone();
        match component_of(running, &name) {
            Some(before) if before.goes_on_as(&prepared.settings) => {}
            Some(_) => {
                let (spec, loaded) = inbound::handler_spec(next, prepared, &host.store);
                let slot = ChangedSlot { world: World::Handler, name };
                changes.push(Change { slot, spec, plugin: loaded.plugin });
            }
            None => {
                let started = inbound::component(next, prepared, &host.fleet, &host.store).await;
                started.map_err(|error| of_cli(&error))?;
                trial.begun.handlers.push(name);
            }
        }
    }
    Ok(changes)
}

/// How long calls of a handler may take when its plugin is replaced follows `handler_timeout`, and is no reason to open it anew.
async fn set_drain_times(host: &Host, (running, next): (&Config, &Config)) {
    for consumer in next.consumers.iter().map(|consumer| consumer.name.as_str()) {
        let drain_timeout = |config| component_of(config, consumer).map(|endpoint| endpoint.policy.drain_timeout);
        if let (Some(before), Some(now)) = (drain_timeout(running), drain_timeout(next))
            && before != now
        {
            host.fleet.set_drain_timeout(World::Handler, consumer, now).await;
        }
    }
}

/// The component that handles a consumer's messages, if one does.
fn component_of<'c>(config: &'c Config, consumer: &str) -> Option<&'c EndpointSettings> {
    let found = config.consumers.iter().find(|known| known.name.as_str() == consumer)?;
    match &found.target {
        Target::Component { endpoint } => Some(endpoint),
        Target::Topic(_) | Target::Saga | Target::Http { .. } => None,
    }
}

/// Tries sources and tables.
async fn try_inbound(
    host: &Host,
    (config, next): (&Config, &Config),
    sources: Vec<PreparedSource>,
    trial: &mut Trial,
) -> Result<Inbound, ReloadRefused> {
    let in_force = host.inbound.get();
    let running = Running { config, inbound: &in_force, fleet: &host.fleet, store: &host.store };
    inbound::next(running, next, sources, &mut trial.begun).await
}

/// Tries all of them at once: each may wait for its peer, or until its earlier generations make room.
async fn try_all(host: &Host, changes: Vec<Change>) -> Result<Vec<Tried>, ReloadRefused> {
    join_all(changes.into_iter().map(|change| try_out(host, change))).await.into_iter().collect()
}

async fn try_out(host: &Host, Change { slot, spec, plugin }: Change) -> Result<Tried, ReloadRefused> {
    let before = slot.before(&host.fleet);
    let stops_first = spec.endpoint.settings.policy.reload == ReloadPolicy::StopStart;
    let staged = slot.stage(&host.fleet, spec, plugin, false).await;
    let change = staged.map_err(|error| of_swap(&slot.section(), &error))?;
    Ok(Tried { slot, change, before, stops_first })
}

async fn swap_all(host: &Host, tried: Vec<Tried>) -> Result<(), ReloadRefused> {
    let mut done: Vec<(ChangedSlot, Option<Before>)> = Vec::new();
    for Tried { slot, change, before, .. } in tried {
        if let Err(error) = host.fleet.swap(change).await {
            // It has gone back by itself.
            let refused = of_swap(&slot.section(), &error);
            for (slot, before) in done.into_iter().rev() {
                put_back(host, &slot, before).await;
            }
            return Err(refused);
        }
        done.push((slot, before));
    }
    Ok(())
}

/// Has it serve as it did before.
async fn put_back(host: &Host, slot: &ChangedSlot, before: Option<Before>) {
    let Some((spec, plugin)) = before else { return };
    let back = match slot.stage(&host.fleet, spec, plugin, true).await {
        Ok(change) => host.fleet.swap(change).await.map(|_| ()),
        Err(error) => Err(error),
    };
    if let Err(error) = back {
        let section = slot.section();
        tracing::error!(%section, code = error.code().as_str(), %error, "it couldn't be put back as it was");
    }
}

async fn give_up(host: &Host, name: &str) {
    if let Some(slot) = host.fleet.slot(World::Transport, name) {
        slot.close(CLOSE_TIMEOUT).await;
    }
    host.fleet.remove(World::Transport, name);
}
