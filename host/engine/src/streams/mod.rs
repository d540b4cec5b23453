//! Event streams: one task a shard that drives the pure [`waybill_core::streams::owner::StreamOwner`], the readers of this host, and
//! the relays.
//!
//! A shard's streams are numbered by the host that owns the outbox shard of the same number, with that shard's token. The store is the
//! law, memory a hint: a reader that lacks something looks into the store.
//!
//! | file | holds |
//! |---|---|
//! | `config` | streams and relays as configured |
//! | `mail` | what others ask of the task |
//! | `takeover` | takeover, and what others hear meanwhile |
//! | `actor` | the loop: mail, looks, commits, relays, upkeep |
//! | `look` | what is read before a commit, and the commit that comes of it |
//! | `door` | when the doorstep is looked at |
//! | `feed_trim` | when old records of the feed are looked for |
//! | `callers` | who waits for numbers, and what they hear |
//! | `flight` | what a commit and its fate mean here (the rest is in [`crate::commit`]) |
//! | `upkeep` | which streams are merged, trimmed and compacted next |
//! | `notes` | what upkeep remembers of streams |
//! | `due` | when idle streams are looked for whose age is due |
//! | `relay` | from streams to brokers |
//! | `rings` | what was published of late, for the readers of this host |
//! | `follow` | what other hosts publish, from the feeds of their shards |
//! | `readers` | subscriptions: their places, their bounds, their ends |
//! | `histories` | sagas' histories, which are read as streams |
//! | `service` | streams and relays as the surfaces see them |
//! | `left` | events that steps and handlers leave behind |
//! | `meter` | metrics |

mod actor;
mod callers;
mod config;
mod door;
mod due;
mod feed_trim;
mod flight;
mod follow;
pub(crate) mod histories;
pub(crate) mod left;
mod look;
mod mail;
mod meter;
mod notes;
mod readers;
mod relay;
mod rings;
pub(crate) mod service;
mod takeover;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, oneshot, watch};
use waybill_core::ids::{RelayName, ShardId};
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::StreamActed;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::{StreamSlice, StreamStore};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::owner::StreamOwner;
use waybill_core::streams::records::{Append, Checkpoint};
use waybill_core::streams::settings::StreamsSettings;
use waybill_core::streams::wire::Broker;

use crate::commit::{self, Condition};
use crate::shard::{Context, DoorBell, ShardHandle};
use histories::HistorySource;
use mail::{AppendAsk, AppendReply, Mail, PurgeAsk, SeekAsk, Sent};
use meter::StreamMeter;
use readers::Readers;
use relay::{RelayDriver, RelayStates};
use rings::Rings;
use takeover::StreamsOfShard;

pub use config::StreamsConfig;

/// What callers hear while the shard is given back.
const SHUTTING_DOWN: &str = "it is shutting down: ask another host, or try again later";

/// What the tasks of all shards, the readers and the service share.
pub(crate) struct Shared {
    pub context: Arc<Context>,
    pub store: Arc<dyn StreamStore>,
    pub incarnation: u64,
    /// What transports speak, by their names.
    pub brokers: BTreeMap<String, Broker>,
    /// What is in force.
    pub settings: ArcSwap<StreamsSettings>,
    /// Counts appends of this process to doorsteps that have ended.
    pub bell: DoorBell,
    pub rings: Rings,
    pub readers: Readers,
    pub histories: HistorySource,
    pub relays: RelayStates,
    pub meter: StreamMeter,
}

impl Shared {
    pub fn settings(&self) -> Arc<StreamsSettings> {
        self.settings.load_full()
    }

    /// Commits of this process that have ended and may have left something on a doorstep: appends of streams, and callers' transactions.
    pub fn bell(&self) -> u64 {
        self.bell.count().wrapping_add(self.context.door.count())
    }

    pub fn shards(&self) -> u16 {
        self.context.config.shards.max(1)
    }

    /// A stream behind a number, for readers: of a saga's history, what its saga tells.
    pub async fn slice(&self, stream: &StreamKey, after: u64, bytes_max: usize) -> Result<StreamSlice, ServiceError> {
        if stream.name.is_saga() {
            return self.histories.slice(stream, after, bytes_max).await;
        }
        Ok(self.store.stream_slice(stream, after, bytes_max).await?)
    }
}

/// The way to the task of a shard's streams.
#[derive(Clone)]
pub(crate) struct StreamHandle {
    pub shard: ShardId,
    mail: mpsc::UnboundedSender<Mail>,
    condition: Arc<watch::Sender<Condition>>,
}

impl StreamHandle {
    pub fn start(outbox: &ShardHandle, shared: Arc<Shared>) -> (Self, tokio::task::JoinHandle<()>) {
        let (mail, receiver) = mpsc::unbounded_channel();
        let condition = Arc::new(watch::Sender::new(Condition::Starting));
        let handle = Self { shard: outbox.shard, mail, condition };
        let stop = shared.context.stop.clone();
        let (outbox, epochs) = (outbox.clone(), AtomicU64::new(0));
        let streams = StreamsOfShard { outbox, shared, handle: handle.clone(), epochs };
        (handle, tokio::spawn(commit::supervise(streams, receiver, stop)))
    }

    pub fn condition(&self) -> Condition {
        self.condition.borrow().clone()
    }

    /// Whether this host numbers its streams, as far as it knows.
    pub fn is_owned(&self) -> bool {
        self.condition.borrow().is_owned()
    }

    /// Has an append numbered; answers after the durable commit. None = this host doesn't own the shard, and nothing was done.
    async fn append(&self, append: Arc<Append>) -> Option<Result<AppendReply, ServiceError>> {
        let (reply, answer) = oneshot::channel();
        self.mail.send(Mail::Append(AppendAsk { append, reply })).ok()?;
        Some(answer.await.unwrap_or_else(|_| Err(unknown_outcome())))
    }

    /// Something may lie on the doorstep.
    pub fn wake_door(&self) {
        let _gone = self.mail.send(Mail::Door);
    }

    /// Takes away the front of a stream; answers when it is durable.
    pub async fn purge(&self, stream: StreamKey, before: Option<u64>) -> Result<StreamActed, ServiceError> {
        self.command(|reply| Mail::Purge(PurgeAsk { stream, before, reply })).await
    }

    /// Sets a relay's place in a stream; answers when it is durable.
    pub async fn seek(
        &self,
        relay: RelayName,
        stream: StreamKey,
        checkpoint: Checkpoint,
        upto: u64,
    ) -> Result<(), ServiceError> {
        self.command(|reply| Mail::Seek(SeekAsk { relay, stream, checkpoint, upto, reply })).await
    }

    /// What became of events that a relay sent, for the ownership that sent them.
    fn sent(&self, epoch: u64, relay: RelayName, sent: Vec<Sent>) {
        let _gone = self.mail.send(Mail::Sent { epoch, relay, sent });
    }

    /// What an owner in memory answers to a question, if this host owns the shard.
    async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&StreamOwner, &[RelayDriver]) -> T + Send + 'static,
    ) -> Option<T> {
        if !self.is_owned() {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        let look = move |owner: &StreamOwner, relays: &[RelayDriver]| {
            // Nobody listens when the caller hung up.
            let _gone = reply.send(question(owner, relays));
        };
        self.mail.send(Mail::Query(Box::new(look))).ok()?;
        answer.await.ok()
    }

    /// A relay was paused or resumed.
    pub fn relay_changed(&self) {
        let _gone = self.mail.send(Mail::RelayChanged);
    }

    /// Other settings are in force.
    pub fn reconfigured(&self) {
        let _gone = self.mail.send(Mail::Reconfigured);
    }

    /// Sends nothing more, waits for what is under way at most `timeout`, and ends.
    pub async fn release(&self, timeout: Duration) {
        let (reply, answer) = oneshot::channel();
        if self.mail.send(Mail::Release { timeout, reply }).is_ok() {
            let _ended = answer.await;
        }
    }

    async fn command<T>(
        &self,
        mail: impl FnOnce(oneshot::Sender<Result<T, ServiceError>>) -> Mail,
    ) -> Result<T, ServiceError> {
        let (reply, answer) = oneshot::channel();
        self.mail.send(mail(reply)).map_err(|_| ServiceError::Unavailable(SHUTTING_DOWN.to_owned()))?;
        answer.await.unwrap_or_else(|_| Err(unknown_outcome()))
    }
}

fn unknown_outcome() -> ServiceError {
    let ended = "the task that numbers the shard's streams ended before it could say".to_owned();
    ServiceError::OutcomeUnknown(StoreError::Unavailable(ended))
}
