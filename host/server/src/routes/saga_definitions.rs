//! `/v1/saga-definitions`.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, Uri, header};
use serde::Deserialize;
use utoipa::IntoParams;
use waybill_api::list::List;
use waybill_api::saga_definitions::{DefinitionView, SagaDefined};
use waybill_core::port::saga::{Define, DefinitionFormat};
use waybill_core::saga::limits::DEFINITION_BYTES_MAX;

use super::query::{Cursors, page, query};
use super::sagas::service;
use super::{json, ok};
use crate::app::App;
use crate::body::{self, Media, Received};
use crate::caller::Caller;
use crate::json::decode;
use crate::json::saga_requests::switch;
use crate::openapi::Problems;
use crate::problem::Problem;

/// Whether to store it.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DefineQuery {
    /// Check only, and say what would happen: `?dry_run`, or `?dry_run=true`.
    #[serde(default, deserialize_with = "switch")]
    dry_run: bool,
    /// For a check: sub-sagas that would be defined before it, as `name@version`, separated by commas.
    #[serde(default)]
    given: String,
}

/// Reads definitions as `name@version`, separated by commas.
fn given(text: &str) -> Result<Vec<(String, u32)>, Problem> {
    let one = |one: &str| {
        let (name, version) = one.split_once('@')?;
        Some((name.to_owned(), version.parse().ok().filter(|version| *version > 0)?))
    };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let read = |part: &str| {
        let why = || Problem::invalid(format!("{part:?} isn't a definition: write name@version")).at("given");
        one(part).ok_or_else(why)
    };
    parts.map(read).collect()
}

/// Query of the list of definitions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DefinitionsQuery {
    /// Only the versions of this one.
    name: Option<String>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Query of the route that shows one definition.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct VersionQuery {
    /// The latest if absent.
    #[param(minimum = 1)]
    version: Option<u32>,
}

/// Define a saga
///
/// As JSON or TOML, by content type. A version never changes: the same definition again is answered with `created: false`, another
/// one under the same version is refused. Running sagas stay on the version they began with; those on other versions are listed.
#[utoipa::path(post, path = "/v1/saga-definitions", tag = "sagas", operation_id = "defineSaga", params(DefineQuery),
    request_body(description = "The definition, at most 256 KiB; `docs/sagas.md` describes every field.", content(
        (serde_json::Value = "application/json", example = json!({
            "name": "order", "version": 1, "steps": [
                {"name": "reserve", "action": "fn:orders/reserve", "compensation": "fn:orders/reserve"},
                {"name": "charge", "action": "https://pay.example/charges", "compensation": "https://pay.example/refunds",
                    "input": {"order": "${ input.order }", "total": "${ steps.reserve.output.total }"},
                    "retry": {"max_attempts": 4}},
            ],
        })),
        (String = "application/toml", example = "name = \"order\"\nversion = 1\n\n[[steps]]\nname = \"reserve\"\naction = \"fn:orders/reserve\"\ncompensation = \"fn:orders/reserve\"\n"),
    )),
    responses(
        (status = 201, description = "Stored; `location` is its address.", body = SagaDefined, headers(("location" = String))),
        (status = 200, description = "It was there already, or a dry run: nothing was stored.", body = SagaDefined),
        Problems,
    ),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn define(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: DefineQuery = query(request.uri())?;
    let Received { bytes, media, share } = body::definition(&app, request, DEFINITION_BYTES_MAX).await?;
    let format = if media == Some(Media::Toml) { DefinitionFormat::Toml } else { DefinitionFormat::Json };
    let text = decode::utf8(&bytes)?.to_owned();
    let given = given(&asked.given)?;
    let define = Define { text, format, dry_run: asked.dry_run, given, actor: caller.name().to_owned() };
    let done = SagaDefined::from(service(&app)?.define(define).await?);
    drop(share);
    if !done.created || done.dry_run {
        return ok(&done);
    }
    let mut response = json(StatusCode::CREATED, &done)?;
    let address = format!("/v1/saga-definitions/{}?version={}", done.name, done.version);
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&address).map_err(Problem::internal)?);
    Ok(response)
}

/// List saga definitions
///
/// Every version, without the documents.
#[utoipa::path(get, path = "/v1/saga-definitions", tag = "sagas", operation_id = "listSagaDefinitions", params(DefinitionsQuery),
    responses((status = 200, description = "A page, by name and falling version.", body = List<DefinitionView>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let asked: DefinitionsQuery = query(&uri)?;
    let limit = page(asked.limit)?;
    let cursors = Cursors::of("saga-definitions", None, asked.name.as_deref().unwrap_or(""));
    let inner = cursors.read(asked.cursor.as_deref())?;
    let found = service(&app)?.definitions(asked.name.as_deref(), inner.as_deref(), limit).await?;
    let items = found.items.into_iter().map(DefinitionView::from).collect();
    ok(&List { next_cursor: cursors.write(found.next_cursor), ..List::whole(items) })
}

/// Show a saga definition
///
/// The document, for credentials of all tenants: definitions are the host's, and their addresses may be secret. For others the names of
/// its steps.
#[utoipa::path(get, path = "/v1/saga-definitions/{name}", tag = "sagas", operation_id = "showSagaDefinition",
    params(("name" = String, Path, description = "Name of the definition."), VersionQuery),
    responses((status = 200, description = "The definition with its document.", body = DefinitionView), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let asked: VersionQuery = query(&uri)?;
    let found = service(&app)?.definition(&name, asked.version).await?;
    ok(&if caller.sees_all() { found } else { brief(found)? })
}

/// For who may know that it is there and what it does, and not how.
fn brief(mut shown: DefinitionView) -> Result<DefinitionView, Problem> {
    if let Some(document) = shown.document.take() {
        let document: Named = serde_json::from_str(document.get()).map_err(Problem::internal)?;
        shown.steps = Some(document.steps.into_iter().map(|step| step.name).collect());
    }
    Ok(shown)
}

/// What is read of a definition for [`brief`].
#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    steps: Vec<NamedStep>,
}

#[derive(Deserialize)]
struct NamedStep {
    name: String,
}
