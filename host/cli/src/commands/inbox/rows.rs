//! Failed rows of outbox tables: listed, and put back in their table.

use std::time::Duration;

use serde_json::{Value, json};

use super::replay::Replay;
use crate::commands::selection::{self, Id};
use crate::commands::{Context, bulk, lists};
use crate::exit::CliError;
use crate::output::{self, Format, View, column, instant, less, moment, number, text, whole};
use crate::term::DRY_RUN_FIRST;

/// Rows of one request, as the host takes them.
const ROWS_MAX: usize = 1_000;

pub(super) const VIEW: View<'_> = View {
    columns: &[
        whole("ROW", |item| text(item, "id")),
        less(2, column("AGGREGATE", |item| text(item, "aggregate"))),
        column("TOPIC", |item| text(item, "topic")),
        less(3, column("EVENT", |item| text(item, "event_type"))),
        less(4, column("ATTEMPTS", |item| text(item, "attempts"))),
        less(1, moment("OCCURRED", |item| instant(item, "occurred_at"))),
        moment("FAILED", |item| instant(item, "failed_at")),
        column("ERROR", |item| text(item, "last_error")),
    ],
    id: |item| text(item, "id"),
    none: "no row stands failed",
};

/// Address of a source's rows.
pub(super) fn path<'a>(source: &'a str, act: &'a str) -> [&'a str; 4] {
    ["v1", "sources", source, act]
}

/// Puts rows back: those named, or all that stand failed now.
pub(super) async fn replay(source: &str, args: &Replay, context: &mut Context<'_>) -> Result<(), CliError> {
    let how = &args.bulk;
    let ids: Vec<String> = match args.all {
        true => {
            let (rows, _) = lists::fetch(context, &path(source, "failed"), &[], usize::MAX, None).await?;
            if how.dry_run {
                context.term.say(&format!("would replay {}", number(rows.len() as u64, "row", "rows")));
                output::list(context.term, context.format, &rows, &VIEW)?;
                return how.ended(rows.is_empty());
            }
            rows.iter().map(|row| text(row, "id")).collect()
        }
        false => {
            let named = selection::read_ids(context, &args.ids, None)?;
            named.into_iter().map(|Id { id, .. }| id).collect()
        }
    };
    let what = format!("replay {} in the table of {source}", number(ids.len() as u64, "row", "rows"));
    if how.dry_run {
        context.term.line(&format!("would {what}"))?;
        return how.ended(ids.is_empty());
    }
    if ids.is_empty() {
        context.term.say("no row stands failed: nothing to do");
        return how.ended(true);
    }
    if args.all && !how.yes {
        context.term.confirm(&what, &format!("{what}?"), DRY_RUN_FIRST)?;
    }
    in_pieces(source, &ids, args, context).await
}

/// Request by request, so many rows a second as is asked for. It is safe to repeat: what waits already isn't changed.
async fn in_pieces(source: &str, ids: &[String], args: &Replay, context: &mut Context<'_>) -> Result<(), CliError> {
    let rate = args.bulk.rate.and_then(|rate| usize::try_from(rate).ok()).filter(|rate| *rate > 0);
    let piece = rate.unwrap_or(ROWS_MAX).min(ROWS_MAX);
    let pause = rate.map(|rate| Duration::from_secs_f64(piece as f64 / rate as f64));
    let mut pace = pause.map(tokio::time::interval);
    let bar = bulk::progress(context, ids.len() as u64, "replay");
    let (mut replayed, mut unchanged) = (Vec::new(), Vec::new());
    for ids in ids.chunks(piece) {
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        let body = json!({ "ids": ids, "reason": args.bulk.reason.clone().unwrap_or_default() });
        let answer = match context.client.post(&path(source, "replay"), &[], &body).await {
            Ok(answer) => answer,
            Err(error) => {
                bar.finish_and_clear();
                if !replayed.is_empty() {
                    let done = number(replayed.len() as u64, "row waits", "rows wait");
                    context.term.complain(&format!("{done} again before it failed; it is safe to repeat:"));
                }
                return Err(error.into());
            }
        };
        replayed.extend_from_slice(answer.need("replayed", Value::as_array)?);
        unchanged.extend_from_slice(answer.need("unchanged", Value::as_array)?);
        bar.inc(ids.len() as u64);
    }
    bar.finish_and_clear();
    let waits = number(replayed.len() as u64, "row waits again", "rows wait again");
    let not = match unchanged.len() {
        0 => String::new(),
        count => format!("; {} failed", number(count as u64, "wasn't", "weren't")),
    };
    context.term.say(&format!("{waits} in the table of {source}{not}"));
    match context.format {
        Format::Table => Ok(()),
        Format::Ids => replayed.iter().try_for_each(|id| context.term.line(id.as_str().unwrap_or_default())),
        Format::Json | Format::Jsonl => {
            let all = json!({ "source": source, "replayed": replayed, "unchanged": unchanged });
            context.term.line(&all.to_string())
        }
    }
}
