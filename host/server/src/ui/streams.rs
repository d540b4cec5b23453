//! Streams and relays: the lists, one stream with its events, one relay.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use waybill_api::streams::{StreamDetailView, StreamView};
use waybill_core::code::Code;
use waybill_core::port::service::streams::EventPiece;
use waybill_core::streams::access::StreamRight;
use waybill_core::streams::envelope;
use waybill_core::streams::name::StreamKey;
use waybill_page::Markup;
use waybill_page::address;
use waybill_page::frame::Place;
use waybill_page::views::{self, EventRow, EventRows, Relay, Rows, Stream, Streams};

use super::visit::{View, Visit};
use crate::app::App;
use crate::auth::Permission;
use crate::limits::PAGE_ROWS;
use crate::problem::Problem;
use crate::routes::query::{Cursors, query};
use crate::routes::{relays, streams as stream_routes};
use crate::subscribe::selector;

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
        let relays = visit.part_for(Permission::Read, relays::shown(&app, &visit.caller));
        let (relays, history) = tokio::join!(relays, visit.hour(&app));
        let shown = Streams {
            may: visit.may(),
            tenant: tenant.to_string(),
            prefix: asked.prefix,
            is_further: asked.after.is_some(),
            relays,
            history,
            streams: found,
        };
        Ok::<Markup, Problem>(views::streams(&shown))
    };
    visit.show(&app, view, body).await
}

/// What the address of one relay says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RelayAsked {
    name: String,
    /// Whose lost events are listed; all that the token names if absent.
    tenant: Option<String>,
}

pub(super) async fn relay(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Streams, title: "Relay", needs: Permission::Read };
    let body = async {
        let asked: RelayAsked = query(&visit.uri)?;
        let detail = relays::one(&app, &visit.caller, &asked.name).await?;
        let scope = visit.scope(asked.tenant.as_deref(), "");
        let overtaken = async { relays::first_overtaken(&app, &asked.name, scope?.as_ref(), PAGE_ROWS).await };
        let (overtaken, history, changes) = tokio::join!(visit.part(overtaken), visit.hour(&app), visit.changes(&app));
        Ok::<Markup, Problem>(views::relay(&Relay { detail, overtaken, history, changes }, visit.may(), visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// What the address of one stream says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StreamAsked {
    tenant: Option<String>,
    name: String,
    /// The number that the page begins with; empty = the latest events.
    from: String,
}

/// One stream with a page of its events.
pub(super) async fn stream(State(app): State<App>, visit: Visit) -> Response {
    let view = View { place: Place::Streams, title: "Stream", needs: Permission::Events };
    let body = async {
        let asked: StreamAsked = query(&visit.uri)?;
        let named = asked.tenant.as_deref().filter(|name| !name.is_empty());
        let stream = stream_routes::readable(&visit.caller, &asked.name, named)?;
        let found = stream_routes::service(&app)?.stream(&stream).await;
        let found = found.map_err(|error| visit.caller.missed(error, named, &stream.tenant))?;
        let detail = StreamDetailView::from(found);
        let events = visit.part(events(&app, &stream, &detail, &asked.from)).await;
        Ok::<Markup, Problem>(views::stream(&Stream { detail, from: asked.from, events }, visit.may(), visit.as_of))
    };
    visit.show(&app, view, body).await
}

/// A page of a stream: from a number on, or the latest.
async fn events(app: &App, stream: &StreamKey, detail: &StreamDetailView, from: &str) -> Result<EventRows, Problem> {
    let (first, last) = (detail.stream.first_seq.0, detail.stream.last_seq.0);
    let rows = u64::try_from(PAGE_ROWS).unwrap_or(u64::MAX);
    let from = match from {
        "" => last.saturating_sub(rows.saturating_sub(1)),
        text => text.trim().parse::<u64>().map_err(|_| {
            Problem::invalid(format!("from takes the number of an event: {first} to {last} are kept")).at("from")
        })?,
    };
    if from > last {
        return Ok(EventRows { items: Vec::new(), next: None });
    }
    // Behind the number before it; from the earliest that is kept where that is gone.
    let after = from.checked_sub(1).filter(|_| from > first).map(|after| after.to_string());
    let found = stream_routes::service(app)?.read_stream(stream, after.as_deref(), rows).await?;
    let items = found.events.iter().map(event_row).collect::<Result<Vec<EventRow>, Problem>>()?;
    let next = items.last().map(|event| event.seq + 1).filter(|_| !found.is_end);
    let next = next.map(|from| {
        let query = [("tenant", stream.tenant.as_str()), ("name", stream.name.as_str()), ("from", &*from.to_string())];
        address::with(address::STREAM, &query)
    });
    Ok(EventRows { items, next })
}

fn event_row(piece: &EventPiece) -> Result<EventRow, Problem> {
    let event = envelope::unpack(&piece.packed).map_err(|error| {
        let text = format!("event {} of {} can't be read", piece.seq, piece.stream);
        Problem::new(Code::STORAGE_CORRUPT, text).caused_by(error.to_string())
    })?;
    Ok(EventRow::new(piece.seq, &event))
}
