//! `waybill plugin dev`: builds on every save, opens the component once in a sandbox of its own, and loads it into a running
//! host. What fails is shown; what serves goes on.

mod watch;

use waybill_conformance::{Case, Options, Verdict};
use waybill_sandbox::{CompileLimits, PluginSource, Sandbox};

use super::project::Project;
use super::{build, test};
use crate::args::Global;
use crate::args::author::Dev;
use crate::client::Client;
use crate::exit::{CliError, Exit};
use crate::output::short_digest;
use crate::term::Term;

use watch::{Snapshot, Written};

/// Works until it is ended.
pub async fn run(args: &Dev, global: &Global, term: &mut Term) -> Result<(), CliError> {
    // A folder that isn't a project will not become one by waiting.
    let root = Project::open(&args.dir)?.root;
    let host =
        args.transport.as_deref().map(|name| Client::new(global, term).map(|client| (client, name))).transpose()?;
    let sandbox = test::sandbox(term, CompileLimits::default())?;
    let mut written = Written::default();
    loop {
        let before = Snapshot::of(&root, &written);
        match round(args, &sandbox, host.as_ref(), term).await {
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
async fn round(
    args: &Dev,
    sandbox: &Sandbox,
    host: Option<&(Client, &str)>,
    term: &mut Term,
) -> Result<String, CliError> {
    let project = Project::open(&args.dir)?;
    let built = tokio::task::block_in_place(|| build::build(&project, None, term))?;
    smoke(&project, sandbox).await?;
    let digest = short_digest(&built.inspection.digest);
    let Some((client, transport)) = host else {
        return Ok(format!("built {digest}; it opens"));
    };
    let bytes = std::fs::read(&built.file).map_err(CliError::io(format!("reading {}", built.file.display())))?;
    // Whoever works on it wants this one, also after a rollback, and again.
    client.put_component(&["v1", "plugins", transport, "component"], &[("force", "true")], &[], bytes).await?;
    Ok(format!("built {digest}; {transport} serves it"))
}

/// Whether it opens and does its first work, against the peer of its own cases.
async fn smoke(project: &Project, sandbox: &Sandbox) -> Result<(), CliError> {
    let cases = Case::read_all(&project.root.join("tests"))
        .map_err(|error| CliError::usage(error.to_string(), "correct the case"))?;
    let options = Options { cases, smoke: true, ..Options::default() };
    let source = PluginSource::File(project.component());
    let report = waybill_conformance::run(sandbox, &source, project.manifest.world, &options)
        .await
        .map_err(|error| test::of_sandbox(&error))?;
    let failed = report.checks.iter().find_map(|check| match &check.verdict {
        Verdict::Failed { reason, fix } => Some(format!("{}: {reason}\n  fix {fix}", check.name)),
        Verdict::Passed { .. } | Verdict::NotApplicable { .. } => None,
    });
    match failed {
        None => Ok(()),
        Some(what) => Err(CliError::Host { code: "PLUGIN.TEST_FAILED", what, exit: Exit::Failed }),
    }
}
