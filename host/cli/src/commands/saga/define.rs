//! `waybill saga define`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use waybill_api::saga_definitions::SagaDefined;

use crate::client::{Answer, ClientError, Refusal};
use crate::commands::Context;
use crate::commands::json::limited;
use crate::exit::CliError;
use crate::output::{self, Head, number, safe};

/// Which definitions.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga define order.toml --dry-run      what is wrong with it, and which running sagas stay on an older version\n  \
    waybill saga define order.toml\n  \
    waybill saga define payment.toml order.toml   sub-sagas first\n  \
    cat order.json | waybill saga define - --format json\n\n\
    A version never changes: give a changed definition a higher one. Running sagas go on with theirs.")]
pub struct Define {
    /// Files, .toml or .json; `-` reads one from stdin
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Only check, and say what would happen
    #[arg(long)]
    pub dry_run: bool,
    /// Language of the files [default: by the file's name]
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    pub format: Option<Language>,
}

/// How a definition is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// TOML
    Toml,
    /// JSON
    Json,
}

/// Stores the definitions, one after the other; the first that is refused ends it.
pub(super) async fn run(args: &Define, context: &mut Context<'_>) -> Result<(), CliError> {
    // A dry run stores nothing, so what comes later is told what would be there by then.
    let mut given: Vec<String> = Vec::new();
    for file in &args.files {
        let name = if file.as_os_str() == "-" { "stdin".to_owned() } else { file.display().to_string() };
        let language = language(file, args.format)?;
        let text = if file.as_os_str() == "-" {
            limited(&mut context.term.input, "stdin")?
        } else {
            let mut file = std::fs::File::open(file).map_err(CliError::io(format!("reading {name}")))?;
            limited(&mut file, &name)?
        };
        let media = if language == Language::Toml { "application/toml" } else { "application/json" };
        let before = given.join(",");
        let mut query = Vec::new();
        if args.dry_run {
            query.push(("dry_run", "true"));
            query.extend((!given.is_empty()).then_some(("given", before.as_str())));
        }
        let path = ["v1", "saga-definitions"];
        let answer = context.client.post_bytes(&path, &query, media, text.into_bytes()).await;
        let answer = answer.map_err(|error| in_file(error, &name))?;
        given.push(report(&answer, context)?);
    }
    Ok(())
}

fn language(file: &Path, given: Option<Language>) -> Result<Language, CliError> {
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match (given, extension.to_ascii_lowercase().as_str()) {
        (Some(language), _) => Ok(language),
        (None, "toml") => Ok(Language::Toml),
        (None, "json") => Ok(Language::Json),
        (None, _) => Err(CliError::usage(
            format!("{} doesn't say in which language it is", file.display()),
            "name it .toml or .json, or give --format",
        )),
    }
}

/// Says which file it is about.
fn in_file(error: ClientError, name: &str) -> CliError {
    match error {
        ClientError::Refused(refusal) => {
            ClientError::Refused(Box::new(Refusal { source: Some(name.to_owned()), ..*refusal })).into()
        }
        error => error.into(),
    }
}

/// Says what came of a definition, and answers its name and version.
fn report(answer: &Answer, context: &mut Context<'_>) -> Result<String, CliError> {
    let done: SagaDefined = answer.need("created", |_| serde_json::from_str(&answer.text).ok())?;
    let which = format!("{} version {} ({})", done.name, done.version, output::short_digest(&done.hash));
    match (done.dry_run, done.created) {
        (true, true) => context.term.say(&format!("{which} is right, and would be new: nothing was stored")),
        (true, false) => context.term.say(&format!("{which} is right, and is there already")),
        (false, true) => context.term.say(&format!("defined {which}")),
        (false, false) => context.term.say(&format!("{which} was there already")),
    }
    for warning in &done.warnings {
        let place = format!("line {}, column {}, {}", warning.line, warning.column, warning.path);
        context.term.say(&format!("warning: {place}: {}\n  fix {}", warning.what, warning.fix));
    }
    if done.running_count > 0 {
        let sagas = number(done.running_count, "running saga stays", "running sagas stay");
        context.term.say(&format!("{sagas} on another version"));
    }
    let id = format!("{}@{}", done.name, done.version);
    output::answer(context.term, context.format, &answer.text, &id, |term| {
        if done.running.is_empty() {
            return Ok(());
        }
        let rows = done.running.iter().map(|saga| {
            let why = saga.reason.as_deref().map_or_else(|| "-".to_owned(), safe);
            let moves = if saga.could_move { "yes" } else { "no" };
            let state = super::paint::state_word(saga.state).to_owned();
            vec![safe(&saga.id), safe(&saga.tenant), saga.version.to_string(), state, moves.to_owned(), why]
        });
        let heads = [
            Head::whole("ID"),
            Head::cut("TENANT").less(1),
            Head::cut("VERSION"),
            Head::cut("STATE"),
            Head::cut("COULD MOVE"),
            Head::prose("WHY NOT"),
        ];
        output::table(term, &heads, &rows.collect::<Vec<_>>())
    })?;
    Ok(id)
}
