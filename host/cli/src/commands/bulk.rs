//! Acts on many by filter, as an operation of the host: it survives a crash of either side.

use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value};
use waybill_server::limits::OPERATION_RATE_MAX;

use super::{Context, lists};
use crate::args::within;
use crate::client::Answer;
use crate::exit::{CliError, Exit};
use crate::output::{self, Format, View, counted_since, number, text, words};
use crate::term::DRY_RUN_FIRST;

/// How often an operation is asked how it stands.
const POLL: Duration = Duration::from_millis(400);

/// How a bulk act is done.
#[derive(Clone, Debug, Args)]
pub struct Bulk {
    /// Only count, and show a sample
    #[arg(long, visible_alias = "plan")]
    pub dry_run: bool,
    /// Don't ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    pub yes: bool,
    /// Most acts a second [default: 100]
    #[arg(long, value_name = "N", value_parser = within(1..=OPERATION_RATE_MAX))]
    pub rate: Option<u32>,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Start it and don't wait for its end
    #[arg(long)]
    pub detach: bool,
    /// Exit with 3 when nothing matches, for scripts
    #[arg(long)]
    pub exit_code: bool,
}

impl Bulk {
    /// Ends an act as it was asked to end where there was nothing to do.
    pub(super) fn ended(&self, is_nothing: bool) -> Result<(), CliError> {
        CliError::for_nothing(is_nothing, self.exit_code)
    }
}

/// A filter as the API takes it: none that is empty, so that nobody takes all by leaving something out.
pub(super) fn whole(filter: &str) -> &str {
    if filter.trim().is_empty() { "id=*" } else { filter }
}

/// An operation to start.
#[derive(Clone)]
pub(super) struct Operation<'a> {
    /// Name of the act in the API.
    kind: &'a str,
    verb: &'a str,
    filter: &'a str,
    /// What else the API takes of it.
    request: Map<String, Value>,
}

/// What an operation acts on, for people.
pub(super) struct Concerned<'a> {
    /// So many of them, behind a verb.
    pub(super) counted: fn(u64, &Value) -> String,
    /// Said where none matches.
    pub(super) none: &'a str,
    pub(super) view: &'a View<'a>,
}

impl<'a> Operation<'a> {
    /// An act on all that match, of one tenant if one is named.
    pub(super) fn new(
        (kind, verb): (&'a str, &'a str),
        filter: &'a str,
        tenant: Option<&str>,
        rate: Option<u32>,
        mut request: Map<String, Value>,
    ) -> Self {
        request.extend(tenant.map(|tenant| ("tenant".to_owned(), tenant.into())));
        request.extend(rate.map(|rate| ("rate".to_owned(), rate.into())));
        Self { kind, verb, filter: whole(filter), request }
    }

    /// Counts, asks, starts and follows it.
    pub(super) async fn run(
        &self,
        context: &mut Context<'_>,
        concerned: &Concerned<'_>,
        how: &Bulk,
    ) -> Result<(), CliError> {
        let counted = self.count(context).await?;
        let matched = counted.need("matched", Value::as_u64)?;
        let what = format!("{} {}", self.verb, (concerned.counted)(matched, &counted.body));
        let is_nothing = matched == 0 && counted_since(&counted.body).is_none();
        if how.dry_run {
            dry_run(context, &counted, &what, concerned.view)?;
            return how.ended(is_nothing);
        }
        if is_nothing {
            context.term.say(&format!("{}: nothing to do", concerned.none));
            return how.ended(true);
        }
        confirm(context, &what, self.filter, how.yes)?;
        let Some(ended) = self.as_planned(&counted).carry_out(context, matched, how.detach).await? else {
            return Ok(());
        };
        let id = ended.need("id", Value::as_str)?;
        output::one(context.term, context.format, &ended.text, id, rows(&ended.body))?;
        verdict(&ended, Exit::Failed)
    }

    /// Bound to what its plan counted, if it has one: nothing is done if more match.
    fn as_planned(&self, counted: &Answer) -> Self {
        let mut bound = self.clone();
        if let Some(before) = counted.body.get("plan").and_then(|plan| plan.get("before")) {
            bound.request.insert("before".to_owned(), before.clone());
            let matched = counted.body.get("matched").cloned().unwrap_or_default();
            bound.request.entry("expect_count").or_insert(matched);
        }
        bound
    }

    async fn post(&self, context: &Context<'_>, dry_run: bool) -> Result<Answer, CliError> {
        let mut request = self.request.clone();
        request.insert("kind".to_owned(), self.kind.into());
        request.insert("filter".to_owned(), self.filter.into());
        request.insert("dry_run".to_owned(), dry_run.into());
        Ok(context.client.post(&["v1", "operations"], &[], &Value::Object(request)).await?)
    }

    /// What it would concern.
    pub(super) async fn count(&self, context: &Context<'_>) -> Result<Answer, CliError> {
        self.post(context, true).await
    }

    /// Starts it and follows it to its end. None = it is left to the host.
    pub(super) async fn carry_out(
        &self,
        context: &mut Context<'_>,
        matched: u64,
        detach: bool,
    ) -> Result<Option<Answer>, CliError> {
        let started = self.post(context, false).await?;
        let id = started.need("id", Value::as_str)?.to_owned();
        if detach {
            context.term.say(&format!("operation {id} is under way on the host"));
            output::one(context.term, context.format, &started.text, &id, rows(&started.body))?;
            return Ok(None);
        }
        watch(context, self.verb, &id, matched).await.map(Some)
    }
}

/// Writes what would be done, and the first it would be done to.
fn dry_run(context: &mut Context<'_>, counted: &Answer, what: &str, view: &View<'_>) -> Result<(), CliError> {
    let sample = counted.need("sample", Value::as_array)?;
    match context.format {
        Format::Json | Format::Jsonl => context.term.line(counted.text.trim_end()),
        Format::Ids => output::list(context.term, Format::Ids, sample, view),
        Format::Table => {
            context.term.line(&format!("would {what}"))?;
            lists::tell_counted(context, &counted.body);
            if let Some(plan) = counted.body.get("plan") {
                for line in plan_lines(plan) {
                    context.term.line(&line)?;
                }
            }
            if !sample.is_empty() {
                context.term.line("the first of them:")?;
                output::list(context.term, Format::Table, sample, view)?;
            }
            Ok(())
        }
    }
}

/// What a plan tells beside the number.
fn plan_lines(plan: &Value) -> Vec<String> {
    let count = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64).unwrap_or(0);
    let left_out = plan.get("left_out").unwrap_or(&Value::Null);
    let mut lines = vec![format!("that died until {}", text(plan, "before"))];
    let quarantined = count(left_out, "quarantined");
    if quarantined > 0 {
        lines.push(format!("left out: {}", number(quarantined, "that is quarantined", "that are quarantined")));
    }
    if left_out.get("other_tenants_than").is_some() {
        lines.push(format!("left out: those of other tenants than {}", text(left_out, "other_tenants_than")));
    }
    let replayed = count(plan, "replayed_before");
    if replayed > 0 {
        lines.push(number(replayed, "of them was replayed before", "of them were replayed before"));
    }
    let keys = count(plan, "keys_with_several");
    if keys > 0 {
        lines.push(format!(
            "{}, which are taken in their order",
            number(keys, "key has several of them", "keys have several of them")
        ));
    }
    lines
}

/// Asks whether to do what was selected.
pub(super) fn confirm(context: &mut Context<'_>, what: &str, filter: &str, yes: bool) -> Result<(), CliError> {
    if yes { Ok(()) } else { context.term.confirm(what, &format!("{what} ({filter})?"), DRY_RUN_FIRST) }
}

async fn watch(context: &mut Context<'_>, verb: &str, id: &str, matched: u64) -> Result<Answer, CliError> {
    let bar = progress(context, matched, verb);
    loop {
        let answer = match context.client.get(&["v1", "operations", id], &[]).await {
            Ok(answer) => answer,
            Err(error) => {
                bar.finish_and_clear();
                context.term.complain(&format!(
                    "operation {id} goes on at the host; ask again with `waybill operation show {id}`"
                ));
                return Err(error.into());
            }
        };
        let count = |name: &str| answer.body.get(name).and_then(Value::as_u64).unwrap_or(0);
        bar.set_position(count("done") + count("unchanged") + count("failed"));
        if answer.need("state", Value::as_str)? != "running" {
            bar.finish_and_clear();
            return Ok(answer);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// How far it is, on a terminal.
pub(super) fn progress(context: &Context<'_>, length: u64, verb: &str) -> ProgressBar {
    let target = if context.term.interactive && !context.term.quiet {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(length), target).with_message(verb.to_owned());
    match ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {per_sec} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

pub(super) fn rows(operation: &Value) -> Vec<(String, String)> {
    let mut rows = vec![("operation".to_owned(), text(operation, "id"))];
    for name in ["kind", "filter", "state"] {
        rows.push((name.to_owned(), text(operation, name)));
    }
    for name in ["matched", "done", "failed"] {
        let at_least = if name == "matched" && counted_since(operation).is_some() { "at least " } else { "" };
        rows.push((name.to_owned(), format!("{at_least}{}", words(operation, name))));
    }
    rows.extend(Some(("error".to_owned(), text(operation, "error"))).filter(|(_, error)| error != "-"));
    rows
}

/// `none_done`: the exit code when nothing could be done.
pub(super) fn verdict(operation: &Answer, none_done: Exit) -> Result<(), CliError> {
    let count = |name| operation.need(name, Value::as_u64);
    let (done, failed) = (count("done")? + count("unchanged")?, count("failed")?);
    let finished = operation.need("state", Value::as_str)? == "done";
    match (done, failed, finished) {
        (_, 0, true) => Ok(()),
        (0, failed, _) => Err(CliError::NoneDone { failed, exit: none_done }),
        (done, failed, _) => Err(CliError::Partly { done, failed }),
    }
}
