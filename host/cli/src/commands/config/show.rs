//! `waybill config show`.

use clap::Args;
use serde_json::{Value, json};

use crate::config::reader::Shown;
use crate::exit::CliError;
use crate::output::{self, Format, Head, plain};
use crate::setup::{self, ConfigArgs};
use crate::term::Term;

/// Show.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill config show\n  waybill config show --origin        with file, line and column, variable or flag of each"
)]
pub struct Show {
    /// Which.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where each setting comes from
    #[arg(long)]
    pub origin: bool,
}

/// Shows every setting in effect.
pub(super) fn run(args: &Show, format: Format, term: &mut Term) -> Result<(), CliError> {
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
    let value = |shown: &Shown| match &shown.value {
        Value::Null => "(not set)".to_owned(),
        value => plain(value),
    };
    let mut rows: Vec<Vec<String>> = config
        .shown
        .iter()
        .map(|shown| {
            let mut row = vec![shown.path.clone(), value(shown)];
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
