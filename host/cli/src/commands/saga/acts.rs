//! `waybill saga pause` and its like: acts on sagas by id, one after the other. Those by filter are in [`super::bulk`].

use serde_json::{Map, Value, json};

use super::bulk;
use crate::args::Format;
use crate::args::saga::Saga;
use crate::args::saga_acts::{Mode, Which};
use crate::client::Answer;
use crate::commands::{Context, lists, one};
use crate::exit::{CliError, Exit};
use crate::output::{number, plain};

/// What killing means.
const UNDONE: &str = ", with nothing compensated";

/// What is done, to which sagas, and how it is told.
pub(super) struct Act {
    /// Name in the API.
    pub(super) name: &'static str,
    /// In a report.
    pub(super) done: &'static str,
    /// Said behind the number in a question.
    pub(super) warning: &'static str,
    pub(super) which: Which,
    body: Map<String, Value>,
}

impl Act {
    fn new(name: &'static str, done: &'static str, which: impl Into<Which>, reason: Option<String>) -> Self {
        let mut act = Self { name, done, warning: "", which: which.into(), body: Map::new() };
        act.with("reason", reason.map(Value::String));
        act
    }

    fn with(&mut self, name: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.body.insert(name.to_owned(), value);
        }
    }
}

/// Runs one of them.
pub(super) async fn run(command: Saga, context: &mut Context<'_>) -> Result<(), CliError> {
    let act = match command {
        Saga::Pause(args) => Act::new("pause", "paused", args.which, args.reason),
        Saga::Resume(args) => Act::new("resume", "resumed", args.which, args.reason),
        Saga::Cancel(args) => Act::new("cancel", "cancelled", args.which, args.reason),
        Saga::Accept(args) => Act::new("accept", "accepted", args.which, Some(args.reason)),
        Saga::Kill(args) => {
            if args.which.filter.is_none() && !args.which.dry_run {
                confirm(&args.which, context)?;
            }
            Act { warning: UNDONE, ..Act::new("kill", "killed", args.which, args.reason) }
        }
        Saga::Retry(args) => {
            let mut act = Act::new("retry", "retried", args.which, args.reason);
            act.with("step", args.step.map(Value::String));
            act.with("mode", (args.mode == Mode::Retry).then(|| json!("retry")));
            act
        }
        Saga::Skip(args) => {
            let mut act = Act::new("skip", "skipped the step of", args.which, args.reason);
            act.with("step", Some(Value::String(args.step)));
            act
        }
        Saga::Approve(args) => {
            let mut act = Act::new("approve", "approved", args.which, args.reason);
            act.with("step", args.step.map(Value::String));
            act
        }
        Saga::Reject(args) => {
            let mut act = Act::new("reject", "rejected", args.which, args.reason);
            act.with("step", args.step.map(Value::String));
            act
        }
        // The others aren't acts; `super::run` has them.
        _ => return Ok(()),
    };
    match &act.which.filter {
        Some(filter) => bulk::run(&act, filter, context).await,
        None if act.which.dry_run || act.which.rate.is_some() => {
            // Acting for real is the last thing that somebody means who asks for a dry run.
            Err(CliError::usage("--dry-run and --rate are for --filter", "leave them out, or write --filter 'id=...'"))
        }
        None => each(&act, context).await,
    }
}

/// Killing leaves things done that belong undone, so it is asked about.
fn confirm(which: &Which, context: &mut Context<'_>) -> Result<(), CliError> {
    if which.yes {
        return Ok(());
    }
    let what = match which.ids.as_slice() {
        [id] if id != "-" => format!("saga {}", plain(&Value::String(id.clone()))),
        _ => "these sagas".to_owned(),
    };
    let what = format!("kill {what}{UNDONE}");
    if !context.term.interactive || which.ids.iter().any(|id| id == "-") {
        let text = format!("this would {what}, and there is no terminal to ask on");
        return Err(CliError::usage(text, "add --yes, or use `waybill saga cancel` to compensate"));
    }
    if context.term.confirm(&format!("{what}?"))? { Ok(()) } else { Err(CliError::Declined) }
}

/// By id, in the order given, each by itself.
async fn each(act: &Act, context: &mut Context<'_>) -> Result<(), CliError> {
    let ids = crate::commands::bulk::read_ids(context, &act.which.ids, act.which.tenant.as_deref())?;
    if ids.is_empty() {
        context.term.say("no ids: nothing to do");
    }
    let (mut done, mut failed, mut last) = (0_u64, 0_u64, None);
    for (tenant, id) in &ids {
        let told = match post(context, act, tenant.as_deref(), id).await {
            Ok(answer) => told(context, act.done, id, &answer),
            Err(error) => Err(error),
        };
        let Err(error) = told else {
            done += 1;
            continue;
        };
        if is_hopeless(&error) || ids.len() == 1 {
            if done > 0 {
                let done = number(done, "saga was", "sagas were");
                context.term.complain(&format!("{done} {} before it failed, the rest wasn't tried:", act.done));
            }
            return Err(error);
        }
        failed += 1;
        context.term.complain(&format!("{}: {error}", plain(&Value::String(id.clone()))));
        last = Some(error.exit());
    }
    match (done, last) {
        (_, None) => Ok(()),
        (0, Some(exit)) => Err(CliError::NoneDone { failed, exit }),
        (done, Some(_)) => Err(CliError::Partly { done, failed }),
    }
}

/// Has it done to one saga.
pub(super) async fn post(context: &Context<'_>, act: &Act, tenant: Option<&str>, id: &str) -> Result<Answer, CliError> {
    let path = ["v1", "sagas", id, act.name];
    let answer = context.client.post(&path, &lists::tenant_query(tenant), &Value::Object(act.body.clone())).await;
    answer.map_err(|error| one::missed(error, tenant))
}

/// Whether nothing after this error would fare better.
pub(super) fn is_hopeless(error: &CliError) -> bool {
    matches!(error.exit(), Exit::Unreachable | Exit::NotAllowed | Exit::TimedOut)
}

/// Says what was done; the formats for programs get the host's answer.
pub(super) fn told(context: &mut Context<'_>, done: &str, id: &str, answer: &Answer) -> Result<(), CliError> {
    let state = answer.need("state", |state| state.as_str().map(str::to_owned))?;
    let id = plain(&Value::String(id.to_owned()));
    let unchanged = answer.body.get("unchanged") == Some(&Value::Bool(true));
    let told = if unchanged { format!("{id} was so already") } else { format!("{done} {id}") };
    context.term.say(&format!("{told}: it is {state}"));
    match context.format {
        Format::Table => Ok(()),
        Format::Json | Format::Jsonl => context.term.line(answer.text.trim_end()),
        Format::Ids => context.term.line(&id),
    }
}
