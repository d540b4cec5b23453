//! One table: what its workers share, opening and closing.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use waybill_core::inbox::direct::{DirectConfig, DirectRecord, DirectTable, WorkerId};
use waybill_core::port::direct_store::DirectStore;
use waybill_core::port::store::StoreError;
use waybill_core::port::table::ClaimId;
use waybill_core::port::transport::Fault;
use waybill_core::time::Monotonic;

use super::config::TableConfig;
use super::meter::TableMeter;
use super::record::Record;
use super::sightings::Sightings;
use super::view::Counts;
use super::worker;
use crate::engine::CLOSE_TIMEOUT;
use crate::inbox::Seats;
use crate::shard::Context;

/// Time for a claim, or for marks and COMMIT: as long as the database gives a statement, and a while longer.
pub(super) const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(40);
/// Rows of a transport that an operator paused are looked at again after this time.
pub(super) const PAUSED_HOLD: Duration = Duration::from_secs(1);
/// Pause before the store is asked again for what it knows of a table.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// A table on this host.
pub(crate) struct PublishedTable {
    pub config: Arc<TableConfig>,
    pub(super) context: Arc<Context>,
    pub(super) record: Record,
    /// None until the store has said what it knows of it.
    lane: Mutex<Option<DirectTable>>,
    pub(super) sightings: Mutex<Sightings>,
    /// Claims that workers have open. One whose worker failed is given back when the workers begin anew.
    pub(super) open: Mutex<BTreeMap<WorkerId, (u32, ClaimId)>>,
    /// Rows that are locked.
    pub(super) locked: AtomicU64,
    pub(super) meter: TableMeter,
    /// Why nothing could be claimed or marked lately; none = the last time something could.
    pub(super) trouble: Mutex<Option<Fault>>,
    pub(super) counts: Counts,
    wakes: Notify,
    ending: CancellationToken,
    /// It has ended, in good order or not.
    ended: CancellationToken,
    paused: AtomicBool,
    closed: AtomicBool,
}

impl PublishedTable {
    pub(super) fn new(
        context: &Arc<Context>,
        config: &Arc<TableConfig>,
        store: &Arc<dyn DirectStore>,
        ending: CancellationToken,
    ) -> Arc<Self> {
        let host = &context.config.direct.host;
        Arc::new(Self {
            record: Record::new(store, host, &config.source, context.config.store_timeout),
            meter: TableMeter::new(config.source.as_str()),
            config: Arc::clone(config),
            context: Arc::clone(context),
            lane: Mutex::default(),
            sightings: Mutex::default(),
            open: Mutex::default(),
            locked: AtomicU64::new(0),
            trouble: Mutex::default(),
            counts: Counts::default(),
            wakes: Notify::new(),
            ending,
            ended: CancellationToken::new(),
            paused: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }

    /// The pure lanes, once they are open.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut DirectTable) -> T) -> Option<T> {
        self.lane.lock().as_mut().map(work)
    }

    pub(super) fn now(&self) -> Monotonic {
        self.context.clock.now().mono
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_cancelled()
    }

    /// Has transactions under way marked and committed, begins no others, and closes the table.
    pub(super) fn end(&self) {
        self.ending.cancel();
    }

    pub(super) fn is_of(&self, source: &str) -> bool {
        self.config.source.as_str() == source
    }

    /// In good order or not.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Whether its lanes ended in good order and that is stored.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// While it is paused no transaction begins; those under way end.
    pub fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
        self.wakes.notify_waiters();
    }

    /// Something new may wait: idle workers look at once.
    pub(super) fn wake(&self) {
        self.with(DirectTable::wake);
        self.wakes.notify_waiters();
    }

    /// Waits, until something new is told or the host drains.
    pub(super) async fn rest(&self, pause: Duration) {
        tokio::select! {
            () = sleep(pause) => {}
            () = self.wakes.notified() => {}
            () = self.ending.cancelled() => {}
        }
    }

    /// What the plugin has room for: how many lanes there are. It is told to the pure lanes.
    pub(super) fn adapt(&self) -> u16 {
        let facts = self.config.table.facts();
        let room = facts.instances.saturating_mul(facts.claims_per_instance).max(1);
        let lanes = self.config.lanes.min(u16::try_from(room).unwrap_or(u16::MAX)).max(1);
        let batch = self.config.batch.min(facts.max_batch as usize);
        self.with(|lane| {
            lane.set_facts(batch, facts.keeps_due);
            if lane.config().lanes != lanes {
                lane.set_lanes(lanes);
            }
        });
        lanes
    }

    fn lane_config(&self) -> DirectConfig {
        let live = self.context.live();
        let call_timeout = live.iter().map(|(_, entry)| entry.send_timeout).max();
        let facts = self.config.table.facts();
        DirectConfig {
            lanes: self.config.lanes,
            batch: self.config.batch.min(facts.max_batch as usize).max(1),
            direct_timeout: self.config.direct_timeout,
            call_timeout: call_timeout.unwrap_or(live.config.send_timeout),
            idle_pause: self.config.idle_pause,
            retry: self.config.retry,
            has_due: facts.keeps_due,
            caution: self.context.config.caution,
            ..DirectConfig::default()
        }
    }

    /// Finds out how this host ended last, and notes that it has the table open. False = the host drains before that is known.
    async fn open(&self) -> bool {
        // After a panic the process lives: what it knows is in memory.
        let mut known = self.with(|lane| lane.record().clone());
        while !self.is_ending() {
            let record = match &known {
                Some(record) => Ok(record.clone()),
                None => self.record.read().await.map(DirectRecord::opened),
            };
            let stored = match record {
                Ok(record) => {
                    let noted = self.record.store(|| Some(record.clone())).await;
                    known = Some(record.clone());
                    noted.map(|()| record)
                }
                Err(error) => Err(error),
            };
            match stored {
                Ok(record) => {
                    if record.unclean > 0 {
                        tracing::warn!(source = %self.config.source, times = record.unclean, "the host didn't end in good order: rows are named before they are sent");
                    }
                    *self.lane.lock() = Some(DirectTable::new(self.lane_config(), record, self.now()));
                    return true;
                }
                Err(error) => {
                    tracing::warn!(source = %self.config.source, code = error.code().as_str(), %error, "a table can't be opened yet");
                    self.rest(STORE_PAUSE).await;
                }
            }
        }
        false
    }

    /// What operators paused stays paused: nothing is sent before the store has said whether this table is.
    async fn read_pause(&self) {
        while !self.is_ending() {
            match self.context.stores.transact.paused().await {
                Ok(noted) => {
                    if noted.iter().any(|name| Seats::named_by(name) == Some(self.config.source.as_str())) {
                        self.set_paused(true);
                    }
                    return;
                }
                Err(error) => {
                    tracing::warn!(source = %self.config.source, code = error.code().as_str(), %error, "whether a table is paused can't be read yet");
                    self.rest(STORE_PAUSE).await;
                }
            }
        }
    }

    /// Gives claims back whose workers are gone.
    async fn give_back_all(&self) {
        let open = std::mem::take(&mut *self.open.lock());
        for (_, (instance, claim)) in open {
            self.give_back(instance, claim).await;
        }
        self.locked.store(0, Ordering::Release);
    }

    /// Ends a claim without marks. One that can't be ended is ended by the database, in time.
    pub(super) async fn give_back(&self, instance: u32, claim: ClaimId) {
        if let Err(error) = self.config.table.commit(instance, claim, Vec::new(), TRANSACTION_TIMEOUT).await {
            tracing::debug!(source = %self.config.source, code = error.fault.code, reason = error.fault.reason, "a claim couldn't be given back");
        }
    }

    /// Stores what a crash would be held against, if it has changed.
    pub(super) async fn store_record(&self) -> Result<(), StoreError> {
        self.record.store(|| self.with(|lane| lane.record().clone())).await
    }

    /// The same where it may wait: the next transaction tries again.
    pub(super) async fn keep_record(&self) {
        if let Err(error) = self.store_record().await {
            tracing::debug!(source = %self.config.source, code = error.code().as_str(), %error, "a table's record is stored later");
        }
    }

    /// What it says of itself is stored: what a crash is held against from now on.
    async fn close(&self) {
        self.config.table.close(CLOSE_TIMEOUT).await;
        match self.record.store(|| self.with(|lane| lane.record().clone().closed())).await {
            Ok(()) => self.closed.store(true, Ordering::Release),
            Err(error) => {
                tracing::warn!(source = %self.config.source, code = error.code().as_str(), %error, "a table's end couldn't be noted: the next start is cautious");
            }
        }
    }

    /// Notes why nothing could be claimed or marked.
    pub(super) fn note_trouble(&self, what: &str, fault: &Fault) {
        let mut trouble = self.trouble.lock();
        if trouble.as_ref().is_none_or(|before| before.code != fault.code) {
            tracing::warn!(source = %self.config.source, code = fault.code, reason = fault.reason, "{what}");
        }
        *trouble = Some(fault.clone());
    }

    pub(super) fn note_well(&self) {
        *self.trouble.lock() = None;
    }
}

/// The task of a table that takes another one's place: nothing of it begins before that one has ended.
pub(super) async fn run_after(earlier: Option<Arc<PublishedTable>>, table: Arc<PublishedTable>) {
    if let Some(earlier) = earlier {
        earlier.ended.cancelled().await;
    }
    run(table).await;
}

/// A table's task: opens it, runs its workers until the host drains, and closes it. A worker's panic is this task's.
async fn run(table: Arc<PublishedTable>) {
    table.give_back_all().await;
    if table.open().await {
        table.read_pause().await;
        let mut tasks = JoinSet::new();
        for lane in 0..table.config.lanes.max(1) {
            tasks.spawn(worker::work(Arc::clone(&table), WorkerId(lane)));
        }
        tasks.spawn(listen(Arc::clone(&table)));
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                resume_unwind(error.into_panic());
            }
        }
    }
    table.close().await;
    table.ended.cancel();
}

/// Wakes idle workers when the database notifies.
async fn listen(table: Arc<PublishedTable>) {
    while let Some(told) = table.ending.run_until_cancelled(table.config.table.next_notices()).await {
        if told.notices.waiting {
            table.wake();
        }
    }
}
