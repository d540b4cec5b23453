//! `waybill saga start`.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{follow, input};
use crate::args::Format;
use crate::args::saga::Start;
use crate::commands::Context;
use crate::commands::send::raw_json;
use crate::exit::CliError;

/// Starts it, and follows it if asked.
pub(in crate::commands) async fn run(args: &Start, context: &mut Context<'_>) -> Result<(), CliError> {
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
    match context.format {
        Format::Json | Format::Jsonl => context.term.line(answer.text.trim_end())?,
        Format::Table | Format::Ids => context.term.line(&id)?,
    }
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
        fields.insert("input", input::read(context.term, "--input", given)?);
    }
    serde_json::to_vec(&fields).map_err(|error| CliError::usage(error.to_string(), "correct the flags"))
}
