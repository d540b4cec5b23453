//! One shard: a supervised actor that owns it, or watches it until it can be taken over.
//!
//! | file | holds |
//! |---|---|
//! | `mail` | what others ask of the actor |
//! | `query` | what others ask about the messages in memory |
//! | `takeover` | takeover, observation, and what others hear meanwhile |
//! | `mine` | what this process has owned, so that its own ends are no deaths |
//! | `actor` | the loop of an owner |
//! | `callers` | who waits for a commit, and what they hear |
//! | `prepare` | reads that the next commit needs |
//! | `door` | the doorstep: when to look, and who waits for a look |
//! | `flight` | what a commit and its fate mean here (the rest is in [`crate::commit`]) |
//! | `load` | segments that are read into memory |
//! | `dispatch` | batches through transports |
//! | `dedup` | what was delivered already isn't sent again |
//! | `flow` | whether whole transports are held, for the feed of changes |
//! | `fate` | from a transport's word to a settlement |
//! | `spans` | spans of the messages of a call |
//! | `outside` | what workers outside want to become of messages |
//! | `conflict` | settlements that came after their lease was lost |

mod actor;
mod callers;
mod conflict;
pub(crate) mod dedup;
mod dispatch;
mod door;
mod fate;
mod flight;
mod flow;
mod load;
mod mail;
mod mine;
mod openings;
mod outside;
mod prepare;
mod query;
mod spans;
mod takeover;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use waybill_core::ids::ShardId;
use waybill_core::new_message::Draft;
use waybill_core::outbox::lone_trials::LoneTrials;
use waybill_core::outbox::owner::{Claim, Claimed, TransportId};
use waybill_core::outbox::rates::Rates;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::time::{Monotonic, SteadyClock, UnixMillis};

pub(crate) use mail::{CommandAsk, EnqueueAsk, EnqueueCaller, EnqueuedOne, Mail, OperatorCommand, Taken};
pub(crate) use outside::{OutsideAsk, OutsideDone};
pub(crate) use query::{Blocked, OwnerQuery};

use crate::admission::Admitted;
use crate::clock::Clocks;
use crate::commit::{self, Commits, Condition};
use crate::config::{EngineConfig, Stores};
use crate::history::Counts;
use crate::live::Live;
use crate::meter::Meter;
use crate::supervisor::Supervisor;
use mine::Mine;
use takeover::OutboxShard;

/// What all shards and the service share.
pub(crate) struct Context {
    /// As at the start; what may change meanwhile is read from [`Context::live`].
    pub config: EngineConfig,
    /// Name of this host, as attempts are recorded with it.
    pub host: Arc<str>,
    pub stores: Stores,
    pub in_force: ArcSwap<Live>,
    pub clock: Clocks,
    /// Of events that number themselves.
    pub steady: Mutex<SteadyClock>,
    pub meter: Meter,
    /// What the history counts.
    pub counts: Arc<Counts>,
    pub door: DoorBell,
    /// Changes whenever a commit of this host may have counted fates of what operations put back.
    pub fates: watch::Sender<u64>,
    pub commits: Commits,
    pub trials: LoneTrials,
    /// What tenants and transports may send a second, over all shards of this host.
    pub rates: Arc<Rates>,
    pub supervisor: Arc<Supervisor>,
    /// The host drains: background work ends at its next safe point.
    pub closing: CancellationToken,
    /// The engine is gone: everything ends where it is.
    pub stop: CancellationToken,
}

impl Context {
    /// What is in force now.
    pub fn live(&self) -> Arc<Live> {
        self.in_force.load_full()
    }

    /// Wakes who waits for fates of what operations put back.
    pub fn tell_fates(&self) {
        self.fates.send_modify(|told| *told = told.wrapping_add(1));
    }

    /// The clock that never goes back.
    pub fn steady_now(&self) -> UnixMillis {
        let now = self.clock.now();
        self.steady.lock().at(now)
    }
}

/// Counts doorstep commits of this process that have ended, so that an embedded store's doorstep is read only when
/// something may lie on it. It is rung after the commit and before its caller is answered.
#[derive(Debug, Default)]
pub(crate) struct DoorBell {
    ended: AtomicU64,
}

impl DoorBell {
    pub fn ring(&self) {
        self.ended.fetch_add(1, Ordering::AcqRel);
    }
    pub fn count(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }
}

/// Until when a shard's owner may act as such: (start of its last good commit + owner TTL), by the boot-time clock.
#[derive(Debug, Default)]
pub(crate) struct Lease(AtomicU64);

impl Lease {
    fn set(&self, until: Monotonic) {
        self.0.store(u64::try_from(until.0.as_nanos()).unwrap_or(u64::MAX), Ordering::Release);
    }
    pub fn until(&self) -> Monotonic {
        Monotonic(Duration::from_nanos(self.0.load(Ordering::Acquire)))
    }
}

/// What others see of a shard.
#[derive(Clone)]
pub(crate) struct ShardStatus {
    condition: Arc<watch::Sender<Condition>>,
    lease: Arc<Lease>,
    /// Token of the latest takeover of this host that went in and before which the owner had died; 0 = none.
    died: Arc<AtomicU64>,
}

impl ShardStatus {
    fn note_death(&self, token: u64) {
        self.died.store(token, Ordering::Release);
    }
}

/// The way to a shard's actor.
#[derive(Clone)]
pub(crate) struct ShardHandle {
    pub shard: ShardId,
    mail: mpsc::UnboundedSender<Mail>,
    status: ShardStatus,
}

impl ShardHandle {
    /// Starts the actor of a shard.
    pub fn start(shard: ShardId, context: Arc<Context>) -> (Self, tokio::task::JoinHandle<()>) {
        // Bounded by what comes in, not by itself: messages by their admission, ends of calls by the lanes, the rest by how many
        // requests the API lets in at once (`Mail` says it of each).
        let (sender, receiver) = mpsc::unbounded_channel();
        let condition = Arc::new(watch::Sender::new(Condition::Starting));
        let status = ShardStatus { condition, lease: Arc::default(), died: Arc::default() };
        let stop = context.stop.clone();
        let handle = Self { shard, mail: sender.clone(), status: status.clone() };
        let owned = OutboxShard { id: shard, context, sender, status, mine: Mine::default() };
        (handle, tokio::spawn(commit::supervise(owned, receiver, stop)))
    }

    pub fn condition(&self) -> Condition {
        self.status.condition.borrow().clone()
    }

    /// Its condition now and from now on.
    pub fn watch(&self) -> watch::Receiver<Condition> {
        self.status.condition.subscribe()
    }

    /// Until when nobody else can have taken the shard over, by this host's boot-time clock.
    pub fn lease(&self) -> &Arc<Lease> {
        &self.status.lease
    }

    /// Whether this host took the shard over from one that died, with a token above this one.
    pub fn died_since(&self, token: u64) -> bool {
        self.status.died.load(Ordering::Acquire) > token
    }

    /// Enqueues drafts of this shard; answers after the durable commit.
    pub async fn enqueue(&self, drafts: Vec<Draft>, room: Admitted) -> Result<Taken, ServiceError> {
        let (reply, answer) = oneshot::channel();
        self.post(Mail::Enqueue(EnqueueAsk { drafts, caller: EnqueueCaller::new(reply, room) }))?;
        answer.await.unwrap_or_else(|_| Err(unknown_outcome()))
    }

    /// Whether this host owns the shard, as far as it knows.
    pub fn is_owned(&self) -> bool {
        self.status.condition.borrow().is_owned()
    }

    /// Has an operator's command done; answers after the durable commit.
    pub async fn command(&self, command: OperatorCommand) -> Result<(), ServiceError> {
        let (reply, answer) = oneshot::channel();
        self.post(Mail::Command(CommandAsk { command, reply }))?;
        answer.await.unwrap_or_else(|_| Err(unknown_outcome()))
    }

    /// The answer to a question about what is in memory, if this host owns the shard.
    pub async fn query<T>(&self, query: impl FnOnce(oneshot::Sender<T>) -> OwnerQuery) -> Option<T> {
        self.ask(|reply| Mail::Query(query(reply))).await
    }

    /// Hands messages to a worker outside, with the owner's token. None when this host doesn't own the shard.
    pub async fn claim(&self, ask: Claim, nonce: u64) -> Option<(u64, Vec<Claimed>)> {
        self.ask(|reply| Mail::Claim { ask, nonce, reply }).await
    }

    /// A worker outside is about to ask for messages. True when they may have to be read first.
    pub async fn expect_workers(&self) -> bool {
        self.ask(Mail::ExpectWorkers).await.unwrap_or(false)
    }

    /// Does what a worker outside wants with a message; the answer comes to `ask.reply`.
    pub fn settle_outside(&self, ask: OutsideAsk) -> Result<(), ServiceError> {
        self.post(Mail::Outside(Box::new(ask)))
    }

    /// Something may lie on the doorstep.
    pub fn wake_door(&self) {
        let _gone = self.mail.send(Mail::Door);
    }

    /// Waits until everything that lies on the doorstep now has been taken in. False when this host doesn't own the shard.
    pub async fn take_in_door(&self) -> bool {
        self.ask(Mail::DoorSync).await.is_some()
    }

    /// Has the actor go by what is in force now; returns when it does. One that ends in between reads what is in force when it
    /// begins again.
    pub async fn reroute(&self) {
        self.ask(Mail::Reroute).await;
    }

    /// Holds or resumes a transport.
    pub fn pause(&self, transport: TransportId, paused: bool) {
        let _gone = self.mail.send(Mail::Pause { transport, paused });
    }

    /// Tries what the holds of a transport keep back.
    pub fn retry_holds(&self, transport: TransportId) {
        let _gone = self.mail.send(Mail::RetryHolds(transport));
    }

    /// Stops sending, waits for sends under way at most `timeout`, and gives the shard back.
    pub async fn release(&self, timeout: Duration) {
        self.ask(|reply| Mail::Release { timeout, reply }).await;
    }

    /// The answer to mail, unless the actor ended or had none.
    async fn ask<T>(&self, mail: impl FnOnce(oneshot::Sender<T>) -> Mail) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.mail.send(mail(reply)).ok()?;
        answer.await.ok()
    }

    fn post(&self, mail: Mail) -> Result<(), ServiceError> {
        self.mail.send(mail).map_err(|_| {
            ServiceError::Unavailable("it is shutting down: send to another host or try again later".to_owned())
        })
    }
}

fn unknown_outcome() -> ServiceError {
    ServiceError::OutcomeUnknown(StoreError::Unavailable("the shard's owner ended before it could say".to_owned()))
}
