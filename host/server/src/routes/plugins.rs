//! `/v1/plugins`.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use waybill_api::plugin_outcomes::PluginShown;
use waybill_api::plugins::{
    PluginChanged, PluginLog, PluginLogAsked, PluginReload, PluginRollback, PluginService, PluginUpload, Plugins,
    TransportPlugin,
};
use waybill_core::port::missing::Missing;
use waybill_core::port::plugins::PluginsError;

use super::query::query;
use super::{ok, workers};
use crate::app::App;
use crate::body;
use crate::caller::Caller;
use crate::limits::{COMPONENT_BYTES_MAX, LOG_WAIT_MAX, NOTE_BYTES_MAX, PAGE_DEFAULT, PAGE_MAX};
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
    /// Take a component that was rolled back before, one whose peer can't be reached, one that serves already, and one that lacks a step
    /// which running sagas may still call.
    force: bool,
}

/// Which lines of a log.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogQuery {
    /// Those behind this number; 0 = all that are kept.
    after: u64,
    /// Most lines, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Answer when there is a line, or after so many milliseconds.
    #[param(minimum = 0, maximum = 20000)]
    wait_ms: u64,
}

/// List plugins
///
/// Each plugin with its generations: who serves, who would come back, what was refused and why. Paths and reasons are
/// for credentials of all tenants.
#[utoipa::path(get, path = "/v1/plugins", tag = "plugins", operation_id = "listPlugins",
    responses((status = 200, description = "The plugins.", body = Plugins), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    ok(&shown(&app, &caller).await)
}

/// The plugins as a caller may see them.
pub(crate) async fn shown(app: &App, caller: &Caller) -> Plugins {
    let shown = match &app.plugins {
        Some(plugins) => plugins.plugins().await,
        None => Plugins::default(),
    };
    if caller.sees_all() { shown } else { brief(shown) }
}

/// Show a plugin
///
/// With what each generation did since it serves, this one beside the one before: delivered, refused, tried again, instances lost, how
/// long calls took. It is counted in memory since this host runs.
#[utoipa::path(get, path = "/v1/plugins/{name}", tag = "plugins", operation_id = "showPlugin",
    params(("name" = String, Path, description = "Transport, or `handler.CONSUMER`, `participant.NAME`, `source.NAME`, `outbox.backoff`.")),
    responses((status = 200, description = "The plugin.", body = PluginShown), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    ok(&shown_one(&app, &caller, &name).await?)
}

/// One plugin, as far as the caller may see it.
pub(crate) async fn shown_one(app: &App, caller: &Caller, name: &str) -> Result<PluginShown, Problem> {
    let shown = plugins(app, name)?.plugin(name).await.map_err(refused)?;
    if caller.sees_all() {
        return Ok(shown);
    }
    let mut plugin = shown.plugin;
    conceal(&mut plugin);
    Ok(PluginShown { plugin, outcomes: Vec::new() })
}

/// Without what tells of the host itself: paths, and sentences that may quote them.
fn brief(mut plugins: Plugins) -> Plugins {
    plugins.refused_files.clear();
    plugins.items.iter_mut().for_each(conceal);
    plugins
}

/// The same of one.
fn conceal(plugin: &mut TransportPlugin) {
    if !plugin.source.starts_with("bundled:") {
        "file".clone_into(&mut plugin.source);
    }
    plugin.fallback = None;
    let bad = plugin.bad.iter_mut().map(|bad| &mut bad.reason);
    bad.for_each(String::clear);
    let generations =
        [Some(&mut plugin.live), plugin.previous.as_mut(), plugin.refused.as_mut(), plugin.rolled_back.as_mut()];
    for generation in generations.into_iter().flatten().chain(&mut plugin.history) {
        generation.reason = None;
    }
}

/// Reload a plugin
///
/// Reads its component from its source again, verifies and tries it beside the one that serves, and makes it live. What is under
/// way ends on the old one. A refusal changes nothing.
#[utoipa::path(post, path = "/v1/plugins/{name}/reload", tag = "plugins", operation_id = "reloadPlugin",
    params(("name" = String, Path, description = "Transport, or `handler.CONSUMER`, `participant.NAME`, `source.NAME`, `outbox.backoff`.")), request_body = Option<PluginReload>,
    responses((status = 200, description = "The plugin as it stands.", body = PluginChanged), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn reload(
    State(app): State<App>,
    caller: Caller,
    Path(transport): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let asked: PluginReload = body::json_or_default(&app, request).await?;
    check(&asked)?;
    let done = plugins(&app, &transport)?.reload(&transport, asked, caller.name()).await.map_err(refused)?;
    ok(&done)
}

/// Roll a plugin back
///
/// To the generation before, which is still loaded. The component that was live isn't used again unless forced.
#[utoipa::path(post, path = "/v1/plugins/{name}/rollback", tag = "plugins", operation_id = "rollBackPlugin",
    params(("name" = String, Path, description = "Transport, or `handler.CONSUMER`, `participant.NAME`, `source.NAME`, `outbox.backoff`.")), request_body = Option<PluginRollback>,
    responses((status = 200, description = "The plugin as it stands.", body = PluginChanged), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn roll_back(
    State(app): State<App>,
    caller: Caller,
    Path(transport): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let asked: PluginRollback = body::json_or_default(&app, request).await?;
    if asked.reason.len() > NOTE_BYTES_MAX {
        return Err(Problem::invalid(format!("the reason has more than {NOTE_BYTES_MAX} bytes")).at("reason"));
    }
    let done = plugins(&app, &transport)?.roll_back(&transport, &asked.reason, caller.name()).await.map_err(refused)?;
    ok(&done)
}

/// Hand a component over
///
/// For a plugin that is a file of the plugins folder: it is verified, tried, written there, and made live. Its
/// signature goes in the header `waybill-signature`: `ed25519 PUBLIC-KEY SIGNATURE`.
#[utoipa::path(put, path = "/v1/plugins/{name}/component", tag = "plugins", operation_id = "uploadPlugin",
    params(("name" = String, Path, description = "Transport, or `handler.CONSUMER`, `participant.NAME`, `source.NAME`, `outbox.backoff`."), UploadQuery),
    request_body(content = Vec<u8>, content_type = "application/wasm", description = "The component."),
    responses((status = 200, description = "The plugin as it stands.", body = PluginChanged), Problems),
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
    let reload = PluginReload { sha256: asked.sha256, force: asked.force };
    check(&reload)?;
    let plugins = plugins(&app, &transport)?;
    let received = body::component(&app, request, COMPONENT_BYTES_MAX).await?;
    let upload = PluginUpload { component: received.bytes, signature, reload };
    let done = plugins.upload(&transport, upload, caller.name()).await.map_err(refused)?;
    drop(received.share);
    ok(&done)
}

/// Read a plugin's log
///
/// What a plugin wrote lately, and what the host said of it: instances that were lost, grants that were missing. Its name is what logs and
/// measurements know it by: that of a transport, `handler.CONSUMER`, `participant.NAME`, `source.NAME` or `outbox.backoff`. With `wait_ms` it is answered when
/// there is a line, or after that time; when many callers wait already after a second at most, or at once. Whoever asks again with `next`
/// as `after` follows the log. Only so many lines are kept: the host's own log has all of them.
#[utoipa::path(get, path = "/v1/plugins/{name}/log", tag = "plugins", operation_id = "readPluginLog",
    params(("name" = String, Path, description = "Transport, or `handler.CONSUMER`, `participant.NAME`, `source.NAME`, `outbox.backoff`."), LogQuery),
    responses((status = 200, description = "The lines, oldest first.", body = PluginLog), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn log(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let asked: LogQuery = query(request.uri())?;
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Problem::invalid(format!("limit is {limit}: take 1 to {PAGE_MAX}")).at("limit"));
    }
    let wait = workers::within(asked.wait_ms, LOG_WAIT_MAX)?;
    let (place, wait) = workers::waiting(&app, &caller, wait);
    let lines = lines(&app, &name, PluginLogAsked { after: asked.after, limit, wait }).await?;
    drop(place);
    ok(&lines)
}

/// Lines of a plugin's log.
pub(crate) async fn lines(app: &App, name: &str, asked: PluginLogAsked) -> Result<PluginLog, Problem> {
    plugins(app, name)?.log(name, asked).await.map_err(refused)
}

fn plugins<'a>(app: &'a App, transport: &str) -> Result<&'a Arc<dyn PluginService>, Problem> {
    app.plugins.as_ref().ok_or_else(|| Problem::not_found(Missing::Transport, transport))
}

fn check(asked: &PluginReload) -> Result<(), Problem> {
    if let Some(text) = &asked.sha256 {
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Problem::invalid("sha256 takes 64 hex digits").at("sha256"));
        }
    }
    Ok(())
}

fn refused(error: PluginsError) -> Problem {
    let code = error.code();
    if code.is_answer() { Problem::new(code, error.to_string()) } else { Problem::internal(format!("{code}: {error}")) }
}
