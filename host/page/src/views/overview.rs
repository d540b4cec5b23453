//! The overview: is it ill, since when, what changed?

use maud::{Markup, html};
use waybill_api::dead_letters::DeadGroupView;
use waybill_api::status::{AuditView, BlockedView, Check, CheckStatus, OutboxStats};
use waybill_api::transports::TransportView;
use waybill_core::port::dead::DeadKind;
use waybill_core::port::saga::SagaStats;

use crate::address::{self, condition};
use crate::frame::Verdict;
use crate::icon::{self, Icon};
use crate::live::{self, number};
use crate::parts::{Column, Part, State, Tone, fault, first_run, in_a_terminal, section, state, table};
use crate::states::{of_check, of_transport};
use crate::text::{NONE, count, counted, foreign, length_ms, or_none, shortened};
use crate::time::AsOf;

/// Causes of dead letters that the overview shows, the largest first; and holds, those with most messages first.
const CAUSES_MAX: usize = 4;
/// Letters of an error beside others.
const ERROR_LETTERS: usize = 200;

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
    pub changes: Part<Vec<AuditView>>,
}

/// Depths of all tenants and transports that are shown.
#[derive(Default)]
struct Depth {
    ready: u64,
    leased: u64,
    parked: u64,
    scheduled: u64,
    dead: u64,
    oldest_ms: Option<u64>,
}

impl Depth {
    fn of<'a>(rows: impl Iterator<Item = &'a OutboxStats>) -> Self {
        rows.fold(Self::default(), |sum, row| Self {
            ready: sum.ready + row.ready,
            leased: sum.leased + row.leased,
            parked: sum.parked + row.parked,
            scheduled: sum.scheduled + row.scheduled,
            dead: sum.dead + row.dead,
            oldest_ms: sum.oldest_ms.max(row.oldest_ready_ms),
        })
    }
}

pub fn overview(view: &Overview, as_of: AsOf) -> Markup {
    html! {
        (verdict(view, as_of))
        (section("What needs you", Some(&html! { "worst first" }), &causes(view, as_of)))
        div.cols {
            div.s8.stack { (section("Transports", None, &transports(view))) (beside(view)) }
            div.s4.stack { (section("What changed", None, &changes(view, as_of))) }
        }
        (in_a_terminal("waybill status"))
    }
}

fn verdict(view: &Overview, as_of: AsOf) -> Markup {
    let needs = needs(view);
    let title = match (view.verdict, needs) {
        (Verdict::NotReady, _) => "Not ready".to_owned(),
        (Verdict::Unknown, _) => "The host didn’t say in time whether it is ready".to_owned(),
        (Verdict::Ready | Verdict::Look, 0) => "Ready".to_owned(),
        (Verdict::Ready | Verdict::Look, needs) => {
            format!("Ready, and {} you", counted(needs, "thing needs", "things need"))
        }
    };
    let (shape, class) = match view.verdict {
        Verdict::NotReady => (Icon::Dead, "dead"),
        Verdict::Ready if needs == 0 => (Icon::Done, "ok"),
        Verdict::Ready | Verdict::Look | Verdict::Unknown => (Icon::Warn, "hold"),
    };
    html! {
        section class={ "verdict " (class) } aria-labelledby="v" data-causes=(view.groups.as_ref().map_or(0, Vec::len)) {
            (icon::shape(shape))
            div {
                h1 #v { (title) }
                p {
                    @if let Ok(stats) = &view.stats {
                        @let depth = Depth::of(stats.iter());
                        "Messages: " (number(live::READY, &count(depth.ready))) " ready to go, "
                        (number(live::LEASED, &count(depth.leased))) " being sent, "
                        (number(live::PARKED, &count(depth.parked))) " wait for a retry, "
                        (count(depth.scheduled)) " for their time, " (count(depth.dead)) " are dead. "
                    }
                    "As of " (as_of.at(waybill_api::instant::Instant(as_of.0))) "."
                }
            }
            div.checks {
                @for check in &view.checks {
                    (state(of_check(check.status, &check.name)))
                    @if check.status != CheckStatus::Ok && !check.detail.is_empty() { span.q { (foreign(&check.detail)) } }
                }
            }
        }
    }
}

/// How many causes are shown.
fn needs(view: &Overview) -> u64 {
    let groups = view.groups.as_ref().map_or(0, Vec::len);
    let blocked = view.blocked.as_ref().map_or(0, Vec::len);
    u64::try_from(groups + blocked).unwrap_or(u64::MAX)
}

fn causes(view: &Overview, as_of: AsOf) -> Markup {
    let groups = view.groups.as_deref().unwrap_or_default();
    let mut blocked: Vec<&BlockedView> = view.blocked.as_deref().unwrap_or_default().iter().collect();
    blocked.sort_by_key(|hold| std::cmp::Reverse(hold.waiting));
    html! {
        @if let Err(why) = &view.groups { (fault("Dead letters", why)) }
        @if let Err(why) = &view.blocked { (fault("What holds messages back", why)) }
        @if view.groups.is_ok() && view.blocked.is_ok() && needs(view) == 0 {
            (first_run(Icon::Done, "Nothing needs you", "No dead letter, and nothing holds messages back.", None))
        }
        @if needs(view) > 0 {
            ol.sheet.causes {
                @for group in groups.iter().take(CAUSES_MAX) { (dead(group, as_of)) }
                @for hold in blocked.iter().take(CAUSES_MAX) { (held(hold, as_of)) }
            }
            p.more {
                @if groups.len() > CAUSES_MAX { a href=(address::DEAD_LETTERS) { "All " (groups.len()) " groups of dead letters" } }
                @if blocked.len() > CAUSES_MAX { a href=(address::BLOCKED) { "All " (blocked.len()) " that hold messages back" } }
            }
        }
    }
}

fn dead(group: &DeadGroupView, as_of: AsOf) -> Markup {
    let filter = format!("{} {}", condition("code", &group.code), condition("kind", group.kind.word()));
    let list = address::with(address::DEAD_LETTERS, &[("tenant", &group.tenant), ("filter", &filter)]);
    let word = if group.kind == DeadKind::Saga { "stuck" } else { "dead" };
    html! {
        li {
            div {
                h3 { (state(State::new(Tone::Dead, Icon::Dead, word))) a href=(list) { span.mono { (foreign(&group.topic)) } } }
                p.why {
                    code { (foreign(&group.code)) } " " (foreign(&shortened(&group.signature, ERROR_LETTERS))) ". Tenant " (foreign(&group.tenant)) "."
                    br; span.q { "Nothing mends this by itself." }
                }
            }
            div { p.big { (count(group.count)) } p.q { (word) } }
            div { p.big { (as_of.ago(group.first_at)) } p.q { "since " (as_of.at(group.first_at)) } }
            div.acts { a.btn href=(list) { "Look at the group" } }
        }
    }
}

fn held(hold: &BlockedView, as_of: AsOf) -> Markup {
    html! {
        li {
            div {
                h3 { (state(State::new(Tone::Hold, Icon::Block, hold.kind.as_str()))) a href=(address::BLOCKED) { span.mono { (foreign(&hold.subject)) } } }
                p.why {
                    @if let Some(code) = &hold.code { code { (foreign(code)) } " " }
                    (foreign(&shortened(&hold.reason, ERROR_LETTERS)))
                    @if let Some(transport) = &hold.transport { " Transport " (foreign(transport)) "." }
                    br; span.q { "No attempt is used up." @if let Some(until) = hold.until { " Tried again at " (as_of.at(until)) "." } }
                }
            }
            div { p.big { (count(hold.waiting)) } p.q { "wait" } }
            div { p.big { (as_of.ago(hold.since)) } p.q { "since " (as_of.at(hold.since)) } }
            div.acts { a.btn href=(address::BLOCKED) { "Look" } }
        }
    }
}

const TRANSPORT_COLUMNS: [Column; 7] = [
    Column::Text("Name"),
    Column::Text("State"),
    Column::Number("Ready"),
    Column::Number("Leased"),
    Column::Number("Retry"),
    Column::Number("Scheduled"),
    Column::Number("Oldest"),
];

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
    let rows = html! { @for transport in transports {
        @let depth = Depth::of(stats.iter().filter(|row| row.transport == transport.name));
        @let changes = |name: &str, shown: &str| number(&live::of(name, &transport.name), shown);
        tr {
            th.nw scope="row" {
                a href=(address::PLUGINS) { (foreign(&transport.name)) }
                span.sub { (foreign(&transport.plugin.plugin)) " " (foreign(&transport.plugin.version)) }
            }
            td.end {
                (state(of_transport(transport)))
                @if let Some(detail) = &transport.health_detail { span.sub { (foreign(detail)) } }
            }
            td.num data-l="ready" { (changes(live::READY, &count(depth.ready))) }
            td.num.opt { (changes(live::LEASED, &count(depth.leased))) }
            td.num.opt { (changes(live::PARKED, &count(depth.parked))) }
            td.num.opt { (count(depth.scheduled)) }
            td.num data-l="oldest" { (changes(live::OLDEST, &depth.oldest_ms.map_or(NONE.to_owned(), length_ms))) }
        }
    } };
    html! {
        (table("Transports", &TRANSPORT_COLUMNS, &rows, None))
        @if let Err(why) = &view.stats { (fault("Depths", why)) }
    }
}

fn beside(view: &Overview) -> Markup {
    let Some(sagas) = &view.sagas else { return html! {} };
    section(
        "Beside the outbox",
        None,
        &html! {
            div.sheet.strip {
                a href=(address::SAGAS) {
                    span.q { "Sagas" } b { (number(live::SAGAS_RUNNING, &count(sagas.running))) " running" }
                    span.c-dead[sagas.stuck > 0] { (number(live::SAGAS_STUCK, &count(sagas.stuck))) " stuck" } ", "
                    (number(live::SAGAS_PAUSED, &count(sagas.paused))) " paused"
                }
            }
        },
    )
}

fn changes(view: &Overview, as_of: AsOf) -> Markup {
    match &view.changes {
        Err(why) => fault("What changed", why),
        Ok(lines) if lines.is_empty() => {
            first_run(Icon::Audit, "Nothing changed yet", "Acts of people and of the host show here.", None)
        }
        Ok(lines) => html! {
            ol.sheet.log { @for line in lines {
                li {
                    span {}
                    span.q { (as_of.at(line.at)) }
                    span { (foreign(&line.kind)) " " code { (foreign(&shortened(&line.object, 60))) } " by " b { (foreign(&line.actor)) } @if line.tenant.is_some() { ", tenant " (or_none(line.tenant.as_deref())) } }
                }
            } }
            p.more { a href=(address::AUDIT) { "Audit" } }
        },
    }
}
