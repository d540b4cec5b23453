//! A configuration file that changes.
//!
//! The file is looked at, not listened to: that works on every file system and costs one `stat` a second. Editors write a file
//! in several steps, so it is read when it has been still for a look. What is refused isn't tried again until the file changes, unless it
//! may succeed later.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use super::Reloader;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What was refused and may succeed later is tried again after this: each try is logged and noted in the trail.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Length and time of the last change; none = it isn't there.
type FileStamp = Option<(u64, Option<SystemTime>)>;

/// Reloads whenever the file has changed, until `stop`.
pub async fn watch(file: PathBuf, reloader: Reloader, stop: CancellationToken) {
    let mut seen = stat(&file).await;
    let mut changed: Option<FileStamp> = None;
    let mut pause = LOOK_EVERY;
    while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        let now = stat(&file).await;
        pause = LOOK_EVERY;
        match changed {
            Some(before) if before == now => {
                (seen, changed) = (now, None);
                if reloader.reload_and_log("the file changed").await {
                    // The file may never change again.
                    (changed, pause) = (Some(now), AGAIN_AFTER);
                }
            }
            _ => changed = (now != seen).then_some(now),
        }
    }
}

async fn stat(file: &Path) -> FileStamp {
    let metadata = tokio::fs::metadata(file).await.ok()?;
    Some((metadata.len(), metadata.modified().ok()))
}
