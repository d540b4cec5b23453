//! Participants and the retry policy of another configuration: what is new is started, what is changed is to be tried, and what is gone
//! is closed when its calls have ended.

use std::sync::Arc;

use waybill_api::configuration::ReloadRefused;
use waybill_core::endpoint::EndpointSettings;
use waybill_core::port::backoff::BackoffPolicy;
use waybill_core::port::participant::Participant;
use waybill_sandbox::{Fleet, World};

use super::apply::{Change, ChangedSlot};
use super::{Host, of_cli, of_swap};
use crate::config::Config;
use crate::plugins::{PreparedBackoff, PreparedParticipant};
use crate::serve::inbound::CLOSE_TIMEOUT;
use crate::serve::{compose, steps};

/// What was started for a configuration that may still be refused.
#[derive(Default)]
pub(super) struct Begun {
    participants: Vec<String>,
    policy: Option<String>,
}

impl Begun {
    /// The configuration is refused.
    pub async fn give_up(self, fleet: &Fleet) {
        for name in self.participants {
            if let Some(participant) = fleet.participant(&name) {
                participant.close(CLOSE_TIMEOUT).await;
            }
            fleet.remove(World::Participant, &name);
        }
        if let Some(name) = self.policy {
            end_policy(fleet, &name).await;
        }
    }
}

fn participant_of<'c>(config: &'c Config, name: &str) -> Option<&'c EndpointSettings> {
    config.participants.iter().find(|settings| settings.name == name)
}

/// Refuses a configuration without a participant that running sagas still call.
pub(super) async fn may_go(host: &Host, (running, next): (&Config, &Config)) -> Result<(), ReloadRefused> {
    for settings in running.participants.iter().filter(|settings| participant_of(next, &settings.name).is_none()) {
        if let Some(participant) = host.fleet.participant(&settings.name) {
            let may_go = participant.may_go().await;
            may_go.map_err(|error| of_swap(&format!("participant.{}", settings.name), &error))?;
        }
    }
    Ok(())
}

/// Starts participants that are new; the answer are those that are changed.
pub(super) async fn start_participants(
    host: &Host,
    running: &Config,
    prepared: Vec<PreparedParticipant>,
    begun: &mut Begun,
) -> Result<Vec<Change>, ReloadRefused> {
    let kv = compose::kv(running, &host.store);
    let mut changes = Vec::new();
    for prepared in prepared {
        let name = prepared.settings.name.clone();
        match participant_of(running, &name) {
            Some(before) if *before == prepared.settings => {}
            Some(_) => {
                let (spec, loaded) = steps::participant_spec(prepared, &kv);
                let slot = ChangedSlot { world: World::Participant, name };
                changes.push(Change { slot, spec, plugin: loaded.plugin });
            }
            None => {
                steps::participant(prepared, &host.fleet, &kv).await.map_err(|error| of_cli(&error))?;
                begun.participants.push(name.clone());
                if let Some(participant) = host.fleet.participant(&name) {
                    let may_come = participant.may_come().await;
                    may_come.map_err(|error| of_swap(&format!("participant.{name}"), &error))?;
                }
            }
        }
    }
    Ok(changes)
}

/// The same of the retry policy.
pub(super) async fn start_policy(
    host: &Host,
    running: &Config,
    prepared: Option<PreparedBackoff>,
    begun: &mut Begun,
) -> Result<Option<Change>, ReloadRefused> {
    let Some(prepared) = prepared else { return Ok(None) };
    match &running.outbox.backoff.plugin {
        Some(before) if *before == prepared.settings => Ok(None),
        Some(_) => {
            let (spec, loaded) = steps::policy_spec(prepared);
            let slot = ChangedSlot { world: World::Backoff, name: spec.endpoint.settings.name.clone() };
            Ok(Some(Change { slot, spec, plugin: loaded.plugin }))
        }
        None => {
            let name = prepared.settings.name.clone();
            steps::retry_policy(prepared, &host.fleet).await.map_err(|error| of_cli(&error))?;
            begun.policy = Some(name);
            Ok(None)
        }
    }
}

/// What decides on retries by a configuration whose plugins serve.
pub(super) fn policy(fleet: &Fleet, next: &Config) -> Option<Arc<dyn BackoffPolicy>> {
    let settings = next.outbox.backoff.plugin.as_ref()?;
    fleet.policy(&settings.name).map(|slot| Arc::new(slot) as _)
}

/// Has steps called through the participants of this configuration, and ends what is in it no more.
pub(super) async fn put_in_force(host: &Host, (running, next): (&Config, &Config)) {
    let slots = next.participants.iter().filter_map(|settings| host.fleet.participant(&settings.name));
    for left in host.participants.replace(slots.map(|slot| Arc::new(slot) as Arc<dyn Participant>)) {
        let within =
            participant_of(running, left.name()).map_or(CLOSE_TIMEOUT, |settings| settings.policy.drain_timeout);
        host.fleet.remove(World::Participant, left.name());
        tokio::spawn(async move { left.close(within).await });
    }
    if let (Some(before), None) = (&running.outbox.backoff.plugin, &next.outbox.backoff.plugin) {
        end_policy(&host.fleet, &before.name).await;
    }
}

async fn end_policy(fleet: &Fleet, name: &str) {
    if let Some(policy) = fleet.policy(name) {
        policy.close(CLOSE_TIMEOUT).await;
    }
    fleet.remove(World::Backoff, name);
}
