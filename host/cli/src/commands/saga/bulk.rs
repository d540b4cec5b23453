//! Acts on many sagas by filter: count, ask, then one after the other over the API, with the reasons of those that were
//! refused. What was done stays done when it is interrupted; the same command again goes on with the rest.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::acts::{self, Act};
use super::list::VIEW;
use crate::args::Format;
use crate::client::ClientError;
use crate::commands::{Context, bulk, lists, messages};
use crate::exit::{CliError, Exit};
use crate::output::{self, number, plain, text};

/// Acts a second when nobody says otherwise.
const RATE_DEFAULT: u32 = 100;
/// Most sagas of one command.
const SAGAS_MAX: usize = 100_000;
/// Sagas shown by a dry run.
const SAMPLE: usize = 10;

/// What matches and hasn't ended.
#[derive(Default)]
struct Matched {
    /// Tenant and id of each.
    ids: Vec<(String, String)>,
    /// The first of them.
    sample: Vec<Value>,
}

/// Sagas that were refused for one reason.
struct Refused {
    count: u64,
    /// Id of one of them, and what the host said of it.
    example: (String, String),
    exit: Exit,
}

/// What became of them.
#[derive(Default)]
struct Outcome {
    done: u64,
    unchanged: u64,
    /// By code.
    refused: BTreeMap<String, Refused>,
}

/// Does it.
pub(super) async fn run(act: &Act, filter: &str, context: &mut Context<'_>) -> Result<(), CliError> {
    let matched = collect(context, filter, act.which.tenant.as_deref()).await?;
    let count = matched.ids.len() as u64;
    if act.which.dry_run {
        return dry_run(act, &matched, context);
    }
    if count == 0 {
        context.term.say("no saga that hasn't ended matches: nothing to do");
        return Ok(());
    }
    let what = format!("{} {}{}", act.name, number(count, "saga", "sagas"), act.warning);
    bulk::confirm(context, &what, filter, act.which.yes)?;
    let outcome = each(act, &matched, context).await?;
    tell(act, count, &outcome, context)?;
    verdict(&outcome)
}

/// Reads the list page by page. It is read to its end before the first act: what is acted on may match no more, or anew.
async fn collect(context: &Context<'_>, filter: &str, tenant: Option<&str>) -> Result<Matched, CliError> {
    let mut query = lists::tenant_query(tenant);
    query.push(("filter", filter));
    let mut matched = Matched::default();
    let mut cursor: Option<String> = None;
    loop {
        let page = lists::page(context, &["v1", "sagas"], &query, cursor.as_deref()).await?;
        for item in page.items.into_iter().filter(|item| item.get("ended_at").is_none_or(Value::is_null)) {
            let name = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            matched.ids.push((name("tenant"), name("id")));
            if matched.sample.len() < SAMPLE {
                matched.sample.push(item);
            }
        }
        if matched.ids.len() > SAGAS_MAX {
            let what = format!("more than {SAGAS_MAX} sagas match");
            return Err(CliError::usage(what, "narrow the filter, by age or definition say"));
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(matched);
        }
    }
}

fn dry_run(act: &Act, matched: &Matched, context: &mut Context<'_>) -> Result<(), CliError> {
    let count = matched.ids.len() as u64;
    match context.format {
        Format::Ids => {
            for (tenant, id) in &matched.ids {
                context.term.line(&messages::piped_id(&json!({ "tenant": tenant, "id": id })))?;
            }
            Ok(())
        }
        Format::Json => {
            output::json(context.term, &json!({ "dry_run": true, "matched": count, "sample": matched.sample }))
        }
        Format::Jsonl => {
            let told = json!({ "dry_run": true, "matched": count, "sample": matched.sample });
            context.term.line(&told.to_string())
        }
        Format::Table => {
            context.term.line(&format!("would {} {}", act.name, number(count, "saga", "sagas")))?;
            if matched.sample.is_empty() {
                return Ok(());
            }
            context.term.line("the first of them:")?;
            output::list(context.term, Format::Table, &matched.sample, &VIEW)
        }
    }
}

/// One after the other. An error is one after which nothing would fare better.
async fn each(act: &Act, matched: &Matched, context: &mut Context<'_>) -> Result<Outcome, CliError> {
    let rate = act.which.rate.unwrap_or(RATE_DEFAULT).max(1);
    let mut pace = tokio::time::interval(Duration::from_secs_f64(1.0 / f64::from(rate)));
    let bar = bulk::progress(context, matched.ids.len() as u64, act.name);
    let mut outcome = Outcome::default();
    for (tenant, id) in &matched.ids {
        pace.tick().await;
        let answer = acts::post(context, act, Some(tenant.as_str()), id).await;
        bar.inc(1);
        match answer {
            Ok(answer) => {
                let unchanged = answer.body.get("unchanged") == Some(&Value::Bool(true));
                outcome.unchanged += u64::from(unchanged);
                outcome.done += u64::from(!unchanged);
                if context.format == Format::Ids {
                    let line = messages::piped_id(&json!({ "tenant": tenant, "id": id }));
                    bar.suspend(|| context.term.line(&line))?;
                }
            }
            Err(error) if acts::is_hopeless(&error) => {
                bar.finish_and_clear();
                let done = number(outcome.done + outcome.unchanged, "saga was", "sagas were");
                context.term.complain(&format!("{done} {} before it failed, the rest wasn't tried:", act.done));
                return Err(error);
            }
            Err(error) => outcome.refuse(id, &error),
        }
    }
    bar.finish_and_clear();
    Ok(outcome)
}

impl Outcome {
    fn refuse(&mut self, id: &str, error: &CliError) {
        let (code, detail) = match error {
            CliError::Client(ClientError::Refused(refusal)) => (refusal.code.clone(), refusal.detail.clone()),
            error => {
                let told = error.to_string();
                (told.split(':').next().unwrap_or_default().to_owned(), told)
            }
        };
        let example = (plain(&Value::String(id.to_owned())), plain(&Value::String(detail)));
        let refused = self.refused.entry(code).or_insert(Refused { count: 0, example, exit: error.exit() });
        refused.count += 1;
    }

    fn refused(&self) -> u64 {
        self.refused.values().map(|refused| refused.count).sum()
    }
}

/// The numbers, and why some were refused.
fn tell(act: &Act, matched: u64, outcome: &Outcome, context: &mut Context<'_>) -> Result<(), CliError> {
    let refusals: Vec<Value> = outcome
        .refused
        .iter()
        .map(|(code, refused)| {
            let (example, detail) = &refused.example;
            json!({ "code": code, "count": refused.count, "example": example, "detail": detail })
        })
        .collect();
    let all = json!({
        "act": act.name, "matched": matched, "done": outcome.done, "unchanged": outcome.unchanged,
        "refused": outcome.refused(), "refusals": refusals,
    });
    match context.format {
        Format::Json => return output::json(context.term, &all),
        Format::Jsonl => return context.term.line(&all.to_string()),
        // The ids are written already.
        Format::Ids => {}
        Format::Table => {
            let rows = ["matched", "done", "unchanged", "refused"].map(|name| (name.to_owned(), text(&all, name)));
            output::pairs(context.term, rows.to_vec())?;
        }
    }
    for refusal in &refusals {
        let [code, count, example, detail] = ["code", "count", "example", "detail"].map(|name| text(refusal, name));
        context.term.complain(&format!("{code}: {count} refused, e.g. {example}: {detail}"));
    }
    Ok(())
}

fn verdict(outcome: &Outcome) -> Result<(), CliError> {
    let (done, failed) = (outcome.done + outcome.unchanged, outcome.refused());
    match outcome.refused.values().next() {
        None => Ok(()),
        Some(first) if done == 0 => Err(CliError::NoneDone { failed, exit: first.exit }),
        Some(_) => Err(CliError::Partly { done, failed }),
    }
}
