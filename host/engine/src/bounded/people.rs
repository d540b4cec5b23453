//! Reads for people, quarantine, writes from outside the owner, payload dedup, idempotency keys.

use std::sync::Arc;

use async_trait::async_trait;
use waybill_core::audit::AuditQuery;
use waybill_core::fates::Fates;
use waybill_core::idempotency::{Applied, Entry, EntryFilter, EntryKey, Op};
use waybill_core::ids::{MessageId, Place, ShardId, Tenant};
use waybill_core::outbox::dead_plan::DeadTally;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::{DeadLetter, IdRecord, Scheduled};
use waybill_core::port::dedup::{DedupAsk, DedupEnd, DedupKey, DedupStore, FirstDelivery, Reservation};
use waybill_core::port::idempotency::{FoundEntry, IdempotencyStore};
use waybill_core::port::quarantine::{
    QuarantineStore, QuarantinedContent, QuarantinedCounts, QuarantinedRow, Restored,
};
use waybill_core::port::query::{Counted, DeadGroup, Depths, Found, ListKind, Page, QueryStore};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{
    AuditEvent, Conclusion, DoorGroup, Operation, Statement, TransactStore, Transacted,
};
use waybill_core::streams::joint::JointAppends;
use waybill_core::time::UnixMillis;

use super::{Bounded, STATEMENTS_TIMES_MAX, WALK_TIMES, within};

#[async_trait]
impl QueryStore for Bounded<dyn QueryStore> {
    async fn id(&self, tenant: &Tenant, id: &MessageId) -> Result<Option<IdRecord>, StoreError> {
        within!(self.id(tenant, id))
    }
    async fn at(&self, place: Place) -> Result<Option<Found>, StoreError> {
        within!(self.at(place))
    }
    async fn scheduled(
        &self,
        shard: ShardId,
        due: UnixMillis,
        id: &MessageId,
    ) -> Result<Option<Arc<Scheduled>>, StoreError> {
        within!(self.scheduled(shard, due, id))
    }
    async fn list(
        &self,
        kind: ListKind,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Found>, StoreError> {
        within!(self.list(kind, filter, cursor, limit))
    }
    async fn newest(
        &self,
        kinds: &[ListKind],
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Found>, StoreError> {
        within!(self.newest(kinds, filter, cursor, limit))
    }
    async fn dead_letters(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<DeadLetter>>, StoreError> {
        within!(self.dead_letters(filter, cursor, limit))
    }
    async fn latest_dead(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<DeadLetter>>, StoreError> {
        within!(self.latest_dead(filter, cursor, limit))
    }
    async fn count_dead(&self, filter: &Filter, reads: usize) -> Result<Counted<u64>, StoreError> {
        within!(self.count_dead(filter, reads), WALK_TIMES)
    }
    async fn dead_groups(&self, filter: &Filter, reads: usize) -> Result<Counted<Vec<DeadGroup>>, StoreError> {
        within!(self.dead_groups(filter, reads), WALK_TIMES)
    }
    async fn tally_dead(
        &self,
        filter: &Filter,
        reads: usize,
        spares_quarantined: bool,
    ) -> Result<Counted<DeadTally>, StoreError> {
        within!(self.tally_dead(filter, reads, spares_quarantined), WALK_TIMES)
    }
    async fn depths(&self, reads: usize) -> Result<Depths, StoreError> {
        within!(self.depths(reads), WALK_TIMES)
    }
}

#[async_trait]
impl QuarantineStore for Bounded<dyn QueryStore> {
    async fn quarantined(
        &self,
        table: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<QuarantinedRow>, StoreError> {
        within!(self.quarantined(table, cursor, limit))
    }
    async fn quarantined_counts(&self) -> Result<QuarantinedCounts, StoreError> {
        within!(self.quarantined_counts())
    }
    async fn quarantined_row(&self, id: &str) -> Result<Option<QuarantinedContent>, StoreError> {
        within!(self.quarantined_row(id))
    }
    async fn restore_row(&self, id: &str) -> Result<Option<(QuarantinedRow, Restored)>, StoreError> {
        within!(self.restore_row(id))
    }
    async fn drop_row(&self, id: &str) -> Result<Option<QuarantinedRow>, StoreError> {
        within!(self.drop_row(id))
    }
}

#[async_trait]
impl TransactStore for Bounded<dyn TransactStore> {
    async fn transact(
        &self,
        statements: Vec<Statement>,
        messages: Vec<DoorGroup>,
        events: JointAppends,
        conclusion: Option<Conclusion>,
    ) -> Result<Transacted, StoreError> {
        // Each statement has a limit of its own, half of a call's.
        let statements_times = u32::try_from(statements.len() / 2).unwrap_or(STATEMENTS_TIMES_MAX);
        let times = statements_times.saturating_add(1).min(STATEMENTS_TIMES_MAX);
        within!(self.transact(statements, messages, events, conclusion), times)
    }
    async fn put_operation(&self, operation: &Operation) -> Result<(), StoreError> {
        within!(self.put_operation(operation))
    }
    async fn operation(&self, id: &str) -> Result<Option<Operation>, StoreError> {
        within!(self.operation(id))
    }
    async fn operations(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Operation>, StoreError> {
        within!(self.operations(tenant, limit))
    }
    async fn fates(&self, operation: &str) -> Result<Fates, StoreError> {
        within!(self.fates(operation))
    }
    async fn running_operations(&self) -> Result<Vec<Operation>, StoreError> {
        within!(self.running_operations())
    }
    async fn set_paused(&self, transport: &str, paused: bool) -> Result<(), StoreError> {
        within!(self.set_paused(transport, paused))
    }
    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        within!(self.paused())
    }
    async fn note_incidents(&self, host: &str, record: &str) -> Result<(), StoreError> {
        within!(self.note_incidents(host, record))
    }
    async fn incidents(&self, host: &str) -> Result<String, StoreError> {
        within!(self.incidents(host))
    }
    async fn audit(&self, event: &AuditEvent) -> Result<(), StoreError> {
        within!(self.audit(event))
    }
    async fn audit_lines(
        &self,
        query: &AuditQuery,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEvent>, StoreError> {
        within!(self.audit_lines(query, cursor, limit))
    }
    async fn purge_audit(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        within!(self.purge_audit(before, limit))
    }
    async fn purge_operations(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        within!(self.purge_operations(before, limit))
    }
}

#[async_trait]
impl DedupStore for Bounded<dyn DedupStore> {
    async fn reserve(
        &self,
        asks: &[DedupAsk],
        now: UnixMillis,
        stale: UnixMillis,
    ) -> Result<Vec<Reservation>, StoreError> {
        within!(self.reserve(asks, now, stale))
    }
    async fn conclude(&self, ends: &[DedupEnd], now: UnixMillis) -> Result<(), StoreError> {
        within!(self.conclude(ends, now))
    }
    async fn delivered(&self, key: &DedupKey, now: UnixMillis) -> Result<Option<FirstDelivery>, StoreError> {
        within!(self.delivered(key, now))
    }
    async fn purge_dedup(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        within!(self.purge_dedup(now, limit))
    }
}

#[async_trait]
impl IdempotencyStore for Bounded<dyn IdempotencyStore> {
    async fn act(&self, ops: &[Op], now: UnixMillis) -> Result<Vec<Result<Applied, StoreError>>, StoreError> {
        within!(self.act(ops, now))
    }
    async fn entry(&self, of: &EntryKey, now: UnixMillis) -> Result<Option<Entry>, StoreError> {
        within!(self.entry(of, now))
    }
    async fn entries(
        &self,
        tenant: Option<&Tenant>,
        filter: &EntryFilter,
        now: UnixMillis,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<FoundEntry>, StoreError> {
        within!(self.entries(tenant, filter, now, cursor, limit))
    }
    async fn purge_idempotency(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        within!(self.purge_idempotency(now, limit))
    }
}
