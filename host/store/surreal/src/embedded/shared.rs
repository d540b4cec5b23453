//! The open database: closed and opened again while it is used, when its log asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, watch};
use tokio::time::{sleep, timeout};

use super::log::Log;
use super::open::{close, open_recovered};
use super::{EmbeddedOptions, Opened};
use crate::{Fault, WhileClosed};

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
    /// Somebody is about to open the database again.
    refreshing: AtomicBool,
    ended: AtomicBool,
}

impl Core {
    pub(super) async fn open(options: EmbeddedOptions) -> Result<Self, Fault> {
        let log = Log::of(&options);
        let opened = open_recovered(&options, log.as_ref(), options.memtable_bytes / 2).await?;
        let open = Arc::new(RwLock::new(Some(opened)));
        let (broken, turns) = (watch::Sender::new(None), watch::Sender::new(0));
        let (refreshing, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { options, log, open, broken, turns, refreshing, ended })
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

    /// Takes note of a failed commit. Of one that failed for reasons of its own the database knows nothing; after any other
    /// fault what is in the log is not what is in memory: SurrealKV (0.21.4) writes the rest of a record that a full disk
    /// cut off when there is room again, and so commits what it said had failed, or writes the next record into its middle.
    /// It also stops for good when a buffer could not be written into a table. So nothing is read or written any more until
    /// there is room; then the database is closed, which writes what was committed into tables, and opened again.
    pub(super) fn note(self: &Arc<Self>, fault: &Fault) {
        if self.log.is_some()
            && !matches!(fault, Fault::Conflict(_) | Fault::Exists(_) | Fault::Statement(_) | Fault::TooLarge)
        {
            if let Some(log) = &self.log {
                log.distrust();
            }
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
            tracing::warn!(%fault, "the embedded database is opened again as soon as it can be");
            tokio::spawn(Arc::clone(self).keep_repairing());
        }
    }

    /// Nobody else opens it again: a repair that panics begins anew.
    async fn keep_repairing(self: Arc<Self>) {
        while tokio::spawn(Arc::clone(&self).repair()).await.is_err_and(|ended| ended.is_panic()) {
            tracing::error!("opening the embedded database again panicked and is tried again");
            sleep(REPAIR_PAUSE).await;
        }
    }

    fn is_broken(&self) -> bool {
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

    /// Sees to it that the database is opened again when its write buffer is full: whoever commits meanwhile still has room
    /// ([`super::gate`]), and nobody waits for it who has committed. Closing writes all buffers into tables.
    pub(super) fn after_commit(self: &Arc<Self>, held: &Held) {
        let is_full = held.commits.as_ref().is_some_and(|gate| gate.is_full());
        if is_full && !self.refreshing.swap(true, Ordering::AcqRel) {
            tokio::spawn(Arc::clone(self).refresh());
        }
    }

    async fn refresh(self: Arc<Self>) {
        let mut open = self.alone().await;
        self.refreshing.store(false, Ordering::Release);
        let is_full = open.as_ref().and_then(|opened| opened.commits.as_ref()).is_some_and(|gate| gate.is_full());
        // A repair may have been here first.
        if !is_full || self.ended.load(Ordering::Acquire) {
            return;
        }
        let began = Instant::now();
        if let Err(fault) = self.reopen(&mut open).await {
            // While it is closed for all others: they hear why.
            self.broke(&fault);
        } else {
            tracing::debug!(took = ?began.elapsed(), "the write buffer was full: the embedded database was opened again");
        }
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
            log.repair()?;
        }
        // Nothing is appended to what a close has left: a sync that failed may have left pages of it that no later one writes.
        *open = Some(open_recovered(&self.options, self.log.as_ref(), 0).await?);
        self.broken.send_replace(None);
        Ok(())
    }

    /// Does this between closing and opening again, with all that was committed in tables.
    pub(super) async fn while_closed(self: &Arc<Self>, work: WhileClosed) -> Result<(), Fault> {
        let Some(log) = &self.log else {
            return Err(Fault::Other("a database in memory is never closed and opened again".to_owned()));
        };
        let mut open = self.alone().await;
        if self.ended.load(Ordering::Acquire) {
            return Err(closed());
        }
        // Whoever repairs it opens it next.
        let broken = self.broken.borrow().clone();
        if let Some(fault) = broken {
            return Err(fault);
        }
        let Some(old) = open.take() else { return Err(closed()) };
        let began = Instant::now();
        let done = worked(old, log, work).await;
        match self.reopen(&mut open).await {
            Ok(()) => {
                tracing::debug!(took = ?began.elapsed(), "the embedded database was opened again, as was asked for")
            }
            // While it is closed for all others: they hear why.
            Err(fault) => self.broke(&fault),
        }
        done
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

/// Closes it, and does this if nothing is left in its log.
async fn worked(old: Opened, log: &Log, work: WhileClosed) -> Result<(), Fault> {
    close(old, Some(log)).await?;
    let left = log.bytes().map_err(|error| log.refuse(&error))?;
    if left > 0 {
        let cause = format!("{left} bytes of log could not be written into tables; is there room for twice as much?");
        return Err(Fault::DiskFull(cause));
    }
    let directory = log.directory().to_owned();
    match tokio::task::spawn_blocking(move || work(directory.as_path())).await {
        Ok(done) => done.map_err(|error| log.refuse(&error)),
        Err(ended) => Err(Fault::Unavailable(format!("what was to be done while it is closed was cut off: {ended}"))),
    }
}

fn closed() -> Fault {
    Fault::Unavailable("the embedded database is closed".into())
}
