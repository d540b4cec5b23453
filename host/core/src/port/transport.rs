//! The transport port: one configured transport (a plugin, its configuration and its grants) as the dispatcher sees it.
//!
//! An implementation supervises its instances by itself: after a trap or a missed deadline it opens a fresh one, and a
//! call in between answers [`CallError`] with kind [`ErrorKind::Unavailable`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::provision::{ProvisionChange, ProvisionError};
use crate::message::Delivery;

/// What the receiver gave back for a delivered message. Kept in the history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Sequence, offset, entry id, HTTP status, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_ref: Option<String>,
    /// The receiver had it already (broker de-duplication, 409). Still a success.
    #[serde(default)]
    pub duplicate: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
}

/// Why something didn't succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Stable code, upper case with dots. Dead letters are grouped by it.
    pub code: String,
    /// One sentence for the operator. Holds no secrets.
    pub reason: String,
    /// Not before this long from now, as the peer asked (Retry-After).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Duration>,
    /// It may have been delivered all the same.
    #[serde(default)]
    pub maybe_delivered: bool,
    /// Registered extras (`http-status`, `broker-code`, ...).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
}

impl Fault {
    /// A fault with a code and a reason and nothing else.
    pub fn new(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { code: code.into(), reason: reason.into(), after: None, maybe_delivered: false, attributes: Vec::new() }
    }
}

/// The fate of one message in a batch (`semantics.md` §1, Delivery).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has it durably, and said so.
    Ack(Receipt),
    /// Failed this time; the attempt counts.
    Retryable(Fault),
    /// Will never succeed: dead letter now.
    Permanent(Fault),
    /// The destination is at fault: the scope is held, the attempt doesn't count. An empty scope means the message's
    /// destination.
    Blocked {
        /// What stops: origin, queue, subject.
        scope: String,
        fault: Fault,
    },
    /// Not tried; the attempt doesn't count.
    Release(Fault),
}

/// Class of a failed call: decides what the host does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The configuration can't work. Not retried until it changes.
    InvalidConfig,
    /// Credentials or rights refused.
    Denied,
    /// Peer unreachable, connection lost, or no instance is open right now.
    Unavailable,
    /// The peer asks for less.
    Throttled,
    /// Another client took over this one's identity.
    Fenced,
    /// The call or an option isn't supported.
    Unsupported,
    /// Cancelled at the host's wish.
    Cancelled,
    /// A defect of the plugin, or anything else.
    Internal,
    /// The guest trapped. The fate of what it wasn't known to have settled is unknown.
    Trapped,
    /// The call's time was over; the instance is dropped and the fate is unknown.
    TimedOut,
    /// The guest broke the contract (wrong number of outcomes, oversize answer).
    Contract,
}

/// Failure of a whole call: nothing is known of any message that wasn't told through the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    pub kind: ErrorKind,
    pub fault: Fault,
}

/// Whose call brought the instance down that a failed call ran in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blame {
    /// This one, or none ran beside it.
    #[default]
    Own,
    /// This one or another.
    Unknown,
    /// Another one.
    Another,
}

/// Attribute of a fault: whose call it was, if it isn't known to be this one.
const BLAME: &str = "blame";

impl CallError {
    /// The same error, with whose call it was.
    #[must_use]
    pub fn blaming(mut self, blame: Blame) -> Self {
        let word = match blame {
            Blame::Own => return self,
            Blame::Unknown => "unknown",
            Blame::Another => "another",
        };
        self.fault.attributes.push((BLAME.to_owned(), word.to_owned()));
        self
    }

    /// Whose call it was. Only of an instance that was lost: what a guest says of itself doesn't count.
    pub fn blame(&self) -> Blame {
        if !matches!(self.kind, ErrorKind::Trapped | ErrorKind::TimedOut | ErrorKind::Contract) {
            return Blame::Own;
        }
        let word = self.fault.attributes.iter().find(|(name, _)| name == BLAME).map(|(_, word)| word.as_str());
        match word {
            Some("unknown") => Blame::Unknown,
            Some("another") => Blame::Another,
            _ => Blame::Own,
        }
    }
}

/// Takes early results of a batch. First told counts.
pub trait OutcomeSink: Send + Sync {
    /// Tells the fate of message `index` of the batch. Never blocks.
    fn settled(&self, index: usize, outcome: Outcome);
}

/// Condition of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// Serving.
    Ready,
    /// Serving with trouble.
    Degraded,
    /// Alive and asked by the peer to wait.
    Blocked,
    /// Not serving.
    Down,
}

/// Condition with a word of explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthReport {
    pub health: Health,
    /// One sentence for the operator.
    pub detail: Option<String>,
}

/// What a transport takes, as its instances told at `open`, within the host's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportLimits {
    /// Independent instances ("lanes"). Messages of one key always go to one lane.
    pub lanes: u32,
    /// Calls one lane runs at once.
    pub calls_per_lane: u32,
    /// Most messages in one call.
    pub max_batch: u32,
    /// Most payload bytes in one call.
    pub max_batch_bytes: u32,
    /// Largest payload the peer takes; larger ones become dead letters without a call.
    pub max_payload_bytes: Option<u32>,
    /// A call may hold several messages of one key (feature `key-runs`): they are sent in order, and what follows one that isn't acknowledged
    /// is released, not sent.
    pub key_runs: bool,
}

/// A plugin that serves or served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Plugin)]
pub struct PluginIdentity {
    /// Name.
    pub plugin: String,
    /// Version.
    pub version: String,
    /// `sha256:<hex>` of the component.
    pub digest: String,
    /// Generation of the transport's plugin, from 1.
    pub generation: u32,
}

/// How a batch is sent.
#[derive(Clone, Debug)]
pub struct SendCall {
    /// Which of the transport's lanes takes it, from 0.
    pub lane: u32,
    /// Longest wait for the answer.
    pub timeout: Duration,
    /// Context of the host's span for this call, which the plugin is told. None: no trace.
    pub traceparent: Option<String>,
}

impl SendCall {
    /// Part of no trace.
    pub fn new(lane: u32, timeout: Duration) -> Self {
        Self { lane, timeout, traceparent: None }
    }
}

#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Name from the configuration, e.g. `orders-nats`.
    fn name(&self) -> &str;
    fn identity(&self) -> PluginIdentity;
    /// What it takes now.
    fn limits(&self) -> TransportLimits;
    /// Who serves the next call, held fast: `identity` of what is answered is exactly the plugin that `send_batch` on it
    /// reaches, whatever is swapped meanwhile, and it counts as under way until it is dropped. None: this transport's
    /// plugin never changes, call it as it is.
    fn serving(&self) -> Option<Arc<dyn Transport>> {
        None
    }
    /// Sends a batch. On success there is exactly one outcome a message, in order; whatever was told to `sink` before stands
    /// (first told counts), also when the call fails.
    async fn send_batch(
        &self,
        call: SendCall,
        batch: Vec<Delivery>,
        sink: Arc<dyn OutcomeSink>,
    ) -> Result<Vec<Outcome>, CallError>;
    async fn health(&self) -> HealthReport;
    /// Ends when the next instance of it has opened: who found it down need wait no longer. Never, where it tells nobody.
    async fn opened(&self) {
        std::future::pending().await
    }
    /// What is missing at the peer; with `apply` it is created and changed, and the answer is what was done. Never takes part
    /// in sending. Conflicts are told and left alone.
    async fn provision(&self, _apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
        Err(ProvisionError::NotOffered { plugin: self.identity().plugin })
    }
    /// Ends all instances in good order, within `timeout`.
    async fn close(&self, timeout: Duration);
}
