//! Following one saga to its end.

use std::time::Duration;

use waybill_api::sagas::SagaView;
use waybill_core::saga::state::SagaState;

use super::paint::state_word;
use super::show::{cells, draw, read};
use crate::client::Answer;
use crate::commands::{Context, lists, requests};
use crate::exit::CliError;
use crate::output::{self, Format, safe};

/// How often the host is asked for more.
const POLL: Duration = Duration::from_millis(500);

/// How many events it has had, those that aren't kept included.
pub(super) fn events(saga: &SagaView) -> usize {
    let dropped = saga.history_dropped.and_then(|dropped| usize::try_from(dropped).ok()).unwrap_or(0);
    saga.history.as_ref().map_or(0, Vec::len) + dropped
}

/// Writes what happens after the first `seen` events until it ends, or stops because it needs an operator. Whatever isn't
/// completed is a failure.
pub(super) async fn until_end(
    context: &mut Context<'_>,
    id: &str,
    tenant: Option<&str>,
    mut seen: usize,
) -> Result<(), CliError> {
    loop {
        let answer = requests::get(context, "sagas", id, tenant).await?;
        let saga = read(&answer)?;
        new_events(context, &saga, &answer, seen)?;
        seen = events(&saga);
        context.term.out.flush().map_err(CliError::io("writing the result"))?;
        if saga.ended_at.is_some() || stopped(&saga) {
            return end(context, &saga, &answer);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Whether nothing happens any more until an operator acts.
fn stopped(saga: &SagaView) -> bool {
    saga.waiting_for.as_deref() == Some("operator")
}

fn new_events(context: &mut Context<'_>, saga: &SagaView, answer: &Answer, seen: usize) -> Result<(), CliError> {
    let history = saga.history.as_deref().unwrap_or_default();
    let new = events(saga).saturating_sub(seen).min(history.len());
    let from = history.len() - new;
    match context.format {
        Format::Ids => Ok(()),
        Format::Json | Format::Jsonl => {
            let as_sent = answer.body.get("history").and_then(serde_json::Value::as_array).map(Vec::as_slice);
            let lines = as_sent.unwrap_or_default().iter().skip(from);
            lines.map(ToString::to_string).try_for_each(|line| context.term.line(&line))
        }
        Format::Table => {
            let mut lines = history.iter().skip(from).map(|event| cells(event, &saga.id).join("  "));
            lines.try_for_each(|line| context.term.line(&line))
        }
    }
}

/// The whole once more, and how it ended.
fn end(context: &mut Context<'_>, saga: &SagaView, answer: &Answer) -> Result<(), CliError> {
    match context.format {
        Format::Table => {
            context.term.line("")?;
            draw(context, saga, false)?;
        }
        format => output::one(context.term, format, &answer.text, &lists::piped_id(&answer.body), Vec::new())?,
    }
    if saga.state == SagaState::Completed {
        return Ok(());
    }
    let state = state_word(saga.state);
    let how = if stopped(saga) { format!("is {state} and waits for an operator") } else { format!("ended as {state}") };
    Err(CliError::SagaEnded { id: safe(&saga.id), how })
}
