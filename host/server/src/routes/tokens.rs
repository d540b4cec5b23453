//! `/v1/tokens`.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use waybill_api::list::List;
use waybill_api::tokens::{CreatedToken, NewToken, TokenView};
use waybill_core::code::Code;

use super::query::{NoQuery, query};
use super::{json, ok};
use crate::app::App;
use crate::body;
use crate::caller::Caller;
use crate::openapi::Problems;
use crate::problem::Problem;
use crate::tokens::StoredTokens;

/// List tokens
///
/// Configured ones and stored ones, by name: what each may do, not the tokens themselves.
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", operation_id = "listTokens",
    responses((status = 200, description = "All of them.", body = List<TokenView>), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn list(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let NoQuery {} = query(&uri)?;
    ok(&List::whole(tokens(&app)?.list()))
}

/// Make a token
///
/// It is in force at once, and this answer alone has it: the host keeps its hash. Nobody grants what they don't have.
#[utoipa::path(post, path = "/v1/tokens", tag = "tokens", operation_id = "createToken", request_body = NewToken,
    responses((status = 201, description = "The token.", body = CreatedToken), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn create(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: NewToken = body::json(&app, request).await?;
    let created = tokens(&app)?.create(asked, &caller.0).await?;
    json(StatusCode::CREATED, &created)
}

/// Revoke a token
///
/// It lets nobody in from then on; sessions of the page and subscriptions that began with it end. One of the configuration is taken out
/// there.
#[utoipa::path(delete, path = "/v1/tokens/{name}", tag = "tokens", operation_id = "revokeToken",
    params(("name" = String, Path, description = "The token's name.")),
    responses((status = 200, description = "What it was.", body = TokenView), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let NoQuery {} = query(&uri)?;
    ok(&tokens(&app)?.revoke(&name, &caller.0).await?)
}

fn tokens(app: &App) -> Result<&StoredTokens, Problem> {
    app.tokens.as_ref().ok_or_else(|| Problem::new(Code::HTTP_NOT_FOUND, "this host keeps no tokens"))
}
