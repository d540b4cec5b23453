//! Sends: armed by an owner, emitted a little later, heard of later still; and what a receiver may see.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::ids::{Seq, ShardId};
use waybill_core::outbox::owner::{Claim, HoldKey, Settlement, TransportId, Verdict};
use waybill_core::outbox::records::{AttemptOutcome, AttemptRecord};
use waybill_core::port::transport::{Fault, Receipt};
use waybill_core::time::UnixMillis;

use super::calls::Call;
use super::driver::Driver;
use super::host::{Actor, Host};
use super::known::{Attempt, ReceiverAnswer};
use super::ledger::{At, at, number_of};
use super::setup::TOPICS;
use super::store::ModelStore;
use super::world::World;

/// Definite failures after which a message is dead.
const ATTEMPTS_MAX: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Begun by the owner, not at the receiver yet.
    Armed,
    /// At the receiver, whose answer comes then.
    Flying { until: u64 },
}

/// A send of one process.
#[derive(Clone, Debug)]
pub(super) struct Send {
    pub shard: ShardId,
    pub seq: Seq,
    pub token: u64,
    pub number: usize,
    attempt: u32,
    destination: usize,
    /// A worker outside claimed it, under this nonce.
    lease: Option<u64>,
    /// The call that it is part of; none = its calls aren't counted.
    pub call: Option<Call>,
    /// Its owner was cautious when it began.
    cautious: bool,
    /// Past it, its lease may have been ended because it is of no use any more.
    expires_at: Option<UnixMillis>,
    stage: Stage,
}

impl Send {
    fn at(&self) -> At {
        (self.shard, self.seq)
    }
}

impl<S: ModelStore> World<S> {
    /// Emits what is armed, takes the receivers' words, and begins new sends if the host owns the shard.
    pub(super) fn sends_act(&mut self, host: &mut Host, actor: &mut Actor, mut driver: Option<&mut Driver>) {
        let mut sends = std::mem::take(&mut actor.sends);
        for send in &mut sends {
            if send.stage == Stage::Armed && self.rng.percent(70) {
                if self.emit(send) {
                    self.end_actor(actor);
                    return self.crash(host);
                }
                let slow = self.rng.one_in(7);
                send.stage = Stage::Flying { until: self.now + 1 + self.rng.below(if slow { 90 } else { 8 }) };
            }
        }
        let now = self.now;
        let (done, going): (Vec<_>, Vec<_>) =
            sends.into_iter().partition(|send| matches!(send.stage, Stage::Flying { until } if until <= now));
        actor.sends = going;
        for send in &done {
            self.hear(host, driver.as_deref_mut(), send);
        }
        if let Some(driver) = driver {
            self.end_calls(actor, driver, &done);
            self.begin_sends(host, actor, driver);
        }
    }

    fn begin_sends(&mut self, host: &Host, actor: &mut Actor, driver: &mut Driver) {
        let now = self.now_at(host);
        if !self.calm && self.rng.one_in(800) {
            let key = HoldKey { tenant: None, transport: Some(TransportId(0)), scope: Arc::from("") };
            driver.owner.hold(key, "PROVIDER.UNAVAILABLE", "the broker is away", None, now);
        }
        self.renew_outside(host, actor, driver);
        for (transport, lane) in [(0, 0), (0, 1), (1, 0)] {
            if self.rng.percent(20) {
                continue;
            }
            let count = 1 + usize::try_from(self.rng.below(4)).unwrap_or(0);
            if self.setup.config.routing.external == Some(TransportId(transport)) {
                self.claim_outside(host, actor, driver, count);
                continue;
            }
            let Some((batch, call)) = self.begin_call(host, actor, driver, (TransportId(transport), lane), count)
            else {
                continue;
            };
            for sending in batch {
                let subject = sending.message.topic.as_str();
                let destination = TOPICS.iter().position(|topic| *topic == subject).unwrap_or(0);
                let number = number_of(&sending.message);
                self.note(|_| format!("begin msg {number} seq {} token {}", sending.seq, sending.epoch));
                actor.sends.push(Send {
                    shard: actor.shard,
                    seq: sending.seq,
                    token: sending.epoch,
                    number,
                    attempt: sending.attempt,
                    destination,
                    lease: None,
                    call,
                    cautious: driver.owner.is_cautious(),
                    expires_at: None,
                    stage: Stage::Armed,
                });
                self.count_trial(&driver.owner, sending.seq);
            }
        }
    }

    /// A worker renews a lease: that works exactly as long as nobody else has it.
    fn renew_outside(&mut self, host: &Host, actor: &Actor, driver: &mut Driver) {
        let now = self.now_at(host);
        let token = driver.owner.token();
        let mine: Vec<(Send, u64)> = actor
            .sends
            .iter()
            .filter_map(|send| Some((send.clone(), send.lease?)))
            .filter(|(send, _)| send.token == token)
            .collect();
        for (send, nonce) in mine {
            if !self.rng.one_in(4) {
                continue;
            }
            let renewed = driver.owner.renew_outside(send.seq, nonce, Self::millis(20), now).is_some();
            let may = self.is_current_lease(&send) && driver.owner.may_send(now.mono);
            let is_over = send.expires_at.is_some_and(|end| end <= now.wall);
            if renewed != may && (renewed || !is_over) {
                self.violation(format!("msg {}: a lease was renewed: {renewed}, and it isn't so", send.number));
            }
        }
    }

    /// A worker claims, for so short a time that it often loses its lease.
    fn claim_outside(&mut self, host: &Host, actor: &mut Actor, driver: &mut Driver, count: usize) {
        let ask = Claim {
            worker: "worker".into(),
            time: Self::millis(self.rng.below(40)),
            messages: count,
            bytes: 200,
            tenants: None,
            topic: None,
        };
        let (nonce, now) = (self.fresh(), self.now_at(host));
        let token = driver.owner.token();
        for claimed in driver.owner.claim_outside(&ask, nonce, now) {
            let number = number_of(&claimed.row.message);
            let seq = claimed.place.seq();
            self.note(|_| format!("claim msg {number} seq {seq} nonce {nonce}, {} times", claimed.claims));
            let taken_over = self.leases.get(&at(claimed.place)).is_some_and(|(of, _)| *of == token);
            if taken_over != (claimed.claims > 1) {
                self.violation(format!("msg {number} was claimed {} times, and it isn't so", claimed.claims));
            }
            self.leases.insert(at(claimed.place), (token, nonce));
            self.stats.claims += 1;
            self.stats.claims_lost += u64::from(taken_over);
            let (attempt, expires_at) = (claimed.attempt, claimed.row.message.expires_at);
            let send = Send {
                shard: actor.shard,
                seq,
                token,
                number,
                attempt,
                destination: TOPICS.iter().position(|topic| *topic == claimed.row.message.topic.as_str()).unwrap_or(2),
                lease: Some(nonce),
                call: None,
                cautious: false,
                expires_at,
                stage: Stage::Armed,
            };
            actor.sends.push(send);
        }
    }

    /// The receiver gets it. True when the process dies of it.
    fn emit(&mut self, send: &Send) -> bool {
        let current = self.ledger.record(send.shard).token;
        let number = send.number;
        self.stats.attempts += 1;
        self.note(|_| format!("send msg {number} shard {} seq {} token {}", send.shard, send.seq, send.token));
        let Some(known) = self.ledger.get(number).cloned() else { return false };
        if known.commit.is_none() {
            self.violation(format!("msg {number} delivered before commit"));
        }
        if send.token == current && self.is_current_lease(send) {
            self.check_current_send(send, &known);
        } else {
            self.stats.stale_sends += 1;
        }
        if let Some(last) = known.attempts.last() {
            self.stats.repeats += 1;
            let told =
                matches!(last.answer, Some(ReceiverAnswer::Retry | ReceiverAnswer::Blocked | ReceiverAnswer::Released))
                    || last.answer == Some(ReceiverAnswer::Dead) && known.replays > 0;
            if last.token == send.token && !told && send.lease.is_none() && last.lease.is_none() {
                self.violation(format!("msg {number} attempted twice under token {}", send.token));
            }
        }
        self.check_key_order(number);
        if let Some(known) = self.ledger.known.get_mut(number) {
            known.attempts.push(Attempt { token: send.token, lease: send.lease, answer: None });
        }
        // What a worker outside dies of doesn't kill the host.
        let kills = known.poison && send.lease.is_none();
        if kills {
            self.note_kill(send.at(), number);
        }
        kills
    }

    /// Whether nobody else was given the message since. True for one that isn't claimed from outside.
    fn is_current_lease(&self, send: &Send) -> bool {
        send.lease.is_none_or(|nonce| self.leases.get(&send.at()) == Some(&(send.token, nonce)))
    }

    fn check_current_send(&mut self, send: &Send, known: &super::known::Known) {
        let number = send.number;
        // An owner that has it in memory goes on with a row that a rival's read has set aside.
        if let Some(end) = known.end.filter(|_| !self.ledger.damage.parked.contains_key(&send.at())) {
            self.violation(format!("msg {number} sent by the current owner after settlement: {end:?}"));
        } else if send.lease.is_none() && !self.ledger.is_claimed(number) {
            self.violation(format!("msg {number} sent without a durable claim: {:?}", known.spot));
        }
        let record = &self.ledger.record(send.shard).suspicion;
        let (is_named, is_suspect) = (record.calling.contains(&send.seq), record.suspects.contains_key(&send.seq));
        // Caution may end while a send is under way.
        if send.lease.is_none() && (send.cautious && record.cautious || is_suspect) {
            self.stats.named_sends += 1;
            if !is_named {
                self.violation(format!("msg {number} is sent unnamed; it is suspect: {is_suspect}"));
            }
        }
        let key = known.key;
        let held = self
            .ledger
            .held
            .values()
            .any(|(dead, tenant, held)| key == Some(*held) && known.tenant == *tenant && *dead < send.at());
        if held {
            self.violation(format!("msg {number} sent though a dead letter holds its key"));
        }
    }

    /// Promise 4: what was committed before a message's enqueue began, or comes before it in its transaction, is done. What an
    /// owner couldn't read holds nobody up.
    fn check_key_order(&mut self, number: usize) {
        let Some(later) = self.ledger.get(number) else { return };
        if later.key.is_none() || later.joins_late {
            return;
        }
        let earlier = self.ledger.known.iter().enumerate().find(|(_, earlier)| {
            earlier.key == later.key
                && earlier.tenant == later.tenant
                && !earlier.joins_late
                && earlier.is_live()
                && !earlier.unreadable
                && (earlier.commit.is_some_and(|commit| commit + self.setup.skew_ms < later.begin)
                    || earlier.transaction == later.transaction && earlier.index < later.index)
        });
        if let Some((other, _)) = earlier {
            self.violation(format!(
                "ORDER key {:?}: msg {number} attempted while earlier msg {other} is unsettled",
                later.key
            ));
        }
    }

    fn receiver_answer(&mut self, send: &Send) -> ReceiverAnswer {
        if self.blocked_until.get(send.destination).is_some_and(|until| *until > self.now) {
            return ReceiverAnswer::Blocked;
        }
        match self.rng.below(20) {
            0 => ReceiverAnswer::Dead,
            1..=3 => ReceiverAnswer::Retry,
            4 => ReceiverAnswer::Released,
            _ => ReceiverAnswer::Ack,
        }
    }

    /// The receiver's answer comes back.
    fn hear(&mut self, host: &Host, driver: Option<&mut Driver>, send: &Send) {
        let mut answer = self.receiver_answer(send);
        if send.lease.is_some() && answer == ReceiverAnswer::Blocked {
            answer = ReceiverAnswer::Released;
        }
        if let Some(known) = self.ledger.known.get_mut(send.number)
            && let Some(attempt) = known
                .attempts
                .iter_mut()
                .rev()
                .find(|attempt| (attempt.token, attempt.lease) == (send.token, send.lease))
        {
            attempt.answer = Some(answer);
        }
        match answer {
            ReceiverAnswer::Retry => self.stats.retries += 1,
            ReceiverAnswer::Blocked => self.stats.blocked += 1,
            ReceiverAnswer::Released => self.stats.released += 1,
            ReceiverAnswer::Ack | ReceiverAnswer::Dead => {}
        }
        self.note(|_| format!("answer on msg {}: {answer:?}", send.number));
        let now = self.now_at(host);
        let settlement = self.settlement(send, answer, now.wall);
        let is_current = self.is_current_lease(send);
        let is_owning = driver.is_some();
        let taken = driver.is_some_and(|driver| match send.lease {
            None => driver.owner.settle(send.seq, send.token, settlement, now),
            Some(_) if send.token != driver.owner.token() => false,
            Some(nonce) => driver.owner.settle_outside(send.seq, nonce, settlement, now),
        });
        let is_owner = send.token == self.ledger.record(send.shard).token;
        if taken && is_owner && !is_current {
            self.violation(format!("msg {}: a lease that another worker has was settled", send.number));
        }
        if taken && is_current && self.leases.get(&send.at()).is_some_and(|(token, _)| *token == send.token) {
            self.leases.remove(&send.at());
        }
        self.stats.stale_settlements += u64::from(!taken);
        // Whether a lease that a clock has ended is over, only its owner can tell.
        if !taken && send.lease.is_none() && is_owner && is_owning {
            self.violation(format!("msg {}: its own owner refused the settlement", send.number));
        }
    }

    fn settlement(&mut self, send: &Send, answer: ReceiverAnswer, wall: UnixMillis) -> Settlement {
        let delay = Self::millis(5 + self.rng.below(40));
        let (verdict, outcome) = match answer {
            ReceiverAnswer::Ack => (Verdict::Ack(Receipt::default()), AttemptOutcome::Delivered),
            ReceiverAnswer::Dead => (Verdict::Dead(Fault::new("HTTP.400", "refused")), AttemptOutcome::Dead),
            ReceiverAnswer::Retry if send.attempt >= ATTEMPTS_MAX => {
                (Verdict::Dead(Fault::new("HTTP.500", "too often")), AttemptOutcome::Dead)
            }
            ReceiverAnswer::Retry => {
                let outcome = if self.rng.one_in(10) { AttemptOutcome::Unknown } else { AttemptOutcome::Retry };
                (Verdict::Retry { due: wall.plus(delay), delay, fault: Fault::new("HTTP.500", "failed") }, outcome)
            }
            ReceiverAnswer::Blocked => {
                let fault = Fault::new("HTTP.401", "refused");
                (Verdict::Blocked { scope: String::new(), fault }, AttemptOutcome::Blocked)
            }
            ReceiverAnswer::Released => {
                let due = self.rng.percent(50).then(|| wall.plus(Duration::from_millis(10)));
                (Verdict::Release { due }, AttemptOutcome::Released)
            }
        };
        let attempt = AttemptRecord {
            at: wall,
            took_ms: 1,
            outcome,
            worker: "model".into(),
            transport: "a".into(),
            plugin: None,
            code: None,
            reason: None,
            maybe_delivered: false,
        };
        Settlement { verdict, attempt }
    }
}
