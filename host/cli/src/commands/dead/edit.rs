//! `waybill dead edit`: an edited copy of a dead letter as a new message.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::IdArgs;
use crate::commands::json::{raw_json, raw_text};
use crate::commands::send::base64;
use crate::commands::{Context, lists, requests};
use crate::exit::CliError;
use crate::output::Format;

/// Edited copy.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill dead edit 01JD8Q6H3ZK7W5V0N2T4R6Y8BC --payload '{\"order\":17,\"total\":\"10.00\"}'\n  \
    waybill dead edit order-17 --tenant acme --topic bus:orders.v2 --reason 'v1 is gone'\n  \
    waybill dead edit logo-3 --raw --file logo.png\n\n\
    What isn't given is taken from the original. The original is quarantined with a note that names the copy, so that a \
    replay by filter doesn't send both; `waybill dead replay ID` still brings it back. Of a received message the copy is stored \
    for its consumer under an id of its own, and the original is removed.")]
pub struct Edit {
    /// Which.
    #[command(flatten)]
    pub letter: IdArgs,
    /// New payload as JSON
    #[arg(long, value_name = "JSON", conflicts_with = "file")]
    pub payload: Option<String>,
    /// File with the new payload as JSON
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The file is the payload as it is, not JSON
    #[arg(long, requires = "file")]
    pub raw: bool,
    /// New topic
    #[arg(long)]
    pub topic: Option<String>,
    /// New key
    #[arg(long)]
    pub key: Option<String>,
    /// New headers; all old ones are dropped
    #[arg(long = "header", value_name = "NAME=VALUE")]
    pub headers: Vec<String>,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// What became of copy and original.
fn said(id: &str, original: Option<&Value>) -> String {
    match original.map(|original| original.get("kind").and_then(Value::as_str)) {
        Some(Some("inbox")) => format!("the copy is stored for its consumer under a new id; {id} is removed"),
        Some(_) => format!("sent as a new message; {id} is quarantined with a note that names it"),
        None => "the copy is taken in under a new id".to_owned(),
    }
}

pub(super) async fn run(args: &Edit, context: &mut Context<'_>) -> Result<(), CliError> {
    let mut fields: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
    if let Some(text) = &args.payload {
        fields.insert("payload", raw_json(text.clone(), "--payload")?);
    }
    if let Some(path) = args.file.as_ref().filter(|_| args.raw) {
        let bytes = std::fs::read(path).map_err(CliError::io(format!("reading {}", path.display())))?;
        fields.insert("payload_base64", raw_text(&base64(&bytes))?);
    } else if let Some(path) = &args.file {
        let text = std::fs::read_to_string(path).map_err(CliError::io(format!("reading {}", path.display())))?;
        fields.insert("payload", raw_json(text, &path.display().to_string())?);
    }
    for (name, value) in [("topic", &args.topic), ("key", &args.key)] {
        if let Some(value) = value {
            fields.insert(name, raw_text(value)?);
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
        fields.insert("headers", raw_json(Value::Object(headers).to_string(), "--header")?);
    }
    if fields.is_empty() {
        return Err(CliError::usage("nothing to edit", "give --payload, --file, --topic, --key or --header"));
    }
    let body = serde_json::to_vec(&fields).map_err(|error| CliError::usage(error.to_string(), "correct the fields"))?;
    let (id, tenant) = (&args.letter.id, args.letter.tenant.as_deref());
    // What becomes of the original depends on its kind; what is wrong with it the edit says.
    let original = requests::get(context, "dead-letters", id, tenant).await.ok();
    let path = ["v1", "dead-letters", id, "edit"];
    let mut query = lists::tenant_query(tenant);
    query.extend(args.reason.as_deref().map(|reason| ("reason", reason)));
    let answer = context.client.post_bytes(&path, &query, "application/json", body).await;
    let answer = answer.map_err(|error| requests::with_tenant(error, tenant))?;
    let ids: Vec<&str> = answer.need("ids", Value::as_array)?.iter().filter_map(Value::as_str).collect();
    context.term.say(&said(id, original.as_ref().map(|original| &original.body)));
    match context.format {
        Format::Json | Format::Jsonl => context.term.line(answer.text.trim_end()),
        Format::Table | Format::Ids => ids.iter().try_for_each(|id| context.term.line(id)),
    }
}
