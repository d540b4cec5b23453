//! Reads for people and quarantine with trouble between them and the engine; only acts and counts of quarantine meet the hook.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use waybill_core::ids::{MessageId, Place, ShardId, Tenant};
use waybill_core::outbox::dead_plan::DeadTally;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::{DeadLetter, IdRecord, Scheduled};
use waybill_core::port::quarantine::{
    QuarantineStore, QuarantinedContent, QuarantinedCounts, QuarantinedRow, Restored,
};
use waybill_core::port::query::{Counted, DeadGroup, Depths, Found, ListKind, Page, QueryStore};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;

use super::shim::{Act, Call, Shim};

impl Shim {
    /// Does an act or a count of quarantine as the hook wants it.
    async fn act_on_quarantine<T>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let asked = self.ask(Call::Quarantine(name));
        let late = if let Act::SlowAfter(time) = asked { time } else { Duration::ZERO };
        let after = self.follow(asked).await?;
        let done = work.await?;
        tokio::time::sleep(late).await;
        after.map_or(Ok(done), Err)
    }
}

#[async_trait]
impl QuarantineStore for Shim {
    async fn quarantined(
        &self,
        table: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<QuarantinedRow>, StoreError> {
        self.inner.quarantined(table, cursor, limit).await
    }
    async fn quarantined_counts(&self) -> Result<QuarantinedCounts, StoreError> {
        self.act_on_quarantine("counts", self.inner.quarantined_counts()).await
    }
    async fn quarantined_row(&self, id: &str) -> Result<Option<QuarantinedContent>, StoreError> {
        self.inner.quarantined_row(id).await
    }
    async fn restore_row(&self, id: &str) -> Result<Option<(QuarantinedRow, Restored)>, StoreError> {
        self.act_on_quarantine("restore", self.inner.restore_row(id)).await
    }
    async fn drop_row(&self, id: &str) -> Result<Option<QuarantinedRow>, StoreError> {
        self.act_on_quarantine("drop", self.inner.drop_row(id)).await
    }
}

#[async_trait]
impl QueryStore for Shim {
    async fn id(&self, tenant: &Tenant, id: &MessageId) -> Result<Option<IdRecord>, StoreError> {
        self.inner.id(tenant, id).await
    }
    async fn at(&self, place: Place) -> Result<Option<Found>, StoreError> {
        self.inner.at(place).await
    }
    async fn scheduled(
        &self,
        shard: ShardId,
        due: UnixMillis,
        id: &MessageId,
    ) -> Result<Option<Arc<Scheduled>>, StoreError> {
        self.inner.scheduled(shard, due, id).await
    }
    async fn list(
        &self,
        kind: ListKind,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Found>, StoreError> {
        self.inner.list(kind, filter, cursor, limit).await
    }
    async fn newest(
        &self,
        kinds: &[ListKind],
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Found>, StoreError> {
        self.inner.newest(kinds, filter, cursor, limit).await
    }
    async fn dead_letters(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<DeadLetter>>, StoreError> {
        self.inner.dead_letters(filter, cursor, limit).await
    }
    async fn latest_dead(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<DeadLetter>>, StoreError> {
        self.inner.latest_dead(filter, cursor, limit).await
    }
    async fn count_dead(&self, filter: &Filter, reads: usize) -> Result<Counted<u64>, StoreError> {
        self.inner.count_dead(filter, reads).await
    }
    async fn dead_groups(&self, filter: &Filter, reads: usize) -> Result<Counted<Vec<DeadGroup>>, StoreError> {
        self.inner.dead_groups(filter, reads).await
    }
    async fn tally_dead(
        &self,
        filter: &Filter,
        reads: usize,
        spares_quarantined: bool,
    ) -> Result<Counted<DeadTally>, StoreError> {
        self.inner.tally_dead(filter, reads, spares_quarantined).await
    }
    async fn depths(&self, reads: usize) -> Result<Depths, StoreError> {
        self.inner.depths(reads).await
    }
}
