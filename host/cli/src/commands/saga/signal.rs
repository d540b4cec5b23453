//! `waybill saga signal`.

use clap::Args;

use super::acts;
use crate::commands::{Context, json};
use crate::exit::CliError;

/// A signal.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga signal order-17 paid --data '{\"payment\":\"p-1\"}'\n  \
    waybill saga signal order-17~shipment delivered    of a sub-saga\n\n\
    One that comes before a step waits for it is kept.")]
pub struct Signal {
    /// Saga, root or sub-saga
    pub id: String,
    /// Name of the signal
    pub name: String,
    /// Its data: JSON, @FILE, or - for stdin [default: null]
    #[arg(long, alias = "input", value_name = "JSON")]
    pub data: Option<String>,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

pub(super) async fn run(args: &Signal, context: &mut Context<'_>) -> Result<(), CliError> {
    let body = match &args.data {
        Some(given) => json::read(context.term, "--data", given)?.get().as_bytes().to_vec(),
        None => b"null".to_vec(),
    };
    let path = ["v1", "sagas", &args.id, "signals", &args.name];
    let answer = acts::post_bytes(context, &path, args.tenant.as_deref(), body).await?;
    acts::report(context, &format!("sent {} to", args.name), &args.id, &answer)
}
