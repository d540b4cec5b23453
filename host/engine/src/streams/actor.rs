//! The loop of whoever owns a shard's streams: take mail, look, commit, relay.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::owner::{OwnerCounts, StreamOwner};
use waybill_core::streams::records::StreamShardRecord;
use waybill_core::streams::settings::StreamsSettings;
use waybill_core::time::{Monotonic, Now, SteadyClock};

use super::callers::Callers;
use super::door::DoorTimes;
use super::due::DueLooks;
use super::feed_trim::FeedTrim;
use super::look::Found;
use super::mail::{AppendReply, Mail};
use super::relay::{RelayDriver, RelayRead};
use super::upkeep::Upkeep;
use super::{SHUTTING_DOWN, Shared, StreamHandle};
use crate::commit::{Condition, Driven, End, Flight, UnderWay};
use crate::shard::{Lease, ShardHandle};

/// Mail taken in one go before the loop looks at its other work.
const MAIL_AT_ONCE: usize = 4_096;
/// Longest sleep of the loop.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// Counts are told this often.
const METER_EVERY: Duration = Duration::from_secs(1);
/// What relays have under way gets this long to end before an owner begins anew by another configuration.
const RECONFIGURE_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Actor {
    pub shared: Arc<Shared>,
    pub handle: StreamHandle,
    outbox: watch::Receiver<Condition>,
    lease: Arc<Lease>,
    pub owner: StreamOwner,
    /// What it began with, and went over to.
    pub settings: Arc<StreamsSettings>,
    /// Number of this ownership.
    pub epoch: u64,
    pub flight: Flight<StreamShardRecord>,
    /// Heads that the commit under way found elsewhere.
    pub moved: Arc<Mutex<Vec<(StreamKey, u64)>>>,
    pub look: UnderWay<Found>,
    pub door: DoorTimes,
    /// The pass over the doorstep isn't complete.
    pub is_pass_open: bool,
    pub is_upkeep_next: bool,
    pub callers: Callers,
    pub upkeep: Upkeep,
    pub relays: Vec<RelayDriver>,
    pub relay_read: UnderWay<RelayRead>,
    /// Relays read nothing before this.
    pub relays_rest_until: Instant,
    /// Calls of transports. They end with the ownership.
    pub tasks: JoinSet<()>,
    pub steady: SteadyClock,
    pub feed_trim: FeedTrim,
    ending: Option<Ending>,
    metered_at: Instant,
    counts_told: OwnerCounts,
}

/// The ownership is to end in good order.
struct Ending {
    until: Instant,
    /// Who gives the shard back; none = another configuration is in force, and it is taken over anew.
    release: Option<oneshot::Sender<()>>,
}

/// What woke the loop.
enum Wake<C> {
    Commit(C),
    Looked(Found),
    RelayRead(RelayRead),
    Mail(Option<Mail>),
    /// The outbox's owner changed; true = nobody tells any more.
    Outbox(bool),
    Time,
}

impl Actor {
    pub fn new(
        shared: Arc<Shared>,
        handle: StreamHandle,
        outbox: ShardHandle,
        owner: StreamOwner,
        settings: Arc<StreamsSettings>,
        epoch: u64,
    ) -> Self {
        let config = &shared.context.config;
        let poll = (!config.exclusive).then_some(config.poll_interval);
        let relays = settings.relays.iter().map(|plan| RelayDriver::new(plan, &shared)).collect();
        let upkeep = Upkeep::new(DueLooks::new(owner.shard(), shared.shards()));
        // Whether the shard was lost while its streams were taken over is looked at first.
        let mut condition = outbox.watch();
        condition.mark_changed();
        Self {
            flight: Flight::begin(&shared.context.commits, &handle.condition, owner.record().token),
            lease: Arc::clone(outbox.lease()),
            outbox: condition,
            handle,
            owner,
            settings,
            epoch,
            moved: Arc::default(),
            look: UnderWay::default(),
            door: DoorTimes::new(poll),
            is_pass_open: false,
            is_upkeep_next: false,
            callers: Callers::default(),
            upkeep,
            relays,
            relay_read: UnderWay::default(),
            relays_rest_until: Instant::now(),
            tasks: JoinSet::new(),
            steady: SteadyClock::default(),
            feed_trim: FeedTrim::new(),
            ending: None,
            metered_at: Instant::now(),
            counts_told: OwnerCounts::default(),
            shared,
        }
    }

    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Until when sends may begin, by the local clock.
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
                // Nobody would ever hear what became of what it sent: the shard is taken over and loaded again.
                if let Err(error) = ended
                    && error.is_panic()
                {
                    resume_unwind(error.into_panic());
                }
            }
            let now = self.shared.context.clock.now();
            self.callers.give_back_late(&mut self.owner);
            self.start_look(now);
            self.start_relay_read();
            self.start_sends(now);
            self.meter();
            if self.is_over() {
                return self.finish();
            }
            if let Some(end) = self.wait(mailbox, now).await {
                self.lose();
                return end;
            }
        }
    }

    async fn wait(&mut self, mailbox: &mut mpsc::UnboundedReceiver<Mail>, now: Now) -> Option<End> {
        let until = self.next_wake(now);
        let wake = tokio::select! {
            biased;
            answer = self.flight.answer() => Wake::Commit(answer),
            found = self.look.answer() => Wake::Looked(found),
            read = self.relay_read.answer() => Wake::RelayRead(read),
            mail = mailbox.recv() => Wake::Mail(mail),
            changed = self.outbox.changed() => Wake::Outbox(changed.is_err()),
            () = tokio::time::sleep_until(until) => Wake::Time,
        };
        match wake {
            Wake::Commit(answer) => return self.take_answer(answer),
            Wake::Looked(found) => {
                let now = self.shared.context.clock.now();
                self.take_look(found, now);
            }
            Wake::RelayRead(read) => self.take_relay_read(read),
            Wake::Mail(Some(mail)) => self.take_mail(mail),
            Wake::Mail(None) => return Some(End::Released),
            Wake::Outbox(is_over) => {
                let condition = self.outbox.borrow_and_update().clone();
                if is_over || is_elsewhere(&condition, self.owner.record().token) {
                    return Some(End::Lost);
                }
            }
            Wake::Time => {}
        }
        None
    }

    fn take_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Append(ask) if self.is_ending() => {
                let _gone = ask.reply.send(Ok(AppendReply::Recalled));
            }
            Mail::Append(ask) => self.callers.take(ask, &mut self.owner),
            // The bell says whether there is anything.
            Mail::Door => {}
            Mail::Sent { epoch, relay, sent } if epoch == self.epoch => self.take_sent(&relay, sent),
            // Of an ownership before this one: what it was about is sent again.
            Mail::Sent { .. } => {}
            Mail::Purge(ask) if self.is_ending() => {
                let _gone = ask.reply.send(Err(ServiceError::Unavailable(SHUTTING_DOWN.to_owned())));
            }
            Mail::Purge(ask) => self.upkeep.purge(ask),
            Mail::Seek(ask) => self.seek(ask),
            Mail::Query(look) => look(&self.owner, &self.relays),
            Mail::RelayChanged => {}
            Mail::Reconfigured => self.reconfigured(),
            Mail::Release { timeout, reply } => {
                self.ending = Some(Ending { until: Instant::now() + timeout, release: Some(reply) });
            }
        }
    }

    /// Goes by other settings: at once, or, where relays have changed, when what they have under way has ended.
    fn reconfigured(&mut self) {
        let next = self.shared.settings();
        if self.is_ending() {
            return;
        }
        if next.relays != self.settings.relays {
            self.ending = Some(Ending { until: Instant::now() + RECONFIGURE_TIMEOUT, release: None });
        }
        self.settings = next;
    }

    fn next_wake(&self, now: Now) -> Instant {
        let start = Instant::now();
        let is_free = self.look.is_idle() && !self.flight.is_held_up();
        let door = is_free.then(|| self.door.next_look(self.shared.bell())).filter(|_| !self.is_ending());
        let times = [
            door.map(|door| door.max(start + Duration::from_millis(1))),
            self.flight.rests_until(),
            self.callers.next_late().map(|late| late.max(start + Duration::from_millis(10))),
            self.next_relay_wake(now),
            self.ending.as_ref().map(|ending| ending.until),
        ];
        times.into_iter().flatten().fold(start + SLEEP_MAX, Instant::min)
    }

    /// Nothing is sent or written any more, or the time for it is over: then what is under way is sent again by the next owner.
    fn is_over(&self) -> bool {
        let Some(ending) = &self.ending else { return false };
        let is_idle = self.flight.is_idle()
            && self.look.is_idle()
            && self.tasks.is_empty()
            && self.callers.len() == 0
            && self.relays.iter().all(|relay| !relay.has_words());
        is_idle || Instant::now() >= ending.until
    }

    fn finish(mut self) -> End {
        let ended = StoreError::Unavailable("the host ended before the store said".to_owned());
        self.callers.end(&mut self.owner, &ended);
        self.upkeep.refuse_all(SHUTTING_DOWN);
        match self.ending.take() {
            Some(Ending { release: Some(reply), .. }) => {
                let _gone = reply.send(());
                End::Released
            }
            _ => End::Reconfigured,
        }
    }

    /// The shard is somebody else's: who waits for numbers puts the events on the doorstep, or doesn't know.
    fn lose(&mut self) {
        let reason = StoreError::Unavailable("another host took the shard over".to_owned());
        self.callers.end(&mut self.owner, &reason);
        self.upkeep.refuse_all("another host took the shard over");
        // What is published meanwhile is published there.
        self.shared.rings.forget_shard(self.owner.shard());
    }

    fn meter(&mut self) {
        if self.metered_at.elapsed() < METER_EVERY {
            return;
        }
        self.metered_at = Instant::now();
        let counts = self.owner.counts();
        self.shared.meter.counts(&counts, &self.counts_told);
        self.counts_told = counts;
        self.shared.meter.waiting(self.owner.shard(), self.callers.len());
        for relay in &self.relays {
            relay.meter(self.owner.shard(), &self.owner);
        }
    }
}

impl Drop for Actor {
    /// Whatever ended it, what it had under way isn't counted against its relays any more.
    fn drop(&mut self) {
        self.relays.iter_mut().for_each(RelayDriver::forget);
        let shard = self.owner.shard();
        self.relays.iter().for_each(|relay| relay.meter_nothing(shard));
        self.shared.meter.waiting(shard, 0);
        self.shared.meter.door(shard, &[]);
    }
}

/// Whether a shard is another host's, or nobody's, or was that since it was owned with this token: then its streams aren't ours either. Its
/// owner's own trouble isn't ours.
fn is_elsewhere(condition: &Condition, token: u64) -> bool {
    match condition {
        // Between the two tokens another host may have numbered, and what is known here isn't what is stored.
        Condition::Owning { token: now } => *now != token,
        Condition::Trouble { owning: true, .. } => false,
        // Between two ownerships of this host, after a panic: the store's token decides.
        Condition::Starting => false,
        Condition::Observing { .. } | Condition::Trouble { .. } | Condition::Released => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_go_with_the_ownership_that_they_were_taken_over_in() {
        let error = StoreError::Unavailable("away".to_owned());
        let trouble = |owning| Condition::Trouble { error: error.clone(), owning };
        for kept in [Condition::Owning { token: 7 }, trouble(true), Condition::Starting] {
            assert!(!is_elsewhere(&kept, 7), "{kept:?}");
        }
        let other = Condition::Observing { owner: "b".to_owned() };
        for lost in [Condition::Owning { token: 9 }, trouble(false), other, Condition::Released] {
            assert!(is_elsewhere(&lost, 7), "{lost:?}");
        }
    }
}
