//! Errors of sagas as problem details.

use waybill_api::saga_definitions::DefinitionProblem;
use waybill_core::code::Code;
use waybill_core::port::store::StoreError;
use waybill_core::saga::error::SagaError;

use crate::limits::{RETRY_AFTER_BUSY, RETRY_AFTER_DISK};
use crate::problem::{LOGGED, Problem};

impl From<SagaError> for Problem {
    fn from(error: SagaError) -> Self {
        let mut problem = Self::new(error.code(), error.to_string());
        match &error {
            SagaError::Filter(_) => problem.at.path = Some("filter".to_owned()),
            SagaError::Definition(problems) => {
                problem.faults = problems.0.iter().cloned().map(DefinitionProblem::from).collect();
                if let Some(first) = problem.faults.first() {
                    problem.at.line = Some(first.line);
                    problem.at.column = Some(first.column);
                    problem.at.path = Some(first.path.clone()).filter(|path| !path.is_empty());
                }
            }
            SagaError::Store(StoreError::Unavailable(_)) => {
                problem.cause = Some(error.to_string());
                problem.detail = "the store can't be reached now; nothing was committed".to_owned();
            }
            _ => {}
        }
        if problem.code == Code::STORAGE_DISK_FULL {
            problem.retry_after = Some(RETRY_AFTER_DISK);
        } else if problem.code.status() == 500 {
            problem.cause = Some(error.to_string());
            problem.detail = LOGGED.to_owned();
        } else if error.retryable() {
            problem.retry_after = Some(RETRY_AFTER_BUSY);
        }
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_core::saga::definition::problem::{Position, Problem as Fault, Problems, Severity};
    use waybill_core::time::UnixMillis;

    fn fault() -> Fault {
        Fault {
            severity: Severity::Error,
            at: Position { line: 3, column: 7 },
            path: "steps[0].action".into(),
            what: "the scheme \"htp\" isn't known".into(),
            fix: "write http://".into(),
        }
    }

    #[test]
    fn every_error_of_sagas_has_its_own_entry() {
        let text = String::new;
        let store = |error| SagaError::Store(error);
        let errors = [
            SagaError::Input(waybill_core::error::InputError::Empty { field: "id" }),
            SagaError::Filter(waybill_core::outbox::filter::FilterError { condition: text(), cause: text() }),
            SagaError::Definition(Problems(vec![fault()])),
            SagaError::NoDefinition { name: text() },
            SagaError::NoVersion { name: text(), version: 2, latest: 1 },
            SagaError::VersionTaken { name: text(), version: 1 },
            SagaError::InputTooLarge { bytes: 2, bytes_max: 1 },
            SagaError::DataTooLarge { what: text(), bytes: 2, bytes_max: 1 },
            SagaError::IdTaken { id: text() },
            SagaError::NotFound { id: text() },
            SagaError::NoStep { id: text(), step: text(), known: text() },
            SagaError::Ended { id: text(), state: text() },
            SagaError::State { id: text(), state: text(), fix: text() },
            SagaError::NotWaiting { id: text(), step: text(), state: text() },
            SagaError::ApprovalExpired { id: text(), step: text(), at: UnixMillis(0) },
            SagaError::NotRoot { id: text(), root: text() },
            SagaError::SignalsFull { id: text(), count: 64 },
            SagaError::Busy { what: "sagas", count: 1, count_max: 1 },
            SagaError::LookAgain,
            SagaError::Unavailable(text()),
            SagaError::OutcomeUnknown(StoreError::Other(text())),
            SagaError::OutcomeUnknown(StoreError::DiskFull(text())),
            store(StoreError::Conflict(text())),
            store(StoreError::Corrupt(text())),
            store(StoreError::NewerData(text())),
            store(StoreError::Unavailable(text())),
        ];
        for error in errors {
            let problem = Problem::from(error.clone());
            assert_eq!(problem.code, error.code(), "{error:?} isn't in the table");
            assert_eq!(problem.retry_after.is_some(), error.retryable() || problem.code.status() == 507, "{error:?}");
        }
    }

    #[test]
    fn a_bad_definition_tells_every_fault_and_points_at_the_first() {
        let second = Fault { at: Position { line: 9, column: 1 }, path: "steps[1]".into(), ..fault() };
        let problem = Problem::from(SagaError::Definition(Problems(vec![fault(), second])));
        assert_eq!((problem.at.line, problem.at.column), (Some(3), Some(7)));
        assert_eq!(problem.at.path.as_deref(), Some("steps[0].action"));
        assert_eq!(problem.faults.len(), 2);
    }

    #[test]
    fn our_own_failures_keep_their_details_to_the_log() {
        let problem = Problem::from(SagaError::Store(StoreError::Other("key 0x1234 of table secret".into())));
        assert_eq!(problem.code.status(), 500);
        assert!(!problem.detail.contains("secret") && problem.cause.is_some());
    }
}
