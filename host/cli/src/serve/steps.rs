//! What steps of sagas are called through, and what decides on retries, started by a configuration.

use std::sync::Arc;

use waybill_core::port::backoff::BackoffPolicy;
use waybill_core::port::kv::KvStore;
use waybill_core::port::participant::Participant;
use waybill_core::port::transport::ErrorKind;
use waybill_engine::Participants;
use waybill_sandbox::{EndpointSpec, Fleet, ForStart, SandboxError, TransportSpec, World};

use super::compose::{host_name, of_sandbox};
use super::inbound::CLOSE_TIMEOUT;
use crate::exit::CliError;
use crate::plugins::{PreparedBackoff, PreparedParticipant};

/// Starts all participants of a configuration.
pub async fn participants(
    prepared: Vec<PreparedParticipant>,
    fleet: &Fleet,
    kv: &Arc<dyn KvStore>,
) -> Result<Participants, CliError> {
    let mut all = Vec::new();
    for prepared in prepared {
        all.push(participant(prepared, fleet, kv).await?);
    }
    Ok(Participants::new(all))
}

/// Starts a participant. One whose first instance doesn't open is kept: calls try again by themselves.
pub async fn participant(
    prepared: PreparedParticipant,
    fleet: &Fleet,
    kv: &Arc<dyn KvStore>,
) -> Result<Arc<dyn Participant>, CliError> {
    let (spec, loaded) = participant_spec(prepared, kv);
    let name = spec.endpoint.settings.name.clone();
    let (participant, opened) = fleet.start_participant(spec, loaded).await.map_err(|error| of_sandbox(&error))?;
    if let Err(error) = opened {
        if matches!(error, SandboxError::Open { kind: ErrorKind::InvalidConfig, .. }) {
            participant.close(CLOSE_TIMEOUT).await;
            fleet.remove(World::Participant, &name);
            return Err(of_sandbox(&error));
        }
        tracing::warn!(participant = %name, code = error.code().as_str(), %error, "a participant isn't open yet: its steps wait while it is tried again");
    }
    Ok(Arc::new(participant))
}

/// A prepared participant as the fleet takes it, and its plugin.
pub fn participant_spec(prepared: PreparedParticipant, kv: &Arc<dyn KvStore>) -> (TransportSpec, ForStart) {
    let PreparedParticipant { settings, source, loaded } = prepared;
    let endpoint = EndpointSpec { kv: Some(Arc::clone(kv)), host_id: host_name(), ..EndpointSpec::new(settings) };
    (TransportSpec { source, endpoint }, loaded)
}

/// Starts the policy component that decides on retries.
pub async fn retry_policy(backoff: PreparedBackoff, fleet: &Fleet) -> Result<Arc<dyn BackoffPolicy>, CliError> {
    let (spec, loaded) = policy_spec(backoff);
    let name = spec.endpoint.settings.name.clone();
    let (policy, opened) = fleet.start_policy(spec, loaded).await.map_err(|error| of_sandbox(&error))?;
    if let Err(error) = opened {
        // It reaches nobody whose return could be waited for.
        policy.close(CLOSE_TIMEOUT).await;
        fleet.remove(World::Backoff, &name);
        return Err(of_sandbox(&error));
    }
    Ok(Arc::new(policy))
}

/// A prepared retry policy as the fleet takes it, and its plugin.
pub fn policy_spec(prepared: PreparedBackoff) -> (TransportSpec, ForStart) {
    let PreparedBackoff { settings, source, loaded } = prepared;
    (TransportSpec { source, endpoint: EndpointSpec { host_id: host_name(), ..EndpointSpec::new(settings) } }, loaded)
}
