//! The loop of whoever writes a shard's sagas: take mail, do what is due, commit, carry out effects.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::records::SagaShardRecord;
use waybill_core::saga::shard::{SagaCommand, SagaEffect, SagaShard, Ticket};
use waybill_core::time::{Now, SteadyClock, UnixMillis};

use super::calls::{self, Origin};
use super::door::Door;
use super::flight::CommitSize;
use super::mail::{CallDone, Mail, Reply};
use super::watchers::Watchers;
use super::{SHUTTING_DOWN, SagaHandle, Shared};
use crate::commit::{Condition, Driven, End, Flight};
use crate::shard::ShardHandle;

/// Mail taken in one go before the loop looks at its other work.
const MAIL_AT_ONCE: usize = 4_096;
/// Longest sleep of the loop.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// Counts are told this often.
const METER_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Actor {
    pub shared: Arc<Shared>,
    pub handle: SagaHandle,
    outbox: watch::Receiver<Condition>,
    origin: Origin,
    pub shard: SagaShard,
    clock: SteadyClock,
    pub callers: HashMap<Ticket, Reply>,
    watchers: Watchers,
    next_ticket: u64,
    /// Calls of this ownership that aren't answered.
    calls_out: usize,
    pub flight: Flight<SagaShardRecord>,
    pub door: Door,
    /// Of the commit that is out.
    pub size: CommitSize,
    /// It leaves messages on doorsteps.
    pub wakes_door: bool,
    /// It leaves events on the doorsteps of these shards' streams.
    pub wakes_streams: Vec<ShardId>,
    release: Option<(Instant, oneshot::Sender<()>)>,
    metered_at: Instant,
}

impl Actor {
    pub fn new(shared: Arc<Shared>, handle: SagaHandle, outbox: ShardHandle, shard: SagaShard, epoch: u64) -> Self {
        let now = Instant::now();
        let answers = handle.mail.clone();
        let origin = Origin { shard: handle.shard, epoch, lease: Arc::clone(outbox.lease()), answers };
        let actor = Self {
            flight: Flight::begin(&shared.context.commits, &handle.status.condition, shard.record().token),
            door: Door::new(&shared.context),
            shared,
            handle,
            outbox: outbox.watch(),
            origin,
            shard,
            clock: SteadyClock::default(),
            callers: HashMap::new(),
            watchers: Watchers::default(),
            next_ticket: 0,
            calls_out: 0,
            size: CommitSize::default(),
            wakes_door: false,
            wakes_streams: Vec::new(),
            release: None,
            metered_at: now,
        };
        actor.publish();
        actor
    }

    /// Now, never before the shard's time, and at the pace of a clock that isn't set: a wall clock that is set back holds no
    /// retry, timeout or deadline.
    pub fn now(&mut self) -> UnixMillis {
        let now = self.shared.context.clock.now();
        self.clock.at(Now { wall: now.wall.max(self.shard.clock()), ..now })
    }

    pub async fn run(mut self, mailbox: &mut mpsc::UnboundedReceiver<Mail>) -> End {
        loop {
            for _ in 0..MAIL_AT_ONCE {
                match mailbox.try_recv() {
                    Ok(mail) => self.take_mail(mail),
                    Err(_) => break,
                }
            }
            self.shard.set_limits(self.shared.context.live().config.sagas.limits);
            // What is due begins calls: no more of that when the shard is given back.
            let now = self.now();
            let more = self.release.is_none() && self.shard.tick(now, rand::random());
            self.carry_out();
            self.try_commit();
            self.read_door();
            self.shared.calls.expire();
            self.meter();
            if self.is_release_over() {
                return self.finish();
            }
            if let Some(end) = self.wait(mailbox, more).await {
                self.lost();
                return end;
            }
        }
    }

    async fn wait(&mut self, mailbox: &mut mpsc::UnboundedReceiver<Mail>, more: bool) -> Option<End> {
        let wake = if more { Instant::now() } else { self.next_wake() };
        tokio::select! {
            biased;
            answer = self.flight.answer() => return self.take_answer(answer),
            rows = self.door.answer() => self.take_door(rows),
            mail = mailbox.recv() => match mail {
                Some(mail) => self.take_mail(mail),
                None => return Some(End::Released),
            },
            changed = self.outbox.changed() => {
                let condition = self.outbox.borrow_and_update().clone();
                if changed.is_err() || is_elsewhere(&condition) {
                    return Some(End::Lost);
                }
            }
            () = tokio::time::sleep_until(wake) => {}
        }
        None
    }

    fn take_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Command { command, reply } => self.take_command(*command, reply),
            Mail::Answered(done) => self.take_call_end(*done),
            Mail::Watch { key, reply } => self.watchers.add(&self.shard, key, reply),
            Mail::Query(query) => query.answer(&self.shard),
            Mail::Door => self.door.ring(),
            Mail::Release { timeout, reply } => {
                self.release = Some((Instant::now() + timeout, reply));
                self.shared.calls.recall(&self.origin);
            }
        }
    }

    fn take_command(&mut self, command: SagaCommand, reply: Reply) {
        let refusal = match (&self.release, self.flight.trouble()) {
            (Some(_), _) => SagaError::Unavailable(SHUTTING_DOWN.to_owned()),
            (None, Some(error)) => SagaError::Store(error.clone()),
            (None, None) => {
                self.next_ticket += 1;
                let ticket = Ticket(self.next_ticket);
                self.callers.insert(ticket, reply);
                let now = self.now();
                return self.shard.submit(Some(ticket), command, now, rand::random());
            }
        };
        let _gone = reply.send(Err(refusal));
    }

    fn take_call_end(&mut self, done: CallDone) {
        if done.epoch == self.origin.epoch {
            self.calls_out = self.calls_out.saturating_sub(1);
        }
        let command = SagaCommand::Answer { call: done.call, answer: done.answer };
        let now = self.now();
        self.shard.submit(None, command, now, rand::random());
    }

    fn try_commit(&mut self) {
        if !self.flight.is_held_up()
            && let Some(commit) = self.shard.build(rand::random())
        {
            self.send(commit);
        }
    }

    /// Carries out what commits have released.
    fn carry_out(&mut self) {
        let mut calls = Vec::new();
        for effect in self.shard.take_effects() {
            match effect {
                SagaEffect::Call(call) => calls.push(call),
                SagaEffect::Began { .. } => {}
                SagaEffect::Reply { ticket, result } => {
                    if let Some(reply) = self.callers.remove(&ticket) {
                        // Nobody listens when the caller hung up.
                        let _gone = reply.send(result);
                    }
                }
                SagaEffect::Moved { key, state, settled, tree, definitions, events } => {
                    self.shared.meter.moved(&tree, &definitions, &events);
                    if let Some(streams) = &self.shared.streams {
                        streams.saga_moved(&key);
                    }
                    if settled && state.is_at_rest() {
                        self.watchers.tell(&key, state);
                    }
                }
            }
        }
        if calls.is_empty() {
            return;
        }
        if self.release.is_none() {
            self.calls_out += calls.len();
            return self.shared.calls.submit(calls, &self.origin);
        }
        let now = self.now();
        for call in calls {
            let command = SagaCommand::Answer { call: call.reference, answer: calls::ending() };
            self.shard.submit(None, command, now, rand::random());
        }
    }

    fn next_wake(&mut self) -> Instant {
        let (start, now) = (Instant::now(), self.now());
        let mut wake = start + SLEEP_MAX;
        if self.release.is_none()
            && let Some(due) = self.shard.next_due()
        {
            wake = wake.min(start + due.since(now).max(Duration::from_millis(1)));
        }
        let release = self.release.as_ref().map(|(until, _)| *until);
        let door = self.door.look_at().filter(|_| self.may_read_door());
        for until in [release, self.flight.rests_until(), door].into_iter().flatten() {
            wake = wake.min(until);
        }
        wake
    }

    /// Whether the shard is being given back.
    pub fn is_releasing(&self) -> bool {
        self.release.is_some()
    }

    /// After a commit: what others see.
    pub fn publish(&self) {
        self.handle.status.beat.store(self.shard.record().beat, Ordering::Release);
    }

    /// The sagas are somebody else's: what is in memory means nothing any more.
    fn lost(&mut self) {
        let (waiting, out) = self.shard.recall();
        for (tickets, known) in [(waiting, true), (out, false)] {
            for reply in tickets.iter().filter_map(|ticket| self.callers.remove(ticket)) {
                let reason = "another host took the shard over: try again".to_owned();
                let refusal = if known {
                    SagaError::Unavailable(reason)
                } else {
                    SagaError::OutcomeUnknown(StoreError::Unavailable(reason))
                };
                let _gone = reply.send(Err(refusal));
            }
        }
    }

    /// Nothing is called or written any more, or the time for it is over. Then calls under way are found without an answer at
    /// the next start, as after a crash.
    fn is_release_over(&self) -> bool {
        let Some((until, _)) = &self.release else { return false };
        let is_idle = self.calls_out == 0 && self.flight.is_idle() && !self.shard.has_work();
        is_idle || Instant::now() >= *until
    }

    fn finish(mut self) -> End {
        if !self.flight.is_idle() {
            self.abandon(&StoreError::Unavailable("the host ended before the store said".to_owned()));
        }
        for (_, reply) in self.callers.drain() {
            let _gone = reply.send(Err(SagaError::Unavailable(SHUTTING_DOWN.to_owned())));
        }
        if self.calls_out > 0 {
            tracing::warn!(
                calls = self.calls_out,
                "the drain time is over; sagas whose calls are under way call again at the next start"
            );
        }
        if let Some((_, reply)) = self.release.take() {
            let _gone = reply.send(());
        }
        End::Released
    }

    fn meter(&mut self) {
        if self.metered_at.elapsed() < METER_EVERY {
            return;
        }
        self.metered_at = Instant::now();
        let stats = self.shard.stats();
        self.shared.meter.memory(self.handle.shard, &stats, self.shared.calls.counts());
        *self.handle.status.stats.lock() = stats;
    }
}

impl Drop for Actor {
    /// Whatever ended it: its calls that haven't gone out don't go out any more.
    fn drop(&mut self) {
        self.shared.calls.recall(&self.origin);
    }
}

/// Whether a shard is another host's, or nobody's: then its sagas aren't ours either. Its owner's own trouble isn't ours.
fn is_elsewhere(condition: &Condition) -> bool {
    match condition {
        Condition::Owning { .. } | Condition::Trouble { owning: true, .. } => false,
        // Between two ownerships of this host, after a panic: the store's token decides.
        Condition::Starting => false,
        Condition::Observing { .. } | Condition::Trouble { .. } | Condition::Released => true,
    }
}
