//! Waves: of each aggregate the next row whose last one was acknowledged, and what became of them.

use super::DirectTable;
use super::batch::RowFate;
use super::config::{RowId, WorkerId};
use super::memory::Place;
use super::rules::Rule;
use crate::code::Code;
use crate::port::transport::Fault;
use crate::time::Monotonic;

/// What a transaction does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wave {
    /// These go out; their answers are awaited until then.
    Send { rows: Vec<RowId>, until: Monotonic },
    /// Everything that it will know is known: the marks.
    Mark,
    /// The transaction is given up.
    GiveUp,
}

impl DirectTable {
    /// What a worker sends next. After `direct_timeout` no send begins once something was answered: a slow broker gets few rows, and never
    /// the same ones for ever.
    pub fn wave(&mut self, worker: WorkerId, now: Monotonic) -> Wave {
        let (stops, single) = (self.is_rule_kept(Rule::StopBehindUnacknowledged), self.is_rule_kept(Rule::OneAtATime));
        let early = !self.is_rule_kept(Rule::MarkAfterAnswer);
        let keeps = self.is_rule_kept(Rule::KeepAcknowledged);
        let (direct_timeout, until) = (self.config.direct_timeout, now + self.config.call_timeout);
        let Some(batch) = self.batch_mut(worker) else { return Wave::GiveUp };
        let next = batch.next(stops, single);
        if early {
            let sent: Vec<RowId> = batch.rows().cloned().collect();
            sent.iter().for_each(|row| batch.tell(row, RowFate::Acknowledged));
            return Wave::Mark;
        }
        let is_late = now - batch.begun > direct_timeout && !batch.fates().is_empty();
        if is_late && !next.is_empty() && !keeps {
            self.end(worker, now);
            return Wave::GiveUp;
        }
        if next.is_empty() || is_late || batch.hurt {
            return Wave::Mark;
        }
        batch.wave = next.iter().cloned().collect();
        Wave::Send { rows: next, until }
    }

    /// Where a row goes that is about to go out: what is acknowledged counts where it went.
    pub fn goes_to(&mut self, worker: WorkerId, row: &RowId, place: Place) {
        if let Some(batch) = self.batch_mut(worker) {
            batch.places.insert(row.clone(), place);
        }
    }

    /// What became of a row that is out. The first word counts.
    pub fn row_answered(&mut self, worker: WorkerId, row: &RowId, fate: RowFate) {
        if let Some(batch) = self.batch_mut(worker)
            && batch.wave.contains(row)
        {
            batch.tell(row, fate);
        }
    }

    /// Whether all that is out was answered.
    pub fn is_answered(&self, worker: WorkerId) -> bool {
        self.batch(worker).is_none_or(|batch| batch.wave.iter().all(|row| batch.fate(row).is_some()))
    }

    /// The time of what is out is over: no answer is a failed attempt, and may have arrived.
    pub fn timed_out(&mut self, worker: WorkerId) {
        let fault = Fault { maybe_delivered: true, ..Fault::new(NO_ANSWER, "no answer came in time") };
        self.end_wave(worker, |_| RowFate::Retry(fault.clone()));
    }

    /// The call ended with a trap. What wasn't told stays as it is, but for a row that was alone in its call: from then on it goes alone.
    pub fn trapped(&mut self, worker: WorkerId, fault: Fault) {
        let costs_all = !self.is_rule_kept(Rule::TrapCostsOnlyAlone);
        let remember = self.config.remember;
        let Some(batch) = self.batch_mut(worker) else { return };
        batch.hurt = true;
        let alone = batch.wave.first().filter(|row| batch.wave.len() == 1 && batch.fate(row).is_none()).cloned();
        let (is_alone, until) = (alone.is_some(), batch.begun + remember);
        if let Some(row) = alone {
            self.memory.set_apart(&row, until);
        }
        self.end_wave(worker, |_| if is_alone || costs_all { RowFate::Retry(fault.clone()) } else { RowFate::Untold });
    }

    fn end_wave(&mut self, worker: WorkerId, fate: impl Fn(&RowId) -> RowFate) {
        if let Some(batch) = self.batch_mut(worker) {
            for row in std::mem::take(&mut batch.wave) {
                let fate = fate(&row);
                batch.tell(&row, fate);
            }
        }
    }
}

/// Code of a row whose answer didn't come.
const NO_ANSWER: Code = Code::PLUGIN_TIMEOUT;
