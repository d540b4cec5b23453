//! `waybill saga link`: links by which a person without a token approves or rejects.

use serde_json::{Map, Value, json};

use crate::args::Format;
use crate::args::saga_acts::Link;
use crate::commands::{Context, lists, one};
use crate::exit::CliError;
use crate::output::plain;

/// Asks for them and writes them.
pub(in crate::commands) async fn run(args: &Link, context: &mut Context<'_>) -> Result<(), CliError> {
    let mut body = Map::new();
    body.insert("by".to_owned(), json!(args.by));
    if let Some(step) = &args.step {
        body.insert("step".to_owned(), json!(step));
    }
    if let Some(expires) = args.expires {
        body.insert("expires_ms".to_owned(), json!(u64::try_from(expires.as_millis()).unwrap_or(u64::MAX)));
    }
    let (path, tenant) = (["v1", "sagas", &args.id, "links"], args.tenant.as_deref());
    let answer = context.client.post(&path, &lists::tenant_query(tenant), &Value::Object(body)).await;
    let answer = answer.map_err(|error| one::missed(error, tenant))?;
    let text = |name: &'static str| answer.need(name, |value| value.as_str().map(|text| plain(&json!(text))));
    let (approve, reject) = (text("approve")?, text("reject")?);
    let (by, step, until) = (text("by")?, text("step")?, text("expires_at")?);
    let id = plain(&Value::String(args.id.clone()));
    context.term.say(&format!("for {by}, about step {step} of {id}, until {until}"));
    match context.format {
        Format::Table => {
            context.term.line(&format!("approve  {approve}"))?;
            context.term.line(&format!("reject   {reject}"))
        }
        Format::Json | Format::Jsonl => context.term.line(answer.text.trim_end()),
        Format::Ids => context.term.line(&id),
    }
}
