//! How a generation of a plugin does, beside the one before.

use maud::{Markup, html};
use waybill_api::plugin_outcomes::{CallTimes, GenerationOutcomes};

use crate::parts::{Column, section, table};
use crate::text::{NONE, count, length_us, size};

/// What the latest two that served were counted to do; nothing before one served.
pub fn generations_compared(outcomes: &[GenerationOutcomes]) -> Markup {
    let (Some(now), before) = (outcomes.first(), outcomes.get(1)) else { return html! {} };
    let columns = [Column::Text("Since it serves"), Column::Number("Now"), Column::Number("Before")];
    let rows = html! { @for (name, tell) in &MEASURES {
        tr {
            th.nw scope="row" { (name) }
            td.num data-l="now" { (tell(now)) }
            td.num data-l="before" { (before.map_or_else(|| NONE.to_owned(), tell)) }
        }
    } };
    let about = html! { "counted since this host runs" };
    section(
        "This one beside the one before",
        Some(&about),
        &table("Generations beside each other", &columns, &rows, None),
    )
}

/// Tells a number of a generation.
type Tell = fn(&GenerationOutcomes) -> String;

const MEASURES: [(&str, Tell); 12] = [
    ("Generation", |of| of.generation.to_string()),
    ("Delivered", |of| count(of.delivered)),
    ("Refused", |of| count(of.refused)),
    ("To be tried again", |of| count(of.retried)),
    ("Held back", |of| count(of.held)),
    ("Calls", |of| count(of.calls)),
    ("Failed calls", |of| count(of.failed_calls)),
    ("Lost instances", |of| count(of.traps)),
    ("A call took", |of| took(of, |took| took.mean_us)),
    ("95 of 100 at most", |of| took(of, |took| took.p95_us)),
    ("99 of 100 at most", |of| took(of, |took| took.p99_us)),
    ("Memory at most", |of| size(of.memory_peak_bytes)),
];

fn took(of: &GenerationOutcomes, which: fn(&CallTimes) -> u64) -> String {
    of.took.as_ref().map_or_else(|| NONE.to_owned(), |took| length_us(which(took)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_serves_stands_beside_the_one_before() {
        let of = |generation, delivered| GenerationOutcomes { generation, delivered, ..GenerationOutcomes::default() };
        let shown = generations_compared(&[of(8, 12_345), of(7, 9)]).into_string();
        assert!(shown.contains("12,345") && shown.contains(">9<"), "{shown}");
        assert_eq!(generations_compared(&[]).into_string(), "");
    }
}
