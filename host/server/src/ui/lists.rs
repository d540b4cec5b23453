//! Lists: messages, dead letters, sagas, the audit trail.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use waybill_api::instant::Instant;
use waybill_api::sagas::SagaView;
use waybill_core::audit::AuditQuery;
use waybill_core::ids::Tenant;
use waybill_core::outbox::filter::{Filter, FilterError, readable};
use waybill_core::port::query::{ListOrder, Page};
use waybill_core::saga::filter::SagaFilter;
use waybill_core::time::UnixMillis;
use waybill_page::Markup;
use waybill_page::address;
use waybill_page::frame::Place;
use waybill_page::views::{self, Asked, DeadLetters, Messages, Rows, Sagas, Trail, Unread};

use super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::caller::now;
use crate::limits::{FILTER_BYTES_MAX, PAGE_ROWS};
use crate::problem::Problem;
use crate::routes::query::{AuditParameters, Cursors, query};
use crate::routes::sagas as saga_routes;

/// What the address of a list says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ListAsked {
    pub tenant: Option<String>,
    pub filter: String,
    /// Of messages: `state` = what waits first.
    pub sort: String,
    /// Cursor of the page before.
    pub after: Option<String>,
    /// What of its filter can't be read.
    #[serde(skip)]
    pub unread: Option<Unread>,
}

impl ListAsked {
    /// With the conditions of its filter that can be read, by the grammar of its list: the list stays.
    pub fn readable<T>(mut self, read: impl Fn(&str, UnixMillis) -> Result<T, FilterError>) -> Self {
        if self.filter.len() > FILTER_BYTES_MAX {
            return self;
        }
        let now = now();
        let (kept, error) = readable(&self.filter, |text| read(text, now));
        if let Some(error) = error {
            let written = std::mem::replace(&mut self.filter, kept);
            self.unread = Some(Unread { written, why: error.to_string() });
        }
        self
    }

    /// Where its tenant can't be told, it is asked for without one.
    pub fn asked(&self, visit: &Visit, scope: &Result<Option<Tenant>, Problem>) -> Asked {
        let named = |scope: &Option<Tenant>| visit.tenant_named(scope.as_ref(), self.tenant.as_deref());
        Asked {
            filter: self.filter.clone(),
            unread: self.unread.clone(),
            tenant: scope.as_ref().map(named).unwrap_or_default(),
            sort: self.sort.clone(),
            is_further: self.after.is_some(),
            may: visit.may(),
        }
    }
}

/// A page of a list, with the address of the next one.
pub(super) fn rows<T>(path: &str, list: &ListAsked, asked: &Asked, cursors: &Cursors<'_>, found: Page<T>) -> Rows<T> {
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
        let list = list.readable(Filter::parse);
        let is_newest_first = list.sort != "state";
        let (name, order) = match is_newest_first {
            true => ("messages, newest first", ListOrder::Newest),
            false => ("messages", ListOrder::State),
        };
        let scope = visit.scope(list.tenant.as_deref(), &list.filter);
        let asked = list.asked(&visit, &scope);
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
        let list = list.readable(Filter::parse);
        let scope = visit.scope(list.tenant.as_deref(), &list.filter);
        let asked = list.asked(&visit, &scope);
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
            let tenant = scope.clone()?;
            let groups = app.service.dead_groups(tenant.as_ref(), &list.filter).await?;
            let value = app.service.with_last_replays(tenant.as_ref(), groups.value).await?;
            Ok::<_, Problem>((value, groups.since.map(Instant)))
        });
        let (groups, changes) = tokio::join!(groups, visit.changes(&app));
        let is_nothing = found.as_ref().is_ok_and(|rows| rows.items.is_empty() && rows.older.is_none());
        let others = match is_nothing && !asked.filter.is_empty() {
            true => {
                visit.part(async { Ok::<_, Problem>(app.service.dead_groups(scope?.as_ref(), "").await?.value) }).await
            }
            false => Ok(Vec::new()),
        };
        let others = others.unwrap_or_default();
        let shown = DeadLetters { asked, groups, rows: found, changes, others };
        Ok::<Markup, Problem>(views::dead_letters(&shown, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// The list of sagas.
pub(super) async fn sagas(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Sagas, title: "Sagas", needs: Permission::Read };
    let body = async {
        let list: ListAsked = query(&visit.uri)?;
        let list = list.readable(SagaFilter::parse);
        // A filter of sagas has a grammar of its own, so the tenant is found without it.
        let scope = visit.scope(list.tenant.as_deref(), "");
        let asked = list.asked(&visit, &scope);
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

pub(super) async fn audit(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Audit, title: "Audit", needs: Permission::Operate };
    let body = async {
        let list: ListAsked = query(&visit.uri)?;
        let list = list.readable(AuditQuery::parse);
        let scope = visit.scope(list.tenant.as_deref(), "");
        let asked = list.asked(&visit, &scope);
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
