//! The overview: is it ill, since when, what changed?

use maud::{Markup, html};
use waybill_api::dead_letters::DeadGroupView;
use waybill_api::history::{Changed, HistoryView};
use waybill_api::inbox::InboxStats;
use waybill_api::instant::Instant;
use waybill_api::relays::RelayStatus;
use waybill_api::sagas::SagaView;
use waybill_api::sources::SourceView;
use waybill_api::status::{BlockedView, Check, CheckStatus, OutboxStats};
use waybill_api::transports::{Breaker, TransportView};
use waybill_core::history::Measure;
use waybill_core::port::saga::SagaStats;

use super::Rows;
use super::causes::{Cause, causes, listed};
use super::hour::{Changes, Course, changed, charts};
use crate::acts::{self, Act, May, Target};
use crate::address;
use crate::chart::sparkline;
use crate::depth::Depth;
use crate::frame::Verdict;
use crate::icon::{self, Icon};
use crate::live::{self, number};
use crate::parts::{Column, Part, Tone, fault, first_run, in_a_terminal, section, state, table};
use crate::states::{of_check, of_transport};
use crate::text::{NONE, count, counted, foreign, length_ms};
use crate::time::AsOf;

/// All that the overview shows; each part stands by itself.
#[derive(Clone, Debug)]
pub struct Overview {
    pub checks: Vec<Check>,
    pub verdict: Verdict,
    pub groups: Part<Vec<DeadGroupView>>,
    pub blocked: Part<Vec<BlockedView>>,
    pub stats: Part<Vec<OutboxStats>>,
    pub transports: Part<Vec<TransportView>>,
    /// None = the host runs none, or they aren't the caller's to see.
    pub sagas: Option<SagaStats>,
    pub history: Part<HistoryView>,
    pub changes: Part<Changed>,
    pub beside: Beside,
    /// What the caller may do to transports.
    pub may: May,
}

/// What a host may not have; each part stands by itself.
#[derive(Clone, Debug)]
pub struct Beside {
    /// None = the host runs no sagas.
    pub approvals: Option<Part<Rows<SagaView>>>,
    /// None = the host has no sources.
    pub sources: Option<Part<Vec<SourceView>>>,
    /// None = as of sources.
    pub inbox: Option<Part<InboxStats>>,
    /// None = the host keeps no streams.
    pub relays: Option<Part<Vec<RelayStatus>>>,
}

pub fn overview(view: &Overview, as_of: AsOf) -> Markup {
    let items = view.changes.as_ref().map_or(&[][..], |changed| changed.items.as_slice());
    let changes = Changes::new(items, view.history.as_ref().ok().map(|history| history.from));
    let all = causes(view, as_of);
    html! {
        (verdict(view, &all, as_of))
        (section("What needs you", Some(&html! { "worst first" }), &listed(view, &all, &changes, as_of)))
        (charts(&view.history, &changes, as_of))
        div.cols {
            div.s8.stack { (section("Transports", None, &transports(view))) }
            div.s4.stack { (section("What changed", None, &changed(&view.changes, &changes, as_of))) }
        }
        (beside(view, as_of))
        (in_a_terminal("waybill status"))
    }
}

fn verdict(view: &Overview, all: &[Cause<'_>], as_of: AsOf) -> Markup {
    let title = match (view.verdict, all.len()) {
        (Verdict::NotReady, _) => "Not ready".to_owned(),
        (Verdict::Unknown, _) => "The host didn’t say in time whether it is ready".to_owned(),
        (Verdict::Ready | Verdict::Look, 0) => "Ready".to_owned(),
        (Verdict::Ready | Verdict::Look, 1) => "Ready, and one thing needs you".to_owned(),
        (Verdict::Ready | Verdict::Look, many) => format!("Ready, and {} things need you", in_words(many)),
    };
    let (shape, class) = match view.verdict {
        Verdict::NotReady => (Icon::Dead, "dead"),
        Verdict::Ready if all.is_empty() => (Icon::Done, "ok"),
        Verdict::Ready | Verdict::Look | Verdict::Unknown => (Icon::Warn, "hold"),
    };
    html! {
        section class={ "verdict " (class) } aria-labelledby="v" data-causes=(all.len()) {
            (icon::shape(shape))
            div { h1 #v { (title) } p { (sentence(view, all, as_of)) "As of " (as_of.at(Instant(as_of.0))) "." } }
            div.checks {
                @for check in &view.checks {
                    (state(of_check(check.status, &check.name)))
                    @if check.status != CheckStatus::Ok && !check.detail.is_empty() { span.q { (foreign(&check.detail)) } }
                }
            }
        }
    }
}

/// What is so, and since when.
fn sentence(view: &Overview, all: &[Cause<'_>], as_of: AsOf) -> Markup {
    let delivered = view.history.as_ref().ok().and_then(|history| Course::of(history, Measure::Delivered));
    let rate = delivered.map(Course::into_rate).and_then(|course| Some((course.now()?, course.unit)));
    let stuck = view.sagas.as_ref().map_or(0, |sagas| sagas.stuck);
    let began = all.iter().filter_map(|cause| cause.since()).min_by_key(|since| since.0);
    html! {
        @if let Some((rate, unit)) = rate {
            (counted(rate, "message", "messages")) " a " (if unit == "/s" { "second" } else { "minute" }) @if rate == 1 { " is delivered. " } @else { " are delivered. " }
        }
        @if let Ok(stats) = &view.stats {
            @let depth = Depth::of(stats.iter());
            "Messages: " (number(live::READY, &count(depth.ready))) " ready to go, "
            (number(live::LEASED, &count(depth.leased))) " being sent, "
            (number(live::PARKED, &count(depth.parked))) " wait for a retry"
            @if depth.scheduled > 0 { ", " (count(depth.scheduled)) " for their time" }
            @if depth.dead > 0 { ", " (count(depth.dead)) " are dead" }
            ". "
        }
        @if stuck > 0 { (counted(stuck, "saga is", "sagas are")) " stuck. " }
        @if let Some(began) = began { "It began at " (as_of.at(began)) ", " (as_of.ago(began)) " ago. " }
    }
}

/// A small number as people say it.
fn in_words(number: usize) -> String {
    const WORDS: [&str; 10] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    WORDS.get(number).map_or_else(|| count(u64::try_from(number).unwrap_or(u64::MAX)), |word| (*word).to_owned())
}

const TRANSPORT_COLUMNS: [Column; 9] = [
    Column::Text("Name"),
    Column::Text("State"),
    Column::Number("Ready"),
    Column::Number("Leased"),
    Column::Number("Retry"),
    Column::Number("Dead, 1 h"),
    Column::Number("Oldest"),
    Column::Text("Hour"),
    Column::Text("Acts"),
];

/// What can be done to a transport as it stands.
fn acts_on(transport: &TransportView, may: May) -> Markup {
    let held = if transport.paused { Act::TransportResume } else { Act::TransportPause };
    let one = Target::named(&transport.name);
    html! {
        span.acts {
            (acts::link(held, &one, may))
            @if transport.breaker != Breaker::Closed { (acts::link(Act::TransportProbe, &one, may)) }
        }
    }
}

fn transports(view: &Overview) -> Markup {
    let transports = match &view.transports {
        Err(why) => return fault("Transports", why),
        Ok(transports) if transports.is_empty() => {
            return first_run(
                Icon::Plug,
                "No transport",
                "A transport in the configuration delivers messages: [transport.NAME].",
                None,
            );
        }
        Ok(transports) => transports,
    };
    let stats = view.stats.as_deref().unwrap_or_default();
    let course = |measure: Measure, name: &str| {
        view.history.as_ref().ok().and_then(|history| Course::with(history, measure, Some(name)))
    };
    let rows = html! { @for transport in transports {
        @let depth = Depth::of(stats.iter().filter(|row| row.transport == transport.name));
        @let changes = |name: &str, shown: &str| number(&live::of(name, &transport.name), shown);
        @let dead = course(Measure::Dead, &transport.name);
        @let died = dead.as_ref().map_or(0, Course::sum);
        tr {
            th.nw scope="row" {
                a href=(address::plugin(&transport.name)) { (foreign(&transport.name)) }
                span.sub { (foreign(&transport.plugin.plugin)) " " (foreign(&transport.plugin.version)) }
            }
            td.end {
                (state(of_transport(transport)))
                @if let Some(detail) = &transport.health_detail { span.sub { (foreign(detail)) } }
            }
            td.num data-l="ready" { (changes(live::READY, &count(depth.ready))) }
            td.num.opt { (changes(live::LEASED, &count(depth.leased))) }
            td.num.opt { (changes(live::PARKED, &count(depth.parked))) }
            td.num data-l="dead" {
                @if died > 0 { a.c-dead href=(address::DEAD_LETTERS) { (count(died)) } } @else { (dead.map_or(NONE.to_owned(), |_| count(0))) }
            }
            td.num data-l="oldest" { (changes(live::OLDEST, &depth.oldest_ms.map_or(NONE.to_owned(), length_ms))) }
            td.opt { (hour(transport, died, &course)) }
            td.full { (acts_on(transport, view.may)) }
        }
    } };
    html! {
        (table("Transports", &TRANSPORT_COLUMNS, &rows, None))
        @if let Err(why) = &view.stats { (fault("Depths", why)) }
    }
}

/// The hour of a transport, of what matters most of it: what died, what waits behind a held one, what was delivered.
fn hour(transport: &TransportView, died: u64, course: &impl Fn(Measure, &str) -> Option<Course>) -> Markup {
    let (measure, tone) = match (died, transport.breaker, transport.paused) {
        (1.., ..) => (Measure::Dead, Tone::Dead),
        (_, Breaker::Open | Breaker::HalfOpen, _) => (Measure::Waiting, Tone::Hold),
        (.., true) => (Measure::Waiting, Tone::Rest),
        _ => (Measure::Delivered, Tone::Rest),
    };
    html! { @if let Some(course) = course(measure, &transport.name) { (sparkline(&course.values, tone)) } }
}

/// What stands beside the outbox, each a link.
fn beside(view: &Overview, as_of: AsOf) -> Markup {
    let waits = |stats: &InboxStats| {
        let all = stats.contexts.iter().map(|context| context.unprocessed);
        let oldest = all.clone().filter_map(|waiters| waiters.oldest_at).min_by_key(|at| at.0);
        (all.map(|waiters| waiters.count).sum::<u64>(), oldest)
    };
    let parts = html! {
        @if let Some(sagas) = &view.sagas {
            a href=(address::SAGAS) {
                span.q { "Sagas" } b { (number(live::SAGAS_RUNNING, &count(sagas.running))) " running" }
                span.c-dead[sagas.stuck > 0] { (number(live::SAGAS_STUCK, &count(sagas.stuck))) " stuck" } ", "
                (number(live::SAGAS_PAUSED, &count(sagas.paused))) " paused"
            }
        }
        @if let Some(Ok(rows)) = &view.beside.approvals {
            @let soonest = rows.items.iter().filter_map(|saga| saga.until).min_by_key(|until| until.0);
            a href=(address::APPROVALS) {
                span.q { "Approvals" } b { (rows.items.len()) @if rows.older.is_some() { "+" } " wait" }
                @if let Some(until) = soonest { "the next runs out at " (as_of.at(until)) } @else { "for people" }
            }
        }
        @if let Some(Ok(stats)) = &view.beside.inbox {
            @let (pending, oldest) = waits(stats);
            a href=(address::INBOX) {
                span.q { "Inbox" } b { (count(pending)) " pending" }
                @if let Some(at) = oldest { "oldest " (as_of.ago(at)) } @else { "nothing waits" }
            }
        }
        @if let Some(Ok(relays)) = &view.beside.relays {
            @let behind = relays.iter().filter(|relay| relay.lag_events > 0).count();
            @let events: u64 = relays.iter().map(|relay| relay.lag_events).sum();
            a href=(address::STREAMS) {
                span.q { "Relays" } b { (behind) " of " (relays.len()) " behind" }
                @if events > 0 { span.c-hold { (counted(events, "event", "events")) } " unsent" } @else { "level" }
            }
        }
        a href=(address::IDEMPOTENCY) { span.q { "Idempotency" } b { "Keys" } "what each was answered" }
    };
    section("Beside the outbox", None, &html! { div.sheet.strip { (parts) } })
}
