//! The inbox: records, takes, rows, what was seen, history, dead letters, and the doorstep of sagas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use waybill_core::ids::{ConsumerName, InboundId, Seq, ShardId, SourceName};
use waybill_core::inbox::direct::DirectRecord;
use waybill_core::inbox::fingerprint::{ContentCheck, Fingerprint};
use waybill_core::inbox::reached::Reached;
use waybill_core::inbox::records::{
    InboxCommit, InboxDead, InboxDone, InboxRow, InboxShardRecord, InboxTakeover, InboxWrite, SagaDoorItem, TakeRecord,
};
use waybill_core::inbox::seen::{Bucket, Member, OwnedAge, SeenPlace, SeenQuery};
use waybill_core::outbox::records::DeadState;
use waybill_core::port::direct_store::DirectStore;
use waybill_core::port::inbox_store::{InboxFilter, InboxStore, InboxTidied, SagaDoorKey, SagaDoorRow, SeenHit};
use waybill_core::port::query::ReadPage;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;

use super::query::{At, read_page};
use super::transact::stamp;
use super::{Fate, MemoryStore, Tables};

/// The tables of the inbox, each ordered by its key as in the database.
#[derive(Clone, Debug, Default)]
pub struct InboxTables {
    pub shards: BTreeMap<ShardId, InboxShardRecord>,
    pub takes: BTreeMap<(ShardId, u64), TakeRecord>,
    pub rows: BTreeMap<(ShardId, Seq), Arc<InboxRow>>,
    pub dead: BTreeMap<(ShardId, Seq), Arc<InboxDead>>,
    pub seen: BTreeMap<(ShardId, ConsumerName, SeenPlace), (ContentCheck, OwnedAge)>,
    /// History with when it was written, in the order of writing.
    pub done: Vec<(ShardId, UnixMillis, InboxDone)>,
    pub saga_door: BTreeMap<(ShardId, SagaDoorKey), SagaDoorItem>,
    pub homes: BTreeMap<ConsumerName, String>,
    /// Consumers whose home can't be read, as if its record were damaged.
    pub spoilt_homes: BTreeSet<ConsumerName>,
    /// Tables that are published directly, by host and source.
    pub direct: BTreeMap<(String, SourceName), DirectRecord>,
}

impl InboxTables {
    fn check(&self, commit: &InboxCommit) -> Result<(), StoreError> {
        let shard = commit.shard;
        let stored = self.shards.get(&shard).cloned().unwrap_or_default();
        if (stored.token, stored.beat) != (commit.expect_token, commit.expect_beat) {
            return Err(StoreError::Conflict(format!(
                "the inbox of shard {shard} stands at token {} beat {}, the commit expected token {} beat {}",
                stored.token, stored.beat, commit.expect_token, commit.expect_beat
            )));
        }
        if commit.record.beat != commit.expect_beat + 1 || commit.record.age < stored.age {
            return Err(StoreError::Other(
                "a commit of the inbox raises the beat by one and never lowers the age".into(),
            ));
        }
        Ok(())
    }

    /// Makes the changes of a commit that was checked.
    fn apply(&mut self, commit: &InboxCommit, now: UnixMillis) {
        let shard = commit.shard;
        self.shards.insert(shard, commit.record.clone());
        for write in &commit.writes {
            self.write(shard, write);
        }
        for mark in &commit.seen {
            let key = (shard, mark.consumer.clone(), mark.place.clone());
            self.seen.insert(key, (mark.check, commit.record.age));
        }
        self.done.extend(commit.done.iter().map(|done| (shard, now, done.clone())));
        let mut number = 0;
        for group in &commit.sagas {
            for item in &group.items {
                let key = SagaDoorKey { from: shard, beat: commit.record.beat, number };
                number += 1;
                self.saga_door.insert((group.shard, key), item.clone());
            }
        }
    }

    fn write(&mut self, shard: ShardId, write: &InboxWrite) {
        match write {
            InboxWrite::PutTakes(record) => {
                self.takes.insert((shard, record.beat), record.clone());
            }
            InboxWrite::DeleteTakes(beat) => {
                self.takes.remove(&(shard, *beat));
            }
            InboxWrite::PutRow(row) => {
                self.rows.insert((shard, row.seq), Arc::clone(row));
            }
            InboxWrite::DeleteRow(seq) => {
                self.rows.remove(&(shard, *seq));
            }
            InboxWrite::PutDead(dead) => {
                self.dead.insert((shard, dead.seq), Arc::clone(dead));
            }
            InboxWrite::DeleteDead(seq) => {
                self.dead.remove(&(shard, *seq));
            }
            // The audit trail isn't a table of the inbox's.
            InboxWrite::PutTxEvents(_) => {}
        }
    }

    /// What the seen set has of an id.
    pub fn seen(&self, shard: ShardId, query: &SeenQuery) -> Option<SeenHit> {
        query.places.iter().find_map(|place| {
            let (check, age) = self.seen.get(&(shard, query.consumer.clone(), place.clone()))?;
            Some(SeenHit { check: *check, age: *age })
        })
    }

    /// What any minute of it has of an id.
    fn seen_in_any_minute(&self, shard: ShardId, consumer: &ConsumerName, id: Fingerprint) -> Option<SeenHit> {
        let is_it = |place: &SeenPlace| matches!(place.bucket, Bucket::Minute(_)) && place.member == Member::Hash(id);
        let all = self.seen.iter().filter(|((of, name, place), _)| *of == shard && name == consumer && is_it(place));
        all.map(|(_, (check, age))| SeenHit { check: *check, age: *age }).max_by_key(|hit| hit.age)
    }

    /// What a new owner of a shard finds.
    pub fn takeover(&self, shard: ShardId) -> InboxTakeover {
        let rows = self.rows.iter().filter(|((of, _), _)| *of == shard).map(|(_, row)| row.head());
        let takes = self.takes.iter().filter(|((of, _), _)| *of == shard).map(|(_, record)| record.clone());
        InboxTakeover { rows: rows.collect(), takes: takes.collect() }
    }
}

impl Tables {
    /// Applies a commit of the inbox with what leaves by the doors, all or nothing.
    pub fn apply_inbox(&mut self, commit: &InboxCommit, nanos: u64) -> Result<(), StoreError> {
        self.inbox.check(commit)?;
        let tx = self.streams.begin_group(&commit.events)?;
        self.inbox.apply(commit, UnixMillis(nanos / 1_000_000));
        for write in &commit.writes {
            if let InboxWrite::PutTxEvents(record) = write {
                self.tx_events.insert(record.key, Arc::clone(record));
            }
        }
        for group in &commit.messages {
            if group.messages.is_empty() {
                continue;
            }
            let ordinal =
                self.door.range((group.shard, stamp(nanos, 0))..=(group.shard, stamp(nanos, u32::MAX))).count();
            let key = stamp(nanos, u32::try_from(ordinal).unwrap_or(u32::MAX));
            self.door.insert((group.shard, key), Ok(group.messages.clone()));
        }
        self.streams.apply_tx(&tx, nanos)
    }
}

impl MemoryStore {
    /// Applies a commit of the inbox now, whatever fate is planned for the next one.
    pub fn apply_inbox(&self, commit: &InboxCommit) -> Result<(), StoreError> {
        let nanos = self.clock();
        self.write(|tables| tables.apply_inbox(commit, nanos))
    }

    /// What happens to the next commits of the inbox, first to first. With none planned a commit is applied.
    pub fn plan_inbox(&self, fates: impl IntoIterator<Item = Fate>) {
        self.faults.lock().inbox_planned.extend(fates);
    }

    /// Lets the oldest commit of the inbox that is held back go in now. None are held: `None`.
    pub fn release_inbox(&self) -> Option<Result<(), StoreError>> {
        let commit = self.faults.lock().inbox_held.pop_front()?;
        Some(self.apply_inbox(&commit))
    }

    fn commit_inbox_by_fate(&self, commit: InboxCommit) -> Result<(), StoreError> {
        self.check()?;
        let fate = self.faults.lock().inbox_planned.pop_front().unwrap_or(Fate::Apply);
        let unknown = || StoreError::Unavailable("the connection broke before the answer came".into());
        match fate {
            Fate::Apply => self.apply_inbox(&commit),
            Fate::Refuse(error) => Err(error),
            Fate::ApplyUnknown => {
                // A conflict stays unknown too: the caller never heard of it.
                let _unheard = self.apply_inbox(&commit);
                Err(unknown())
            }
            Fate::ApplyAndBreak => {
                let _unheard = self.apply_inbox(&commit);
                self.fail_all(Some(unknown()));
                Err(unknown())
            }
            Fate::Lose => Err(unknown()),
            Fate::Hold => {
                self.faults.lock().inbox_held.push_back(commit);
                Err(unknown())
            }
        }
    }
}

fn at(shard: ShardId, seq: Seq) -> At {
    At(vec![u64::from(shard.0), seq.0], String::new())
}

#[async_trait]
impl InboxStore for MemoryStore {
    async fn inbox_shard(&self, shard: ShardId) -> Result<InboxShardRecord, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.inbox.shards.get(&shard).cloned().unwrap_or_default()))
    }

    async fn commit_inbox(&self, commit: InboxCommit) -> Result<(), StoreError> {
        self.commit_inbox_by_fate(commit)
    }

    async fn inbox_takeover(&self, shard: ShardId) -> Result<InboxTakeover, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.inbox.takeover(shard)))
    }

    async fn inbox_rows(&self, shard: ShardId, seqs: &[Seq]) -> Result<Vec<Option<Arc<InboxRow>>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| seqs.iter().map(|seq| tables.inbox.rows.get(&(shard, *seq)).cloned()).collect()))
    }

    async fn inbox_seen(&self, shard: ShardId, queries: &[SeenQuery]) -> Result<Vec<Option<SeenHit>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| queries.iter().map(|query| tables.inbox.seen(shard, query)).collect()))
    }

    fn inbox_seen_reads(&self, _: &ConsumerName) -> u64 {
        // All of it is memory.
        0
    }

    async fn inbox_seen_for_people(&self, shard: ShardId, query: &SeenQuery) -> Result<Option<SeenHit>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.inbox.seen(shard, query)))
    }

    async fn inbox_seen_in_any_minute(
        &self,
        shard: ShardId,
        consumer: &ConsumerName,
        id: Fingerprint,
    ) -> Result<Option<SeenHit>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.inbox.seen_in_any_minute(shard, consumer, id)))
    }

    async fn tidy_inbox(
        &self,
        shard: ShardId,
        until: OwnedAge,
        done_before: UnixMillis,
        limit: usize,
    ) -> Result<InboxTidied, StoreError> {
        self.check()?;
        Ok(self.write(|tables| {
            let seen = tables.inbox.seen.iter().filter(|((of, ..), (_, age))| *of == shard && *age <= until);
            let old: Vec<_> = seen.map(|(key, _)| key.clone()).take(limit).collect();
            for key in &old {
                tables.inbox.seen.remove(key);
            }
            let mut left = limit - old.len();
            let before = tables.inbox.done.len();
            tables.inbox.done.retain(|(of, at, _)| {
                let is_old = *of == shard && *at < done_before && left > 0;
                left -= usize::from(is_old);
                !is_old
            });
            InboxTidied { forgotten: old.len(), packed: 0, purged: before - tables.inbox.done.len() }
        }))
    }

    async fn inbox_dead_letter(&self, shard: ShardId, seq: Seq) -> Result<Option<Arc<InboxDead>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.inbox.dead.get(&(shard, seq)).cloned()))
    }

    async fn mark_inbox_dead(&self, shard: ShardId, seq: Seq, state: &DeadState) -> Result<bool, StoreError> {
        self.check()?;
        Ok(self.write(|tables| match tables.inbox.dead.get_mut(&(shard, seq)) {
            Some(dead) => {
                Arc::make_mut(dead).state = state.clone();
                true
            }
            None => false,
        }))
    }

    async fn inbox_dead(
        &self,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<(ShardId, Arc<InboxDead>)>, StoreError> {
        self.check()?;
        let all: Vec<_> = self.read(|tables| {
            let dead = tables.inbox.dead.iter();
            dead.map(|((shard, seq), dead)| (at(*shard, *seq), (*shard, Arc::clone(dead)))).collect()
        });
        read_page(all.into_iter(), |(_, dead)| filter.takes(&dead.consumer, &dead.message), cursor, limit)
    }

    async fn inbox_list(
        &self,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<(ShardId, Arc<InboxRow>)>, StoreError> {
        self.check()?;
        let all: Vec<_> = self.read(|tables| {
            let rows = tables.inbox.rows.iter();
            rows.map(|((shard, seq), row)| (at(*shard, *seq), (*shard, Arc::clone(row)))).collect()
        });
        read_page(all.into_iter(), |(_, row)| filter.takes(&row.consumer, &row.message), cursor, limit)
    }

    async fn inbox_newest(
        &self,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<(ShardId, Arc<InboxRow>)>, StoreError> {
        self.check()?;
        let mut reached = Reached::from_cursor(cursor)?;
        let rows = self.read(|tables| tables.inbox.rows.clone());
        let shards: BTreeSet<ShardId> = rows.keys().map(|(shard, _)| *shard).collect();
        let mut page = ReadPage { items: Vec::new(), next_cursor: None, reads: 0 };
        loop {
            let last = |shard: &ShardId| {
                let end = reached.of(*shard).unwrap_or(Seq(u64::MAX));
                rows.range((*shard, Seq(0))..(*shard, end)).next_back()
            };
            let heads = shards.iter().filter_map(last);
            let latest = heads.max_by_key(|((shard, seq), row)| (row.message.received_at, *seq, *shard));
            let Some(((shard, seq), row)) = latest else { return Ok(page) };
            if page.items.len() >= limit {
                page.next_cursor = Some(reached.to_cursor());
                return Ok(page);
            }
            reached.note(*shard, *seq);
            page.reads += 1;
            if filter.takes(&row.consumer, &row.message) {
                page.items.push((*shard, Arc::clone(row)));
            }
        }
    }

    async fn inbox_done(
        &self,
        shard: ShardId,
        consumer: &ConsumerName,
        id: &InboundId,
    ) -> Result<Vec<InboxDone>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let done = tables
                .inbox
                .done
                .iter()
                .rev()
                .filter(|(of, _, done)| *of == shard && done.consumer == *consumer && done.id == *id);
            done.map(|(_, _, done)| done.clone()).collect()
        }))
    }

    async fn saga_door(&self, shard: ShardId, limit: usize) -> Result<Vec<SagaDoorRow>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let rows = tables.inbox.saga_door.iter().filter(|((of, _), _)| *of == shard).take(limit);
            rows.map(|((_, key), item)| SagaDoorRow { key: *key, item: item.clone() }).collect()
        }))
    }

    async fn bind_inbox_consumer(&self, consumer: &ConsumerName, home: &str) -> Result<String, StoreError> {
        self.check()?;
        if self.read(|tables| tables.inbox.spoilt_homes.contains(consumer)) {
            return Err(StoreError::Corrupt(format!("the home of consumer {consumer} can't be read")));
        }
        Ok(self.write(|tables| tables.inbox.homes.entry(consumer.clone()).or_insert_with(|| home.to_owned()).clone()))
    }

    async fn unbind_inbox_consumer(&self, consumer: &ConsumerName) -> Result<(), StoreError> {
        self.check()?;
        self.write(|tables| tables.inbox.homes.remove(consumer));
        Ok(())
    }
}

#[async_trait]
impl DirectStore for MemoryStore {
    async fn direct_record(&self, host: &str, source: &SourceName) -> Result<DirectRecord, StoreError> {
        self.check()?;
        let key = (host.to_owned(), source.clone());
        Ok(self.read(|tables| tables.inbox.direct.get(&key).cloned().unwrap_or_default()))
    }

    async fn put_direct_record(
        &self,
        host: &str,
        source: &SourceName,
        record: &DirectRecord,
    ) -> Result<(), StoreError> {
        self.check()?;
        self.write(|tables| tables.inbox.direct.insert((host.to_owned(), source.clone()), record.clone()));
        Ok(())
    }
}
