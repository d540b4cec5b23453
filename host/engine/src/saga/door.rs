//! What the inbox left for a shard's sagas: signals, and replies to `bus:` steps. They are read when something may lie there, done like
//! commands, and removed by the commits that hold what came of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use waybill_core::ids::ShardId;
use waybill_core::port::inbox_store::{InboxStore, SagaDoorKey, SagaDoorRow};
use waybill_core::port::store::StoreError;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::shard::stays;

use super::actor::Actor;
use crate::commit::UnderWay;
use crate::shard::Context;

/// Rows read in one go, besides those that are known.
const ROWS_MAX: usize = 1_000;
/// Pause before the door is read again after the store failed, or for a saga that takes nothing now.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The door of one ownership.
pub(super) struct Door {
    /// None: this host has no inbox.
    store: Option<Arc<dyn InboxStore>>,
    reading: UnderWay<Result<Vec<SagaDoorRow>, StoreError>>,
    /// Most rows of the read under way.
    limit: usize,
    /// Rows that were taken in, and may lie there until a commit has removed them.
    taken: BTreeSet<SagaDoorKey>,
    /// Rows that weren't, for their sagas take nothing now: each read tries them again, before what came behind them.
    stays: BTreeSet<SagaDoorKey>,
    /// Something may have come since it was read.
    is_rung: bool,
    /// When it is read although nobody rang.
    look_at: Option<Instant>,
    /// How often others of a shared store may have left something.
    poll: Option<Duration>,
}

impl Door {
    /// A door that hasn't been looked at.
    pub fn new(context: &Context) -> Self {
        Self {
            store: context.config.inbound.store.clone(),
            reading: UnderWay::default(),
            limit: 0,
            taken: BTreeSet::new(),
            stays: BTreeSet::new(),
            is_rung: true,
            look_at: None,
            poll: (!context.config.exclusive).then_some(context.config.poll_interval),
        }
    }

    pub fn ring(&mut self) {
        self.is_rung = true;
    }

    /// When it wants to be looked at, if nobody rings before.
    pub fn look_at(&self) -> Option<Instant> {
        self.look_at.filter(|_| self.store.is_some() && self.reading.is_idle())
    }

    /// Reads it, if something may lie there and no read is under way.
    pub fn read(&mut self, shard: ShardId, limit: Duration) {
        let is_due = self.is_rung || self.look_at.is_some_and(|at| at <= Instant::now());
        let Some(store) = self.store.clone().filter(|_| is_due && self.reading.is_idle()) else { return };
        (self.is_rung, self.look_at) = (false, None);
        self.limit = self.rows_max();
        let rows_max = self.limit;
        self.reading.begin(async move {
            let late = || StoreError::Unavailable("it didn't read the door of sagas in time".to_owned());
            timeout(limit, store.saga_door(shard, rows_max)).await.unwrap_or_else(|_| Err(late()))
        });
    }

    /// Most rows of the next read: what is known lies in front, and mustn't hide what came behind it.
    fn rows_max(&self) -> usize {
        ROWS_MAX + self.taken.len() + self.stays.len()
    }

    /// What the read under way brought; without one it never comes. May be dropped and asked for again.
    pub async fn answer(&mut self) -> Result<Vec<SagaDoorRow>, StoreError> {
        self.reading.answer().await
    }

    /// Rows that weren't taken in, in order. What a read doesn't find any more is gone for good.
    fn fresh(&mut self, rows: Vec<SagaDoorRow>) -> Vec<SagaDoorRow> {
        let is_all = rows.len() < self.limit;
        let last = rows.last().map(|row| row.key);
        let there: BTreeSet<SagaDoorKey> = rows.iter().map(|row| row.key).collect();
        self.taken.retain(|key| there.contains(key) || !is_all && Some(*key) > last);
        let fresh: Vec<SagaDoorRow> = rows.into_iter().filter(|row| self.taken.insert(row.key)).collect();
        // Of what only stays, another read at once would bring the same.
        let tried = std::mem::take(&mut self.stays);
        self.is_rung |= !is_all && fresh.iter().any(|row| !tried.contains(&row.key));
        self.look_at = self.poll.map(|pause| Instant::now() + pause);
        fresh
    }

    /// A row that stays is tried again in a while.
    fn retry(&mut self, row: Option<SagaDoorKey>) {
        if let Some(key) = row {
            self.taken.remove(&key);
            self.stays.insert(key);
        }
        let at = Instant::now() + RETRY_PAUSE;
        self.look_at = Some(self.look_at.map_or(at, |look_at| look_at.min(at)));
    }
}

impl Actor {
    /// Not while the shard is given back, or nothing can be committed.
    pub(super) fn may_read_door(&self) -> bool {
        !self.is_releasing() && self.flight.trouble().is_none()
    }

    pub(super) fn read_door(&mut self) {
        if self.may_read_door() {
            let limit = self.shared.context.config.store_timeout;
            self.door.read(self.handle.shard, limit);
        }
    }

    /// Takes in what a read of the door brought.
    pub(super) fn take_door(&mut self, answer: Result<Vec<SagaDoorRow>, StoreError>) {
        let rows = match answer {
            Ok(rows) => self.door.fresh(rows),
            Err(error) => {
                tracing::warn!(shard = self.handle.shard.0, code = error.code().as_str(), %error, "the door of sagas can't be read");
                return self.door.retry(None);
            }
        };
        for row in rows {
            let (key, now) = (row.key, self.now());
            match self.shard.take_in(row, now, rand::random()) {
                Ok(()) => self.shared.meter.door("taken"),
                Err(error) if stays(&error) => self.door.retry(Some(key)),
                Err(error) => self.refused(key, &error),
            }
        }
    }

    fn refused(&self, key: SagaDoorKey, error: &SagaError) {
        self.shared.meter.door("refused");
        tracing::warn!(
            shard = self.handle.shard.0, inbox = key.from.0, code = error.code().as_str(), %error,
            "a signal or reply that a message brought is of no use to its saga"
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use waybill_core::ids::Tenant;
    use waybill_core::inbox::records::SagaDoorItem;
    use waybill_core::saga::id::{SagaId, SagaKey};
    use waybill_core::saga::json::Json;

    use super::*;

    fn row(number: usize) -> SagaDoorRow {
        let key = SagaKey { tenant: Tenant::unnamed(), id: SagaId::new("order-7").unwrap() };
        let (name, by) = ("progress".to_owned(), "a test".to_owned());
        SagaDoorRow {
            key: SagaDoorKey { from: ShardId(0), beat: 1, number: u32::try_from(number).unwrap() },
            item: SagaDoorItem::Signal { key, name, data: Json::null(), by },
        }
    }

    #[test]
    fn rows_that_stay_are_not_read_over_and_over_and_hide_nothing_behind_them() {
        let mut door = Door {
            store: None,
            reading: UnderWay::default(),
            limit: ROWS_MAX,
            taken: BTreeSet::new(),
            stays: BTreeSet::new(),
            is_rung: false,
            look_at: None,
            poll: None,
        };
        let all: Vec<SagaDoorRow> = (0..ROWS_MAX + 1).map(row).collect();
        let first = door.fresh(all.iter().take(door.limit).cloned().collect());
        assert!(first.len() == ROWS_MAX && door.is_rung, "more may lie behind them");
        first.iter().for_each(|row| door.retry(Some(row.key)));
        (door.is_rung, door.limit) = (false, door.rows_max());
        let second = door.fresh(all.iter().take(door.limit).cloned().collect());
        assert_eq!(second.len(), ROWS_MAX + 1, "with what came behind, in order");
        second.iter().take(ROWS_MAX).for_each(|row| door.retry(Some(row.key)));
        assert!(!door.is_rung && door.look_at().is_none(), "without a store nobody looks");
        assert!(door.look_at.is_some(), "they are tried again in a while");
    }
}
