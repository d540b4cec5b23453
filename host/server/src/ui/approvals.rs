//! What waits for people.

use axum::extract::State;
use axum::response::Response;
use waybill_api::saga_node::SagaNodeView;
use waybill_api::sagas::SagaView;
use waybill_core::ids::Tenant;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::id::SagaId;
use waybill_page::Markup;
use waybill_page::address::{self, condition};
use waybill_page::frame::Place;
use waybill_page::views::{self, Ask, Rows};

use super::lists::ListAsked;
use super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::limits::PAGE_APPROVALS;
use crate::problem::Problem;
use crate::routes::approvals::{APPROVAL, is_asking};
use crate::routes::query::{Cursors, query};
use crate::routes::sagas;

/// Steps that wait for a person, with their questions.
pub(super) async fn approvals(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Approvals, title: "Approvals", needs: Permission::Read };
    let body = async {
        let list: ListAsked = query(&visit.uri)?;
        let scope = visit.scope(list.tenant.as_deref(), "")?;
        let mut asked = list.asked(&visit, &Ok(scope.clone()));
        asked.filter = condition("waiting_for", APPROVAL);
        let found = visit.part(asks(&app, &visit, scope.as_ref(), list.after.as_deref())).await;
        let found = found.map(|(items, next)| {
            let older =
                next.map(|after| address::with(address::APPROVALS, &[("tenant", &*asked.tenant), ("after", &*after)]));
            Rows { items, older }
        });
        Ok::<Markup, Problem>(views::approvals(&asked, &found, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// Sagas that wait for a person, without their steps; `older` is a cursor.
pub(super) async fn waiting(
    app: &App,
    visit: &Visit,
    tenant: Option<&Tenant>,
    after: Option<&str>,
    limit: usize,
) -> Result<Rows<SagaView>, Problem> {
    let filter = condition("waiting_for", APPROVAL);
    let named = tenant.map(Tenant::as_str);
    let (filter_of_sagas, tenant) = visit.caller.sagas(named, &filter)?;
    let cursors = Cursors::of("approvals", tenant.as_ref().map(Tenant::as_str), &filter);
    let inner = cursors.read(after)?;
    let Some(wanted) = filter_of_sagas else { return Ok(Rows { items: Vec::new(), older: None }) };
    let found = sagas::service(app)?.sagas(&wanted, inner.as_deref(), limit).await?;
    let items = found.items.into_iter().map(SagaView::from).collect();
    Ok(Rows { items, older: cursors.write(found.next_cursor) })
}

/// The questions of a page of sagas, and the cursor of the next one.
async fn asks(
    app: &App,
    visit: &Visit,
    tenant: Option<&Tenant>,
    after: Option<&str>,
) -> Result<(Vec<Ask>, Option<String>), Problem> {
    let found = waiting(app, visit, tenant, after, PAGE_APPROVALS).await?;
    let mut asks = Vec::new();
    for saga in &found.items {
        let (Ok(tenant), Ok(id)) = (Tenant::new(&saga.tenant), SagaId::new(&saga.id)) else { continue };
        // What was decided since the list was read asks nobody any more.
        match sagas::service(app)?.saga(&tenant, &id).await {
            Ok(shown) => of_tree(&shown, &mut asks),
            Err(SagaError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((asks, found.older))
}

/// The steps of a tree that wait for a person.
fn of_tree(saga: &SagaView, asks: &mut Vec<Ask>) {
    let mut open: Vec<&SagaNodeView> = saga.saga.iter().collect();
    while let Some(node) = open.pop() {
        asks.extend(node.steps.iter().filter(|step| is_asking(step)).map(|step| Ask {
            tenant: saga.tenant.clone(),
            saga: node.id.clone(),
            root: saga.id.clone(),
            definition: node.definition.clone(),
            version: node.version,
            step: step.name.clone(),
            since: step.since,
            until: step.until,
            input: step.input.as_ref().map(|input| input.get().to_owned()),
        }));
        open.extend(node.steps.iter().filter_map(|step| step.saga.as_deref()));
    }
}
