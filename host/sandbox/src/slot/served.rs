//! What a generation is made of, and what serves in it: the instances of a transport, a handler or a participant, or a retry policy. All
//! that a slot does with them but the calls themselves is the same for each.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use waybill_core::code::Code;
use waybill_core::port::handler::{Handler as _, HandlerLimits};
use waybill_core::port::participant::{Participant as _, StepInfo};
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::transport::{
    CallError, ErrorKind, Fault, Health, HealthReport, PluginIdentity, Transport as _, TransportLimits,
};

use crate::backoff::WasmBackoff;
use crate::endpoint::EndpointSpec;
use crate::error::SandboxError;
use crate::handler::WasmHandler;
use crate::host::Losses;
use crate::instance::Opening;
use crate::load::LoadedPlugin;
use crate::manifest::World;
use crate::participant::{WasmParticipant, participant_steps};
use crate::tally::Tally;
use crate::transport::WasmTransport;

/// A plugin and its endpoint: what a generation is started from, again if need be.
#[derive(Clone)]
pub(super) struct Recipe {
    pub plugin: LoadedPlugin,
    pub spec: EndpointSpec,
    /// What it serves as: a handler, a participant, a retry policy, or else a transport.
    pub world: World,
    /// What a participant serves.
    pub steps: Arc<[StepInfo]>,
}

impl Recipe {
    /// Asks a participant for its steps, without a network, secrets or state.
    pub async fn new(plugin: LoadedPlugin, spec: EndpointSpec, world: World) -> Result<Self, SandboxError> {
        let steps = match world {
            World::Participant => participant_steps(&plugin).await?.into(),
            _ => Arc::default(),
        };
        Ok(Self { plugin, spec, world, steps })
    }

    /// Starts it without waiting for the first `open`s: calls wait until an instance is open. The second part tells how they went.
    pub fn spawn(&self) -> Result<(Served, Opening), SandboxError> {
        let (plugin, spec) = (self.plugin.clone(), self.spec.clone());
        Ok(match self.world {
            World::Handler => {
                let (handler, opening) = WasmHandler::spawn(plugin, spec)?;
                (Served::Handler(handler), opening)
            }
            World::Participant => {
                let (participant, opening) = WasmParticipant::spawn(plugin, spec, Arc::clone(&self.steps))?;
                (Served::Participant(participant), opening)
            }
            World::Backoff => {
                let policy = Arc::new(self.policy()?);
                let asked = Arc::clone(&policy);
                (Served::Policy(policy, self.identity()), Box::pin(async move { asked.validate().await }))
            }
            _ => {
                let (transport, opening) = WasmTransport::spawn(plugin, spec)?;
                (Served::Transport(transport), opening)
            }
        })
    }

    /// The same, and waits for them.
    pub async fn start(&self) -> Result<(Served, Result<(), SandboxError>), SandboxError> {
        let (served, opening) = self.spawn()?;
        let opened = opening.await;
        Ok((served, opened))
    }

    /// Whether it would serve, while another generation does.
    pub async fn probe(&self) -> Result<HealthReport, SandboxError> {
        let (plugin, spec) = (self.plugin.clone(), self.spec.clone());
        match self.world {
            World::Handler => WasmHandler::probe(plugin, spec).await,
            World::Participant => WasmParticipant::probe(plugin, spec).await,
            World::Backoff => self.policy()?.validate().await.map(|()| READY),
            _ => WasmTransport::probe(plugin, spec).await,
        }
    }

    fn policy(&self) -> Result<WasmBackoff, SandboxError> {
        let settings = &self.spec.settings;
        WasmBackoff::new(self.plugin.clone(), &settings.name, &settings.config, self.spec.generation)
    }

    fn identity(&self) -> PluginIdentity {
        let manifest = self.plugin.manifest();
        PluginIdentity {
            plugin: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: self.plugin.digest().to_owned(),
            generation: self.spec.generation,
        }
    }
}

/// A retry policy has no condition of its own: each decision has an instance to itself.
const READY: HealthReport = HealthReport { health: Health::Ready, detail: None };

/// The instances that run from a recipe.
#[derive(Clone)]
pub(super) enum Served {
    Transport(Arc<WasmTransport>),
    Handler(Arc<WasmHandler>),
    Participant(Arc<WasmParticipant>),
    /// With who it is.
    Policy(Arc<WasmBackoff>, PluginIdentity),
}

impl Served {
    pub fn transport(&self) -> Result<&WasmTransport, CallError> {
        match self {
            Self::Transport(transport) => Ok(transport),
            _ => Err(of_another_kind()),
        }
    }

    pub fn handler(&self) -> Result<&WasmHandler, CallError> {
        match self {
            Self::Handler(handler) => Ok(handler),
            _ => Err(of_another_kind()),
        }
    }

    pub fn participant(&self) -> Result<&WasmParticipant, CallError> {
        match self {
            Self::Participant(participant) => Ok(participant),
            _ => Err(of_another_kind()),
        }
    }

    pub fn policy(&self) -> Result<&WasmBackoff, CallError> {
        match self {
            Self::Policy(policy, _) => Ok(policy),
            _ => Err(of_another_kind()),
        }
    }

    /// What is counted of it; nothing of a retry policy.
    pub fn tally(&self) -> Option<Arc<Tally>> {
        match self {
            Self::Transport(transport) => Some(transport.tally()),
            Self::Handler(handler) => Some(handler.tally()),
            Self::Participant(participant) => Some(participant.tally()),
            Self::Policy(..) => None,
        }
    }

    /// Tells of each instance that is lost.
    pub fn losses(&self) -> watch::Receiver<Losses> {
        match self {
            Self::Transport(transport) => transport.losses(),
            Self::Handler(handler) => handler.losses(),
            Self::Participant(participant) => participant.losses(),
            Self::Policy(policy, _) => policy.losses(),
        }
    }

    /// Takes no more calls: what waits for an instance is given back untried, and nothing is opened any more. Calls under way go on.
    pub fn retire(&self) {
        match self {
            Self::Transport(transport) => transport.retire(),
            Self::Handler(handler) => handler.retire(),
            Self::Participant(participant) => participant.retire(),
            // A decision that was begun comes to its end, and nothing waits for an instance.
            Self::Policy(..) => {}
        }
    }

    /// Tries `open` again where it was refused.
    pub fn reopen(&self) {
        match self {
            Self::Transport(transport) => transport.reopen(),
            Self::Handler(handler) => handler.reopen(),
            Self::Participant(participant) => participant.reopen(),
            Self::Policy(..) => {}
        }
    }

    pub fn identity(&self) -> PluginIdentity {
        match self {
            Self::Transport(transport) => transport.identity(),
            Self::Handler(handler) => handler.identity(),
            Self::Participant(participant) => participant.identity(),
            Self::Policy(_, identity) => identity.clone(),
        }
    }

    /// What it takes, in a transport's terms.
    pub fn limits(&self) -> TransportLimits {
        match self {
            Self::Transport(transport) => transport.limits(),
            _ => {
                let HandlerLimits { lanes, calls_per_lane, max_batch, max_batch_bytes } = self.handler_limits();
                let (max_payload_bytes, key_runs) = (None, false);
                TransportLimits { lanes, calls_per_lane, max_batch, max_batch_bytes, max_payload_bytes, key_runs }
            }
        }
    }

    /// The same in a handler's terms.
    pub fn handler_limits(&self) -> HandlerLimits {
        match self {
            Self::Handler(handler) => handler.limits(),
            Self::Transport(transport) => {
                let TransportLimits { lanes, calls_per_lane, max_batch, max_batch_bytes, .. } = transport.limits();
                HandlerLimits { lanes, calls_per_lane, max_batch, max_batch_bytes }
            }
            // Neither takes messages.
            Self::Participant(_) | Self::Policy(..) => {
                HandlerLimits { lanes: 1, calls_per_lane: 1, max_batch: 1, max_batch_bytes: 0 }
            }
        }
    }

    pub async fn health(&self) -> HealthReport {
        match self {
            Self::Transport(transport) => transport.health().await,
            _ => self.health_seen(),
        }
    }

    /// How it is, without calling a guest.
    pub fn health_seen(&self) -> HealthReport {
        match self {
            Self::Transport(_) => HealthReport { health: Health::Down, detail: None },
            Self::Handler(handler) => handler.health(),
            Self::Participant(participant) => participant.health(),
            Self::Policy(..) => READY,
        }
    }

    pub async fn provision(&self, apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
        match self {
            Self::Transport(transport) => transport.provision(apply).await,
            _ => Err(ProvisionError::NotOffered { plugin: self.identity().plugin }),
        }
    }

    pub async fn close(&self, timeout: Duration) {
        match self {
            Self::Transport(transport) => transport.close(timeout).await,
            Self::Handler(handler) => handler.close(timeout).await,
            Self::Participant(participant) => participant.close(timeout).await,
            Self::Policy(..) => {}
        }
    }
}

/// A slot is made for one kind and never has another, so nobody gets this but by a mistake of the host's.
fn of_another_kind() -> CallError {
    let reason = "what serves here is of another kind than what was asked";
    CallError { kind: ErrorKind::Internal, fault: Fault::new(Code::UNKNOWN_INTERNAL, reason) }
}
