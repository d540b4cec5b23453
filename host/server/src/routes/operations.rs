//! `/v1/operations`: bulk acts on dead letters, on sagas and on messages.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, Uri, header};
use waybill_api::dead_letters::PlanAsk;
use waybill_api::instant::Instant;
use waybill_api::list::List;
use waybill_core::code::Code;
use waybill_core::fates::TRIAL_MAX;
use waybill_core::ids::Tenant;
use waybill_core::outbox::filter::Filter;
use waybill_core::port::dead::DeadKind;
use waybill_core::port::missing::Missing;
use waybill_core::port::service::{MessageState, OperationRequest, Planned};
use waybill_core::port::transact::Operation;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::limits::NOTE_BYTES_MAX as SAGA_NOTE_BYTES_MAX;

use super::dead_letters::note;
use super::query::{TailQuery, page, query};
use super::sagas::service;
use super::{json, ok};
use crate::app::App;
use crate::body;
use crate::caller::{Caller, now};
use crate::json::operations::{Concerned, DryRun, OperationOut};
use crate::json::requests::{Concern, OperationKind, StartOperation};
use crate::json::saga_requests::name;
use crate::limits::{NOTE_BYTES_MAX, OPERATION_RATE_MAX, SAMPLE_MAX};
use crate::openapi::Problems;
use crate::problem::Problem;

/// Start a bulk act
///
/// On the dead letters that match now, of all kinds; of sagas among them the failed compensation is tried again, and received
/// messages are stored for their consumers again, events sent through their relays. A dry run is its plan: with `before` and, as
/// `expect_count`, what it `matched`, exactly that is done, or nothing if more match. A replay with a `trial` puts a few messages back first,
/// and the rest when these are delivered. A purge takes messages only, with `kind=inbox` received
/// ones, or with `kind=event` events. Or on the sagas that match now and haven't ended, or on the messages that match now and wait. It goes on after a crash, keeps the order of each key, and
/// can be cancelled.
#[utoipa::path(post, path = "/v1/operations", tag = "operations", operation_id = "startOperation", request_body = StartOperation,
    responses(
        (status = 202, description = "Started; `location` is its address.", body = OperationOut, headers(("location" = String))),
        (status = 200, description = "Dry run: the count and a sample; nothing was changed.", body = DryRun),
        Problems,
    ),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn start(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: StartOperation = body::json(&app, request).await?;
    if asked.dry_run {
        return ok(&planned(&app, &caller, asked).await?);
    }
    let started = OperationOut::from(started(&app, &caller, asked).await?);
    let mut response = json(StatusCode::ACCEPTED, &started)?;
    let location = HeaderValue::from_str(&format!("/v1/operations/{}", started.id)).map_err(Problem::internal)?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

/// What a bulk act would concern.
pub(crate) async fn planned(app: &App, caller: &Caller, asked: StartOperation) -> Result<DryRun, Problem> {
    check(&asked)?;
    if asked.kind.concern() == Concern::Sagas {
        service(app)?;
        let (filter, _) = caller.sagas(asked.tenant.as_deref(), &asked.filter)?;
        return dry_run_of_sagas(app, filter).await;
    }
    let tenant = caller.scope(asked.tenant.as_deref(), &asked.filter)?;
    let filter = effective_filter(&asked)?;
    if asked.kind.concern() == Concern::Messages {
        let moved_to = asked.not_before.map(|at| at.0);
        let found = app.service.waiting_messages(tenant.as_ref(), &filter, moved_to, SAMPLE_MAX).await?;
        let sample = found.sample.into_iter().map(|message| Concerned::Message(Box::new(message))).collect();
        let counted_since = found.counted_since.map(Instant);
        return Ok(DryRun { counted_since, ..DryRun::counted(found.matched, sample) });
    }
    let ask = PlanAsk {
        filter: &filter,
        spares_quarantined: asked.kind != OperationKind::Purge,
        before: asked.before.map(|before| before.0),
        exact: asked.exact,
        sample: SAMPLE_MAX,
    };
    let planned = app.service.plan_dead(tenant.as_ref(), ask).await?;
    Ok(DryRun::planned(planned, asked.exact, tenant.as_ref()))
}

/// Starts a bulk act.
pub(crate) async fn started(app: &App, caller: &Caller, asked: StartOperation) -> Result<Operation, Problem> {
    check(&asked)?;
    match asked.kind.concern() {
        Concern::Sagas => {
            // Refused here where nobody would act.
            service(app)?;
            let (_, tenant) = caller.sagas(asked.tenant.as_deref(), &asked.filter)?;
            begin(app, caller, asked, tenant).await
        }
        Concern::DeadLetters | Concern::Messages => {
            let tenant = caller.scope(asked.tenant.as_deref(), &asked.filter)?;
            let filter = effective_filter(&asked)?;
            begin(app, caller, StartOperation { filter, ..asked }, tenant).await
        }
    }
}

/// None = the filter takes nothing of the caller's.
async fn dry_run_of_sagas(app: &App, filter: Option<SagaFilter>) -> Result<DryRun, Problem> {
    let (mut matched, mut sample) = (0, Vec::new());
    if let Some(filter) = filter {
        let (sagas, filter) = (service(app)?, SagaFilter { is_open: true, ..filter });
        matched = sagas.count(&filter).await?;
        let found = sagas.sagas(&filter, None, SAMPLE_MAX).await?;
        sample.extend(found.items.into_iter().map(|saga| Concerned::Saga(Box::new(saga.into()))));
    }
    Ok(DryRun::counted(matched, sample))
}

async fn begin(
    app: &App,
    caller: &Caller,
    asked: StartOperation,
    tenant: Option<Tenant>,
) -> Result<Operation, Problem> {
    let request = OperationRequest {
        kind: asked.kind.as_str().to_owned(),
        filter: asked.filter,
        step: asked.step,
        mode: asked.mode,
        not_before: asked.not_before.map(|at| at.0),
        planned: Planned {
            before: asked.before.map(|before| before.0),
            expect_count: asked.expect_count,
            exact: asked.exact,
            trial: asked.trial,
        },
        tenant,
        rate: asked.rate,
        reason: asked.reason,
        actor: caller.name().to_owned(),
    };
    Ok(app.service.start_operation(request).await?)
}

/// List bulk acts
///
/// Newest first.
#[utoipa::path(get, path = "/v1/operations", tag = "operations", operation_id = "listOperations", params(TailQuery),
    responses((status = 200, description = "The latest.", body = List<OperationOut>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: TailQuery = query(&uri)?;
    let limit = page(asked.limit)?;
    let tenant = caller.scope(asked.tenant.as_deref(), "")?;
    let found = app.service.operations(tenant.as_ref(), limit).await?;
    ok(&List::whole(found.into_iter().map(OperationOut::from).collect()))
}

/// Show a bulk act
///
/// How far it got: what matched, what was done, and what failed with which code. Of a replay also what became of what it put back.
#[utoipa::path(get, path = "/v1/operations/{id}", tag = "operations", operation_id = "showOperation",
    params(("id" = String, Path, description = "Operation id.")),
    responses((status = 200, description = "How it stands.", body = OperationOut), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn show(State(app): State<App>, caller: Caller, Path(id): Path<String>) -> Result<Response, Problem> {
    shown(&app, visible(&app, &caller, &id).await?).await
}

/// Stop a bulk act
///
/// What is done stays done.
#[utoipa::path(post, path = "/v1/operations/{id}/cancel", tag = "operations", operation_id = "cancelOperation",
    params(("id" = String, Path, description = "Operation id.")),
    responses((status = 200, description = "How it ended.", body = OperationOut), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    visible(&app, &caller, &id).await?;
    shown(&app, app.service.cancel_operation(&id, caller.name()).await?).await
}

/// With what became of what it put back.
async fn shown(app: &App, operation: Operation) -> Result<Response, Problem> {
    let fates = app.service.fates(&operation).await?;
    ok(&OperationOut::with_fates(operation, fates))
}

/// An operation of the caller's tenants; another doesn't exist for the caller.
pub(crate) async fn visible(app: &App, caller: &Caller, id: &str) -> Result<Operation, Problem> {
    let operation = app.service.operation(id).await?;
    if caller.sees(operation.tenant.as_deref()) {
        Ok(operation)
    } else {
        Err(Problem::not_found(Missing::Operation, id))
    }
}

fn check(asked: &StartOperation) -> Result<(), Problem> {
    note(
        "reason",
        &asked.reason,
        if asked.kind.concern() == Concern::Sagas { SAGA_NOTE_BYTES_MAX } else { NOTE_BYTES_MAX },
    )?;
    if asked.filter.trim().is_empty() {
        let what = match asked.kind.concern() {
            Concern::DeadLetters => "dead letter",
            Concern::Sagas => "saga",
            Concern::Messages => "message",
        };
        return Err(Problem::invalid(format!("filter is empty: to take every {what}, write \"id=*\"")).at("filter"));
    }
    if asked.kind != OperationKind::Retry && (asked.step.is_some() || asked.mode.is_some()) {
        let field = if asked.step.is_some() { "step" } else { "mode" };
        return Err(Problem::invalid(format!("{field} is for kind \"retry\": leave it out")).at(field));
    }
    if (asked.kind == OperationKind::RescheduleMessages) != asked.not_before.is_some() {
        let text = "not_before goes with kind \"reschedule_messages\", and only with it: it says when the messages go";
        return Err(Problem::invalid(text).at("not_before"));
    }
    check_plan(asked)?;
    asked.step.as_deref().map_or(Ok(()), |step| name("step", step))?;
    if asked.kind == OperationKind::Accept && asked.reason.trim().is_empty() {
        return Err(Problem::invalid("reason is empty: say why it is all right as it is").at("reason"));
    }
    if asked.kind == OperationKind::Quarantine && asked.reason.trim().is_empty() {
        return Err(
            Problem::invalid("reason is empty: it becomes the note of the quarantined dead letters").at("reason")
        );
    }
    if asked.rate.is_some_and(|rate| !(1..=OPERATION_RATE_MAX).contains(&rate)) {
        return Err(Problem::invalid(format!("rate is in acts a second: take 1 to {OPERATION_RATE_MAX}")).at("rate"));
    }
    Ok(())
}

/// What goes with acts on dead letters only.
fn check_plan(asked: &StartOperation) -> Result<(), Problem> {
    let of_plan =
        [("before", asked.before.is_some()), ("expect_count", asked.expect_count.is_some()), ("exact", asked.exact)];
    if asked.kind.concern() != Concern::DeadLetters
        && let Some((field, _)) = of_plan.into_iter().find(|(_, is_given)| *is_given)
    {
        return Err(Problem::invalid(format!("{field} is for acts on dead letters: leave it out")).at(field));
    }
    if asked.expect_count.is_some() && asked.before.is_none() {
        return Err(Problem::invalid(NO_INSTANT).at("expect_count"));
    }
    let Some(trial) = asked.trial else { return Ok(()) };
    if asked.kind != OperationKind::Replay {
        return Err(Problem::invalid("trial is for kind \"replay\": leave it out").at("trial"));
    }
    if !(1..=TRIAL_MAX).contains(&trial) {
        return Err(
            Problem::invalid(format!("trial is how many are put back first: take 1 to {TRIAL_MAX}")).at("trial")
        );
    }
    Ok(())
}

/// Why a number alone is no plan.
const NO_INSTANT: &str = "expect_count is how many died until an instant, and before is missing: send the plan's before with it, so that \
                          what was counted is what is taken";
/// Why a trial takes messages only.
const NO_TRIAL: &str = "a trial waits until messages are delivered, and the filter takes no messages: leave trial out, and replay one of \
                        them by its id first";
/// Why a purge leaves stuck sagas alone.
const NO_PURGE: &str = "stuck sagas aren't purged: what they did would stay done and nobody would know; end them with a \
                        reason (POST /v1/sagas/{id}/accept, `waybill saga accept --filter`)";

/// The filter with what the kind implies: quarantined dead letters are replayed by their id only (`semantics.md` §2), and of messages
/// only those that wait can be acted on.
fn effective_filter(asked: &StartOperation) -> Result<String, Problem> {
    let filter = of_kind(asked.kind, &asked.filter)?;
    if asked.trial.is_none() {
        return Ok(filter);
    }
    let parsed = Filter::parse(&filter, now()).map_err(|error| Problem::invalid(error.to_string()).at("filter"))?;
    match parsed.may_take(DeadKind::Message) {
        true => Ok(format!("{filter} kind={}", DeadKind::Message.word())),
        false => Err(Problem::new(Code::DEAD_KIND, NO_TRIAL).at("filter")),
    }
}

/// The filter with what the kind alone implies.
fn of_kind(kind: OperationKind, filter: &str) -> Result<String, Problem> {
    let parsed = Filter::parse(filter, now()).map_err(|error| Problem::invalid(error.to_string()).at("filter"))?;
    if kind.concern() == Concern::Messages {
        if parsed.state.as_ref().is_some_and(|state| !state.matches(MessageState::Pending.word())) {
            let text = "only messages that wait can be acted on: leave out state=, or write state=pending";
            return Err(Problem::invalid(text).at("filter"));
        }
        return Ok(format!("{filter} state=pending"));
    }
    if kind == OperationKind::Purge {
        // Received ones and events are purged where nothing else is meant.
        let kinds = [DeadKind::Message, DeadKind::Inbox, DeadKind::Event];
        let kind = kinds.into_iter().find(|kind| parsed.may_take(*kind));
        let kind = kind.ok_or_else(|| Problem::new(Code::DEAD_KIND, NO_PURGE).at("filter"))?;
        return Ok(format!("{filter} kind={}", kind.word()));
    }
    match parsed.state.as_ref().map(|glob| glob.exact()) {
        None => Ok(format!("{filter} state=dead")),
        Some(Some("dead")) => Ok(filter.to_owned()),
        Some(_) => Err(Problem::invalid(format!(
            "a bulk {} takes dead letters that aren't quarantined: leave out state=, and act on quarantined ones by their id",
            kind.as_str()
        ))
        .at("filter")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bulk_replay_leaves_quarantined_ones_alone() {
        let of = |kind, filter| of_kind(kind, filter).map_err(|problem| problem.code.status());
        assert_eq!(of(OperationKind::Replay, "code=HTTP.*"), Ok("code=HTTP.* state=dead".into()));
        assert_eq!(of(OperationKind::Replay, "state=failed"), Ok("state=failed".into()));
        assert_eq!(of(OperationKind::Replay, "state=quarantined"), Err(400));
        assert_eq!(of(OperationKind::Quarantine, "state=*"), Err(400));
        assert_eq!(of(OperationKind::Purge, "state=quarantined"), Ok("state=quarantined kind=message".into()));
    }

    #[test]
    fn an_act_on_messages_takes_those_that_wait() {
        let of = |filter| of_kind(OperationKind::CancelMessages, filter).map_err(|problem| problem.code.status());
        assert_eq!(of("topic=bus:x waits=schedule"), Ok("topic=bus:x waits=schedule state=pending".into()));
        assert_eq!(of("state=pend*"), Ok("state=pend* state=pending".into()));
        assert_eq!(of("state=done"), Err(400));
        assert_eq!(of("state=scheduled"), Err(400));
    }

    #[test]
    fn a_trial_takes_messages_only() {
        let of = |filter: &str| {
            let asked = serde_json::json!({ "kind": "replay", "filter": filter, "trial": 5 });
            let asked: StartOperation = serde_json::from_value(asked).unwrap();
            effective_filter(&asked).map_err(|problem| problem.code.as_str())
        };
        assert_eq!(of("code=HTTP.*"), Ok("code=HTTP.* state=dead kind=message".into()));
        assert_eq!(of("kind=*"), Ok("kind=* state=dead kind=message".into()));
        for filter in ["kind=saga", "consumer=ship", "relay=bus"] {
            assert_eq!(of(filter), Err("DEAD.KIND"), "{filter}");
        }
    }

    #[test]
    fn a_purge_takes_one_kind_and_no_sagas() {
        let of = |filter| of_kind(OperationKind::Purge, filter).map_err(|problem| problem.code.as_str());
        assert_eq!(of("id=* kind=*"), Ok("id=* kind=* kind=message".into()));
        assert_eq!(of("kind=inbox"), Ok("kind=inbox kind=inbox".into()));
        assert_eq!(of("consumer=ship"), Ok("consumer=ship kind=inbox".into()));
        assert_eq!(of("relay=bus"), Ok("relay=bus kind=event".into()));
        assert_eq!(of("kind=saga"), Err("DEAD.KIND"));
        assert_eq!(of("definition=order"), Err("DEAD.KIND"));
    }
}
