//! The steps of a saga: its tree with a lane each, in which every try stands where it was in time.

use maud::{Markup, html};
use waybill_api::instant::Instant;
use waybill_api::saga_history::HistoryLine;
use waybill_api::saga_node::{SagaNodeView, StepView};
use waybill_api::sagas::SagaView;
use waybill_core::saga::event::StepDirection;
use waybill_core::saga::state::StepState;
use waybill_core::time::UnixMillis;

use crate::parts::state;
use crate::states::of_step;
use crate::text::{for_attribute, foreign, length_ms, shortened};
use crate::time::AsOf;

/// Steps that one page shows, sub-sagas' included; the terminal shows all.
const STEPS_MAX: usize = 500;
/// Letters of an error beside others.
const BRIEF_LETTERS: usize = 200;
/// Width of a lane, and the least that a try takes of it, so that it is seen.
const WIDTH: u64 = 1_000;
const TRY_WIDTH_MIN: u64 = 4;
/// Marks of time along a lane, the first and the last among them.
const TICKS: u64 = 5;
/// Tries that one lane shows, the latest.
const TRIES_MAX: usize = 60;

/// A step within a tree.
struct Placed<'a> {
    depth: usize,
    /// Id of the saga or sub-saga that has it.
    saga: &'a str,
    step: &'a StepView,
}

/// The steps of a tree in its order.
fn flat<'a>(node: &'a SagaNodeView, depth: usize, into: &mut Vec<Placed<'a>>) {
    for step in &node.steps {
        if into.len() >= STEPS_MAX {
            return;
        }
        into.push(Placed { depth, saga: &node.id, step });
        if let Some(below) = &step.saga {
            flat(below, depth + 1, into);
        }
    }
}

/// From when to when lanes go.
#[derive(Clone, Copy)]
struct Span {
    from: u64,
    to: u64,
}

impl Span {
    /// All of a saga; of one that goes on, until now.
    fn of(saga: &SagaView, as_of: AsOf) -> Self {
        let from = saga.started_at.0.0;
        let latest = saga.history.iter().flatten().map(|line| line.at.0.0).max().unwrap_or(from);
        let to = saga.ended_at.map_or(as_of.0.0, |ended| ended.0.0);
        Self { from, to: to.max(latest).max(from + 1) }
    }

    /// The place of an instant in a lane.
    fn at(self, ms: u64) -> u64 {
        let along = ms.saturating_sub(self.from).min(self.to - self.from);
        u64::try_from(u128::from(along) * u128::from(WIDTH) / u128::from(self.to - self.from)).unwrap_or(WIDTH)
    }

    /// The instants of its marks.
    fn ticks(self) -> impl Iterator<Item = u64> {
        (0..TICKS).map(move |tick| self.from + (self.to - self.from) / (TICKS - 1) * tick)
    }
}

/// The steps with their lanes.
pub fn steps(saga: &SagaView, root: &SagaNodeView, as_of: AsOf) -> Markup {
    let mut all = Vec::new();
    flat(root, 0, &mut all);
    let span = Span::of(saga, as_of);
    let history = saga.history.as_deref().unwrap_or_default();
    html! {
        div.sheet {
            div.scroll tabindex="0" role="region" aria-label="Steps" {
                table.cards.tree {
                    thead { tr {
                        th scope="col" { "Step" }
                        th scope="col" { "State" }
                        th.num scope="col" { "Tries" }
                        th.lane scope="col" { span.axis { @for at in span.ticks() { span { (as_of.at(Instant(UnixMillis(at)))) } } } }
                    } }
                    tbody { @for placed in &all { (row(placed, history, span, as_of)) } }
                }
            }
            @if all.len() >= STEPS_MAX { p.more { span { "The first " (STEPS_MAX) " steps; the terminal shows all." } } }
        }
    }
}

fn row(placed: &Placed<'_>, history: &[HistoryLine], span: Span, as_of: AsOf) -> Markup {
    let Placed { depth, saga, step } = placed;
    html! {
        tr tabindex="-1" {
            th scope="row" class=(if *depth > 0 { "ind1" } else { "" }) {
                @if *depth > 1 { span.q { (depth) " deep " } }
                (foreign(&step.name)) span.sub.mono title=(for_attribute(&step.action)) { (foreign(&step.action)) }
            }
            td.full { (state(of_step(step.state, step.direction))) (remarks(step, as_of)) }
            td.num.nw { @if step.state != StepState::Ready { (step.attempts) } }
            td.lane { (lane(saga, step, history, span)) @if let Some(took) = took(step) { span.vh { "from first try to end " (length_ms(took)) } } }
        }
    }
}

fn took(step: &StepView) -> Option<u64> {
    step.began_at.zip(step.ended_at).map(|(began, ended)| ended.0.0.saturating_sub(began.0.0))
}

/// Every try of a step where it was in time, and a dashed line for what it waits for now.
fn lane(saga: &str, step: &StepView, history: &[HistoryLine], span: Span) -> Markup {
    let own = history.iter().filter(|line| line.saga == saga && line.step.as_deref() == Some(step.name.as_str()));
    let tries: Vec<(u64, u64, &str)> = own.filter_map(|line| bar(line, span)).collect();
    let waits_from = step.since.map(|since| span.at(since.0.0));
    html! {
        svg.lanes viewBox="0 0 1000 28" preserveAspectRatio="none" aria-hidden="true" {
            @for at in span.ticks() { path.tick d={ "M" (span.at(at)) " 0V28" } {} }
            @for (x, width, class) in tries.iter().skip(tries.len().saturating_sub(TRIES_MAX)) {
                rect class=(class) x=(x) y="8" width=(width) height="12" rx="1" {}
            }
            @if let Some(from) = waits_from { path.wait d={ "M" (from) " 14H" (WIDTH) } {} }
        }
    }
}

/// Where a try begins, how wide it is, and what came of it.
fn bar(line: &HistoryLine, span: Span) -> Option<(u64, u64, &'static str)> {
    let began = line.at.0.0.saturating_sub(line.took_ms?);
    let (from, to) = (span.at(began), span.at(line.at.0.0));
    let class = match (line.direction, line.failure.is_some()) {
        (Some(StepDirection::Compensate), false) => "back",
        (Some(StepDirection::Compensate), true) => "stuck",
        (_, false) => "go",
        (_, true) => "bad",
    };
    let width = (to - from).max(TRY_WIDTH_MIN);
    Some((from.min(WIDTH - TRY_WIDTH_MIN), width, class))
}

/// What is said of a step below its state.
fn remarks(step: &StepView, as_of: AsOf) -> Markup {
    html! {
        @if let Some(waiting) = &step.waiting {
            span.sub { (foreign(waiting)) @if let Some(until) = step.until { ", until " (as_of.at(until)) } }
        }
        @if let Some(failure) = &step.failure {
            span.sub {
                code { (foreign(&failure.code)) } " " (foreign(&shortened(&failure.reason, BRIEF_LETTERS)))
                @if failure.maybe_done { "; it may have had its effect all the same" }
            }
        }
        @if let Some(actor) = &step.actor {
            span.sub { "by " (foreign(actor)) @if let Some(note) = &step.note { ": “" (foreign(note)) "”" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: u64, took_ms: Option<u64>, direction: Option<StepDirection>) -> HistoryLine {
        HistoryLine {
            at: Instant(UnixMillis(at)),
            saga: "order-1".into(),
            step: Some("charge".into()),
            kind: "step_succeeded".into(),
            text: String::new(),
            actor: None,
            direction,
            attempt: Some(1),
            took_ms,
            failure: None,
            retry_at: None,
            plugin: None,
        }
    }

    #[test]
    fn a_try_stands_where_it_was_and_undone_ones_look_other() {
        let span = Span { from: 1_000, to: 2_000 };
        assert_eq!(bar(&line(1_500, Some(250), None), span), Some((250, 250, "go")));
        let undone = line(2_000, Some(1), Some(StepDirection::Compensate));
        assert_eq!(bar(&undone, span), Some((996, TRY_WIDTH_MIN, "back")));
        assert_eq!(bar(&line(1_500, None, None), span), None);
        assert_eq!(span.ticks().collect::<Vec<_>>(), [1_000, 1_250, 1_500, 1_750, 2_000]);
        assert_eq!((span.at(0), span.at(9_000)), (0, WIDTH));
    }
}
