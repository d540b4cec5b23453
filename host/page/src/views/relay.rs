//! One relay: how far behind, and does it catch up?

use maud::{Markup, html};
use waybill_api::history::{Changed, HistoryView};
use waybill_api::relays::{Overtaken, RelayDetailView, RelayPlace, RelayStatus};
use waybill_core::history::{Measure, STEP};

use super::hour::{Changes, Course, drawn};
use super::streams::acts_on;
use crate::acts::May;
use crate::address;
use crate::frame::head;
use crate::icon::Icon;
use crate::parts::{Column, Part, Tone, facts, fault, first_run, in_a_terminal, note, of, quoted, section, table, tag};
use crate::states::of_running;
use crate::text::{NONE, count, counted, foreign, length_ms};
use crate::time::AsOf;

/// How many points of its lag tell whether it catches up: ten minutes.
const TREND_POINTS: usize = 60;

/// One relay; each part beside it stands by itself.
#[derive(Clone, Debug)]
pub struct Relay {
    pub detail: RelayDetailView,
    /// What retention took before it had it, the first of it.
    pub overtaken: Part<Vec<Overtaken>>,
    /// None = it isn't the caller's to see.
    pub history: Option<HistoryView>,
    pub changes: Part<Changed>,
}

pub fn relay(view: &Relay, may: May, as_of: AsOf) -> Markup {
    let Relay { detail, overtaken, history, changes } = view;
    let RelayDetailView { relay, behind } = detail;
    let items = changes.as_ref().map_or(&[][..], |changed| changed.items.as_slice());
    let changes = Changes::new(items, history.as_ref().map(|history| history.from));
    let lag = history.as_ref().and_then(|history| Course::with(history, Measure::RelayLagEvents, Some(&relay.name)));
    let under = html! {
        p.meta { (tag(of_running(&relay.state, relay.lag_events > 0))) span.mono { (foreign(&relay.streams)) } span { "to " (foreign(&relay.transport)) } }
    };
    html! {
        div { p.crumb { a href=(address::STREAMS) { "Streams and relays" } } (head(&html! { (foreign(&relay.name)) }, &under, Some(&acts_on(relay, may)))) }
        (answer(relay, lag.as_ref()))
        @if let (Some(history), Some(lag)) = (history, lag.as_ref()) { (hour(relay, history, lag, &changes, as_of)) }
        div.cols {
            div.s8.stack {
                (section("Where it is behind", Some(&html! { "at most 100 streams, by name" }), &places(behind)))
                (section("What it never had", Some(&html! { "retention took it first" }), &lost(overtaken, as_of)))
            }
            div.s4.stack { (section("Facts", None, &html! { div.sheet.pad { (facts(&rows(relay))) } })) }
        }
        (in_a_terminal(&format!("waybill relay show {}", quoted(&relay.name))))
    }
}

/// How a lag goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trend {
    /// Level in so many milliseconds, if it goes on so.
    CatchesUp {
        level_in_ms: u64,
    },
    Grows,
    Stays,
    /// Too little is known.
    Unknown,
}

/// By the first and the last of the latest points; as it goes on, so it is taken to go on.
fn trend(points: &[Option<u64>], step_ms: u64) -> Trend {
    let from = points.len().saturating_sub(TREND_POINTS);
    let known: Vec<(u64, u64)> =
        points.iter().zip(0_u64..).skip(from).filter_map(|(point, at)| point.map(|lag| (at, lag))).collect();
    let (Some((began, first)), Some((ended, last))) = (known.first().copied(), known.last().copied()) else {
        return Trend::Unknown;
    };
    if ended == began {
        return Trend::Unknown;
    }
    match first.cmp(&last) {
        std::cmp::Ordering::Less => Trend::Grows,
        std::cmp::Ordering::Equal => Trend::Stays,
        std::cmp::Ordering::Greater => {
            let took = (ended - began).saturating_mul(step_ms);
            Trend::CatchesUp { level_in_ms: last.saturating_mul(took) / (first - last) }
        }
    }
}

fn answer(relay: &RelayStatus, lag: Option<&Course>) -> Markup {
    if relay.lag_events == 0 && relay.state == "running" {
        return note(Tone::Ok, Icon::Done, &html! { b { "Level." } " Every event that it takes is settled." }, None);
    }
    let state = of_running(&relay.state, relay.lag_events > 0);
    let step_ms = u64::try_from(STEP.as_millis()).unwrap_or(u64::MAX);
    let trend = lag.map_or(Trend::Unknown, |lag| trend(&lag.values, step_ms));
    let text = html! {
        b { (counted(relay.lag_events, "event", "events")) " behind" @if let Some(ms) = relay.lag_ms { ", by " (length_ms(ms)) } "." }
        @if let Some(reason) = &relay.reason { " " (foreign(reason)) }
        @match (relay.state.as_str(), trend) {
            ("running", Trend::CatchesUp { level_in_ms }) => { " It catches up: level in about " (length_ms(level_in_ms)) " if it goes on like the last ten minutes." }
            ("running", Trend::Grows) => { " It falls further behind." }
            ("running", Trend::Stays | Trend::Unknown) => { " It goes on by itself." }
            _ => { " It goes on when somebody resumes it; what is unsent is kept as long as its streams keep it." }
        }
    };
    note(state.tone, state.shape, &text, None)
}

fn hour(relay: &RelayStatus, history: &HistoryView, lag: &Course, changes: &Changes<'_>, as_of: AsOf) -> Markup {
    let place = (history, changes.marks(), as_of);
    let late = Course::with(history, Measure::RelayLagMs, Some(&relay.name)).map(|course| {
        let seconds = |ms: &Option<u64>| ms.map(|ms| ms / 1_000);
        Course { values: course.values.iter().map(seconds).collect(), unit: "s" }
    });
    let charts = html! {
        div.sheet.charts {
            (drawn(("Behind, in events", Tone::Hold), ("unsent", lag), None, place))
            @if let Some(late) = &late { (drawn(("Behind, in time", Tone::Hold), ("since the oldest unsent", late), None, place)) }
        }
    };
    section("The last hour", None, &charts)
}

fn rows(relay: &RelayStatus) -> Vec<(&'static str, Markup)> {
    let number = |value: Option<u64>| of(value.map_or(NONE.to_owned(), count));
    vec![
        ("Streams", html! { span.mono { (foreign(&relay.streams)) } }),
        ("Transport", html! { a href=(address::plugin(&relay.transport)) { (foreign(&relay.transport)) } }),
        ("Streams behind", of(count(relay.streams_behind))),
        ("Under way", number(relay.in_flight)),
        ("Delivered", number(relay.delivered)),
        ("Refused", number(relay.refused)),
        ("Overtaken", number(relay.overtaken)),
    ]
}

const PLACE_COLUMNS: [Column; 5] = [
    Column::Text("Stream"),
    Column::Number("Settled up to"),
    Column::Number("Last"),
    Column::Number("Behind"),
    Column::Number("Seeks"),
];

fn places(behind: &[RelayPlace]) -> Markup {
    if behind.is_empty() {
        return first_run(Icon::Done, "It is behind in no stream", "Every event that you may see is settled.", None);
    }
    let rows = html! { @for place in behind {
        tr tabindex="-1" {
            th.mono scope="row" { a href=(address::stream(&place.tenant, &place.stream)) { (foreign(&place.stream)) } span.sub { (foreign(&place.tenant)) } }
            td.num data-l="settled" { (count(place.upto.0)) }
            td.num data-l="last" { (count(place.named_to.0)) }
            td.num data-l="behind" { (count(place.named_to.0.saturating_sub(place.upto.0))) }
            td.num.opt { (count(place.generation)) }
        }
    } };
    table("Where it is behind", &PLACE_COLUMNS, &rows, None)
}

fn lost(overtaken: &Part<Vec<Overtaken>>, as_of: AsOf) -> Markup {
    let overtaken = match overtaken {
        Err(why) => return fault("What it never had", why),
        Ok(overtaken) if overtaken.is_empty() => {
            return first_run(Icon::Done, "It had everything", "Retention took nothing before it was sent.", None);
        }
        Ok(overtaken) => overtaken,
    };
    let columns = [Column::Text("Stream"), Column::Number("From"), Column::Number("To"), Column::Number("Noticed")];
    let rows = html! { @for range in overtaken {
        tr {
            th.mono scope="row" { (foreign(&range.stream)) span.sub { (foreign(&range.tenant)) } }
            td.num data-l="from" { (count(range.from.0)) }
            td.num data-l="to" { (count(range.to.0)) }
            td.num.nw { (as_of.at(range.at)) }
        }
    } };
    table("What it never had", &columns, &rows, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_that_shrinks_says_when_it_is_level() {
        assert_eq!(trend(&[Some(90), None, Some(60)], 10_000), Trend::CatchesUp { level_in_ms: 40_000 });
        assert_eq!(trend(&[Some(9), Some(9)], 10_000), Trend::Stays);
        assert_eq!(trend(&[Some(8), Some(9)], 10_000), Trend::Grows);
        assert_eq!(trend(&[None, Some(9)], 10_000), Trend::Unknown);
        let mut old = vec![Some(5)];
        old.extend(vec![Some(7); TREND_POINTS]);
        assert_eq!(trend(&old, 10_000), Trend::Stays, "what was before the last ten minutes doesn't count");
    }
}
