//! Acts on sagas by id, one after the other. Those by filter are in [`super::bulk`].

use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Map, Value};
use waybill_server::limits::OPERATION_RATE_MAX;

use super::bulk;
use crate::args::within;
use crate::client::Answer;
use crate::commands::selection::{self, Id, Ids, Selection};
use crate::commands::{Context, lists, requests};
use crate::exit::CliError;
use crate::output::{self, number, safe};

/// Which sagas, and how it is done to many of them.
#[derive(Clone, Debug, Args)]
#[group(skip)]
#[command(mut_arg("filter", |arg| {
    arg.help("All that match and haven't ended; conditions as of `waybill saga list`")
}))]
#[command(mut_arg("tenant", |arg| {
    arg.help("Tenant of the ids [default: the token's only one, else default], or of what matches")
}))]
pub struct Which {
    /// Which.
    #[command(flatten)]
    pub selection: Selection,
    /// With --filter: only count, and show a sample
    #[arg(long)]
    pub dry_run: bool,
    /// Don't ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    pub yes: bool,
    /// With --filter: most acts a second [default: 100]
    #[arg(long, value_name = "N", value_parser = within(1..=OPERATION_RATE_MAX))]
    pub rate: Option<u32>,
    /// With --filter: start it and don't wait for its end
    #[arg(long)]
    pub detach: bool,
    /// With --filter: exit with 3 when nothing matches, for scripts
    #[arg(long)]
    pub exit_code: bool,
}

impl Which {
    /// Whether something was asked that only an act by filter can do.
    fn is_for_many(&self) -> bool {
        self.dry_run || self.rate.is_some() || self.detach || self.exit_code
    }

    /// Ends an act as it was asked to end where there was nothing to do.
    pub(super) fn ended(&self, is_nothing: bool) -> Result<(), CliError> {
        CliError::for_nothing(is_nothing, self.exit_code)
    }
}

impl From<Ids> for Which {
    fn from(ids: Ids) -> Self {
        Self { selection: ids.into(), dry_run: false, yes: false, rate: None, detach: false, exit_code: false }
    }
}

/// What is done, to which sagas, and how it is reported.
pub(super) struct SagaAct {
    /// Name in the API.
    pub(super) name: &'static str,
    pub(super) done: &'static str,
    /// Said behind the number in a question.
    pub(super) warning: &'static str,
    pub(super) which: Which,
    /// What the API takes of it for one saga.
    pub(super) body: Map<String, Value>,
}

impl SagaAct {
    pub(super) fn new(name: &'static str, done: &'static str, which: impl Into<Which>, reason: Option<String>) -> Self {
        let act = Self { name, done, warning: "", which: which.into(), body: Map::new() };
        act.with("reason", reason.map(Value::String))
    }

    /// With a member of the request, if there is one.
    pub(super) fn with(mut self, name: &str, value: Option<Value>) -> Self {
        if let Some(value) = value {
            self.body.insert(name.to_owned(), value);
        }
        self
    }
}

pub(super) async fn run(act: &SagaAct, context: &mut Context<'_>) -> Result<(), CliError> {
    match &act.which.selection.filter {
        Some(filter) => bulk::run(act, filter, context).await,
        None if act.which.is_for_many() => {
            // Acting for real is the last thing that somebody means who asks for a dry run.
            let what = "--dry-run, --rate, --detach and --exit-code are for --filter";
            Err(CliError::usage(what, "leave them out, or write --filter 'id=...'"))
        }
        None => each(act, context).await,
    }
}

/// By id, in the order given, each by itself.
async fn each(act: &SagaAct, context: &mut Context<'_>) -> Result<(), CliError> {
    let Selection { ids, tenant, .. } = &act.which.selection;
    let ids = selection::read_ids(context, ids, tenant.as_deref())?;
    let broke_off = |done: u64| {
        let done = number(done, "saga was", "sagas were");
        Some(format!("{done} {} before it failed, the rest wasn't tried:", act.done))
    };
    selection::each(context, &ids, &ProgressBar::hidden(), broke_off, async |context, Id { tenant, id, .. }| {
        let answer = post(context, act, tenant.as_deref(), id).await?;
        report(context, act.done, id, &answer).map(Ok)
    })
    .await
}

/// Has it done to one saga.
async fn post(context: &Context<'_>, act: &SagaAct, tenant: Option<&str>, id: &str) -> Result<Answer, CliError> {
    let path = ["v1", "sagas", id, act.name];
    let answer = context.client.post(&path, &lists::tenant_query(tenant), &Value::Object(act.body.clone())).await;
    answer.map_err(|error| requests::with_tenant(error, tenant))
}

/// Posts JSON about one saga.
pub(super) async fn post_bytes(
    context: &Context<'_>,
    path: &[&str],
    tenant: Option<&str>,
    body: Vec<u8>,
) -> Result<Answer, CliError> {
    let answer = context.client.post_bytes(path, &lists::tenant_query(tenant), "application/json", body).await;
    answer.map_err(|error| requests::with_tenant(error, tenant))
}

/// Says what was done; the formats for programs get the host's answer.
pub(super) fn report(context: &mut Context<'_>, done: &str, id: &str, answer: &Answer) -> Result<(), CliError> {
    let state = answer.need("state", |state| state.as_str().map(str::to_owned))?;
    let id = safe(id);
    let unchanged = answer.body.get("unchanged") == Some(&Value::Bool(true));
    let what = if unchanged { format!("{id} was so already") } else { format!("{done} {id}") };
    context.term.say(&format!("{what}: it is {state}"));
    output::answer(context.term, context.format, &answer.text, &id, |_| Ok(()))
}
