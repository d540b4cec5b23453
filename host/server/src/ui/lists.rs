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

/// A list of which a page is shown: where it is, whose, and what it was asked for.
pub(super) struct Listing<'a> {
    list: &'a ListAsked,
    path: &'static str,
    /// What its cursors are of.
    name: &'static str,
    scope: Result<Option<Tenant>, Problem>,
    pub asked: Asked,
}

impl<'a> Listing<'a> {
    pub fn new(visit: &Visit, list: &'a ListAsked, path: &'static str, name: &'static str) -> Self {
        let scope = visit.scope(list.tenant.as_deref(), &list.filter);
        let asked = list.asked(visit, &scope);
        Self { list, path, name, scope, asked }
    }

    /// The tenant that it is confined to; none = all.
    pub fn scope(&self) -> Result<Option<&Tenant>, Problem> {
        self.scope.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }

    /// The store's cursor, from which the page goes on.
    pub fn after(&self) -> Result<Option<String>, Problem> {
        self.cursors().read(self.list.after.as_deref())
    }

    /// What was found, with the address of the next page.
    pub fn rows<T>(&self, found: Page<T>) -> Rows<T> {
        let Self { list, path, asked, .. } = self;
        let older = self.cursors().write(found.next_cursor).map(|after| {
            let query =
                [("tenant", &*asked.tenant), ("filter", &*list.filter), ("sort", &*list.sort), ("after", &*after)];
            address::with(path, &query)
        });
        Rows { items: found.items, older }
    }

    fn cursors(&self) -> Cursors<'_> {
        let tenant = self.scope.as_ref().ok().and_then(Option::as_ref);
        Cursors::of(self.name, tenant.map(Tenant::as_str), &self.list.filter)
    }
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
        let listing = Listing::new(&visit, &list, address::MESSAGES, name);
        let found = visit.part(async {
            let (scope, after) = (listing.scope()?, listing.after()?);
            let found = app.service.messages(scope, &list.filter, order, after.as_deref(), PAGE_ROWS).await?;
            Ok::<_, Problem>(listing.rows(found))
        });
        let rows = found.await;
        Ok::<Markup, Problem>(views::messages(&Messages { asked: listing.asked, is_newest_first, rows }, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// Dead letters, by cause and as a list.
pub(super) async fn dead_letters(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::DeadLetters, title: "Dead letters", needs: Permission::Read };
    let body = async {
        let list: ListAsked = query(&visit.uri)?;
        let list = list.readable(Filter::parse);
        let listing = Listing::new(&visit, &list, address::DEAD_LETTERS, "dead-letters");
        let found = visit.part(async {
            let (scope, after) = (listing.scope()?, listing.after()?);
            let found = app.service.dead_letters(scope, &list.filter, after.as_deref(), PAGE_ROWS).await?;
            Ok::<_, Problem>(listing.rows(found))
        });
        let found = found.await;
        let groups = visit.part(async {
            if listing.asked.is_further {
                return Ok((Vec::new(), None));
            }
            let scope = listing.scope()?;
            let groups = app.service.dead_groups(scope, &list.filter).await?;
            let value = app.service.with_last_replays(scope, groups.value).await?;
            Ok::<_, Problem>((value, groups.since.map(Instant)))
        });
        let (groups, changes) = tokio::join!(groups, visit.changes(&app));
        let is_nothing = found.as_ref().is_ok_and(|rows| rows.items.is_empty() && rows.older.is_none());
        let others = match is_nothing && !list.filter.is_empty() {
            true => {
                let all = async { Ok::<_, Problem>(app.service.dead_groups(listing.scope()?, "").await?.value) };
                visit.part(all).await.unwrap_or_default()
            }
            false => Vec::new(),
        };
        let shown = DeadLetters { asked: listing.asked, groups, rows: found, changes, others };
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
        let listing = Listing::new(&visit, &list, address::SAGAS, "sagas");
        let found = visit.part(async {
            let (scope, after) = (listing.scope()?, listing.after()?);
            Ok::<_, Problem>(
                listing.rows(sagas_page(&app, &visit, scope, &list.filter, after.as_deref(), PAGE_ROWS).await?),
            )
        });
        let rows = found.await;
        Ok::<Markup, Problem>(views::sagas(&Sagas { asked: listing.asked, rows }, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// A page of sagas, without their steps.
pub(super) async fn sagas_page(
    app: &App,
    visit: &Visit,
    tenant: Option<&Tenant>,
    filter: &str,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page<SagaView>, Problem> {
    let (wanted, _) = visit.caller.sagas(tenant.map(Tenant::as_str), filter)?;
    let sagas = saga_routes::service(app)?;
    let Some(wanted) = wanted else { return Ok(Page { items: Vec::new(), next_cursor: None }) };
    let found = sagas.sagas(&wanted, cursor, limit).await?;
    let items = found.items.into_iter().map(SagaView::from).collect();
    Ok(Page { items, next_cursor: found.next_cursor })
}

pub(super) async fn audit(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Audit, title: "Audit", needs: Permission::Operate };
    let body = async {
        let list: ListAsked = query(&visit.uri)?;
        let list = list.readable(AuditQuery::parse);
        let listing = Listing::new(&visit, &list, address::AUDIT, "audit on the page");
        let found = visit.part(async {
            let (scope, after) = (listing.scope()?, listing.after()?);
            let parameters = AuditParameters { filter: list.filter.clone(), ..AuditParameters::default() };
            let wanted = parameters.wanted(scope.cloned(), now())?;
            Ok::<_, Problem>(listing.rows(app.service.audit(&wanted, after.as_deref(), PAGE_ROWS).await?))
        });
        let rows = found.await;
        Ok::<Markup, Problem>(views::audit(&Trail { asked: listing.asked, rows }, visit.as_of))
    };
    visit.show(&app, view, body).await
}
