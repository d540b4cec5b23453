//! `waybill config show`.

use clap::Args;
use serde_json::{Value, json};

use super::reload::counts;
use crate::args::Global;
use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{self, Format, Head, View, column, plain, prose, text, whole};
use crate::setup::{self, ConfigArgs};
use crate::term::Term;

/// Show.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill config show\n  waybill config show --origin        with file, line and column, variable or flag of each\n  waybill config show --running       what a running host has in force, and when another value would count"
)]
pub struct Show {
    /// Which.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where each setting comes from
    #[arg(long)]
    pub origin: bool,
    /// Ask a running host what it has in force
    #[arg(long, conflicts_with_all = ["config", "data"])]
    pub running: bool,
}

const IN_FORCE: View<'_> = View {
    columns: &[
        whole("KEY", |item| text(item, "key")),
        prose("VALUE", |item| value(item.get("value").unwrap_or(&Value::Null))),
        prose("ORIGIN", |item| text(item, "origin")),
        column("ANOTHER COUNTS", counts),
    ],
    id: |item| text(item, "key"),
    none: "this host was built without a configuration",
};

fn value(value: &Value) -> String {
    match value {
        Value::Null => "(not set)".to_owned(),
        value => plain(value),
    }
}

/// Shows every setting in effect.
pub(super) async fn run(args: &Show, global: &Global, term: &mut Term) -> Result<(), CliError> {
    if !args.running {
        return read_here(args, global.format(), term);
    }
    let context = &mut Context::new(global, term)?;
    let answer = context.client.get(&["v1", "config"], &[]).await?;
    output::list(context.term, context.format, answer.need("items", Value::as_array)?, &IN_FORCE)
}

/// As `serve` would read it here and now.
fn read_here(args: &Show, format: Format, term: &mut Term) -> Result<(), CliError> {
    let config = setup::configuration(&args.config, Vec::new(), term)?;
    let items: Vec<Value> = config
        .shown
        .iter()
        .map(|shown| json!({ "key": shown.path, "value": shown.value, "origin": shown.origin.to_string() }))
        .collect();
    match format {
        Format::Json => return output::json(term, &Value::Array(items)),
        Format::Jsonl => return items.iter().try_for_each(|item| term.line(&item.to_string())),
        Format::Ids => return config.shown.iter().try_for_each(|shown| term.line(&shown.path)),
        Format::Table => {}
    }
    let mut rows: Vec<Vec<String>> = config
        .shown
        .iter()
        .map(|shown| {
            let mut row = vec![shown.path.clone(), value(&shown.value)];
            row.extend(args.origin.then(|| shown.origin.to_string()));
            row
        })
        .collect();
    if config.transports.iter().any(|transport| transport.name == "http")
        && !config.shown.iter().any(|shown| shown.path.starts_with("transport."))
    {
        let mut row = vec![
            "(built in)".to_owned(),
            "http:** goes to the bundled http transport, which reaches this machine only".to_owned(),
        ];
        row.extend(args.origin.then(|| "default".to_owned()));
        rows.push(row);
    }
    let mut heads = vec![Head::whole("KEY"), Head::prose("VALUE")];
    heads.extend(args.origin.then(|| Head::prose("ORIGIN")));
    output::table(term, &heads, &rows)
}
