//! Acts on dead letters: by filter the host does them, by id one after the other.

use std::cell::Cell;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::list::VIEW;
use crate::client::Answer;
use crate::commands::bulk::{self, Bulk, Concerned, Operation};
use crate::commands::saga::Mode;
use crate::commands::selection::{self, Id, Selection};
use crate::commands::{Context, lists, message, requests};
use crate::exit::CliError;
use crate::output::{dead_letters, number, safe, text};

/// Kind of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A message that wasn't delivered
    Message,
    /// A saga whose compensation is stuck
    Saga,
    /// A received message that can't be handled
    Inbox,
    /// An event of a stream that can't be numbered or relayed
    Event,
}

impl Kind {
    /// As the host names it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Saga => "saga",
            Self::Inbox => "inbox",
            Self::Event => "event",
        }
    }
}

pub(in crate::commands) struct DeadLetterAct {
    /// Name in the API.
    pub(in crate::commands) kind: &'static str,
    pub(in crate::commands) verb: &'static str,
    pub(in crate::commands) done: &'static str,
    pub(in crate::commands) text: String,
    /// Which way stuck sagas go on, if it was said.
    pub(in crate::commands) mode: Option<Mode>,
    /// Those of stdin that are quarantined are left alone: by a filter they would be, too.
    pub(in crate::commands) spares_quarantined: bool,
    /// By filter: which set.
    pub(in crate::commands) set: Set,
    /// By filter: so many messages first, and the rest when these are delivered.
    pub(in crate::commands) trial: Option<u32>,
}

/// By filter: which set of dead letters.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
pub struct Set {
    /// With --filter: only those that died until this instant, RFC 3339 [default: now]
    #[arg(long, value_name = "INSTANT", requires = "filter")]
    pub before: Option<String>,
    /// With --before: do nothing if more than this match [default: as many as it counts before it asks]
    #[arg(long, value_name = "N", requires = "before")]
    pub expect_count: Option<u64>,
    /// With --filter: count all of them, not the latest 10,000 alone
    #[arg(long, requires = "filter")]
    pub exact: bool,
}

impl DeadLetterAct {
    /// What an operation is asked for with.
    fn request(&self) -> Map<String, Value> {
        let Set { before, expect_count, exact } = &self.set;
        let members = [
            ("reason", Some(Value::from(self.text.as_str()))),
            ("before", before.as_deref().map(Value::from)),
            ("expect_count", expect_count.map(Value::from)),
            ("exact", exact.then_some(Value::Bool(true))),
            ("trial", self.trial.map(Value::from)),
        ];
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// Which dead letters.
#[derive(Clone, Debug, Args)]
#[group(skip)]
pub struct Letters {
    /// Which.
    #[command(flatten)]
    pub selection: Selection,
    /// Kind of the ids, where others have the same one
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "filter")]
    pub kind: Option<Kind>,
}

/// Does it to all of them.
pub(in crate::commands) async fn run(
    act: &DeadLetterAct,
    letters: &Letters,
    how: &Bulk,
    context: &mut Context<'_>,
) -> Result<(), CliError> {
    match &letters.selection.filter {
        Some(filter) => by_filter(context, act, filter, letters.selection.tenant.as_deref(), how).await,
        None => by_ids(context, act, letters, how).await,
    }
}

const LETTERS: Concerned<'_> = Concerned { counted: dead_letters, none: "no dead letter matches", view: &VIEW };

/// By filter: count, ask, start, watch.
pub(super) async fn by_filter(
    context: &mut Context<'_>,
    act: &DeadLetterAct,
    filter: &str,
    tenant: Option<&str>,
    how: &Bulk,
) -> Result<(), CliError> {
    let operation = Operation::new((act.kind, act.verb), filter, tenant, how.rate, act.request());
    operation.run(context, &LETTERS, how).await
}

async fn by_ids(context: &mut Context<'_>, act: &DeadLetterAct, letters: &Letters, how: &Bulk) -> Result<(), CliError> {
    let Letters { selection, kind } = letters;
    let ids = selection::read_ids(context, &selection.ids, selection.tenant.as_deref())?;
    let mut pace = selection::pace(how.rate);
    let bar = bulk::progress(context, ids.len() as u64, act.verb);
    let spared = Cell::new(0_u64);
    let broke_off =
        |done: u64| Some(format!("{} {} before it failed, the rest wasn't tried:", act.done, done - spared.get()));
    let acted = selection::each(context, &ids, &bar, broke_off, async |context, Id { tenant, id, piped }| {
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        if *piped && act.spares_quarantined && is_quarantined(&get(context, tenant.as_deref(), id, *kind).await?) {
            spared.set(spared.get() + 1);
            bar.suspend(|| context.term.say(&format!("left {} alone: it is quarantined", safe(id))));
            return Ok(Ok(()));
        }
        if how.dry_run {
            let answer = get(context, tenant.as_deref(), id, *kind).await?;
            let line = format!("would {} {id} ({})", act.verb, text(&answer.body, "last_error"));
            return Ok(bar.suspend(|| context.term.line(&line)));
        }
        let answer = act_on(context, act, tenant.as_deref(), id, *kind).await?;
        Ok(bar.suspend(|| {
            context.term.say(&format!("{} {id}", act.done));
            message::show_after(context, &answer)
        }))
    })
    .await;
    if spared.get() > 0 {
        let spared = number(spared.get(), "is quarantined and was", "are quarantined and were");
        context.term.say(&format!("{spared} left alone; --quarantined takes them too"));
    }
    acted?;
    how.ended(ids.is_empty())
}

fn is_quarantined(letter: &Answer) -> bool {
    letter.body.get("state").and_then(Value::as_str) == Some("quarantined")
}

/// Asks for one, of any kind unless one is named.
pub(super) async fn get(
    context: &Context<'_>,
    tenant: Option<&str>,
    id: &str,
    kind: Option<Kind>,
) -> Result<Answer, CliError> {
    requests::checked(context.client.get(&["v1", "dead-letters", id], &query(tenant, kind)).await, tenant)
}

fn query(tenant: Option<&str>, kind: Option<Kind>) -> Vec<(&'static str, &str)> {
    let mut query = lists::tenant_query(tenant);
    query.extend(kind.map(|kind| ("kind", kind.as_str())));
    query
}

/// Acts on one dead letter.
async fn act_on(
    context: &Context<'_>,
    act: &DeadLetterAct,
    tenant: Option<&str>,
    id: &str,
    kind: Option<Kind>,
) -> Result<Answer, CliError> {
    let mut body = if act.kind == "quarantine" { json!({ "note": act.text }) } else { json!({ "reason": act.text }) };
    if let (Some(mode), Some(body)) = (act.mode, body.as_object_mut()) {
        let mode = if mode == Mode::Retry { "retry" } else { "compensate" };
        body.insert("mode".into(), mode.into());
    }
    let path = ["v1", "dead-letters", id, act.kind];
    requests::checked(context.client.post(&path, &query(tenant, kind), &body).await, tenant)
}
