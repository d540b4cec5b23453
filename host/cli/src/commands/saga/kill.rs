//! `waybill saga kill`.

use clap::Args;

use super::acts::{self, SagaAct, Which};
use crate::commands::Context;
use crate::exit::CliError;
use crate::output::safe;

/// Ends it as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga kill order-17 --reason 'test data' --yes\n  \
    waybill saga kill --filter 'tenant=test' --reason 'test data' --yes\n\n\
    Nothing is compensated: what its steps did stays done. `waybill saga cancel` compensates.")]
pub struct Kill {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Why, for history and audit
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: Option<String>,
}

const UNDONE: &str = ", with nothing compensated";

/// Ends them as they are.
pub(super) async fn run(args: Kill, context: &mut Context<'_>) -> Result<(), CliError> {
    if args.which.selection.filter.is_none() && !args.which.dry_run && !args.which.yes {
        confirm(&args.which.selection.ids, context)?;
    }
    let mut act = SagaAct::new("kill", "killed", args.which, args.reason);
    act.warning = UNDONE;
    acts::run(&act, context).await
}

/// Killing leaves things done that belong undone, so it is asked about.
fn confirm(ids: &[String], context: &mut Context<'_>) -> Result<(), CliError> {
    let what = match ids {
        [id] if id != "-" => format!("saga {}", safe(id)),
        _ => "these sagas".to_owned(),
    };
    let what = format!("kill {what}{UNDONE}");
    let fix = "add --yes, or use `waybill saga cancel` to compensate";
    // Where the ids come from stdin, the answer can't.
    if ids.iter().any(|id| id == "-") {
        return Err(CliError::nobody_to_ask(&what, fix));
    }
    context.term.confirm(&what, &format!("{what}?"), fix)
}
