//! Sources: deliveries, settling, revocations, restarts.

use bytes::Bytes;
use waybill_core::inbox::limits::ORPHAN_PATIENCE;
use waybill_core::inbox::owner::{Arrival, Settle, SettleAs, SettleResult};
use waybill_core::inbox::settings::SourceId;

use super::broker::Delivered;
use super::messages::inbound;
use super::setup::{ORPHAN_WAIT, WINDOW};
use super::world::World;

impl World {
    /// Whether every consumer of a source has a position: stored or finished.
    pub(super) fn is_safe(&self, source: usize, position: usize) -> bool {
        let message = &self.brokers[source].positions[position].message;
        self.setup.takers(source).iter().all(|consumer| self.ledger.is_safe(consumer.0, message))
    }

    pub(super) fn source(&mut self, host: usize) {
        let source = self.rng.index(2);
        let now = self.now;
        let Some(session) = self.hosts[host].life.as_ref().map(|life| life.sessions[source]) else { return };
        let is_member = self.brokers[source].members.contains_key(&session);
        if !self.calm && self.rng.one_in(120) || !is_member {
            return self.restart(host, source);
        }
        self.brokers[source].members.insert(session, now);
        self.revocations(host, source, session);
        self.settle(host, source, session);
        if self.brokers[source].kind.log && self.rng.percent(30) {
            for group in 0..2 {
                if self.brokers[source].assigned[group] == session && !self.brokers[source].past_gaps {
                    let committed = self.brokers[source].commit_offsets(group, 0);
                    self.check_settled(source, &committed, "OFFSET");
                }
            }
        }
        self.pull(host, source, session);
    }

    /// The source was restarted, or thrown out of its group: tokens are gone, work isn't.
    fn restart(&mut self, host: usize, source: usize) {
        self.ledger.stats.restarts += 1;
        let (now, disturbed) = (self.now, self.hosts[host].disturbed);
        let Some(old) = self.hosts[host].life.as_ref().map(|life| life.sessions[source]) else { return };
        let is_owner = self.hosts[host].life.as_ref().is_some_and(|life| life.token == self.lease.token);
        if is_owner {
            self.neglect_session(source, old, disturbed);
        }
        self.brokers[source].leave(old, &mut self.rng);
        let session = self.brokers[source].join(now, &mut self.rng);
        let Some(life) = self.hosts[host].life.as_mut() else { return };
        life.sessions[source] = session;
        (life.pulled_since[source], life.emptied[source]) = (None, 0);
        life.tokens.retain(|(of, _), _| *of != source);
        life.owner.restarted(source_id(source), session);
    }

    fn revocations(&mut self, host: usize, source: usize, session: u64) {
        let clock = self.clock();
        let groups = self.brokers[source].revocations(session);
        if groups.is_empty() {
            return;
        }
        self.ledger.stats.revocations += 1;
        let names: Vec<String> = groups.iter().map(|group| format!("g{group}")).collect();
        if let Some(life) = self.hosts[host].life.as_mut() {
            life.owner.revoked(source_id(source), &names, clock);
        }
    }

    fn settle(&mut self, host: usize, source: usize, session: u64) {
        let clock = self.clock();
        let Some(life) = self.hosts[host].life.as_mut() else { return };
        for order in life.owner.take_settlements(source_id(source), clock) {
            let result = self.settle_one(host, source, session, &order);
            if let Some(life) = self.hosts[host].life.as_mut() {
                life.owner.settled(&order, result, clock);
            }
        }
    }

    fn settle_one(&mut self, host: usize, source: usize, session: u64, order: &Settle) -> SettleResult {
        let token = u64::from_be_bytes(order.token.as_ref().try_into().unwrap());
        let position = self.hosts[host].life.as_ref().and_then(|life| life.tokens.get(&(source, token)).copied());
        let Some(position) = position else { return SettleResult::Lost };
        let broker = &mut self.brokers[source];
        match order.settle_as {
            SettleAs::Extend if broker.kind.log || broker.extend(session, token, position, self.now) => {
                SettleResult::Done
            }
            SettleAs::Extend => SettleResult::Lost,
            SettleAs::Release => {
                broker.release(session, token, position);
                SettleResult::Done
            }
            SettleAs::Ack | SettleAs::Reject(_) => match self.rng.below(25) {
                0 if !self.calm && !broker.kind.log => {
                    self.ledger.stats.lost_acks += 1;
                    SettleResult::Done
                }
                1 if !self.calm => SettleResult::Failed,
                _ => {
                    let done = broker.ack(session, token, position, &mut self.rng);
                    self.check_settled(source, &[position], "SETTLED");
                    self.check_settled(source, &done, "OFFSET");
                    SettleResult::Done
                }
            },
        }
    }

    fn check_settled(&mut self, source: usize, positions: &[usize], what: &str) {
        for position in positions {
            if !self.is_safe(source, *position) {
                let message = self.brokers[source].positions[*position].message.clone();
                let (id, content) = (message.id, message.content);
                self.ledger.violation(format!(
                    "{what}: position {position} of source {source}, id {id} content {content}, that a consumer hasn't"
                ));
            }
        }
    }

    fn pull(&mut self, host: usize, source: usize, session: u64) {
        let (now, clock, id) = (self.now, self.clock(), source_id(source));
        let is_paused = self.is_paused();
        let Some(life) = self.hosts[host].life.as_ref() else { return };
        let room = if is_paused { 0 } else { life.owner.room(id) };
        if room > 0 && life.lease_until > now {
            let (deliveries, caught_up) = self.brokers[source].pull(session, room, now, &mut self.rng);
            let arrivals: Vec<Arrival> = deliveries.iter().map(|delivered| self.arrival(source, delivered)).collect();
            self.ledger.stats.redeliveries += deliveries.iter().filter(|delivered| delivered.again).count() as u64;
            let Some(life) = self.hosts[host].life.as_mut() else { return };
            life.tokens.extend(deliveries.iter().map(|delivered| ((source, delivered.token), delivered.position)));
            life.owner.pulled(id, session, arrivals, caught_up, clock);
            life.pulled_since[source].get_or_insert(now);
            if caught_up {
                life.emptied[source] = now;
            }
        }
        let Some(life) = self.hosts[host].life.as_ref() else { return };
        let in_hand = life.owner.in_hand(id);
        if in_hand > WINDOW {
            self.ledger.violation(format!("WINDOW: {in_hand} deliveries of source {source} in hand"));
        }
    }

    /// Orphans that an owner gives up: their source was pulled for so long that it had time to bring them again, and a pull after that
    /// found nothing more. What it said before says nothing of them, nor does time that passed while nobody pulled.
    pub(super) fn judge_expired(&mut self, host: usize) {
        let Some(life) = self.hosts[host].life.as_ref() else { return };
        let is_late = self.now > life.adopted + u64::from(ORPHAN_PATIENCE) * ORPHAN_WAIT;
        let has_waited =
            |source: usize| life.pulled_since[source].is_some_and(|since| life.emptied[source] > since + ORPHAN_WAIT);
        let was_asked = (0..2).any(|source| !self.setup.replays(source) && has_waited(source));
        if !is_late && !was_asked {
            self.ledger.violation("ORPHAN: one is given up whose source wasn't asked for it");
        }
    }

    fn arrival(&mut self, source: usize, delivered: &Delivered) -> Arrival {
        let broker = &self.brokers[source];
        let position = &broker.positions[delivered.position];
        Arrival {
            token: Bytes::copy_from_slice(&delivered.token.to_be_bytes()),
            group: broker.kind.log.then(|| format!("g{}", position.group)),
            settle_within: None,
            deliveries_left: delivered.left,
            redelivered: delivered.again && !broker.kind.log,
            message: inbound(&position.message, source, delivered.position, self.setup.ids, self.clock().wall),
            anonymous: false,
            consumers: self.setup.takers(source).to_vec(),
            refusal: None,
        }
    }
}

pub(super) fn source_id(source: usize) -> SourceId {
    SourceId(u16::try_from(source).unwrap())
}
