//! What the relay sends to: it acknowledges, refuses, loses the answer, or stores late.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use waybill_core::streams::records::Refusal;
use waybill_core::streams::relay::{RelayOutcome, RelaySend};
use waybill_core::time::Monotonic;

use super::setup::shard_of;
use super::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    /// It isn't stored, and nothing is known of it.
    Lost,
    Refused,
    /// It is stored, and the answer is lost.
    Unheard,
}

/// An event on its way.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    host: usize,
    token: u64,
    stream: usize,
    seq: u64,
    resource: u8,
    generation: u64,
    lands: u64,
    answers: u64,
    fate: Fate,
    landed: bool,
}

impl Sent {
    #[expect(clippy::too_many_arguments, reason = "it is what the dice gave, in one place")]
    pub fn new(
        host: usize,
        token: u64,
        stream: usize,
        send: &RelaySend,
        resource: u8,
        lands: u64,
        answers: u64,
        fate: u64,
    ) -> Self {
        let fate = match fate {
            0 => Fate::Refused,
            1 | 2 => Fate::Lost,
            3 | 4 => Fate::Unheard,
            _ => Fate::Acknowledged,
        };
        let (seq, generation) = (send.seq, send.generation);
        Self { host, token, stream, seq, resource, generation, lands, answers, fate, landed: false }
    }
}

#[derive(Debug, Default)]
pub(super) struct Broker {
    pub sent: Vec<Sent>,
    /// Generations under which an event arrived, by stream and seq.
    pub arrived: BTreeMap<(usize, u64), BTreeSet<u64>>,
}

impl Broker {
    /// Nothing is on its way, but of the stream that it never takes anything of.
    pub fn is_quiet(&self, blocked: Option<usize>) -> bool {
        self.sent.iter().all(|sent| Some(sent.stream) == blocked)
    }
}

impl World {
    pub(super) fn broker(&mut self) {
        let now = self.now;
        let mut at = 0;
        while at < self.broker.sent.len() {
            let sent = self.broker.sent[at].clone();
            if !sent.landed && sent.lands <= now {
                self.broker.sent[at].landed = true;
                self.land(&sent);
            }
            if sent.answers <= now {
                self.broker.sent.swap_remove(at);
                self.hear(&sent);
            } else {
                at += 1;
            }
        }
    }

    fn land(&mut self, sent: &Sent) {
        if !matches!(sent.fate, Fate::Acknowledged | Fate::Unheard) {
            return;
        }
        self.ledger.stats.arrivals += 1;
        let generations = self.broker.arrived.entry((sent.stream, sent.seq)).or_default();
        if generations.insert(sent.generation) {
            self.check_key(sent);
        } else {
            self.ledger.stats.repeats += 1;
        }
        if sent.fate == Fate::Acknowledged {
            self.ledger.acknowledged.insert((sent.stream, sent.seq, sent.generation));
        }
    }

    /// First arrivals of a key keep the stream's order, per seek.
    fn check_key(&mut self, sent: &Sent) {
        let began = self.ledger.began.get(&(sent.stream, sent.generation)).copied().unwrap_or(0);
        if began + 1 >= sent.seq {
            return;
        }
        let earlier = self.ledger.by_seq[sent.stream].range(began + 1..sent.seq).find(|(seq, id)| {
            let event = &self.ledger.events[**id];
            let arrived = self.broker.arrived.get(&(sent.stream, **seq));
            let is_left_out = sent.generation == 0 && self.is_before_start(sent.stream, **seq);
            event.resource == sent.resource
                && !(event.dead || event.dropped || event.lost || is_left_out)
                && !arrived.is_some_and(|generations| generations.contains(&sent.generation))
        });
        if let Some((earlier, _)) = earlier {
            let (stream, seq, earlier) = (sent.stream, sent.seq, *earlier);
            self.ledger.violation(format!("KEY order at the broker: stream {stream} gave {seq} before {earlier}"));
        }
    }

    /// The owner that sent it hears of it, if it lives.
    fn hear(&mut self, sent: &Sent) {
        let name = self.setup.relay.clone();
        let key = self.setup.stream(sent.stream).clone();
        let life = self.hosts[sent.host].lives[usize::from(shard_of(sent.stream).0)].as_mut();
        let Some(life) = life.filter(|life| life.token == sent.token) else { return };
        let Some(relay) = life.owner.relays_mut().get_mut(&name) else { return };
        let again = Duration::from_millis(self.now + 3 + (sent.seq * 7) % 20);
        let outcome = match sent.fate {
            Fate::Acknowledged => RelayOutcome::Acknowledged,
            Fate::Lost | Fate::Unheard => RelayOutcome::Again(Monotonic(again)),
            Fate::Refused => RelayOutcome::Refused(Refusal { code: "NO".into(), reason: "never".into() }),
        };
        relay.answer(&key, sent.seq, sent.generation, outcome);
    }
}
