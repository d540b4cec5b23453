//! `waybill transport ...`.

use serde_json::{Value, json};

use super::{Context, lists, provision};
use crate::args::Format;
use crate::args::rest::Transport;
use crate::exit::CliError;
use crate::output::{self, View, column, plain, short_digest, text, words};

/// How transports are listed.
pub(super) const VIEW: View<'_> = View {
    columns: &[
        column("NAME", |item| text(item, "name")),
        column("STATE", |item| {
            let paused = item.get("paused") == Some(&Value::Bool(true));
            if paused { "paused".into() } else { text(item, "health") }
        }),
        column("BREAKER", |item| text(item, "breaker")),
        column("IN FLIGHT", |item| words(item, "in_flight")),
        column("INSTANCES", |item| text(item, "lanes")),
        column("PLUGIN", |item| {
            let part = |name: &str| item.pointer(&format!("/plugin/{name}")).map_or("-".into(), plain);
            format!("{} {} ({})", part("plugin"), part("version"), short_digest(&part("digest")))
        }),
        column("DETAIL", |item| text(item, "health_detail")),
    ],
    id: |item| text(item, "name"),
    none: "no transport is configured",
};

/// Runs one of them.
pub(super) async fn run(command: &Transport, context: &mut Context<'_>) -> Result<(), CliError> {
    let (name, act, told) = match command {
        Transport::List => {
            let items = lists::whole(context, &["v1", "transports"], &[]).await?;
            return output::list(context.term, context.format, &items, &VIEW);
        }
        Transport::Pause(name) => (&name.name, "pause", "is paused: its messages wait"),
        Transport::Resume(name) => (&name.name, "resume", "goes on sending"),
        Transport::Probe(name) => (&name.name, "probe", "was asked, and held destinations are tried again"),
        Transport::Provision(args) => return provision::run(args, context).await,
    };
    let answer = context.client.post(&["v1", "transports", name, act], &[], &json!({})).await?;
    answer.need("name", Value::as_str)?;
    context.term.say(&format!("{name} {told}"));
    match context.format {
        Format::Json | Format::Jsonl => context.term.line(answer.text.trim_end()),
        format => output::list(context.term, format, std::slice::from_ref(&answer.body), &VIEW),
    }
}
