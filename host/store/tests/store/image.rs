//! What a process that dies leaves on the disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The only log of a young store.
pub const LOG: &str = "wal/00000000000000000000.wal";

/// The files as a process that dies now would leave them: copied again if tables were merged meanwhile.
pub fn crash_image(from: &Path, to: &Path) {
    for _ in 0..2_000 {
        let before = files(from);
        if copy(from, to).is_ok() && files(from) == before {
            return;
        }
        let _ = fs::remove_dir_all(to);
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} never stood still", from.display());
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy(&path, &to)? } else { fs::copy(path, to).map(drop)? }
    }
    Ok(())
}

/// Every file with its size and the time of its last change.
fn files(folder: &Path) -> Vec<(PathBuf, Option<(u64, SystemTime)>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let about = entry.metadata().and_then(|about| Ok((about.len(), about.modified()?)));
            found.push((path, about.ok()));
        }
    }
    found.sort();
    found
}
