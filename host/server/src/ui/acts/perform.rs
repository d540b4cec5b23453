//! An act on one, or on rows that were picked: by the API's own routes, so that both take and refuse the same.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::{Map, Value, json};
use waybill_api::instant::Instant;
use waybill_page::acts::{Act, Target};
use waybill_page::views::{Answer, Given};

use super::sent_forms::Done;
use super::{Asked, check_typed, instant, keyed, read, request};
use crate::app::App;
use crate::caller::{Caller, now};
use crate::problem::Problem;
use crate::routes::{
    configuration, dead_letters, idempotency, messages, operations, plugins, relays, saga_acts, sagas, sources,
    streams, transports,
};

/// Does it, and says what came of it.
pub(super) async fn perform(app: &App, caller: &Caller, asked: &Asked, given: &Given) -> Result<Done, Problem> {
    check_typed(asked, None, given)?;
    let (act, target) = (asked.act, &asked.target);
    let mut answer = Answer { act, target: target.clone(), at: Instant(now()), each: Vec::new(), is_unchanged: false };
    if target.picks.is_empty() {
        // What can't be read of the answer is done all the same.
        let said = read(one(app, caller, act, target, given).await?).await.unwrap_or_default();
        if act == Act::OperationCancel {
            return Ok(Done::Operation(target.id.clone()));
        }
        answer.is_unchanged = said.get("unchanged").and_then(Value::as_bool).unwrap_or(false);
        answer.at = Instant(now());
        return Ok(Done::Said(Arc::new(answer)));
    }
    // Lists come newest first: what died first is put back first.
    for pick in target.picks.iter().rev() {
        let (tenant, kind) = (pick.tenant.clone(), pick.kind.clone());
        let of_pick = Target { tenant, kind, ..Target::named(&pick.id) };
        let done = one(app, caller, act, &of_pick, given).await;
        answer.each.push((pick.id.clone(), done.err().map(|problem| refusal_text(&problem))));
    }
    Ok(Done::Said(Arc::new(answer)))
}

fn refusal_text(problem: &Problem) -> String {
    if let Some(cause) = &problem.cause {
        tracing::warn!(code = problem.code.as_str(), cause, "an act on a picked row failed");
    }
    format!("{}: {}", problem.code.as_str(), problem.detail)
}

/// A body's members; those without a value are left out.
fn members<const N: usize>(of: [(&str, &str); N]) -> Value {
    let given = of.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(given.map(|(name, value)| (name.to_owned(), Value::from(value))).collect::<Map<_, _>>())
}

/// Does it to one, as the API's route does.
async fn one(app: &App, caller: &Caller, act: Act, target: &Target, given: &Given) -> Result<Response, Problem> {
    let (state, by, id) = (State(Arc::clone(app)), caller.clone(), Path(target.id.clone()));
    let with = |body: Value| request(caller, target, body.to_string());
    let reason = given.text("reason");
    let because = || with(json!({ "reason": reason }));
    match act {
        Act::DeadReplay => dead_letters::replay(state, by, id, because()?).await,
        Act::DeadQuarantine => dead_letters::quarantine(state, by, id, with(json!({ "note": reason }))?).await,
        Act::DeadPurge => Err(Problem::invalid("a purge takes a filter")),
        Act::MessageCancel => messages::cancel(state, by, id, because()?).await,
        Act::MessageReschedule => {
            let at = if given.is_set("at") { instant("at", given.text("at"))? } else { Instant(now()) };
            let body = json!({ "not_before": at, "reason": reason });
            messages::reschedule(state, by, id, with(body)?).await
        }
        Act::TransportPause => transports::pause(state, by, id, because()?).await,
        Act::TransportResume => transports::resume(state, by, id, because()?).await,
        Act::TransportProbe => transports::probe(state, by, id).await,
        Act::PluginReload => plugins::reload(state, by, id, with(json!({ "force": given.is_set("force") }))?).await,
        Act::PluginRollback => plugins::roll_back(state, by, id, because()?).await,
        Act::SourcePause => sources::pause(state, by, id, because()?).await,
        Act::SourceResume => sources::resume(state, by, id, because()?).await,
        Act::RowsReplay => {
            let ids: Vec<&str> = given.text("rows").lines().map(str::trim).filter(|id| !id.is_empty()).collect();
            sources::replay(state, by, id, with(json!({ "ids": ids, "reason": reason }))?).await
        }
        Act::RelayPause => relays::pause(state, by, id, because()?).await,
        Act::RelayResume => relays::resume(state, by, id, because()?).await,
        Act::RelaySeek => {
            let text = |name| given.text(name).trim();
            let (stream, to, after) =
                (text("stream"), text("to"), if text("to").is_empty() { text("after") } else { "" });
            let body =
                [("stream", stream), ("tenant", &*target.tenant), ("to", to), ("after", after), ("reason", reason)];
            relays::seek(state, by, id, with(members(body))?).await
        }
        Act::StreamPurge => {
            let request = with(members([("before", given.text("below").trim()), ("reason", reason)]))?;
            streams::purge(state, by, id, request.uri().clone(), request).await
        }
        Act::KeyRelease => {
            let mut body = members([("key", &*target.id), ("tenant", &*target.tenant), ("reason", reason)]);
            if let Some(body) = body.as_object_mut() {
                body.insert("finished".to_owned(), given.is_set("finished").into());
            }
            idempotency::forget(state, by, with(body)?).await
        }
        Act::OperationCancel => operations::cancel(state, by, id).await,
        Act::ConfigurationReload => configuration::reload(state, by, with(json!({ "dry_run": false }))?).await,
        _ => saga(app, caller, act, target, given).await,
    }
}

/// Does it to a saga.
async fn saga(app: &App, caller: &Caller, act: Act, target: &Target, given: &Given) -> Result<Response, Problem> {
    let (state, by, id) = (State(Arc::clone(app)), caller.clone(), Path(target.id.clone()));
    let reason = given.text("reason");
    let step = given.text("step").trim();
    let with = |body: Value| request(caller, target, body.to_string());
    let because = || with(json!({ "reason": reason }));
    let of_step = || with(members([("step", step), ("reason", reason)]));
    match act {
        Act::SagaPause => saga_acts::pause(state, by, id, because()?).await,
        Act::SagaResume => saga_acts::resume(state, by, id, because()?).await,
        Act::SagaCancel => saga_acts::cancel(state, by, id, because()?).await,
        Act::SagaKill => saga_acts::kill(state, by, id, because()?).await,
        Act::SagaAccept => saga_acts::accept(state, by, id, because()?).await,
        Act::SagaRetry => {
            let body = members([("step", step), ("mode", given.text("mode")), ("reason", reason)]);
            saga_acts::retry(state, by, id, with(body)?).await
        }
        Act::SagaSkip => saga_acts::skip(state, by, id, of_step()?).await,
        Act::SagaApprove => saga_acts::approve(state, by, id, of_step()?).await,
        Act::SagaReject => saga_acts::reject(state, by, id, of_step()?).await,
        Act::SagaSignal => {
            // Browsers end a line with two bytes. In JSON that is between values only, and a bound counts it.
            let data = given.text("data").trim().replace("\r\n", "\n");
            let names = Path((target.id.clone(), given.text("signal").trim().to_owned()));
            sagas::signal(state, by, names, keyed(app, request(caller, target, data)?)?).await
        }
        _ => Err(Problem::internal(format_args!("{act:?} isn't done to one"))),
    }
}
