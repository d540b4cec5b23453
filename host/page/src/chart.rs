//! Charts: drawn here as SVG, from zero, two series at most, gaps left as gaps, the values in a table on demand.

use std::fmt::Write as _;

use maud::{Markup, html};
use waybill_api::instant::Instant;

use crate::parts::Tone;
use crate::text::{NONE, count};
use crate::time::AsOf;

/// Width of a drawing, and where its plot begins and ends from the top.
const WIDTH: u32 = 272;
const TOP: u32 = 14;
const BOTTOM: u32 = 78;
/// Size of a sparkline.
const SPARK: (u32, u32) = (80, 18);
/// Parts of a unit that places are rounded to.
const TENTHS: u64 = 10;

/// What was measured at equal distances of time; none = nothing was.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    pub name: &'a str,
    pub values: &'a [Option<u64>],
}

#[derive(Clone, Copy, Debug)]
pub struct Chart<'a> {
    pub title: &'a str,
    pub unit: &'a str,
    pub tone: Tone,
    /// What it shows in a sentence, for who doesn't see it.
    pub sentence: &'a str,
    pub first: Series<'a>,
    pub second: Option<Series<'a>>,
    pub from: Instant,
    pub to: Instant,
}

/// A chart with its caption and its values.
pub fn chart(chart: &Chart<'_>, as_of: AsOf) -> Markup {
    let Chart { title, unit, tone, sentence, first, second, from, to } = *chart;
    let values = || first.values.iter().chain(second.iter().flat_map(|series| series.values)).flatten();
    let top = round_up(values().copied().max().unwrap_or(0));
    let now = first.values.last().copied().flatten().map_or(NONE.to_owned(), count);
    let line = |series: Series<'_>| path(series.values, top, (WIDTH, TOP, BOTTOM));
    html! {
        figure class={ "chart " (tone.class()) } {
            figcaption {
                h3 { (title) }
                span.now { output { (now) } " " small { (unit) } }
                span.key {
                    span { (first.name) }
                    @if let Some(second) = second { span.b { (second.name) } }
                }
            }
            svg.plot viewBox="0 0 272 96" role="img" aria-label=(sentence) data-v=(json(first.values)) {
                path.grid d="M0 14H272M0 46H272M0 78H272" {}
                text x="0" y="11" { (count(top)) }
                text x="0" y="43" { (count(top / 2)) }
                path.a d=(line(first)) {}
                @if let Some(second) = second { path.b d=(line(second)) {} }
                text x="0" y="92" data-at=(from.0.to_string()) { (minute(from)) }
                text x="272" y="92" text-anchor="end" data-at=(to.0.to_string()) { (minute(to)) }
                line.x x1="0" x2="0" y1="14" y2="78" {}
            }
            details {
                summary.hint { "Values" }
                (values_table(&[Some(first), second], from, to, as_of))
            }
        }
    }
}

/// The same course in a cell.
pub fn sparkline(values: &[Option<u64>], tone: Tone) -> Markup {
    let (width, height) = SPARK;
    let top = values.iter().flatten().copied().max().unwrap_or(0).max(1);
    let drawn = path(values, top, (width, 1, height - 1));
    html! {
        svg class={ "spark " (tone.class()) } viewBox="0 0 80 18" preserveAspectRatio="none" aria-hidden="true" {
            path d=(drawn) {}
        }
    }
}

fn values_table(series: &[Option<Series<'_>>; 2], from: Instant, to: Instant, as_of: AsOf) -> Markup {
    let shown: Vec<Series<'_>> = series.iter().flatten().copied().collect();
    let points = shown.iter().map(|series| series.values.len()).max().unwrap_or(0);
    let steps = u64::try_from(points.saturating_sub(1)).unwrap_or(u64::MAX).max(1);
    let step = to.0.0.saturating_sub(from.0.0) / steps;
    let instant = |at: u64| Instant(waybill_core::time::UnixMillis(from.0.0 + at * step));
    html! {
        div.scroll tabindex="0" role="region" aria-label="Values" {
            table {
                thead { tr { th scope="col" { "At" } @for series in &shown { th.num scope="col" { (series.name) } } } }
                tbody {
                    @for (at, number) in (0..points).zip(0_u64..) {
                        tr {
                            td { (as_of.at(instant(number))) }
                            @for series in &shown {
                                td.num { (series.values.get(at).copied().flatten().map_or(NONE.to_owned(), count)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The line through the values; where one is missing it begins anew behind the gap.
fn path(values: &[Option<u64>], top: u64, (width, upper, lower): (u32, u32, u32)) -> String {
    let mut drawn = String::with_capacity(values.len() * 12);
    let last = u64::try_from(values.len().saturating_sub(1)).unwrap_or(u64::MAX).max(1);
    let height = u64::from(lower - upper);
    let mut is_open = false;
    for (value, at) in values.iter().zip(0_u64..) {
        let Some(value) = value else {
            is_open = false;
            continue;
        };
        let x = at * u64::from(width) * TENTHS / last;
        let up = u128::from(*value) * u128::from(height * TENTHS) / u128::from(top.max(1));
        let y = (u64::from(lower) * TENTHS).saturating_sub(u64::try_from(up).unwrap_or(u64::MAX));
        let mark = if is_open { 'L' } else { 'M' };
        // A String takes whatever is written.
        let _ = write!(drawn, "{mark}{}.{} {}.{}", x / TENTHS, x % TENTHS, y / TENTHS, y % TENTHS);
        is_open = true;
    }
    drawn
}

/// The least number above that is one, two or five with zeros: the axis ends there.
fn round_up(most: u64) -> u64 {
    let mut unit = 1_u64;
    loop {
        for step in [1, 2, 5] {
            let top = unit.saturating_mul(step);
            if top >= most.max(2) {
                return top;
            }
        }
        unit = unit.saturating_mul(10);
    }
}

/// For the script's cross-hair.
fn json(values: &[Option<u64>]) -> String {
    let numbers = values.iter().map(|value| value.map_or("null".to_owned(), |value| value.to_string()));
    format!("[{}]", numbers.collect::<Vec<_>>().join(","))
}

fn minute(instant: Instant) -> String {
    instant.0.to_string().get(11..16).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_core::time::UnixMillis;

    #[test]
    fn a_gap_stays_a_gap() {
        assert_eq!(path(&[Some(0), None, Some(2), Some(1)], 2, (30, 0, 10)), "M0.0 10.0M20.0 0.0L30.0 5.0");
        assert_eq!(path(&[], 2, (30, 0, 10)), "");
    }

    #[test]
    fn an_axis_begins_at_zero_and_ends_at_a_round_number() {
        for (most, top) in [(0, 2), (3, 5), (10, 10), (412, 500), (501, 1_000), (u64::MAX, u64::MAX)] {
            assert_eq!(round_up(most), top, "{most}");
        }
    }

    #[test]
    fn a_chart_says_in_words_and_numbers_what_it_draws() {
        let values = [Some(1), None, Some(1_500)];
        let instant = |ms| Instant(UnixMillis(ms));
        let drawn = Chart {
            title: "Delivered",
            unit: "/s",
            tone: Tone::Ok,
            sentence: "Delivered a second, rising.",
            first: Series { name: "delivered", values: &values },
            second: None,
            from: instant(1_700_000_000_000),
            to: instant(1_700_000_020_000),
        };
        let shown = chart(&drawn, AsOf(UnixMillis(1_700_000_020_000))).0;
        for part in [
            "aria-label=\"Delivered a second, rising.\"",
            "data-v=\"[1,null,1500]\"",
            "1,500",
            "22:13:30",
            "<td class=\"num\">–</td>",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("style="));
        assert!(sparkline(&values, Tone::Dead).0.contains("class=\"spark dead\""));
    }
}
