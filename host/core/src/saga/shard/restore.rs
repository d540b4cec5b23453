//! A new writer: rows and journal become trees again, and what was being called when the last one ended is called again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::suspects::Plan;
use super::{SagaShard, SagaShardConfig};
use crate::saga::definition::{Definition, DefinitionSet};
use crate::saga::event::{SagaNumber, StepNumber};
use crate::saga::id::{DefinitionHash, SagaKey};
use crate::saga::records::{BrokenSaga, JournalEntry, SagaRow, SagaTakeover};
use crate::saga::state::Tree;
use crate::time::UnixMillis;

const NO_DEFINITION: &str = "a definition that it runs on isn't in the store, or can't be read";

/// A shard that was taken over.
#[derive(Debug)]
pub struct Restored {
    pub shard: SagaShard,
    /// Sagas that can't be restored. The shard's next commits set them aside
    /// ([`SagaWrite::SetAside`](crate::saga::records::SagaWrite::SetAside)), and until then its journal isn't cut.
    pub broken: Vec<Arc<BrokenSaga>>,
}

/// A tree in the making.
struct Found {
    tree: Tree,
    /// Events that its row holds, if it has one.
    in_row: Option<u32>,
    journal_from: Option<u64>,
}

impl Found {
    fn of_row(row: &SagaRow) -> Self {
        Self { tree: (*row.tree).clone(), in_row: Some(row.tree.events), journal_from: None }
    }
}

impl SagaShard {
    /// Begins to write a shard's sagas with what [`crate::port::saga_store::SagaStore::acquire`] answered. `lookup` knows the
    /// definitions that [`SagaTakeover::definitions`] names. `random` is uniform in [0, 1).
    pub fn restore(
        config: SagaShardConfig,
        takeover: SagaTakeover,
        lookup: impl Fn(&DefinitionHash) -> Option<Arc<Definition>>,
        now: UnixMillis,
        random: f64,
    ) -> Restored {
        let died = config.died;
        let (found, mut broken) = replayed(&takeover);
        let mut shard = Self::empty(config, takeover.record, now);
        let mut found: Vec<Found> = found.into_values().collect();
        found.sort_by(|a, b| a.tree.key.cmp(&b.tree.key));
        for Found { tree, in_row, journal_from } in found {
            let key = tree.key.clone();
            let Some(definitions) = DefinitionSet::restore(&tree.started, &lookup) else {
                broken.insert(key, NO_DEFINITION.to_owned());
                continue;
            };
            shard.clock = shard.clock.max(tree.updated_at);
            let (has_row, has_dead) = (in_row.is_some(), takeover.dead.contains(&key));
            let slot = shard.insert(tree, Arc::new(definitions));
            if let Some(running) = shard.running.get_mut(&slot) {
                (running.has_row, running.has_dead, running.journal_from) = (has_row, has_dead, journal_from);
                running.rested = has_row && journal_from.is_none();
            }
            if let Some(from) = journal_from {
                shard.journal.insert((from, slot));
            }
        }
        let broken = with_records(&takeover, broken);
        shard.aside.clone_from(&broken);
        let turn = shard.turn(now, random);
        let mut slots: Vec<u64> = shard.running.keys().copied().collect();
        slots.sort_unstable();
        let running = slots.iter().filter_map(|slot| Some((*slot, shard.running.get(slot)?)));
        let plan = Plan::new(running, died, turn.now);
        for slot in slots {
            let fate =
                |saga: SagaNumber, step: StepNumber| plan.calls.get(&(slot, saga, step)).copied().unwrap_or_default();
            shard.work(slot, turn, None, |machine| machine.recover(died, fate));
        }
        shard.trials = plan.trials;
        Restored { shard, broken }
    }
}

/// The row that a saga gets that was set aside, made of the rows (the one with most events counts) and the journal entries that
/// were kept of it; the same entry twice counts once. `lookup` knows the definitions that [`SagaTakeover::definitions`] names. The
/// error says why it still can't be restored.
pub fn rebuilt(
    key: &SagaKey,
    kept: &SagaTakeover,
    lookup: impl Fn(&DefinitionHash) -> Option<Arc<Definition>>,
) -> Result<SagaRow, String> {
    let row = kept.rows.iter().filter(|row| row.tree.key == *key).max_by_key(|row| row.tree.events);
    let mut found: HashMap<SagaKey, Found> = row.map(|row| (key.clone(), Found::of_row(row))).into_iter().collect();
    let mut entries: Vec<&JournalEntry> = kept.journal.iter().flat_map(|record| &record.entries).collect();
    entries.retain(|entry| entry.key == *key);
    entries.sort_by_key(|entry| entry.from);
    entries.dedup();
    for entry in entries {
        replay(&mut found, 0, entry)?;
    }
    let tree = found.remove(key).ok_or("nothing of it is left")?.tree;
    let definitions = DefinitionSet::restore(&tree.started, &lookup).ok_or(NO_DEFINITION)?;
    Ok(SagaRow { summary: tree.summary(&definitions), tree: Arc::new(tree) })
}

/// The trees of a shard, and those that can't be made, with why.
fn replayed(takeover: &SagaTakeover) -> (HashMap<SagaKey, Found>, BTreeMap<SagaKey, String>) {
    let rows = takeover.rows.iter().map(|row| (row.tree.key.clone(), Found::of_row(row)));
    let mut found: HashMap<SagaKey, Found> = rows.collect();
    let mut broken = BTreeMap::new();
    let ended = ended(takeover);
    for (beat, entry) in going_on(takeover, &ended) {
        if broken.contains_key(&entry.key) {
            continue;
        }
        if let Err(cause) = replay(&mut found, beat, entry) {
            found.remove(&entry.key);
            broken.insert(entry.key.clone(), cause);
        }
    }
    (found, broken)
}

/// Sagas that can't be restored, with all that is known of them.
fn with_records(takeover: &SagaTakeover, broken: BTreeMap<SagaKey, String>) -> Vec<Arc<BrokenSaga>> {
    if broken.is_empty() {
        return Vec::new();
    }
    let mut rows: HashMap<&SagaKey, &Arc<SagaRow>> = HashMap::new();
    rows.extend(takeover.rows.iter().map(|row| (&row.tree.key, row)));
    let mut entries: HashMap<&SagaKey, Vec<JournalEntry>> = HashMap::new();
    let ended = ended(takeover);
    for (_, entry) in going_on(takeover, &ended).filter(|(_, entry)| broken.contains_key(&entry.key)) {
        entries.entry(&entry.key).or_default().push(entry.clone());
    }
    let whole = broken.iter().map(|(key, reason)| {
        let row = rows.get(key).copied().cloned();
        let entries = entries.remove(key).unwrap_or_default();
        Arc::new(BrokenSaga { key: key.clone(), reason: reason.clone(), row, entries })
    });
    whole.collect()
}

/// The beat at which each saga ended, of those whose end the journal still holds.
fn ended(takeover: &SagaTakeover) -> HashMap<&SagaKey, u64> {
    let records = takeover.journal.iter().flat_map(|record| record.entries.iter().map(|entry| (record.beat, entry)));
    let mut ended = HashMap::new();
    for (beat, entry) in records.filter(|(_, entry)| entry.ended) {
        let last = ended.entry(&entry.key).or_insert(beat);
        *last = beat.max(*last);
    }
    ended
}

/// What the journal holds behind the ends of sagas, with its beats. What lies before an end is of no use, and may have holes
/// where the saga had a row.
fn going_on<'t>(
    takeover: &'t SagaTakeover,
    ended: &HashMap<&'t SagaKey, u64>,
) -> impl Iterator<Item = (u64, &'t JournalEntry)> {
    let entries = takeover.journal.iter().flat_map(|record| record.entries.iter().map(|entry| (record.beat, entry)));
    entries.filter(move |(beat, entry)| ended.get(&entry.key).is_none_or(|end| beat > end))
}

/// Applies what one commit holds of one tree. What its row holds already is passed over; events that are there twice in another
/// way say that the saga went on without some of them, and nobody knows which ones count.
fn replay(found: &mut HashMap<SagaKey, Found>, beat: u64, entry: &JournalEntry) -> Result<(), String> {
    let Some(known) = found.get_mut(&entry.key) else {
        if entry.from > 0 {
            return Err(format!("its journal goes on with event {}, and what was before isn't there", entry.from));
        }
        let (first, later) = entry.events.split_first().ok_or("its first journal entry is empty")?;
        let mut tree = Tree::begin(entry.key.clone(), first).ok_or("its first event isn't its start")?;
        later.iter().for_each(|event| tree.apply(event));
        found.insert(entry.key.clone(), Found { tree, in_row: None, journal_from: Some(beat) });
        return Ok(());
    };
    let (events, in_row) = (known.tree.events, known.in_row.unwrap_or(0));
    if entry.from > events {
        return Err(format!("its journal has a gap: event {} follows {events} events", entry.from));
    }
    let skip = in_row.saturating_sub(entry.from) as usize;
    let Some(new) = entry.events.get(skip..).filter(|new| !new.is_empty()) else { return Ok(()) };
    if entry.from.max(in_row) < events {
        let from = entry.from;
        return Err(format!("its journal holds events twice: event {from} comes again after {events} events"));
    }
    known.journal_from.get_or_insert(beat);
    new.iter().for_each(|event| known.tree.apply(event));
    Ok(())
}
