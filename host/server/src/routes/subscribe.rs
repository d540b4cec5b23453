//! `/v1/subscribe`: events as they come, as server-sent events.

use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use waybill_api::streams::{Ticket, TicketRequest};
use waybill_core::port::service::streams::{Start, SubscribeRequest, Subscribed};
use waybill_core::time::UnixMillis;

use super::json;
use super::query::{SubscribeQuery, query};
use super::streams::service;
use crate::app::App;
use crate::body;
use crate::caller::{Caller, now};
use crate::limits::{CURSOR_BYTES_MAX, TICKET_TIME};
use crate::listen::named_page;
use crate::openapi::Problems;
use crate::problem::Problem;
use crate::progress::Cutter;
use crate::subscribe::feed::Feed;
use crate::subscribe::reader::Reader;
use crate::subscribe::{self, selector};

/// `cursor=` of who wants new events only.
const LATEST: &str = "latest";

/// Subscribe to events
///
/// What is stored, then what comes, without gap or repeat: an event of server-sent events for each, `id:` with the cursor behind it,
/// and one `data:` line with its envelope. A comment comes every 15 s when nothing else does. At the end an event `error` says why, and the
/// connection closes: a client resumes with its last cursor, as a browser's EventSource does by itself where it shows no ticket. A stream
/// that isn't there yet is waited for.
#[utoipa::path(get, path = "/v1/subscribe", tag = "streams", operation_id = "subscribe",
    params(
        SubscribeQuery,
        ("last-event-id" = Option<String>, Header, description = "The `id:` of the last event that was received."),
    ),
    responses(
        (status = 200, description = "Events without an end.", content_type = "text/event-stream", body = String),
        Problems,
    ),
    extensions(("x-waybill-permission" = json!("events"))))]
pub(crate) async fn subscribe(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    request: Request,
) -> Result<Response, Problem> {
    let asked: SubscribeQuery = query(&uri)?;
    let what = selected(&caller, &asked.selector)?;
    let tenant = caller.own(asked.tenant.as_deref())?;
    let start = start(request.headers(), asked.cursor)?;
    let place = subscribe::place(&app, &caller.0)?;
    let tells_start = start == Start::Latest;
    let draining = app.draining.subscribe();
    let subscription = service(&app)?.subscribe(SubscribeRequest { tenant, what, start, replay_events: 0 }).await?;
    let cutter = request.extensions().get::<Cutter>().cloned();
    let mut answer =
        Feed { reader: Reader::new(subscription, caller.0, app.auth.clone(), draining, cutter, place), tells_start }
            .answer();
    if let Some(page) = named_page(request.headers(), &app.cors_origins) {
        answer.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page.clone());
        answer.headers_mut().insert(header::VARY, HeaderValue::from_static("origin"));
    }
    Ok(answer)
}

/// What a selector names, if the caller may read it.
fn selected(caller: &Caller, text: &str) -> Result<Subscribed, Problem> {
    let what = selector::read(text)?;
    subscribe::admit(caller, &what)?;
    Ok(what)
}

/// A header that an EventSource sends when it resumes knows more than the address that it was opened with.
fn start(headers: &HeaderMap, cursor: Option<String>) -> Result<Start, Problem> {
    let refuse = |field: &str, detail: String| Err(Problem::invalid(detail).at(field));
    let (field, text) = match headers.get("last-event-id") {
        Some(value) => match value.to_str() {
            Ok(text) => ("last-event-id", text.to_owned()),
            Err(_) => return refuse("last-event-id", "last-event-id isn't the id of an event".to_owned()),
        },
        None => ("cursor", cursor.unwrap_or_default()),
    };
    match text.as_str() {
        "" => Ok(Start::Earliest),
        LATEST => Ok(Start::Latest),
        long if long.len() > CURSOR_BYTES_MAX => {
            refuse(field, format!("{field} has {} bytes, at most {CURSOR_BYTES_MAX} are taken", long.len()))
        }
        _ => Ok(Start::Cursor(text)),
    }
}

/// Get a ticket for a subscription
///
/// For browsers, whose EventSource can't send a token: who has one asks with it and opens
/// `/v1/subscribe?selector=...&ticket=...`. A ticket is good once, for 60 s, for this selector, at this host. A subscription that breaks off
/// needs a new one.
#[utoipa::path(post, path = "/v1/subscribe/tickets", tag = "streams", operation_id = "ticket",
    request_body = TicketRequest,
    responses((status = 201, description = "The ticket.", body = Ticket), Problems),
    extensions(("x-waybill-permission" = json!("events"))))]
pub(crate) async fn ticket(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: TicketRequest = body::json(&app, request).await?;
    selected(&caller, &asked.selector)?;
    let tenant = caller.own(asked.tenant.as_deref())?;
    let time = u64::try_from(TICKET_TIME.as_millis()).unwrap_or(u64::MAX);
    let expires_at = UnixMillis(now().0.saturating_add(time));
    let ticket = subscribe::ticket(&app, &caller.0, &tenant, &asked.selector)?;
    let (selector, tenant) = (asked.selector, tenant.to_string());
    json(StatusCode::CREATED, &Ticket { ticket, selector, tenant, expires_at: expires_at.into() })
}
