//! The inbox: the commit of a shard's writer, what a new writer finds, and what readers ask for.
//!
//! | file | holds |
//! |---|---|
//! | `commit` | the guarded commit |
//! | `shard` | the shard record, and another one in its place when it can't be read |
//! | `takeover` | what a new writer finds |
//! | `seen` | which ids were finished |
//! | `done` | history, and its end |
//! | `stopped` | rows and dead letters |
//! | `newest` | rows, the latest received first |
//! | `doors` | what was left for sagas; homes of consumers |
//! | `direct` | what hosts know of tables that they publish directly |
//!
//! A message that flows costs its share of one record of the seen set and of one of the history.

mod commit;
mod direct;
pub mod done;
mod doors;
mod newest;
pub mod seen;
mod shard;
mod stopped;
mod takeover;

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

use crate::quarantine::Spoilt;
use crate::store::SurrealStore;
use crate::tables::{INBOX_DEAD, seq_key};

#[async_trait]
impl InboxStore for SurrealStore {
    async fn inbox_shard(&self, shard: ShardId) -> Result<InboxShardRecord, StoreError> {
        let record = shard::read_or_rebuild(self, shard).await?;
        // Who reads it after a commit without an answer learns from it whether that is in.
        self.seen_memory().record_has(shard, record.beat);
        Ok(record)
    }

    async fn commit_inbox(&self, commit: InboxCommit) -> Result<(), StoreError> {
        commit::commit(self, &commit).await
    }

    async fn inbox_takeover(&self, shard: ShardId) -> Result<InboxTakeover, StoreError> {
        takeover::read(self, shard).await
    }

    async fn inbox_rows(&self, shard: ShardId, seqs: &[Seq]) -> Result<Vec<Option<Arc<InboxRow>>>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = stopped::rows(self.begin(false).await?.as_ref(), shard, seqs, &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn inbox_seen(&self, shard: ShardId, queries: &[SeenQuery]) -> Result<Vec<Option<SeenHit>>, StoreError> {
        seen::find::find(self, shard, queries, seen::Asker::Messages).await
    }

    fn inbox_seen_reads(&self, consumer: &ConsumerName) -> u64 {
        self.seen_reads().of(consumer, seen::Asker::Messages)
    }

    async fn inbox_seen_for_people(&self, shard: ShardId, query: &SeenQuery) -> Result<Option<SeenHit>, StoreError> {
        let found = seen::find::find(self, shard, std::slice::from_ref(query), seen::Asker::People).await?;
        Ok(found.into_iter().flatten().next())
    }

    async fn inbox_seen_in_any_minute(
        &self,
        shard: ShardId,
        consumer: &ConsumerName,
        id: Fingerprint,
    ) -> Result<Option<SeenHit>, StoreError> {
        seen::any_minute::find(self, shard, consumer, id).await
    }

    async fn tidy_inbox(
        &self,
        shard: ShardId,
        until: OwnedAge,
        done_before: UnixMillis,
        limit: usize,
    ) -> Result<InboxTidied, StoreError> {
        let mut tidied = InboxTidied::default();
        let Some(age) = shard::age(self.begin(false).await?.as_ref(), shard).await? else { return Ok(tidied) };
        tidied.forgotten = seen::tidy::forget(self, shard, until, limit).await?;
        if tidied.records() < limit {
            tidied.packed = seen::tidy::pack_idle(self, shard, age, limit - tidied.records()).await?;
        }
        if tidied.records() < limit {
            tidied.purged = done::purge(self, shard, done_before, limit - tidied.records()).await?;
        }
        Ok(tidied)
    }

    async fn inbox_dead_letter(&self, shard: ShardId, seq: Seq) -> Result<Option<Arc<InboxDead>>, StoreError> {
        let mut spoilt = Spoilt::default();
        let read = stopped::dead_letter(self.begin(false).await?.as_ref(), shard, seq).await;
        let found = spoilt.note_corrupt(INBOX_DEAD, &seq_key(shard, seq), read);
        self.set_aside(spoilt).await;
        found
    }

    async fn mark_inbox_dead(&self, shard: ShardId, seq: Seq, state: &DeadState) -> Result<bool, StoreError> {
        stopped::mark(self, shard, seq, state).await
    }

    async fn inbox_dead(
        &self,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<(ShardId, Arc<InboxDead>)>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = stopped::dead(self.begin(false).await?.as_ref(), filter, (cursor, limit), &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn inbox_list(
        &self,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<(ShardId, Arc<InboxRow>)>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = stopped::list(self.begin(false).await?.as_ref(), filter, (cursor, limit), &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn inbox_newest(
        &self,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<(ShardId, Arc<InboxRow>)>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = newest::newest(self.begin(false).await?.as_ref(), filter, (cursor, limit), &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn inbox_done(
        &self,
        shard: ShardId,
        consumer: &ConsumerName,
        id: &InboundId,
    ) -> Result<Vec<InboxDone>, StoreError> {
        done::of_id(self, shard, consumer, id).await
    }

    async fn saga_door(&self, shard: ShardId, limit: usize) -> Result<Vec<SagaDoorRow>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = doors::door(self.begin(false).await?.as_ref(), shard, limit, &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn bind_inbox_consumer(&self, consumer: &ConsumerName, home: &str) -> Result<String, StoreError> {
        doors::bind(self, consumer, home).await
    }

    async fn unbind_inbox_consumer(&self, consumer: &ConsumerName) -> Result<(), StoreError> {
        doors::unbind(self, consumer).await
    }
}
