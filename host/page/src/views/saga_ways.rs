//! Ways out of a saga that waits for a person: what may be done, and what each act leads to.

use maud::{Markup, html};
use waybill_api::saga_ways::WayOutView;
use waybill_api::sagas::SagaView;
use waybill_core::port::saga::RetryMode;
use waybill_core::saga::event::End;

use crate::acts::{self, Act, May, Target};
use crate::parts::{Column, section, table};
use crate::text::foreign;

/// The acts that the host says are allowed now; nothing where there are none.
pub fn ways_out(saga: &SagaView, may: May) -> Markup {
    let ways = saga.ways_out.as_deref().unwrap_or_default();
    if ways.is_empty() {
        return html! {};
    }
    let columns = [Column::Text("Act"), Column::Text("What follows"), Column::Text("In a terminal")];
    let rows = html! { @for way in ways { (row(saga, way, may)) } };
    section("Ways out", None, &table("Ways out", &columns, &rows, None))
}

fn row(saga: &SagaView, way: &WayOutView, may: May) -> Markup {
    let Some(act) = Act::named(&format!("saga-{}", way.act)) else { return html! {} };
    let target = Target { step: way.step.clone().unwrap_or_default(), ..Target::one(&saga.tenant, &way.saga) };
    let is_forward = way.mode == Some(RetryMode::Retry);
    html! {
        tr {
            th scope="row" { (acts::link(act, &target, may)) }
            td.full {
                b { (ending(way)) }
                (steps("Calls again: ", &way.again))
                (steps("Undoes: ", &way.undone))
                (steps("Stays done: ", &way.stays))
                (steps("May have been done, and stays if so: ", &way.unclear))
                @if is_forward { span.sub { "Forward again, with the mode “retry”." } }
            }
            td.full.mono { (foreign(&act.command(&target, None))) @if is_forward { " --mode retry" } }
        }
    }
}

fn steps(what: &str, names: &[String]) -> Markup {
    html! { @if !names.is_empty() {
        span.sub { (what) @for (at, name) in names.iter().enumerate() { @if at > 0 { ", " } code { (foreign(name)) } } }
    } }
}

fn ending(way: &WayOutView) -> &'static str {
    match way.ends {
        None => "It goes on waiting for a person.",
        Some(End::Completed) => "Then it completes.",
        Some(End::Cancelled) => "Then it is cancelled, with everything undone.",
        Some(End::Skipped) => "Then it has failed: undone but for what was left out.",
        Some(End::Killed) => "It ends at once as it is, failed.",
        Some(End::Accepted) => "It ends at once as it is, accepted.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_stay_done_are_named_and_marked_up_as_texts_of_others() {
        let shown = steps("Stays done: ", &["reserve".to_owned(), "<b>".to_owned()]).into_string();
        assert!(shown.contains("reserve") && shown.contains("&lt;b&gt;") && !shown.contains("<b>"), "{shown}");
        assert_eq!(steps("Undoes: ", &[]).into_string(), "");
    }
}
