//! Streams and relays.

use maud::{Markup, html};
use waybill_api::history::HistoryView;
use waybill_api::relays::RelayStatus;
use waybill_api::streams::StreamView;
use waybill_core::history::Measure;

use super::Rows;
use super::hour::Course;
use crate::acts::{self, Act, May, Target};
use crate::address;
use crate::chart::sparkline;
use crate::frame::head;
use crate::icon::Icon;
use crate::parts::{
    Column, Part, Tone, fault, first_run, in_a_terminal, none_by_filter, pager, quoted, section, state, table,
};
use crate::states::of_running;
use crate::text::{NONE, count, foreign, length_ms, or_none};

/// Streams of a tenant, and all relays.
#[derive(Clone, Debug)]
pub struct Streams {
    pub tenant: String,
    pub prefix: String,
    pub is_further: bool,
    pub relays: Part<Vec<RelayStatus>>,
    /// None = it isn't the caller's to see.
    pub history: Option<HistoryView>,
    pub streams: Part<Rows<StreamView>>,
    /// What the caller may do to them.
    pub may: May,
}

/// Streams of a tenant, and all relays.
pub fn streams(view: &Streams) -> Markup {
    let Streams { tenant, prefix, is_further, relays, history, streams, may } = view;
    let append = acts::link(Act::StreamAppend, &Target::of(tenant), *may);
    html! {
        (head(&html! { "Streams and relays" }, &html! { p { "Events by number; relays bring them to brokers." } }, Some(&append)))
        (section("Relays", None, &html! {
            @match relays {
                Err(why) => { (fault("Relays", why)) }
                Ok(relays) if relays.is_empty() => {
                    (first_run(Icon::Relay, "No relay", "A relay brings the events of streams to a broker: [relay.NAME] in the configuration.", None))
                }
                Ok(relays) => { (table("Relays", &RELAY_COLUMNS, &relay_rows(relays, history.as_ref(), *may), None)) }
            }
        }))
        section.section #streams {
            header { h2 { "Streams" } p { "of tenant " (foreign(tenant)) ", by name" } }
            form.section action=(address::STREAMS) {
                input type="hidden" name="tenant" value=(tenant);
                div.filter {
                    input #filter type="text" name="prefix" aria-label="Names begin so" value=(prefix) placeholder="task.node."
                        spellcheck="false" autocapitalize="off" autocomplete="off";
                    button.btn.main { "Filter" }
                }
            }
            @match streams {
                Err(why) => { (fault("Streams", why)) }
                Ok(rows) if rows.items.is_empty() && rows.older.is_none() && prefix.is_empty() && !is_further => {
                    (first_run(Icon::Stream, "No stream yet", "Append an event and its stream shows here at once.",
                        Some("waybill stream append task.node.7 --resource TASK/t-17 --op CREATE --data '{\"name\":\"build\"}'")))
                }
                Ok(rows) if rows.items.is_empty() => {
                    (none_by_filter("stream", prefix, address::STREAMS, rows.older.is_some()))
                    @if let Some(older) = &rows.older { p.more { a href=(older) { "Older" } } }
                }
                Ok(rows) => {
                    (table("Streams", &STREAM_COLUMNS, &stream_rows(&rows.items, *may), Some(&pager(rows.items.len(), rows.older.as_deref()))))
                }
            }
        }
        (in_a_terminal(&command(tenant, prefix)))
    }
}

fn command(tenant: &str, prefix: &str) -> String {
    let mut command = format!("waybill stream list --tenant {}", quoted(tenant));
    if !prefix.is_empty() {
        command.push_str(&format!(" --prefix {}", quoted(prefix)));
    }
    command
}

const RELAY_COLUMNS: [Column; 10] = [
    Column::Text("Name"),
    Column::Text("State"),
    Column::Text("Streams"),
    Column::Number("Behind"),
    Column::Number("Oldest"),
    Column::Text("Hour"),
    Column::Number("Delivered"),
    Column::Number("Refused"),
    Column::Number("Overtaken"),
    Column::Text("Acts"),
];

fn relay_rows(relays: &[RelayStatus], history: Option<&HistoryView>, may: May) -> Markup {
    let number = |value: Option<u64>| value.map_or(NONE.to_owned(), count);
    let lag = |name: &str| history.and_then(|history| Course::with(history, Measure::RelayLagEvents, Some(name)));
    html! { @for relay in relays {
        tr {
            th.nw scope="row" { a href=(address::relay(&relay.name)) { (foreign(&relay.name)) } span.sub { "to " (foreign(&relay.transport)) } }
            td.end {
                (state(of_running(&relay.state, relay.lag_events > 0)))
                @if relay.reason.is_some() { span.sub { (or_none(relay.reason.as_deref())) } }
            }
            td.mono { (foreign(&relay.streams)) span.sub { (count(relay.streams_behind)) " behind" } }
            td.num data-l="behind" { (count(relay.lag_events)) }
            td.num data-l="oldest" { (relay.lag_ms.map_or(NONE.to_owned(), length_ms)) }
            td.opt { @if let Some(lag) = lag(&relay.name) { (sparkline(&lag.values, if relay.lag_events > 0 { Tone::Hold } else { Tone::Rest })) } }
            td.num.opt { (number(relay.delivered)) }
            td.num data-l="refused" { (number(relay.refused)) }
            td.num.opt { (number(relay.overtaken)) }
            td.full { (acts_on(relay, may)) }
        }
    } }
}

/// What can be done to a relay as it stands.
pub(super) fn acts_on(relay: &RelayStatus, may: May) -> Markup {
    let held = if relay.state == "running" { Act::RelayPause } else { Act::RelayResume };
    html! { span.acts { (acts::links(&[held, Act::RelaySeek], &Target::named(&relay.name), may)) } }
}

const STREAM_COLUMNS: [Column; 6] = [
    Column::Text("Name"),
    Column::Number("First kept"),
    Column::Number("Last"),
    Column::Number("Bytes"),
    Column::Number("Readers"),
    Column::Text("Acts"),
];

fn stream_rows(streams: &[StreamView], may: May) -> Markup {
    html! { @for stream in streams {
        tr tabindex="-1" {
            th.mono scope="row" { a href=(address::stream(&stream.tenant, &stream.name)) { (foreign(&stream.name)) } }
            td.num data-l="first" { (count(stream.first_seq.0)) }
            td.num data-l="last" { (count(stream.last_seq.0)) }
            td.num.opt { (count(stream.bytes)) }
            td.num data-l="readers" { (count(stream.readers)) }
            td.full { (acts::link(Act::StreamPurge, &Target::one(&stream.tenant, &stream.name), may)) }
        }
    } }
}
