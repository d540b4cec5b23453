//! `waybill plugin dev`: builds on every save, opens the component once in a sandbox of its own, and loads it into a running
//! host. What fails is shown; what serves goes on. What was loaded is followed until the next save: its log, and whether it is
//! rolled back.

mod follow;
mod watch;

use std::path::{Path, PathBuf};

use clap::Args;
use waybill_conformance::{Case, Options, Verdict};
use waybill_core::code::Code;
use waybill_sandbox::{CompileLimits, PluginSource, Sandbox};

use super::build;
use super::place::PlaceArgs;
use super::project::Project;
use super::sandbox::{self, Cache};
use crate::exit::{CliError, Exit};
use crate::output::short_digest;
use crate::term::Term;

use watch::{Snapshot, Written};

/// Work on a plugin against a running host.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin dev --transport orders\n  waybill plugin dev --participant shop\n  waybill plugin dev plugins/my-broker --transport orders --url http://127.0.0.1:7070\n\nOn every save: builds, opens it once in a sandbox of its own, and loads it into the host: by a reload where the host reads it from the file that was built, else it is handed over. What fails is shown, and what serves goes on. The plugin's log is shown, and whether it passes its probation or is rolled back. Without one it only builds and opens. A server that a case names as `external` gets a connection and no message: `waybill plugin test` sends some. Ends with Ctrl-C."
)]
pub struct Dev {
    /// The project's folder
    #[arg(default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
    /// What of the running host it replaces.
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// What a running host knows by a name, whose plugin each build becomes.
pub trait Place {
    /// Makes a component that was built into `file` the one that serves.
    async fn load(&self, file: &Path, digest: &str) -> Result<Loaded, CliError>;
    /// What has become of it.
    async fn fate(&self, loaded: &Loaded) -> Result<Fate, CliError>;
    /// Lines of its log behind a number, each with the number to go on from; waits a while for the first.
    async fn log(&self, after: u64) -> Result<LogLines, CliError>;
}

/// A component that serves, as its host told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub generation: u64,
    /// Its log as it stood before: what comes is its own.
    pub log_from: u64,
}

/// What became of a generation that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Until then it is rolled back by itself if it does worse than the one before.
    OnTrial {
        until: String,
    },
    Serves,
    /// The host went back to the one before, for this code and reason.
    RolledBack {
        code: String,
        reason: String,
    },
    /// Another one serves, which somebody else loaded.
    Replaced,
}

/// A piece of a log, as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLines {
    pub lines: Vec<String>,
    pub next: u64,
}

/// Works until it is ended. `find` makes a place of its name.
pub async fn run<T: Place>(
    args: &Dev,
    cache: Cache,
    find: impl FnOnce(&str, &mut Term) -> Result<T, CliError>,
    term: &mut Term,
) -> Result<(), CliError> {
    // A folder that isn't a project will not become one by waiting.
    let project = Project::open(&args.dir)?;
    project.language()?;
    let root = project.root;
    let name = args.place.name();
    let place = name.as_deref().map(|name| Ok::<_, CliError>((name, find(name, term)?))).transpose()?;
    let sandbox = sandbox::open(cache, CompileLimits::default(), term)?;
    let mut written = Written::default();
    loop {
        let before = Snapshot::of(&root, &written);
        let loaded = match round(args, &sandbox, place.as_ref(), term).await {
            Ok((done, loaded)) => {
                term.say(&done);
                loaded
            }
            Err(error) => {
                term.complain(&format!("error: {error}"));
                None
            }
        };
        for path in written.learn(&before, &Snapshot::of(&root, &written)) {
            term.say(&format!("the build itself writes {path}: it is no longer watched"));
        }
        term.say("waiting for changes; Ctrl-C ends");
        // A save during the build is a change too: what was built is what was there before it.
        let changed = watch::changed(&root, &written, &before);
        match (&place, loaded) {
            (Some((name, place)), Some(loaded)) => {
                tokio::select! {
                    () = changed => {}
                    () = follow::follow(name, place, &loaded, term) => {}
                }
            }
            _ => changed.await,
        }
    }
}

/// One build with all that follows.
async fn round<T: Place>(
    args: &Dev,
    sandbox: &Sandbox,
    place: Option<&(&str, T)>,
    term: &mut Term,
) -> Result<(String, Option<Loaded>), CliError> {
    let project = Project::open(&args.dir)?;
    let built = tokio::task::block_in_place(|| build::build(&project, None, build::BuildOptions::default(), term))?;
    smoke(&project, sandbox).await?;
    let digest = short_digest(&built.inspection.digest);
    let Some((name, place)) = place else {
        return Ok((format!("built {digest}; it opens"), None));
    };
    let loaded = place.load(&built.file, &built.inspection.digest).await?;
    Ok((format!("built {digest}; {name} serves it as generation {}", loaded.generation), Some(loaded)))
}

/// Whether it opens and does its first work, against the peer of its own cases.
async fn smoke(project: &Project, sandbox: &Sandbox) -> Result<(), CliError> {
    let cases = Case::read_all(&project.root.join("tests"))
        .map_err(|error| CliError::usage(error.to_string(), "correct the case"))?;
    let options = Options { cases, smoke: true, ..Options::default() };
    let source = PluginSource::File(project.component());
    let report = waybill_conformance::run(sandbox, &source, project.manifest.world, &options)
        .await
        .map_err(|error| sandbox::failed(&error))?;
    let failed = report.checks.iter().find_map(|check| match &check.verdict {
        Verdict::Failed { reason, fix } => Some(format!("{}: {reason}\n  fix {fix}", check.name)),
        Verdict::Passed { .. } | Verdict::NotApplicable { .. } | Verdict::NotRun { .. } => None,
    });
    match failed {
        None => Ok(()),
        Some(what) => Err(CliError::Host { code: Code::PLUGIN_TEST_FAILED, what, exit: Exit::Failed }),
    }
}
