//! What a component was made of, beside it: whoever builds it again of the same gets it as it is.
//!
//! Only for tools that begin at the beginning each time. Cargo knows by itself what has changed.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use waybill_sandbox::{Inspection, inspect};

use crate::author::project::Project;
use crate::term::Term;

/// Folders that tools fill: what is in them is told by the tool's version.
const FOLDERS: [&str; 2] = ["node_modules", "__pycache__"];
/// Endings of what a build writes, after the name of the component's file.
const DRAFTS: [&str; 3] = ["", ".part", ".raw"];
/// A project with more files, larger ones or deeper folders is built each time: looking through it would cost as much.
const FILES_MAX: usize = 10_000;
const BYTES_MAX: u64 = 64 * 1024 * 1024;
const DEPTH_MAX: usize = 32;

/// Everything that a component is made of, in one number, and where that is written down.
pub(super) struct Stamp {
    file: PathBuf,
    inputs: String,
}

impl Stamp {
    /// Of a project as it is now, for the component in a file. None: it can't be told.
    pub(super) fn of(project: &Project, tool: &str, component: &Path) -> Option<Self> {
        let name = component.file_name()?;
        let folder = component.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // As the walk comes to it.
        let place = folder.canonicalize().ok()?.join(name);
        let mut walk = Walk { outputs: outputs([project.component(), place]), files: Vec::new(), bytes: 0 };
        walk.folder(&project.root, 0).ok()?;
        walk.files.sort();
        let mut hasher = Sha256::new();
        let mut add = |text: &[u8]| {
            // With its length, so that two texts never look like two others.
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        };
        for text in [env!("CARGO_PKG_VERSION"), &project.world, tool] {
            add(text.as_bytes());
        }
        for path in &walk.files {
            add(path.strip_prefix(&project.root).ok()?.as_os_str().as_encoded_bytes());
            add(&std::fs::read(path).ok()?);
        }
        let inputs = format!("{:x}", hasher.finalize());
        let file = component.with_file_name(format!(".{}.built", name.to_string_lossy()));
        Some(Self { file, inputs })
    }

    /// The component, if it was made of just this and nobody altered it since.
    pub(super) fn unchanged(&self, component: &Path) -> Option<Inspection> {
        let text = std::fs::read_to_string(&self.file).ok()?;
        let (inputs, digest) = text.trim_end().split_once(' ')?;
        if inputs != self.inputs {
            return None;
        }
        let inspection = inspect(&std::fs::read(component).ok()?).ok()?;
        (inspection.digest == digest).then_some(inspection)
    }

    /// Writes it down, when the component is in its place.
    pub(super) fn keep(&self, digest: &str, term: &mut Term) {
        if let Err(error) = std::fs::write(&self.file, format!("{} {digest}\n", self.inputs)) {
            term.say(&format!(
                "warning: the next build will not know of this one: writing {}: {error}",
                self.file.display()
            ));
        }
    }
}

/// What a build writes for these components.
fn outputs(components: [PathBuf; 2]) -> Vec<PathBuf> {
    let drafts = |component: PathBuf| {
        DRAFTS.map(|ending| {
            let mut path = component.clone().into_os_string();
            path.push(ending);
            PathBuf::from(path)
        })
    };
    components.into_iter().flat_map(drafts).collect()
}

/// A look through a project's files.
struct Walk {
    outputs: Vec<PathBuf>,
    files: Vec<PathBuf>,
    bytes: u64,
}

impl Walk {
    fn folder(&mut self, folder: &Path, depth: usize) -> std::io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            let name = name.to_string_lossy();
            if name.starts_with('.') || FOLDERS.contains(&name.as_ref()) || self.outputs.contains(&path) {
                continue;
            }
            // What a link leads to: contracts are often linked to.
            let found = std::fs::metadata(&path)?;
            if found.is_dir() && depth < DEPTH_MAX {
                self.folder(&path, depth + 1)?;
                continue;
            }
            self.bytes = self.bytes.saturating_add(found.len());
            self.files.push(path);
            // A pipe or a device has no end.
            if !found.is_file() || self.files.len() > FILES_MAX || self.bytes > BYTES_MAX {
                return Err(std::io::ErrorKind::FileTooLarge.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MANIFEST: &str = "name = \"mine\"\nversion = \"0.1.0\"\nworld = \"transport\"\ncontract = \"0.1.0\"\ndescription = \"A test.\"\n";

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn project() -> (tempfile::TempDir, Project) {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "waybill-plugin.toml", MANIFEST);
        write(folder.path(), "src/plugin.py", "1");
        let project = Project::open(folder.path()).unwrap();
        (folder, project)
    }

    fn inputs(project: &Project, tool: &str) -> String {
        Stamp::of(project, tool, &project.component()).unwrap().inputs
    }

    #[test]
    fn every_source_and_the_tool_count_and_what_a_build_writes_does_not() {
        let (folder, project) = project();
        let before = inputs(&project, "tool 1");
        for path in [
            "mine.wasm",
            "mine.wasm.part",
            "mine.wasm.raw",
            ".mine.wasm.built",
            ".venv/bin/python",
            "src/__pycache__/plugin.pyc",
            "node_modules/a/index.js",
        ] {
            write(folder.path(), path, "x");
            assert_eq!(inputs(&project, "tool 1"), before, "{path}");
        }
        assert_ne!(inputs(&project, "tool 2"), before);
        for path in ["src/plugin.py", "src/new.py", "wit/deps/new.wit", "waybill-plugin.toml", "other.wasm"] {
            let before = inputs(&project, "tool 1");
            write(folder.path(), path, "2");
            assert_ne!(inputs(&project, "tool 1"), before, "{path}");
        }
        // What stands in one file is not what stands in another.
        write(folder.path(), "a", "bc");
        let before = inputs(&project, "tool 1");
        std::fs::remove_file(folder.path().join("a")).unwrap();
        write(folder.path(), "ab", "c");
        assert_ne!(inputs(&project, "tool 1"), before);
    }

    #[cfg(unix)]
    #[test]
    fn what_a_link_leads_to_counts_and_a_circle_is_never_unchanged() {
        let (folder, project) = project();
        let contract = tempfile::tempdir().unwrap();
        write(contract.path(), "a.wit", "1");
        std::os::unix::fs::symlink(contract.path(), folder.path().join("wit")).unwrap();
        let before = inputs(&project, "tool");
        write(contract.path(), "a.wit", "2");
        assert_ne!(inputs(&project, "tool"), before);
        std::os::unix::fs::symlink(folder.path(), folder.path().join("src/round")).unwrap();
        assert!(Stamp::of(&project, "tool", &project.component()).is_none());
    }

    #[test]
    fn a_component_that_somebody_altered_or_that_is_gone_is_made_again() {
        let (_folder, project) = project();
        let (component, file) = (waybill_bundled::find("noop").unwrap().component, project.component());
        std::fs::write(&file, component).unwrap();
        let stamp = Stamp::of(&project, "tool", &file).unwrap();
        assert!(stamp.unchanged(&file).is_none(), "nothing is written down yet");
        let digest = inspect(component).unwrap().digest;
        std::fs::write(&stamp.file, format!("{} {digest}\n", stamp.inputs)).unwrap();
        assert_eq!(stamp.unchanged(&file).unwrap().digest, digest);
        assert!(Stamp::of(&project, "another", &file).unwrap().unchanged(&file).is_none());
        std::fs::write(&file, waybill_bundled::find("http").unwrap().component).unwrap();
        assert!(stamp.unchanged(&file).is_none());
        std::fs::remove_file(&file).unwrap();
        assert!(stamp.unchanged(&file).is_none());
    }
}
