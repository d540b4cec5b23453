//! Sagas: one task a shard that drives the pure [`waybill_core::saga::shard::SagaShard`], the calls of steps, and the service.
//!
//! A shard's sagas are written by the host that owns the outbox shard of the same number, with that shard's token. What sagas
//! enqueue goes over the outbox's doorstep, in the commit of their own transitions.
//!
//! | file | holds |
//! |---|---|
//! | `mail` | what others ask of the task |
//! | `supervise` | takeover, and what follows a loss or a panic |
//! | `actor` | the loop: mail, timers, commits, effects |
//! | `flight` | the one outstanding commit and its fate |
//! | `calls` | calls of steps |
//! | `definitions` | definitions that were read |
//! | `service` | sagas as the API sees them |
//! | `watchers` | callers that wait until a saga is at rest |
//! | `meter` | metrics |

mod actor;
pub(crate) mod calls;
mod definitions;
mod flight;
mod mail;
mod meter;
pub(crate) mod service;
mod supervise;
mod watchers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use waybill_core::ids::ShardId;
use waybill_core::port::saga::SagaStats;
use waybill_core::port::saga_store::SagaStore;
use waybill_core::port::store::StoreError;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::shard::{SagaCommand, SagaReply, SagaShard};
use waybill_core::saga::state::SagaState;

use crate::shard::{Context, ShardHandle};
use calls::Calls;
use definitions::Definitions;
use mail::Mail;
use meter::SagaMeter;

/// What callers hear while the shard is given back.
const SHUTTING_DOWN: &str = "it is shutting down: ask another host, or try again later";

/// What the tasks of all shards and the service share.
pub(crate) struct Shared {
    pub context: Arc<Context>,
    pub store: Arc<dyn SagaStore>,
    pub calls: Arc<Calls>,
    pub definitions: Definitions,
    pub meter: SagaMeter,
    /// The outbox's shards: they are knocked when a commit left messages.
    pub outbox: Vec<ShardHandle>,
}

/// Who writes a shard's sagas, as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Not taken yet; why, in words.
    Waiting(String),
    /// This host does.
    Writing,
    /// The store makes trouble; `writing` = they are this host's as far as it knows.
    Trouble { error: StoreError, writing: bool },
    /// Given back.
    Released,
}

/// What others see of a shard's sagas.
pub(crate) struct Seen {
    pub condition: watch::Sender<Condition>,
    /// Beat of the last commit known to be in.
    pub beat: AtomicU64,
    pub stats: Mutex<SagaStats>,
}

/// The way to the task of a shard's sagas.
#[derive(Clone)]
pub(crate) struct SagaHandle {
    pub shard: ShardId,
    mail: mpsc::UnboundedSender<Mail>,
    seen: Arc<Seen>,
}

impl SagaHandle {
    /// Starts the task.
    pub fn start(outbox: &ShardHandle, shared: Arc<Shared>) -> (Self, tokio::task::JoinHandle<()>) {
        let (mail, receiver) = mpsc::unbounded_channel();
        let seen = Arc::new(Seen {
            condition: watch::Sender::new(Condition::Waiting("it isn't taken over yet".to_owned())),
            beat: AtomicU64::new(0),
            stats: Mutex::default(),
        });
        let handle = Self { shard: outbox.shard, mail, seen };
        let task = tokio::spawn(supervise::supervise(outbox.clone(), shared, handle.clone(), receiver));
        (handle, task)
    }

    pub fn condition(&self) -> Condition {
        self.seen.condition.borrow().clone()
    }

    /// Whether this host writes them, as far as it knows.
    pub fn is_written(&self) -> bool {
        matches!(*self.seen.condition.borrow(), Condition::Writing | Condition::Trouble { writing: true, .. })
    }

    pub fn stats(&self) -> SagaStats {
        self.seen.stats.lock().clone()
    }

    /// Beat to go with a lookup of a caller's id: read before the store is asked.
    pub fn beat(&self) -> u64 {
        self.seen.beat.load(Ordering::Acquire)
    }

    /// Has a command done; answers when what it did is durable.
    pub async fn command(&self, command: SagaCommand) -> Result<SagaReply, SagaError> {
        let (reply, answer) = oneshot::channel();
        let mail = Mail::Command { command: Box::new(command), reply };
        self.mail.send(mail).map_err(|_| SagaError::Unavailable(SHUTTING_DOWN.to_owned()))?;
        answer.await.unwrap_or_else(|_| Err(unknown_outcome()))
    }

    /// The state of a tree as soon as it is at rest. None when this host doesn't have it in memory (any more).
    pub async fn at_rest(&self, key: SagaKey) -> Option<SagaState> {
        if !self.is_written() {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        self.mail.send(Mail::Watch { key, reply }).ok()?;
        answer.await.ok()
    }

    /// Runs a look at what is in memory, if this host writes the shard's sagas.
    pub async fn visit<T: Send + 'static>(&self, look: impl FnOnce(&SagaShard) -> T + Send + 'static) -> Option<T> {
        if !self.is_written() {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        let visit = Mail::Visit(Box::new(move |shard| {
            let _gone = reply.send(look(shard));
        }));
        self.mail.send(visit).ok()?;
        answer.await.ok()
    }

    /// Begins no new calls, waits for those under way at most `timeout`, and ends.
    pub async fn release(&self, timeout: Duration) {
        let (reply, answer) = oneshot::channel();
        if self.mail.send(Mail::Release { timeout, reply }).is_ok() {
            let _ended = answer.await;
        }
    }
}

fn unknown_outcome() -> SagaError {
    SagaError::OutcomeUnknown(StoreError::Unavailable(
        "the task that writes the sagas ended before it could say".to_owned(),
    ))
}
