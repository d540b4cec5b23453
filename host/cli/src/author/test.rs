//! `waybill plugin test`: the conformance suite of a plugin's world, in the real sandbox.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use waybill_conformance::{Case, Check, Options, Report, Verdict};
use waybill_core::json_fault::placed_fault;
use waybill_sandbox::{CompileLimits, PluginSource, World};

use super::project::{MANIFEST, Project};
use super::sandbox::{self, Cache};
use super::{build, inspect};
use crate::exit::CliError;
use crate::output::{self, Format, View, column, prose, safe, whole};
use crate::term::Term;

/// A run of the conformance suite.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin test\n  waybill plugin test my-broker.wasm --cases tests --config '{\"url\":\"http://${peer}/\"}'\n  waybill plugin test -o json\n\nA project is built first. Its cases are in tests/*.toml; ${peer} in them is the address of the peer that the suite plays.\nThe exit code is 1 if a check failed."
)]
pub struct Test {
    /// A project's folder, or a component
    #[arg(default_value = ".", value_name = "DIR|FILE")]
    pub plugin: PathBuf,
    /// Configuration for a plugin without cases: JSON, or a file of it
    #[arg(long, value_name = "JSON|FILE")]
    pub config: Option<String>,
    /// Folder of the cases; tests/ of a project otherwise
    #[arg(long, value_name = "DIR")]
    pub cases: Option<PathBuf>,
    /// Take the component that is there instead of building it
    #[arg(long)]
    pub no_build: bool,
}

/// Runs the suite and writes its report. Fails when a check did.
pub async fn run(args: &Test, cache: Cache, format: Format, term: &mut Term) -> Result<(), CliError> {
    let subject = subject(args, term)?;
    let config = args.config.as_deref().map(config).transpose()?;
    let cases = match &subject.cases {
        Some(folder) => Case::read_all(folder).map_err(|error| {
            CliError::usage(error.to_string(), "correct the case; the README of a new project shows one")
        })?,
        None => Vec::new(),
    };
    let cache = match &subject.source {
        PluginSource::File(path) => cache.of(&std::fs::read(path).unwrap_or_default()),
        PluginSource::Bytes(bytes) => cache.of(bytes),
        PluginSource::Embedded(_) => cache,
    };
    let sandbox = sandbox::open(cache, CompileLimits::default(), term)?;
    term.say("running the suite; the first run of a component compiles it");
    let options = Options { cases, config, smoke: false };
    let report = waybill_conformance::run(&sandbox, &subject.source, subject.world, &options)
        .await
        .map_err(|error| sandbox::failed(&error))?;
    show(&report, format, term)?;
    match report.failed() {
        0 => Ok(()),
        failed => Err(CliError::Checks { failed, count: report.checks.len() }),
    }
}

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
            build::build(&project, None, build::BuildOptions::default(), term)?;
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
    let (fetched, inspection) = inspect::find(&name)?;
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
        CliError::usage(
            format!("--config isn't JSON: {}", placed_fault(&error)),
            format!("see config_schema in {MANIFEST}"),
        )
    })
}

const VIEW: View<'_, Check> = View {
    columns: &[
        whole("CHECK", |check| safe(&check.name)),
        column("VERDICT", |check| {
            let verdict = match &check.verdict {
                Verdict::Passed { .. } => "passed",
                Verdict::Failed { .. } => "FAILED",
                Verdict::NotApplicable { .. } => "not applicable",
                Verdict::NotRun { .. } => "didn't run",
            };
            verdict.to_owned()
        }),
        // One that failed with what it promises and what to do.
        prose("WHAT WAS SEEN", |check| match &check.verdict {
            Verdict::Passed { seen } => safe(seen),
            Verdict::Failed { reason, fix } => {
                format!("{}\npromise: {}\nfix: {}", safe(reason), safe(&check.promise), safe(fix))
            }
            Verdict::NotApplicable { reason } | Verdict::NotRun { reason } => safe(reason),
        }),
    ],
    id: |check| safe(&check.name),
    none: "nothing was checked",
};

fn show(report: &Report, format: Format, term: &mut Term) -> Result<(), CliError> {
    match format {
        Format::Json => output::json(term, &json!(report))?,
        format => output::list(term, format, &report.checks, &VIEW)?,
    }
    let not_run = report.not_run();
    let held_back: usize = not_run.iter().map(|(_, count)| count).sum();
    let (passed, failed) = (report.passed(), report.failed());
    let beside = report.checks.len().saturating_sub(passed + failed + held_back);
    term.say(&format!("{passed} passed, {failed} failed, {beside} not applicable"));
    for (reason, count) in not_run {
        let checks = if count == 1 { "check" } else { "checks" };
        term.say(&format!("{count} {checks} didn't run: {}", safe(reason)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::term::Written;

    #[test]
    fn what_did_not_run_is_the_last_word_and_a_failure_has_lines_of_its_own() {
        let text = |text: &str| text.to_owned();
        let check = |name: &str, verdict| Check { name: text(name), promise: text("what is promised"), verdict };
        let not_run = || Verdict::NotRun { reason: text("no case") };
        let checks = vec![
            check("opens", Verdict::Passed { seen: text("1 delivered") }),
            check("ids-kept", not_run()),
            check("outage", not_run()),
            check("case: x", Verdict::Failed { reason: text("expected ack"), fix: text("correct the plugin") }),
        ];
        let report = Report {
            plugin: text("mqtt"),
            version: text("0.1.0"),
            world: text("transport"),
            digest: text("sha256:ab"),
            checks,
        };
        let (out, err) = (Written::default(), Written::default());
        let mut term = Term {
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            width: None,
            color: false,
            ..Term::of_process()
        };
        show(&report, Format::Table, &mut term).unwrap();
        assert_eq!(err.text(), "1 passed, 1 failed, 0 not applicable\n2 checks didn't run: no case\n");
        let lines: Vec<String> = out.text().lines().map(|line| line.trim().to_owned()).collect();
        assert!(lines.iter().any(|line| line == "promise: what is promised"), "{lines:?}");
        assert!(lines.iter().any(|line| line == "fix: correct the plugin"), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("ids-kept") && line.contains("didn't run")), "{lines:?}");
    }
}
