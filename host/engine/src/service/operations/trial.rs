//! A few messages that a replay puts back first. It waits until their fates are known, and puts the rest back only when all of them are
//! delivered. The shards tell in memory that they counted fates: then the counts are read, and every few seconds.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::timeout;
use waybill_api::operations::OperationService;
use waybill_core::fates::{Trial, TrialState, TrialStep};
use waybill_core::port::service::ServiceError;
use waybill_core::port::transact::OperationState;

use super::run::{PAUSE, Progress};

/// Pauses after which a waiting trial reads the fates although nothing was told: some seconds.
const LOOKS_APART: u32 = 20;

/// Whether time was spent on waiting, in which what was read before may have changed.
pub(super) struct Waited(pub bool);

/// Goes on, or ends the operation with a state; with none the host drains. `is_last`: there is nothing more to put back.
pub(super) async fn checkpoint(
    progress: &mut Progress<'_>,
    stop: &AtomicBool,
    is_last: bool,
) -> Result<ControlFlow<Option<OperationState>, Waited>, ServiceError> {
    let Some(trial) = progress.operation.trial.filter(|trial| trial.state == TrialState::Running) else {
        return Ok(ControlFlow::Continue(Waited(false)));
    };
    let outbox = progress.outbox;
    let mut told = outbox.context.fates.subscribe();
    let mut has_waited = false;
    loop {
        let fates = outbox.fates(&progress.operation).await?;
        match trial.step(&fates, is_last) {
            TrialStep::GoOn(TrialState::Passed) => {
                progress.operation.trial = Some(Trial { state: TrialState::Passed, ..trial });
                progress.note().await?;
                return Ok(ControlFlow::Continue(Waited(has_waited)));
            }
            TrialStep::GoOn(_) => return Ok(ControlFlow::Continue(Waited(has_waited))),
            TrialStep::Stop(reason) => {
                progress.operation.trial = Some(Trial { state: TrialState::Failed, ..trial });
                progress.operation.error = Some(reason);
                return Ok(ControlFlow::Break(Some(OperationState::Failed)));
            }
            TrialStep::Wait => {}
        }
        if !has_waited {
            // A crash while it waits costs none of the numbers.
            progress.note().await?;
            has_waited = true;
        }
        // Fates that another host counted are told to nobody here.
        for _ in 0..LOOKS_APART {
            if stop.load(Ordering::Acquire) {
                return Ok(ControlFlow::Break(Some(OperationState::Cancelled)));
            }
            match outbox.context.closing.run_until_cancelled(timeout(PAUSE, told.changed())).await {
                None => return Ok(ControlFlow::Break(None)),
                Some(Ok(_)) => break,
                // Nothing was told: look whether it is to stop.
                Some(Err(_)) => {}
            }
        }
    }
}
