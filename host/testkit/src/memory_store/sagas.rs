//! Sagas: the journal, what rests, what has ended, definitions and dead letters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use waybill_core::idempotency::is_derived;
use waybill_core::ids::ShardId;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::query::Page;
use waybill_core::port::saga_store::{Acquired, DefinitionPut, Expired, SagaStore, SagaTable};
use waybill_core::port::store::StoreError;
use waybill_core::saga::definition::Definition;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::{DefinitionHash, SagaKey};
use waybill_core::saga::records::{
    BrokenSaga, JournalEntry, JournalRecord, SagaCommit, SagaDead, SagaRow, SagaShardRecord, SagaSummary, SagaTakeover,
    SagaWrite, StoredDefinition,
};
use waybill_core::saga::shard::rebuilt;
use waybill_core::time::UnixMillis;

use super::query::{At, page};
use super::tables::id_key;
use super::transact::stamp;
use super::{Fate, MemoryStore};

/// The tables of sagas, each ordered by its key as in the database.
#[derive(Clone, Debug, Default)]
pub struct SagaTables {
    pub shards: BTreeMap<ShardId, SagaShardRecord>,
    pub journal: BTreeMap<(ShardId, u64), Vec<JournalEntry>>,
    pub open: BTreeMap<(ShardId, SagaKey), Arc<SagaRow>>,
    pub done: BTreeMap<(ShardId, SagaKey), Arc<SagaRow>>,
    /// The beats of the commits that ended those.
    pub ends: BTreeMap<(ShardId, SagaKey), u64>,
    pub dead: BTreeMap<(ShardId, SagaKey), Arc<SagaDead>>,
    /// `saga_definition`, by name and version.
    pub definitions: BTreeMap<(String, u32), StoredDefinition>,
    /// Of `outbox_quarantine`: sagas that could not be restored, in the order in which they were set aside.
    pub aside: BTreeMap<u64, (ShardId, Arc<BrokenSaga>)>,
    /// The last number given out there.
    pub aside_last: u64,
}

impl SagaTables {
    fn check(&self, commit: &SagaCommit) -> Result<(), StoreError> {
        let stored = self.shards.get(&commit.shard).copied().unwrap_or_default();
        if (stored.token, stored.beat) != (commit.expect_token, commit.expect_beat) {
            return Err(StoreError::Conflict(format!(
                "sagas of shard {} stand at token {} beat {}, the commit expected token {} beat {}",
                commit.shard, stored.token, stored.beat, commit.expect_token, commit.expect_beat
            )));
        }
        if commit.record.beat != commit.expect_beat + 1 || commit.record.floor < stored.floor {
            return Err(StoreError::Other(
                "a commit of sagas raises the beat by one and never lowers the floor".into(),
            ));
        }
        Ok(())
    }

    /// Makes the changes of a commit that was checked.
    fn apply(&mut self, commit: &SagaCommit) {
        self.shards.insert(commit.shard, commit.record);
        if !commit.journal.is_empty() {
            self.journal.insert((commit.shard, commit.record.beat), commit.journal.clone());
        }
        let floor = (commit.shard, commit.record.floor);
        self.journal.retain(|key, _| key.0 != commit.shard || *key >= floor);
        for write in &commit.writes {
            self.write((commit.shard, commit.record.beat), write);
        }
    }

    fn write(&mut self, (shard, beat): (ShardId, u64), write: &SagaWrite) {
        match write {
            SagaWrite::PutRow(row) => {
                self.open.insert((shard, row.tree.key.clone()), Arc::clone(row));
            }
            SagaWrite::DeleteRow(key) => {
                self.open.remove(&(shard, key.clone()));
            }
            SagaWrite::PutDone(row) => {
                self.done.insert((shard, row.tree.key.clone()), Arc::clone(row));
                self.ends.insert((shard, row.tree.key.clone()), beat);
            }
            SagaWrite::PutDead(dead) => {
                self.dead.insert((shard, dead.key.clone()), Arc::clone(dead));
            }
            SagaWrite::DeleteDead(key) => {
                self.dead.remove(&(shard, key.clone()));
            }
            // It lies in a table that isn't of sagas alone.
            SagaWrite::PutTxEvents(_) => {}
            SagaWrite::SetAside(broken) => {
                self.open.remove(&(shard, broken.key.clone()));
                self.aside_last += 1;
                self.aside.insert(self.aside_last, (shard, Arc::clone(broken)));
            }
        }
    }

    /// Whether the journal holds events of a saga that has ended, and its end behind them.
    fn is_needed(&self, at: &(ShardId, SagaKey)) -> bool {
        let (Some(beat), Some(record)) = (self.ends.get(at), self.shards.get(&at.0)) else { return false };
        let mut entries = self.journal.get(&(at.0, *beat)).into_iter().flatten();
        record.floor < *beat && entries.any(|entry| entry.ended && entry.key == at.1)
    }

    /// What was set aside of a saga.
    pub(super) fn aside_of(&self, shard: ShardId, key: &SagaKey) -> Vec<(u64, Arc<BrokenSaga>)> {
        let all = self.aside.iter().filter(|(_, (of, broken))| *of == shard && broken.key == *key);
        all.map(|(number, (_, broken))| (*number, Arc::clone(broken))).collect()
    }

    /// The row that a saga gets that was set aside.
    pub(super) fn rebuilt(&self, shard: ShardId, key: &SagaKey) -> Result<SagaRow, StoreError> {
        let mut kept = SagaTakeover::default();
        for (_, broken) in self.aside_of(shard, key) {
            kept.rows.extend(broken.row.clone());
            kept.journal.push(JournalRecord { beat: 0, entries: broken.entries.clone() });
        }
        let lookup = |hash: &DefinitionHash| {
            let stored = self.definitions.values().find(|stored| stored.reference.hash == *hash)?;
            Definition::restore(&stored.canonical).ok().map(Arc::new)
        };
        rebuilt(key, &kept, lookup).map_err(StoreError::Corrupt)
    }

    fn takeover(&self, shard: ShardId, record: SagaShardRecord) -> SagaTakeover {
        let rows = self.open.iter().filter(|((of, _), _)| *of == shard).map(|(_, row)| Arc::clone(row));
        let journal = self.journal.range((shard, record.floor)..=(shard, u64::MAX));
        let journal = journal.map(|((_, beat), entries)| JournalRecord { beat: *beat, entries: entries.clone() });
        let dead = self.dead.keys().filter(|(of, _)| *of == shard).map(|(_, key)| key.clone());
        SagaTakeover { record, rows: rows.collect(), journal: journal.collect(), dead: dead.collect() }
    }

    fn table(&self, table: SagaTable) -> &BTreeMap<(ShardId, SagaKey), Arc<SagaRow>> {
        match table {
            SagaTable::Open => &self.open,
            SagaTable::Done => &self.done,
        }
    }

    /// Newest start first, ties by falling tenant and id.
    fn newest(&self, table: SagaTable) -> Vec<(At, SagaSummary)> {
        let mut rows: Vec<&Arc<SagaRow>> = self.table(table).values().collect();
        rows.sort_by(|a, b| (b.summary.started_at, &b.tree.key).cmp(&(a.summary.started_at, &a.tree.key)));
        let at = |row: &SagaRow| {
            // Falling order, so the number counts down and the text is turned over.
            let turned: String = format!("{}\0{}", row.tree.key.tenant, row.tree.key.id)
                .chars()
                .filter_map(|c| char::from_u32(0x10_FFFF - u32::from(c)))
                .chain(std::iter::once(char::MAX))
                .collect();
            At(vec![u64::MAX - row.summary.started_at.0], turned)
        };
        rows.into_iter().map(|row| (at(row), row.summary.clone())).collect()
    }
}

impl MemoryStore {
    /// Applies a commit of sagas now, whatever fate is planned for the next one.
    pub fn apply_sagas(&self, commit: &SagaCommit) -> Result<(), StoreError> {
        let nanos = self.clock();
        self.write(|tables| {
            tables.sagas.check(commit)?;
            let tx = tables.streams.begin_group(&commit.events)?;
            tables.sagas.apply(commit);
            for write in &commit.writes {
                if let SagaWrite::PutTxEvents(record) = write {
                    tables.tx_events.insert(record.key, Arc::clone(record));
                }
            }
            for key in &commit.door {
                tables.inbox.saga_door.remove(&(commit.shard, *key));
            }
            for group in &commit.messages {
                let known = |message: &waybill_core::message::Message| {
                    let key = id_key(&message.tenant, &message.id);
                    message.caller_id
                        && (tables.ids.contains_key(&key)
                            || tables.door.values().flatten().flatten().any(|other| {
                                other.caller_id && other.id == message.id && other.tenant == message.tenant
                            }))
                };
                let messages: Vec<_> = group.messages.iter().filter(|message| !known(message)).cloned().collect();
                if messages.is_empty() {
                    continue;
                }
                let rows = tables.door.range((group.shard, stamp(nanos, 0))..=(group.shard, stamp(nanos, u32::MAX)));
                let ordinal = u32::try_from(rows.count()).unwrap_or(u32::MAX);
                tables.door.insert((group.shard, stamp(nanos, ordinal)), Ok(messages));
            }
            tables.streams.apply_tx(&tx, nanos)
        })
    }

    /// What happens to the next commits of sagas, first to first. With none planned a commit is applied.
    pub fn plan_sagas(&self, fates: impl IntoIterator<Item = Fate>) {
        self.faults.lock().saga_planned.extend(fates);
    }

    /// Lets the oldest commit of sagas that is held back go in now. None are held: `None`.
    pub fn release_sagas(&self) -> Option<Result<(), StoreError>> {
        let commit = self.faults.lock().saga_held.pop_front()?;
        Some(self.apply_sagas(&commit))
    }

    /// Makes `token` the token of a shard's sagas and answers what there is.
    pub fn acquire_sagas(&self, shard: ShardId, token: u64, nonce: u64) -> Acquired {
        self.write(|tables| {
            let stored = tables.sagas.shards.get(&shard).copied().unwrap_or_default();
            if token < stored.token {
                return Acquired::Lost { token: stored.token };
            }
            let record = SagaShardRecord { token, beat: stored.beat + 1, nonce, floor: stored.floor };
            tables.sagas.shards.insert(shard, record);
            Acquired::Taken(Box::new(tables.sagas.takeover(shard, record)))
        })
    }

    /// Carries out a commit of sagas by the fate that is planned for it.
    pub fn commit_sagas_by_fate(&self, commit: SagaCommit) -> Result<(), StoreError> {
        self.check()?;
        let fate = self.faults.lock().saga_planned.pop_front().unwrap_or(Fate::Apply);
        let unknown = || StoreError::Unavailable("the connection broke before the answer came".into());
        match fate {
            Fate::Apply => self.apply_sagas(&commit),
            Fate::Refuse(error) => Err(error),
            Fate::ApplyUnknown => {
                // A conflict stays unknown too: the caller never heard of it.
                let _unheard = self.apply_sagas(&commit);
                Err(unknown())
            }
            Fate::ApplyAndBreak => {
                let _unheard = self.apply_sagas(&commit);
                self.fail_all(Some(unknown()));
                Err(unknown())
            }
            Fate::Lose => Err(unknown()),
            Fate::Hold => {
                self.faults.lock().saga_held.push_back(commit);
                Err(unknown())
            }
        }
    }
}

#[async_trait]
impl SagaStore for MemoryStore {
    async fn acquire(&self, shard: ShardId, token: u64, nonce: u64) -> Result<Acquired, StoreError> {
        self.check()?;
        Ok(self.acquire_sagas(shard, token, nonce))
    }

    async fn saga_shard(&self, shard: ShardId) -> Result<SagaShardRecord, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.sagas.shards.get(&shard).copied().unwrap_or_default()))
    }

    async fn commit_sagas(&self, commit: SagaCommit) -> Result<(), StoreError> {
        self.commit_sagas_by_fate(commit)
    }

    async fn saga(&self, shard: ShardId, key: &SagaKey) -> Result<Option<Arc<SagaRow>>, StoreError> {
        self.check()?;
        let at = (shard, key.clone());
        self.read(|tables| {
            let found = tables.sagas.open.get(&at).or_else(|| tables.sagas.done.get(&at)).cloned();
            match tables.sagas.aside_of(shard, key).last() {
                Some(_) if found.is_none() => Err(StoreError::Corrupt(format!("saga {key} lies in quarantine"))),
                _ => Ok(found),
            }
        })
    }

    async fn list_sagas(
        &self,
        table: SagaTable,
        filter: &SagaFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SagaSummary>, StoreError> {
        self.check()?;
        let rows = self.read(|tables| tables.sagas.newest(table));
        page(rows.into_iter(), |saga| filter.takes(saga), cursor, limit)
    }

    async fn count_sagas(&self, table: SagaTable, filter: &SagaFilter) -> Result<u64, StoreError> {
        self.check()?;
        Ok(self
            .read(|tables| tables.sagas.table(table).values().filter(|row| filter.takes(&row.summary)).count() as u64))
    }

    async fn expire_sagas(
        &self,
        before: UnixMillis,
        derived_longer: Duration,
        limit: usize,
    ) -> Result<Expired, StoreError> {
        self.check()?;
        Ok(self.write(|tables| {
            let sagas = &mut tables.sagas;
            let longer = |key: &SagaKey| if is_derived(key.id.as_str()) { derived_longer } else { Duration::ZERO };
            let mut old: Vec<_> = sagas
                .done
                .iter()
                .filter(|(key, _)| !sagas.is_needed(key))
                .filter_map(|(key, row)| row.summary.ended_at.map(|at| (at.plus(longer(&key.1)), key.clone())))
                .filter(|(until, _)| *until < before)
                .collect();
            old.sort();
            old.truncate(limit);
            for (_, key) in &old {
                sagas.done.remove(key);
                sagas.ends.remove(key);
            }
            Expired { removed: old.len() as u64, put_off: 0 }
        }))
    }

    async fn put_definition(&self, definition: &StoredDefinition) -> Result<DefinitionPut, StoreError> {
        self.check()?;
        let key = (definition.reference.name.to_string(), definition.reference.version);
        Ok(self.write(|tables| match tables.sagas.definitions.get(&key) {
            Some(there) if there.reference.hash == definition.reference.hash => DefinitionPut::Same(there.clone()),
            Some(there) => DefinitionPut::Taken(there.clone()),
            None => {
                tables.sagas.definitions.insert(key, definition.clone());
                DefinitionPut::Created
            }
        }))
    }

    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<StoredDefinition>, StoreError> {
        self.check()?;
        let range = (name.to_owned(), version.unwrap_or(0))..=(name.to_owned(), version.unwrap_or(u32::MAX));
        Ok(self.read(|tables| tables.sagas.definitions.range(range).next_back().map(|(_, found)| found.clone())))
    }

    async fn definition_by_hash(&self, hash: &DefinitionHash) -> Result<Option<StoredDefinition>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.sagas.definitions.values().find(|found| found.reference.hash == *hash).cloned()))
    }

    async fn definitions(
        &self,
        name: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<StoredDefinition>, StoreError> {
        self.check()?;
        let mut all: Vec<StoredDefinition> = self.read(|tables| tables.sagas.definitions.values().cloned().collect());
        all.sort_by(|a, b| {
            (&a.reference.name, u32::MAX - a.reference.version)
                .cmp(&(&b.reference.name, u32::MAX - b.reference.version))
        });
        let at = |found: &StoredDefinition| {
            At(Vec::from([0]), format!("{}\0{:010}", found.reference.name, u32::MAX - found.reference.version))
        };
        let all = all.into_iter().map(|found| (at(&found), found));
        page(all, |found| name.is_none_or(|name| *found.reference.name == *name), cursor, limit)
    }

    async fn dead_saga(&self, shard: ShardId, key: &SagaKey) -> Result<Option<Arc<SagaDead>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.sagas.dead.get(&(shard, key.clone())).cloned()))
    }

    async fn dead_sagas(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<SagaDead>>, StoreError> {
        self.check()?;
        let dead: Vec<(At, Arc<SagaDead>)> = self.read(|tables| {
            let dead = tables.sagas.dead.iter();
            dead.map(|((shard, key), dead)| {
                (At(vec![u64::from(shard.0)], format!("{}\0{}", key.tenant, key.id)), Arc::clone(dead))
            })
            .collect()
        });
        page(dead.into_iter(), |dead| filter.takes_dead_saga(dead), cursor, limit)
    }

    async fn mark_dead_saga(&self, shard: ShardId, key: &SagaKey, state: &DeadState) -> Result<bool, StoreError> {
        self.check()?;
        Ok(self.write(|tables| match tables.sagas.dead.get_mut(&(shard, key.clone())) {
            Some(dead) => {
                Arc::make_mut(dead).state = state.clone();
                true
            }
            None => false,
        }))
    }
}
