//! What callers' statements read: counted before SurrealDB gets it, and fetched a few rows at a time, since the storage engine makes
//! a whole page of them before anybody sees how large they are.

use surrealdb_datastore::catalog::Record;
use surrealdb_datastore::key::schema::RecordKey;
use surrealdb_datastore::val::RecordId;
use surrealdb_kvs::api::{
    Batch, BoxFut, GetMultiResult, KeysResult, ScanCursorKeys, ScanCursorVals, ScanResult, Transactable,
};
use surrealdb_kvs::cursor::update_range;
use surrealdb_kvs::key::KVKeyDecode;
use surrealdb_kvs::value::KVValue;
use surrealdb_kvs::{Direction, Key, KeyRange, Result, Val};

use super::cursors::{CountedKeys, CountedRows};
use super::transaction::WalledTransaction;
use crate::{READ_BYTES_MIN, Value, weight};

/// Largest key that callers' statements write, in bytes.
pub(super) const KEY_BYTES_MAX: usize = 16 * 1024;
/// Largest row that they write, its key included, in bytes.
pub(super) const ROW_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Rows that are fetched at once: 8 MiB of the largest.
pub(super) const ROWS_A_PAGE: u32 = 4;
/// Keys that are fetched at once: 8 MiB of the largest.
pub(super) const KEYS_A_PAGE: u32 = 512;

/// Rows are handed over after so many bytes, however many were asked for.
pub(super) const PAGE_BYTES: u64 = 1024 * 1024;

/// Whether a key is that of a row, and not of a definition or an index.
pub(super) fn is_row(key: &[u8]) -> bool {
    RecordKey::decode_key(key).is_ok()
}

/// Bytes of memory that a stored value takes, at most.
pub(super) fn memory_of(key: &[u8], value: &[u8]) -> u64 {
    measured(key, value).0
}

/// The same, and the row, if this is one.
pub(super) fn measured(key: &[u8], value: &[u8]) -> (u64, Option<Value>) {
    let stored = u64::try_from(key.len().saturating_add(value.len())).unwrap_or(u64::MAX);
    // A value of one stored byte takes as much memory as any other.
    let row = if value.is_empty() { None } else { record(key, value) };
    let made = row.as_ref().map_or(0, weight);
    (stored.max(made).max(READ_BYTES_MIN), row)
}

/// The row that this is.
fn record(key: &[u8], value: &[u8]) -> Option<Value> {
    let key = RecordKey::decode_key(key).ok()?;
    let id = RecordId { table: key.tb.into_owned(), key: key.id.into_owned() };
    Record::kv_decode_value(value, id).ok().map(|record| record.data)
}

impl WalledTransaction {
    fn is_counted(&self) -> bool {
        self.gate.is_closed()
    }

    /// Reads a value by one of the inner transaction's ways.
    pub(super) fn got<'a>(
        &'a self,
        key: Key<'a>,
        read: impl FnOnce(&'a dyn Transactable, Key<'a>) -> BoxFut<'a, Result<Option<Val>>> + Send + 'a,
    ) -> BoxFut<'a, Result<Option<Val>>> {
        if !self.is_counted() {
            return read(self.inner.as_ref(), key);
        }
        let name = key.as_slice().to_vec();
        let reading = read(self.inner.as_ref(), key);
        Box::pin(async move {
            let found = reading.await?;
            if let Some(value) = &found {
                self.gate.reads(&name, value)?;
            }
            Ok(found)
        })
    }

    /// Reads the values of some keys.
    pub(super) fn got_all<'a>(
        &'a self,
        keys: &'a [Key<'a>],
        version: Option<u64>,
    ) -> BoxFut<'a, Result<GetMultiResult>> {
        if !self.is_counted() {
            return self.inner.getm(keys, version);
        }
        Box::pin(async move {
            let mut all = GetMultiResult::default();
            for page in keys.chunks(ROWS_A_PAGE as usize) {
                let found = self.inner.getm(page, version).await?;
                for (key, value) in page.iter().zip(&found.values) {
                    if let Some(value) = value {
                        self.gate.reads(key.as_slice(), value)?;
                    }
                }
                all.records += found.records;
                all.value_bytes += found.value_bytes;
                all.values.extend(found.values);
            }
            Ok(all)
        })
    }

    /// Reads rows in order, at most `limit` behind the first `skip`.
    pub(super) async fn rows<'a>(
        &'a self,
        mut rest: KeyRange<'a>,
        dir: Direction,
        limit: u32,
        mut skip: u32,
        version: Option<u64>,
    ) -> Result<ScanResult> {
        let most = if self.is_counted() { ROWS_A_PAGE } else { u32::MAX };
        let (mut all, mut left) = (ScanResult::default(), limit);
        while left > 0 && !rest.is_empty() {
            let page = left.min(most);
            let skipped = std::mem::take(&mut skip);
            let found = match dir {
                Direction::Forward => self.inner.scan(rest.as_borrowed(), page, skipped, version).await?,
                Direction::Backward => self.inner.scanr(rest.as_borrowed(), page, skipped, version).await?,
            };
            for (key, value) in &found.values {
                self.gate.reads(key, value)?;
            }
            let count = u32::try_from(found.values.len()).unwrap_or(u32::MAX);
            if let Some((last, _)) = found.values.last() {
                update_range(&mut rest, dir, last);
            }
            all.key_bytes += found.key_bytes;
            all.value_bytes += found.value_bytes;
            all.values.extend(found.values);
            left = if count < page { 0 } else { left.saturating_sub(count) };
        }
        Ok(all)
    }

    /// Reads keys in order, likewise.
    pub(super) async fn names<'a>(
        &'a self,
        mut rest: KeyRange<'a>,
        dir: Direction,
        limit: u32,
        mut skip: u32,
        version: Option<u64>,
    ) -> Result<KeysResult> {
        let most = if self.is_counted() { KEYS_A_PAGE } else { u32::MAX };
        let (mut all, mut left) = (KeysResult::default(), limit);
        while left > 0 && !rest.is_empty() {
            let page = left.min(most);
            let skipped = std::mem::take(&mut skip);
            let found = match dir {
                Direction::Forward => self.inner.keys(rest.as_borrowed(), page, skipped, version).await?,
                Direction::Backward => self.inner.keysr(rest.as_borrowed(), page, skipped, version).await?,
            };
            for key in &found.keys {
                self.gate.reads(key, &[])?;
            }
            let count = u32::try_from(found.keys.len()).unwrap_or(u32::MAX);
            if let Some(last) = found.keys.last() {
                update_range(&mut rest, dir, last);
            }
            all.key_bytes += found.key_bytes;
            all.keys.extend(found.keys);
            left = if count < page { 0 } else { left.saturating_sub(count) };
        }
        Ok(all)
    }

    /// Bytes that the keys of a range count as when they are removed.
    pub(super) async fn names_bytes<'a>(&'a self, mut rest: KeyRange<'a>) -> Result<u64> {
        let mut bytes = 0_u64;
        while !rest.is_empty() {
            let found = self.inner.keys(rest.as_borrowed(), KEYS_A_PAGE, 0, None).await?;
            bytes = found.keys.iter().fold(bytes, |sum, key| sum.saturating_add(memory_of(key, &[])));
            match found.keys.last() {
                Some(last) => update_range(&mut rest, Direction::Forward, last),
                None => break,
            }
        }
        Ok(bytes)
    }

    /// Reads a batch of rows. It may be smaller than asked for: what it says of the next one tells whether there are more.
    pub(super) async fn rows_batch<'a>(
        &'a self,
        rng: KeyRange<'a>,
        asked: u32,
        version: Option<u64>,
    ) -> Result<Batch<(Vec<u8>, Vec<u8>)>> {
        let rows = if self.is_counted() { asked.min(ROWS_A_PAGE) } else { asked };
        let batch = self.inner.batch_keys_vals(rng, rows, version).await?;
        for (key, value) in &batch.result {
            self.gate.reads(key, value)?;
        }
        Ok(batch)
    }

    /// Reads a batch of keys, likewise.
    pub(super) async fn names_batch<'a>(
        &'a self,
        rng: KeyRange<'a>,
        asked: u32,
        version: Option<u64>,
    ) -> Result<Batch<Vec<u8>>> {
        let keys = if self.is_counted() { asked.min(KEYS_A_PAGE) } else { asked };
        let batch = self.inner.batch_keys(rng, keys, version).await?;
        for key in &batch.result {
            self.gate.reads(key, &[])?;
        }
        Ok(batch)
    }

    pub(super) async fn rows_cursor<'a>(
        &'a self,
        rng: KeyRange<'a>,
        dir: Direction,
        skip: u32,
        version: Option<u64>,
    ) -> Result<Box<dyn ScanCursorVals + 'a>> {
        let holds = self.gate.scan_of(&rng);
        let inner = self.inner.open_vals_cursor(rng, dir, skip, version).await?;
        if !self.is_counted() {
            return Ok(inner);
        }
        Ok(Box::new(CountedRows { inner, gate: &self.gate, holds }))
    }

    pub(super) async fn names_cursor<'a>(
        &'a self,
        rng: KeyRange<'a>,
        dir: Direction,
        skip: u32,
        version: Option<u64>,
    ) -> Result<Box<dyn ScanCursorKeys + 'a>> {
        let inner = self.inner.open_keys_cursor(rng, dir, skip, version).await?;
        if !self.is_counted() {
            return Ok(inner);
        }
        Ok(Box::new(CountedKeys { inner, gate: &self.gate }))
    }
}
