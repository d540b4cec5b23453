//! Reads for people. Lists are walked in key order, a bounded number of records at a time.

pub(crate) mod cursor;
mod dead;
mod depths;
pub(crate) mod latest;
mod list;
mod newest;
mod place;
mod reach;
mod soonest;

pub use depths::DepthCache;
pub(crate) use place::at;

use std::sync::Arc;

use async_trait::async_trait;
use waybill_core::ids::{MessageId, Place, ShardId, Tenant};
use waybill_core::outbox::dead_plan::DeadTally;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::{DeadLetter, IdRecord, Scheduled};
use waybill_core::port::query::{Counted, DeadGroup, Depths, Found, ListKind, Page, QueryStore};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{int, key};

use crate::owner::read;
use crate::quarantine::Spoilt;
use crate::store::SurrealStore;
use crate::tables::{ID, SCHEDULED, id_key, scheduled_key};

/// Most records looked at for one page of a list.
const PAGE_READS_MAX: usize = 2_000;
/// Bytes of the records looked at for one page of a list, after which it ends.
const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Before all keys that begin with a shard.
pub(crate) fn first_key() -> waybill_surreal::RecordIdKey {
    key([int(0)])
}

/// Behind all keys that begin with a shard.
pub(crate) fn end_key() -> waybill_surreal::RecordIdKey {
    key([int(i64::from(u16::MAX) + 1)])
}

#[async_trait]
impl QueryStore for SurrealStore {
    async fn id(&self, tenant: &Tenant, id: &MessageId) -> Result<Option<IdRecord>, StoreError> {
        let mut spoilt = Spoilt::default();
        let read = read::id(self.begin(false).await?.as_ref(), tenant, id).await;
        let found = spoilt.note_corrupt(ID, &id_key(tenant, id), read);
        self.set_aside(spoilt).await;
        found
    }

    async fn at(&self, place: Place) -> Result<Option<Found>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = place::at(self.begin(false).await?.as_ref(), place, &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn scheduled(
        &self,
        shard: ShardId,
        due: UnixMillis,
        id: &MessageId,
    ) -> Result<Option<Arc<Scheduled>>, StoreError> {
        let mut spoilt = Spoilt::default();
        let read = read::scheduled(self.begin(false).await?.as_ref(), shard, due, id).await;
        let found = spoilt.note_corrupt(SCHEDULED, &scheduled_key(shard, due, id), read);
        self.set_aside(spoilt).await;
        found
    }

    async fn list(
        &self,
        kind: ListKind,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Found>, StoreError> {
        let mut spoilt = Spoilt::default();
        let transaction = self.begin(false).await?;
        let found = list::list(self, transaction.as_ref(), kind, filter, cursor, limit, &mut spoilt).await;
        drop(transaction);
        self.set_aside(spoilt).await;
        found
    }

    async fn newest(
        &self,
        kinds: &[ListKind],
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Found>, StoreError> {
        let mut spoilt = Spoilt::default();
        // It reads several tables that messages move between.
        let transaction = self.begin_snapshot().await?;
        let found = newest::newest(self, transaction.as_ref(), kinds, filter, cursor, limit, &mut spoilt).await;
        self.end_snapshot(transaction).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn dead_letters(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<DeadLetter>>, StoreError> {
        let mut spoilt = Spoilt::default();
        let transaction = self.begin(false).await?;
        let found = dead::dead_letters(self, transaction.as_ref(), filter, cursor, limit, &mut spoilt).await;
        drop(transaction);
        self.set_aside(spoilt).await;
        found
    }

    async fn latest_dead(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<DeadLetter>>, StoreError> {
        let mut spoilt = Spoilt::default();
        let transaction = self.begin(false).await?;
        let found = latest::latest_dead(self, transaction.as_ref(), filter, cursor, limit, &mut spoilt).await;
        drop(transaction);
        self.set_aside(spoilt).await;
        found
    }

    async fn count_dead(&self, filter: &Filter, reads: usize) -> Result<Counted<u64>, StoreError> {
        let (mut value, mut spoilt) = (0, Spoilt::default());
        let transaction = self.begin(false).await?;
        let read = dead::each(self, transaction.as_ref(), filter, reads, &mut spoilt, |_| value += 1).await;
        drop(transaction);
        self.set_aside(spoilt).await;
        read.map(|since| Counted { value, since })
    }

    async fn dead_groups(&self, filter: &Filter, reads: usize) -> Result<Counted<Vec<DeadGroup>>, StoreError> {
        let mut groups = waybill_core::outbox::dead_groups::DeadGroups::default();
        let mut spoilt = Spoilt::default();
        let transaction = self.begin(false).await?;
        let read = dead::each(self, transaction.as_ref(), filter, reads, &mut spoilt, |dead| groups.add(dead)).await;
        drop(transaction);
        self.set_aside(spoilt).await;
        read.map(|since| Counted { value: groups.finish(), since })
    }

    async fn tally_dead(
        &self,
        filter: &Filter,
        reads: usize,
        spares_quarantined: bool,
    ) -> Result<Counted<DeadTally>, StoreError> {
        let (mut value, mut spoilt) = (DeadTally::new(spares_quarantined), Spoilt::default());
        let transaction = self.begin(false).await?;
        let read = dead::each(self, transaction.as_ref(), filter, reads, &mut spoilt, |dead| value.add(dead)).await;
        drop(transaction);
        self.set_aside(spoilt).await;
        read.map(|since| Counted { value, since })
    }

    async fn depths(&self, reads: usize) -> Result<Depths, StoreError> {
        depths::depths(self, reads).await
    }
}
