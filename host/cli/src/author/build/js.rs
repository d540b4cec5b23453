//! JavaScript: jco with its QuickJS backend, as the project's `package.json` pins it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{Project, Tool};
use crate::author::{project, tool};
use crate::exit::CliError;
use crate::term::Term;

/// Where npm writes down which packages it has installed.
const INSTALLED: &str = "node_modules/.package-lock.json";
/// Where npm puts jco.
const JCO: &str = "node_modules/@bytecodealliance/jco";

pub(super) fn tool(project: &Project, term: &mut Term) -> Result<Tool, CliError> {
    let node = tool::find("node", term).ok_or_else(|| {
        tool::missing("there is no Node.js (node) on the PATH", "install version 20 or later: https://nodejs.org")
    })?;
    let script = jco(&project.root)?;
    let entry = entry(&project.root)?;
    let version = version(&project.root, &node);
    let mut command = Command::new(node);
    command.current_dir(&project.root).arg(script).arg("componentize").arg(entry);
    // jco takes absolute paths only.
    command.arg("--wit").arg(project.root.join("wit")).args(["--world-name", &project.world, "--backend", "qjs"]);
    Ok(Tool { what: "jco componentize", command, version })
}

/// Which node runs it, and all packages that are installed: those of the project may come into the component.
fn version(root: &Path, node: &Path) -> String {
    let installed = std::fs::read_to_string(root.join(INSTALLED)).unwrap_or_default();
    let jco = std::fs::read_to_string(root.join(JCO).join("package.json")).unwrap_or_default();
    let node = node.canonicalize().map(|node| (node.metadata().map(|found| found.len()).ok(), node)).ok();
    format!("{node:?}\n{jco}\n{installed}")
}

/// jco's program, by its `package.json`.
fn jco(root: &Path) -> Result<PathBuf, CliError> {
    let folder = root.join(JCO);
    let program = read(&folder.join("package.json")).and_then(|package| {
        let program = match package.get("bin")? {
            Value::String(program) => program.clone(),
            programs => programs.get("jco")?.as_str()?.to_owned(),
        };
        Some(folder.join(program))
    });
    program.filter(|program| program.is_file()).ok_or_else(|| {
        tool::missing(
            "jco, which makes components of JavaScript, isn't installed in this project",
            "run `npm install` in it; package.json has to name @bytecodealliance/jco",
        )
    })
}

/// The file that `main` in `package.json` names; `src/plugin.js` if it names none.
fn entry(root: &Path) -> Result<PathBuf, CliError> {
    let package = read(&root.join("package.json"))
        .ok_or_else(|| project::wrong("package.json isn't JSON\n  fix correct it".to_owned()))?;
    let main = package.get("main").and_then(Value::as_str).unwrap_or("src/plugin.js");
    let path = root.join(main);
    if path.is_file() {
        return Ok(path);
    }
    Err(project::wrong(format!("there is no {main}\n  fix correct `main` in package.json")))
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}
