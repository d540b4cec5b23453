//! `waybill saga definitions`.

use clap::Args;
use serde_json::Value;

use crate::args::{ListArgs, within};
use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{self, Format, View, column, instant, less, moment, plain, short_digest, text, whole};

/// Which definitions.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga definitions\n  \
    waybill saga definitions order                its versions, and the latest as it is stored\n  \
    waybill saga definitions order --version 2 -o json\n  \
    waybill saga definitions --cursor 5pXq8hYwMC8z      go on where it ended")]
pub struct Definitions {
    /// Show this one
    pub name: Option<String>,
    /// In this version [default: the latest]
    #[arg(long, value_name = "N", requires = "name", value_parser = within(1_u32..))]
    pub version: Option<u32>,
    #[command(flatten)]
    pub list: ListArgs,
}

const VIEW: View<'_> = View {
    columns: &[
        whole("NAME", |item| text(item, "name")),
        column("VERSION", |item| text(item, "version")),
        less(2, column("HASH", |item| short_digest(&text(item, "hash")))),
        moment("CREATED", |item| instant(item, "created_at")),
        less(1, column("BY", |item| text(item, "created_by"))),
    ],
    id: |item| format!("{}@{}", text(item, "name"), text(item, "version")),
    none: "nothing is defined: `waybill saga define FILE`",
};

/// Lists them, or shows one.
pub(super) async fn run(args: &Definitions, context: &mut Context<'_>) -> Result<(), CliError> {
    match &args.name {
        Some(name) => show(name, args.version, context).await,
        None => lists::show(context, &["v1", "saga-definitions"], &[], &args.list, &VIEW).await,
    }
}

async fn show(name: &str, version: Option<u32>, context: &mut Context<'_>) -> Result<(), CliError> {
    let version = version.map(|version| version.to_string());
    let query: Vec<(&str, &str)> = version.iter().map(|version| ("version", version.as_str())).collect();
    let answer = context.client.get(&["v1", "saga-definitions", name], &query).await?;
    let item = &answer.body;
    answer.need("hash", Value::as_str)?;
    if context.format != Format::Table {
        return output::one(context.term, context.format, &answer.text, &(VIEW.id)(item), Vec::new());
    }
    let versions = item
        .get("versions")
        .and_then(Value::as_array)
        .map_or("-".into(), |versions| versions.iter().map(plain).collect::<Vec<_>>().join(", "));
    let rows = vec![
        ("name".to_owned(), text(item, "name")),
        ("version".to_owned(), format!("{} (there are {versions})", text(item, "version"))),
        ("hash".to_owned(), text(item, "hash")),
        ("created".to_owned(), format!("{} by {}", instant(item, "created_at"), text(item, "created_by"))),
    ];
    output::pairs(context.term, rows)?;
    context.term.line("")?;
    match item.get("document") {
        // JSON escapes control characters, so it draws nothing on the terminal.
        Some(document) => output::json(context.term, document),
        None => Ok(()),
    }
}
