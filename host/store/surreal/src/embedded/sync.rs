//! One sync of the log for all commits that wait for it.
//!
//! In place of SurrealDB's own: that one tells the commits of a failed sync that it failed, and syncs on for those behind them. The
//! operating system reports a failure once, so theirs succeeds, and they are acknowledged although what lies before them in the log
//! may not be on the disk.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::Fault;

type Waiting = oneshot::Sender<Result<(), Fault>>;

/// A thread that syncs a file for whoever waits.
pub(super) struct GroupSync {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Known before anybody of the sync that failed is answered. None after it succeeds.
    failed: OnceLock<Fault>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    ended: bool,
}

impl GroupSync {
    /// Of this file. It ends when it is dropped and everybody was answered.
    pub(super) fn start(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("log-sync".into()).spawn(move || theirs.run(&file))?;
        Ok(Self { shared })
    }

    /// Why no sync can succeed any more.
    pub(super) fn failed(&self) -> Option<Fault> {
        self.shared.failed.get().cloned()
    }

    /// Returns when what was written before the call is on the disk.
    pub(super) async fn wait(&self) -> Result<(), Fault> {
        let (answer, answered) = oneshot::channel();
        self.shared.queue.lock().waiting.push(answer);
        self.shared.wake.notify_one();
        answered.await.unwrap_or_else(|_| Err(Fault::Unknown("the log's sync has ended".into())))
    }
}

impl Shared {
    fn run(&self, file: &File) {
        while let Some(waiting) = self.next() {
            let result = match self.failed.get() {
                Some(fault) => Err(fault.clone()),
                None => file.sync_data().map_err(|error| {
                    let fault = Fault::Unknown(format!("the log could not be synced: {error}"));
                    self.failed.get_or_init(|| fault).clone()
                }),
            };
            for one in waiting {
                // Whoever went away doesn't want to know.
                let _ = one.send(result.clone());
            }
        }
    }

    fn next(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.queue.lock();
        while queue.waiting.is_empty() {
            if queue.ended {
                return None;
            }
            self.wake.wait(&mut queue);
        }
        Some(std::mem::take(&mut queue.waiting))
    }
}

impl Drop for GroupSync {
    fn drop(&mut self) {
        self.shared.queue.lock().ended = true;
        self.shared.wake.notify_one();
    }
}
