//! Checks what a guest answered and says what it means for its instance.

use waybill_bindings::inbound::inbound_types::Notices;
use waybill_core::code::Code;
use waybill_core::port::transport::{CallError, ErrorKind};

use super::crash::Crash;
use super::guest::Replied;
use super::work::Answer;
use crate::convert;
use crate::host::EndpointContext;
use crate::limits::NOTICES_MAX;

/// What is said of notices past [`NOTICES_MAX`].
const TOO_MANY_NOTICES: &str = "told of more groups or deliveries than it may at once";

/// What an answer means for the instance that gave it.
pub(super) enum AnswerKind {
    /// Work was answered: what a lane on trial has to show.
    Proved,
    Fine,
    /// A whole call failed, by the guest's own word.
    Failed(CallError),
    /// It broke the contract: it is dropped.
    Breach(Crash),
    Goodbye,
}

/// An answer for who waits, none for the host's own calls, and its kind. `function` and `size` are those of the work.
pub(super) fn classify(
    context: &EndpointContext,
    session: u64,
    function: &str,
    size: usize,
    replied: Replied,
) -> (Option<Result<Answer, CallError>>, AnswerKind) {
    let broken = |why: String| {
        let crash = Crash::new(ErrorKind::Contract, Code::PLUGIN_CONTRACT, why);
        (Some(Err(crash.call_error())), AnswerKind::Breach(crash))
    };
    let breach = |what: &str, count: usize| broken(format!("{function} answered {count} {what} for {size}"));
    let failed = |told| {
        let error = convert::call_error(context, told);
        (Some(Err(error.clone())), AnswerKind::Failed(error))
    };
    let proved = |answer| (Some(Ok(answer)), AnswerKind::Proved);
    match replied {
        Replied::Sent(Ok(outcomes)) if outcomes.len() == size => {
            proved(Answer::Outcomes(outcomes.into_iter().map(|outcome| convert::outcome(context, outcome)).collect()))
        }
        Replied::Sent(Ok(outcomes)) => breach("outcomes", outcomes.len()),
        Replied::Handled(Ok(verdicts)) if verdicts.len() == size => {
            let verdicts = verdicts.into_iter().map(|verdict| convert::handler::verdict(context, verdict)).collect();
            proved(Answer::Verdicts(verdicts))
        }
        Replied::Handled(Ok(verdicts)) => breach("verdicts", verdicts.len()),
        Replied::Pulled(Ok(pulled)) if too_many(&pulled.notices) => broken(format!("{function} {TOO_MANY_NOTICES}")),
        Replied::Noticed(Ok(notices)) if too_many(&notices) => broken(format!("{function} {TOO_MANY_NOTICES}")),
        Replied::Noticed(Ok(notices)) => {
            (Some(Ok(Answer::Noticed(convert::source::notices(context, notices)))), AnswerKind::Fine)
        }
        Replied::Pulled(Ok(pulled)) if pulled.deliveries.len() <= size => {
            proved(Answer::Pulled(convert::source::pulled(context, session, pulled)))
        }
        Replied::Pulled(Ok(pulled)) => breach("deliveries", pulled.deliveries.len()),
        Replied::Settled(Ok(settled)) if settled.len() == size => {
            let settled = settled.into_iter().map(|settled| convert::source::settled(context, settled)).collect();
            proved(Answer::Settled(settled))
        }
        Replied::Settled(Ok(settled)) => breach("results", settled.len()),
        Replied::Quiesced(Ok(())) => (Some(Ok(Answer::Quiesced)), AnswerKind::Fine),
        Replied::Claimed(Ok(claimed)) if claimed.rows.len() <= size => {
            proved(Answer::Claimed(convert::table::claimed(context, session, claimed)))
        }
        Replied::Claimed(Ok(claimed)) => breach("rows", claimed.rows.len()),
        Replied::Committed(Ok(ended)) => proved(Answer::Ended(convert::table::ended(context, ended))),
        Replied::Stats(Ok(stats)) if stats.len() <= size => {
            let stats = stats.into_iter().map(|stats| convert::table::stats(context, stats)).collect();
            (Some(Ok(Answer::Stats(stats))), AnswerKind::Fine)
        }
        Replied::Stats(Ok(stats)) => breach("contexts", stats.len()),
        Replied::Dead(Ok(page)) if page.rows.len() <= size => {
            (Some(Ok(Answer::Dead(convert::table::dead(context, page)))), AnswerKind::Fine)
        }
        Replied::Dead(Ok(page)) => breach("rows", page.rows.len()),
        Replied::Replayed(Ok(replayed)) if replayed.len() == size => {
            (Some(Ok(Answer::Replayed(replayed))), AnswerKind::Fine)
        }
        Replied::Replayed(Ok(replayed)) => breach("answers", replayed.len()),
        Replied::Executed(done) => proved(Answer::Executed(convert::step::done(context, done))),
        Replied::Compensated(done) => proved(Answer::Compensated(convert::step::undone(context, done))),
        Replied::Sent(Err(told))
        | Replied::Handled(Err(told))
        | Replied::Pulled(Err(told))
        | Replied::Settled(Err(told))
        | Replied::Quiesced(Err(told))
        | Replied::Claimed(Err(told))
        | Replied::Committed(Err(told))
        | Replied::Stats(Err(told))
        | Replied::Dead(Err(told))
        | Replied::Replayed(Err(told)) => failed(told),
        Replied::Health(report) => {
            (Some(Ok(Answer::Health(convert::health_report(context, report)))), AnswerKind::Fine)
        }
        Replied::Ticked(Ok(())) => (None, AnswerKind::Fine),
        Replied::Ticked(Err(told)) | Replied::Noticed(Err(told)) => {
            let error = convert::call_error(context, told);
            tracing::warn!(target: "waybill::plugin", transport = %context.name, code = %error.fault.code, reason = %error.fault.reason, "tick failed");
            (None, AnswerKind::Failed(error))
        }
        Replied::Closed => (None, AnswerKind::Goodbye),
    }
}

/// Whether notices name more than a guest may tell at once.
fn too_many(notices: &Notices) -> bool {
    notices.revoked.len() > NOTICES_MAX || notices.lost.len() > NOTICES_MAX
}
