//! An act on all that a filter takes, as an operation: what was planned is what is done.

use waybill_api::instant::Instant;
use waybill_core::outbox::dead_plan::has_grown;
use waybill_core::port::query::Counted;
use waybill_core::port::saga::RetryMode;
use waybill_core::port::service::ServiceError;
use waybill_page::acts::{Act, On};
use waybill_page::views::Given;

use super::sent_forms::Done;
use super::{Asked, check_typed, instant};
use crate::app::App;
use crate::caller::{Caller, now};
use crate::json::operations::DryRun;
use crate::json::requests::{OperationKind, StartOperation};
use crate::problem::Problem;
use crate::routes::operations;

/// Stands for a reason that isn't written yet.
const PLANNED: &str = "planned";

/// The operation that an act on many is.
fn kind(act: Act) -> Option<OperationKind> {
    Some(match act {
        Act::DeadReplay => OperationKind::Replay,
        Act::DeadQuarantine => OperationKind::Quarantine,
        Act::DeadPurge => OperationKind::Purge,
        Act::MessageCancel => OperationKind::CancelMessages,
        Act::MessageReschedule => OperationKind::RescheduleMessages,
        Act::SagaPause => OperationKind::Pause,
        Act::SagaResume => OperationKind::Resume,
        Act::SagaCancel => OperationKind::Cancel,
        Act::SagaRetry => OperationKind::Retry,
        Act::SagaAccept => OperationKind::Accept,
        Act::SagaKill => OperationKind::Kill,
        _ => return None,
    })
}

/// What is asked for, without what only a form says.
fn wanted(asked: &Asked) -> Result<StartOperation, Problem> {
    let about = asked.act.about();
    let kind = kind(asked.act).ok_or_else(|| Problem::invalid(format!("{} takes one at a time", about.word)))?;
    let target = &asked.target;
    Ok(StartOperation {
        kind,
        filter: target.filter.clone(),
        step: None,
        mode: None,
        not_before: (kind == OperationKind::RescheduleMessages).then(|| Instant(now())),
        before: asked.before.filter(|_| about.on == On::DeadLetter),
        expect_count: None,
        exact: false,
        trial: None,
        tenant: Some(target.tenant.clone()).filter(|tenant| !tenant.is_empty()),
        rate: None,
        reason: PLANNED.to_owned(),
        dry_run: false,
    })
}

/// What it would concern.
pub(super) async fn planned(app: &App, caller: &Caller, asked: &Asked) -> Result<DryRun, Problem> {
    operations::planned(app, caller, wanted(asked)?).await
}

/// Starts it, if no more match than were planned.
pub(super) async fn begin(app: &App, caller: &Caller, asked: &Asked, given: &Given) -> Result<Done, Problem> {
    let count: u64 = number("count", given)?.ok_or_else(|| Problem::invalid("the form has no count").at("count"))?;
    check_typed(asked, Some(count), given)?;
    let mut start = wanted(asked)?;
    given.text("reason").clone_into(&mut start.reason);
    start.rate = number("rate", given)?.map(|rate| u32::try_from(rate).unwrap_or(u32::MAX));
    match asked.act {
        Act::DeadReplay => start.trial = number("trial", given)?.map(|trial| u32::try_from(trial).unwrap_or(u32::MAX)),
        Act::MessageReschedule if given.is_set("at") => start.not_before = Some(instant("at", given.text("at"))?),
        Act::SagaRetry => {
            start.step = Some(given.text("step").to_owned()).filter(|step| !step.is_empty());
            start.mode = (given.text("mode") == "retry").then_some(RetryMode::Retry);
        }
        _ => {}
    }
    match asked.act.about().on {
        On::DeadLetter => start.expect_count = Some(count),
        // Of what isn't dead no set is frozen: it is counted anew.
        _ => {
            let found = operations::planned(app, caller, start.clone()).await?;
            let counted = Counted { value: found.matched, since: found.counted_since.map(|since| since.0) };
            if has_grown(count, &counted) {
                return Err(ServiceError::SetGrew { planned: count, matched: found.matched }.into());
            }
        }
    }
    let started = operations::started(app, caller, start).await?;
    Ok(Done::Operation(started.id))
}

/// A number of the form; none = it is left out.
fn number(field: &'static str, given: &Given) -> Result<Option<u64>, Problem> {
    let text = given.text(field).trim();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Problem::invalid(format!("{text:?} is no whole number")).at(field))
}

#[cfg(test)]
mod tests {
    use waybill_page::acts::{Reach, Target};

    use super::*;

    #[test]
    fn every_act_that_reaches_many_is_an_operation_and_no_other() {
        for act in Act::ALL {
            let is_of_many = matches!(act.about().reach, Reach::Any | Reach::Many);
            assert_eq!(kind(act).is_some(), is_of_many, "{act:?}");
        }
    }

    #[test]
    fn only_dead_letters_are_frozen() {
        let asked = |act, before| Asked { act, target: Target::matching("acme", "id=*"), before };
        let at = Some(Instant(now()));
        assert_eq!(wanted(&asked(Act::DeadPurge, at)).unwrap().before, at);
        assert_eq!(wanted(&asked(Act::SagaKill, at)).unwrap().before, None);
    }
}
