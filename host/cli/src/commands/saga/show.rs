//! `waybill saga show`.

use clap::Args;
use serde_json::Value;
use waybill_api::saga_history::HistoryLine;
use waybill_api::sagas::SagaView;
use waybill_core::saga::event::PauseCause;

use super::follow;
use super::paint::{Paint, at, between, state_paint, state_word};
use super::step::plugin_words;
use super::tree::Drawing;
use super::ways;
use crate::args::IdArgs;
use crate::client::Answer;
use crate::commands::{Context, lists, requests};
use crate::exit::CliError;
use crate::output::{self, Format, Head, number, safe};

/// Which saga, and how much of it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga show order-17                        steps, and ways out of one that is stuck\n  \
    waybill saga show order-17 --history              every attempt, decision and signal, oldest first\n  \
    waybill saga show order-17 --follow               until it ends or stops; exit code 0 if it completed, else 1\n  \
    waybill saga show order-17 --tenant acme -o json")]
pub struct Show {
    /// Which.
    #[command(flatten)]
    pub saga: IdArgs,
    /// What happened, oldest first
    #[arg(long)]
    pub history: bool,
    /// Go on with what happens until it ends, or needs an operator
    #[arg(short, long)]
    pub follow: bool,
}

pub(super) async fn run(args: &Show, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = requests::get(context, "sagas", &args.saga.id, args.saga.tenant.as_deref()).await?;
    let saga = read(&answer)?;
    if args.follow {
        if context.format == Format::Table {
            draw(context, &saga, args.history)?;
        }
        let seen = if args.history || context.format == Format::Table { follow::events(&saga) } else { 0 };
        return follow::until_end(context, &args.saga.id, args.saga.tenant.as_deref(), seen).await;
    }
    if context.format != Format::Table {
        return output::one(context.term, context.format, &answer.text, &lists::piped_id(&answer.body), Vec::new());
    }
    draw(context, &saga, args.history)
}

/// Reads a host's answer; what isn't a saga is some other server's.
pub(super) fn read(answer: &Answer) -> Result<SagaView, CliError> {
    let read = |_: &Value| serde_json::from_str::<SagaView>(&answer.text).ok().filter(|saga| saga.saga.is_some());
    Ok(answer.need("saga", read)?)
}

/// Writes heading, tree, ways out and, if asked, what happened.
pub(super) fn draw(context: &mut Context<'_>, saga: &SagaView, history: bool) -> Result<(), CliError> {
    let color = context.term.color;
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            rows.push((name.to_owned(), value));
        }
    };
    row("saga", Some(safe(&saga.id)));
    row("tenant", Some(safe(&saga.tenant)));
    let hash = output::short_digest(&safe(&saga.definition_hash));
    row("definition", Some(format!("{} v{} ({hash})", safe(&saga.definition), saga.version)));
    row("state", Some(state_paint(saga.state).on(state_word(saga.state), color)));
    row("waits for", waiting(saga));
    row("paused", paused(saga));
    let reason = saga.reason.as_deref().map(safe).unwrap_or_default();
    row("error", saga.code.as_deref().map(|code| Paint::Bad.on(&format!("{}: {reason}", safe(code)), color)));
    row("started", Some(at(saga.started_at)));
    let ended = saga.ended_at.map(|ended| format!("{}, took {}", at(ended), between(saga.started_at, ended)));
    row("ended", ended);
    row("deadline", saga.deadline.map(at));
    row("envelope", saga.envelope_id.as_deref().map(safe));
    row("correlation", saga.correlation_id.as_deref().map(safe));
    for (name, value) in saga.headers.iter().flat_map(|headers| &headers.0) {
        row("header", Some(format!("{}: {}", safe(name), safe(value))));
    }
    for participant in saga.plugins.iter().flatten() {
        let plugin = plugin_words(&participant.plugin);
        row("participant", Some(format!("{} began with {plugin}", safe(&participant.participant))));
    }
    let events = follow::events(saga) as u64;
    row("history", (!history && events > 0).then(|| format!("{} (--history)", number(events, "event", "events"))));
    output::painted_pairs(context.term, rows)?;
    context.term.line("")?;
    let mut drawing = Drawing::new(color, context.term.width);
    saga.saga.iter().for_each(|node| drawing.root(node));
    drawing.lines.iter().try_for_each(|line| context.term.line(line))?;
    ways::draw(context, saga)?;
    if history { happened(context, saga) } else { Ok(()) }
}

fn waiting(saga: &SagaView) -> Option<String> {
    let what = saga.waiting.as_deref().or(saga.waiting_for.as_deref())?;
    let since = saga.since.map(|since| format!(", since {}", at(since))).unwrap_or_default();
    let until = saga.until.map(|until| format!(", until {}", at(until))).unwrap_or_default();
    Some(format!("{}{since}{until}", safe(what)))
}

fn paused(saga: &SagaView) -> Option<String> {
    let pause = saga.paused.as_ref()?;
    let why = match pause.cause {
        PauseCause::Asked => "an operator asked for it",
        PauseCause::UnknownResult => "the result of a step that isn't idempotent is unknown",
        PauseCause::Suspect => "the host died too often in this step",
        PauseCause::Policy => "the step's retry policy asked for it",
    };
    let who = pause.actor.as_deref().map(|actor| format!(", by {}", safe(actor))).unwrap_or_default();
    let note = pause.note.as_deref().map(|note| format!(": {}", safe(note))).unwrap_or_default();
    Some(format!("since {}: {}{who}{note}", at(pause.at), why))
}

fn happened(context: &mut Context<'_>, saga: &SagaView) -> Result<(), CliError> {
    let history = saga.history.as_deref().unwrap_or_default();
    context.term.line("")?;
    let rows: Vec<_> = history.iter().map(|event| cells(event, &saga.id)).collect();
    let heads = [Head::whole("AT"), Head::cut("STEP"), Head::prose("WHAT"), Head::cut("BY").less(1)];
    output::table(context.term, &heads, &rows)?;
    if let Some(dropped) = saga.history_dropped.filter(|dropped| *dropped > 0) {
        let events = number(u64::from(dropped), "event", "events");
        context.term.say(&format!("{events} in the middle of this history aren't kept"));
    }
    Ok(())
}

/// An event in columns; of a sub-saga the step has its path.
pub(super) fn cells(event: &HistoryLine, root: &str) -> Vec<String> {
    let path = event.saga.strip_prefix(root).map_or("", |rest| rest.trim_start_matches('~')).replace('~', "/");
    let step = match (&event.step, path.as_str()) {
        (Some(step), "") => safe(step),
        (Some(step), path) => safe(&format!("{path}/{step}")),
        (None, path) => safe(path),
    };
    let took = event.took_ms.map(|took| format!(" ({took} ms)")).unwrap_or_default();
    let who = event.actor.as_deref().map_or_else(|| "-".to_owned(), safe);
    vec![at(event.at), step, format!("{}{took}", safe(&event.text)), who]
}
