//! Operations: the latest, and one with what became of what it put back.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use waybill_page::Markup;
use waybill_page::frame::Place;
use waybill_page::views::{self, Asked, Operations, Rows};

use super::super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::limits::PAGE_ROWS;
use crate::problem::Problem;
use crate::routes::operations as routes;
use crate::routes::query::query;

/// What the address of the list says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ListAsked {
    tenant: Option<String>,
}

pub(in crate::ui) async fn operations(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Operations, title: "Operations", needs: Permission::Read };
    let body = async {
        let asked: ListAsked = query(&visit.uri)?;
        let scope = visit.scope(asked.tenant.as_deref(), "")?;
        let found = visit.part(app.service.operations(scope.as_ref(), PAGE_ROWS)).await;
        let rows = found.map(|items| Rows { items, older: None });
        let tenant = visit.tenant_named(scope.as_ref(), asked.tenant.as_deref());
        let shown = Operations { asked: Asked { tenant, ..Asked::default() }, rows };
        Ok::<Markup, Problem>(views::operations(&shown, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// What the address of one says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OneAsked {
    id: String,
}

/// One operation, if it is of a tenant of the caller.
pub(in crate::ui) async fn operation(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Operations, title: "Operation", needs: Permission::Read };
    let body = async {
        let asked: OneAsked = query(&visit.uri)?;
        let found = routes::visible(&app, &visit.caller, &asked.id).await?;
        let fates = app.service.fates(&found).await?;
        Ok::<Markup, Problem>(views::operation(&found, &fates, visit.may(), visit.as_of))
    };
    visit.show(&app, view, body).await
}
