//! What holds messages back, plugins, the configuration.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use waybill_api::configuration::ReloadRefused;
use waybill_core::code::Code;
use waybill_page::Markup;
use waybill_page::frame::Place;
use waybill_page::views::{self, Asked, Compared};

use super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::problem::Problem;
use crate::routes::query::query;
use crate::routes::{outbox, plugins as plugin_routes};

/// What the address of a view of a tenant says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TenantAsked {
    tenant: Option<String>,
}

/// What holds messages back, the longest held first.
pub(super) async fn blocked(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Blocked, title: "Blocked", needs: Permission::Read };
    let body = async {
        let asked: TenantAsked = query(&visit.uri)?;
        let scope = visit.scope(asked.tenant.as_deref(), "")?;
        let rows = visit.part(outbox::holds(&app, &visit.caller, scope.as_ref())).await;
        let rows = rows.map(|mut rows| {
            rows.sort_by_key(|hold| hold.since);
            rows
        });
        let tenant = visit.tenant_named(scope.as_ref(), asked.tenant.as_deref());
        Ok::<Markup, Problem>(views::blocked(&Asked { tenant, ..Asked::default() }, &rows, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// The plugins with their generations.
pub(super) async fn plugins(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Plugins, title: "Plugins", needs: Permission::Read };
    let body = async {
        let _: TenantAsked = query(&visit.uri)?;
        let shown = visit.part(async { Ok::<_, Problem>(plugin_routes::shown(&app, &visit.caller).await) }).await;
        Ok::<Markup, Problem>(views::plugins(&shown, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// What the address of the configuration says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ConfigurationAsked {
    compare: String,
}

/// What differs between the configuration in force and its file.
pub(super) async fn configuration(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Configuration, title: "Configuration", needs: Permission::Manage };
    let body = async {
        let asked: ConfigurationAsked = query(&visit.uri)?;
        let compared = match &app.configuration {
            None => Compared::Never,
            Some(_) if asked.compare != "now" => Compared::NotYet,
            Some(configuration) => {
                let compared = configuration.reload(false, visit.caller.name()).await;
                let refused = |refused: ReloadRefused| Problem::new(Code::CONFIG_RELOAD_REFUSED, refused.to_string());
                let part = visit.part(async { compared.map_err(refused) }).await;
                Compared::Now(Box::new(part))
            }
        };
        Ok::<Markup, Problem>(views::configuration(&compared))
    };
    visit.show(&app, view, body).await
}
