//! Rows that can't be read. Whoever meets one goes on without it: it is moved to quarantine with its key and its bytes, in a
//! transaction of its own (segments and records of sagas in their writer's), and stays there until an operator puts it back or
//! drops it.
//!
//! | file | holds |
//! |---|---|
//! | `read` | how a row of each table is read: what "can't be read" means |
//! | `entry` | a row as it lies in quarantine |
//! | `list` | lists, counts, one with its content |
//! | `restore` | putting back and dropping |
//! | `journal` | records of the journal of sagas: what they hold goes to these |
//! | `sagas` | sagas that could not be restored: row and journal entries |
//! | `unlink` | dropping rows of sagas |
//!
//! Where a missing row would mean something (an idempotency key, say, whose request would be executed again), a marker stays in its
//! place, and whoever asks for that one row is told so.

mod entry;
mod journal;
mod list;
mod read;
mod restore;
mod sagas;
mod unlink;

use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Object, RecordIdKey, Row, Transaction, Value};

pub use entry::{adopt_earlier, is_held, put, refuse_held};
#[cfg(test)]
pub use journal::hand_out;
#[cfg(test)]
pub use read::reader;
pub use sagas::{SetAside, is_set_aside, read_for_quarantine, saga_of, set_aside};

use crate::fault::store_error;
use crate::store::{SurrealStore, finish};

/// Rows moved in one transaction.
const MOVED_AT_ONCE: usize = 100;
/// Bytes after which no further row is moved in a transaction: with the largest row behind them they fit the least write buffer.
pub const MOVED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Tries against whoever writes the same rows.
const TRIES_MAX: u32 = 5;

/// A row that could not be read.
#[derive(Clone, Debug, PartialEq)]
struct Unreadable {
    table: &'static str,
    key: RecordIdKey,
}

/// The rows that a read could not make sense of.
#[derive(Debug, Default)]
pub struct Spoilt(Vec<Unreadable>);

impl Spoilt {
    /// What was read; none when its row is damaged, which is noted. Data of a newer host is an error of the whole, as is any
    /// other.
    pub fn sift<T>(
        &mut self,
        table: &'static str,
        key: &RecordIdKey,
        read: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(StoreError::Corrupt(_)) => {
                self.note(table, key);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The same for one row that was asked for: the error goes on to whoever asked.
    pub fn note_corrupt<T>(
        &mut self,
        table: &'static str,
        key: &RecordIdKey,
        read: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Err(StoreError::Corrupt(_)) = &read {
            self.note(table, key);
        }
        read
    }

    /// Notes a row under a key that isn't one of its table, unless it is the marker of one that was moved.
    pub fn note_misplaced(&mut self, table: &'static str, row: &Row) {
        if !is_held(&row.fields) {
            self.note(table, &row.key);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn note(&mut self, table: &'static str, key: &RecordIdKey) {
        self.0.push(Unreadable { table, key: key.clone() });
    }
}

/// Rows of a range as `read` has them, in order, at most `limit`: those that can't be read are noted and don't count.
pub async fn sifted<T>(
    transaction: &dyn Transaction,
    table: &'static str,
    (mut from, until): (Bound, Bound),
    limit: usize,
    spoilt: &mut Spoilt,
    read: impl Fn(Row) -> Result<T, StoreError> + Send,
) -> Result<Vec<T>, StoreError> {
    let mut found = Vec::new();
    while found.len() < limit {
        let wanted = limit - found.len();
        let rows = transaction.scan(table, from, until.clone(), wanted).await.map_err(store_error)?;
        let is_last = rows.len() < wanted;
        let Some(last) = rows.last() else { break };
        from = Bound::Excluded(last.key.clone());
        for row in rows {
            let key = row.key.clone();
            found.extend(spoilt.sift(table, &key, read(row))?);
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}

impl SurrealStore {
    /// Moves rows that could not be read to quarantine. What can't be moved now is met again by the next read.
    pub(crate) async fn set_aside(&self, spoilt: Spoilt) {
        let mut left = spoilt.0.as_slice();
        while !left.is_empty() {
            let (rows, behind) = left.split_at(left.len().min(MOVED_AT_ONCE));
            left = match self.move_rows(rows).await {
                // At least one.
                Ok(done) => left.split_at(done.clamp(1, rows.len())).1,
                Err(error) => {
                    tracing::warn!(code = error.code().as_str(), %error, "rows that can't be read could not be moved to quarantine yet");
                    behind
                }
            };
        }
    }

    /// Moves the first of these rows, each once, as many as go into one transaction; answers how many are done.
    async fn move_rows(&self, rows: &[Unreadable]) -> Result<usize, StoreError> {
        let mut tries = 1;
        loop {
            let transaction = self.begin(true).await?;
            let worked = move_first(transaction.as_ref(), rows).await;
            match finish(transaction, worked).await {
                Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
                done => {
                    self.depth_cache().touch();
                    return done;
                }
            }
        }
    }
}

async fn move_first(transaction: &dyn Transaction, rows: &[Unreadable]) -> Result<usize, StoreError> {
    let (mut moved, mut bytes, mut done) = (Vec::<Moved>::new(), 0, 0);
    for row in rows {
        if bytes >= MOVED_BYTES_MAX {
            break;
        }
        // A read may have met a row more than once: many ids lie in one record of the seen set.
        let is_met_again = moved.iter().any(|other| other.table == row.table && other.key == row.key);
        if is_met_again {
            done += 1;
            continue;
        }
        if let Some(row) = still_unreadable(transaction, row).await? {
            bytes += weight(&row.fields, row.apart.as_ref());
            moved.push(row);
        }
        done += 1;
    }
    for Moved { table, key, fields, apart, reason } in moved {
        put(transaction, table, &key, fields, apart, &reason).await?;
    }
    Ok(done)
}

/// Bytes of a row as it is written, about.
pub fn weight(fields: &Object, apart: Option<&bytes::Bytes>) -> usize {
    fields.0.iter().map(|(name, value)| name.as_str().len() + value_weight(value)).sum::<usize>()
        + apart.map_or(0, |apart| apart.len())
}

fn value_weight(value: &Value) -> usize {
    match value {
        Value::Bytes(bytes) => bytes.0.len(),
        Value::String(text) => text.as_str().len(),
        Value::Array(items) => items.0.iter().map(value_weight).sum(),
        Value::Object(fields) => weight(fields, None),
        _ => 16,
    }
}

/// A row on its way to quarantine.
struct Moved {
    table: &'static str,
    key: RecordIdKey,
    fields: Object,
    apart: Option<bytes::Bytes>,
    reason: String,
}

/// The row as it is now, if it still can't be read: its writer may have replaced it.
async fn still_unreadable(transaction: &dyn Transaction, row: &Unreadable) -> Result<Option<Moved>, StoreError> {
    let (table, key) = (row.table, row.key.clone());
    let Some(fields) = transaction.get(table, key.clone()).await.map_err(store_error)? else { return Ok(None) };
    if is_held(&fields) {
        return Ok(None);
    }
    let apart = entry::apart(transaction, table, &key).await?;
    let found = Row { key: key.clone(), fields: fields.clone() };
    match read::row(table, &found, apart.clone()) {
        Err(StoreError::Corrupt(reason)) => Ok(Some(Moved { table, key, fields, apart, reason })),
        Ok(_) => Ok(None),
        Err(error) => Err(error),
    }
}
