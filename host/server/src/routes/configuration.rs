//! `/v1/config`.

use axum::extract::{Request, State};
use axum::response::Response;
use waybill_api::configuration::{ConfigReload, Reloaded, SettingView};
use waybill_api::list::List;
use waybill_core::code::Code;

use super::ok;
use crate::app::App;
use crate::body;
use crate::caller::Caller;
use crate::limits::RETRY_AFTER_BUSY;
use crate::openapi::Problems;
use crate::problem::Problem;

/// Show the configuration in force
///
/// Every setting by key, also those that nobody set: its value, of a secret the reference that names it, where it comes from, and when another
/// value would count. What a reload would change now is the answer of a dry run. A host that was built without a configuration has none.
#[utoipa::path(get, path = "/v1/config", tag = "system", operation_id = "showConfiguration",
    responses((status = 200, description = "All of them.", body = List<SettingView>), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn show(State(app): State<App>) -> Result<Response, Problem> {
    ok(&List::whole(settings(&app).unwrap_or_default()))
}

/// Every setting in force, by key; none = this host was built without a configuration.
pub(crate) fn settings(app: &App) -> Option<Vec<SettingView>> {
    app.configuration.as_ref().map(|configuration| configuration.settings())
}

/// Read the configuration again
///
/// From where the host read it: its file, its environment, its flags. All of what can change while it runs is put in force, or
/// nothing is: transports and routes are added, changed and removed from the next batch on. With `dry_run` it is only compared
/// and its plugins are loaded. A configuration that can't be put in force is 422 with every reason; the one before stays.
#[utoipa::path(post, path = "/v1/config/reload", tag = "system", operation_id = "reloadConfiguration",
    request_body = ConfigReload,
    responses((status = 200, description = "What differs, and whether it is in force now.", body = Reloaded), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn reload(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: ConfigReload = body::json(&app, request).await?;
    ok(&read_again(&app, &caller, !asked.dry_run).await?)
}

/// Reads it again for a caller, and puts it in force or only compares it.
pub(crate) async fn read_again(app: &App, caller: &Caller, apply: bool) -> Result<Reloaded, Problem> {
    let Some(configuration) = &app.configuration else {
        let text = "this host was started without a configuration that can be read again";
        return Err(Problem::new(Code::CONFIG_RELOAD_REFUSED, text));
    };
    configuration.reload(apply, caller.name()).await.map_err(|refused| {
        let problem = Problem::new(Code::CONFIG_RELOAD_REFUSED, refused.to_string());
        if refused.retryable { problem.after(RETRY_AFTER_BUSY) } else { problem }
    })
}
