//! The inbox: one task a shard that drives the pure [`waybill_core::inbox::owner::InboxOwner`], the sources and handlers of its homes,
//! and the service.
//!
//! A shard's inbox is written by the host that owns the outbox shard of the same number, with that shard's token. What handlers leave
//! goes over the doorsteps of outbox and sagas, in the commit that marks the message as processed.
//!
//! | file | holds |
//! |---|---|
//! | `config` | sources, consumers and bounds as configured |
//! | `settings` | which of them live in a shard |
//! | `change` | what a running host can't take over of another configuration |
//! | `mail` | what others ask of the task |
//! | `takeover` | takeover, and what others hear meanwhile |
//! | `actor` | the loop: mail, reads, calls, commits, sources |
//! | `flight` | what a commit and its fate mean here (the rest is in [`crate::commit`]) |
//! | `reads` | look-ups in the seen set, rows read before they are called |
//! | `sources` | opening, pulling, settling, closing |
//! | `calls` | handlers, and what needs none |
//! | `requests` | replays and purges that wait for their commit |
//! | `holds` | why consumers stand still, for people |
//! | `tidy` | what is out of the window or of its keeping time |
//! | `service` | inbox, sources and dead letters as the API sees them |
//! | `meter` | metrics |

mod actor;
mod calls;
pub(crate) mod change;
mod config;
mod flight;
mod holds;
mod mail;
mod meter;
mod reads;
mod requests;
pub(crate) mod service;
mod settings;
mod sources;
mod takeover;
pub(crate) mod tidy;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use waybill_core::ids::{ConsumerName, InboundId, Seq, ShardId};
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::owner::{InMemory, InboxOwner};
use waybill_core::inbox::records::InboxDead;
use waybill_core::inbox::seen::OwnedAge;
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::port::transport::CallError;

use crate::commit::{self, Condition};
use crate::saga::service::Sagas;
use crate::shard::{Context, ShardHandle};
use crate::streams::service::Streams;
use holds::HoldNotes;
use mail::{Mail, ReplayAsk};
use meter::InboxMeter;
use settings::HomeSettings;
pub(crate) use sources::Seats;
use takeover::InboxOfShard;

pub use change::{InboundHomes, Refusal};
pub use config::{ConsumerConfig, ConsumerTarget, InboundConfig, SourceConfig};

/// What callers hear while the shard is given back.
const SHUTTING_DOWN: &str = "it is shutting down: ask another host, or try again later";

/// What the tasks of all shards and the service share.
pub(crate) struct Shared {
    pub context: Arc<Context>,
    pub store: Arc<dyn InboxStore>,
    /// What is in force.
    pub config: ArcSwap<InboundConfig>,
    pub seats: Seats,
    pub meter: InboxMeter,
    /// The outbox's shards: woken when a commit left messages for their doorsteps.
    pub outbox: Vec<ShardHandle>,
    /// The same of sagas, if this host runs any.
    pub sagas: Option<Arc<Sagas>>,
    /// And of event streams.
    pub streams: Option<Arc<Streams>>,
}

/// What others see of a shard's inbox.
pub(crate) struct InboxStatus {
    pub condition: Arc<watch::Sender<Condition>>,
    /// Age of the shard as of the last commit known to be in.
    age: AtomicU64,
    /// The last ownership of this process ended with nothing at a handler and nothing uncommitted; true before the first.
    is_settled: AtomicBool,
}

/// The way to the task of a shard's inbox.
#[derive(Clone)]
pub(crate) struct InboxHandle {
    pub shard: ShardId,
    mail: mpsc::UnboundedSender<Mail>,
    status: Arc<InboxStatus>,
}

impl InboxHandle {
    pub fn start(outbox: &ShardHandle, shared: Arc<Shared>) -> (Self, tokio::task::JoinHandle<()>) {
        let (mail, receiver) = mpsc::unbounded_channel();
        let condition = Arc::new(watch::Sender::new(Condition::Starting));
        let status = Arc::new(InboxStatus { condition, age: AtomicU64::new(0), is_settled: AtomicBool::new(true) });
        let handle = Self { shard: outbox.shard, mail, status };
        let stop = shared.context.stop.clone();
        let (outbox, written, epochs) = (outbox.clone(), AtomicU64::new(0), AtomicU64::new(0));
        let (handle_of, reconfigured) = (handle.clone(), Notify::new());
        let inbox = InboxOfShard { outbox, shared, handle: handle_of, written, epochs, reconfigured };
        (handle, tokio::spawn(commit::supervise(inbox, receiver, stop)))
    }

    pub fn condition(&self) -> Condition {
        self.status.condition.borrow().clone()
    }

    /// Whether this host writes it, as far as it knows.
    pub fn is_written(&self) -> bool {
        self.status.condition.borrow().is_owned()
    }

    /// How old the shard is, in time that somebody owned it.
    pub fn age(&self) -> OwnedAge {
        OwnedAge(self.status.age.load(Ordering::Acquire))
    }

    fn set_settled(&self, is_settled: bool) {
        self.status.is_settled.store(is_settled, Ordering::Release);
    }

    fn is_settled(&self) -> bool {
        self.status.is_settled.load(Ordering::Acquire)
    }

    fn set_age(&self, age: OwnedAge) {
        self.status.age.store(age.0, Ordering::Release);
    }

    /// What an owner in memory answers to a question, if this host writes the shard's inbox.
    async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&InboxOwner, &HomeSettings, &HoldNotes) -> T + Send + 'static,
    ) -> Option<T> {
        if !self.is_written() {
            return None;
        }
        self.ask(|reply| {
            Mail::Query(Box::new(move |owner, home, holds| {
                // Nobody listens when the caller hung up.
                let _gone = reply.send(question(owner, home, holds));
            }))
        })
        .await
    }

    /// The message with an id at a consumer, if it is in memory.
    pub async fn find(&self, consumer: ConsumerName, id: InboundId) -> Option<InMemory> {
        if !self.is_written() {
            return None;
        }
        self.ask(|reply| Mail::Find { consumer, id, reply }).await.flatten()
    }

    /// Has a dead letter handled again; answers when it is stored.
    pub async fn replay(
        &self,
        dead: Arc<InboxDead>,
        message: Arc<InboundMessage>,
    ) -> Result<Option<InMemory>, ServiceError> {
        self.command(|reply| Mail::Replay(ReplayAsk { dead, message, reply })).await
    }

    /// Removes a dead letter for good.
    pub async fn purge(&self, dead: Seq) -> Result<(), ServiceError> {
        self.command(|reply| Mail::Purge { dead, reply }).await
    }

    /// Closes a source and opens it again.
    pub async fn reopen(&self, source: String, go_on: bool) -> Option<Result<(), CallError>> {
        self.ask(|reply| Mail::Reopen { source, go_on, reply }).await
    }

    /// A source was paused or resumed.
    pub fn seat_changed(&self) {
        let _gone = self.mail.send(Mail::SeatChanged);
    }

    /// Another configuration is in force.
    pub fn reconfigured(&self) {
        let _gone = self.mail.send(Mail::Reconfigured);
    }

    /// Pulls and calls nothing more, waits for calls under way at most `timeout`, gives back what is in hand, and ends.
    pub async fn release(&self, timeout: Duration) {
        self.ask(|reply| Mail::Release { timeout, reply }).await;
    }

    async fn command<T>(
        &self,
        mail: impl FnOnce(oneshot::Sender<Result<T, ServiceError>>) -> Mail,
    ) -> Result<T, ServiceError> {
        let (reply, answer) = oneshot::channel();
        self.mail.send(mail(reply)).map_err(|_| ServiceError::Unavailable(SHUTTING_DOWN.to_owned()))?;
        answer.await.unwrap_or_else(|_| Err(unknown_outcome()))
    }

    /// The answer to mail, unless the task ended or had none.
    async fn ask<T>(&self, mail: impl FnOnce(oneshot::Sender<T>) -> Mail) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.mail.send(mail(reply)).ok()?;
        answer.await.ok()
    }
}

fn unknown_outcome() -> ServiceError {
    let ended = "the task that writes the inbox ended before it could say".to_owned();
    ServiceError::OutcomeUnknown(StoreError::Unavailable(ended))
}
