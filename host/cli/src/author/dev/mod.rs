//! `waybill plugin dev`: builds on every save, opens the component once in a sandbox of its own, and loads it into a running
//! host. What fails is shown; what serves goes on.

mod watch;

use std::path::PathBuf;

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
    after_help = "Examples:\n  waybill plugin dev --transport orders\n  waybill plugin dev --participant shop\n  waybill plugin dev plugins/my-broker --transport orders --url http://127.0.0.1:7070\n\nOn every save: builds, opens it once in a sandbox of its own, and loads it into the host. What fails is shown, and what\nserves goes on. Without one it only builds and opens. Ends with Ctrl-C."
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
    /// Hands a component over.
    async fn load(&self, component: Vec<u8>) -> Result<(), CliError>;
}

/// Works until it is ended. `find` makes a place of its name.
pub async fn run<T: Place>(
    args: &Dev,
    cache: Cache,
    find: impl FnOnce(&str, &mut Term) -> Result<T, CliError>,
    term: &mut Term,
) -> Result<(), CliError> {
    // A folder that isn't a project will not become one by waiting.
    let root = Project::open(&args.dir)?.root;
    let name = args.place.name();
    let place = name.as_deref().map(|name| Ok::<_, CliError>((name, find(name, term)?))).transpose()?;
    let sandbox = sandbox::open(cache, CompileLimits::default(), term)?;
    let mut written = Written::default();
    loop {
        let before = Snapshot::of(&root, &written);
        match round(args, &sandbox, place.as_ref(), term).await {
            Ok(done) => term.say(&done),
            Err(error) => term.complain(&format!("error: {error}")),
        }
        for path in written.learn(&before, &Snapshot::of(&root, &written)) {
            term.say(&format!("the build itself writes {path}: it is no longer watched"));
        }
        term.say("waiting for changes; Ctrl-C ends");
        // A save during the build is a change too: what was built is what was there before it.
        watch::changed(&root, &written, &before).await;
    }
}

/// One build with all that follows.
async fn round<T: Place>(
    args: &Dev,
    sandbox: &Sandbox,
    place: Option<&(&str, T)>,
    term: &mut Term,
) -> Result<String, CliError> {
    let project = Project::open(&args.dir)?;
    let built = tokio::task::block_in_place(|| build::build(&project, None, term))?;
    smoke(&project, sandbox).await?;
    let digest = short_digest(&built.inspection.digest);
    let Some((name, place)) = place else {
        return Ok(format!("built {digest}; it opens"));
    };
    let bytes = std::fs::read(&built.file).map_err(CliError::io(format!("reading {}", built.file.display())))?;
    place.load(bytes).await?;
    Ok(format!("built {digest}; {name} serves it"))
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
        Verdict::Passed { .. } | Verdict::NotApplicable { .. } => None,
    });
    match failed {
        None => Ok(()),
        Some(what) => Err(CliError::Host { code: Code::PLUGIN_TEST_FAILED, what, exit: Exit::Failed }),
    }
}
