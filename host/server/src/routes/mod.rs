//! The routes, one file a family. Each handler decodes, asks the service, and encodes; it decides nothing else.

pub(crate) mod approvals;
mod backup;
pub(crate) mod configuration;
pub(crate) mod dead_letters;
pub(crate) mod history;
pub(crate) mod idempotency;
pub(crate) mod inbox;
pub(crate) mod messages;
pub(crate) mod operations;
pub(crate) mod outbox;
pub(crate) mod plugins;
mod quarantine;
pub(crate) mod query;
pub(crate) mod relays;
mod requested_message;
pub(crate) mod saga_acts;
mod saga_definitions;
pub(crate) mod sagas;
pub(crate) mod sources;
mod stream_stats;
pub(crate) mod streams;
mod subscribe;
pub(crate) mod system;
mod tokens;
mod transactions;
pub(crate) mod transports;
mod workers;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::openapi;
use crate::problem::Problem;

/// Every route with its documentation.
pub(crate) fn all() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(messages::list, messages::enqueue))
        .routes(routes!(messages::facets))
        .routes(routes!(messages::show))
        .routes(routes!(messages::neighbours))
        .routes(routes!(messages::cancel))
        .routes(routes!(messages::reschedule))
        .routes(routes!(transactions::transact))
        .routes(routes!(outbox::stats))
        .routes(routes!(outbox::blocked))
        .routes(routes!(workers::claim))
        .routes(routes!(workers::settle))
        .routes(routes!(workers::check_dedup))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::groups))
        .routes(routes!(dead_letters::facets))
        .routes(routes!(dead_letters::show))
        .routes(routes!(dead_letters::replay))
        .routes(routes!(dead_letters::quarantine))
        .routes(routes!(dead_letters::edit))
        .routes(routes!(idempotency::show))
        .routes(routes!(idempotency::begin))
        .routes(routes!(idempotency::finish))
        .routes(routes!(idempotency::fail))
        .routes(routes!(idempotency::release))
        .routes(routes!(idempotency::renew))
        .routes(routes!(idempotency::forget))
        .routes(routes!(quarantine::list))
        .routes(routes!(quarantine::show))
        .routes(routes!(quarantine::restore))
        .routes(routes!(quarantine::drop_row))
        .routes(routes!(operations::list, operations::start))
        .routes(routes!(operations::show))
        .routes(routes!(operations::cancel))
        .routes(routes!(saga_definitions::list, saga_definitions::define))
        .routes(routes!(saga_definitions::show))
        .routes(routes!(sagas::list, sagas::start))
        .routes(routes!(sagas::show))
        .routes(routes!(sagas::signal))
        .routes(routes!(sagas::reply))
        .routes(routes!(saga_acts::pause))
        .routes(routes!(saga_acts::resume))
        .routes(routes!(saga_acts::cancel))
        .routes(routes!(saga_acts::kill))
        .routes(routes!(saga_acts::retry))
        .routes(routes!(saga_acts::skip))
        .routes(routes!(saga_acts::approve))
        .routes(routes!(saga_acts::reject))
        .routes(routes!(saga_acts::accept))
        .routes(routes!(approvals::links))
        .routes(routes!(approvals::show, approvals::decide))
        .routes(routes!(transports::list))
        .routes(routes!(transports::pause))
        .routes(routes!(transports::resume))
        .routes(routes!(transports::probe))
        .routes(routes!(transports::provision))
        .routes(routes!(inbox::list))
        .routes(routes!(inbox::stats))
        .routes(routes!(inbox::show))
        .routes(routes!(sources::list))
        .routes(routes!(sources::pause))
        .routes(routes!(sources::resume))
        .routes(routes!(sources::provision))
        .routes(routes!(sources::failed))
        .routes(routes!(sources::replay))
        .routes(routes!(streams::list))
        .routes(routes!(streams::show, streams::delete))
        .routes(routes!(streams::read, streams::append))
        .routes(routes!(streams::import))
        .routes(routes!(streams::purge))
        .routes(routes!(streams::scan))
        .routes(routes!(stream_stats::stats))
        .routes(routes!(subscribe::subscribe))
        .routes(routes!(subscribe::ticket))
        .routes(routes!(relays::list))
        .routes(routes!(relays::show))
        .routes(routes!(relays::overtaken))
        .routes(routes!(relays::pause))
        .routes(routes!(relays::resume))
        .routes(routes!(relays::seek))
        .routes(routes!(backup::back_up))
        .routes(routes!(configuration::show))
        .routes(routes!(configuration::reload))
        .routes(routes!(plugins::list))
        .routes(routes!(plugins::show))
        .routes(routes!(plugins::reload))
        .routes(routes!(plugins::roll_back))
        .routes(routes!(plugins::upload))
        .routes(routes!(plugins::log))
        .routes(routes!(history::show))
        .routes(routes!(history::changes))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(system::audit))
        .routes(routes!(system::whoami))
        .routes(routes!(system::welcome))
        .routes(routes!(system::livez))
        .routes(routes!(system::readyz))
        .routes(routes!(system::metrics))
        .routes(routes!(system::openapi))
        .routes(routes!(system::error_page))
}

/// An answer as JSON.
fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Response, Problem> {
    let bytes = serde_json::to_vec(value).map_err(Problem::internal)?;
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// An answer of status 200 as JSON.
fn ok<T: Serialize>(value: &T) -> Result<Response, Problem> {
    json(StatusCode::OK, value)
}
