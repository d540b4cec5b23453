//! A storage transaction with a gate before it.

use std::sync::Arc;

use surrealdb_kvs::api::{
    Batch, BoxFut, GetMultiResult, KeysResult, ScanCursorKeys, ScanCursorVals, ScanResult, Transactable,
};
use surrealdb_kvs::timestamp::{BoxTimeStamp, BoxTimeStampImpl};
use surrealdb_kvs::{Direction, Error, Key, KeyRange, Val};

use super::Gate;
use super::map::{Refusal, Write};
use super::reads::{KEY_BYTES_MAX, ROW_BYTES_MAX, memory_of};

/// Functions and tables that are looked through for what the operator has defined.
const DEFINITIONS_MAX: u32 = 10_000;

type Result<T, E = Error> = std::result::Result<T, E>;

pub(super) struct WalledTransaction {
    pub(super) inner: Box<dyn Transactable>,
    pub(super) gate: Arc<Gate>,
}

/// An answer without asking.
fn refused<'a, T: Send + 'a>(error: Error) -> BoxFut<'a, Result<T>> {
    Box::pin(async move { Err(error) })
}

/// Whether a row is larger than callers' statements may write: whoever reads it has a page of them in memory.
fn is_large(key: &Key<'_>, value: usize) -> bool {
    let key = key.as_slice().len();
    key > KEY_BYTES_MAX || key.saturating_add(value) > ROW_BYTES_MAX
}

/// Asks what is behind the gate, or refuses.
macro_rules! pass {
    ($self:ident, $judged:expr, $passed:expr) => {
        match $judged {
            Ok(()) => $passed,
            Err(refusal) if refusal.doorstep => Box::pin(async move {
                $self.doorstep(&refusal).await?;
                $passed.await
            }),
            Err(refusal) => refused($self.gate.refuse(&refusal.what)),
        }
    };
}

impl WalledTransaction {
    pub(super) fn new(inner: Box<dyn Transactable>, gate: Arc<Gate>) -> Self {
        Self { inner, gate }
    }

    fn may_read(&self, key: &Key<'_>) -> Result<(), Refusal> {
        self.gate.judge(|map| map.read(key.as_slice()))
    }

    /// Judges every key: what is open to the operator's functions doesn't open what stands behind it.
    fn may_read_each(&self, keys: &[Key<'_>]) -> Result<(), Refusal> {
        let mut judged = Ok(());
        for key in keys {
            match self.may_read(key) {
                Ok(()) => {}
                Err(refusal) if refusal.doorstep => judged = Err(refusal),
                closed => return closed,
            }
        }
        judged
    }

    fn may_read_all(&self, range: &KeyRange<'_>) -> Result<(), Refusal> {
        self.gate.judge(|map| map.read_range(range.start.as_slice(), range.end.as_slice()))
    }

    fn may_remove(&self, key: &Key<'_>) -> Result<(), Refusal> {
        self.gate.judge(|map| match map.write(key.as_slice()) {
            Ok(Write::Freely) => Ok(()),
            Ok(Write::Once) => Err(Refusal::of("definitions of tables")),
            Err(refusal) => Err(Refusal::of(refusal.what)),
        })
    }

    fn may_remove_all(&self, range: &KeyRange<'_>) -> Result<(), Refusal> {
        self.gate.judge(|map| map.remove_range(range.start.as_slice(), range.end.as_slice()))
    }

    /// Whether a key may be written, and how.
    fn may_write(&self, key: &Key<'_>) -> Result<Write, Refusal> {
        let mut write = Write::Freely;
        self.gate.judge(|map| {
            write = map.write(key.as_slice())?;
            Ok(())
        })?;
        Ok(write)
    }

    /// Writes by one of the inner transaction's ways.
    fn written<'a>(
        &'a self,
        key: Key<'a>,
        value: Val,
        write: impl FnOnce(&'a dyn Transactable, Key<'a>, Val) -> BoxFut<'a, Result<()>> + Send + 'a,
    ) -> BoxFut<'a, Result<()>> {
        if self.gate.is_closed() && !self.gate.takes(memory_of(key.as_slice(), &value)) {
            return refused(Error::TransactionTooLarge);
        }
        let refusal = match self.may_write(&key) {
            Ok(Write::Freely) if self.gate.is_closed() && is_large(&key, value.len()) => {
                return refused(Error::TransactionTooLarge);
            }
            Ok(Write::Freely) => return write(self.inner.as_ref(), key, value),
            Ok(Write::Once) => Refusal::of("definitions of tables"),
            Err(refusal) if refusal.doorstep => refusal,
            Err(refusal) => return refused(self.gate.refuse(&refusal.what)),
        };
        // Only where nothing is.
        Box::pin(async move {
            if refusal.doorstep {
                self.doorstep(&refusal).await?;
            }
            if self.inner.exists(key.as_borrowed(), None).await? {
                return Err(self.gate.refuse(&refusal.what));
            }
            write(self.inner.as_ref(), key, value).await
        })
    }

    fn removed<'a>(&'a self, bytes: u64, removal: BoxFut<'a, Result<()>>) -> BoxFut<'a, Result<()>> {
        match self.gate.takes(bytes) {
            true => removal,
            false => refused(Error::TransactionTooLarge),
        }
    }

    /// Removes keys by one of the inner transaction's ways.
    fn removed_all<'a>(
        &'a self,
        range: KeyRange<'a>,
        remove: impl FnOnce(&'a dyn Transactable, KeyRange<'a>) -> BoxFut<'a, Result<()>> + Send + 'a,
    ) -> BoxFut<'a, Result<()>> {
        if !self.gate.is_closed() {
            return remove(self.inner.as_ref(), range);
        }
        Box::pin(async move {
            let bytes = self.names_bytes(range.as_borrowed()).await?;
            match self.gate.takes(bytes) {
                true => remove(self.inner.as_ref(), range).await,
                false => Err(Error::TransactionTooLarge),
            }
        })
    }

    /// Whether what is refused to callers is open because the operator has defined functions or events, which may enqueue.
    async fn doorstep(&self, refusal: &Refusal) -> Result<()> {
        let open = match self.gate.doorstep_open.get() {
            Some(open) => *open,
            None => {
                let open = self.operator_defines().await?;
                *self.gate.doorstep_open.get_or_init(|| open)
            }
        };
        if open { Ok(()) } else { Err(self.gate.refuse(&refusal.what)) }
    }

    async fn operator_defines(&self) -> Result<bool> {
        let map = &self.gate.map;
        let functions = map.functions();
        let names = self.keys_between(&functions, DEFINITIONS_MAX).await?;
        if names.iter().any(|name| !name.starts_with(b"waybill::")) {
            return Ok(true);
        }
        for table in self.keys_between(&map.tables(), DEFINITIONS_MAX).await? {
            if !self.keys_between(&map.events(&table), 1).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What keys hold behind the prefix that they are looked for by.
    async fn keys_between(&self, (start, end): &(Vec<u8>, Vec<u8>), limit: u32) -> Result<Vec<Vec<u8>>> {
        let range = KeyRange { start: Key::from(start.clone()), end: Key::from(end.clone()) };
        let found = self.inner.keys(range, limit, 0, None).await?;
        Ok(found.keys.into_iter().filter_map(|key| key.get(start.len()..).map(<[u8]>::to_vec)).collect())
    }
}

impl Transactable for WalledTransaction {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn closed(&self) -> bool {
        self.inner.closed()
    }

    fn writeable(&self) -> bool {
        self.inner.writeable()
    }

    fn cancel<'a>(&'a self) -> BoxFut<'a, Result<()>> {
        self.inner.cancel()
    }

    fn commit<'a>(&'a self) -> BoxFut<'a, Result<()>> {
        self.inner.commit()
    }

    fn exists<'a>(&'a self, key: Key<'a>, version: Option<u64>) -> BoxFut<'a, Result<bool>> {
        pass!(self, self.may_read(&key), self.inner.exists(key, version))
    }

    fn get<'a>(&'a self, key: Key<'a>, version: Option<u64>) -> BoxFut<'a, Result<Option<Val>>> {
        pass!(self, self.may_read(&key), self.got(key, move |inner, key| inner.get(key, version)))
    }

    fn getu<'a>(&'a self, key: Key<'a>) -> BoxFut<'a, Result<Option<Val>>> {
        pass!(self, self.may_read(&key), self.got(key, |inner, key| inner.getu(key)))
    }

    fn shared_locked_reads(&self) -> bool {
        self.inner.shared_locked_reads()
    }

    fn set<'a>(&'a self, key: Key<'a>, val: Val) -> BoxFut<'a, Result<()>> {
        self.written(key, val, |inner, key, val| inner.set(key, val))
    }

    fn put<'a>(&'a self, key: Key<'a>, val: Val) -> BoxFut<'a, Result<()>> {
        self.written(key, val, |inner, key, val| inner.put(key, val))
    }

    fn putc<'a>(&'a self, key: Key<'a>, val: Val, chk: Option<Val>) -> BoxFut<'a, Result<()>> {
        self.written(key, val, move |inner, key, val| inner.putc(key, val, chk))
    }

    fn replace<'a>(&'a self, key: Key<'a>, val: Val) -> BoxFut<'a, Result<()>> {
        self.written(key, val, |inner, key, val| inner.replace(key, val))
    }

    fn del<'a>(&'a self, key: Key<'a>) -> BoxFut<'a, Result<()>> {
        pass!(self, self.may_remove(&key), self.removed(memory_of(key.as_slice(), &[]), self.inner.del(key)))
    }

    fn delc<'a>(&'a self, key: Key<'a>, chk: Option<&'a [u8]>) -> BoxFut<'a, Result<()>> {
        pass!(self, self.may_remove(&key), self.removed(memory_of(key.as_slice(), &[]), self.inner.delc(key, chk)))
    }

    fn clr<'a>(&'a self, key: Key<'a>) -> BoxFut<'a, Result<()>> {
        pass!(self, self.may_remove(&key), self.removed(memory_of(key.as_slice(), &[]), self.inner.clr(key)))
    }

    fn clrc<'a>(&'a self, key: Key<'a>, chk: Option<&'a [u8]>) -> BoxFut<'a, Result<()>> {
        pass!(self, self.may_remove(&key), self.removed(memory_of(key.as_slice(), &[]), self.inner.clrc(key, chk)))
    }

    fn delr<'a>(&'a self, rng: KeyRange<'a>) -> BoxFut<'a, Result<()>> {
        pass!(self, self.may_remove_all(&rng), self.removed_all(rng, |inner, rng| inner.delr(rng)))
    }

    fn clrr<'a>(&'a self, rng: KeyRange<'a>) -> BoxFut<'a, Result<()>> {
        pass!(self, self.may_remove_all(&rng), self.removed_all(rng, |inner, rng| inner.clrr(rng)))
    }

    fn getm<'a>(&'a self, keys: &'a [Key<'a>], version: Option<u64>) -> BoxFut<'a, Result<GetMultiResult>> {
        pass!(self, self.may_read_each(keys), self.got_all(keys, version))
    }

    fn keys<'a>(
        &'a self,
        rng: KeyRange<'a>,
        limit: u32,
        skip: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<KeysResult>> {
        pass!(self, self.may_read_all(&rng), Box::pin(self.names(rng, Direction::Forward, limit, skip, version)))
    }

    fn keysr<'a>(
        &'a self,
        rng: KeyRange<'a>,
        limit: u32,
        skip: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<KeysResult>> {
        pass!(self, self.may_read_all(&rng), Box::pin(self.names(rng, Direction::Backward, limit, skip, version)))
    }

    fn scan<'a>(
        &'a self,
        rng: KeyRange<'a>,
        limit: u32,
        skip: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<ScanResult>> {
        pass!(self, self.may_read_all(&rng), Box::pin(self.rows(rng, Direction::Forward, limit, skip, version)))
    }

    fn scanr<'a>(
        &'a self,
        rng: KeyRange<'a>,
        limit: u32,
        skip: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<ScanResult>> {
        pass!(self, self.may_read_all(&rng), Box::pin(self.rows(rng, Direction::Backward, limit, skip, version)))
    }

    fn open_keys_cursor<'a>(
        &'a self,
        rng: KeyRange<'a>,
        dir: Direction,
        skip: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<Box<dyn ScanCursorKeys + 'a>>> {
        pass!(self, self.may_read_all(&rng), Box::pin(self.names_cursor(rng, dir, skip, version)))
    }

    fn open_vals_cursor<'a>(
        &'a self,
        rng: KeyRange<'a>,
        dir: Direction,
        skip: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<Box<dyn ScanCursorVals + 'a>>> {
        pass!(self, self.may_read_all(&rng), Box::pin(self.rows_cursor(rng, dir, skip, version)))
    }

    fn count<'a>(&'a self, rng: KeyRange<'a>, version: Option<u64>) -> BoxFut<'a, Result<usize>> {
        pass!(self, self.may_read_all(&rng), self.inner.count(rng, version))
    }

    fn batch_keys<'a>(
        &'a self,
        rng: KeyRange<'a>,
        batch: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<Batch<Vec<u8>>>> {
        pass!(self, self.may_read_all(&rng), Box::pin(self.names_batch(rng, batch, version)))
    }

    fn batch_keys_vals<'a>(
        &'a self,
        rng: KeyRange<'a>,
        batch: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<Batch<(Vec<u8>, Vec<u8>)>>> {
        pass!(self, self.may_read_all(&rng), Box::pin(self.rows_batch(rng, batch, version)))
    }

    fn new_save_point(&self) -> BoxFut<'_, Result<()>> {
        self.inner.new_save_point()
    }

    fn release_last_save_point(&self) -> BoxFut<'_, Result<()>> {
        self.inner.release_last_save_point()
    }

    fn rollback_to_save_point(&self) -> BoxFut<'_, Result<()>> {
        self.inner.rollback_to_save_point()
    }

    fn timestamp(&self) -> BoxFut<'_, Result<BoxTimeStamp>> {
        self.inner.timestamp()
    }

    fn safe_timestamp(&self) -> BoxFut<'_, Result<BoxTimeStamp>> {
        self.inner.safe_timestamp()
    }

    fn timestamp_impl(&self) -> BoxTimeStampImpl {
        self.inner.timestamp_impl()
    }

    fn compact<'a>(&'a self, range: Option<KeyRange<'a>>) -> BoxFut<'a, Result<()>> {
        pass!(self, self.gate.judge(|_| Err(Refusal::of("compaction"))), self.inner.compact(range))
    }
}
