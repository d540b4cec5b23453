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
/// Distance between the numbers of two marks, so that both can be read.
const FLAG_WIDTH: u64 = 13;
/// Rows of a chart's table: each is the highest of as many points as it takes.
const TABLE_ROWS_MAX: usize = 60;
/// Parts of a unit that places are rounded to.
const TENTHS: u64 = 10;

/// What was measured at equal distances of time; none = nothing was.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    pub name: &'a str,
    pub values: &'a [Option<u64>],
}

/// Something that changed, by its number in the list of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub number: usize,
    pub at: Instant,
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
    /// In the order in which they happened.
    pub marks: &'a [Mark],
}

/// A chart with its caption and its values.
pub fn chart(chart: &Chart<'_>, as_of: AsOf) -> Markup {
    let Chart { title, unit, tone, sentence, first, second, from, to, marks } = *chart;
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
                path.f d=(area(first.values, top, (WIDTH, TOP, BOTTOM))) {}
                path.a d=(line(first)) {}
                @if let Some(second) = second { path.b d=(line(second)) {} }
                text x="0" y="92" data-at=(from.0.to_string()) { (minute(from)) }
                text x="272" y="92" text-anchor="end" data-at=(to.0.to_string()) { (minute(to)) }
                (flags(marks, from, to))
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

/// Where changes happened, each with its number above.
fn flags(marks: &[Mark], from: Instant, to: Instant) -> Markup {
    let span = to.0.0.saturating_sub(from.0.0).max(1);
    let mut free_from = 0;
    let placed = marks.iter().map(|mark| {
        let along = mark.at.0.0.saturating_sub(from.0.0).min(span);
        let x = along.saturating_mul(u64::from(WIDTH)) / span;
        let flag = x.max(free_from);
        free_from = flag + FLAG_WIDTH;
        (mark.number, x, flag)
    });
    html! { @for (number, x, flag) in placed {
        path.m d={ "M" (x) " 12V78" } {}
        circle.flag cx=(flag) cy="6" r="6" {}
        text x=(flag) y="9" { (number) }
    } }
}

fn values_table(series: &[Option<Series<'_>>; 2], from: Instant, to: Instant, as_of: AsOf) -> Markup {
    let shown: Vec<Series<'_>> = series.iter().flatten().copied().collect();
    let points = shown.iter().map(|series| series.values.len()).max().unwrap_or(0);
    let steps = u64::try_from(points.saturating_sub(1)).unwrap_or(u64::MAX).max(1);
    let step = to.0.0.saturating_sub(from.0.0) / steps;
    let instant = |at: u64| Instant(waybill_core::time::UnixMillis(from.0.0 + at * step));
    let each = points.div_ceil(TABLE_ROWS_MAX).max(1);
    let highest = |values: &[Option<u64>], at: usize| values.iter().skip(at).take(each).flatten().max().copied();
    let unit = if each > 1 { format!("From, the highest of {each}") } else { "At".to_owned() };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Values" {
            table {
                thead { tr { th scope="col" { (unit) } @for series in &shown { th.num scope="col" { (series.name) } } } }
                tbody {
                    @for (at, number) in (0..points).zip(0_u64..).step_by(each) {
                        tr {
                            td { (as_of.at(instant(number))) }
                            @for series in &shown {
                                td.num { (highest(series.values, at).map_or(NONE.to_owned(), count)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The line through the values; where one is missing it begins anew behind the gap.
fn path(values: &[Option<u64>], top: u64, place: (u32, u32, u32)) -> String {
    let mut drawn = String::with_capacity(values.len() * 12);
    for run in runs(values, top, place) {
        for (at, (x, y)) in run.iter().enumerate() {
            // A String takes whatever is written.
            let _ = write!(drawn, "{}{} {}", if at == 0 { 'M' } else { 'L' }, Tenths(*x), Tenths(*y));
        }
    }
    drawn
}

/// What is below the line.
fn area(values: &[Option<u64>], top: u64, place: (u32, u32, u32)) -> String {
    let mut drawn = String::with_capacity(values.len() * 12);
    for run in runs(values, top, place) {
        let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else { continue };
        let _ = write!(drawn, "M{} {}", Tenths(*first), place.2);
        for (x, y) in &run {
            let _ = write!(drawn, "L{} {}", Tenths(*x), Tenths(*y));
        }
        let _ = write!(drawn, "L{} {}z", Tenths(*last), place.2);
    }
    drawn
}

/// Values without a gap between them, as places in tenths of a unit.
fn runs(values: &[Option<u64>], top: u64, (width, upper, lower): (u32, u32, u32)) -> Vec<Vec<(u64, u64)>> {
    let last = u64::try_from(values.len().saturating_sub(1)).unwrap_or(u64::MAX).max(1);
    let height = u64::from(lower - upper);
    let place = |at: u64, value: u64| {
        let x = at * u64::from(width) * TENTHS / last;
        let up = u128::from(value) * u128::from(height * TENTHS) / u128::from(top.max(1));
        (x, (u64::from(lower) * TENTHS).saturating_sub(u64::try_from(up).unwrap_or(u64::MAX)))
    };
    let placed: Vec<Option<(u64, u64)>> =
        values.iter().zip(0_u64..).map(|(value, at)| value.map(|value| place(at, value))).collect();
    let runs = placed.split(Option::is_none).filter(|run| !run.is_empty());
    runs.map(|run| run.iter().flatten().copied().collect()).collect()
}

/// A number of tenths, with its point.
struct Tenths(u64);

impl std::fmt::Display for Tenths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0 / TENTHS, self.0 % TENTHS)
    }
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
    fn marks_that_stand_close_have_numbers_that_can_be_read() {
        let at = |ms| Instant(UnixMillis(ms));
        let marks = [(1, 100), (2, 101)].map(|(number, ms)| Mark { number, at: at(ms) });
        let drawn = flags(&marks, at(0), at(272)).0;
        for part in ["M100 12", "M101 12", "cx=\"100\"", "cx=\"113\""] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
    }

    #[test]
    fn a_table_has_a_row_a_minute() {
        let values: Vec<Option<u64>> = (0..360).map(Some).collect();
        let at = |ms| Instant(UnixMillis(1_700_000_000_000_u64 + ms));
        let series = [Some(Series { name: "a", values: &values }), None];
        let drawn = values_table(&series, at(0), at(3_590_000), AsOf(at(3_590_000).0)).0;
        assert_eq!(drawn.matches("<tr>").count(), 1 + 60);
        assert!(drawn.contains("<td class=\"num\">5</td>") && !drawn.contains("<td class=\"num\">4</td>"), "{drawn}");
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
            marks: &[Mark { number: 1, at: instant(1_700_000_010_000) }],
        };
        let shown = chart(&drawn, AsOf(UnixMillis(1_700_000_020_000))).0;
        for part in [
            "aria-label=\"Delivered a second, rising.\"",
            "data-v=\"[1,null,1500]\"",
            "1,500",
            "22:13:30",
            "d=\"M136 12V78\"",
            "y=\"9\">1</text>",
            "<td class=\"num\">–</td>",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("style="));
        assert!(sparkline(&values, Tone::Dead).0.contains("class=\"spark dead\""));
    }
}
