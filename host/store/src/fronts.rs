//! Where purges go on. What a purge removed leaves marks at the front of its table until the database compacts them, and reading
//! over 100,000 of them takes 30 ms: so each purge begins where the one before ended. Now and then it begins at the front again:
//! what was written with an end that had passed already, by a host whose clock is behind say, is over all the same and only
//! waits to be removed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Row, Transaction, key};

use crate::fault::store_error;
use crate::tables::{number, part};

/// A purge begins at the front of its table this often.
const ANEW_EVERY: Duration = Duration::from_secs(3600);

/// Up to which instant a purge removed everything; none = it found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached(Option<UnixMillis>);

impl Reached {
    /// After these rows, whose keys begin with their instants, were removed.
    pub fn of(rows: &[Row]) -> Self {
        Self(rows.last().and_then(|row| part(&row.key, 0)).map(UnixMillis))
    }

    /// Up to this instant.
    pub fn at(instant: UnixMillis) -> Self {
        Self(Some(instant))
    }
}

#[derive(Debug, Default)]
pub struct PurgeFronts(Mutex<BTreeMap<&'static str, (UnixMillis, Instant)>>);

impl PurgeFronts {
    /// Where a purge of a table begins.
    pub fn begin(&self, table: &'static str) -> UnixMillis {
        let front = self.0.lock().ok().and_then(|fronts| fronts.get(table).copied());
        front.filter(|(_, since)| since.elapsed() < ANEW_EVERY).map_or(UnixMillis(0), |(from, _)| from)
    }

    /// Says how far a purge came whose commit went in.
    pub fn reached(&self, table: &'static str, reached: Reached) {
        if let (Some(from), Ok(mut fronts)) = (reached.0, self.0.lock()) {
            let since = fronts.get(table).map(|(_, since)| *since).filter(|since| since.elapsed() < ANEW_EVERY);
            fronts.insert(table, (from, since.unwrap_or_else(Instant::now)));
        }
    }

    /// Rows whose instants have come, from where the last purge ended.
    pub async fn scan(
        &self,
        transaction: &dyn Transaction,
        table: &'static str,
        now: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let from = Bound::Included(key([number(self.begin(table).min(now).0)]));
        let until = Bound::Excluded(key([number(now.0.saturating_add(1))]));
        transaction.scan(table, from, until, limit).await.map_err(store_error)
    }
}

/// Up to which number each shard's records were removed, of a table whose keys are a shard and a number that only grows.
#[derive(Debug, Default)]
pub struct ShardFronts(Mutex<HashMap<ShardId, u64>>);

impl ShardFronts {
    fn lock(&self) -> MutexGuard<'_, HashMap<ShardId, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a purge of a shard begins.
    pub fn begin(&self, shard: ShardId) -> u64 {
        self.lock().get(&shard).copied().unwrap_or(0)
    }

    /// Everything before this number was removed, by a commit that went in.
    pub fn reached(&self, shard: ShardId, number: u64) {
        self.lock().insert(shard, number);
    }

    /// A record was put back: it may lie before them.
    pub fn begin_anew(&self) {
        self.lock().clear();
    }
}
