//! A new writer: rows and journal become trees again, and what was being called when the last one ended is called again.

use std::collections::HashMap;
use std::sync::Arc;

use super::{SagaShard, SagaShardConfig};
use crate::saga::definition::{Definition, DefinitionSet};
use crate::saga::id::{DefinitionHash, SagaKey};
use crate::saga::records::{JournalEntry, SagaTakeover};
use crate::saga::state::Tree;
use crate::time::UnixMillis;

/// A shard that was taken over.
#[derive(Debug)]
pub struct Restored {
    /// It.
    pub shard: SagaShard,
    /// Sagas that can't be restored, and why. Their records stay as they are, and the journal isn't cut while there are any.
    pub broken: Vec<(SagaKey, String)>,
}

/// A tree in the making.
struct Found {
    tree: Tree,
    has_row: bool,
    journal_from: Option<u64>,
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
        let mut broken: Vec<(SagaKey, String)> = Vec::new();
        let mut found: HashMap<SagaKey, Found> = HashMap::new();
        for row in &takeover.rows {
            let tree = (*row.tree).clone();
            found.insert(tree.key.clone(), Found { tree, has_row: true, journal_from: None });
        }
        let ended = ended(&takeover);
        for record in takeover.journal {
            for entry in record.entries {
                // What lies before the end of a saga is of no use, and may have holes where it had a row.
                if ended.get(&entry.key).is_some_and(|end| record.beat <= *end) {
                    continue;
                }
                if let Err(cause) = replay(&mut found, record.beat, &entry) {
                    found.remove(&entry.key);
                    broken.push((entry.key, cause));
                }
            }
        }
        let mut shard = Self::empty(config, takeover.record, now);
        let mut found: Vec<Found> = found.into_values().collect();
        found.sort_by(|a, b| a.tree.key.cmp(&b.tree.key));
        for Found { tree, has_row, journal_from } in found {
            let key = tree.key.clone();
            let Some(definitions) = DefinitionSet::restore(&tree.started, &lookup) else {
                broken.push((key, "a definition that it runs on isn't in the store".to_owned()));
                continue;
            };
            shard.clock = shard.clock.max(tree.updated_at);
            let has_dead = takeover.dead.contains(&key);
            let slot = shard.insert(tree, Arc::new(definitions));
            if let Some(running) = shard.running.get_mut(&slot) {
                (running.has_row, running.has_dead, running.journal_from) = (has_row, has_dead, journal_from);
                running.rested = has_row && journal_from.is_none();
            }
            if let Some(from) = journal_from {
                shard.journal.insert((from, slot));
            }
        }
        shard.keeps_journal = !broken.is_empty();
        let turn = shard.turn(now, random);
        let mut slots: Vec<u64> = shard.running.keys().copied().collect();
        slots.sort_unstable();
        for slot in slots {
            shard.work(slot, turn, None, |machine| machine.recover());
        }
        Restored { shard, broken }
    }
}

/// The beat at which each saga ended, of those whose end the journal still holds.
fn ended(takeover: &SagaTakeover) -> HashMap<SagaKey, u64> {
    let records = takeover.journal.iter().flat_map(|record| record.entries.iter().map(|entry| (record.beat, entry)));
    let mut ended = HashMap::new();
    for (beat, entry) in records.filter(|(_, entry)| entry.ended) {
        let last = ended.entry(entry.key.clone()).or_insert(beat);
        *last = beat.max(*last);
    }
    ended
}

/// Applies what one commit holds of one tree.
fn replay(found: &mut HashMap<SagaKey, Found>, beat: u64, entry: &JournalEntry) -> Result<(), String> {
    if !found.contains_key(&entry.key) && entry.from == 0 {
        let first = entry.events.first().ok_or("its first journal entry is empty")?;
        let tree = Tree::begin(entry.key.clone(), first).ok_or("its first event isn't its start")?;
        found.insert(entry.key.clone(), Found { tree, has_row: false, journal_from: Some(beat) });
    }
    // No tree and not its start: it ended, and its start was cut off the journal.
    let Some(known) = found.get_mut(&entry.key) else { return Ok(()) };
    if entry.from > known.tree.events {
        let (from, events) = (entry.from, known.tree.events);
        return Err(format!("its journal has a gap: event {from} follows {events} events"));
    }
    let skip = (known.tree.events - entry.from) as usize;
    for event in entry.events.iter().skip(skip) {
        known.journal_from.get_or_insert(beat);
        known.tree.apply(event);
    }
    Ok(())
}
