//! Acts on many dead letters: by filter as an operation of the host, which survives a crash of either side; by id one after
//! the other.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::{Context, dead, messages};
use crate::args::Format;
use crate::args::bulk::Bulk;
use crate::args::dead::Which;
use crate::args::saga_acts::Mode;
use crate::client::Answer;
use crate::exit::{CliError, Exit};
use crate::output::{self, counted_since, dead_letters, text, words};

/// How often an operation is asked how it stands.
const POLL: Duration = Duration::from_millis(400);
/// Most ids read from stdin: more is a matter for a filter.
const IDS_MAX: usize = 100_000;

/// What is done.
pub(super) struct Act {
    /// Name in the API.
    pub(super) kind: &'static str,
    /// In a question.
    pub(super) verb: &'static str,
    /// In a report.
    pub(super) done: &'static str,
    /// Reason, or note.
    pub(super) text: String,
    /// Which way stuck sagas go on, if it was said.
    pub(super) mode: Option<Mode>,
}

/// By filter: count, ask, start, watch.
pub(super) async fn by_filter(context: &mut Context<'_>, act: &Act, filter: &str, how: &Bulk) -> Result<(), CliError> {
    // The API takes no empty filter for acts, so that nobody takes all by leaving something out.
    let filter = if filter.trim().is_empty() { "id=*" } else { filter };
    let mut request = json!({ "kind": act.kind, "filter": filter, "reason": act.text, "dry_run": true });
    if let (Some(rate), Some(request)) = (how.rate, request.as_object_mut()) {
        request.insert("rate".into(), rate.into());
    }
    let counted = context.client.post(&["v1", "operations"], &[], &request).await?;
    if how.dry_run {
        return dry_run(context, &counted, act);
    }
    let matched = counted.need("matched", Value::as_u64)?;
    if matched == 0 && counted_since(&counted.body).is_none() {
        context.term.say("no dead letter matches: nothing to do");
        return Ok(());
    }
    let what = format!("{} {}", act.verb, dead_letters(matched, &counted.body));
    confirm(context, &what, filter, how.yes)?;
    if let Some(request) = request.as_object_mut() {
        request.remove("dry_run");
    }
    let started = context.client.post(&["v1", "operations"], &[], &request).await?;
    let id = started.need("id", Value::as_str)?.to_owned();
    if how.detach {
        context.term.say(&format!("operation {id} is under way on the host"));
        return output::one(context.term, context.format, &started.text, &id, rows(&started.body));
    }
    let ended = watch(context, act, &id, matched).await?;
    output::one(context.term, context.format, &ended.text, &id, rows(&ended.body))?;
    verdict(&ended)
}

/// Asks whether to do what a filter selects.
pub(super) fn confirm(context: &mut Context<'_>, what: &str, filter: &str, yes: bool) -> Result<(), CliError> {
    if yes {
        return Ok(());
    }
    if !context.term.interactive {
        return Err(CliError::usage(
            format!("this would {what}, and there is no terminal to ask on"),
            "look with --dry-run, then add --yes",
        ));
    }
    if context.term.confirm(&format!("{what} ({filter})?"))? { Ok(()) } else { Err(CliError::Declined) }
}

fn dry_run(context: &mut Context<'_>, counted: &Answer, act: &Act) -> Result<(), CliError> {
    let sample = match counted.body.get("sample") {
        Some(Value::Array(sample)) => sample.clone(),
        _ => Vec::new(),
    };
    match context.format {
        Format::Json | Format::Jsonl => context.term.line(counted.text.trim_end()),
        Format::Ids => output::list(context.term, Format::Ids, &sample, &messages::DEAD_VIEW),
        Format::Table => {
            let matched = counted.need("matched", Value::as_u64)?;
            context.term.line(&format!("would {} {}", act.verb, dead_letters(matched, &counted.body)))?;
            tell_counted(context, &counted.body);
            if !sample.is_empty() {
                context.term.line("the first of them:")?;
                output::list(context.term, Format::Table, &sample, &messages::DEAD_VIEW)?;
            }
            Ok(())
        }
    }
}

/// Tells how far dead letters were counted, if not to the end.
pub(super) fn tell_counted(context: &mut Context<'_>, counted: &Value) {
    if let Some(since) = counted_since(counted) {
        context.term.say(&format!("counted back to what entered the order at {since}: there may be more"));
    }
}

async fn watch(context: &mut Context<'_>, act: &Act, id: &str, matched: u64) -> Result<Answer, CliError> {
    let bar = progress(context, matched, act.verb);
    loop {
        let answer = match context.client.get(&["v1", "operations", id], &[]).await {
            Ok(answer) => answer,
            Err(error) => {
                bar.finish_and_clear();
                context
                    .term
                    .complain(&format!("operation {id} goes on at the host; ask again with GET /v1/operations/{id}"));
                return Err(error.into());
            }
        };
        let count = |name: &str| answer.body.get(name).and_then(Value::as_u64).unwrap_or(0);
        bar.set_position(count("done") + count("failed"));
        if answer.need("state", Value::as_str)? != "running" {
            bar.finish_and_clear();
            return Ok(answer);
        }
        tokio::time::sleep(POLL).await;
    }
}

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

fn rows(operation: &Value) -> Vec<(String, String)> {
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

fn verdict(operation: &Answer) -> Result<(), CliError> {
    let (done, failed) = (operation.need("done", Value::as_u64)?, operation.need("failed", Value::as_u64)?);
    let finished = operation.need("state", Value::as_str)? == "done";
    match (done, failed, finished) {
        (_, 0, true) => Ok(()),
        (0, failed, _) => Err(CliError::NoneDone { failed, exit: Exit::Failed }),
        (done, failed, _) => Err(CliError::Partly { done, failed }),
    }
}

/// By id, in the order given, each by itself. Naming the ids is the confirmation.
pub(super) async fn by_ids(context: &mut Context<'_>, act: &Act, which: &Which, how: &Bulk) -> Result<(), CliError> {
    let ids = read_ids(context, &which.ids, which.tenant.as_deref())?;
    if ids.is_empty() {
        context.term.say("no ids: nothing to do");
        return Ok(());
    }
    let pause = how.rate.filter(|rate| *rate > 0).map(|rate| Duration::from_secs_f64(1.0 / f64::from(rate)));
    let mut pace = pause.map(tokio::time::interval);
    let bar = progress(context, ids.len() as u64, act.verb);
    let (mut done, mut failed, mut last) = (0_u64, 0_u64, None);
    for (tenant, id) in &ids {
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        let result = if how.dry_run {
            dead::look(context, tenant.as_deref(), id, which.kind).await
        } else {
            dead::act_on(context, act, tenant.as_deref(), id, which.kind).await
        };
        bar.inc(1);
        match result {
            Ok(answer) if how.dry_run => {
                done += 1;
                let line = format!("would {} {id} ({})", act.verb, text(&answer.body, "last_error"));
                bar.suspend(|| context.term.line(&line))?;
            }
            Ok(answer) => {
                done += 1;
                bar.suspend(|| dead::told(context, act, id, &answer))?;
            }
            // Nothing after it would fare better.
            Err(error)
                if ids.len() == 1 || matches!(error.exit(), Exit::Unreachable | Exit::NotAllowed | Exit::TimedOut) =>
            {
                bar.finish_and_clear();
                if done > 0 {
                    context.term.complain(&format!("{} {done} before it failed, the rest wasn't tried:", act.done));
                }
                return Err(error);
            }
            Err(error) => {
                failed += 1;
                bar.suspend(|| context.term.complain(&format!("{id}: {error}")));
                last = Some(error.exit());
            }
        }
    }
    bar.finish_and_clear();
    match (done, last) {
        (_, None) => Ok(()),
        (0, Some(exit)) => Err(CliError::NoneDone { failed, exit }),
        (done, Some(_)) => Err(CliError::Partly { done, failed }),
    }
}

/// Ids with their tenants, where they are named. A line of stdin is an id, or tenant, tab, id, as `-o ids` writes them.
pub(super) fn read_ids(
    context: &mut Context<'_>,
    given: &[String],
    tenant: Option<&str>,
) -> Result<Vec<(Option<String>, String)>, CliError> {
    let tenant = tenant.map(str::to_owned);
    let mut ids = Vec::new();
    for given in given {
        if given != "-" {
            ids.push((tenant.clone(), given.clone()));
            continue;
        }
        let mut line = String::new();
        loop {
            line.clear();
            let read = context.term.input.read_line(&mut line).map_err(CliError::io("reading ids from stdin"))?;
            if read == 0 {
                break;
            }
            let line = line.trim_end_matches(['\n', '\r']);
            let (tenant, id) = match line.split_once('\t') {
                Some((named, id)) => (Some(named.to_owned()), id),
                None => (tenant.clone(), line),
            };
            if !id.is_empty() {
                ids.push((tenant, id.to_owned()));
            }
            if ids.len() > IDS_MAX {
                return Err(CliError::usage(format!("more than {IDS_MAX} ids"), "use --filter for so many"));
            }
        }
    }
    Ok(ids)
}
