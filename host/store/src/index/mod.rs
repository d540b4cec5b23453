//! Indexes over what messages hold (`[[index]]`): rows that stand beside messages, so that `query` looks up what it would have to look for.
//!
//! A row goes in with the commit that gives a message its place, and stays under that place whatever becomes of the message: in the order,
//! waiting for a retry, dead, finished. It goes with the history, or with the payload of a dead letter that is purged. A row without a
//! message is of no matter: whoever looks finds nothing at its place.
//!
//! What it doesn't do: index scheduled messages, which have no place yet, and what was there before an index. Each shard says up to where
//! that is ([`Kept::since`]), and it is looked through as without an index.
//!
//! | file | holds |
//! |---|---|
//! | `rows` | keys and columns |
//! | `writing` | what a commit adds and removes |

mod rows;
mod writing;

pub use rows::{Kept, keys, place_in, range, shard};
pub use writing::{Indexing, rows_of_done};

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waybill_core::ids::ShardId;
use waybill_core::outbox::filter::ContentField;
use waybill_core::outbox::index::Index;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Transaction, array, int, key};

use crate::fault::store_error;
use crate::tables::{INDEX, part_text};

/// Fields that are looked for among the rows of indexes: those of an earlier configuration may still be there.
const FIELDS_MAX: usize = 256;

/// What this process writes to indexes.
#[derive(Debug, Default)]
pub struct Indexes(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    set: Arc<[Index]>,
    /// Grows with each change of the set.
    generation: u64,
    /// Token and generation of what each shard's row says; none while a commit is out that writes it, or failed.
    noted: HashMap<ShardId, Option<(u64, u64)>>,
    /// Of which fields there may be rows.
    fields: Arc<BTreeSet<ContentField>>,
}

/// What a commit has to know of them.
#[derive(Debug)]
struct Begun {
    set: Arc<[Index]>,
    generation: u64,
    fields: Arc<BTreeSet<ContentField>>,
    /// The shard's row has to be written.
    note: bool,
}

impl Indexes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From the next commit on these are written.
    pub fn set(&self, indexes: Vec<Index>) {
        let mut state = self.lock();
        if *state.set == *indexes {
            return;
        }
        let fields = indexes.iter().map(|index| index.field.clone()).chain(state.fields.iter().cloned()).collect();
        state.fields = Arc::new(fields);
        state.set = indexes.into();
        state.generation += 1;
    }

    /// Takes note of the fields that have rows.
    pub fn found(&self, fields: BTreeSet<ContentField>) {
        let mut state = self.lock();
        let of_set = state.set.iter().map(|index| index.field.clone());
        state.fields = Arc::new(fields.into_iter().chain(of_set).collect());
    }

    /// Whether this process has neither written nor found any.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.set.is_empty() && state.fields.is_empty() && state.noted.is_empty()
    }

    /// Before a commit of the owner with this token; none when indexes are nothing to it.
    fn begin(&self, shard: ShardId, token: u64) -> Option<Begun> {
        let mut state = self.lock();
        let (set, generation, fields) = (Arc::clone(&state.set), state.generation, Arc::clone(&state.fields));
        let note = match state.noted.get(&shard) {
            Some(stands) => *stands != Some((token, generation)),
            // What another owner left there doesn't count any more.
            None => !set.is_empty(),
        };
        if note {
            state.noted.insert(shard, None);
        }
        (note || !set.is_empty() || !fields.is_empty()).then_some(Begun { set, generation, fields, note })
    }

    /// A commit went in that wrote the shard's row.
    fn noted(&self, shard: ShardId, token: u64, generation: u64) {
        self.lock().noted.insert(shard, Some((token, generation)));
    }
}

/// The fields that have rows. It reads one row a field.
pub async fn fields(transaction: &dyn Transaction) -> Result<BTreeSet<ContentField>, StoreError> {
    let mut fields = BTreeSet::new();
    let mut from = Bound::Included(key([int(0)]));
    for _ in 0..FIELDS_MAX {
        let until = Bound::Excluded(key([array([])]));
        let rows = transaction.scan(INDEX, from, until, 1).await.map_err(store_error)?;
        let Some(row) = rows.into_iter().next() else { break };
        from = match part_text(&row.key, 0) {
            Some(name) => {
                fields.extend(Index::field(name).ok());
                Bound::Included(rows::behind(name))
            }
            None => Bound::Excluded(row.key),
        };
    }
    Ok(fields)
}
