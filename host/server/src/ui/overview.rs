//! The overview: what is asked for it, part by part.

use axum::extract::State;
use axum::response::Response;
use waybill_api::status::CheckStatus;
use waybill_core::audit::AuditQuery;
use waybill_core::ids::Tenant;
use waybill_page::Markup;
use waybill_page::frame::Place;
use waybill_page::views::{self, Overview};

use super::visit::{View, Visit, verdict};
use crate::app::App;
use crate::auth::Permission;
use crate::limits::PAGE_CHANGES;
use crate::problem::Problem;
use crate::routes::query::query;
use crate::routes::{outbox, system, transports};

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
    let changes = async {
        let wanted = AuditQuery { tenant: tenant.cloned(), ..AuditQuery::default() };
        Ok::<_, Problem>(app.service.audit(&wanted, None, PAGE_CHANGES).await?.items)
    };
    let (mut checks, verdict, groups, blocked, stats, transports, changes) = tokio::join!(
        system::checks(app),
        verdict(app),
        visit.part(groups),
        visit.part(outbox::holds(app, caller, tenant)),
        visit.part(app.service.stats(tenant)),
        visit.part(shown),
        visit.part_for(Permission::Operate, changes),
    );
    if !caller.sees_all() {
        checks.iter_mut().for_each(|check| check.detail.clear());
    }
    // What is well needs no words.
    checks.iter_mut().filter(|check| check.status == CheckStatus::Ok).for_each(|check| check.detail.clear());
    // How many sagas run is told of the whole host.
    let sagas = app.sagas.as_ref().filter(|_| caller.sees_all()).map(|sagas| sagas.saga_stats());
    Overview { checks, verdict, groups, blocked, stats, transports, sagas, changes }
}
