//! What holds messages back.

use maud::{Markup, html};
use waybill_api::history::{Changed, HistoryView};
use waybill_api::status::BlockedView;
use waybill_core::history::Measure;
use waybill_core::outbox::owner::WaitKind;

use super::causes::{what_happens, why_held};
use super::hour::{Changes, Course, drawn};
use super::option;
use crate::address::{self, condition};
use crate::frame::head;
use crate::icon::Icon;
use crate::parts::{Column, Part, State, Tone, fault, first_run, in_a_terminal, note, section, state, table, tabs};
use crate::text::{count, counted, foreign, or_none};
use crate::time::AsOf;

/// Rows that one page shows, the longest held first; the terminal shows all.
const ROWS_MAX: usize = 200;

/// What holds messages back.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// Of a token of several tenants, the one that is looked at; else empty.
    pub tenant: String,
    /// Only what is held like this; empty = all.
    pub kind: String,
    /// The longest held first.
    pub rows: Part<Vec<BlockedView>>,
    /// None = they aren't the caller's to see.
    pub history: Option<HistoryView>,
    pub changes: Part<Changed>,
}

/// What holds messages back.
pub fn blocked(view: &Blocked, as_of: AsOf) -> Markup {
    let Blocked { tenant, kind, rows, history, changes } = view;
    let items = changes.as_ref().map_or(&[][..], |changed| changed.items.as_slice());
    let changes = Changes::new(items, history.as_ref().map(|history| history.from));
    html! {
        (head(&html! { "Blocked" }, &html! { p { "What holds messages back, the longest held first. Nothing of it uses up an attempt." } }, None))
        @match rows {
            Err(why) => { (fault("What holds messages back", why)) }
            Ok(rows) if rows.is_empty() => {
                (first_run(Icon::Done, "Nothing holds messages back", "Every message goes as soon as it is its turn.", None))
            }
            Ok(rows) => {
                (answer(rows, &changes, as_of))
                (kinds(rows, tenant, kind))
                @let wanted: Vec<&BlockedView> = rows.iter().filter(|hold| kind.is_empty() || hold.kind.as_str() == kind).collect();
                @if wanted.is_empty() { (nothing_of(kind, tenant)) } @else { (listed(&wanted, as_of)) }
            }
        }
        @if let Some(history) = history { (hour(history, &changes, as_of)) }
        (in_a_terminal(&format!("waybill outbox blocked{}", option("tenant", tenant))))
    }
}

/// What is so, since when, and what changed before it began.
fn answer(rows: &[BlockedView], changes: &Changes<'_>, as_of: AsOf) -> Markup {
    let waiting: u64 = rows.iter().map(|hold| hold.waiting).sum();
    let things = u64::try_from(rows.len()).unwrap_or(u64::MAX);
    let longest = rows.iter().min_by_key(|hold| hold.since.0);
    let by_hand = rows.iter().filter(|hold| hold.until.is_none() && hold.kind != WaitKind::Rate).count();
    let text = html! {
        b { (counted(things, "thing holds", "things hold")) " " (counted(waiting, "message", "messages")) " back." }
        @if let Some(longest) = longest {
            " The longest for " (as_of.ago(longest.since)) ", since " (as_of.at(longest.since)) ". " (changes.before(longest.since))
        }
        @if by_hand == 0 { " All of it is tried again by itself." }
        @else { " " (by_hand) " of them have no next try: what each waits for stands below." }
    };
    note(Tone::Hold, Icon::Block, &text, None)
}

/// Ways to look at one kind alone.
fn kinds(rows: &[BlockedView], tenant: &str, present: &str) -> Markup {
    let of = |kind: &str| address::with(address::BLOCKED, &[("tenant", tenant), ("kind", kind)]);
    let mut ways = vec![("All", of(""), present.is_empty())];
    for kind in WaitKind::ALL {
        if rows.iter().any(|hold| hold.kind == kind) {
            ways.push((kind.as_str(), of(kind.as_str()), kind.as_str() == present));
        }
    }
    tabs("Held by", &ways)
}

fn nothing_of(kind: &str, tenant: &str) -> Markup {
    html! {
        div.sheet.empty {
            p.t { "Nothing is held by " code { (foreign(kind)) } }
            p { a href=(address::with(address::BLOCKED, &[("tenant", tenant)])) { "Look at all that is held" } }
        }
    }
}

const COLUMNS: [Column; 6] = [
    Column::Text("What"),
    Column::Text("Held"),
    Column::Text("Why, and what happens by itself"),
    Column::Number("Waiting"),
    Column::Text("Since"),
    Column::Text("Next try"),
];

fn listed(rows: &[&BlockedView], as_of: AsOf) -> Markup {
    let shown = html! { @for hold in rows.iter().take(ROWS_MAX) {
        tr tabindex="-1" {
            td.end { (state(held(hold.kind))) }
            th scope="row" {
                span.mono { (foreign(&hold.subject)) }
                span.sub { (or_none(hold.transport.as_deref())) " · tenant " (foreign(hold.tenant.as_deref().unwrap_or("all"))) }
            }
            td.full { (why_held(hold)) span.sub { (what_happens(hold, as_of)) } }
            td.num data-l="waiting" { a href=(waiting(hold)) { (count(hold.waiting)) } }
            td.nw data-l="since" { (as_of.at(hold.since)) span.sub { (as_of.ago(hold.since)) } }
            td.nw data-l="next try" { (as_of.maybe(hold.until)) }
        }
    } };
    let left = rows.len().saturating_sub(ROWS_MAX);
    let foot = (left > 0).then(|| html! { span { (ROWS_MAX) " shown; the terminal shows the other " (left) } });
    table("Blocked", &COLUMNS, &shown, foot.as_ref())
}

fn held(kind: WaitKind) -> State<'static> {
    let (tone, shape) = match kind {
        WaitKind::Paused => (Tone::Rest, Icon::Pause),
        WaitKind::Rate | WaitKind::Schedule | WaitKind::Turn => (Tone::Rest, Icon::Wait),
        WaitKind::Retry | WaitKind::Trial => (Tone::Hold, Icon::Retry),
        WaitKind::NoRoute => (Tone::Hold, Icon::Warn),
        WaitKind::Key | WaitKind::Destination | WaitKind::Transport | WaitKind::Unclaimed => (Tone::Hold, Icon::Block),
    };
    State::new(tone, shape, kind.as_str())
}

/// The messages that wait for it.
fn waiting(hold: &BlockedView) -> String {
    let mut filter = match hold.kind {
        WaitKind::Key => condition("key", &hold.subject),
        kind => condition("waits", kind.as_str()),
    };
    if let Some(tenant) = &hold.tenant {
        filter = format!("{} {filter}", condition("tenant", tenant));
    }
    address::with(address::MESSAGES, &[("filter", &filter)])
}

/// How much waited over the hour.
fn hour(history: &HistoryView, changes: &Changes<'_>, as_of: AsOf) -> Markup {
    let course = |measure| Course::of(history, measure).filter(Course::is_known);
    let Some(held_back) = course(Measure::Blocked) else { return html! {} };
    let waiting = course(Measure::Waiting);
    let beside = waiting.as_ref().map(|course| ("in the order", course));
    let chart = drawn(("Held back", Tone::Hold), ("held back", &held_back), beside, (history, changes.marks(), as_of));
    section("The last hour", None, &html! { div.sheet.charts { (chart) } })
}
