//! The loop of a shard's owner: take mail, read what the next commit needs, commit, load, send.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use waybill_core::commit::StoreAnswer;
use waybill_core::ids::Seq;
use waybill_core::outbox::drain::{Drain, DrainEnd};
use waybill_core::outbox::lanes::Lanes;
use waybill_core::outbox::lookups::Lookups;
use waybill_core::outbox::owner::{LoadRequest, Owner, Ticket, TransportId};
use waybill_core::outbox::preparation;
use waybill_core::outbox::records::ShardRecord;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::time::Now;

use super::callers::{Caller, SHUTTING_DOWN};
use super::conflict::{self, Stale};
use super::door::{self, Door};
use super::load::Page;
use super::mail::{CallEnd, CommandAsk, EnqueueCaller, Mail, SettlementReport};
use super::openings::Awaited;
use super::outside::Settler;
use super::{Context, ShardStatus};
use crate::commit::{Driven, End, Flight, UnderWay};

/// Mail taken in one go before the loop looks at its other work.
const MAIL_AT_ONCE: usize = 4_096;
/// Settlements wait this long for company when nothing else needs a commit.
pub(super) const SETTLE_LINGER: Duration = Duration::from_millis(2);
/// A beat that is due while a commit is out: the loop isn't awake for it more often.
const BEAT_LOOK: Duration = Duration::from_millis(20);
/// Longest sleep of the loop.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Pause after a read failed that the next commit needs.
pub(super) const READ_PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Actor {
    pub context: Arc<Context>,
    pub sender: mpsc::UnboundedSender<Mail>,
    pub status: ShardStatus,
    pub owner: Owner,
    pub callers: HashMap<Ticket, Caller>,
    next_ticket: u64,
    /// Requests whose ids have to be looked up.
    pub unchecked: Lookups<EnqueueCaller>,
    /// Wishes that are to be read up.
    pub commands: VecDeque<CommandAsk>,
    pub flight: Flight<ShardRecord>,
    /// Changes in the commit that is out.
    pub writes: usize,
    /// It carries messages to other doorsteps.
    pub forwards: bool,
    /// The commit that is out, or one that failed before it, counts fates of what operations put back.
    pub tells_fates: bool,
    pub load: UnderWay<(LoadRequest, Page)>,
    pub load_again_at: Option<Instant>,
    pub lanes: Lanes,
    pub door: Door,
    pub linger_until: Option<Instant>,
    /// Workers outside that wait for their settlement's commit.
    pub settlers: BTreeMap<Seq, Settler>,
    pub drain: Drain<Instant>,
    /// Who waits for the end of the drain.
    drainer: Option<oneshot::Sender<()>>,
    /// Why the shard is given back to a newer host.
    newer: Option<StoreError>,
    metered_at: Instant,
    pub awaited: Awaited,
    /// The lane that sent last.
    pub served: Option<(TransportId, u32)>,
}

impl Actor {
    pub fn new(context: Arc<Context>, sender: mpsc::UnboundedSender<Mail>, status: ShardStatus, owner: Owner) -> Self {
        let now = Instant::now();
        let mut actor = Self {
            door: door::watch(&context),
            flight: Flight::begin(&context.commits, &status.condition, owner.token()),
            context,
            sender,
            status,
            owner,
            callers: HashMap::new(),
            next_ticket: 0,
            unchecked: Lookups::default(),
            commands: VecDeque::new(),
            writes: 0,
            forwards: false,
            tells_fates: false,
            load: UnderWay::default(),
            load_again_at: None,
            lanes: Lanes::default(),
            linger_until: None,
            settlers: BTreeMap::new(),
            drain: Drain::default(),
            drainer: None,
            newer: None,
            metered_at: now,
            awaited: Awaited::default(),
            served: None,
        };
        let live = actor.context.live();
        let paused: Vec<TransportId> = live.iter().map(|(id, _)| id).filter(|id| live.is_paused(*id)).collect();
        for id in paused {
            actor.owner.pause(id, "an operator paused it", actor.context.clock.now());
        }
        actor
    }

    pub fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    pub fn now(&self) -> Now {
        self.context.clock.now()
    }

    pub async fn run(mut self, mailbox: &mut mpsc::UnboundedReceiver<Mail>) -> End {
        loop {
            for _ in 0..MAIL_AT_ONCE {
                match mailbox.try_recv() {
                    Ok(mail) => self.take_mail(mail),
                    Err(_) => break,
                }
            }
            self.owner.tick(self.now());
            self.status.lease.set(self.owner.deadline());
            self.try_commit().await;
            self.try_load();
            self.dispatch();
            self.meter();
            if let Some(end) = self.drain.end(&self.owner, self.flight.is_idle(), Instant::now()) {
                return self.finish(end);
            }
            if let Some(end) = self.wait(mailbox).await {
                if end == End::Lost {
                    self.abandon(&StoreError::Unavailable("another host took the shard over".to_owned()));
                }
                self.refuse_all(match &end {
                    End::WentBack(_) => "the store lost what it had",
                    End::Newer(_) => "a newer host wrote what lies in the shard",
                    End::Released | End::Lost | End::Reconfigured => "another host took the shard over: try again",
                });
                let lost = self.owner.unsettled().into_iter();
                let epoch = self.owner.token();
                let lost = lost.map(|(seq, message)| Stale { seq, epoch, message });
                conflict::audit(&self.context, self.owner.shard(), lost);
                return end;
            }
        }
    }

    async fn wait(&mut self, mailbox: &mut mpsc::UnboundedReceiver<Mail>) -> Option<End> {
        let wake = self.next_wake();
        let event = tokio::select! {
            biased;
            answer = self.flight.answer() => Woken::Answer(answer),
            page = self.load.answer() => Woken::Page(page),
            mail = mailbox.recv() => Woken::Mail(mail),
            () = tokio::time::sleep_until(wake) => Woken::Time,
        };
        match event {
            Woken::Answer(answer) => return self.take_answer(answer),
            Woken::Page((request, page)) => self.take_page(&request, page),
            Woken::Mail(None) => return Some(End::Released),
            Woken::Mail(Some(mail)) => self.take_mail(mail),
            Woken::Time => {}
        }
        None
    }

    fn take_mail(&mut self, mail: Mail) {
        let now = self.now();
        match mail {
            Mail::Enqueue(ask) => self.take_enqueue(ask),
            Mail::Command(ask) => match self.flight.trouble() {
                Some(error) => {
                    let _gone = ask.reply.send(Err(ServiceError::Store(error.clone())));
                }
                None => self.commands.push_back(ask),
            },
            Mail::Settlement(report) => self.take_report(*report, now),
            Mail::CallEnded(end) => self.take_call_end(end, now),
            Mail::Pause { transport, paused } => {
                if paused {
                    self.owner.pause(transport, "an operator paused it", now);
                } else {
                    self.owner.lift(&super::dispatch::whole(transport), now);
                }
            }
            Mail::Reroute(reply) => {
                let live = self.context.live();
                if !Arc::ptr_eq(&live.routing, &self.owner.config().routing) {
                    self.owner.reroute(Arc::clone(&live.routing), live.config.weights.clone(), now);
                }
                let _gone = reply.send(());
            }
            Mail::Claim { ask, nonce, reply } => {
                let _gone = reply.send((self.owner.token(), self.owner.claim_outside(&ask, nonce, now)));
            }
            Mail::ExpectWorkers(reply) => {
                let _gone = reply.send(self.owner.expect_workers(now));
            }
            Mail::Outside(ask) => self.take_outside(*ask, now),
            Mail::RetryHolds(transport) => self.owner.retry_holds(transport, now),
            Mail::Awaited { transport, opened } => self.awaited(transport, opened),
            Mail::Door => self.door.wake(),
            Mail::DoorSync(reply) if self.is_door_taken_in(now) => {
                let _gone = reply.send(());
            }
            Mail::DoorSync(reply) => self.door.wait(reply),
            Mail::Query(query) => query.answer(&self.owner, now),
            Mail::Release { timeout, reply } => {
                self.drain.begin(&mut self.owner, Instant::now() + timeout, now);
                self.drainer = Some(reply);
                self.newer = None;
                self.refuse_unsequenced();
            }
        }
    }

    fn take_call_end(&mut self, end: CallEnd, now: Now) {
        if self.lanes.end(&self.owner, end.epoch, (end.transport, end.lane))
            && let Some(fault) = &end.down
        {
            // Before the messages come back, so that they find the transport held.
            self.hold_transport(end.transport, fault, now);
        }
        for report in end.reports {
            self.take_report(report, now);
        }
    }

    fn take_report(&mut self, report: SettlementReport, now: Now) {
        let SettlementReport { seq, epoch, settlement, message, hold } = report;
        if self.owner.settle(seq, epoch, settlement, now) {
            if let Some(key) = hold {
                self.owner.hold_for_operator(&key);
            }
            if self.linger_until.is_none() {
                self.linger_until = Some(Instant::now() + SETTLE_LINGER);
            }
            return;
        }
        conflict::audit(&self.context, self.owner.shard(), [Stale { seq, epoch, message }]);
    }

    async fn try_commit(&mut self) {
        if self.flight.is_held_up() {
            return;
        }
        if !self.needs_preparation()
            && !self.owner.is_urgent(self.now().mono)
            && self.owner.waiting_settlements() > 0
            && self.linger_until.is_some_and(|until| until > Instant::now())
        {
            return;
        }
        match self.prepare().await {
            // No commit is out, so whatever the trouble was is over.
            Ok(()) => self.flight.note_trouble(None),
            Err(error) => {
                if !self.goes_on_unread(error) {
                    return;
                }
            }
        }
        self.linger_until = None;
        let now = self.now();
        let built = preparation::build(&mut self.owner, &self.context.trials, now, rand::random());
        for (ticket, error) in built.refused {
            if let Some(Caller::Command(reply)) = self.callers.remove(&ticket) {
                let _gone = reply.send(Err(super::prepare::refusal(error)));
            }
        }
        match built.commit {
            Some(commit) => self.send(commit),
            None => self.answer_door(),
        }
    }

    fn next_wake(&self) -> Instant {
        let now = self.now();
        let start = Instant::now();
        let mut wake = start + SLEEP_MAX;
        let mut sooner = |after: Duration| wake = wake.min(start + after);
        // What is due and still there waits for a read before the next commit.
        let is_held_up = self.flight.is_held_up();
        if let Some(after) = self.owner.next_wake(now).filter(|after| !after.is_zero() || !is_held_up) {
            sooner(after);
        }
        if self.owner.waiting_settlements() > 0 && self.flight.is_idle() {
            sooner(self.linger_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(start)));
        }
        // A beat that is due waits for the commit that is out, which wakes this by itself.
        let look_again = if self.flight.is_idle() { Duration::from_millis(1) } else { BEAT_LOOK };
        sooner(self.owner.beat_in(now.mono).max(look_again));
        if !is_held_up {
            sooner(self.door.next_look(self.context.door.count(), now.mono));
        }
        if let Some(until) = self.drain.until() {
            sooner(until.saturating_duration_since(start).max(Duration::from_millis(1)));
        }
        for at in [self.load_again_at, self.flight.rests_until()].into_iter().flatten() {
            if at > start {
                sooner(at - start);
            }
        }
        wake.max(start + Duration::from_micros(50))
    }

    /// Gives the shard back in good order: what a newer host wrote is for a newer host to send.
    pub(super) fn give_back(&mut self, error: StoreError) {
        if !self.drain.has_begun() {
            let (until, now) = (Instant::now() + self.context.config.send_timeout, self.now());
            self.drain.begin(&mut self.owner, until, now);
            self.newer = Some(error);
            self.refuse_unsequenced();
        }
    }

    fn finish(mut self, end: DrainEnd) -> End {
        if !self.flight.is_idle() {
            self.abandon(&StoreError::Unavailable("the host ended before the store said".to_owned()));
        }
        if end == DrainEnd::TimeIsOver && !self.owner.is_released() {
            tracing::warn!(
                flying = self.owner.sending(),
                "the drain time is over; what is being sent is sent again at the next start"
            );
        }
        if let Some(drainer) = self.drainer.take() {
            let _gone = drainer.send(());
        }
        self.refuse_all(if self.newer.is_some() { "a newer host wrote what lies in the shard" } else { SHUTTING_DOWN });
        self.newer.take().map_or(End::Released, End::Newer)
    }

    fn meter(&mut self) {
        if self.metered_at.elapsed() < Duration::from_secs(1) {
            return;
        }
        self.metered_at = Instant::now();
        let (messages, bytes, open) = self.owner.memory();
        self.context.meter.memory(self.owner.shard().0, messages, bytes, open);
        self.note_flow();
    }
}

impl Drop for Actor {
    /// Whatever ended it: its suspects are on trial no longer, and what it holds is nobody's news.
    fn drop(&mut self) {
        self.context.trials.leave(self.owner.shard());
        self.context.config.changes.leave(self.owner.shard());
    }
}

enum Woken {
    Answer(StoreAnswer<ShardRecord>),
    Page((LoadRequest, Page)),
    Mail(Option<Mail>),
    Time,
}
