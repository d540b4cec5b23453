//! `waybill dead edit`: an edited copy of a dead letter as a new message.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Context, lists, one};
use crate::args::Format;
use crate::args::dead::Edit;
use crate::exit::CliError;

/// Sends the copy.
pub(super) async fn run(args: &Edit, context: &mut Context<'_>) -> Result<(), CliError> {
    let mut fields: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
    if let Some(text) = &args.payload {
        fields.insert("payload", super::send::raw_json(text.clone(), "--payload")?);
    }
    if let Some(path) = &args.file {
        let text = std::fs::read_to_string(path).map_err(CliError::io(format!("reading {}", path.display())))?;
        fields.insert("payload", super::send::raw_json(text, &path.display().to_string())?);
    }
    for (name, value) in [("topic", &args.topic), ("key", &args.key)] {
        if let Some(value) = value {
            fields.insert(name, super::send::raw_text(value)?);
        }
    }
    if !args.headers.is_empty() {
        let mut headers = serde_json::Map::new();
        for header in &args.headers {
            let (name, value) = header
                .split_once('=')
                .ok_or_else(|| CliError::usage(format!("--header {header:?} has no ="), "write --header NAME=VALUE"))?;
            headers.insert(name.to_owned(), Value::String(value.to_owned()));
        }
        fields.insert("headers", super::send::raw_json(Value::Object(headers).to_string(), "--header")?);
    }
    if fields.is_empty() {
        return Err(CliError::usage("nothing to edit", "give --payload, --file, --topic, --key or --header"));
    }
    let body = serde_json::to_vec(&fields).map_err(|error| CliError::usage(error.to_string(), "correct the fields"))?;
    let path = ["v1", "dead-letters", &args.one.id, "edit"];
    let tenant = args.one.tenant.as_deref();
    let answer = context.client.post_bytes(&path, &lists::tenant_query(tenant), "application/json", body).await;
    let answer = answer.map_err(|error| one::missed(error, tenant))?;
    let ids: Vec<&str> = answer.need("ids", Value::as_array)?.iter().filter_map(Value::as_str).collect();
    context.term.say(&format!("sent as a new message; {} is quarantined with a note that names it", args.one.id));
    match context.format {
        Format::Json | Format::Jsonl => context.term.line(answer.text.trim_end()),
        Format::Table | Format::Ids => ids.iter().try_for_each(|id| context.term.line(id)),
    }
}
