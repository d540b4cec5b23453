//! Marks and COMMIT.

use tokio::time::Instant;
use waybill_core::port::table::{ClaimId, Ended, Mark, RowFate};
use waybill_core::port::transport::{CallError, ErrorKind};

use super::database::{Database, Fault, State, Status, key};
use super::fault;

impl Database {
    pub(super) fn commit(&self, claim: ClaimId, marks: Vec<Mark>) -> Result<Ended, CallError> {
        let mut state = self.0.lock();
        state.end_idle();
        let Some(transaction) = state.open.remove(&key(claim)) else {
            return Ok(Ended::Lost(fault("TEST.TRANSACTION_GONE")));
        };
        if marks.is_empty() {
            return Ok(Ended::Committed);
        }
        if state.takes_fault(Fault::Lost) {
            return Ok(Ended::Lost(fault("TEST.TRANSACTION_LOST")));
        }
        let marks: Vec<(u64, RowFate)> = marks.into_iter().filter_map(|mark| Some((id(&mark)?, mark.fate))).collect();
        if marks.iter().any(|(row, _)| state.unmarkable.contains(row) || !transaction.rows.contains(row)) {
            return Ok(Ended::Refused(fault("TEST.MARK_REFUSED")));
        }
        for (row, fate) in marks {
            state.mark(row, fate);
        }
        if state.takes_fault(Fault::Unheard) {
            return Err(CallError { kind: ErrorKind::Unavailable, fault: fault("TEST.NO_ANSWER") });
        }
        Ok(Ended::Committed)
    }
}

impl State {
    fn mark(&mut self, id: u64, fate: RowFate) {
        let now = Instant::now();
        let Some(row) = self.rows.get_mut(&id) else { return };
        match fate {
            RowFate::Published => {
                (row.status, row.error) = (Status::Published, None);
                self.published.push(id);
            }
            RowFate::Again { after, attempts, cause } => {
                row.attempts += attempts;
                row.due = now + after;
                row.error = cause.or(row.error.take());
            }
            RowFate::Failed { attempts, cause } => {
                row.attempts += attempts;
                (row.status, row.error) = (Status::Failed, Some(cause));
            }
        }
    }
}

fn id(mark: &Mark) -> Option<u64> {
    std::str::from_utf8(&mark.token).ok()?.parse().ok()
}
