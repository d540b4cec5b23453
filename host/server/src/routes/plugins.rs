//! `/v1/plugins`.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use waybill_core::port::plugins::{PluginChange, PluginService, PluginUpload, PluginsError, PluginsView};

use super::ok;
use super::query::query;
use crate::app::App;
use crate::body;
use crate::caller::Caller;
use crate::codes;
use crate::json::plugins::{PluginChangedOut, PluginsOut, ReloadIn, RollbackIn};
use crate::limits::{COMPONENT_BYTES_MAX, NOTE_BYTES_MAX};
use crate::openapi::Problems;
use crate::problem::Problem;

/// Header of an upload that holds the component's signature.
const SIGNATURE: &str = "waybill-signature";

/// How a component is handed over.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct UploadQuery {
    /// Digest that the component must have.
    sha256: Option<String>,
    /// Take a component that was rolled back before, one whose peer can't be reached, and one that serves already.
    force: bool,
}

/// List plugins
///
/// The plugin of each transport with its generations: who serves, who would come back, what was refused and why. Paths and reasons are
/// for credentials of all tenants.
#[utoipa::path(get, path = "/v1/plugins", tag = "plugins", operation_id = "listPlugins",
    responses((status = 200, description = "The plugins.", body = PluginsOut), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    let view = match &app.plugins {
        Some(plugins) => plugins.plugins().await,
        None => PluginsView::default(),
    };
    let shown = PluginsOut::from(view);
    ok(&if caller.sees_all() { shown } else { shown.brief() })
}

/// Reload a transport's plugin
///
/// Reads its component from its source again, verifies and tries it beside the one that serves, and makes it live. What is under
/// way ends on the old one. A refusal changes nothing.
#[utoipa::path(post, path = "/v1/plugins/{name}/reload", tag = "plugins", operation_id = "reloadPlugin",
    params(("name" = String, Path, description = "Transport.")), request_body = ReloadIn,
    responses((status = 200, description = "The plugin as it stands.", body = PluginChangedOut), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn reload(
    State(app): State<App>,
    caller: Caller,
    Path(transport): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let asked: ReloadIn = body::json_or_default(&app, request).await?;
    let change = change(asked.sha256, asked.force)?;
    let done = plugins(&app, &transport)?.reload(&transport, change, caller.name()).await.map_err(refused)?;
    ok(&PluginChangedOut::from(done))
}

/// Roll a transport's plugin back
///
/// To the generation before, which is still loaded. The component that was live isn't used again unless forced.
#[utoipa::path(post, path = "/v1/plugins/{name}/rollback", tag = "plugins", operation_id = "rollBackPlugin",
    params(("name" = String, Path, description = "Transport.")), request_body = RollbackIn,
    responses((status = 200, description = "The plugin as it stands.", body = PluginChangedOut), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn roll_back(
    State(app): State<App>,
    caller: Caller,
    Path(transport): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let asked: RollbackIn = body::json_or_default(&app, request).await?;
    if asked.reason.len() > NOTE_BYTES_MAX {
        return Err(Problem::invalid(format!("the reason has more than {NOTE_BYTES_MAX} bytes")).at("reason"));
    }
    let done = plugins(&app, &transport)?.roll_back(&transport, &asked.reason, caller.name()).await.map_err(refused)?;
    ok(&PluginChangedOut::from(done))
}

/// Hand a component over
///
/// For a transport whose plugin is a file of the plugins folder: it is verified, tried, written there, and made live. Its
/// signature goes in the header `waybill-signature`: `ed25519 PUBLIC-KEY SIGNATURE`.
#[utoipa::path(put, path = "/v1/plugins/{name}/component", tag = "plugins", operation_id = "uploadPlugin",
    params(("name" = String, Path, description = "Transport."), UploadQuery),
    request_body(content = Vec<u8>, content_type = "application/wasm", description = "The component."),
    responses((status = 200, description = "The plugin as it stands.", body = PluginChangedOut), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn upload(
    State(app): State<App>,
    caller: Caller,
    Path(transport): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let asked: UploadQuery = query(request.uri())?;
    let signature = match request.headers().get(SIGNATURE).map(|value| value.to_str()) {
        None => None,
        Some(Ok(text)) => Some(text.to_owned()),
        Some(Err(_)) => return Err(Problem::invalid(format!("the header {SIGNATURE} isn't text"))),
    };
    let change = change(asked.sha256, asked.force)?;
    let plugins = plugins(&app, &transport)?;
    let received = body::component(&app, request, COMPONENT_BYTES_MAX).await?;
    let upload = PluginUpload { component: received.bytes, signature, change };
    let done = plugins.upload(&transport, upload, caller.name()).await.map_err(refused)?;
    drop(received.share);
    ok(&PluginChangedOut::from(done))
}

fn plugins<'a>(app: &'a App, transport: &str) -> Result<&'a Arc<dyn PluginService>, Problem> {
    app.plugins.as_ref().ok_or_else(|| Problem::not_found("transport", transport))
}

fn change(sha256: Option<String>, force: bool) -> Result<PluginChange, Problem> {
    if let Some(text) = &sha256 {
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Problem::invalid("sha256 takes 64 hex digits").at("sha256"));
        }
    }
    Ok(PluginChange { sha256, force })
}

fn refused(error: PluginsError) -> Problem {
    match codes::find(error.code()) {
        Some(_) => Problem::new(error.code(), error.to_string()),
        None => Problem::internal(format!("{}: {error}", error.code())),
    }
}
