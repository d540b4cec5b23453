//! The next commit: journal, rows, dead letters, messages.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::batch::{Batch, Entry};
use super::exact::{Tried, slots_of};
use super::{Running, SagaShard};
use crate::ids::ShardId;
use crate::message::Message;
use crate::port::inbox_store::SagaDoorKey;
use crate::port::transact::DoorGroup;
use crate::saga::limits::SagaLimits;
use crate::saga::machine::Rule;
use crate::saga::records::{BrokenSaga, JournalEntry, SagaCommit, SagaRow, SagaShardRecord, SagaWrite};
use crate::streams::joint::JointAppends;

/// The commit that is out.
#[derive(Debug)]
pub(super) struct Flight {
    pub batch: Batch,
    /// Sagas that it sets aside.
    pub aside: Vec<Arc<BrokenSaga>>,
    pub record: SagaShardRecord,
    /// What becomes of the trees in it when it goes in.
    pub changes: Vec<(u64, Change)>,
    /// What it removes of the door besides.
    pub settled_door: Vec<SagaDoorKey>,
    /// Answers in it whose events number themselves, by the slots of their trees, which stand still meanwhile.
    pub tried: BTreeMap<u64, Tried>,
    /// The slot of each append of the commit, in order, if there is any of these.
    pub slots: Vec<u64>,
    /// Barriers that were tried since it failed.
    pub barriers: Vec<u64>,
}

/// What a commit makes of a tree's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub ended: bool,
    pub has_row: bool,
    pub has_dead: bool,
    pub journal_from: Option<u64>,
}

impl Flight {
    /// Of a commit that holds one saga only: its slot.
    pub fn only_slot(&self) -> Option<u64> {
        match self.changes.as_slice() {
            [(slot, _)] if self.aside.is_empty() => Some(*slot),
            _ => None,
        }
    }
}

/// It keeps the journal from being cut for too long.
fn is_stale(running: &Running, limits: &SagaLimits, beat: u64) -> bool {
    running.journal_from.is_some_and(|from| from + limits.journal_records_max < beat)
}

/// Whether a commit writes the whole tree, and not only what happened to it.
pub(super) fn is_whole(entry: &Entry, running: &Running, limits: &SagaLimits, beat: u64) -> bool {
    let tree = &running.tree;
    entry.row || tree.is_ended() || tree.needs_operator() || is_stale(running, limits, beat)
}

impl SagaShard {
    /// Whether something waits for a commit.
    pub fn has_work(&self) -> bool {
        !self.waiting.entries.is_empty()
            || !self.aside.is_empty()
            || !self.settled_door.is_empty()
            || !self.exacts.is_empty()
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
        let bytes_max = self.config.limits.commit_bytes_max;
        // By themselves: together with others they could be more than a commit may be.
        let aside = self.take_aside(if self.apart.aside > 0 { 0 } else { bytes_max });
        let mut record = SagaShardRecord { beat: self.record.beat + 1, nonce, ..self.record };
        let mut work = Work { beat: record.beat, ..Work::default() };
        let (batch, tried) = match aside.is_empty() {
            true => self.fill_with_held(&mut work, bytes_max),
            false => (Batch::default(), BTreeMap::new()),
        };
        aside.iter().for_each(|broken| work.set_aside(broken));
        record.floor = self.floor(&work.changes).max(record.floor);
        let messages = self.doors(&batch);
        let mut events = JointAppends::default();
        batch.entries.iter().for_each(|entry| events.extend(entry.appends.clone()));
        let slots = if tried.is_empty() { Vec::new() } else { slots_of(&batch) };
        let settled_door = self.take_settled_door(aside.is_empty());
        if batch.entries.is_empty() && aside.is_empty() && work.changes.is_empty() && settled_door.is_empty() {
            // Answers that were kept and decide nothing any more.
            return None;
        }
        work.writes.extend(self.audit(&batch.entries, record.beat));
        let door = batch.entries.iter().flat_map(|entry| &entry.door).chain(&settled_door).copied().collect();
        let (changes, barriers) = (work.changes, Vec::new());
        self.flight = Some(Flight { batch, aside, record, changes, settled_door, tried, slots, barriers });
        Some(SagaCommit {
            shard: self.config.shard,
            expect_token: self.record.token,
            expect_beat: self.record.beat,
            record,
            journal: work.journal,
            writes: work.writes,
            messages,
            events,
            door,
        })
    }

    /// Journal records below this beat are of no use once a commit with these changes is in. Of a saga that ends in it nothing is
    /// needed then: a shard that has come to rest keeps no ended saga from being removed in its time.
    fn floor(&self, changes: &[(u64, Change)]) -> u64 {
        if !self.aside.is_empty() || !self.unmovable.is_empty() {
            // What the journal holds of them lies nowhere else yet.
            return self.record.floor;
        }
        let next = self.record.beat + 1;
        if !self.config.rules.kept(Rule::KeepJournal) {
            return next;
        }
        let changed: HashSet<u64> = changes.iter().map(|(slot, _)| *slot).collect();
        let unchanged = self.journal.iter().find(|(_, slot)| !changed.contains(slot)).map(|(oldest, _)| *oldest);
        changes.iter().filter_map(|(_, change)| change.journal_from).chain(unchanged).min().unwrap_or(next)
    }

    /// Sagas for the next commit to set aside, up to a size, at least one if there is any.
    fn take_aside(&mut self, bytes_max: usize) -> Vec<Arc<BrokenSaga>> {
        let (mut weight, mut count) = (0, 0);
        for broken in &self.aside {
            weight += broken.weight();
            if count > 0 && weight > bytes_max {
                break;
            }
            count += 1;
        }
        self.aside.drain(..count).collect()
    }

    /// Fills a commit up to a size, with at least one saga if there is any.
    pub(super) fn fill(&mut self, work: &mut Work, bytes_max: usize) -> Batch {
        if !self.apart.is_over() {
            return self.fill_apart(work, bytes_max);
        }
        // Rows for the journal's sake get up to half of it, so that neither they nor what moves ever waits for the other.
        let weight = self.checkpoints(work, bytes_max / 2);
        if weight > 0 && weight >= bytes_max {
            return Batch::default();
        }
        self.moved(work, bytes_max.saturating_sub(weight))
    }

    /// While a refused commit is tried saga by saga: a row for the journal's sake and something that waits in turn. What came
    /// after the refusal waits until all that was in that commit has been tried, but not for the rows.
    fn fill_apart(&mut self, work: &mut Work, bytes_max: usize) -> Batch {
        if !std::mem::take(&mut self.apart.row_went) {
            if self.checkpoints(work, 0) > 0 {
                self.apart.row_went = true;
                return Batch::default();
            }
            // Those of the refused commit have moved since, or stand still.
            self.apart.rows = 0;
        }
        self.moved(work, if self.apart.entries > 0 { 0 } else { bytes_max })
    }

    /// What waits, up to a size, at least one saga.
    fn moved(&mut self, work: &mut Work, bytes_max: usize) -> Batch {
        let (beat, running, limits) = (work.beat, &self.running, &self.config.limits);
        let batch = self.waiting.take(bytes_max, |entry| {
            let messages: usize = entry.messages.iter().map(|message| message.payload.len()).sum();
            let running = running.get(&entry.slot).filter(|running| is_whole(entry, running, limits, beat));
            messages + entry.appends.weight() + running.map_or(entry.weight, |running| running.tree.weight)
        });
        for entry in &batch.entries {
            if let Some(running) = running.get(&entry.slot) {
                work.entry(entry, running, is_whole(entry, running, limits, beat));
            }
        }
        batch
    }

    /// Rows for those that keep the journal from being cut and don't move, up to a size, at least one if there is any. Answers their
    /// size.
    fn checkpoints(&self, work: &mut Work, bytes_max: usize) -> usize {
        let (beat, limits) = (work.beat, &self.config.limits);
        let stale = self.journal.iter().take_while(|(from, _)| from + limits.journal_records_max < beat);
        let still = stale.filter_map(|(_, slot)| {
            let running = self.running.get(slot).filter(|running| !running.too_large)?;
            (!self.waiting.has(*slot)).then_some((*slot, running))
        });
        let mut weight = 0;
        for (slot, running) in still.take(limits.checkpoints_max) {
            if weight > 0 && weight + running.tree.weight > bytes_max {
                break;
            }
            weight += running.tree.weight;
            work.put_row(running);
            let (has_row, has_dead) = (true, running.has_dead);
            work.changes.push((slot, Change { ended: false, has_row, has_dead, journal_from: None }));
        }
        weight
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
pub(super) struct Work {
    pub beat: u64,
    journal: Vec<JournalEntry>,
    writes: Vec<SagaWrite>,
    pub changes: Vec<(u64, Change)>,
}

impl Work {
    pub fn entry(&mut self, entry: &Entry, running: &Running, rests: bool) {
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
