//! Sagas: the list, and one with its steps.

use maud::{Markup, PreEscaped, html};
use waybill_api::saga_history::HistoryLine;
use waybill_api::saga_node::SagaNodeView;
use waybill_api::sagas::SagaView;
use waybill_core::saga::state::SagaState;

use super::saga_steps::steps;
use super::saga_ways::ways_out;
use super::{Asked, Rows, Saved};
use crate::acts::{self, Act, May, Target};
use crate::address::{self, condition};
use crate::frame::head;
use crate::icon::Icon;
use crate::list::{Field, list};
use crate::parts::{
    Part, Tone, chip, fault, first_run, id_link, in_a_terminal, none_by_filter, note, of, quoted, section, state, tag,
};
use crate::payload;
use crate::states::of_saga;
use crate::text::{foreign, or_none, shortened};
use crate::time::AsOf;

/// Lines of a history that one page shows, the latest first.
const HISTORY_MAX: usize = 200;
/// Letters of an error or an input beside others.
const BRIEF_LETTERS: usize = 200;

/// The list of sagas.
#[derive(Clone, Debug)]
pub struct Sagas {
    pub asked: Asked,
    pub rows: Part<Rows<SagaView>>,
}

/// The list of sagas.
pub fn sagas(view: &Sagas, as_of: AsOf) -> Markup {
    let asked = &view.asked;
    html! {
        (head(&html! { "Sagas" }, &html! { p { "Newest start first. What is stuck waits for a person; everything else moves by itself." } }, Some(&on_all(asked))))
        (asked.form(address::SAGAS, "state=failed definition=order waiting_for=approval age>1h", as_of))
        p.chips {
            @for (field, value) in [("state", "failed"), ("state", "running"), ("state", "compensating"), ("waiting_for", "approval"), ("state", "paused")] {
                (chip(field, value, &address::with(address::SAGAS, &[("tenant", &asked.tenant), ("filter", &condition(field, value))])))
            }
        }
        @match &view.rows {
            Err(why) => { (fault("Sagas", why)) }
            Ok(rows) if rows.items.is_empty() && rows.older.is_none() && asked.filter.is_empty() && !asked.is_further => {
                (first_run(Icon::Saga, "No saga yet", "Store a definition, start a saga by it, and it shows here at once.",
                    Some("waybill saga define order.toml")))
            }
            Ok(rows) if rows.items.is_empty() => {
                (none_by_filter("saga", &asked.filter, address::SAGAS, rows.older.is_some()))
                @if let Some(older) = &rows.older { p.more { a href=(older) { "Older" } } }
            }
            Ok(rows) => {
                @let shown: Vec<_> = rows.items.iter().map(|saga| saga_row(saga, as_of)).collect();
                (list("Sagas", &FIELDS, &shown, Some(&asked.foot(Saved("sagas"), shown.len(), rows.older.as_deref()))))
            }
        }
        (in_a_terminal(&asked.command("saga list")))
    }
}

/// What can be done to those of them that haven't ended, and the way to a new one.
fn on_all(asked: &Asked) -> Markup {
    let further = [Act::SagaPause, Act::SagaResume, Act::SagaRetry, Act::SagaCancel, Act::SagaKill];
    html! {
        (acts::link(Act::SagaStart, &Target::of(&asked.tenant), asked.may))
        (asked.on_all(&further))
    }
}

/// What can be done to one as it stands; those of a stuck one are among its ways out.
fn acts_on(saga: &SagaView, may: May) -> Option<Markup> {
    if saga.ended_at.is_some() {
        return None;
    }
    let one = Target::one(&saga.tenant, &saga.id);
    let decided: &[Act] = match saga.waiting_for.as_deref() {
        Some("approval") => &[Act::SagaApprove, Act::SagaReject],
        Some(waits) if waits.starts_with("signal") => &[Act::SagaSignal],
        _ => &[],
    };
    let held = if saga.paused.is_some() { Act::SagaResume } else { Act::SagaPause };
    let further: &[Act] = if is_stuck(saga) {
        &[Act::SagaKill]
    } else {
        &[Act::SagaRetry, Act::SagaSkip, Act::SagaCancel, Act::SagaKill]
    };
    Some(html! {
        (acts::links(decided, &one, may))
        (acts::link(held, &one, may))
        (acts::links(further, &one, may))
    })
}

const FIELDS: [Field; 6] = [
    Field::text("Id"),
    Field::text("State").class("end").moves("state"),
    Field::text("Definition").moves("definition"),
    Field::text("Waits for").moves("waits for"),
    Field::text("Tenant").label("tenant").moves("tenant"),
    Field::number("Started"),
];

/// A stuck saga has failed and hasn't ended.
fn is_stuck(saga: &SagaView) -> bool {
    saga.state == SagaState::Failed && saga.ended_at.is_none()
}

fn saga_row(saga: &SagaView, as_of: AsOf) -> [Markup; 6] {
    [
        id_link(&address::saga(&saga.tenant, &saga.id), &saga.id),
        state(of_saga(saga.state, is_stuck(saga))),
        html! { (foreign(&saga.definition)) " " (saga.version) span.sub { (foreign(&shortened(&saga.steps.join(", "), BRIEF_LETTERS))) } },
        html! {
            (or_none(saga.waiting_for.as_deref()))
            @if let Some(code) = &saga.code { span.sub { code { (foreign(code)) } } }
        },
        of(foreign(&saga.tenant)),
        as_of.at(saga.started_at),
    ]
}

/// One saga with its steps.
pub fn saga(saga: &SagaView, may: May, as_of: AsOf) -> Markup {
    let under = html! {
        p.meta {
            (tag(of_saga(saga.state, is_stuck(saga))))
            span {
                "tenant " (foreign(&saga.tenant)) " · started " (as_of.at(saga.started_at))
                @if let Some(at) = saga.ended_at { " · ended " (as_of.at(at)) }
                @if let Some(at) = saga.deadline { " · must be over by " (as_of.at(at)) }
            }
        }
    };
    let history = saga.history.as_deref().unwrap_or_default();
    html! {
        div {
            p.crumb { a href=(address::SAGAS) { "Sagas" } " / " (foreign(&saga.definition)) " " (saga.version) }
            (head(&html! { (foreign(&saga.id)) }, &under, acts_on(saga, may).as_ref()))
        }
        (answer(saga, as_of))
        (ways_out(saga, may))
        @if let Some(root) = &saga.saga {
            (section("Steps", Some(&html! { "each try where it was in time: done is filled, undone outlined" }), &steps(saga, root, as_of)))
            (input(root))
        }
        (section("History", None, &happened(history, saga.history_dropped, as_of)))
        (in_a_terminal(&format!("waybill saga show {} --tenant {}", quoted(&saga.id), quoted(&saga.tenant))))
    }
}

fn answer(saga: &SagaView, as_of: AsOf) -> Markup {
    let why = html! {
        @if let Some(code) = &saga.code { " " code { (foreign(code)) } }
        @if let Some(reason) = &saga.reason { " " (foreign(reason)) }
    };
    let since = html! { @if let Some(since) = saga.since { " since " (as_of.at(since)) ", " (as_of.ago(since)) } };
    let (tone, shape, text) = match (&saga.paused, &saga.waiting) {
        (Some(pause), _) => (
            Tone::Rest,
            Icon::Pause,
            html! {
                b { "Held since " (as_of.at(pause.at)) @if let Some(actor) = &pause.actor { " by " (foreign(actor)) } "." }
                @if let Some(note) = &pause.note { " “" (foreign(note)) "”" }
            },
        ),
        _ if is_stuck(saga) => (Tone::Dead, Icon::Person, html! { b { "Waits for a person" (since) "." } (why) }),
        (None, Some(waiting)) => (Tone::Move, Icon::Wait, html! { b { (foreign(waiting)) } (since) (why) }),
        (None, None) => (
            of_saga(saga.state, false).tone,
            of_saga(saga.state, false).shape,
            html! {
                b { (saga.state.word()) "." } (why)
            },
        ),
    };
    note(tone, shape, &text, None)
}

fn input(root: &SagaNodeView) -> Markup {
    let json = root.input.get();
    let (shown, foot) = if json.len() <= payload::SHOWN_MAX {
        (payload::readable(json), "Numbers are shown as written.")
    } else {
        (payload::raw(json.as_bytes()), "The beginning of it; the terminal shows the whole.")
    };
    section("Input", None, &payload::boxed("Input", &PreEscaped(String::new()), &shown, foot))
}

fn happened(history: &[HistoryLine], dropped: Option<u32>, as_of: AsOf) -> Markup {
    html! {
        div.sheet {
            ol.tail tabindex="0" aria-label="History" {
                @for line in history.iter().rev().take(HISTORY_MAX) {
                    li {
                        span.q { (as_of.exactly(line.at)) }
                        span.q { @if let Some(step) = &line.step { (foreign(step)) } }
                        span class=[line.failure.as_ref().map(|_| "c-dead")] {
                            (foreign(&line.text))
                            @if let Some(actor) = &line.actor { " by " (foreign(actor)) }
                        }
                    }
                }
            }
            p.more { span {
                (history.len().min(HISTORY_MAX)) " of " (history.len()) ", the latest first"
                @if let Some(dropped) = dropped.filter(|dropped| *dropped > 0) { "; " (dropped) " in the middle aren’t kept" }
            } }
        }
    }
}
