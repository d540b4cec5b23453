//! One shard: a supervised actor that owns it, or watches it until it can be taken over.
//!
//! | file | holds |
//! |---|---|
//! | `mail` | what others ask of the actor |
//! | `supervise` | takeover, observation, and what follows a panic |
//! | `mine` | what this process has owned, so that its own ends are no deaths |
//! | `actor` | the loop of an owner |
//! | `callers` | who waits for a commit, and what they hear |
//! | `prepare` | reads that the next commit needs |
//! | `door` | the doorstep: when to look, and who waits for a look |
//! | `flight` | the one outstanding commit and its fate |
//! | `dispatch` | batches through transports |
//! | `dedup` | what was delivered already isn't sent again |
//! | `fate` | from a transport's word to a settlement |
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
mod mail;
mod mine;
mod outside;
mod prepare;
mod supervise;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use waybill_core::ids::ShardId;
use waybill_core::new_message::Draft;
use waybill_core::outbox::lone_trials::LoneTrials;
use waybill_core::outbox::owner::{Owner, TransportId};
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::time::{Monotonic, Now};

pub(crate) use mail::{CommandAsk, EnqueueAsk, EnqueueCaller, EnqueuedOne, Mail, Taken, Wish};
pub(crate) use outside::{OutsideAsk, OutsideDone};

use crate::admission::Admitted;
use crate::clock::Clocks;
use crate::config::{EngineConfig, Stores};
use crate::live::Live;
use crate::meter::Meter;
use crate::supervisor::Supervisor;

/// What all shards and the service share.
pub(crate) struct Context {
    /// As at the start; what may change meanwhile is read from [`Context::live`].
    pub config: EngineConfig,
    /// Name of this host, as attempts are recorded with it.
    pub host: Arc<str>,
    pub stores: Stores,
    pub in_force: ArcSwap<Live>,
    pub clock: Clocks,
    pub meter: Meter,
    pub door: DoorBell,
    pub commits: Commits,
    pub trials: LoneTrials,
    /// Background tasks.
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

/// Since when each shard's commit has been under way.
#[derive(Debug, Default)]
pub(crate) struct Commits(Mutex<BTreeMap<ShardId, Instant>>);

impl Commits {
    fn began(&self, shard: ShardId) {
        self.0.lock().insert(shard, Instant::now());
    }
    fn ended(&self, shard: ShardId) {
        self.0.lock().remove(&shard);
    }
    /// How long the slowest of them has taken so far.
    pub fn longest(&self) -> Duration {
        self.0.lock().values().map(Instant::elapsed).max().unwrap_or_default()
    }
}

/// Condition of a shard as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Not taken yet.
    Starting,
    /// Another host owns it.
    Observing { owner: String },
    /// This host owns it.
    Owning { token: u64 },
    /// The store makes trouble; `owning` = the shard is this host's as far as it knows.
    Trouble { error: StoreError, owning: bool },
    /// Given back.
    Released,
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
pub(crate) struct Seen {
    condition: Arc<watch::Sender<Condition>>,
    lease: Arc<Lease>,
    /// Token of the latest takeover of this host that went in and before which the owner had died; 0 = none.
    died: Arc<AtomicU64>,
}

impl Seen {
    fn note_death(&self, token: u64) {
        self.died.store(token, Ordering::Release);
    }
    fn set(&self, condition: Condition) {
        self.condition.send_replace(condition);
    }
}

/// The way to a shard's actor.
#[derive(Clone)]
pub(crate) struct ShardHandle {
    pub shard: ShardId,
    mail: mpsc::UnboundedSender<Mail>,
    seen: Seen,
}

impl ShardHandle {
    /// Starts the actor of a shard.
    pub fn start(shard: ShardId, context: Arc<Context>) -> (Self, tokio::task::JoinHandle<()>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let condition = Arc::new(watch::Sender::new(Condition::Starting));
        let seen = Seen { condition, lease: Arc::default(), died: Arc::default() };
        let task = tokio::spawn(supervise::supervise(shard, context, sender.clone(), receiver, seen.clone()));
        (Self { shard, mail: sender, seen }, task)
    }

    pub fn condition(&self) -> Condition {
        self.seen.condition.borrow().clone()
    }

    /// Its condition now and from now on.
    pub fn watch(&self) -> watch::Receiver<Condition> {
        self.seen.condition.subscribe()
    }

    /// Until when nobody else can have taken the shard over, by this host's boot-time clock.
    pub fn lease(&self) -> &Arc<Lease> {
        &self.seen.lease
    }

    /// Whether this host took the shard over from one that died, with a token above this one.
    pub fn died_since(&self, token: u64) -> bool {
        self.seen.died.load(Ordering::Acquire) > token
    }

    /// Enqueues drafts of this shard; answers after the durable commit.
    pub async fn enqueue(&self, drafts: Vec<Draft>, room: Admitted) -> Result<Taken, ServiceError> {
        let (reply, answer) = oneshot::channel();
        self.post(Mail::Enqueue(EnqueueAsk { drafts, caller: EnqueueCaller::new(reply, room) }))?;
        answer.await.unwrap_or_else(|_| Err(unknown_outcome()))
    }

    /// Whether this host owns the shard, as far as it knows.
    pub fn is_owned(&self) -> bool {
        matches!(*self.seen.condition.borrow(), Condition::Owning { .. } | Condition::Trouble { owning: true, .. })
    }

    /// Has an operator's wish done; answers after the durable commit.
    pub async fn command(&self, wish: Wish) -> Result<(), ServiceError> {
        let (reply, answer) = oneshot::channel();
        self.post(Mail::Command(CommandAsk { wish, reply }))?;
        answer.await.unwrap_or_else(|_| Err(unknown_outcome()))
    }

    /// Runs a look or a small change on the owner, if this host owns the shard.
    pub async fn visit<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Owner, Now) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let visit = Box::new(move |owner: &mut Owner, now: Now| {
            // Nobody waits any more: nothing to tell.
            let _unheard = reply.send(look(owner, now));
        });
        self.post(Mail::Visit(visit)).ok()?;
        answer.await.ok()
    }

    /// Does what a worker outside wants with a message; the answer comes to `ask.reply`.
    pub fn settle_outside(&self, ask: OutsideAsk) -> Result<(), ServiceError> {
        self.post(Mail::Outside(Box::new(ask)))
    }

    /// Something may lie on the doorstep.
    pub fn knock(&self) {
        let _gone = self.mail.send(Mail::Door);
    }

    /// Waits until everything that lies on the doorstep now has been taken in. False when this host doesn't own the shard.
    pub async fn take_in_door(&self) -> bool {
        let (reply, answer) = oneshot::channel();
        self.mail.send(Mail::DoorSync(reply)).is_ok() && answer.await.is_ok()
    }

    /// Has the actor go by what is in force now; returns when it does.
    pub async fn reroute(&self) {
        let (reply, answer) = oneshot::channel();
        if self.mail.send(Mail::Reroute(reply)).is_ok() {
            // An actor that ends in between reads what is in force when it begins again.
            let _ended = answer.await;
        }
    }

    /// Holds or resumes a transport.
    pub fn pause(&self, transport: TransportId, paused: bool) {
        let _gone = self.mail.send(Mail::Pause { transport, paused });
    }

    /// Stops sending, waits for sends under way at most `timeout`, and gives the shard back.
    pub async fn release(&self, timeout: Duration) {
        let (reply, answer) = oneshot::channel();
        if self.mail.send(Mail::Release { timeout, reply }).is_ok() {
            let _ended = answer.await;
        }
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
