//! Sagas: one task a shard that drives the pure [`waybill_core::saga::shard::SagaShard`], the calls of steps, and the service.
//!
//! A shard's sagas are written by the host that owns the outbox shard of the same number, with that shard's token. What sagas
//! enqueue goes over the outbox's doorstep, in the commit of their own transitions.
//!
//! | file | holds |
//! |---|---|
//! | `mail` | what others ask of the task |
//! | `takeover` | takeover, and what others hear meanwhile |
//! | `actor` | the loop: mail, timers, commits, effects |
//! | `flight` | what a commit and its fate mean here (the rest is in [`crate::commit`]) |
//! | `calls` | calls of steps |
//! | `door` | what the inbox left for sagas |
//! | `definitions` | definitions that were read |
//! | `service` | sagas as the API sees them |
//! | `view` | a saga as people see it |
//! | `watchers` | callers that wait until a saga is at rest |
//! | `meter` | metrics |

mod actor;
pub(crate) mod calls;
mod definitions;
mod door;
mod flight;
mod mail;
mod meter;
pub(crate) mod service;
mod takeover;
mod view;
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
use waybill_core::saga::shard::{SagaCommand, SagaReply};
use waybill_core::saga::state::SagaState;

use crate::commit::{self, Condition};
use crate::shard::{Context, ShardHandle};
use crate::streams::service::Streams;
use calls::Calls;
use definitions::Definitions;
use mail::{Mail, MemoryQuery};
use meter::SagaMeter;
use takeover::SagasOfShard;

/// What callers hear while the shard is given back.
const SHUTTING_DOWN: &str = "it is shutting down: ask another host, or try again later";

/// What the tasks of all shards and the service share.
pub(crate) struct Shared {
    pub context: Arc<Context>,
    pub store: Arc<dyn SagaStore>,
    pub calls: Arc<Calls>,
    pub definitions: Definitions,
    pub meter: SagaMeter,
    /// The outbox's shards: woken when a commit left messages for their doorsteps.
    pub outbox: Vec<ShardHandle>,
    /// The same of event streams, if this host has any.
    pub streams: Option<Arc<Streams>>,
}

/// What others see of a shard's sagas.
pub(crate) struct SagaShardStatus {
    pub condition: Arc<watch::Sender<Condition>>,
    /// Beat of the last commit known to be in.
    pub beat: AtomicU64,
    pub stats: Mutex<SagaStats>,
}

/// The way to the task of a shard's sagas.
#[derive(Clone)]
pub(crate) struct SagaHandle {
    pub shard: ShardId,
    mail: mpsc::UnboundedSender<Mail>,
    status: Arc<SagaShardStatus>,
}

impl SagaHandle {
    pub fn start(outbox: &ShardHandle, shared: Arc<Shared>) -> (Self, tokio::task::JoinHandle<()>) {
        // Bounded by what comes in, not by itself: an answer for each call that was made, and mail of callers who wait for what
        // comes of it, of whom the API lets in so many at once.
        let (mail, receiver) = mpsc::unbounded_channel();
        let status = Arc::new(SagaShardStatus {
            condition: Arc::new(watch::Sender::new(Condition::Starting)),
            beat: AtomicU64::new(0),
            stats: Mutex::default(),
        });
        let handle = Self { shard: outbox.shard, mail, status };
        let stop = shared.context.stop.clone();
        let (outbox, written, epochs) = (outbox.clone(), AtomicU64::new(0), AtomicU64::new(0));
        let sagas = SagasOfShard { outbox, shared, handle: handle.clone(), written, epochs };
        (handle, tokio::spawn(commit::supervise(sagas, receiver, stop)))
    }

    pub fn condition(&self) -> Condition {
        self.status.condition.borrow().clone()
    }

    /// Whether this host writes them, as far as it knows.
    pub fn is_written(&self) -> bool {
        self.status.condition.borrow().is_owned()
    }

    pub fn stats(&self) -> SagaStats {
        self.status.stats.lock().clone()
    }

    /// Beat to go with a lookup of a caller's id: read before the store is asked.
    pub fn beat(&self) -> u64 {
        self.status.beat.load(Ordering::Acquire)
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
        self.ask(|reply| Mail::Watch { key, reply }).await
    }

    /// The inbox left something at the door.
    pub fn wake_door(&self) {
        let _gone = self.mail.send(Mail::Door);
    }

    /// The answer to a question about what is in memory, if this host writes the shard's sagas.
    async fn query<T>(&self, query: impl FnOnce(oneshot::Sender<T>) -> MemoryQuery) -> Option<T> {
        if !self.is_written() {
            return None;
        }
        self.ask(|reply| Mail::Query(query(reply))).await
    }

    /// Begins no new calls, waits for those under way at most `timeout`, and ends.
    pub async fn release(&self, timeout: Duration) {
        self.ask(|reply| Mail::Release { timeout, reply }).await;
    }

    /// The answer to mail, unless the task ended or had none.
    async fn ask<T>(&self, mail: impl FnOnce(oneshot::Sender<T>) -> Mail) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.mail.send(mail(reply)).ok()?;
        answer.await.ok()
    }
}

fn unknown_outcome() -> SagaError {
    SagaError::OutcomeUnknown(StoreError::Unavailable(
        "the task that writes the sagas ended before it could say".to_owned(),
    ))
}
