//! `waybill plugin logs`.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::args::within;
use crate::client::{Answer, Client, ClientError};
use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{self, Format, View, column, instant, less, moment, prose, text};

/// Longest that a host is asked to wait for a line, at most half of what an answer may take.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Lines that a host answers at most, which are more than it keeps.
const KEPT_MAX: u64 = 1_000;

/// Between two questions to a host that doesn't answer.
const AGAIN: Duration = Duration::from_secs(1);

/// Between two questions for more.
const PAUSE: Duration = Duration::from_millis(100);

/// Whose log, and how much of it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin logs orders\n  waybill plugin logs orders --follow\n  waybill plugin logs participant.stock -o jsonl\n\nThe host keeps the latest lines of each plugin, over its generations; its own log has all of them."
)]
pub struct Logs {
    /// Transport, participant.NAME, handler.CONSUMER, source.NAME or outbox.backoff
    pub name: String,
    /// Go on with what comes, until Ctrl-C
    #[arg(long, short)]
    pub follow: bool,
    /// Most lines to begin with, the latest
    #[arg(long, value_name = "N", default_value_t = KEPT_MAX, value_parser = within(1..=KEPT_MAX))]
    pub limit: u64,
}

const VIEW: View<'_> = View {
    columns: &[
        moment("AT", |item| instant(item, "at")),
        column("LEVEL", |item| text(item, "level")),
        less(2, column("GENERATION", |item| text(item, "generation"))),
        less(1, column("INSTANCE", |item| text(item, "instance"))),
        prose("MESSAGE", message),
    ],
    id: |item| text(item, "number"),
    none: "it has written nothing since the host started",
};

/// Writes the lines that are kept, and then those that come.
pub(super) async fn run(args: &Logs, context: &mut Context<'_>) -> Result<(), CliError> {
    let mut answer = read(&context.client, &args.name, 0, KEPT_MAX, Duration::ZERO).await?;
    let items = answer.need("items", Value::as_array)?;
    let latest = items.len().saturating_sub(usize::try_from(args.limit).unwrap_or(usize::MAX));
    if !args.follow {
        return output::list(context.term, context.format, items.get(latest..).unwrap_or_default(), &VIEW);
    }
    let wait = WAIT_MAX.min(context.client.timeout() / 2);
    let mut skipped = latest;
    loop {
        if let Some(missed) = missed(&answer) {
            context.term.say(&missed);
        }
        for item in answer.need("items", Value::as_array)?.iter().skip(std::mem::take(&mut skipped)) {
            match context.format.followed() {
                Format::Table => context.term.line(&line(item))?,
                format => output::list(context.term, format, std::slice::from_ref(item), &VIEW)?,
            }
        }
        context.term.out.flush().map_err(CliError::io("writing the result"))?;
        let next = answer.need("next", Value::as_u64)?;
        // A host that has many who wait answers at once.
        tokio::time::sleep(PAUSE).await;
        answer = read_on(args, context, next, wait).await?;
    }
}

/// Asks for what comes, through a restart of the host: numbers of lines grow over it.
async fn read_on(args: &Logs, context: &mut Context<'_>, next: u64, wait: Duration) -> Result<Answer, CliError> {
    let mut is_told = false;
    loop {
        match read(&context.client, &args.name, next, KEPT_MAX, wait).await {
            Err(error @ (ClientError::Unreachable { .. } | ClientError::TimedOut { .. })) => {
                if !std::mem::replace(&mut is_told, true) {
                    context.term.complain(&format!("{error}\nit is asked again until it answers"));
                }
                tokio::time::sleep(AGAIN).await;
            }
            answer => return Ok(answer?),
        }
    }
}

/// Asks for lines behind a number.
pub(super) async fn read(
    client: &Client,
    name: &str,
    after: u64,
    limit: u64,
    wait: Duration,
) -> Result<Answer, ClientError> {
    let [after, limit, wait] =
        [u128::from(after), u128::from(limit), wait.as_millis()].map(|number| number.to_string());
    client
        .get(
            &["v1", "plugins", name, "log"],
            &[("after", after.as_str()), ("limit", limit.as_str()), ("wait_ms", wait.as_str())],
        )
        .await
}

/// How many lines were gone before they were asked for.
pub(super) fn missed(answer: &Answer) -> Option<String> {
    let missed = answer.body.get("missed").and_then(Value::as_u64).filter(|missed| *missed > 0)?;
    Some(format!("{} that aren't kept any more", output::number(missed, "line", "lines")))
}

/// A line as it is written while it is followed.
pub(super) fn line(item: &Value) -> String {
    let place = format!("{}/{}", text(item, "generation"), text(item, "instance"));
    format!("{}  {:<5}  {place}  {}", instant(item, "at"), text(item, "level"), message(item))
}

/// What was said, with the plugin's own names and values behind it.
fn message(item: &Value) -> String {
    let fields = item.get("fields").and_then(Value::as_object);
    let fields = fields.into_iter().flatten().map(|(name, value)| format!("  {name}={}", output::plain(value)));
    format!("{}{}", text(item, "message"), fields.collect::<String>())
}
