//! Lists: messages, dead letters, sagas, streams with relays, the audit trail.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use waybill_api::instant::Instant;
use waybill_api::sagas::SagaView;
use waybill_api::streams::StreamView;
use waybill_core::ids::Tenant;
use waybill_core::port::query::{ListOrder, Page};
use waybill_core::streams::access::StreamRight;
use waybill_page::Markup;
use waybill_page::address;
use waybill_page::frame::Place;
use waybill_page::views::{self, Asked, DeadLetters, Messages, Rows, Sagas, Streams, Trail};

use super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::caller::now;
use crate::limits::PAGE_ROWS;
use crate::problem::Problem;
use crate::routes::query::{AuditParameters, Cursors, query};
use crate::routes::{relays, sagas as saga_routes, streams as stream_routes};
use crate::subscribe::selector;

/// What the address of a list says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ListAsked {
    tenant: Option<String>,
    filter: String,
    /// Of messages: `state` = what waits first.
    sort: String,
    /// Cursor of the page before.
    after: Option<String>,
}

impl ListAsked {
    fn asked(&self, visit: &Visit, scope: Option<&Tenant>) -> Asked {
        Asked {
            filter: self.filter.clone(),
            tenant: visit.tenant_named(scope, self.tenant.as_deref()),
            is_further: self.after.is_some(),
        }
    }

    /// What the list was asked for where its tenant can't be told.
    fn unscoped(&self) -> Asked {
        Asked { filter: self.filter.clone(), tenant: String::new(), is_further: self.after.is_some() }
    }
}

/// A page of a list, with the address of the next one.
fn rows<T>(path: &str, list: &ListAsked, asked: &Asked, cursors: &Cursors<'_>, found: Page<T>) -> Rows<T> {
    let next = cursors.write(found.next_cursor);
    let older = next.map(|after| {
        let query = [("tenant", &*asked.tenant), ("filter", &*list.filter), ("sort", &*list.sort), ("after", &*after)];
        address::with(path, &query)
    });
    Rows { items: found.items, older }
}

/// The list of messages.
pub(super) async fn messages(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Messages, title: "Messages", needs: Permission::Read };
    let body = async {
        let list: ListAsked = query(&visit.uri)?;
        let is_newest_first = list.sort != "state";
        let (name, order) = match is_newest_first {
            true => ("messages, newest first", ListOrder::Newest),
            false => ("messages", ListOrder::State),
        };
        let scope = visit.scope(list.tenant.as_deref(), &list.filter);
        let asked = scope.as_ref().map_or_else(|_| list.unscoped(), |scope| list.asked(&visit, scope.as_ref()));
        let found = visit.part(async {
            let scope = scope?;
            let cursors = Cursors::of(name, scope.as_ref().map(Tenant::as_str), &list.filter);
            let inner = cursors.read(list.after.as_deref())?;
            let found = app.service.messages(scope.as_ref(), &list.filter, order, inner.as_deref(), PAGE_ROWS).await?;
            Ok::<_, Problem>(rows(address::MESSAGES, &list, &asked, &cursors, found))
        });
        let found = found.await;
        Ok::<Markup, Problem>(views::messages(&Messages { asked, is_newest_first, rows: found }, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// Dead letters, by cause and as a list.
pub(super) async fn dead_letters(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::DeadLetters, title: "Dead letters", needs: Permission::Read };
    let body = async {
        let list: ListAsked = query(&visit.uri)?;
        let scope = visit.scope(list.tenant.as_deref(), &list.filter);
        let asked = scope.as_ref().map_or_else(|_| list.unscoped(), |scope| list.asked(&visit, scope.as_ref()));
        let found = visit.part(async {
            let scope = scope.clone()?;
            let cursors = Cursors::of("dead-letters", scope.as_ref().map(Tenant::as_str), &list.filter);
            let inner = cursors.read(list.after.as_deref())?;
            let found = app.service.dead_letters(scope.as_ref(), &list.filter, inner.as_deref(), PAGE_ROWS).await?;
            Ok::<_, Problem>(rows(address::DEAD_LETTERS, &list, &asked, &cursors, found))
        });
        let found = found.await;
        let groups = visit.part(async {
            if asked.is_further {
                return Ok((Vec::new(), None));
            }
            let groups = app.service.dead_groups(scope.clone()?.as_ref(), &list.filter).await?;
            Ok::<_, Problem>((groups.value, groups.since.map(Instant)))
        });
        let groups = groups.await;
        Ok::<Markup, Problem>(views::dead_letters(&DeadLetters { asked, groups, rows: found }, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// The list of sagas.
pub(super) async fn sagas(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Sagas, title: "Sagas", needs: Permission::Read };
    let body = async {
        let list: ListAsked = query(&visit.uri)?;
        // A filter of sagas has a grammar of its own, so the tenant is found without it.
        let scope = visit.scope(list.tenant.as_deref(), "");
        let asked = scope.as_ref().map_or_else(|_| list.unscoped(), |scope| list.asked(&visit, scope.as_ref()));
        let found = visit.part(async {
            let scope = scope?;
            let (filter, tenant) = visit.caller.sagas(scope.as_ref().map(Tenant::as_str), &list.filter)?;
            let cursors = Cursors::of("sagas", tenant.as_ref().map(Tenant::as_str), &list.filter);
            let inner = cursors.read(list.after.as_deref())?;
            let sagas = saga_routes::service(&app)?;
            let none = Page { items: Vec::new(), next_cursor: None };
            let found = match filter {
                Some(filter) => sagas.sagas(&filter, inner.as_deref(), PAGE_ROWS).await?,
                None => none,
            };
            let items = found.items.into_iter().map(SagaView::from).collect();
            let shown = Page { items, next_cursor: found.next_cursor };
            Ok::<_, Problem>(rows(address::SAGAS, &list, &asked, &cursors, shown))
        });
        let found = found.await;
        Ok::<Markup, Problem>(views::sagas(&Sagas { asked, rows: found }, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// What the address of the streams says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StreamsAsked {
    tenant: Option<String>,
    prefix: String,
    after: Option<String>,
}

/// Streams of a tenant, and all relays.
pub(super) async fn streams(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Streams, title: "Streams and relays", needs: Permission::Events };
    let body = async {
        let asked: StreamsAsked = query(&visit.uri)?;
        let named = asked.tenant.as_deref().filter(|name| !name.is_empty());
        let scope = visit.scope(named, "")?;
        let tenant = match scope {
            Some(tenant) => tenant,
            None => visit.caller.own(named)?,
        };
        let found = visit.part(async {
            let StreamsAsked { prefix, after, .. } = &asked;
            selector::prefix(prefix)?;
            let cursors = Cursors::of("streams", Some(tenant.as_str()), prefix);
            let inner = cursors.read(after.as_deref())?;
            let streams = stream_routes::service(&app)?;
            let found = streams.streams(&tenant, prefix, inner.as_deref(), PAGE_ROWS).await?;
            let may_read =
                found.items.into_iter().filter(|found| visit.caller.0.has(StreamRight::Read, &found.stream.name));
            let older = cursors.write(found.next_cursor).map(|after| {
                let query = [("tenant", tenant.as_str()), ("prefix", &**prefix), ("after", &*after)];
                address::with(address::STREAMS, &query)
            });
            Ok::<_, Problem>(Rows { items: may_read.map(StreamView::from).collect(), older })
        });
        let found = found.await;
        let relays = visit.part_for(Permission::Read, relays::shown(&app, &visit.caller)).await;
        let shown = Streams {
            tenant: tenant.to_string(),
            prefix: asked.prefix,
            is_further: asked.after.is_some(),
            relays,
            streams: found,
        };
        Ok::<Markup, Problem>(views::streams(&shown))
    };
    visit.show(&app, view, body).await
}

pub(super) async fn audit(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Audit, title: "Audit", needs: Permission::Operate };
    let body = async {
        let list: ListAsked = query(&visit.uri)?;
        let scope = visit.scope(list.tenant.as_deref(), "");
        let asked = scope.as_ref().map_or_else(|_| list.unscoped(), |scope| list.asked(&visit, scope.as_ref()));
        let found = visit.part(async {
            let scope = scope?;
            crate::caller::bounded(&list.filter)?;
            let parameters = AuditParameters { filter: list.filter.clone(), ..AuditParameters::default() };
            let wanted = parameters.wanted(scope.clone(), now())?;
            let cursors = Cursors::of("audit on the page", scope.as_ref().map(Tenant::as_str), &list.filter);
            let inner = cursors.read(list.after.as_deref())?;
            let found = app.service.audit(&wanted, inner.as_deref(), PAGE_ROWS).await?;
            Ok::<_, Problem>(rows(address::AUDIT, &list, &asked, &cursors, found))
        });
        let found = found.await;
        Ok::<Markup, Problem>(views::audit(&Trail { asked, rows: found }, visit.as_of))
    };
    visit.show(&app, view, body).await
}
