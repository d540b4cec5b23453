//! `waybill saga start`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::follow;
use crate::args::{duration, pair, within};
use crate::commands::Context;
use crate::commands::json::{self, raw_json};
use crate::exit::CliError;
use crate::output;

/// A saga to start.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga start order --input '{\"order\":17,\"total\":\"10.00\"}'\n  \
    waybill saga start order --id order-17 --input @order.json --deadline 1h\n  \
    produce | waybill saga start order --input -\n  \
    waybill saga start order --input '{}' --follow     until it ends or stops; exit code 0 if it completed, else 1\n\n\
    With an id of your own, starting the same saga again changes nothing.")]
pub struct Start {
    /// Name of the definition
    pub definition: String,
    /// Its version [default: the latest]
    #[arg(long, value_name = "N", value_parser = within(1_u32..))]
    pub version: Option<u32>,
    /// What the steps work on: JSON, @FILE, or - for stdin [default: null]
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// Id of your own, by which a repeated start is recognised
    #[arg(long)]
    pub id: Option<String>,
    /// Started once under this key: the same start again is answered as the first was
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
    /// Time for the whole saga; then it is compensated
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// Header handed to every step, may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    pub headers: Vec<(String, String)>,
    /// Ties replies to the saga [default: its id]
    #[arg(long, value_name = "ID")]
    pub correlation_id: Option<String>,
    /// Show what happens until it ends, or needs an operator
    #[arg(short, long)]
    pub follow: bool,
}

/// Starts it, and follows it if asked.
pub(super) async fn run(args: &Start, context: &mut Context<'_>) -> Result<(), CliError> {
    let body = body(args, context)?;
    let key = args.idempotency_key.as_deref();
    let Some(answer) = context.client.post_once(&["v1", "sagas"], "application/json", key, body).await? else {
        context.term.say(
            "started before under this key; the host keeps only a digest of the answer, so the id isn't known here",
        );
        return Ok(());
    };
    let id = answer.need("id", |id| id.as_str().map(str::to_owned))?;
    let again = answer.body.get("duplicate") == Some(&Value::Bool(true));
    context.term.say(if again { "it was started before" } else { "started" });
    output::answer(context.term, context.format, &answer.text, &id, |term| term.line(&id))?;
    if !args.follow {
        return Ok(());
    }
    context.term.out.flush().map_err(CliError::io("writing the result"))?;
    let tenant = answer.need("tenant", |tenant| tenant.as_str().map(str::to_owned))?;
    follow::until_end(context, &id, Some(&tenant), 0).await
}

fn body(args: &Start, context: &mut Context<'_>) -> Result<Vec<u8>, CliError> {
    let mut fields: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
    let mut put = |name: &'static str, value: Value| -> Result<(), CliError> {
        fields.insert(name, raw_json(value.to_string(), name)?);
        Ok(())
    };
    put("definition", json!(args.definition))?;
    for (name, text) in [("id", &args.id), ("tenant", &args.tenant), ("correlation_id", &args.correlation_id)] {
        text.as_ref().map_or(Ok(()), |text| put(name, json!(text)))?;
    }
    if let Some(version) = args.version {
        put("version", json!(version))?;
    }
    if let Some(deadline) = args.deadline {
        put("deadline_ms", json!(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)))?;
    }
    if !args.headers.is_empty() {
        let mut headers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, value) in &args.headers {
            headers.entry(name).or_default().push(value);
        }
        put("headers", json!(headers))?;
    }
    if let Some(given) = &args.input {
        fields.insert("input", json::read(context.term, "--input", given)?);
    }
    serde_json::to_vec(&fields).map_err(|error| CliError::usage(error.to_string(), "correct the flags"))
}
