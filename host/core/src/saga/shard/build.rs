//! The next commit: journal, rows, dead letters, messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::batch::{Batch, Entry};
use super::{Running, SagaShard};
use crate::ids::ShardId;
use crate::message::Message;
use crate::port::transact::DoorGroup;
use crate::saga::machine::Rule;
use crate::saga::records::{BrokenSaga, JournalEntry, SagaCommit, SagaRow, SagaShardRecord, SagaWrite};

/// The commit that is out.
#[derive(Debug)]
pub(super) struct Flight {
    pub batch: Batch,
    /// Sagas that it sets aside.
    pub aside: Vec<Arc<BrokenSaga>>,
    pub record: SagaShardRecord,
    /// What becomes of the trees in it when it goes in.
    pub changes: Vec<(u64, Change)>,
    /// It failed, and these barriers were tried since.
    pub barriers: Option<Vec<u64>>,
}

/// What a commit makes of a tree's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub ended: bool,
    pub has_row: bool,
    pub has_dead: bool,
    pub journal_from: Option<u64>,
}

impl SagaShard {
    /// Whether something waits for a commit.
    pub fn has_work(&self) -> bool {
        !self.waiting.entries.is_empty() || !self.aside.is_empty()
    }

    /// Whether a commit is out.
    pub fn in_flight(&self) -> bool {
        self.flight.is_some()
    }

    /// The next commit; none while one is out or nothing waits. `nonce` is fresh and random.
    pub fn build(&mut self, nonce: u64) -> Option<SagaCommit> {
        if self.flight.is_some() || !self.has_work() {
            return None;
        }
        // By themselves: together with others they could be more than a commit may be.
        let aside = self.take_aside();
        let bytes_max = self.config.limits.commit_bytes_max;
        let batch = if aside.is_empty() { self.waiting.take(bytes_max) } else { Batch::default() };
        let record = SagaShardRecord {
            token: self.record.token,
            beat: self.record.beat + 1,
            nonce,
            floor: self.floor().max(self.record.floor),
        };
        let mut work = Work { beat: record.beat, ..Work::default() };
        for entry in &batch.entries {
            let Some(running) = self.running.get(&entry.slot) else { continue };
            let rests = entry.row || running.tree.needs_operator() || self.is_stale(running, record.beat);
            work.entry(entry, running, rests);
        }
        if aside.is_empty() {
            self.checkpoints(&batch, &mut work);
        }
        aside.iter().for_each(|broken| work.set_aside(broken));
        let messages = self.doors(&batch);
        self.flight = Some(Flight { batch, aside, record, changes: work.changes, barriers: None });
        Some(SagaCommit {
            shard: self.config.shard,
            expect_token: self.record.token,
            expect_beat: self.record.beat,
            record,
            journal: work.journal,
            writes: work.writes,
            messages,
        })
    }

    /// Journal records below this beat are of no use, as things are committed.
    fn floor(&self) -> u64 {
        if !self.aside.is_empty() {
            // What the journal holds of them lies nowhere else yet.
            return self.record.floor;
        }
        let next = self.record.beat + 1;
        if !self.config.rules.kept(Rule::KeepJournal) {
            return next;
        }
        self.journal.first().map_or(next, |(oldest, _)| *oldest)
    }

    /// Sagas for the next commit to set aside, up to a size, at least one if there is any.
    fn take_aside(&mut self) -> Vec<Arc<BrokenSaga>> {
        let (mut weight, mut count) = (0, 0);
        for broken in &self.aside {
            weight += broken.weight();
            if count > 0 && weight > self.config.limits.commit_bytes_max {
                break;
            }
            count += 1;
        }
        self.aside.drain(..count).collect()
    }

    /// It keeps the journal from being cut for too long.
    fn is_stale(&self, running: &Running, beat: u64) -> bool {
        running.journal_from.is_some_and(|from| from + self.config.limits.journal_records_max < beat)
    }

    /// Rows for those that keep the journal from being cut and don't move.
    fn checkpoints(&self, batch: &Batch, work: &mut Work) {
        let beat = work.beat;
        let stale = self.journal.iter().take_while(|(from, _)| from + self.config.limits.journal_records_max < beat);
        for (_, slot) in stale.take(self.config.limits.checkpoints_max) {
            let busy = batch.entries.iter().chain(&self.waiting.entries).any(|entry| entry.slot == *slot);
            if let Some(running) = self.running.get(slot).filter(|_| !busy) {
                work.put_row(running);
                let (has_row, has_dead) = (true, running.has_dead);
                work.changes.push((*slot, Change { ended: false, has_row, has_dead, journal_from: None }));
            }
        }
    }

    /// Messages by outbox shard, in order.
    fn doors(&self, batch: &Batch) -> Vec<DoorGroup> {
        let mut groups: BTreeMap<ShardId, Vec<Arc<Message>>> = BTreeMap::new();
        for message in batch.entries.iter().flat_map(|entry| &entry.messages) {
            let count = self.config.limits.outbox_shards;
            let shard = ShardId::of(&message.tenant, message.key.as_ref(), Some(&message.id), 0, count);
            groups.entry(shard).or_default().push(Arc::clone(message));
        }
        groups.into_iter().map(|(shard, messages)| DoorGroup { shard, messages }).collect()
    }
}

/// A commit in the making.
#[derive(Debug, Default)]
struct Work {
    beat: u64,
    journal: Vec<JournalEntry>,
    writes: Vec<SagaWrite>,
    changes: Vec<(u64, Change)>,
}

impl Work {
    fn entry(&mut self, entry: &Entry, running: &Running, rests: bool) {
        let key = &running.tree.key;
        if running.tree.is_ended() {
            return self.ended(entry, running);
        }
        let dead = running.tree.dead_letter(&running.definitions);
        let has_dead = dead.is_some();
        match dead {
            Some(dead) => self.writes.push(SagaWrite::PutDead(Arc::new(dead))),
            None if running.has_dead => self.writes.push(SagaWrite::DeleteDead(key.clone())),
            None => {}
        }
        let change = if rests {
            self.put_row(running);
            Change { ended: false, has_row: true, has_dead, journal_from: None }
        } else {
            let (from, events) = (entry.from, entry.events.clone());
            self.journal.push(JournalEntry { key: key.clone(), from, events, ended: false });
            let journal_from = Some(running.journal_from.unwrap_or(self.beat));
            Change { ended: false, has_row: running.has_row, has_dead, journal_from }
        };
        self.changes.push((entry.slot, change));
    }

    fn ended(&mut self, entry: &Entry, running: &Running) {
        let key = &running.tree.key;
        self.writes.push(SagaWrite::PutDone(row(running)));
        if running.has_row {
            self.writes.push(SagaWrite::DeleteRow(key.clone()));
        }
        if running.has_dead {
            self.writes.push(SagaWrite::DeleteDead(key.clone()));
        }
        if entry.from > 0 {
            self.journal.push(JournalEntry { key: key.clone(), from: entry.from, events: Vec::new(), ended: true });
        }
        let change = Change { ended: true, has_row: false, has_dead: false, journal_from: None };
        self.changes.push((entry.slot, change));
    }

    fn set_aside(&mut self, broken: &Arc<BrokenSaga>) {
        self.writes.push(SagaWrite::SetAside(Arc::clone(broken)));
        let from = broken.entries.last().map_or(0, |last| last.from);
        self.journal.push(JournalEntry { key: broken.key.clone(), from, events: Vec::new(), ended: true });
    }

    fn put_row(&mut self, running: &Running) {
        self.writes.push(SagaWrite::PutRow(row(running)));
    }
}

fn row(running: &Running) -> Arc<SagaRow> {
    let summary = running.tree.summary(&running.definitions);
    Arc::new(SagaRow { summary, tree: Arc::clone(&running.tree) })
}
