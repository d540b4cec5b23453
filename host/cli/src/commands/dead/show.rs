//! `waybill dead show`.

use clap::Args;
use serde_json::Value;

use super::acts::{self, Kind};
use crate::args::IdArgs;
use crate::client::Answer;
use crate::commands::{Context, message};
use crate::exit::CliError;
use crate::output::{self, Format, instant, text};

/// Which dead letter.
#[derive(Debug, Args)]
pub struct Show {
    /// Which.
    #[command(flatten)]
    pub letter: IdArgs,
    /// Its kind, where others have the same id
    #[arg(long, value_enum, value_name = "KIND")]
    pub kind: Option<Kind>,
}

pub(super) async fn run(args: &Show, context: &mut Context<'_>) -> Result<(), CliError> {
    let IdArgs { id, tenant } = &args.letter;
    let answer = acts::get(context, tenant.as_deref(), id, args.kind).await?;
    match answer.body.get("kind").and_then(Value::as_str) {
        Some("saga") if context.format == Format::Table => show_saga(context, &answer.body),
        Some("inbox") if context.format == Format::Table => show_received(context, &answer),
        Some("event") if context.format == Format::Table => show_event(context, &answer.body),
        _ => message::show(context, &answer),
    }
}

/// What failed of a stuck saga. The saga itself is shown by its own command.
fn show_saga(context: &mut Context<'_>, item: &Value) -> Result<(), CliError> {
    let mut rows = vec![("kind".to_owned(), "saga".to_owned())];
    for name in ["id", "tenant", "state", "note"] {
        rows.push((name.to_owned(), text(item, name)));
    }
    rows.push(("definition".to_owned(), format!("{}@{}", text(item, "definition"), text(item, "version"))));
    if item.get("saga") != item.get("id") {
        rows.push(("sub-saga".to_owned(), text(item, "saga")));
    }
    rows.push(("failed".to_owned(), format!("the compensation of step {}", text(item, "step"))));
    rows.push(("last error".to_owned(), text(item, "last_error")));
    rows.push(("attempts".to_owned(), text(item, "attempts")));
    rows.push(("since".to_owned(), instant(item, "ended_at")));
    rows.retain(|(_, value)| value != "-");
    output::pairs(context.term, rows)?;
    context.term.say(&format!("all of it: waybill saga show {} --tenant {}", text(item, "id"), text(item, "tenant")));
    Ok(())
}

/// Why an event wasn't taken. As a whole it is in its stream, or, without a number, in the JSON.
fn show_event(context: &mut Context<'_>, item: &Value) -> Result<(), CliError> {
    let mut rows = vec![("kind".to_owned(), "event".to_owned())];
    for name in ["id", "event_id", "stream", "seq", "relay", "tenant", "state", "note"] {
        rows.push((name.replace('_', " "), text(item, name)));
    }
    rows.push(("last error".to_owned(), text(item, "last_error")));
    rows.push(("died".to_owned(), instant(item, "ended_at")));
    rows.retain(|(_, value)| value != "-");
    output::pairs(context.term, rows)
}

/// Why a received message can't be handled, and the message.
fn show_received(context: &mut Context<'_>, answer: &Answer) -> Result<(), CliError> {
    let item = &answer.body;
    let mut rows = vec![("kind".to_owned(), "inbox".to_owned())];
    for name in ["id", "message_id", "consumer", "source", "tenant", "state", "note"] {
        rows.push((name.replace('_', " "), text(item, name)));
    }
    rows.push(("last error".to_owned(), text(item, "last_error")));
    rows.push(("attempts".to_owned(), text(item, "attempts")));
    rows.push(("received".to_owned(), instant(item, "received_at")));
    rows.push(("died".to_owned(), instant(item, "ended_at")));
    rows.extend(message::received(&answer.text, item));
    rows.retain(|(_, value)| value != "-");
    output::pairs(context.term, rows)
}
