//! The application that fills the table, foreign sessions, operators.

use super::rows::{Kind, Truth};
use super::setup::FAR;
use super::table::{Act, Change, Row, Status};
use super::world::World;

const FOREIGN: [Act; 7] = [Act::Hold, Act::Hold, Act::Touch, Act::Publish, Act::Delete, Act::Process, Act::Resend];

impl World {
    /// A transaction of the application: it draws its ids early, and commits late or never.
    pub(super) fn insert(&mut self) {
        let now = self.now;
        let transaction = self.table.begin(false, now);
        let many = self.rng.one_in(11);
        let count = 1 + self.rng.below(if many { 14 } else { 3 });
        let hot = u8::try_from(self.rng.below(5)).unwrap();
        for _ in 0..count {
            self.sequence += 1;
            let id = self.truths.len();
            let drawn = u8::try_from(self.rng.below(5)).unwrap();
            let aggregate = if count > 3 || self.rng.percent(40) { hot } else { drawn };
            let key = if aggregate == 4 { (255, id) } else { (aggregate, 0) };
            let kind = self.kind();
            let order = if !self.setup.no_due {
                (self.sequence, 0)
            } else if self.ties_by_place() {
                (now, self.sequence)
            } else {
                (now, self.rng.below(1 << 30))
            };
            self.truths.push(Truth::new(kind));
            let due = if kind == Kind::Far { FAR } else { now };
            let row = Row { id, key, order, ctid: 0, status: Status::Pending, attempts: 0, due, updated: now };
            self.change(transaction, Change::New(row));
        }
        let slow = self.rng.one_in(3);
        let end = now + self.rng.below(if slow { 80 } else { 4 });
        let gives_up = self.rng.percent(8);
        if let Some(transaction) = self.table.transactions.get_mut(&transaction) {
            if gives_up {
                transaction.abort_at = Some(end);
            } else {
                transaction.commit_at = Some(end);
            }
        }
    }

    fn kind(&mut self) -> Kind {
        let no_due = self.setup.no_due;
        let kind = match self.rng.below(100) {
            0..=3 => Kind::Retry,
            4..=6 => Kind::Permanent,
            7 => Kind::Killer,
            8..=9 => Kind::Trap,
            10..=11 => Kind::Blocked,
            12 => Kind::NoMark,
            13 => Kind::Far,
            _ => match self.setup.much {
                Some(kind) if self.rng.percent(35) => {
                    if kind == Kind::NoMark && self.rng.percent(15) {
                        Kind::Killer
                    } else {
                        kind
                    }
                }
                _ => Kind::Good,
            },
        };
        if kind == Kind::Far && no_due { Kind::Good } else { kind }
    }

    fn change(&mut self, transaction: u64, change: Change) {
        if let Some(transaction) = self.table.transactions.get_mut(&transaction) {
            transaction.changes.push(change);
        }
    }

    pub(super) fn foreigner(&mut self) -> Option<u64> {
        self.act(&FOREIGN, 60)
    }

    pub(super) fn operator(&mut self) {
        self.act(&[Act::Replay], 5);
    }

    /// A foreign session does something to a row.
    pub(super) fn act(&mut self, acts: &[Act], longest: u64) -> Option<u64> {
        let act = *self.rng.pick(acts)?;
        let no_due = self.setup.no_due;
        let takes = |row: &Row| match act {
            Act::Resend => row.status == Status::Published,
            Act::Replay => row.status == Status::Failed,
            Act::Process => row.status == Status::Pending && !no_due && row.due < FAR,
            _ => row.waits(),
        };
        let rows: Vec<usize> = self.table.rows.values().filter(|row| takes(row)).map(|row| row.id).collect();
        let row = *self.rng.pick(&rows)?;
        if self.table.is_locked(row, 0) {
            return None;
        }
        let transaction = self.table.begin(false, self.now);
        let end = self.now + self.rng.below(longest);
        let session = self.table.transactions.get_mut(&transaction)?;
        session.locks.insert(row);
        session.changes.push(Change::Foreign(row, act));
        session.commit_at = Some(end);
        Some(transaction)
    }

    /// A session locks a row, or many, for ever.
    pub(super) fn lock_for_ever(&mut self) {
        let Some(session) = self.act(&[Act::Hold], 1) else { return };
        let many = self.rng.percent(50);
        let takes =
            |row: &&Row| row.waits() && many && row.id.is_multiple_of(2) && !self.table.is_locked(row.id, session);
        let more: Vec<usize> = self.table.rows.values().filter(takes).map(|row| row.id).collect();
        if let Some(transaction) = self.table.transactions.get_mut(&session) {
            transaction.commit_at = Some(FAR);
            transaction.locks.extend(more);
            self.forever = Some(session);
        }
    }

    /// What a foreign session did takes effect.
    pub(super) fn foreign(&mut self, row: usize, act: Act, ctid: u64) {
        let now = self.now;
        let Some(found) = self.table.rows.get_mut(&row) else { return };
        let truth = &mut self.truths[row];
        if act != Act::Hold {
            (found.ctid, found.updated) = (ctid, now);
        }
        match act {
            Act::Hold | Act::Touch => {}
            Act::Publish => {
                found.status = Status::Published;
                truth.gone = true;
            }
            Act::Delete => {
                truth.gone = true;
                self.table.rows.remove(&row);
            }
            Act::Process => {
                found.status = Status::Processing;
                // Who claims it has its time in hand: given back, it waits as if it were due.
                truth.not_before = 0;
            }
            Act::Resend | Act::Replay => {
                self.stats.replays += u64::from(act == Act::Replay);
                (found.status, found.attempts, found.due) = (Status::Pending, 0, now);
                truth.begin_anew();
            }
        }
    }

    /// Other traffic goes on while something is blocked.
    pub(super) fn other_traffic(&mut self) {
        self.sequence += 1;
        let (id, now) = (self.truths.len(), self.now);
        self.truths.push(Truth { seen: true, ..Truth::new(Kind::Good) });
        let order = (if self.setup.no_due { now } else { self.sequence }, 0);
        let row =
            Row { id, key: (255, id), order, ctid: 0, status: Status::Pending, attempts: 0, due: now, updated: now };
        self.table.rows.insert(id, row);
    }
}
