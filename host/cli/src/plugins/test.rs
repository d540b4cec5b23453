//! `waybill plugin test`: the conformance suite of a plugin's world, in the real sandbox.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use waybill_conformance::{Case, Check, Options, Report, Verdict};
use waybill_sandbox::{CompileLimits, PluginSource, Sandbox, SandboxError, SandboxOptions, World};

use super::cache::open_with_or_without;
use super::project::{MANIFEST, Project};
use super::{build, command};
use crate::args::Format;
use crate::args::author::Test;
use crate::config::{LogFormat, LogSettings, cache_folder};
use crate::data;
use crate::exit::{CliError, Exit};
use crate::output::{self, View, column, text};
use crate::serve::logging;
use crate::term::Term;

/// What is shown of the log: a plugin's own words, warnings of this program, and errors.
const LOG: &str = "error,waybill_cli=warn,waybill::plugin=info";

/// Runs the suite and writes its report. Fails when a check did.
pub async fn run(args: &Test, format: Format, term: &mut Term) -> Result<(), CliError> {
    let subject = subject(args, term)?;
    let config = args.config.as_deref().map(config).transpose()?;
    let cases = match &subject.cases {
        Some(folder) => Case::read_all(folder).map_err(|error| {
            CliError::usage(error.to_string(), "correct the case; the README of a new project shows one")
        })?,
        None => Vec::new(),
    };
    let sandbox = sandbox(term, CompileLimits::default())?;
    term.say("running the suite; the first run of a component compiles it");
    let options = Options { cases, config, smoke: false };
    let report = waybill_conformance::run(&sandbox, &subject.source, subject.world, &options)
        .await
        .map_err(|error| of_sandbox(&error))?;
    show(&report, format, term)?;
    match report.failed() {
        0 => Ok(()),
        failed => Err(CliError::Checks { failed, count: report.checks.len() }),
    }
}

/// A sandbox for commands: the host's own cache is used, so that a component is compiled once. What plugins log is shown.
pub(crate) fn sandbox(term: &Term, limits: CompileLimits) -> Result<Sandbox, CliError> {
    if !term.quiet {
        let settings = LogSettings { level: LOG.into(), format: LogFormat::Text };
        logging::start(&settings, term.color_errors());
    }
    let compiler = super::compiler(limits, term);
    let (cache_dir, seal_key) = (cache_folder(), data::platform_seal_key());
    let options = SandboxOptions { cache_dir, seal_key, compiler, ..SandboxOptions::default() };
    let sandbox = open_with_or_without(options, |options| {
        let sandbox = Sandbox::new(options)?;
        sandbox.keep_seal()?;
        Ok(sandbox)
    });
    sandbox.map_err(|error| of_sandbox(&error))
}

pub(crate) fn of_sandbox(error: &SandboxError) -> CliError {
    CliError::Host { code: error.code(), what: error.to_string(), exit: Exit::Failed }
}

/// What is tested.
struct Subject {
    source: PluginSource,
    world: World,
    cases: Option<PathBuf>,
}

fn subject(args: &Test, term: &mut Term) -> Result<Subject, CliError> {
    let path = &args.plugin;
    if path.is_dir() {
        let project = Project::open(path)?;
        let component = project.component();
        if !args.no_build {
            build::build(&project, None, term)?;
        } else if !component.is_file() {
            return Err(CliError::usage(
                format!("{} isn't there", component.display()),
                "build it first, or leave --no-build out",
            ));
        }
        let cases = Some(args.cases.clone().unwrap_or_else(|| project.root.join("tests")));
        return Ok(Subject { source: PluginSource::File(component), world: project.manifest.world, cases });
    }
    let name = path.display().to_string();
    let (fetched, inspection) = command::find(&name)?;
    let source = PluginSource::Bytes(fetched.bytes().into());
    Ok(Subject { source, world: inspection.manifest.world, cases: args.cases.clone() })
}

/// JSON, or a file of it.
fn config(text: &str) -> Result<Value, CliError> {
    let text = match text.trim_start().starts_with('{') {
        true => text.to_owned(),
        false => std::fs::read_to_string(Path::new(text)).map_err(CliError::io(format!("reading {text}")))?,
    };
    serde_json::from_str(&text).map_err(|error| {
        CliError::usage(format!("--config isn't JSON: {error}"), format!("see config_schema in {MANIFEST}"))
    })
}

const VIEW: View<'_> = View {
    columns: &[
        column("CHECK", |item| text(item, "name")),
        column("VERDICT", |item| text(item, "verdict")),
        column("WHAT WAS SEEN", |item| text(item, "seen")),
    ],
    id: |item| text(item, "name"),
    none: "nothing was checked",
};

fn show(report: &Report, format: Format, term: &mut Term) -> Result<(), CliError> {
    match format {
        Format::Json => output::json(term, &json!(report))?,
        Format::Table => {
            let items: Vec<Value> = report.checks.iter().map(row).collect();
            output::list(term, format, &items, &VIEW)?;
        }
        Format::Jsonl | Format::Ids => {
            let items: Vec<Value> = report.checks.iter().map(|check| json!(check)).collect();
            output::list(term, format, &items, &VIEW)?;
        }
    }
    let skipped = report.checks.len() - report.passed() - report.failed();
    term.say(&format!("{} passed, {} failed, {skipped} not applicable", report.passed(), report.failed()));
    Ok(())
}

/// A check for people: one that failed with what it promises and what to do.
fn row(check: &Check) -> Value {
    let (verdict, seen) = match &check.verdict {
        Verdict::Passed { seen } => ("passed", seen.clone()),
        Verdict::Failed { reason, fix } => ("FAILED", format!("{reason}\npromise: {}\nfix: {fix}", check.promise)),
        Verdict::NotApplicable { reason } => ("not applicable", reason.clone()),
    };
    json!({ "name": check.name, "verdict": verdict, "seen": seen })
}
