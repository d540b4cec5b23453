//! `waybill saga accept`.

use clap::Args;
use waybill_api::saga_node::SagaNodeView;
use waybill_api::sagas::SagaView;
use waybill_core::saga::state::StepState;

use super::acts::{self, SagaAct, Which};
use super::show;
use crate::commands::{Context, requests};
use crate::exit::CliError;
use crate::output::safe;

/// Accepts a stuck compensation.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga skip order-17 --step charge --reason 'refunded by hand'     the others are compensated: mostly what is wanted\n  \
    waybill saga accept order-17 --reason 'refunded by hand, ticket 4711'\n  \
    waybill saga accept --filter 'state=failed code=BANK.CLOSED' --reason 'refunded by hand' --yes\n\n\
    The saga ends as failed (accepted), and its dead letter goes away. Nothing more of it is compensated: what its other steps \
    did stays done. They are named, and it is asked about.")]
pub struct Accept {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Why it is all right as it is
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: String,
}

/// Said behind the number in a question.
const STAYS: &str = ", with nothing more compensated";
const FIX: &str = "add --yes, or use `waybill saga skip ID --step STEP` to have the others compensated";

/// Ends them as they are.
pub(super) async fn run(args: Accept, context: &mut Context<'_>) -> Result<(), CliError> {
    if args.which.selection.filter.is_none() && !args.which.dry_run {
        agree(&args.which, context).await?;
    }
    let mut act = SagaAct::new("accept", "accepted", args.which, Some(args.reason));
    act.warning = STAYS;
    acts::run(&act, context).await
}

/// Accepting leaves things done that may belong undone: they are named, and it is asked about.
async fn agree(which: &Which, context: &mut Context<'_>) -> Result<(), CliError> {
    let ids = &which.selection.ids;
    let what = match ids.as_slice() {
        [id] if id != "-" => format!("accept saga {}{STAYS}", safe(id)),
        _ => format!("accept these sagas{STAYS}"),
    };
    // Where the ids come from stdin, the answer can't.
    if ids.iter().any(|id| id == "-") {
        return if which.yes { Ok(()) } else { Err(CliError::nobody_to_ask(&what, FIX)) };
    }
    for id in ids {
        // One that isn't there, or isn't stuck, is refused when its turn comes.
        let Ok(answer) = requests::get(context, "sagas", id, which.selection.tenant.as_deref()).await else { continue };
        for line in left(&show::read(&answer)?) {
            context.term.say(&line);
        }
    }
    if which.yes { Ok(()) } else { context.term.confirm(&what, &format!("{what}?"), FIX) }
}

/// What stays done of a saga that is accepted, and how it would be undone; nothing where there is nothing more to undo.
fn left(saga: &SagaView) -> Vec<String> {
    let (mut done, mut stuck) = (Vec::new(), Vec::new());
    saga.saga.iter().for_each(|node| walk(node, "", &mut done, &mut stuck));
    if done.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("{}: these steps stay done: {}", safe(&saga.id), done.join(", "))];
    for (id, step) in stuck {
        let named = format!("waybill saga skip {} --step {}", safe(id), safe(step));
        lines.push(format!("  `{named}` leaves only that compensation out and compensates them"));
    }
    lines
}

/// Steps below a saga that were done and could be undone, by their paths, and those whose compensation failed.
fn walk<'s>(node: &'s SagaNodeView, path: &str, done: &mut Vec<String>, stuck: &mut Vec<(&'s str, &'s str)>) {
    for step in &node.steps {
        let name = format!("{path}{}", safe(&step.name));
        match (&step.saga, step.state) {
            (Some(saga), _) => walk(saga, &format!("{name}/"), done, stuck),
            (None, StepState::Succeeded) if step.compensation.is_some() => done.push(name),
            (None, StepState::CompensationFailed) => stuck.push((&node.id, &step.name)),
            (None, _) => {}
        }
    }
}
