//! The inbox.

use std::sync::Arc;

use async_trait::async_trait;
use waybill_core::ids::{ConsumerName, InboundId, Seq, ShardId};
use waybill_core::inbox::fingerprint::Fingerprint;
use waybill_core::inbox::records::{InboxCommit, InboxDead, InboxDone, InboxRow, InboxShardRecord, InboxTakeover};
use waybill_core::inbox::seen::{OwnedAge, SeenQuery};
use waybill_core::outbox::records::DeadState;
use waybill_core::port::inbox_store::{InboxFilter, InboxStore, InboxTidied, SagaDoorRow, SeenHit};
use waybill_core::port::query::ReadPage;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;

use super::{Bounded, WALK_TIMES, within};

#[async_trait]
impl InboxStore for Bounded<dyn InboxStore> {
    async fn inbox_shard(&self, shard: ShardId) -> Result<InboxShardRecord, StoreError> {
        within!(self.inbox_shard(shard))
    }
    async fn commit_inbox(&self, commit: InboxCommit) -> Result<(), StoreError> {
        within!(self.commit_inbox(commit))
    }
    async fn inbox_takeover(&self, shard: ShardId) -> Result<InboxTakeover, StoreError> {
        within!(self.inbox_takeover(shard), WALK_TIMES)
    }
    async fn inbox_rows(&self, shard: ShardId, seqs: &[Seq]) -> Result<Vec<Option<Arc<InboxRow>>>, StoreError> {
        within!(self.inbox_rows(shard, seqs))
    }
    async fn inbox_seen(&self, shard: ShardId, queries: &[SeenQuery]) -> Result<Vec<Option<SeenHit>>, StoreError> {
        within!(self.inbox_seen(shard, queries))
    }
    fn inbox_seen_reads(&self, consumer: &ConsumerName) -> u64 {
        self.store.inbox_seen_reads(consumer)
    }
    async fn inbox_seen_for_people(&self, shard: ShardId, query: &SeenQuery) -> Result<Option<SeenHit>, StoreError> {
        within!(self.inbox_seen_for_people(shard, query))
    }
    async fn inbox_seen_in_any_minute(
        &self,
        shard: ShardId,
        consumer: &ConsumerName,
        id: Fingerprint,
    ) -> Result<Option<SeenHit>, StoreError> {
        within!(self.inbox_seen_in_any_minute(shard, consumer, id), WALK_TIMES)
    }
    async fn tidy_inbox(
        &self,
        shard: ShardId,
        until: OwnedAge,
        done_before: UnixMillis,
        limit: usize,
    ) -> Result<InboxTidied, StoreError> {
        within!(self.tidy_inbox(shard, until, done_before, limit))
    }
    async fn inbox_dead_letter(&self, shard: ShardId, seq: Seq) -> Result<Option<Arc<InboxDead>>, StoreError> {
        within!(self.inbox_dead_letter(shard, seq))
    }
    async fn mark_inbox_dead(&self, shard: ShardId, seq: Seq, state: &DeadState) -> Result<bool, StoreError> {
        within!(self.mark_inbox_dead(shard, seq, state))
    }
    async fn inbox_dead(
        &self,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<(ShardId, Arc<InboxDead>)>, StoreError> {
        within!(self.inbox_dead(filter, cursor, limit))
    }
    async fn inbox_list(
        &self,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<(ShardId, Arc<InboxRow>)>, StoreError> {
        within!(self.inbox_list(filter, cursor, limit))
    }
    async fn inbox_newest(
        &self,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<(ShardId, Arc<InboxRow>)>, StoreError> {
        within!(self.inbox_newest(filter, cursor, limit))
    }
    async fn inbox_done(
        &self,
        shard: ShardId,
        consumer: &ConsumerName,
        id: &InboundId,
    ) -> Result<Vec<InboxDone>, StoreError> {
        within!(self.inbox_done(shard, consumer, id))
    }
    async fn saga_door(&self, shard: ShardId, limit: usize) -> Result<Vec<SagaDoorRow>, StoreError> {
        within!(self.saga_door(shard, limit))
    }
    async fn bind_inbox_consumer(&self, consumer: &ConsumerName, home: &str) -> Result<String, StoreError> {
        within!(self.bind_inbox_consumer(consumer, home))
    }
    async fn unbind_inbox_consumer(&self, consumer: &ConsumerName) -> Result<(), StoreError> {
        within!(self.unbind_inbox_consumer(consumer))
    }
}
