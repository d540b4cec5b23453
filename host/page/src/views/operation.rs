//! Acts on many: their list, one with its progress and its fate; and what an act on one came to.

use maud::{Markup, html};
use waybill_api::instant::Instant;
use waybill_core::fates::{Fates, TrialState};
use waybill_core::port::transact::{Operation, OperationState};

use super::plan::place;
use super::{Asked, Rows};
use crate::acts::{Act, Form, May, Target, Weight, at_once, link, operation as operation_at};
use crate::address;
use crate::frame::head;
use crate::icon::Icon;
use crate::parts::{
    Column, Part, State, Tone, facts, fault, first_run, id_link, in_a_terminal, mono, note, of, quoted, section, state,
    table, tag,
};
use crate::text::{count, foreign, or_none, shortened};
use crate::time::AsOf;

/// Letters of a filter or a detail in a list.
const BRIEF_LETTERS: usize = 160;

/// The kind of operation whose effects are followed.
const REPLAY: &str = "replay";

/// The latest operations, of all tenants or of one.
#[derive(Clone, Debug)]
pub struct Operations {
    pub asked: Asked,
    pub rows: Part<Rows<Operation>>,
}

fn of_operation(operation: &Operation) -> State<'static> {
    let has_failed_trial = operation.trial.is_some_and(|trial| trial.state == TrialState::Failed);
    match operation.state {
        OperationState::Running => State::new(Tone::Move, Icon::Move, "running"),
        OperationState::Done => State::new(Tone::Ok, Icon::Done, "done"),
        OperationState::Cancelled => State::new(Tone::Rest, Icon::Pause, "cancelled"),
        OperationState::Failed if has_failed_trial => State::new(Tone::Hold, Icon::Block, "stopped by its trial"),
        OperationState::Failed => State::new(Tone::Dead, Icon::Dead, "failed"),
    }
}

/// The latest operations, newest first.
pub fn operations(view: &Operations, as_of: AsOf) -> Markup {
    let text =
        html! { p { "Acts on many, newest first. Each goes on when this page is closed, and after a restart." } };
    html! {
        (head(&html! { "Operations" }, &text, None))
        @match &view.rows {
            Err(why) => { (fault("Operations", why)) }
            Ok(rows) if rows.items.is_empty() => {
                (first_run(Icon::Retry, "No operation yet", "An act on all that a filter takes shows here, with what became of it.",
                    Some("waybill dead replay --filter 'code=HTTP.503' --plan")))
            }
            Ok(rows) => { (table("Operations", &COLUMNS, &listed(&rows.items, as_of), None)) }
        }
        (in_a_terminal(&match view.asked.tenant.as_str() {
            "" => "waybill operation list".to_owned(),
            tenant => format!("waybill operation list --tenant {}", quoted(tenant)),
        }))
    }
}

const COLUMNS: [Column; 7] = [
    Column::Text("Id"),
    Column::Text("State"),
    Column::Text("What"),
    Column::Number("Matched"),
    Column::Number("Done"),
    Column::Number("Failed"),
    Column::Number("Began"),
];

fn listed(items: &[Operation], as_of: AsOf) -> Markup {
    html! { @for operation in items {
        tr tabindex="-1" {
            td { (id_link(&operation_at(&operation.id), &operation.id)) }
            td.end { (state(of_operation(operation))) }
            td.full {
                (foreign(&operation.kind)) " " code { (foreign(&shortened(&operation.filter, BRIEF_LETTERS))) }
                span.sub { "by " (foreign(&operation.actor)) @if let Some(tenant) = &operation.tenant { ", tenant " (foreign(tenant)) } }
            }
            td.num data-l="matched" { (count(operation.matched)) @if operation.counted_since.is_some() { "+" } }
            td.num data-l="done" { (count(operation.done)) }
            td.num data-l="failed" { (count(operation.failed)) }
            td.num.nw { (as_of.at(Instant(operation.created_at))) }
        }
    } }
}

/// One operation: how far it is, and what became of what it put back.
pub fn operation(operation: &Operation, fates: &Fates, may: May, as_of: AsOf) -> Markup {
    let is_running = operation.state == OperationState::Running;
    let stop = html! { (link(Act::OperationCancel, &Target::named(&operation.id), may)) };
    let under = html! {
        p.meta {
            (tag(of_operation(operation)))
            span {
                span.id { (foreign(&operation.id)) } " · by " (foreign(&operation.actor)) " at " (as_of.at(Instant(operation.created_at)))
                @if !operation.reason.is_empty() { " · “" (foreign(&operation.reason)) "”" }
            }
        }
    };
    html! {
        div {
            p.crumb { a href=(address::OPERATIONS) { "Operations" } }
            (head(&html! { (foreign(&operation.kind)) " of " (count(operation.matched)) }, &under, is_running.then_some(&stop)))
        }
        @if let Some(error) = &operation.error { (note(Tone::Dead, Icon::Warn, &html! { (foreign(error)) }, None)) }
        (progress(operation, fates))
        div.cols {
            div.s8.stack { (refusals(operation)) }
            div.s4.stack { (section("Facts", None, &html! { div.sheet.pad { (facts(&known(operation, as_of))) } })) }
        }
        (in_a_terminal(&format!("waybill operation show {}", quoted(&operation.id))))
    }
}

fn progress(operation: &Operation, fates: &Fates) -> Markup {
    let worked_on = operation.done + operation.unchanged + operation.failed;
    let to_go = operation.to_go();
    let label = format!("{} of {}", count(worked_on), count(operation.matched));
    let figure = |number: u64, word: &str| html! { p { b { (count(number)) } " " (word) } };
    html! {
        section.section {
            div.sheet.pad.fields2 {
                progress value=(worked_on.min(operation.matched)) max=(operation.matched.max(1)) aria-label=(label) {}
                div.strip4 {
                    @if operation.kind == REPLAY {
                        (figure(operation.done, "put back"))
                        (figure(fates.delivered, "delivered since"))
                        p { b class=(if fates.died == 0 { "c-ok" } else { "c-dead" }) { (count(fates.died)) } " died again" }
                        (figure(fates.on_the_way(), "on their way"))
                        @if fates.ended > 0 { (figure(fates.ended, "ended otherwise")) }
                        @if operation.not_followed > 0 { (figure(operation.not_followed, "not followed: sagas and received messages")) }
                    } @else {
                        (figure(operation.done, "done"))
                    }
                    @if operation.unchanged > 0 { (figure(operation.unchanged, "were so already")) }
                    @if operation.failed > 0 { (figure(operation.failed, "left as they are")) }
                    @if operation.state == OperationState::Running {
                        p { b { (count(to_go)) } " to go, about " (crate::text::length(std::time::Duration::from_secs(to_go.div_ceil(u64::from(operation.rate.max(1)))))) }
                    }
                }
                @if let Some(death) = &fates.first_death {
                    p {
                        "The first that died again: "
                        a.id href=(address::message(operation.tenant.as_deref().unwrap_or_default(), &death.id)) { (foreign(&death.id)) }
                        " " code { (foreign(&death.code)) }
                    }
                }
            }
            p.hint.gap { "It goes on when this page is closed and after a restart. Stopping leaves done what is done." }
        }
    }
}

fn refusals(operation: &Operation) -> Markup {
    if operation.refusals.is_empty() {
        return html! {};
    }
    let columns = [Column::Text("Code"), Column::Number("Left"), Column::Text("The first of them")];
    let rows = html! { @for refusal in &operation.refusals {
        tr {
            th scope="row" { code { (foreign(&refusal.code)) } }
            td.num { (count(refusal.count)) }
            td.full { span.mono { (foreign(&refusal.example)) } span.sub { (foreign(&shortened(&refusal.detail, BRIEF_LETTERS))) } }
        }
    } };
    section("What could not be done", None, &table("What could not be done", &columns, &rows, None))
}

fn known(operation: &Operation, as_of: AsOf) -> Vec<(&'static str, Markup)> {
    let mut rows = vec![
        ("Filter", html! { code { (foreign(&operation.filter)) } }),
        ("Tenant", or_none(operation.tenant.as_deref())),
        ("Rate", html! { (operation.rate) " a second" }),
        ("Progress", html! { "stored at " (as_of.at(Instant(operation.updated_at))) }),
    ];
    rows.extend(operation.before.map(|at| ("Died before", as_of.exactly(Instant(at)))));
    rows.extend(operation.not_before.map(|at| ("Moved to", as_of.at(Instant(at)))));
    rows.extend(operation.step.as_deref().map(|step| ("Step", mono(Some(step)))));
    rows.extend(operation.trial.map(|trial| {
        let word = match trial.state {
            TrialState::Running => "under way",
            TrialState::Passed => "passed",
            TrialState::Failed => "failed",
        };
        ("Trial", of(format!("{} first: {word}", trial.size)))
    }));
    rows
}

/// What an act on one, or on some that were picked, came to.
#[derive(Clone, Debug)]
pub struct Answer {
    pub act: Act,
    pub target: Target,
    pub at: Instant,
    /// Of picked ones: the ids, and why one was left as it is.
    pub each: Vec<(String, Option<String>)>,
    /// It was so already.
    pub is_unchanged: bool,
}

/// What an act came to, with what takes it back.
pub fn answer(answer: &Answer, form: Option<&Form>, as_of: AsOf) -> Markup {
    let about = answer.act.about();
    let failed = answer.each.iter().filter(|(_, why)| why.is_some()).count();
    // What was so before, or was done to some only, is not for one press to take back.
    let undo = about.undo.filter(|_| failed == 0 && !answer.is_unchanged);
    let undo = undo.zip(form).map(|(undo, form)| match undo.about().weight {
        Weight::Plain => at_once(undo, &answer.target, form),
        _ => html! { a.btn href=(answer.target.address(undo)) { (undo.about().word) "…" } },
    });
    let text = html! {
        b { (about.done) @if answer.is_unchanged { ": it was so already" } } " "
        @if answer.each.is_empty() { (about.on.nouns().0) " " span.mono { (foreign(&answer.target.id)) } }
        @else { (answer.each.len() - failed) " of " (answer.each.len()) }
        " at " (as_of.exactly(answer.at)) "."
    };
    let (tone, shape) = if failed == 0 { (Tone::Ok, Icon::Done) } else { (Tone::Hold, Icon::Warn) };
    let Target { tenant, id, kind, .. } = &answer.target;
    html! {
        (head(&html! { (about.done) }, &html! {}, None))
        (note(tone, shape, &text, undo.as_ref()))
        @if !answer.each.is_empty() { (each(answer)) }
        p.acts { a.btn href=(place(answer.act, tenant, id, kind, "")) { "Go on" } }
        (in_a_terminal(&answer.act.command(&answer.target, None)))
    }
}

fn each(answer: &Answer) -> Markup {
    let rows = html! { @for (id, why) in &answer.each {
        tr {
            th.mono scope="row" { (foreign(id)) }
            td.full {
                @match why {
                    None => { (state(State::new(Tone::Ok, Icon::Done, answer.act.about().done))) }
                    Some(why) => { (state(State::new(Tone::Dead, Icon::Dead, "left as it is"))) " " (foreign(&shortened(why, BRIEF_LETTERS))) }
                }
            }
        }
    } };
    table("Each of them", &[Column::Text("Id"), Column::Text("What became of it")], &rows, None)
}
