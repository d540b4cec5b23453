//! `/v1/relays`: what brings events of streams to brokers.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::Uri;
use waybill_api::act_reason::ActReason;
use waybill_api::list::List;
use waybill_api::relays::{Overtaken, RelayDetailView, RelayPlace, RelayStatus, SeekRelay, StreamEnd};
use waybill_core::ids::{RelayName, Tenant};
use waybill_core::port::missing::Missing;
use waybill_core::port::service::streams::{RelayDetail, RelayView, SeekRequest, SeekTo};
use waybill_core::streams::access::StreamRight;
use waybill_core::streams::name::StreamKey;

use super::dead_letters::{act_reason, note};
use super::ok;
use super::query::{Cursors, RangesQuery, page, query};
use super::streams::{named, service};
use crate::app::App;
use crate::body;
use crate::caller::Caller;
use crate::limits::NOTE_BYTES_MAX;
use crate::openapi::Problems;
use crate::problem::Problem;

/// A name that can't be one isn't configured.
fn relay(text: &str) -> Result<RelayName, Problem> {
    RelayName::new(text).map_err(|_| Problem::not_found(Missing::Relay, text))
}

/// List relays
///
/// How far each is, as far as the shards of this host go. A credential of some tenants sees how far each is behind in theirs, and neither
/// why one stands still nor what it did for others.
#[utoipa::path(get, path = "/v1/relays", tag = "relays", operation_id = "listRelays",
    responses((status = 200, description = "The configured relays.", body = List<RelayStatus>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    ok(&List::whole(shown(&app, &caller).await?))
}

/// The relays as a caller may see them.
pub(crate) async fn shown(app: &App, caller: &Caller) -> Result<Vec<RelayStatus>, Problem> {
    let found = service(app)?.relays().await?;
    Ok(found.into_iter().map(|view| seen(caller, view)).collect())
}

/// What a caller may see of a relay. Its reason may name streams and peers of others.
fn seen(caller: &Caller, view: RelayView) -> RelayStatus {
    if caller.sees_all() {
        return view.into();
    }
    RelayStatus::of_tenants(view, |tenant| caller.sees(Some(tenant.as_str())))
}

/// Show a relay
///
/// With the streams in which it is behind, at most 100 of them; a credential of some tenants sees those of its own.
#[utoipa::path(get, path = "/v1/relays/{name}", tag = "relays", operation_id = "showRelay",
    params(("name" = String, Path, description = "Relay.")),
    responses((status = 200, description = "The relay.", body = RelayDetailView), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    ok(&one(&app, &caller, &name).await?)
}

/// A relay as a caller may see it.
pub(crate) async fn one(app: &App, caller: &Caller, name: &str) -> Result<RelayDetailView, Problem> {
    let RelayDetail { view, mut behind } = service(app)?.relay(&relay(name)?).await?;
    behind.retain(|place| may_see(caller, &place.stream));
    Ok(RelayDetailView::new(seen(caller, view), behind))
}

/// List what a relay never had
///
/// Events that retention took before it had sent them, by stream and number.
#[utoipa::path(get, path = "/v1/relays/{name}/overtaken", tag = "relays", operation_id = "listOvertaken",
    params(("name" = String, Path, description = "Relay."), RangesQuery),
    responses((status = 200, description = "A page.", body = List<Overtaken>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn overtaken(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let asked: RangesQuery = query(&uri)?;
    let limit = page(asked.limit)?;
    let relay = relay(&name)?;
    let tenant = caller.confined(asked.tenant.as_deref(), None)?;
    let cursors = Cursors::of("overtaken", tenant.as_ref().map(Tenant::as_str), relay.as_str());
    let inner = cursors.read(asked.cursor.as_deref())?;
    let found = service(&app)?.overtaken(&relay, tenant.as_ref(), inner.as_deref(), limit).await?;
    let next_cursor = cursors.write(found.next_cursor);
    ok(&List { next_cursor, ..List::whole(found.items.into_iter().map(Overtaken::from).collect()) })
}

/// The first ranges that a relay never had, of these tenants.
pub(crate) async fn first_overtaken(
    app: &App,
    name: &str,
    tenant: Option<&Tenant>,
    limit: usize,
) -> Result<Vec<Overtaken>, Problem> {
    let found = service(app)?.overtaken(&relay(name)?, tenant, None, limit).await?;
    Ok(found.items.into_iter().map(Overtaken::from).collect())
}

/// Whether a caller may see something of a stream.
fn may_see(caller: &Caller, stream: &StreamKey) -> bool {
    caller.sees(Some(stream.tenant.as_str())) && caller.0.has(StreamRight::Read, &stream.name)
}

/// Send nothing more
///
/// What is under way ends first. It stays paused when the host starts again.
#[utoipa::path(post, path = "/v1/relays/{name}/pause", tag = "relays", operation_id = "pauseRelay",
    params(("name" = String, Path, description = "Relay.")), request_body = Option<ActReason>,
    responses((status = 200, description = "The relay.", body = RelayStatus), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let reason = act_reason(&app, request).await?;
    let view = service(&app)?.pause_relay(&relay(&name)?, caller.name(), &reason).await?;
    ok(&seen(&caller, view))
}

/// Go on with a relay
///
/// One that was paused, or that a refusal or an overtaken range stopped.
#[utoipa::path(post, path = "/v1/relays/{name}/resume", tag = "relays", operation_id = "resumeRelay",
    params(("name" = String, Path, description = "Relay.")), request_body = Option<ActReason>,
    responses((status = 200, description = "The relay.", body = RelayStatus), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let reason = act_reason(&app, request).await?;
    let view = service(&app)?.resume_relay(&relay(&name)?, caller.name(), &reason).await?;
    ok(&seen(&caller, view))
}

/// Go on elsewhere in a stream
///
/// What is under way there ends first. Backward, events are sent again; forward, they are skipped, which is audited. Where nothing is kept
/// it can't go.
#[utoipa::path(post, path = "/v1/relays/{name}/seek", tag = "relays", operation_id = "seekRelay",
    params(("name" = String, Path, description = "Relay.")), request_body = SeekRelay,
    responses((status = 200, description = "Where it goes on.", body = RelayPlace), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn seek(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let asked: SeekRelay = body::json(&app, request).await?;
    note("reason", &asked.reason, NOTE_BYTES_MAX)?;
    let to = match (asked.after, asked.to) {
        (Some(after), None) => SeekTo::After(after.into()),
        (None, Some(StreamEnd::Earliest)) => SeekTo::Earliest,
        (None, Some(StreamEnd::Latest)) => SeekTo::Latest,
        _ => return Err(Problem::invalid("say either `after` a number or `to` earliest or latest").at("after")),
    };
    let stream = StreamKey { tenant: caller.own(asked.tenant.as_deref())?, name: named("stream", &asked.stream)? };
    let (actor, reason) = (caller.name().to_owned(), asked.reason);
    let request = SeekRequest { relay: relay(&name)?, stream, to, actor, reason };
    ok(&RelayPlace::from(service(&app)?.seek_relay(request).await?))
}
