//! `waybill history`: the last hour, a line a series.

use clap::Args;
use serde_json::Value;

use super::Context;
use crate::exit::CliError;
use crate::output::{self, Format, View, ago, column, instant, less, text, whole};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill history\n  waybill history delivered\n  waybill history relay_lag_ms -o json\n\n\
        A point is ten seconds, a letter of a line is a minute, the last one now. LAST and MOST are points: of what is counted (enqueued,\n\
        delivered, ...) how many there were in ten seconds, of the rest (waiting, lags) how many there were at once. A dot is a minute of\n\
        which nothing is known. It is what this host saw since it was started."
)]
pub struct History {
    /// Only what is called so: enqueued, delivered, retried, dead, waiting, blocked, ...
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// Points in a letter: a minute.
const POINTS: usize = 6;
/// From nothing to the most there was.
const LETTERS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Stands where nothing is known.
const GAP: char = '·';

const VIEW: View<'_> = View {
    columns: &[
        whole("SERIES", |item| text(item, "name")),
        whole("OF", of),
        column("LAST", |item| number(points(item).last().copied().flatten())),
        less(1, column("MOST", |item| number(points(item).into_iter().flatten().max()))),
        whole("LAST HOUR", line),
    ],
    id: |item| match item.get("of").and_then(Value::as_str) {
        Some(of) => format!("{}:{of}", text(item, "name")),
        None => text(item, "name"),
    },
    none: "nothing is kept yet",
};

pub(super) async fn run(args: &History, context: &mut Context<'_>) -> Result<(), CliError> {
    let query: Vec<(&str, &str)> = args.name.iter().map(|name| ("name", name.as_str())).collect();
    let answer = context.client.get(&["v1", "history"], &query).await?;
    let series = answer.need("series", Value::as_array)?;
    match context.format {
        Format::Json | Format::Jsonl => context.term.line(answer.text.trim_end()),
        Format::Ids => output::list(context.term, Format::Ids, series, &VIEW),
        Format::Table => {
            output::list(context.term, Format::Table, series, &VIEW)?;
            let (since, step) = (instant(&answer.body, "since"), ago(&answer.body, "step_ms"));
            context.term.say(&format!("a point each {step}; kept since {since}, when this host was started"));
            if let Some(count) = answer.body.get("left_out").and_then(Value::as_u64).filter(|count| *count > 0) {
                context.term.say(&format!("{count} more series aren't kept: there are too many"));
            }
            Ok(())
        }
    }
}

fn of(item: &Value) -> String {
    match item.get("by").and_then(Value::as_str) {
        Some(by) => format!("{by} {}", text(item, "of")),
        None => "all".to_owned(),
    }
}

fn points(item: &Value) -> Vec<Option<u64>> {
    let points = item.get("points").and_then(Value::as_array);
    points.into_iter().flatten().map(Value::as_u64).collect()
}

fn number(point: Option<u64>) -> String {
    point.map_or_else(|| "-".to_owned(), |point| point.to_string())
}

/// A letter a minute: of what is counted all of it, of the rest the most of it.
fn line(item: &Value) -> String {
    let is_count = text(item, "kind") == "count";
    let points = points(item);
    let minute = |points: &[Option<u64>]| {
        let known = points.iter().copied().flatten();
        if is_count { known.reduce(u64::saturating_add) } else { known.max() }
    };
    // From the end, so that the last letter is a whole minute.
    let mut minutes: Vec<Option<u64>> = points.rchunks(POINTS).map(minute).collect();
    minutes.reverse();
    let most = minutes.iter().copied().flatten().max().unwrap_or(0);
    minutes.into_iter().map(|minute| letter(minute, most)).collect()
}

fn letter(minute: Option<u64>, most: u64) -> char {
    let Some(minute) = minute else { return GAP };
    let steps = LETTERS.len() as u64 - 1;
    // What there was isn't drawn as nothing.
    let height = minute.saturating_mul(steps).div_ceil(most.max(1));
    usize::try_from(height).ok().and_then(|height| LETTERS.get(height)).copied().unwrap_or(GAP)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_letter_is_a_minute_and_a_gap_is_a_dot() {
        let drawn = |kind: &str, points: &[Option<u64>]| line(&json!({ "kind": kind, "points": points }));
        let mut points = vec![None; 6];
        points.extend([Some(0); 6]);
        points.extend([Some(1), None, Some(1), Some(1), Some(1), Some(1)]);
        points.extend([Some(100); 6]);
        assert_eq!(drawn("count", &points), "·▁▂█");
        assert_eq!(drawn("level", &points), "·▁▂█");
        points.truncate(20);
        assert_eq!(drawn("count", &points), "·▁▂█", "the last six points are the last minute");
        assert_eq!(drawn("count", &[]), "");
        assert_eq!(drawn("level", &[Some(0)]), "▁");
    }

    #[test]
    fn a_series_is_of_all_or_of_what_it_names() {
        assert_eq!(of(&json!({ "by": null, "of": null })), "all");
        assert_eq!(of(&json!({ "by": "transport", "of": "bus" })), "transport bus");
    }
}
