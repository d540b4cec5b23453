//! `waybill plugin build`: a project's component, made by its language's own tools or by another toolchain, with the manifest
//! inside and checked against the contract.

mod from;
mod imports;
mod js;
mod manifest;
mod python;
mod rust;
mod stamp;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::{Value, json};
use waybill_sandbox::Inspection;

use super::project::{Language, Project};
use super::{inspect, tool};
use crate::exit::CliError;
use crate::output::{self, Format};
use crate::term::Term;
use stamp::Stamp;

/// A build.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin build\n  waybill plugin build plugins/gentle --out dist/gentle.wasm\n  waybill plugin build -o json\n  waybill plugin build --debug\n  waybill plugin build --from module.wasm\n\nNeeds the language's own tools and says what to install where they are missing: Rust with wasm32-wasip2, Node.js with jco,\nor Python with componentize-py. What one of the latter two made of the same files stays as it is.\n--debug keeps names and lines of Rust in the component: what traps under `waybill plugin test` or `call` then says in which function and line, and the functions on the way there. It runs the same code, but is several times as large and compiled apart from the one without, so build without it what a host is to run.\nJavaScript and Python say names and lines of what they throw in any case.\n--from takes what any other toolchain built (C, Zig, Go ...): a component, or a core module with the\ncontract's types inside, as bindings of wit-bindgen put them there. Of that it makes a component,\nwith WASI 0.2 where it imports preview1."
)]
pub struct Build {
    /// The project's folder
    #[arg(default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
    /// Where the component goes; NAME.wasm in the project otherwise
    #[arg(long = "out", value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Build it even if nothing has changed since the last time
    #[arg(long)]
    pub force: bool,
    /// Keep names and lines, so that a trap says where it was (larger; Rust)
    #[arg(long)]
    pub debug: bool,
    /// Take the .wasm that another toolchain built, instead of building
    #[arg(long, value_name = "FILE", conflicts_with_all = ["force", "debug"])]
    pub from: Option<PathBuf>,
}

/// How it is to be built.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BuildOptions {
    /// Even if nothing has changed since the last time.
    pub(crate) force: bool,
    /// With names and lines, where the language doesn't tell them by itself.
    pub(crate) debug: bool,
}

/// A component that was built.
pub(crate) struct Built {
    pub(crate) file: PathBuf,
    pub(crate) inspection: Inspection,
    /// None: another toolchain built it.
    language: Option<Language>,
    /// It was there already, made of the same.
    unchanged: bool,
}

/// A language's tool that makes a component from the beginning each time.
struct Tool {
    what: &'static str,
    command: Command,
    /// Tells it and what it has installed from others.
    version: String,
}

/// Builds and tells what came of it.
pub fn run(args: &Build, format: Format, term: &mut Term) -> Result<(), CliError> {
    let project = Project::open(&args.dir)?;
    let out = args.out.as_deref();
    let built = match &args.from {
        Some(file) => take(&project, file, out)?,
        None => build(&project, out, BuildOptions { force: args.force, debug: args.debug }, term)?,
    };
    show(&project, &built, format, term)
}

/// Builds a project into `out`, or into its own folder. What was there stays until the new component is whole and fits, and for good if it
/// was made of the same, unless that is to be built all the same.
pub(crate) fn build(
    project: &Project,
    out: Option<&Path>,
    options: BuildOptions,
    term: &mut Term,
) -> Result<Built, CliError> {
    let language = project.language()?;
    let file = destination(project, out)?;
    let tool = match language {
        // Cargo knows by itself what has changed.
        Language::Rust => None,
        Language::Js => Some(js::tool(project, term)?),
        Language::Python => Some(python::tool(project, term)?),
    };
    let told = |tool: &Tool| {
        format!("{}\n{}\n{:?}", language.as_str(), tool.version, tool.command.get_args().collect::<Vec<_>>())
    };
    let stamp = tool.as_ref().and_then(|tool| Stamp::of(project, &told(tool), &file));
    let before = stamp.as_ref().filter(|_| !options.force).and_then(|stamp| stamp.unchanged(&file));
    if let Some(inspection) = before {
        term.say(&format!(
            "{} is made of the same files already; `waybill plugin build --force` makes it again",
            file.display()
        ));
        return Ok(Built { file, inspection, language: Some(language), unchanged: true });
    }
    let bytes = match tool {
        None => rust::build(project, options.debug, term)?,
        Some(tool) => made_by(tool, project, term)?,
    };
    let bytes = manifest::embedded(project, bytes, "call manifest!() without a path, once")?;
    let inspection = inspect::read(&bytes, &file.display().to_string())?;
    imports::check(project, &inspection)?;
    place(&bytes, &file)?;
    if let Some(stamp) = stamp {
        stamp.keep(&inspection.digest, term);
    }
    Ok(Built { file, inspection, language: Some(language), unchanged: false })
}

/// Takes what another toolchain built, in place of a build.
fn take(project: &Project, from: &Path, out: Option<&Path>) -> Result<Built, CliError> {
    let file = destination(project, out)?;
    let bytes = from::component(from, &file)?;
    let fix = "build it without a manifest, or correct waybill-plugin.toml";
    let bytes = manifest::embedded(project, bytes, fix)?;
    let inspection = inspect::read(&bytes, &from.display().to_string())?;
    imports::check(project, &inspection)?;
    from::check_types(project, &bytes)?;
    place(&bytes, &file)?;
    Ok(Built { file, inspection, language: None, unchanged: false })
}

/// Where the component goes. The folder is made.
fn destination(project: &Project, out: Option<&Path>) -> Result<PathBuf, CliError> {
    let file = out.map_or_else(|| project.component(), Path::to_path_buf);
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(CliError::io(format!("making {}", folder.display())))?;
    }
    Ok(file)
}

/// Puts a component into its place, whole.
fn place(bytes: &[u8], file: &Path) -> Result<(), CliError> {
    let draft = file.with_extension("wasm.part");
    std::fs::write(&draft, bytes).map_err(CliError::io(format!("writing {}", draft.display())))?;
    std::fs::rename(&draft, file).map_err(CliError::io(format!("writing {}", file.display())))
}

/// Runs a tool, which writes a component into a file, and reads that file.
fn made_by(mut tool: Tool, project: &Project, term: &mut Term) -> Result<Vec<u8>, CliError> {
    let (draft, what) = (project.component().with_extension("wasm.raw"), tool.what);
    let result = tool::run(tool.command.arg("-o").arg(&draft), what, term).and_then(|_| {
        std::fs::read(&draft)
            .map_err(|error| tool::failed(format!("{what} ended well and wrote no component: {error}")))
    });
    // Left behind it would only be in the way; a next build writes it anew.
    let _ = std::fs::remove_file(&draft);
    result
}

fn show(project: &Project, built: &Built, format: Format, term: &mut Term) -> Result<(), CliError> {
    let Built { file, inspection, language, unchanged } = built;
    let rights = imports::rights(project, inspection);
    let item = json!({
        "file": file.display().to_string(),
        "name": project.manifest.name,
        "version": project.manifest.version,
        "world": project.world,
        "language": language.map(Language::as_str),
        "bytes": inspection.bytes,
        "digest": inspection.digest,
        "unchanged": unchanged,
        "imports": inspection.imports,
        "rights": rights.iter().map(imports::Right::to_json).collect::<Vec<Value>>(),
    });
    let mut rows = vec![
        ("component".to_owned(), file.display().to_string()),
        ("size".to_owned(), output::size(inspection.bytes as u64)),
        ("digest".to_owned(), inspection.digest.clone()),
        ("world".to_owned(), project.world.clone()),
    ];
    let lines: Vec<String> = rights.iter().map(imports::Right::line).collect();
    rows.push(("rights".to_owned(), if lines.is_empty() { "needs none".to_owned() } else { lines.join("\n") }));
    output::one(term, format, &format!("{item:#}"), &file.display().to_string(), rows)?;
    for right in rights.iter().filter(|right| right.is_forgotten(*language)) {
        term.say(&right.warning());
    }
    Ok(())
}
