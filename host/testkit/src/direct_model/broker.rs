//! The broker: it loses answers, takes messages twice or long after their sender gave up, is down or slow.

use std::sync::Arc;

use waybill_core::inbox::direct::{Place, Scope};

use super::host::Worker;
use super::options::Mutation;
use super::rows::{Answer, Kind, Sent};
use super::setup::{CALL, FAR};
use super::world::World;

/// The destination of most rows; it is down now and then.
const HERE: usize = 0;
/// One that is down until the calm phase.
const AWAY: usize = 1;
/// No route until then: nothing is called, and no scope is at fault.
const NOWHERE: usize = 2;
pub(super) const DESTINATIONS: usize = 3;

impl World {
    /// Sends a row, and judges that it is sent. The number of the send.
    pub(super) fn send(&mut self, host: usize, worker: &Worker, row: usize) -> usize {
        self.stats.sends += 1;
        let now = self.now;
        let is_alive = self.table.transactions.contains_key(&worker.transaction);
        self.stats.stale += u64::from(!is_alive);
        self.judge_order(worker, row);
        let start = self.hosts[host].starts;
        let attempts = self.table.rows.get(&row).map_or(0, |row| u64::from(row.attempts));
        let names_attempt = self.mutation == Some(Mutation::WireIdNamesAttempt);
        let wire = row as u64 * 100 + if names_attempt { attempts } else { 0 };
        let truth = &mut self.truths[row];
        let held = truth.not_before_at.get(&host).is_some_and(|(of, until)| *of == start && now < *until);
        let is_early = is_alive && (now < truth.not_before || held);
        let is_other = truth.wire.replace(wire).is_some_and(|before| before != wire);
        self.stats.repeats += u64::from(truth.arrived > 0);
        let is_dead_here = truth.dead_here;
        if is_early {
            let (kind, due) = (self.truths[row].kind, (self.truths[row].not_before, &self.truths[row].not_before_at));
            let text = format!("BACKOFF: row {row} ({kind:?}) is sent before its retry is due: {due:?}, host {host}");
            self.violation(text);
        }
        if is_other {
            self.violation(format!("REPEAT: row {row} has another wire id"));
        }
        if is_dead_here {
            self.violation(format!("FATE: row {row} is sent, and its dead letter is committed here"));
        }
        let late = !self.calm && self.rng.percent(3);
        self.stats.late += u64::from(late);
        let takes = if late {
            30 + self.rng.below(400)
        } else if self.setup.slow {
            6 + self.rng.below(14)
        } else {
            1 + self.rng.below(6)
        };
        let arrives = now + takes;
        let is_lost = !self.calm && self.rng.percent(3);
        let answers = if is_lost { FAR } else { arrives + 1 + self.rng.below(3) };
        if answers > now + CALL || self.truths[row].kind == Kind::Trap {
            self.truths[row].failures += 1;
        }
        self.sent.push(Sent { row, arrives, answers, word: None, arrived: false });
        self.air.push(self.sent.len() - 1);
        self.sent.len() - 1
    }

    /// No earlier row of its aggregate, in the table when the claim began, still waits and hasn't arrived.
    fn judge_order(&mut self, worker: &Worker, row: usize) {
        let Some(mine) = self.table.rows.get(&row) else { return };
        let earlier = worker.snapshot.iter().filter_map(|earlier| self.table.rows.get(earlier)).find(|earlier| {
            earlier.key == mine.key
                && earlier.order < mine.order
                && earlier.waits()
                && self.truths[earlier.id].arrived == 0
        });
        if let Some(earlier) = earlier {
            let (key, id, kind) = (mine.key, earlier.id, self.truths[earlier.id].kind);
            self.violation(format!("ORDER: row {row} of {key:?} is sent while the earlier {id} ({kind:?}) waits"));
        }
    }

    /// Sends arrive at the broker.
    pub(super) fn broker(&mut self) {
        let now = self.now;
        for number in std::mem::take(&mut self.air) {
            if self.sent[number].arrives > now {
                self.air.push(number);
                continue;
            }
            let row = self.sent[number].row;
            let kind = self.truths[row].kind;
            if kind == Kind::Trap {
                continue;
            }
            let destination = self.destination(row);
            let word = self.word(kind, destination);
            let truth = &mut self.truths[row];
            match word {
                Answer::Acknowledged => {
                    truth.arrived += 1;
                    self.sent[number].arrived = true;
                    self.served[destination] = true;
                }
                Answer::Permanent => truth.permanent = true,
                Answer::Retry => truth.failures += 1,
                Answer::Blocked => truth.blocked += 1,
            }
            if self.sent[number].word.is_none() {
                self.sent[number].word = Some(word);
                // The network may bring it twice.
                if !self.calm && self.rng.percent(3) {
                    self.sent[number].arrives = now + self.rng.below(60);
                    self.air.push(number);
                }
            }
        }
    }

    /// Where a row goes, in runs with several destinations.
    pub(super) fn destination(&self, row: usize) -> usize {
        // What is always blocked needs others that go through beside it.
        if !self.setup.apart || self.truths[row].kind == Kind::Blocked {
            return HERE;
        }
        match row % 5 {
            0 => AWAY,
            1 => NOWHERE,
            _ => HERE,
        }
    }

    /// The same as the lanes are told it.
    pub(super) fn place(&self, row: usize) -> Place {
        let destination = self.destination(row);
        let transport = if self.setup.one_transport { HERE } else { destination };
        Place { transport: Arc::from(format!("t{transport}")), destination: Arc::from(format!("d{destination}")) }
    }

    /// What is blocked when a row is.
    pub(super) fn scope(&self, row: usize) -> Option<Scope> {
        let place = self.place(row);
        let is_whole = !self.setup.one_transport;
        let scope = if is_whole { Scope::of_transport(&place) } else { Scope::named(&place, "") };
        (self.destination(row) != NOWHERE).then_some(scope)
    }

    fn word(&mut self, kind: Kind, destination: usize) -> Answer {
        // Those beside the first are away until the calm phase.
        if self.now < self.down_until || destination > 0 && !self.calm {
            return Answer::Blocked;
        }
        match kind {
            Kind::Permanent => Answer::Permanent,
            Kind::Retry => Answer::Retry,
            Kind::Blocked => Answer::Blocked,
            _ if !self.calm && self.rng.percent(8) => Answer::Retry,
            _ => Answer::Acknowledged,
        }
    }
}
