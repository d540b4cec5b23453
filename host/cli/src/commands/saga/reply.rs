//! `waybill saga signal` and `waybill saga reply`.

use std::collections::BTreeMap;

use serde_json::json;
use serde_json::value::RawValue;

use super::{acts, input};
use crate::args::saga::{Direction, Reply, Signal};
use crate::client::Answer;
use crate::commands::send::raw_json;
use crate::commands::{Context, lists, one};
use crate::exit::CliError;

/// Sends a signal.
pub(in crate::commands) async fn signal(args: &Signal, context: &mut Context<'_>) -> Result<(), CliError> {
    let body = match &args.data {
        Some(given) => input::read(context.term, "--data", given)?.get().as_bytes().to_vec(),
        None => b"null".to_vec(),
    };
    let path = ["v1", "sagas", &args.id, "signals", &args.name];
    let answer = post(context, &path, args.tenant.as_deref(), body).await?;
    acts::told(context, &format!("sent {} to", args.name), &args.id, &answer)
}

/// Sends a reply.
pub(in crate::commands) async fn reply(args: &Reply, context: &mut Context<'_>) -> Result<(), CliError> {
    let direction = match args.direction {
        Direction::Execute => "execute",
        Direction::Compensate => "compensate",
    };
    let mut fields: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
    fields.insert("step", raw_json(json!(args.step).to_string(), "--step")?);
    fields.insert("direction", raw_json(json!(direction).to_string(), "--direction")?);
    if let Some(attempt) = args.attempt {
        fields.insert("attempt", raw_json(json!(attempt).to_string(), "--attempt")?);
    }
    if let Some(given) = &args.result {
        fields.insert("output", input::read(context.term, "--result", given)?);
    }
    if let Some(reason) = &args.error {
        let Reply { code, retryable, maybe_done, .. } = args;
        let error = json!({ "code": code, "reason": reason, "retryable": retryable, "maybe_done": maybe_done });
        fields.insert("error", raw_json(error.to_string(), "--error")?);
    }
    let body = serde_json::to_vec(&fields).map_err(|error| CliError::usage(error.to_string(), "correct the flags"))?;
    let path = ["v1", "sagas", &args.id, "replies"];
    let answer = post(context, &path, args.tenant.as_deref(), body).await?;
    acts::told(context, &format!("replied for step {} of", args.step), &args.id, &answer)
}

async fn post(context: &Context<'_>, path: &[&str], tenant: Option<&str>, body: Vec<u8>) -> Result<Answer, CliError> {
    let answer = context.client.post_bytes(path, &lists::tenant_query(tenant), "application/json", body).await;
    answer.map_err(|error| one::missed(error, tenant))
}
