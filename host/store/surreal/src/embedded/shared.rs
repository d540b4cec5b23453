//! The open database: closed and opened again while it is used, when its log asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, watch};
use tokio::time::{sleep, timeout};

use super::log::Log;
use super::open::{close, open_recovered};
use super::{EmbeddedOptions, Opened};
use crate::Fault;

/// How long a reopening waits for transactions to end before those that are still open have to give way. Others may begin then: a
/// transaction may wait for one that begins after it.
const ALONE_WAIT: Duration = Duration::from_secs(1);
/// How long a transaction waits for a repair before it is told why there is one.
const REPAIR_WAIT: Duration = Duration::from_millis(500);
/// Between two attempts to repair.
const REPAIR_PAUSE: Duration = Duration::from_millis(250);
/// How long closing for good waits for what is running.
const END_WAIT: Duration = Duration::from_secs(10);

/// Keeps the database open while a transaction lasts.
pub(super) type Held = OwnedRwLockReadGuard<Option<Opened>, Opened>;

/// What the transactions of a database share.
pub(super) struct Core {
    options: EmbeddedOptions,
    /// The log of a database on disk.
    log: Option<Log>,
    /// Every transaction holds it for reading from its beginning to its end; none = closed.
    open: Arc<RwLock<Option<Opened>>>,
    /// Why nothing may be read or written before the database was opened again.
    broken: watch::Sender<Option<Fault>>,
    /// Counts the times that open transactions had to give way to a reopening.
    turns: watch::Sender<u64>,
    /// Closed for good.
    ended: AtomicBool,
}

impl Core {
    pub(super) async fn open(options: EmbeddedOptions) -> Result<Self, Fault> {
        let log = Log::of(&options);
        let opened = open_recovered(&options, log.as_ref()).await?;
        let open = Arc::new(RwLock::new(Some(opened)));
        let (broken, turns) = (watch::Sender::new(None), watch::Sender::new(0));
        Ok(Self { options, log, open, broken, turns, ended: AtomicBool::new(false) })
    }

    /// The open database, for as long as the answer is kept.
    pub(super) async fn hold(self: &Arc<Self>) -> Result<Held, Fault> {
        loop {
            let mut broken = self.broken.subscribe();
            if timeout(REPAIR_WAIT, broken.wait_for(Option::is_none)).await.is_err() {
                return Err(broken.borrow().clone().unwrap_or_else(closed));
            }
            let Ok(guard) = timeout(REPAIR_WAIT, Arc::clone(&self.open).read_owned()).await else { continue };
            if self.ended.load(Ordering::Acquire) {
                return Err(closed());
            }
            if self.is_broken() {
                continue;
            }
            match OwnedRwLockReadGuard::try_map(guard, Option::as_ref) {
                Ok(held) => return Ok(held),
                Err(guard) => drop(guard),
            }
            self.broke(&Fault::Unavailable("the embedded database is being opened again".into()));
        }
    }

    /// Newest segment of the log; compare it before and after a commit.
    pub(super) fn newest_segment(&self) -> Option<u64> {
        self.log.as_ref().and_then(Log::newest)
    }

    /// Takes note of a failed commit. Of one that failed for reasons of its own the database knows nothing; after any other
    /// fault what is in the log is not what is in memory: SurrealKV (0.21.4) writes the rest of a record that a full disk
    /// cut off when there is room again, and so commits what it said had failed, or writes the next record into its middle.
    /// It also stops for good when a buffer could not be written into a table. So nothing is read or written any more until
    /// there is room; then the database is closed, which writes what was committed into tables, and opened again.
    pub(super) fn note(self: &Arc<Self>, fault: &Fault) {
        if self.log.is_some() && !matches!(fault, Fault::Conflict(_) | Fault::Exists(_) | Fault::Statement(_)) {
            self.broke(fault);
        }
    }

    /// Stops everything until the database has been opened again.
    fn broke(self: &Arc<Self>, fault: &Fault) {
        let first = self.broken.send_if_modified(|broken| {
            let first = broken.is_none();
            broken.get_or_insert_with(|| fault.clone());
            first
        });
        if first {
            if let Some(log) = &self.log {
                log.doubt();
            }
            tracing::warn!(%fault, "a commit failed: the embedded database is opened again as soon as it can be");
            tokio::spawn(Arc::clone(self).repair());
        }
    }

    /// Whether a commit that succeeded just now may not be believed.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.borrow().is_some()
    }

    async fn repair(self: Arc<Self>) {
        while !self.ended.load(Ordering::Acquire) {
            let is_full = matches!(&*self.broken.borrow(), Some(Fault::DiskFull(_)));
            if !is_full || self.log.as_ref().is_none_or(|log| log.has_room(self.options.memtable_bytes)) {
                let mut open = self.alone().await;
                if self.ended.load(Ordering::Acquire) {
                    return;
                }
                match self.reopen(&mut open).await {
                    Ok(()) => {
                        tracing::info!("the embedded database is open again");
                        return;
                    }
                    Err(fault) => {
                        tracing::warn!(%fault, "the embedded database can't be opened again yet");
                        self.broken.send_replace(Some(fault));
                    }
                }
            }
            sleep(REPAIR_PAUSE).await;
        }
    }

    /// Makes commits durable that may lie between two segments of the log.
    ///
    /// SurrealKV (0.21.4) appends a commit to the log and then puts it into the write buffer. When the buffer is full, log and
    /// buffer are rotated between the two: the commit lies in the new buffer and in the old segment, which is deleted with the
    /// old buffer. Killed before the new buffer is in a table, an acknowledged commit would be gone; the kill -9 harness found
    /// it. So whoever commits while a segment begins closes the database, which writes all buffers into tables, and opens it
    /// again, before the commit is acknowledged. That is once for every full buffer, and takes some tens of milliseconds.
    /// An error says nothing of the commit: it went in.
    pub(super) async fn make_safe(self: &Arc<Self>, seen: Option<u64>) -> Result<(), Fault> {
        let mut open = self.alone().await;
        // Another commit of the same rotation was here first.
        if self.log.as_ref().is_some_and(|log| log.is_safe_past(seen)) {
            return Ok(());
        }
        if self.ended.load(Ordering::Acquire) {
            return Err(closed());
        }
        let reopened = self.reopen(&mut open).await;
        drop(open);
        if let Err(fault) = reopened {
            self.broke(&fault);
            return Err(Fault::Unknown(fault.to_string()));
        }
        if let Some(log) = &self.log {
            log.made_safe(seen);
        }
        Ok(())
    }

    /// What a transaction watches while it works: once it changed, the transaction has to end.
    pub(super) fn turn(&self) -> watch::Receiver<u64> {
        self.turns.subscribe()
    }

    /// Waits until no transaction is open.
    async fn alone(&self) -> OwnedRwLockWriteGuard<Option<Opened>> {
        loop {
            if let Ok(open) = timeout(ALONE_WAIT, Arc::clone(&self.open).write_owned()).await {
                return open;
            }
            self.turns.send_modify(|turn| *turn += 1);
        }
    }

    async fn reopen(&self, open: &mut Option<Opened>) -> Result<(), Fault> {
        match (open.take(), &self.log) {
            (Some(old), log) => close(old, log.as_ref()).await?,
            // An opening that failed may still be on its way out.
            (None, Some(log)) => log.released().await?,
            (None, None) => {}
        }
        if let Some(log) = &self.log {
            log.mend()?;
        }
        *open = Some(open_recovered(&self.options, self.log.as_ref()).await?);
        self.broken.send_replace(None);
        Ok(())
    }

    pub(super) async fn end(&self) -> Result<(), Fault> {
        self.ended.store(true, Ordering::Release);
        let Ok(mut open) = timeout(END_WAIT, Arc::clone(&self.open).write_owned()).await else {
            return Err(Fault::Unavailable("the embedded database is still busy; it is as after a crash".into()));
        };
        match open.take() {
            Some(opened) => close(opened, self.log.as_ref()).await,
            None => Ok(()),
        }
    }
}

fn closed() -> Fault {
    Fault::Unavailable("the embedded database is closed".into())
}
