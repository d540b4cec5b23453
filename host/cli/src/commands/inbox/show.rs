//! `waybill inbox show`.

use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::Answer;
use crate::commands::{Context, lists, message, requests};
use crate::exit::CliError;
use crate::output::{self, Format, Head, instant, text};

/// Which message of which consumer.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill inbox show ship order-17\n  \
    waybill inbox show ship orders/17 --tenant acme -o json\n\n\
    `seen` is known for the whole of inbox.dedup_window, how it ended for inbox.keep_done. An id that never came is `unseen`.")]
pub struct Show {
    /// Name of the consumer
    pub consumer: String,
    /// Message id as its sender gave it, or its place (inbox-3-1047)
    pub id: String,
    /// Its tenant [default: the token's only one, else any]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Shows what is known of it.
pub(super) async fn run(args: &Show, context: &mut Context<'_>) -> Result<(), CliError> {
    let tenant = args.tenant.as_deref();
    let path = ["v1", "inbox", args.consumer.as_str(), args.id.as_str()];
    let answer = requests::checked(context.client.get(&path, &lists::tenant_query(tenant)).await, tenant)?;
    match context.format {
        Format::Table => table(context, &answer),
        format => output::one(context.term, format, &answer.text, &args.id, Vec::new()),
    }
}

fn table(context: &mut Context<'_>, answer: &Answer) -> Result<(), CliError> {
    let item = &answer.body;
    let mut rows: Vec<(String, String)> =
        ["id", "consumer", "state", "seen"].iter().map(|name| ((*name).to_owned(), text(item, name))).collect();
    rows.push(("dead letter".to_owned(), text(item, "dead_letter")));
    if let (Some(message), Some(json)) = (item.get("message").filter(|message| message.is_object()), whole(answer)) {
        for name in ["place", "source", "tenant", "attempts", "last_error"] {
            rows.push((name.replace('_', " "), text(message, name)));
        }
        if let Some(waiting) = message.get("waiting").filter(|waiting| waiting.is_object()) {
            rows.push(("waits for".to_owned(), format!("{}: {}", text(waiting, "on"), text(waiting, "reason"))));
            rows.push(("  until".to_owned(), instant(waiting, "until")));
        }
        rows.push(("received".to_owned(), instant(message, "received_at")));
        rows.extend(message::received(json.get(), message));
    }
    rows.retain(|(_, value)| value != "-");
    output::pairs(context.term, rows)?;
    let ended = item.get("ended").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    if ended.is_empty() {
        return Ok(());
    }
    context.term.line("")?;
    let rows = ended.iter().map(|end| {
        let at = |name| instant(end, name);
        vec![text(end, "end"), at("processed_at"), at("received_at"), text(end, "attempts"), text(end, "subject")]
    });
    let heads = [
        Head::cut("ENDED"),
        Head::whole("AT"),
        Head::moment("RECEIVED").less(1),
        Head::cut("ATTEMPTS"),
        Head::cut("SUBJECT"),
    ];
    output::table(context.term, &heads, &rows.collect::<Vec<_>>())
}

/// The message within the answer, as the host wrote it.
fn whole(answer: &Answer) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Status {
        message: Option<Box<RawValue>>,
    }
    serde_json::from_str::<Status>(&answer.text).ok()?.message
}
