//! The loop of whoever owns a shard's inbox: take mail, read, call, commit, and keep the sources going.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use waybill_core::inbox::owner::InboxOwner;
use waybill_core::inbox::records::InboxShardRecord;
use waybill_core::inbox::settings::{ConsumerId, SourceId};
use waybill_core::outbox::lone_trials::Party;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::time::{Monotonic, Now};

use super::calls::Components;
use super::config::ConsumerTarget;
use super::flight::CommitContent;
use super::holds::HoldNotes;
use super::mail::Mail;
use super::meter::CountsTold;
use super::reads::Reads;
use super::requests::Requests;
use super::settings::HomeSettings;
use super::sources::{Places, close_within};
use super::{InboxHandle, SHUTTING_DOWN, Shared};
use crate::commit::{Condition, Driven, End, Flight};
use crate::engine::CLOSE_TIMEOUT;
use crate::shard::{Lease, ShardHandle};

/// Mail taken in one go before the loop looks at its other work.
const MAIL_AT_ONCE: usize = 4_096;
/// Longest sleep of the loop.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// Counts are told this often.
const METER_EVERY: Duration = Duration::from_secs(1);
/// What is with handlers gets this long to be finished before an owner begins anew by another configuration.
pub(super) const RECONFIGURE_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Actor {
    pub shared: Arc<Shared>,
    pub handle: InboxHandle,
    outbox: watch::Receiver<Condition>,
    lease: Arc<Lease>,
    pub owner: InboxOwner,
    pub home: Arc<HomeSettings>,
    /// Number of this ownership.
    pub epoch: u64,
    pub flight: Flight<InboxShardRecord>,
    /// Of the commit that is out.
    pub content: CommitContent,
    pub reads: Reads,
    pub sources: Places,
    pub components: Components,
    pub requests: Requests,
    pub holds: HoldNotes,
    /// Calls of sources and handlers. They end with the ownership.
    pub tasks: JoinSet<()>,
    ending: Option<Ending>,
    metered_at: Instant,
    pub counts_told: CountsTold,
}

/// The ownership is to end in good order.
struct Ending {
    until: Instant,
    /// Who gives the shard back; none = another configuration is in force, and it is taken over anew.
    release: Option<oneshot::Sender<()>>,
}

/// What woke the loop.
enum Wake<C, S, R> {
    Commit(C),
    LookedUp(S),
    Loaded(R),
    Mail(Option<Mail>),
    /// The outbox's owner changed; true = nobody tells any more.
    Outbox(bool),
    Time,
}

impl Actor {
    pub fn new(
        shared: Arc<Shared>,
        handle: InboxHandle,
        outbox: ShardHandle,
        owner: InboxOwner,
        home: Arc<HomeSettings>,
        epoch: u64,
    ) -> Self {
        handle.set_settled(false);
        Self {
            flight: Flight::begin(&shared.context.commits, &handle.status.condition, owner.record().token),
            sources: Places::new(&home, &shared.seats),
            components: Components::default(),
            lease: Arc::clone(outbox.lease()),
            outbox: outbox.watch(),
            handle,
            owner,
            home,
            epoch,
            content: CommitContent::default(),
            reads: Reads::default(),
            requests: Requests::default(),
            holds: HoldNotes::default(),
            tasks: JoinSet::new(),
            ending: None,
            metered_at: Instant::now(),
            counts_told: CountsTold::default(),
            shared,
        }
    }

    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Until when calls may begin, by the local clock.
    pub fn lease_until(&self) -> Monotonic {
        if self.shared.context.config.exclusive { Monotonic(Duration::MAX) } else { self.lease.until() }
    }

    pub async fn run(mut self, mailbox: &mut mpsc::UnboundedReceiver<Mail>) -> End {
        loop {
            for _ in 0..MAIL_AT_ONCE {
                match mailbox.try_recv() {
                    Ok(mail) => self.take_mail(mail),
                    Err(_) => break,
                }
            }
            while let Some(ended) = self.tasks.try_join_next() {
                // Nobody would ever hear what became of its call: the shard is taken over and loaded again.
                if let Err(error) = ended
                    && error.is_panic()
                {
                    resume_unwind(error.into_panic());
                }
            }
            let now = self.shared.context.clock.now();
            self.owner.tick(now);
            self.start_reads();
            self.start_calls(now);
            self.try_commit(now);
            self.drive_sources(now);
            self.meter();
            if self.is_over() {
                return self.finish().await;
            }
            if let Some(end) = self.wait(mailbox, now).await {
                self.lose().await;
                return end;
            }
        }
    }

    fn try_commit(&mut self, now: Now) {
        if !self.flight.is_held_up()
            && let Some(commit) = self.owner.build_among(&self.shared.context.trials, now, rand::random())
        {
            self.send(commit);
        }
    }

    async fn wait(&mut self, mailbox: &mut mpsc::UnboundedReceiver<Mail>, now: Now) -> Option<End> {
        let until = self.next_wake(now);
        let wake = tokio::select! {
            biased;
            answer = self.flight.answer() => Wake::Commit(answer),
            answer = self.reads.seen.answer() => Wake::LookedUp(answer),
            answer = self.reads.rows.answer() => Wake::Loaded(answer),
            mail = mailbox.recv() => Wake::Mail(mail),
            changed = self.outbox.changed() => Wake::Outbox(changed.is_err()),
            () = tokio::time::sleep_until(until) => Wake::Time,
        };
        match wake {
            Wake::Commit(answer) => return self.take_answer(answer),
            Wake::LookedUp(answer) => self.take_seen(answer),
            Wake::Loaded(answer) => self.take_rows(answer),
            Wake::Mail(Some(mail)) => self.take_mail(mail),
            Wake::Mail(None) => return Some(End::Released),
            Wake::Outbox(is_over) => {
                let condition = self.outbox.borrow_and_update().clone();
                if is_over || is_elsewhere(&condition) {
                    return Some(End::Lost);
                }
            }
            Wake::Time => {}
        }
        None
    }

    fn take_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Source { epoch, event } if epoch == self.epoch => self.take_source_event(event),
            Mail::Answered { epoch, answers } if epoch == self.epoch => self.take_answers(answers),
            // Of an ownership before this one: what it was about comes again.
            Mail::Source { .. } | Mail::Answered { .. } => {}
            Mail::Replay(ask) => match self.refusal() {
                None => self.requests.replay(ask, &self.home, &mut self.owner),
                Some(error) => {
                    let _gone = ask.reply.send(Err(error));
                }
            },
            Mail::Purge { dead, reply } => match self.refusal() {
                None => self.requests.purge(dead, reply, &mut self.owner),
                Some(error) => {
                    let _gone = reply.send(Err(error));
                }
            },
            Mail::Query(look) => look(&self.owner, &self.home, &self.holds),
            Mail::Find { consumer, id, reply } => {
                let _gone = reply.send(self.owner.find(&consumer, &id));
            }
            Mail::SeatChanged => {}
            Mail::Reopen { source, go_on, reply } => self.reopen(&source, go_on, reply),
            Mail::Reconfigured => self.reconfigured(),
            Mail::Release { timeout, reply } => {
                self.owner.drain();
                self.ending = Some(Ending { until: Instant::now() + timeout, release: Some(reply) });
            }
        }
    }

    /// Goes by another configuration: at once, or, where the owner has to begin anew, when what is with handlers is finished and what
    /// is in hand was given back.
    fn reconfigured(&mut self) {
        let next = self.shared.config.load_full();
        if Arc::ptr_eq(&next, &self.home.config) || self.ending.is_some() {
            return;
        }
        let next = HomeSettings::of(&next, self.owner.shard(), self.shared.context.config.shards);
        if self.home.goes_on_as(&next) {
            self.adopt(next);
        } else {
            self.owner.drain();
            self.ending = Some(Ending { until: Instant::now() + RECONFIGURE_TIMEOUT, release: None });
        }
    }

    /// Takes a configuration over that is the same to the owner. Calls under way end as they were begun.
    fn adopt(&mut self, next: HomeSettings) {
        let before = std::mem::replace(&mut self.home, Arc::new(next));
        self.sources.adopt(&self.home);
        for (at, (old, new)) in before.consumers.iter().zip(&self.home.consumers).enumerate() {
            let is_same = match (&old.target, &new.target) {
                (ConsumerTarget::Component(old), ConsumerTarget::Component(new)) => Arc::ptr_eq(old, new),
                _ => false,
            };
            if let (false, Ok(at)) = (is_same, u16::try_from(at)) {
                self.components.forget(ConsumerId(at));
            }
        }
    }

    /// Why nothing new is taken, if so.
    fn refusal(&self) -> Option<ServiceError> {
        match (&self.ending, self.flight.trouble()) {
            (Some(_), _) => Some(ServiceError::Unavailable(SHUTTING_DOWN.to_owned())),
            (None, Some(error)) => Some(ServiceError::Store(error.clone())),
            (None, None) => None,
        }
    }

    fn next_wake(&self, now: Now) -> Instant {
        let start = Instant::now();
        let due = self.owner.next_due().map(|due| start + (due - now.mono).max(Duration::from_millis(1)));
        let times = [
            due,
            self.flight.rests_until(),
            self.reads.rests_until(),
            self.next_source_wake(),
            self.ending.as_ref().map(|ending| ending.until),
        ];
        times.into_iter().flatten().fold(start + SLEEP_MAX, Instant::min)
    }

    /// Nothing is called, written or settled any more, or the time for it is over. Then what is under way is found without an answer
    /// by the next owner, as after a crash.
    fn is_over(&self) -> bool {
        let Some(ending) = &self.ending else { return false };
        let is_settled = self.sources.lanes.iter().all(|lane| !lane.is_pulling && !lane.is_settling);
        let has_orders = self.home.lanes.iter().enumerate().any(|(at, (source, _))| {
            let id = SourceId(u16::try_from(at).unwrap_or(u16::MAX));
            // Of one that isn't open there is nobody to tell.
            self.sources.is_open(*source) && self.owner.has_settlements(id)
        });
        let is_idle = self.owner.is_drained() && self.flight.is_idle() && is_settled && !has_orders;
        is_idle || Instant::now() >= ending.until
    }

    async fn finish(mut self) -> End {
        self.handle.set_settled(self.flight.is_idle() && self.owner.is_drained());
        if !self.flight.is_idle() {
            self.abandon(&StoreError::Unavailable("the host ended before the store said".to_owned()));
        }
        let running = self.owner.depths().running;
        if running > 0 {
            tracing::warn!(
                running,
                "the drain time is over; messages that are with handlers are handled again at the next start"
            );
        }
        self.requests.refuse_all(SHUTTING_DOWN);
        match self.ending.take() {
            Some(Ending { until, release: Some(reply) }) => {
                // Whoever gives the shard back waits for this, too.
                self.close_sources(close_within(until)).await;
                let _gone = reply.send(());
                End::Released
            }
            _ => {
                self.close_sources(CLOSE_TIMEOUT).await;
                End::Reconfigured
            }
        }
    }

    /// The inbox is somebody else's: what is in memory means nothing any more, and what its sources hold is for the other one.
    async fn lose(&mut self) {
        let reason = "another host took the shard over".to_owned();
        self.requests.abandon(&StoreError::Unavailable(reason));
        self.close_sources(CLOSE_TIMEOUT).await;
    }

    async fn close_sources(&mut self, within: Duration) {
        self.tasks.shutdown().await;
        let open = self.sources.open();
        let closes = open.iter().map(|(seat, source)| seat.close(source, within));
        futures::future::join_all(closes).await;
        for place in &self.sources.places {
            self.shared.meter.unsettled_bytes(&place.home.config.name, 0);
            place.seat.change(|figures| (figures.unsettled, figures.is_place_lost) = (0, false));
        }
        self.sources.forget();
    }

    fn meter(&mut self) {
        if self.metered_at.elapsed() < METER_EVERY {
            return;
        }
        self.metered_at = Instant::now();
        self.shared.meter.counts(&self.owner.counts(), &mut self.counts_told);
        for (source, place) in self.sources.places.iter().enumerate() {
            let unsettled: usize = self.home.instances_of(source).map(|id| self.owner.in_hand(id)).sum();
            let bytes: usize = self.home.instances_of(source).map(|id| self.owner.bytes_in_hand(id)).sum();
            self.shared.meter.unsettled_bytes(&place.home.config.name, bytes);
            place.seat.change(|figures| figures.unsettled = unsettled as u64);
            // Instances that replace others begin there.
            if let (Some(open), Some(position)) = (place.seat.open_now(), self.begins_behind(source)) {
                open.resume_after(position);
            }
        }
    }
}

impl Drop for Actor {
    /// Whatever ended it: its sources don't hold back what others could handle.
    fn drop(&mut self) {
        self.shared.context.trials.leave(Party::Inbox(self.owner.shard()));
        for place in &self.sources.places {
            self.shared.meter.unsettled_bytes(&place.home.config.name, 0);
        }
        let open = self.sources.open();
        if let (false, Ok(runtime)) = (open.is_empty(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                let closes = open.iter().map(|(seat, source)| seat.close(source, CLOSE_TIMEOUT));
                futures::future::join_all(closes).await;
            });
        }
    }
}

/// Whether a shard is another host's, or nobody's: then its inbox isn't ours either. Its owner's own trouble isn't ours.
fn is_elsewhere(condition: &Condition) -> bool {
    match condition {
        Condition::Owning { .. } | Condition::Trouble { owning: true, .. } => false,
        // Between two ownerships of this host, after a panic: the store's token decides.
        Condition::Starting => false,
        Condition::Observing { .. } | Condition::Trouble { .. } | Condition::Released => true,
    }
}
