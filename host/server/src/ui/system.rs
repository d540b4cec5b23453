//! What holds messages back, the configuration.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use waybill_page::Markup;
use waybill_page::frame::Place;
use waybill_page::views::{self, Blocked, Compared, Configuration};

use super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::problem::Problem;
use crate::routes::configuration::{read_again, settings};
use crate::routes::outbox;
use crate::routes::query::query;

/// What the address of what is held says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BlockedAsked {
    tenant: Option<String>,
    /// Only what is held like this.
    kind: String,
}

/// What holds messages back, the longest held first.
pub(super) async fn blocked(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Blocked, title: "Blocked", needs: Permission::Read };
    let body = async {
        let asked: BlockedAsked = query(&visit.uri)?;
        let scope = visit.scope(asked.tenant.as_deref(), "")?;
        let (rows, history, changes) = tokio::join!(
            visit.part(outbox::holds(&app, &visit.caller, scope.as_ref())),
            visit.hour(&app),
            visit.changes(&app),
        );
        let rows = rows.map(|mut rows| {
            rows.sort_by_key(|hold| hold.since);
            rows
        });
        let tenant = visit.tenant_named(scope.as_ref(), asked.tenant.as_deref());
        let shown = Blocked { tenant, kind: asked.kind, rows, history, changes };
        Ok::<Markup, Problem>(views::blocked(&shown, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// What the address of the configuration says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ConfigurationAsked {
    compare: String,
    /// Only settings of this section.
    section: String,
}

/// What is in effect, and what differs from the file.
pub(super) async fn configuration(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Configuration, title: "Configuration", needs: Permission::Manage };
    let body = async {
        let asked: ConfigurationAsked = query(&visit.uri)?;
        let compared = match &app.configuration {
            None => Compared::Never,
            Some(_) if asked.compare != "now" => Compared::NotYet,
            Some(_) => Compared::Now(Box::new(visit.part(read_again(&app, &visit.caller, false)).await)),
        };
        let settings = settings(&app);
        let shown = Configuration { compared, settings, section: asked.section, may: visit.may() };
        Ok::<Markup, Problem>(views::configuration(&shown))
    };
    visit.show(&app, view, body).await
}
