//! The broker: it loses answers, takes messages twice or long after their sender gave up, is down or slow.

use super::host::Worker;
use super::options::Mutation;
use super::rows::{Answer, Kind, Sent};
use super::setup::{CALL, FAR};
use super::world::World;

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
            let word = self.word(kind);
            let truth = &mut self.truths[row];
            match word {
                Answer::Acknowledged => {
                    truth.arrived += 1;
                    self.sent[number].arrived = true;
                }
                Answer::Permanent => truth.permanent = true,
                Answer::Retry | Answer::Blocked => truth.failures += 1,
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

    fn word(&mut self, kind: Kind) -> Answer {
        if self.now < self.down_until {
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
