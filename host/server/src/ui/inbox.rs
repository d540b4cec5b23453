//! The inbox, and one received message.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use waybill_api::inbox::{InboxMessageView, StoredOrder};
use waybill_core::ids::Tenant;
use waybill_core::inbox::filter::StoredFilter;
use waybill_core::port::query::Page;
use waybill_page::Markup;
use waybill_page::address;
use waybill_page::frame::Place;
use waybill_page::views::{self, Inbox, InboxParts, Received};

use super::lists::{ListAsked, Listing};
use super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::limits::PAGE_ROWS;
use crate::problem::Problem;
use crate::routes::query::query;
use crate::routes::{inbox as inbox_routes, sources};

/// What the address says: a list, or one message at a consumer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct InboxAsked {
    tenant: Option<String>,
    filter: String,
    after: Option<String>,
    consumer: String,
    id: String,
}

/// The inbox: its sources, its consumers, what waits; or one received message.
pub(super) async fn inbox(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Inbox, title: "Inbox", needs: Permission::Read };
    let body = async {
        let asked: InboxAsked = query(&visit.uri)?;
        if !asked.id.is_empty() {
            let named = asked.tenant.as_deref().filter(|name| !name.is_empty());
            let status = inbox_routes::known(&app, &visit.caller, named, &asked.consumer, &asked.id).await?;
            let tenant = named.unwrap_or_default().to_owned();
            return Ok(views::received(&Received { status, tenant }, visit.as_of));
        }
        let InboxAsked { tenant, filter, after, .. } = asked;
        let list = ListAsked { tenant, filter, after, ..ListAsked::default() }.readable(StoredFilter::parse);
        let listing = Listing::new(&visit, &list, address::INBOX, "inbox on the page");
        if app.inbound.is_none() {
            let nothing = Inbox { asked: listing.asked, parts: None };
            return Ok::<Markup, Problem>(views::inbox(&nothing, visit.as_of));
        }
        let scope = listing.scope()?;
        let waiting = async {
            let after = listing.after()?;
            let found = stored(&app, &visit, scope, &list.filter, after.as_deref(), PAGE_ROWS).await?;
            Ok::<_, Problem>(listing.rows(found))
        };
        let stats = async { Ok::<_, Problem>(inbox_routes::service(&app)?.inbox_stats(scope).await?) };
        let (sources, stats, waiting) =
            tokio::join!(visit.part(sources::shown(&app, &visit.caller)), visit.part(stats), visit.part(waiting));
        let parts = Some(InboxParts { sources, stats, waiting });
        Ok(views::inbox(&Inbox { asked: listing.asked, parts }, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// A page of stored messages.
pub(super) async fn stored(
    app: &App,
    visit: &Visit,
    tenant: Option<&Tenant>,
    filter: &str,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page<InboxMessageView>, Problem> {
    let (filter, _) = visit.caller.stored(tenant.map(Tenant::as_str), filter)?;
    match filter {
        Some(filter) => Ok(inbox_routes::service(app)?.stored(&filter, StoredOrder::Newest, cursor, limit).await?),
        None => Ok(Page { items: Vec::new(), next_cursor: None }),
    }
}
