//! What a worker does with its rows: sends, marks, COMMIT.

use std::time::Duration;

use waybill_core::inbox::direct::{MarkKind, Marks, RowFate, Wave};
use waybill_core::port::transport::Fault;

use super::host::{Phase, Worker, number_of, row_id, worker_id};
use super::options::Mutation;
use super::rows::{Answer, Kind};
use super::setup::CALL;
use super::table::{Change, Marked, Status, Why};
use super::world::World;

impl World {
    /// The next row of each aggregate whose last one was acknowledged. True: the process dies of one.
    pub(super) fn go(&mut self, host: usize, worker: usize, own: &mut Worker) -> bool {
        let clock = self.clock();
        let rows = match self.lanes_of(host).wave(worker_id(worker), clock) {
            Wave::Send { rows, .. } => rows,
            Wave::Mark => {
                own.phase = Phase::Mark;
                return false;
            }
            Wave::GiveUp => {
                let has_acknowledged =
                    own.sends.iter().any(|(_, send)| self.sent[*send].word == Some(Answer::Acknowledged));
                if has_acknowledged {
                    self.violation("REPEAT: a transaction is given up with an acknowledgement in hand");
                }
                self.table.abort(own.transaction);
                self.rest(own, 3);
                return false;
            }
        };
        own.wave.clear();
        (own.until, own.trap_at) = (self.now + CALL, None);
        let rows: Vec<usize> = rows.iter().map(number_of).collect();
        if !self.calm && self.rng.one_in(80) {
            own.trap_at = Some(self.now + 1 + self.rng.below(8));
            if let [row] = rows.as_slice() {
                self.truths[*row].failures += 1;
            }
        }
        for row in rows {
            match self.truths[row].kind {
                Kind::Killer => return true,
                Kind::Trap => own.trap_at = Some(self.now + 1 + self.rng.below(8)),
                _ => {}
            }
            let place = self.place(row);
            self.lanes_of(host).goes_to(worker_id(worker), &row_id(row), place);
            let send = self.send(host, own, row);
            if self.is_broken() {
                return false;
            }
            own.wave.push((row, send));
            own.sends.push((row, send));
        }
        own.phase = Phase::Call;
        false
    }

    /// Answers, a trap, or the end of the time for them.
    pub(super) fn hear(&mut self, host: usize, worker: usize, own: &mut Worker) {
        let id = worker_id(worker);
        for (row, send) in own.wave.clone() {
            let sent = &self.sent[send];
            if sent.answers <= self.now
                && let Some(word) = sent.word
            {
                let fate = self.fate(row, word);
                self.lanes_of(host).row_answered(id, &row_id(row), fate);
            }
        }
        if self.lanes_of(host).is_answered(id) {
            own.phase = Phase::Go;
        } else if own.trap_at.is_some_and(|at| at <= self.now) {
            self.stats.traps += 1;
            self.lanes_of(host).trapped(id, Fault::new("TEST.TRAP", "the call trapped"));
            own.phase = Phase::Mark;
        } else if self.now >= own.until {
            self.lanes_of(host).timed_out(id);
            own.phase = Phase::Go;
        }
    }

    /// All marks of the batch, then COMMIT.
    pub(super) fn mark(&mut self, host: usize, worker: usize, own: &mut Worker) {
        let (clock, id) = (self.clock(), worker_id(worker));
        let marks = self.lanes_of(host).marks(id, clock, 0.5);
        if self.is_refused(&marks) {
            self.stats.refused += 1;
            self.stats.lost += 1;
            self.table.abort(own.transaction);
            let alone = self.lanes_of(host).mark_refused(id, clock, 0.5);
            if let Some(row) = alone {
                let start = self.hosts[host].starts;
                let until = self.now + 1;
                self.truths[number_of(&row)].not_before_at.insert(host, (start, until));
            }
            return self.rest(own, 12);
        }
        // The connection may break before the marks, before COMMIT, or before its answer.
        if !self.calm && self.rng.percent(2) {
            if self.rng.percent(50) {
                self.table.abort(own.transaction);
            }
            return self.lose(host, worker, own);
        }
        let (changes, marked) = self.changes(host, own, marks);
        own.hears = self.calm || !self.rng.percent(4);
        let is_quick = own.hears || self.rng.percent(50);
        let at = self.now + 1 + self.rng.below(if is_quick { 3 } else { 80 });
        own.phase = Phase::Commit;
        if let Some(transaction) = self.table.transactions.get_mut(&own.transaction) {
            (transaction.changes, transaction.marks) = (changes, marked);
            (transaction.touched, transaction.commit_at) = (self.now, Some(at));
        }
    }

    fn is_refused(&self, marks: &Marks) -> bool {
        let rows = marks.acknowledged.iter().chain(marks.others.iter().map(|mark| &mark.row));
        rows.map(number_of).any(|row| self.truths[row].kind == Kind::NoMark && self.table.rows.contains_key(&row))
    }

    fn changes(&mut self, host: usize, own: &Worker, marks: Marks) -> (Vec<Change>, Vec<Marked>) {
        let (mut changes, mut marked) = (Vec::new(), Vec::new());
        let (now, skew, begun) = (self.now, self.hosts[host].skew, own.begun);
        let from = match self.mutation {
            Some(Mutation::DelayFromBegin) => begun,
            Some(Mutation::DelayByHostClock) => now.saturating_add_signed(skew),
            _ => now,
        };
        for row in marks.acknowledged.iter().map(number_of) {
            let send = own.sends.iter().find(|(of, _)| *of == row).map(|(_, send)| *send);
            let Some(mut found) = self.table.rows.get(&row).cloned() else { continue };
            (found.status, found.updated) = (Status::Published, now);
            changes.push(if self.setup.deletes { Change::Delete(row) } else { Change::Put(found) });
            marked.push(Marked { row, why: Why::Acknowledged, send, not_before: 0 });
        }
        for mark in marks.others {
            let row = number_of(&mark.row);
            let Some(mut found) = self.table.rows.get(&row).cloned() else { continue };
            found.updated = now;
            found.attempts += mark.attempts;
            let mut not_before = 0;
            let why = match (mark.kind, mark.error.code.as_str()) {
                (MarkKind::Waits(delay), _) => {
                    let delay = millis(delay);
                    // Also what another worker had claimed and left.
                    found.status = Status::Pending;
                    if self.setup.no_due {
                        let start = self.hosts[host].starts;
                        self.truths[row].not_before_at.insert(host, (start, now + delay));
                    } else {
                        found.due = from + delay;
                        not_before = now + delay;
                    }
                    Why::Waits
                }
                (MarkKind::Failed, "TEST.PERMANENT") => Why::Permanent,
                (MarkKind::Failed, "SUSPECTED_POISON") => Why::Suspect,
                (MarkKind::Failed, _) => Why::Attempts,
            };
            if why != Why::Waits {
                found.status = Status::Failed;
                let here = self.mutation == Some(Mutation::DeadLetterHere) && self.setup.no_due;
                self.truths[row].dead_here |= here && why != Why::Attempts;
            }
            changes.push(Change::Put(found));
            marked.push(Marked { row, why, send: None, not_before });
        }
        (changes, marked)
    }

    pub(super) fn hear_commit(&mut self, host: usize, worker: usize, own: &mut Worker, is_gone: bool) {
        let clock = self.clock();
        if self.table.committed.contains(&own.transaction) && own.hears {
            self.lanes_of(host).committed(worker_id(worker), clock);
            self.save(host);
            return self.rest(own, 3);
        }
        if !own.hears || is_gone {
            self.stats.unknown += u64::from(!own.hears);
            self.lose(host, worker, own);
        }
    }
}

impl World {
    /// What the lanes are told of an answer.
    fn fate(&self, row: usize, word: Answer) -> RowFate {
        let fault = |code: &str| Fault::new(code, "drawn");
        match word {
            Answer::Acknowledged => RowFate::Acknowledged,
            Answer::Retry => RowFate::Retry(fault("TEST.RETRY")),
            Answer::Permanent => RowFate::Permanent(fault("TEST.PERMANENT")),
            Answer::Blocked => RowFate::Blocked { scope: self.scope(row), fault: fault("TEST.BLOCKED") },
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
}
