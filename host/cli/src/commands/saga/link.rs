//! `waybill saga link`: links by which a person without a token approves or rejects.

use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::args::duration;
use crate::commands::{Context, lists, requests};
use crate::exit::CliError;
use crate::output::{self, safe};

/// Links for a decision.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga link order-17 --by ann@example.com\n  \
    waybill saga link order-17 --by ann --step release --expires 24h -o json\n\n\
    Whoever has one of the two links can decide: send them as you would send a password.\n\
    The host needs a key for it, approval_key in [saga].")]
pub struct Link {
    /// Saga, root or sub-saga
    pub id: String,
    /// Who will decide; kept with the decision as link:NAME
    #[arg(long, value_name = "NAME")]
    pub by: String,
    /// Which step, where several wait
    #[arg(long)]
    pub step: Option<String>,
    /// How long the links are good [default: as long as the step waits]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub expires: Option<Duration>,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Asks for them and writes them.
pub(super) async fn run(args: &Link, context: &mut Context<'_>) -> Result<(), CliError> {
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
    let answer = answer.map_err(|error| requests::with_tenant(error, tenant))?;
    let text = |name: &'static str| answer.need(name, |value| value.as_str().map(safe));
    let (approve, reject) = (text("approve")?, text("reject")?);
    let (by, step, until) = (text("by")?, text("step")?, text("expires_at")?);
    let id = safe(&args.id);
    context.term.say(&format!("for {by}, about step {step} of {id}, until {until}"));
    output::answer(context.term, context.format, &answer.text, &id, |term| {
        term.line(&format!("approve  {approve}"))?;
        term.line(&format!("reject   {reject}"))
    })
}
