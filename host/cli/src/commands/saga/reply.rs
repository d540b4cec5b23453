//! `waybill saga reply`.

use std::collections::BTreeMap;

use clap::{ArgGroup, Args, ValueEnum};
use serde_json::json;
use serde_json::value::RawValue;

use super::acts;
use crate::args::within;
use crate::commands::Context;
use crate::commands::json::{self, raw_json};
use crate::exit::CliError;

/// A reply.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga reply order-17 --step reserve --result '{\"reservation\":\"r-1\"}'\n  \
    waybill saga reply order-17 --step reserve --error 'none left' --code stock.none\n  \
    waybill saga reply order-17 --step reserve --direction compensate")]
#[command(group(ArgGroup::new("outcome").args(["result", "error"])))]
pub struct Reply {
    /// Saga, root or sub-saga
    pub id: String,
    /// Which step
    #[arg(long)]
    pub step: String,
    /// Whether it was done or undone
    #[arg(long, value_enum, default_value_t = Direction::Execute, value_name = "DIRECTION")]
    pub direction: Direction,
    /// The attempt it answers [default: whichever waits]
    #[arg(long, value_name = "N", value_parser = within(1_u32..))]
    pub attempt: Option<u32>,
    /// Output: JSON, @FILE, or - for stdin [default: null]
    #[arg(long, value_name = "JSON")]
    pub result: Option<String>,
    /// Why it failed
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
    /// Code of the failure
    #[arg(long, requires = "error")]
    pub code: Option<String>,
    /// It makes sense to try again
    #[arg(long, requires = "error")]
    pub retryable: bool,
    /// It may have had its effect all the same, so it is compensated
    #[arg(long, requires = "error")]
    pub maybe_done: bool,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Done or undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    /// Its action
    Execute,
    /// Its compensation
    Compensate,
}

pub(super) async fn run(args: &Reply, context: &mut Context<'_>) -> Result<(), CliError> {
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
        fields.insert("output", json::read(context.term, "--result", given)?);
    }
    if let Some(reason) = &args.error {
        let Reply { code, retryable, maybe_done, .. } = args;
        let error = json!({ "code": code, "reason": reason, "retryable": retryable, "maybe_done": maybe_done });
        fields.insert("error", raw_json(error.to_string(), "--error")?);
    }
    let body = serde_json::to_vec(&fields).map_err(|error| CliError::usage(error.to_string(), "correct the flags"))?;
    let path = ["v1", "sagas", &args.id, "replies"];
    let answer = acts::post_bytes(context, &path, args.tenant.as_deref(), body).await?;
    acts::report(context, &format!("replied for step {} of", args.step), &args.id, &answer)
}
