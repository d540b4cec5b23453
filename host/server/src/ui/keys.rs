//! Idempotency keys: the list, and one.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use waybill_api::idempotency::KeyView;
use waybill_core::idempotency::EntryFilter;
use waybill_core::ids::Tenant;
use waybill_core::port::query::Page;
use waybill_page::Markup;
use waybill_page::address;
use waybill_page::frame::Place;
use waybill_page::views::{self, Keys};

use super::lists::{ListAsked, Listing};
use super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::limits::PAGE_ROWS;
use crate::problem::Problem;
use crate::routes::idempotency as key_routes;
use crate::routes::query::query;

/// What the address says: a list, or one key.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct KeysAsked {
    tenant: Option<String>,
    filter: String,
    after: Option<String>,
    key: String,
}

/// The list of keys, or one of them.
pub(super) async fn keys(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Idempotency, title: "Idempotency keys", needs: Permission::Read };
    let body = async {
        let asked: KeysAsked = query(&visit.uri)?;
        if !asked.key.is_empty() {
            let named = asked.tenant.as_deref().filter(|name| !name.is_empty());
            let found = key_routes::shown(&app, &visit.caller, named, &asked.key).await?;
            return Ok(views::idempotency_key(&found, visit.may(), visit.as_of));
        }
        let KeysAsked { tenant, filter, after, .. } = asked;
        let list = ListAsked { tenant, filter, after, ..ListAsked::default() }.readable(EntryFilter::parse);
        let listing = Listing::new(&visit, &list, address::IDEMPOTENCY, "idempotency on the page");
        let found = visit.part(async {
            let (scope, after) = (listing.scope()?, listing.after()?);
            Ok::<_, Problem>(listing.rows(page(&app, &visit, scope, &list.filter, after.as_deref(), PAGE_ROWS).await?))
        });
        let rows = found.await;
        Ok::<Markup, Problem>(views::keys(&Keys { asked: listing.asked, rows }, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// A page of keys, without their answers.
pub(super) async fn page(
    app: &App,
    visit: &Visit,
    tenant: Option<&Tenant>,
    filter: &str,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page<KeyView>, Problem> {
    let tenant = key_routes::confined(&visit.caller, tenant.map(Tenant::as_str), filter)?;
    let found = app.idempotency.entries(tenant.as_ref(), filter, cursor, limit).await?;
    Ok(Page { items: found.items.into_iter().map(KeyView::brief).collect(), next_cursor: found.next_cursor })
}
