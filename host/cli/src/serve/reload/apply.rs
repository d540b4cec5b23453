//! Trying every changed and new transport beside what serves, and making all of them live.

use std::sync::Arc;
use std::time::Duration;

use waybill_api::configuration::ReloadRefused;
use waybill_core::endpoint::ReloadPolicy;
use waybill_core::port::transport::Transport;
use waybill_engine::{EngineConfig, SagaConfig};
use waybill_sandbox::{LoadedPlugin, StagedChange, TransportSpec};

use super::{Host, diff, of_cli, of_swap};
use crate::config::Config;
use crate::plugins::{Plugins, Prepared};
use crate::serve::compose;

/// A new transport that isn't wanted after all gets this long to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A changed transport that was tried.
struct Tried {
    name: String,
    change: StagedChange,
    /// What it was before.
    before: Option<Before>,
    /// The old one ends before the new one is opened, so this one may still fail.
    stops_first: bool,
}

/// How a transport served.
type Before = (TransportSpec, LoadedPlugin);

/// Puts a configuration in force whose plugins are loaded. An error leaves everything as it was.
pub(super) async fn apply(
    host: &Host,
    next: &Config,
    sagas: SagaConfig,
    prepared: Plugins,
    transports: &diff::Transports,
) -> Result<(), ReloadRefused> {
    let policy = match prepared.backoff {
        Some(backoff) => Some(compose::retry_policy(backoff).await.map_err(|error| of_cli(&error))?),
        None => None,
    };
    let (mut tried, mut added) = (Vec::new(), Vec::new());
    let result = try_all(host, next, prepared.transports, transports, &mut tried, &mut added).await;
    // Those that may still fail go first, while going back costs nothing.
    let result = match result {
        Ok(()) => {
            tried.sort_by_key(|one| !one.stops_first);
            swap_all(host, tried).await
        }
        Err(refused) => Err(refused),
    };
    if let Err(refused) = result {
        for name in added {
            give_up(host, &name).await;
        }
        return Err(refused);
    }
    let slots = next.transports.iter().filter_map(|settings| host.fleet.slot(&settings.name));
    let slots: Vec<Arc<dyn Transport>> = slots.map(|slot| Arc::new(slot) as _).collect();
    let config = compose::engine_config(next, &host.store, slots, policy);
    host.engine.reconfigure(EngineConfig { sagas, inbound: Arc::clone(&host.inbox), ..config }).await;
    for name in &transports.removed {
        // The engine closes it when its calls have ended.
        host.fleet.remove(name);
    }
    Ok(())
}

async fn try_all(
    host: &Host,
    next: &Config,
    prepared: Vec<Prepared>,
    transports: &diff::Transports,
    tried: &mut Vec<Tried>,
    added: &mut Vec<String>,
) -> Result<(), ReloadRefused> {
    for prepared in prepared {
        let name = prepared.settings.name.clone();
        if transports.added.contains(&name) {
            compose::transport(next, prepared, &host.fleet, &host.store).await.map_err(|error| of_cli(&error))?;
            added.push(name);
        } else if transports.changed.contains(&name) {
            let (spec, loaded) = compose::spec(next, prepared, &host.store);
            let before = host.fleet.spec(&name).zip(host.fleet.slot(&name).map(|slot| slot.plugin()));
            let stops_first = spec.endpoint.settings.policy.reload == ReloadPolicy::StopStart;
            let change = host.fleet.stage(spec, loaded.plugin, false).await.map_err(|error| of_swap(&name, &error))?;
            tried.push(Tried { name, change, before, stops_first });
        }
    }
    Ok(())
}

async fn swap_all(host: &Host, tried: Vec<Tried>) -> Result<(), ReloadRefused> {
    let mut done: Vec<(String, Option<Before>)> = Vec::new();
    for Tried { name, change, before, .. } in tried {
        if let Err(error) = host.fleet.swap(change).await {
            // It has gone back by itself.
            let refused = of_swap(&name, &error);
            for (name, before) in done.into_iter().rev() {
                put_back(host, &name, before).await;
            }
            return Err(refused);
        }
        done.push((name, before));
    }
    Ok(())
}

/// Has a transport serve as it did before.
async fn put_back(host: &Host, name: &str, before: Option<Before>) {
    let Some((spec, plugin)) = before else { return };
    let back = match host.fleet.stage(spec, plugin, true).await {
        Ok(change) => host.fleet.swap(change).await.map(|_| ()),
        Err(error) => Err(error),
    };
    if let Err(error) = back {
        tracing::error!(transport = name, code = error.code().as_str(), %error, "a transport couldn't be put back as it was");
    }
}

async fn give_up(host: &Host, name: &str) {
    if let Some(slot) = host.fleet.slot(name) {
        slot.close(CLOSE_TIMEOUT).await;
    }
    host.fleet.remove(name);
}
