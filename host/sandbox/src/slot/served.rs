//! What a generation is made of, and what serves in it: the instances of a transport, or those of a handler. All that a slot does with
//! them but the calls themselves is the same for both.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use waybill_core::code::Code;
use waybill_core::port::handler::{Handler as _, HandlerLimits};
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::transport::{
    CallError, ErrorKind, Fault, HealthReport, PluginIdentity, Transport as _, TransportLimits,
};

use crate::endpoint::EndpointSpec;
use crate::error::SandboxError;
use crate::handler::WasmHandler;
use crate::host::Losses;
use crate::instance::Opening;
use crate::load::LoadedPlugin;
use crate::manifest::World;
use crate::transport::WasmTransport;

/// A plugin and its endpoint: what a generation is started from, again if need be.
#[derive(Clone)]
pub(super) struct Recipe {
    pub plugin: LoadedPlugin,
    pub spec: EndpointSpec,
    /// What it serves as: a handler, or else a transport.
    pub world: World,
}

impl Recipe {
    /// Starts it without waiting for the first `open`s: calls wait until an instance is open. The second part tells how they went.
    pub fn spawn(&self) -> Result<(Served, Opening), SandboxError> {
        let (plugin, spec) = (self.plugin.clone(), self.spec.clone());
        Ok(match self.world {
            World::Handler => {
                let (handler, opening) = WasmHandler::spawn(plugin, spec)?;
                (Served::Handler(handler), opening)
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
            _ => WasmTransport::probe(plugin, spec).await,
        }
    }
}

/// The instances that run from a recipe.
#[derive(Clone)]
pub(super) enum Served {
    Transport(Arc<WasmTransport>),
    Handler(Arc<WasmHandler>),
}

impl Served {
    pub fn transport(&self) -> Result<&WasmTransport, CallError> {
        match self {
            Self::Transport(transport) => Ok(transport),
            Self::Handler(_) => Err(of_another_kind()),
        }
    }

    pub fn handler(&self) -> Result<&WasmHandler, CallError> {
        match self {
            Self::Handler(handler) => Ok(handler),
            Self::Transport(_) => Err(of_another_kind()),
        }
    }

    /// Tells of each instance that is lost.
    pub fn losses(&self) -> watch::Receiver<Losses> {
        match self {
            Self::Transport(transport) => transport.losses(),
            Self::Handler(handler) => handler.losses(),
        }
    }

    /// Takes no more calls: what waits for an instance is given back untried, and nothing is opened any more. Calls under way go on.
    pub fn retire(&self) {
        match self {
            Self::Transport(transport) => transport.retire(),
            Self::Handler(handler) => handler.retire(),
        }
    }

    /// Tries `open` again where it was refused.
    pub fn reopen(&self) {
        match self {
            Self::Transport(transport) => transport.reopen(),
            Self::Handler(handler) => handler.reopen(),
        }
    }

    pub fn identity(&self) -> PluginIdentity {
        match self {
            Self::Transport(transport) => transport.identity(),
            Self::Handler(handler) => handler.identity(),
        }
    }

    /// What it takes, in a transport's terms.
    pub fn limits(&self) -> TransportLimits {
        match self {
            Self::Transport(transport) => transport.limits(),
            Self::Handler(handler) => {
                let HandlerLimits { lanes, calls_per_lane, max_batch, max_batch_bytes } = handler.limits();
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
        }
    }

    pub async fn health(&self) -> HealthReport {
        match self {
            Self::Transport(transport) => transport.health().await,
            Self::Handler(handler) => handler.health(),
        }
    }

    pub async fn provision(&self, apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
        match self {
            Self::Transport(transport) => transport.provision(apply).await,
            Self::Handler(handler) => Err(ProvisionError::NotOffered { plugin: handler.identity().plugin }),
        }
    }

    pub async fn close(&self, timeout: Duration) {
        match self {
            Self::Transport(transport) => transport.close(timeout).await,
            Self::Handler(handler) => handler.close(timeout).await,
        }
    }
}

/// A slot is made for one kind and never has another, so nobody gets this but by a mistake of the host's.
fn of_another_kind() -> CallError {
    let reason = "what serves here is of another kind than what was asked";
    CallError { kind: ErrorKind::Internal, fault: Fault::new(Code::UNKNOWN_INTERNAL, reason) }
}
