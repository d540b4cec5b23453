//! A plugin's project: its folder, its language and its manifest.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use waybill_core::code::Code;
use waybill_sandbox::Manifest;

use crate::exit::{CliError, Exit};

/// What a plugin is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Small and fast components
    Rust,
    /// QuickJS inside, 1.6 MB
    Js,
    /// CPython inside, 19 MB
    Python,
}

impl Language {
    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Js => "js",
            Self::Python => "python",
        }
    }
}

/// The manifest's file name.
pub(crate) const MANIFEST: &str = "waybill-plugin.toml";

/// What tells a project's language.
const MARKS: [(&str, Language); 3] =
    [("Cargo.toml", Language::Rust), ("package.json", Language::Js), ("src/plugin.py", Language::Python)];

#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// Its folder, absolute: the tools of JavaScript and Python take no relative paths.
    pub(crate) root: PathBuf,
    /// The manifest as it goes into the component.
    pub(crate) manifest_bytes: Vec<u8>,
    pub(crate) manifest: Manifest,
    /// The world as the manifest writes it, `-basic` included.
    pub(crate) world: String,
}

impl Project {
    /// Reads the project in a folder.
    pub(crate) fn open(folder: &Path) -> Result<Self, CliError> {
        let root = folder.canonicalize().map_err(CliError::io(format!("opening {}", folder.display())))?;
        let path = root.join(MANIFEST);
        let manifest_bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(wrong(format!(
                    "{} holds no {MANIFEST}\n  fix name a plugin's folder, or make one with `waybill plugin new`",
                    folder.display()
                )));
            }
            Err(cause) => return Err(CliError::io(format!("reading {}", path.display()))(cause)),
        };
        let manifest = Manifest::parse(&manifest_bytes).map_err(|error| CliError::Host {
            code: error.code(),
            what: format!("{}: {error}", path.display()),
            exit: Exit::Usage,
        })?;
        let world = world_as_written(&manifest_bytes).unwrap_or_else(|| manifest.world.to_string());
        Ok(Self { root, manifest_bytes, manifest, world })
    }

    /// What it is written in, for the tools that build it.
    pub(crate) fn language(&self) -> Result<Language, CliError> {
        language(&self.root)
    }

    /// Where its component goes.
    pub(crate) fn component(&self) -> PathBuf {
        self.root.join(format!("{}.wasm", self.manifest.name))
    }
}

fn world_as_written(manifest: &[u8]) -> Option<String> {
    let table: toml::Table = std::str::from_utf8(manifest).ok()?.parse().ok()?;
    table.get("world")?.as_str().map(str::to_owned)
}

fn language(root: &Path) -> Result<Language, CliError> {
    let found: Vec<_> = MARKS.iter().filter(|(mark, _)| root.join(mark).is_file()).collect();
    match found.as_slice() {
        [(_, language)] => Ok(*language),
        [] => Err(wrong(format!(
            "can't tell what {} is written in\n  fix it needs one of Cargo.toml (Rust), package.json (JavaScript) or src/plugin.py (Python); what another toolchain built is taken with `waybill plugin build --from FILE.wasm`",
            root.display()
        ))),
        several => {
            let marks: Vec<&str> = several.iter().map(|(mark, _)| *mark).collect();
            Err(wrong(format!(
                "can't tell what {} is written in: it has {}\n  fix keep one of them",
                root.display(),
                marks.join(" and ")
            )))
        }
    }
}

/// A folder that isn't a project that can be built.
pub(crate) fn wrong(what: String) -> CliError {
    CliError::Host { code: Code::PLUGIN_PROJECT, what, exit: Exit::Usage }
}
