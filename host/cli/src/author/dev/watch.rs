//! Which saves lead to a build.
//!
//! A build writes into the project too (`target/`, the component, lock files). Two rules keep that from building for ever: what
//! builds are known to write isn't looked at, and a round begins only when the content of some other file differs from what
//! was built last.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};

/// Folders that builds and tools fill.
const FOLDERS: [&str; 5] = ["target", "node_modules", "__pycache__", "dist", "build"];
/// Endings of files that builds and editors write.
const ENDINGS: [&str; 8] = ["wasm", "part", "raw", "pyc", "swp", "swx", "tmp", "orig"];
/// Files that the languages' own tools write.
const FILES: [&str; 2] = ["Cargo.lock", "package-lock.json"];
/// Between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Largest file that counts as a source, in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Most files that are looked at.
const FILES_MAX: usize = 10_000;

/// Whether a name inside a project can be a source.
fn is_source(name: &str) -> bool {
    let hidden = name.starts_with('.') || name.starts_with('#') || name.ends_with('~');
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    // Vim tries whether it can write with a file of this name.
    !hidden && name != "4913" && !FILES.contains(&name) && !ENDINGS.contains(&ending)
}

/// Files that builds were seen to write, though nothing says that they would.
#[derive(Debug, Default)]
pub(super) struct Written {
    once: BTreeSet<String>,
    left_out: BTreeSet<String>,
}

impl Written {
    /// Takes in what changed during a build. What changed during two in a row isn't watched any more, and is answered; a
    /// single time may have been a person.
    pub(super) fn learn(&mut self, before: &Snapshot, after: &Snapshot) -> Vec<String> {
        let changed: BTreeSet<String> = after
            .0
            .iter()
            .filter(|(path, digest)| before.0.get(*path) != Some(digest))
            .map(|(path, _)| path.clone())
            .collect();
        let again: Vec<String> = changed.intersection(&self.once).cloned().collect();
        self.left_out.extend(again.iter().cloned());
        self.once = changed;
        again
    }
}

/// The sources of a project by their content.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot(BTreeMap<String, [u8; 32]>);

impl Snapshot {
    /// As they are now. What can't be read is left out: the build will say so.
    pub(super) fn of(root: &Path, written: &Written) -> Self {
        let mut files = BTreeMap::new();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
                if !is_source(&name) || (kind.is_dir() && FOLDERS.contains(&name.as_str())) {
                    continue;
                }
                let below = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                let small = entry.metadata().is_ok_and(|found| found.len() <= FILE_BYTES_MAX);
                if kind.is_dir() {
                    folders.push(path);
                } else if small
                    && files.len() < FILES_MAX
                    && !written.left_out.contains(&below)
                    && let Ok(bytes) = std::fs::read(&path)
                {
                    files.insert(below, Sha256::digest(&bytes).into());
                }
            }
        }
        Self(files)
    }
}

/// Waits until the sources differ from what was built, and stand still.
///
/// It looks again and again rather than asking the system for word: that works on every file system, and a project's sources
/// are few.
pub(super) async fn changed(root: &Path, written: &Written, built: &Snapshot) {
    let mut seen = Snapshot::of(root, written);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = Snapshot::of(root, written);
        // A save of several files is one change.
        if now == seen && now != *built {
            return;
        }
        seen = now;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_builds_write_is_no_change() {
        let project = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = project.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let written = Written::default();
        write("src/lib.rs", "1");
        let before = Snapshot::of(project.path(), &written);
        for path in [
            "target/release/x.d",
            "node_modules/a/index.js",
            ".venv/bin/python",
            "src/__pycache__/a.pyc",
            "my.wasm",
            "my.wasm.part",
            "Cargo.lock",
            "src/.lib.rs.swp",
            "src/lib.rs~",
        ] {
            write(path, "x");
            assert_eq!(Snapshot::of(project.path(), &written), before, "{path}");
        }
        // The same content is no change either.
        write("src/lib.rs", "1");
        assert_eq!(Snapshot::of(project.path(), &written), before);
        for path in ["src/lib.rs", "src/new.rs", "waybill-plugin.toml", "tests/case.toml"] {
            let before = Snapshot::of(project.path(), &written);
            write(path, "2");
            assert_ne!(Snapshot::of(project.path(), &written), before, "{path}");
        }
    }

    #[test]
    fn a_file_that_two_builds_wrote_is_not_watched_any_more() {
        let project = tempfile::tempdir().unwrap();
        let mut written = Written::default();
        let file = project.path().join("generated.rs");
        for (content, learnt) in [("1", 0), ("2", 1), ("3", 0)] {
            let before = Snapshot::of(project.path(), &written);
            std::fs::write(&file, content).unwrap();
            let after = Snapshot::of(project.path(), &written);
            assert_eq!(written.learn(&before, &after).len(), learnt, "{content}");
        }
    }
}
