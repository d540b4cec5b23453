//! Acts on many sagas by filter, as an operation of the host: counted, asked about, started and followed, with the reasons of
//! those that were refused. It goes on when nobody follows any more.

use serde_json::{Value, json};

use super::acts::SagaAct;
use super::list::VIEW;
use crate::client::{Answer, exit_of_code};
use crate::commands::bulk::{self, Operation};
use crate::commands::{Context, lists};
use crate::exit::{CliError, Exit};
use crate::output::{self, Format, number, text};

pub(super) async fn run(act: &SagaAct, filter: &str, context: &mut Context<'_>) -> Result<(), CliError> {
    let tenant = act.which.selection.tenant.as_deref();
    let operation = Operation::new((act.name, act.name), filter, tenant, act.which.rate, act.body.clone());
    let counted = operation.count(context).await?;
    let matched = counted.need("matched", Value::as_u64)?;
    if act.which.dry_run {
        dry_run(act, filter, &counted, context).await?;
        return act.which.ended(matched == 0);
    }
    if matched == 0 {
        context.term.say("no saga that hasn't ended matches: nothing to do");
        return act.which.ended(true);
    }
    let what = format!("{} {}{}", act.name, number(matched, "saga", "sagas"), act.warning);
    bulk::confirm(context, &what, filter, act.which.yes)?;
    let Some(ended) = operation.carry_out(context, matched, act.which.detach).await? else { return Ok(()) };
    let refusals = ended.need("refusals", Value::as_array)?;
    tell(act, &ended.body, refusals, context)?;
    let first = refusals.first().and_then(|refusal| refusal.get("code")).and_then(Value::as_str);
    bulk::verdict(&ended, first.map_or(Exit::Failed, exit_of_code))
}

async fn dry_run(act: &SagaAct, filter: &str, counted: &Answer, context: &mut Context<'_>) -> Result<(), CliError> {
    match context.format {
        Format::Ids => {
            let mut query = lists::tenant_query(act.which.selection.tenant.as_deref());
            query.push(("filter", filter));
            let (all, _) = lists::fetch(context, &["v1", "sagas"], &query, usize::MAX, None).await?;
            for saga in all.iter().filter(|saga| saga.get("ended_at").is_none_or(Value::is_null)) {
                context.term.line(&lists::piped_id(saga))?;
            }
            Ok(())
        }
        Format::Json => output::json(context.term, &counted.body),
        Format::Jsonl => context.term.line(counted.text.trim_end()),
        Format::Table => {
            let matched = counted.need("matched", Value::as_u64)?;
            context.term.line(&format!("would {} {}", act.name, number(matched, "saga", "sagas")))?;
            let sample = counted.need("sample", Value::as_array)?;
            if sample.is_empty() {
                return Ok(());
            }
            context.term.line("the first of them:")?;
            output::list(context.term, Format::Table, sample, &VIEW)
        }
    }
}

/// The numbers, and why some were refused.
fn tell(act: &SagaAct, operation: &Value, refusals: &[Value], context: &mut Context<'_>) -> Result<(), CliError> {
    let [id, state, error] = ["id", "state", "error"].map(|name| text(operation, name));
    let [matched, done, unchanged, failed] = ["matched", "done", "unchanged", "failed"].map(|name| operation.get(name));
    let all = json!({
        "operation": id, "act": act.name, "state": state, "matched": matched, "done": done, "unchanged": unchanged,
        "refused": failed, "refusals": refusals,
    });
    match context.format {
        Format::Json => return output::json(context.term, &all),
        Format::Jsonl => return context.term.line(&all.to_string()),
        Format::Ids => context.term.line(&id)?,
        Format::Table => {
            let rows = ["matched", "done", "unchanged", "refused"].map(|name| (name.to_owned(), text(&all, name)));
            output::pairs(context.term, rows.to_vec())?;
        }
    }
    if state != "done" {
        context.term.complain(&format!("operation {id} is {state}: {error}"));
    }
    for refusal in refusals {
        let [code, count, example, detail] = ["code", "count", "example", "detail"].map(|name| text(refusal, name));
        context.term.complain(&format!("{code}: {count} refused, e.g. {example}: {detail}"));
    }
    Ok(())
}
