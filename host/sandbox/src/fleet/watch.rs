//! Files that change: looked at by polling, which sees a change on every file system, also where events don't arrive
//! (network mounts, bind mounts of containers). A look is two `stat`s a transport.
//!
//! A file is loaded when it has stood still for one period and its digest isn't the one that was looked at last, so that a
//! build that writes in several steps is loaded once, and a file that is only touched isn't loaded at all. What is refused
//! isn't tried again until the file changes, unless only room for another generation was missing, or word of what running sagas need.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use super::{Fleet, Reload};
use crate::slot::SwapError;
use crate::verify::signature_path;

/// How often files are looked at.
pub const POLL_EVERY: Duration = Duration::from_millis(250);

/// What wasn't known may be known after this: a shard is taken over in about as long.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Time, size and inode of a file and of its signature; none = it isn't there.
type FileStamps = [Option<(SystemTime, u64, u64)>; 2];

/// What is known of one transport's file.
#[derive(Clone, Copy, Debug)]
struct WatchedFile {
    stamps: FileStamps,
    /// The stamps that the last reload was started for.
    handled: FileStamps,
}

impl Fleet {
    /// Watches the files of transports that want it, until `stop`.
    pub async fn watch(&self, stop: CancellationToken) {
        let mut seen: BTreeMap<String, WatchedFile> = BTreeMap::new();
        loop {
            for (name, stamps) in self.poll().await {
                let Some(stamps) = stamps else {
                    seen.remove(&name);
                    continue;
                };
                let Some(known) = seen.get_mut(&name) else {
                    // Looked at once anew: it may have changed since it was loaded.
                    seen.insert(name, WatchedFile { stamps, handled: [None; 2] });
                    continue;
                };
                let stands_still = std::mem::replace(&mut known.stamps, stamps) == stamps;
                if !stands_still || known.handled == stamps || stamps.first().is_none_or(Option::is_none) {
                    continue;
                }
                known.handled = stamps;
                let fleet = self.clone();
                // Beside the watch: one transport's compilation holds up no other's.
                tokio::spawn(async move { fleet.changed(&name).await });
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_EVERY) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn changed(&self, transport: &str) {
        let result = loop {
            match self.reload(transport, Reload::default()).await {
                // The file may never change again, and each try waits for room by itself.
                Err(SwapError::NoRoom { .. }) => {}
                Err(SwapError::NeedsUnknown { .. }) => tokio::time::sleep(AGAIN_AFTER).await,
                other => break other,
            }
        };
        match result {
            Ok(reloaded) => tracing::debug!(%transport, ?reloaded, "the plugin's file has changed"),
            // The slot has said more where it got that far.
            Err(error) => {
                tracing::debug!(%transport, code = error.code().as_str(), %error, "the plugin's file has changed and is refused")
            }
        }
    }

    async fn poll(&self) -> Vec<(String, Option<FileStamps>)> {
        let files: Vec<_> = {
            let entries = self.0.entries.read();
            let file = |entry: &super::Entry| {
                let spec = entry.spec.lock();
                spec.source.path().filter(|_| spec.endpoint.settings.watch).map(Path::to_owned)
            };
            entries.iter().map(|(name, entry)| (name.clone(), file(entry))).collect()
        };
        let stamps = move || files.into_iter().map(|(name, path)| (name, path.map(|path| stamps_of(&path)))).collect();
        tokio::task::spawn_blocking(stamps).await.unwrap_or_default()
    }
}

fn stamps_of(path: &Path) -> FileStamps {
    [stat(path), stat(&signature_path(path))]
}

/// Time, size and identity: a rename over the file changes the last even when nothing else differs.
fn stat(path: &Path) -> Option<(SystemTime, u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), inode(&metadata)))
}

#[cfg(unix)]
fn inode(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> u64 {
    0
}
