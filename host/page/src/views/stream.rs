//! One stream: what is kept, who reads it, and a page of its events.

use maud::{Markup, PreEscaped, html};
use waybill_api::instant::Instant;
use waybill_api::streams::StreamDetailView;
use waybill_core::streams::event::{Body, Event};

use super::option;
use crate::acts::{self, Act, May, Target};
use crate::address;
use crate::frame::head;
use crate::icon::Icon;
use crate::parts::{Column, Part, Tone, facts, fault, in_a_terminal, mono, note, of, quoted, section, table};
use crate::text::{count, counted, foreign, or_none, shortened};
use crate::time::AsOf;

/// Letters of a payload beside its event; the terminal shows it whole.
const PAYLOAD_LETTERS: usize = 400;

/// An event as the page shows it.
#[derive(Clone, Debug)]
pub struct EventRow {
    pub seq: u64,
    pub at: Instant,
    pub id: String,
    /// What happened, to what.
    pub op: String,
    pub resource: String,
    /// The beginning of its payload, if that is text.
    pub text: Option<String>,
    pub bytes: u64,
}

impl EventRow {
    /// An event with the beginning of its payload.
    pub fn new(seq: u64, event: &Event) -> Self {
        let text = match &event.body {
            Body::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Body::None | Body::Any { .. } | Body::Blob { .. } => None,
        };
        Self {
            seq,
            at: event.ts.into(),
            id: event.id.to_string(),
            op: event.op.name().map_or_else(|| event.op.0.to_string(), str::to_owned),
            resource: format!("{}/{}", event.resource_type, event.resource_id),
            text: text.map(|text| shortened(text, PAYLOAD_LETTERS)),
            bytes: u64::try_from(event.body.len()).unwrap_or(u64::MAX),
        }
    }
}

/// A page of a stream.
#[derive(Clone, Debug)]
pub struct EventRows {
    pub items: Vec<EventRow>,
    /// Address of those behind them.
    pub next: Option<String>,
}

/// One stream; its events stand by themselves.
#[derive(Clone, Debug)]
pub struct Stream {
    pub detail: StreamDetailView,
    /// The number that the page begins with, as it was asked for; empty = the latest.
    pub from: String,
    pub events: Part<EventRows>,
}

pub fn stream(view: &Stream, may: May, as_of: AsOf) -> Markup {
    let Stream { detail, from, events } = view;
    let stream = &detail.stream;
    let under = html! { p.meta { span { "tenant " (foreign(&stream.tenant)) } span { "shard " (detail.shard) @if !detail.here { ", owned by another host" } } } };
    let further = Target { stream: stream.name.clone(), ..Target::of(&stream.tenant) };
    let on_it = html! {
        (acts::link(Act::StreamAppend, &further, may))
        (acts::link(Act::StreamPurge, &Target::one(&stream.tenant, &stream.name), may))
    };
    html! {
        div { p.crumb { a href=(address::with(address::STREAMS, &[("tenant", &stream.tenant)])) { "Streams and relays" } } (head(&html! { (foreign(&stream.name)) }, &under, Some(&on_it))) }
        (answer(detail))
        div.cols {
            div.s8.stack { (section("Events", Some(&html! { "by number" }), &html! { (begin(detail, from)) (page(events, as_of)) })) }
            div.s4.stack {
                (section("Kept", None, &html! { div.sheet.pad { (facts(&rows(detail))) } }))
                @if !detail.relays.is_empty() { (section("Relays", None, &relays(detail))) }
            }
        }
        (in_a_terminal(&command(detail, from)))
    }
}

fn command(detail: &StreamDetailView, from: &str) -> String {
    let after = from.parse::<u64>().ok().and_then(|from| from.checked_sub(1));
    let after = after.map_or(String::new(), |after| format!(" --after {after}"));
    format!("waybill stream read {}{}{after}", quoted(&detail.stream.name), option("tenant", &detail.stream.tenant))
}

/// How many events there are.
fn kept(detail: &StreamDetailView) -> u64 {
    (detail.stream.last_seq.0 + 1).saturating_sub(detail.stream.first_seq.0)
}

fn answer(detail: &StreamDetailView) -> Markup {
    let furthest = detail.relays.iter().max_by_key(|relay| detail.stream.last_seq.0.saturating_sub(relay.upto.0));
    let behind = furthest.map_or(0, |relay| detail.stream.last_seq.0.saturating_sub(relay.upto.0));
    let (tone, shape) = if behind > 0 { (Tone::Hold, Icon::Retry) } else { (Tone::Ok, Icon::Done) };
    let text = html! {
        b { (counted(kept(detail), "number is", "numbers are")) " kept, " (count(detail.stream.first_seq.0)) " to " (count(detail.stream.last_seq.0)) "." }
        " " (counted(detail.stream.readers, "subscription names", "subscriptions name")) " it at this host."
        @if let Some(relay) = furthest.filter(|_| behind > 0) { " Relay " (foreign(&relay.relay)) " is " (counted(behind, "event", "events")) " behind here." }
    };
    note(tone, shape, &text, None)
}

fn rows(detail: &StreamDetailView) -> Vec<(&'static str, Markup)> {
    vec![
        ("First kept", of(count(detail.stream.first_seq.0))),
        ("Last", of(count(detail.stream.last_seq.0))),
        ("Bytes, ever", of(count(detail.stream.bytes))),
        ("Known elsewhere to", of(count(detail.named_to.0))),
        ("Deletes dropped to", if detail.purged.0 == 0 { of("none") } else { of(count(detail.purged.0)) }),
        ("Settings", mono(detail.settings.as_deref())),
        ("Readers here", of(count(detail.stream.readers))),
    ]
}

fn relays(detail: &StreamDetailView) -> Markup {
    let columns = [Column::Text("Relay"), Column::Number("Settled up to"), Column::Number("Behind")];
    let rows = html! { @for relay in &detail.relays {
        tr {
            th scope="row" { a href=(address::relay(&relay.relay)) { (foreign(&relay.relay)) } }
            td.num data-l="settled" { (count(relay.upto.0)) }
            td.num data-l="behind" { (count(detail.stream.last_seq.0.saturating_sub(relay.upto.0))) }
        }
    } };
    table("Relays", &columns, &rows, None)
}

/// Where the page begins.
fn begin(detail: &StreamDetailView, from: &str) -> Markup {
    let StreamDetailView { stream, .. } = detail;
    let first = stream.first_seq.0.to_string();
    let way = |from: &str| {
        address::with(address::STREAM, &[("tenant", &stream.tenant), ("name", &stream.name), ("from", from)])
    };
    html! {
        form.section action=(address::STREAM) {
            input type="hidden" name="tenant" value=(stream.tenant);
            input type="hidden" name="name" value=(stream.name);
            div.filter {
                input type="text" name="from" inputmode="numeric" aria-label="From this number on" value=(from) placeholder=(first) autocomplete="off";
                button.btn { "From this number" }
            }
            p.chips { a.chip href=(way(&first)) { "the earliest" } a.chip href=(way("")) { "the latest" } }
        }
    }
}

const COLUMNS: [Column; 4] =
    [Column::Number("No."), Column::Text("What"), Column::Text("Payload"), Column::Number("At")];

fn page(events: &Part<EventRows>, as_of: AsOf) -> Markup {
    let events = match events {
        Err(why) => return fault("The events", why),
        Ok(events) => events,
    };
    if events.items.is_empty() {
        return html! { div.sheet.empty { p.t { "Nothing is there" } p { "No event has this number or a later one." } } };
    }
    let rows = html! { @for event in &events.items {
        tr tabindex="-1" {
            th.num.mono scope="row" { (count(event.seq)) }
            td { (foreign(&event.op)) " " span.mono { (foreign(&event.resource)) } span.sub.mono { (foreign(&shortened(&event.id, 40))) } }
            td.full.mono { (text_of(event)) span.sub { (count(event.bytes)) " bytes" } }
            td.num.nw { (as_of.at(event.at)) }
        }
    } };
    let foot = html! {
        span { (events.items.len()) " shown" }
        @if let Some(next) = &events.next { span.acts { a href=(next) rel="next" { "Newer" } } }
    };
    table("Events", &COLUMNS, &rows, Some(&foot))
}

fn text_of(event: &EventRow) -> Markup {
    match &event.text {
        Some(text) => html! { (foreign(text)) },
        None if event.bytes == 0 => or_none(None),
        None => PreEscaped("no text".to_owned()),
    }
}
