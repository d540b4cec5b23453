//! The overview: what is asked for it, part by part.

use axum::extract::State;
use axum::response::Response;
use waybill_api::status::CheckStatus;
use waybill_core::ids::Tenant;
use waybill_page::Markup;
use waybill_page::frame::Place;
use waybill_page::views::{self, Beside, Overview};

use super::approvals::waiting;
use super::visit::{View, Visit, verdict};
use crate::app::App;
use crate::auth::Permission;
use crate::limits::PAGE_ROWS;
use crate::problem::Problem;
use crate::routes::query::query;
use crate::routes::{inbox, outbox, relays, sources, system, transports};

/// What its address says.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OverviewAsked {
    tenant: Option<String>,
}

pub(super) async fn overview(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Overview, title: "Overview", needs: Permission::Read };
    let body = async {
        let asked: OverviewAsked = query(&visit.uri)?;
        let tenant = visit.scope(asked.tenant.as_deref(), "")?;
        Ok::<Markup, Problem>(views::overview(&parts(&app, &visit, tenant.as_ref()).await, visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// Each part is asked for by itself, all at the same time.
async fn parts(app: &App, visit: &Visit, tenant: Option<&Tenant>) -> Overview {
    let caller = &visit.caller;
    let groups = async { Ok::<_, Problem>(app.service.dead_groups(tenant, "").await?.value) };
    let shown = async { Ok::<_, Problem>(transports::shown(app, caller).await) };
    let (mut checks, verdict, groups, blocked, stats, transports, history, changes, beside) = tokio::join!(
        system::checks(app),
        verdict(app),
        visit.part(groups),
        visit.part(outbox::holds(app, caller, tenant)),
        visit.part(app.service.stats(tenant)),
        visit.part(shown),
        visit.part_for(Permission::Metrics, app.service.history(None)),
        visit.changes(app),
        beside(app, visit, tenant),
    );
    if !caller.sees_all() {
        checks.iter_mut().for_each(|check| check.detail.clear());
    }
    // What is well needs no words.
    checks.iter_mut().filter(|check| check.status == CheckStatus::Ok).for_each(|check| check.detail.clear());
    // How many sagas run is told of the whole host.
    let sagas = app.sagas.as_ref().filter(|_| caller.sees_all()).map(|sagas| sagas.saga_stats());
    Overview { checks, verdict, groups, blocked, stats, transports, sagas, history, changes, beside, may: visit.may() }
}

/// The parts of what the host may not have: without it they are left out.
async fn beside(app: &App, visit: &Visit, tenant: Option<&Tenant>) -> Beside {
    let caller = &visit.caller;
    let approvals = async {
        app.sagas.as_ref()?;
        Some(visit.part(waiting(app, visit, tenant, None, PAGE_ROWS)).await)
    };
    let sources = async {
        app.inbound.as_ref()?;
        Some(visit.part(sources::shown(app, caller)).await)
    };
    let inbox = async {
        app.inbound.as_ref()?;
        let stats = async { Ok::<_, Problem>(inbox::service(app)?.inbox_stats(tenant).await?) };
        Some(visit.part(stats).await)
    };
    let relays = async {
        app.streams.as_ref()?;
        Some(visit.part(relays::shown(app, caller)).await)
    };
    let (approvals, sources, inbox, relays) = tokio::join!(approvals, sources, inbox, relays);
    Beside { approvals, sources, inbox, relays }
}
