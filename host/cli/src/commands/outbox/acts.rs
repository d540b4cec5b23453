//! Acts on messages that wait: by filter the host does them, by id one after the other.

use serde_json::{Map, Value};

use super::list::VIEW;
use crate::commands::bulk::{self, Bulk, Concerned, Operation};
use crate::commands::selection::{self, Id, Selection};
use crate::commands::{Context, message, requests};
use crate::exit::CliError;
use crate::output::{messages, number, safe, text};

pub(super) struct MessageAct {
    /// Name of the act on one, in the API.
    pub(super) one: &'static str,
    /// Name of the act on many, in the API.
    pub(super) many: &'static str,
    pub(super) verb: &'static str,
    /// What was done, behind an id.
    pub(super) done: String,
    /// What the API takes of it beside the reason.
    pub(super) body: Map<String, Value>,
}

/// Does it to all of them.
const WAITING: Concerned<'_> = Concerned { counted: messages, none: "no message that waits matches", view: &VIEW };

pub(super) async fn run(
    act: &MessageAct,
    which: &Selection,
    how: &Bulk,
    context: &mut Context<'_>,
) -> Result<(), CliError> {
    let mut body = act.body.clone();
    body.extend(how.reason.as_deref().map(|reason| ("reason".to_owned(), reason.into())));
    match &which.filter {
        Some(filter) => {
            let operation = Operation::new((act.many, act.verb), filter, which.tenant.as_deref(), how.rate, body);
            operation.run(context, &WAITING, how).await
        }
        None => by_ids(context, act, body, which, how).await,
    }
}

async fn by_ids(
    context: &mut Context<'_>,
    act: &MessageAct,
    body: Map<String, Value>,
    which: &Selection,
    how: &Bulk,
) -> Result<(), CliError> {
    let ids = selection::read_ids(context, &which.ids, which.tenant.as_deref())?;
    let body = Value::Object(body);
    let mut pace = selection::pace(how.rate);
    let bar = bulk::progress(context, ids.len() as u64, act.verb);
    let broke_off = |done: u64| {
        let done = number(done, "message was", "messages were");
        Some(format!("{done} done before it failed, the rest wasn't tried:"))
    };
    selection::each(context, &ids, &bar, broke_off, async |context, Id { tenant, id, .. }| {
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        if how.dry_run {
            let answer = requests::get(context, "messages", id, tenant.as_deref()).await?;
            let line = format!("would {} {} ({})", act.verb, safe(id), text(&answer.body, "state"));
            return Ok(bar.suspend(|| context.term.line(&line)));
        }
        let answer = requests::act(context, "messages", id, tenant.as_deref(), act.one, &body).await?;
        Ok(bar.suspend(|| {
            context.term.say(&format!("{} {}", safe(id), act.done));
            message::show_after(context, &answer)
        }))
    })
    .await?;
    how.ended(ids.is_empty())
}
