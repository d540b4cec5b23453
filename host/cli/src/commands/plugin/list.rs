//! `waybill plugin list`.

use clap::Args;
use serde_json::Value;

use super::served;
use crate::args::Global;
use crate::author::inspect;
use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{self, Format, View, column, less, prose, short_digest, text, whole};
use crate::term::Term;

/// Which plugins to list.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin list\n  waybill plugin list -o json        with every generation that is remembered\n  waybill plugin list --bundled      the ones in this binary; needs no host"
)]
pub struct List {
    /// The ones in this binary instead
    #[arg(long)]
    pub bundled: bool,
}

const BUNDLED: View<'_> = View {
    columns: &[
        whole("NAME", |item| text(item, "name")),
        column("VERSION", |item| text(item, "version")),
        less(1, column("WORLD", |item| text(item, "world"))),
        less(2, column("DIGEST", |item| short_digest(&text(item, "digest")))),
        prose("WHAT IT DOES", |item| text(item, "description")),
    ],
    id: |item| text(item, "name"),
    none: "no plugin is bundled",
};

/// Lists the plugins of a host, or the bundled ones.
pub(super) async fn run(args: &List, global: &Global, term: &mut Term) -> Result<(), CliError> {
    if args.bundled { bundled(global.format(), term) } else { of_host(&mut Context::new(global, term)?).await }
}

fn bundled(format: Format, term: &mut Term) -> Result<(), CliError> {
    let mut items = Vec::new();
    for bundled in waybill_bundled::all() {
        items.push(inspect::described(&inspect::read(bundled.component, bundled.name)?));
    }
    output::list(term, format, &items, &BUNDLED)
}

async fn of_host(context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = context.client.get(&["v1", "plugins"], &[]).await?;
    let items = answer.need("items", Value::as_array)?.clone();
    if let (Format::Table, Some(Value::Array(refused))) = (context.format, answer.body.get("refused_files")) {
        for file in refused {
            context.term.say(&format!(
                "{} in the plugins folder can't be used: {}: {}",
                text(file, "file"),
                text(file, "code"),
                text(file, "reason")
            ));
        }
    }
    output::list(context.term, context.format, &items, &served::VIEW)?;
    if context.format == Format::Table {
        items.iter().filter_map(served::trouble).for_each(|trouble| context.term.say(&trouble));
    }
    Ok(())
}
