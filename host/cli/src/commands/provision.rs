//! Creating what is missing at the peer of a transport or a source: plan, ask, apply.

use clap::Args;
use serde_json::{Value, json};

use super::Context;
use crate::client::Answer;
use crate::exit::CliError;
use crate::output::{self, Format, View, column, number, prose, text, whole};
use crate::term::DRY_RUN_FIRST;

/// How a peer is provisioned.
#[derive(Debug, Args)]
pub struct Provision {
    /// Its name in the configuration
    pub name: String,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Don't ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    pub yes: bool,
}

const VIEW: View<'_> = View {
    columns: &[
        column("ACTION", |item| text(item, "action")),
        whole("TARGET", |item| text(item, "target")),
        prose("DETAIL", |item| Some(text(item, "detail")).filter(|detail| !detail.is_empty()).unwrap_or("-".into())),
    ],
    id: |item| text(item, "target"),
    none: "the plugin names nothing that it needs at the peer",
};

/// What would be done to a peer, or was done.
struct Changes {
    answer: Answer,
    list: Vec<Value>,
}

impl Changes {
    async fn ask(context: &Context<'_>, list: &str, name: &str, apply: bool) -> Result<Self, CliError> {
        let answer = context.client.post(&["v1", list, name, "provision"], &[], &json!({ "apply": apply })).await?;
        let list = answer.need("changes", Value::as_array)?.clone();
        Ok(Self { answer, list })
    }

    fn of(&self, action: &str) -> usize {
        self.list.iter().filter(|change| change.get("action").and_then(Value::as_str) == Some(action)).count()
    }

    /// How many things aren't as they should be and can be made so.
    fn to_do(&self) -> usize {
        self.of("create") + self.of("change")
    }

    fn show(&self, context: &mut Context<'_>) -> Result<(), CliError> {
        match context.format {
            Format::Json => context.term.line(self.answer.text.trim_end()),
            format => output::list(context.term, format, &self.list, &VIEW),
        }
    }

    /// Conflicts need somebody's decision, so they are no success.
    fn verdict(&self) -> Result<(), CliError> {
        match self.of("conflict") {
            0 => Ok(()),
            conflicts => Err(CliError::Conflicts { conflicts }),
        }
    }
}

/// Provisions one of `list`: `transports` or `sources`.
pub(super) async fn run(list: &str, args: &Provision, context: &mut Context<'_>) -> Result<(), CliError> {
    let name = &args.name;
    let plan = Changes::ask(context, list, name, false).await?;
    let what = number(plan.to_do() as u64, "change", "changes");
    if args.dry_run || plan.to_do() == 0 {
        plan.show(context)?;
        if plan.to_do() == 0 {
            context.term.say("nothing to do");
        }
        return plan.verdict();
    }
    if !args.yes {
        if context.term.interactive && context.format == Format::Table {
            plan.show(context)?;
        }
        let act = format!("apply {what} to the peer of {name}");
        context.term.confirm(&act, &format!("{act}?"), DRY_RUN_FIRST)?;
    }
    let done = Changes::ask(context, list, name, true).await?;
    done.show(context)?;
    context.term.say(&format!("applied {} to the peer of {name}", number(done.to_do() as u64, "change", "changes")));
    done.verdict()
}
