//! `/v1/history` and `/v1/changes`: the last hour, and what changed.

use axum::extract::State;
use axum::response::Response;
use http::Uri;
use serde::Deserialize;
use utoipa::IntoParams;
use waybill_api::history::{ChangeView, Changed, ChangesAsked, HistoryView};
use waybill_core::history::Measure;
use waybill_core::time::UnixMillis;

use super::ok;
use super::query::{instant_of, page, query};
use crate::app::App;
use crate::caller::Caller;
use crate::openapi::Problems;
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryQuery {
    /// Only those of this name, e.g. `delivered`: of all, and of each transport.
    pub name: Option<String>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ChangesQuery {
    /// Not before this instant, in RFC 3339 with its offset, or the beginning of this day (UTC); from 1970 on. After the host's clock was
    /// set back, also what happened after a change of that instant.
    pub since: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// Show the last hour
///
/// A point every ten seconds of what was enqueued, delivered, retried and died, what waits and what is blocked, of sagas, of the inbox,
/// and of how far relays and sources are behind: of this host, as it counted and saw it. Nothing of it is read from the store.
#[utoipa::path(get, path = "/v1/history", tag = "system", operation_id = "showHistory", params(HistoryQuery),
    responses((status = 200, description = "The series.", body = HistoryView), Problems),
    extensions(("x-waybill-permission" = json!("metrics"))))]
pub(crate) async fn show(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let asked: HistoryQuery = query(&uri)?;
    let measure = asked.name.as_deref().map(|name| Measure::parse(name).ok_or_else(|| no_series(name))).transpose()?;
    ok(&app.service.history(measure).await?)
}

fn no_series(name: &str) -> Problem {
    let names = Measure::ALL.map(Measure::as_str).join(", ");
    Problem::invalid(format!("query parameter name: there is no series {name:?}; there are {names}")).at("name")
}

/// List what changed
///
/// Newest first: plugins swapped and rolled back, configurations, operations, pauses, breakers, transports that are held and flow again:
/// of this host, the latest 1,000 since it began. The audit trail has what people did for longer. A credential of some tenants sees
/// what is of its tenants, and of what is everybody's when it happened and to what.
#[utoipa::path(get, path = "/v1/changes", tag = "system", operation_id = "listChanges", params(ChangesQuery),
    responses((status = 200, description = "The changes.", body = Changed), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn changes(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: ChangesQuery = query(&uri)?;
    let since = instant_of(asked.since.as_deref(), "since")?;
    ok(&shown(&app, &caller, since, page(asked.limit)?).await?)
}

/// The changes as a caller may see them.
pub(crate) async fn shown(
    app: &App,
    caller: &Caller,
    since: Option<UnixMillis>,
    limit: usize,
) -> Result<Changed, Problem> {
    let asked = ChangesAsked { since, limit, tenants: caller.tenants(None)? };
    let mut found = app.service.changes(&asked).await?;
    if !caller.sees_all() {
        found.items.iter_mut().filter(|change| change.tenant.is_none()).for_each(brief);
    }
    Ok(found)
}

/// Without what may name the peers of others, and who works for them.
fn brief(change: &mut ChangeView) {
    change.actor = None;
    change.detail = None;
}
