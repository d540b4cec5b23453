//! Python: componentize-py, in the version that the project's `requirements.txt` pins.

use std::path::PathBuf;
use std::process::Command;

use super::Project;
use crate::author::tool;
use crate::exit::CliError;
use crate::term::Term;

/// How it gets there.
const INSTALL: &str = "run `python3 -m venv .venv && .venv/bin/pip install -r requirements.txt` in the project";

/// Builds and reads the component.
pub(super) fn build(project: &Project, term: &mut Term) -> Result<Vec<u8>, CliError> {
    let program = find(project, term).ok_or_else(|| {
        tool::missing("componentize-py, which makes components of Python, isn't installed for this project", INSTALL)
    })?;
    check_version(&program, project, term)?;
    let mut command = Command::new(program);
    // Only what the project itself has: packages of an environment that happens to be active don't come along.
    command.current_dir(&project.root).env_remove("VIRTUAL_ENV");
    command.arg("-d").arg(project.root.join("wit")).args(["-w", &project.world, "componentize", "plugin"]);
    command.arg("-p").arg(project.root.join("src"));
    super::made_by(&mut command, "componentize-py", project, term)
}

/// The project's own environment first, then the active one, then the path.
fn find(project: &Project, term: &Term) -> Option<PathBuf> {
    let active = term.env.get("VIRTUAL_ENV").map(PathBuf::from);
    let folders = [Some(project.root.join(".venv")), active];
    let program = |folder: PathBuf| folder.join("bin").join("componentize-py");
    folders
        .into_iter()
        .flatten()
        .map(program)
        .find(|path| tool::is_program(path))
        .or_else(|| tool::find("componentize-py", term))
}

/// The version that `requirements.txt` pins, if it pins one.
fn pinned(project: &Project) -> Option<String> {
    let text = std::fs::read_to_string(project.root.join("requirements.txt")).ok()?;
    text.lines().find_map(|line| {
        let version = line.trim().strip_prefix("componentize-py==")?;
        Some(version.split([' ', ';', '#']).next().unwrap_or(version).to_owned())
    })
}

fn check_version(program: &PathBuf, project: &Project, term: &mut Term) -> Result<(), CliError> {
    let said = tool::run(Command::new(program).arg("--version"), "componentize-py --version", term)?;
    let said = String::from_utf8_lossy(&said);
    let found = said.split_whitespace().last().unwrap_or_default();
    match pinned(project) {
        Some(pinned) if pinned != found => Err(tool::missing(
            &format!("requirements.txt pins componentize-py {pinned}, and {} is {found}", program.display()),
            INSTALL,
        )),
        _ => Ok(()),
    }
}
