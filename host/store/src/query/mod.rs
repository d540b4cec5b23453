//! Reads for people. Lists are walked in key order, a bounded number of records at a time.

pub(crate) mod cursor;
mod dead;
mod depths;
mod list;
mod place;

pub use depths::DepthCache;

use std::sync::Arc;

use async_trait::async_trait;
use waybill_core::ids::{MessageId, Place, Seq, ShardId, Tenant};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::{DeadLetter, IdRecord, Scheduled};
use waybill_core::port::query::{DeadGroup, Depth, Found, ListKind, Page, QueryStore};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, int, key, text_of};

use crate::fault::store_error;
use crate::owner::read;
use crate::store::SurrealStore;
use crate::tables::{QUARANTINE, part, part_shard};

/// Most records looked at for one page of a list.
const PAGE_READS_MAX: usize = 2_000;
/// Most quarantined segments shown.
const QUARANTINE_MAX: usize = 1_000;

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
        read::id(self.begin(false).await?.as_ref(), tenant, id).await
    }

    async fn at(&self, place: Place) -> Result<Option<Found>, StoreError> {
        place::at(self.begin(false).await?.as_ref(), place).await
    }

    async fn scheduled(
        &self,
        shard: ShardId,
        due: UnixMillis,
        id: &MessageId,
    ) -> Result<Option<Arc<Scheduled>>, StoreError> {
        read::scheduled(self.begin(false).await?.as_ref(), shard, due, id).await
    }

    async fn list(
        &self,
        kind: ListKind,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Found>, StoreError> {
        list::list(self.begin(false).await?.as_ref(), kind, filter, cursor, limit).await
    }

    async fn dead_letters(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<DeadLetter>>, StoreError> {
        dead::dead_letters(self.begin(false).await?.as_ref(), filter, cursor, limit).await
    }

    async fn count_dead(&self, filter: &Filter) -> Result<u64, StoreError> {
        let mut count = 0;
        dead::each(self.begin(false).await?.as_ref(), filter, |_| count += 1).await?;
        Ok(count)
    }

    async fn dead_groups(&self, filter: &Filter) -> Result<Vec<DeadGroup>, StoreError> {
        let mut groups = waybill_core::outbox::dead_groups::DeadGroups::default();
        dead::each(self.begin(false).await?.as_ref(), filter, |dead| groups.add(dead)).await?;
        Ok(groups.finish())
    }

    async fn depths(&self) -> Result<Vec<Depth>, StoreError> {
        depths::depths(self).await
    }

    async fn quarantined_segments(&self) -> Result<Vec<(ShardId, Seq, String)>, StoreError> {
        let transaction = self.begin(false).await?;
        let (from, until) = (Bound::Included(first_key()), Bound::Excluded(end_key()));
        let rows = transaction.scan(QUARANTINE, from, until, QUARANTINE_MAX).await.map_err(store_error)?;
        let rows = rows.iter().filter_map(|row| {
            let reason = text_of(row.fields.get("reason")).unwrap_or("").to_owned();
            Some((part_shard(&row.key)?, Seq(part(&row.key, 1)?), reason))
        });
        Ok(rows.collect())
    }
}
