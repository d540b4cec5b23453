//! Python: componentize-py, in the version that the project's `requirements.txt` pins.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use super::{Project, Tool};
use crate::author::tool;
use crate::exit::CliError;
use crate::term::Term;

/// Prints which packages the Python has from which componentize-py takes them, and when each was installed. It fails where one is only
/// linked to its sources, whose changes nothing here tells of.
const PACKAGES: &str = r#"
import os, site, sys
folders = site.getsitepackages() + [site.getusersitepackages()]
for folder in sorted(filter(os.path.isdir, folders)):
    for name in sorted(name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info", ".egg-link", ".pth"))):
        path = os.path.join(folder, name)
        link = os.path.join(path, "direct_url.json")
        if name.endswith(".egg-link") or (os.path.isfile(link) and '"editable": true' in open(link).read()):
            sys.exit(1)
        record = os.path.join(path, "RECORD")
        print(path, os.stat(record if os.path.isfile(record) else path).st_mtime_ns)
"#;
/// How it gets there.
const INSTALL: &str = "run `python3 -m venv .venv && .venv/bin/pip install -r requirements.txt` in the project";

/// What builds the component, in the version that is pinned.
pub(super) fn tool(project: &Project, term: &mut Term) -> Result<Tool, CliError> {
    let program = find(project, term).ok_or_else(|| {
        tool::missing("componentize-py, which makes components of Python, isn't installed for this project", INSTALL)
    })?;
    let version = format!("{}\n{}", version(&program, project, term)?, packages(&project.root));
    let mut command = Command::new(program);
    // Else it would take packages of an environment that happens to be active. Those of the Python on the path it takes.
    command.current_dir(&project.root).env_remove("VIRTUAL_ENV");
    command.arg("-d").arg(project.root.join("wit")).args(["-w", &project.world, "componentize", "plugin"]);
    command.arg("-p").arg(project.root.join("src"));
    Ok(Tool { what: "componentize-py", command, version })
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

/// The packages that may come into a component. Where that can't be told, something that was never told before.
fn packages(root: &Path) -> String {
    let mut python = Command::new("python3");
    python.args(["-c", PACKAGES]).current_dir(root).env_remove("VIRTUAL_ENV").stdin(Stdio::null());
    match python.output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        _ => format!("{:?}", SystemTime::now()),
    }
}

/// The version that `requirements.txt` pins, if it pins one.
fn pinned(project: &Project) -> Option<String> {
    let text = std::fs::read_to_string(project.root.join("requirements.txt")).ok()?;
    text.lines().find_map(|line| {
        let version = line.trim().strip_prefix("componentize-py==")?;
        Some(version.split([' ', ';', '#']).next().unwrap_or(version).to_owned())
    })
}

/// The version that is there, if that is the pinned one.
fn version(program: &PathBuf, project: &Project, term: &mut Term) -> Result<String, CliError> {
    let said = tool::run(Command::new(program).arg("--version"), "componentize-py --version", term)?;
    let said = String::from_utf8_lossy(&said);
    let found = said.split_whitespace().last().unwrap_or_default();
    match pinned(project) {
        Some(pinned) if pinned != found => Err(tool::missing(
            &format!("requirements.txt pins componentize-py {pinned}, and {} is {found}", program.display()),
            INSTALL,
        )),
        _ => Ok(found.to_owned()),
    }
}
