//! One message, one saga; and the search for either.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use waybill_api::dead_letters::DeadLetterView;
use waybill_api::neighbours::NeighboursView;
use waybill_core::port::dead::{DeadId, DeadKind};
use waybill_core::port::missing::Missing;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::id::SagaId;
use waybill_page::Markup;
use waybill_page::address::{self, condition};
use waybill_page::frame::Place;
use waybill_page::views::{self, MessageDetail, PayloadTab};

use super::see_other;
use super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::edge;
use crate::problem::Problem;
use crate::routes::query::query;
use crate::routes::sagas;

/// What the address of one thing says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OneAsked {
    tenant: Option<String>,
    id: String,
    /// Of a message: which side of its payload.
    show: String,
    /// Of a dead letter that is no message: what it is.
    kind: Option<DeadKind>,
}

/// One message, or a dead letter of another kind.
pub(super) async fn message(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Messages, title: "Message", needs: Permission::Read };
    let body = async {
        let asked: OneAsked = query(&visit.uri)?;
        let named = asked.tenant.as_deref().filter(|name| !name.is_empty());
        let tenant = visit.caller.tenant_of(named, Missing::Message, &asked.id)?;
        let detail = match asked.kind {
            None | Some(DeadKind::Message) => {
                let found = app.service.message(&tenant, &asked.id).await;
                let found = found.map_err(|error| visit.caller.missed(error, named, &tenant))?;
                let near = visit.part(app.service.neighbours(&tenant, &asked.id)).await;
                MessageDetail::Message(Box::new(found), near)
            }
            Some(_) => {
                let dead = DeadId { kind: asked.kind, ..DeadId::new(&tenant, &asked.id) };
                let found = app.service.dead_letter(&dead).await;
                other(found.map_err(|error| visit.caller.missed(error, named, &tenant))?)?
            }
        };
        let trace_url = app.ui.as_ref().and_then(|ui| ui.environment.trace_url.as_ref());
        let tab = PayloadTab::of(&asked.show);
        Ok::<Markup, Problem>(views::message(&detail, tab, trace_url, visit.may(), visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// A dead letter as the page shows it. Headers that hold credentials aren't.
fn other(letter: DeadLetterView) -> Result<MessageDetail, Problem> {
    let (id, tenant, kind, what, error, json) = match letter {
        DeadLetterView::Message(message) => return Ok(MessageDetail::Message(message, Ok(NeighboursView::default()))),
        DeadLetterView::Inbox(mut inbox) => {
            inbox.headers.0.retain(|(name, _)| !views::is_secret(name));
            let json = serde_json::to_string(&inbox);
            (
                inbox.id,
                inbox.tenant,
                DeadKind::Inbox,
                "a received message that couldn’t be handled",
                inbox.last_error,
                json,
            )
        }
        DeadLetterView::Event(event) => {
            let json = serde_json::to_string(&event);
            (event.id, event.tenant, DeadKind::Event, "an event of a stream", event.last_error, json)
        }
        DeadLetterView::Saga(saga) => {
            let json = serde_json::to_string(&saga);
            (saga.id, saga.tenant, DeadKind::Saga, "a stuck saga", saga.last_error, json)
        }
    };
    Ok(MessageDetail::Other { id, tenant, kind, what, error, json: json.map_err(Problem::internal)? })
}

pub(super) async fn saga(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Sagas, title: "Saga", needs: Permission::Read };
    let body = async {
        let asked: OneAsked = query(&visit.uri)?;
        let named = asked.tenant.as_deref().filter(|name| !name.is_empty());
        let missed = || Problem::from(SagaError::NotFound { id: asked.id.clone() });
        let tenant = visit.caller.tenant_of(named, Missing::Saga, &asked.id);
        let tenant = tenant.map_err(|problem| if problem.code.status() == 404 { missed() } else { problem })?;
        let id = SagaId::new(&asked.id).map_err(|_| missed())?;
        let found = sagas::service(&app)?.saga(&tenant, &id).await?;
        Ok::<Markup, Problem>(views::saga(&found, visit.may(), visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// What is typed into the search box.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Typed {
    q: String,
}

/// Goes to the message or the saga with this id, else to the messages that match.
pub(super) async fn find(State(app): State<App>, visit: Visit) -> Response {
    match found(&app, &visit).await {
        Ok(address) => see_other(&address),
        Err(problem) => {
            let view = View { place: Place::None, title: "Search", needs: Permission::Read };
            visit.show(&app, view, async { Err(problem) }).await
        }
    }
}

async fn found(app: &App, visit: &Visit) -> Result<String, Problem> {
    edge::may(&visit.caller.0, Permission::Read)?;
    let _place = edge::place(app, &visit.caller.0)?;
    let typed: Typed = query(&visit.uri)?;
    let text = typed.q.trim();
    let filtered = |filter: &str| address::with(address::MESSAGES, &[("filter", filter)]);
    if text.is_empty() || text.contains(['=', '<', '>']) {
        return Ok(filtered(text));
    }
    let tenant = match visit.scope(None, "")? {
        Some(tenant) => tenant,
        None => visit.caller.own(None)?,
    };
    match app.service.message(&tenant, text).await.map_err(Problem::from) {
        Ok(message) => return Ok(address::message(&message.tenant, &message.id)),
        Err(problem) if matches!(problem.code.status(), 400 | 404) => {}
        Err(problem) => return Err(problem),
    }
    if let (Some(sagas), Ok(id)) = (&app.sagas, SagaId::new(text)) {
        match sagas.saga(&tenant, &id).await {
            Ok(saga) => return Ok(address::saga(&saga.tenant, &saga.id)),
            Err(SagaError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filtered(&condition("key", text)))
}
