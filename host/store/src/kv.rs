//! State of plugins: `plugin_kv:[scope, key]`, and per scope a record with its size and the latest revision.
//!
//! Every write of a scope writes that record, so two writers can't overdraw the quota together: one of them meets a conflict
//! and looks again.

use async_trait::async_trait;
use bytes::Bytes;
use waybill_core::port::kv::{KV_KEY_BYTES_MAX, KvEntry, KvError, KvExpectation, KvQuota, KvStore};
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Object, RecordIdKey, Row, Transaction, array, bytes_of, key, object, text};

use crate::fault::store_error;
use crate::quarantine::{Spoilt, put, refuse_held};
use crate::rows::lacks;
use crate::store::{SurrealStore, finish};
use crate::tables::{KV, KV_SCOPE, number, part_text, unsigned};

/// Tries against other writers of the scope.
const TRIES_MAX: u32 = 16;
/// Keys read in one page.
const PAGE: usize = 500;

/// What a write does: give the new entry's bytes, or remove the entry.
enum Change {
    Put(Bytes, KvQuota),
    Remove,
}

/// Why one try of a write failed.
enum Failed {
    Kv(KvError),
    Store(StoreError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn entry_key(scope: &str, name: &str) -> RecordIdKey {
    key([text(scope), text(name)])
}

fn unavailable(error: StoreError) -> KvError {
    KvError::Unavailable(error.to_string())
}

/// What a scope holds.
#[derive(Clone, Copy, Default)]
struct Scope {
    entries: u64,
    bytes: u64,
    revision: u64,
}

impl Scope {
    fn of(fields: &Object) -> Option<Self> {
        let number = |name: &str| unsigned(fields.get(name));
        Some(Self { entries: number("entries")?, bytes: number("bytes")?, revision: number("revision")? })
    }
    fn fields(self) -> Object {
        object([("entries", number(self.entries)), ("bytes", number(self.bytes)), ("revision", number(self.revision))])
    }
}

/// The value of an entry, and its revision.
fn entry_of(at: &RecordIdKey, fields: &Object) -> Result<(Bytes, u64), StoreError> {
    refuse_held(KV, at, fields)?;
    let revision = unsigned(fields.get("revision")).ok_or_else(|| lacks(KV, at, "revision"))?;
    Ok((bytes_of(fields.get("value")).ok_or_else(|| lacks(KV, at, "value"))?, revision))
}

/// The entry in a row.
pub(crate) fn entry_in(row: &Row) -> Result<(), StoreError> {
    entry_of(&row.key, &row.fields).map(|_| ())
}

/// What a scope holds, in its row.
pub(crate) fn scope_in(row: &Row) -> Result<(), StoreError> {
    Scope::of(&row.fields).map(|_| ()).ok_or_else(|| lacks(KV_SCOPE, &row.key, "entries"))
}

/// Counts what a scope holds, when the row that says it can't be read. Its revisions go on behind the highest there is.
async fn counted(transaction: &dyn Transaction, scope: &str) -> Result<Scope, StoreError> {
    let mut from = Bound::Included(key([text(scope)]));
    let until = Bound::Excluded(key([text(scope), array([])]));
    let mut counted = Scope::default();
    loop {
        let rows = transaction.scan(KV, from, until.clone(), PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(counted) };
        from = Bound::Excluded(last.key.clone());
        for row in &rows {
            if let (Some(name), Ok((value, revision))) = (part_text(&row.key, 1), entry_of(&row.key, &row.fields)) {
                counted.entries += 1;
                counted.bytes += (name.len() + value.len()) as u64;
                counted.revision = counted.revision.max(revision);
            }
        }
    }
}

/// What the scope of an entry that can't be read holds without it, and where that is written: it may be given up, and how many
/// bytes it had isn't known. None when nothing says what the scope holds.
pub(crate) async fn recounted(
    transaction: &dyn Transaction,
    at: &RecordIdKey,
) -> Result<Option<(RecordIdKey, Object)>, StoreError> {
    let Some(scope) = part_text(at, 0) else { return Ok(None) };
    let key = RecordIdKey::String(scope.into());
    let stands = transaction.get(KV_SCOPE, key.clone()).await.map_err(store_error)?;
    let Some(stands) = stands.as_ref().and_then(Scope::of) else { return Ok(None) };
    let counted = counted(transaction, scope).await?;
    let next = Scope { revision: counted.revision.max(stands.revision), ..counted };
    Ok(Some((key, next.fields())))
}

impl SurrealStore {
    /// Moves what a call met that can't be read.
    async fn moved_away<T>(&self, read: Result<T, StoreError>, at: &RecordIdKey) -> Result<T, StoreError> {
        let mut spoilt = Spoilt::default();
        let read = spoilt.note_corrupt(KV, at, read);
        self.set_aside(spoilt).await;
        read
    }

    async fn change(
        &self,
        scope: &str,
        name: &str,
        expect: &KvExpectation,
        change: &Change,
    ) -> Result<String, KvError> {
        let mut tries = 1;
        loop {
            let transaction = self.begin(true).await.map_err(unavailable)?;
            let (worked, kv) = match try_change(transaction.as_ref(), scope, name, expect, change).await {
                Ok(revision) => (Ok(revision), None),
                Err(Failed::Store(error)) => (Err(error), None),
                Err(Failed::Kv(error)) => (Err(StoreError::Other(String::new())), Some(error)),
            };
            let done = finish(transaction, worked).await;
            if let Some(error) = kv {
                return Err(error);
            }
            match done {
                Ok(revision) => return Ok(revision),
                Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
                Err(error) => {
                    return self.moved_away::<String>(Err(error), &entry_key(scope, name)).await.map_err(unavailable);
                }
            }
        }
    }
}

async fn try_change(
    transaction: &dyn Transaction,
    scope: &str,
    name: &str,
    expect: &KvExpectation,
    change: &Change,
) -> Result<String, Failed> {
    let at = entry_key(scope, name);
    let scope_at = RecordIdKey::String(scope.into());
    let found = transaction.get(KV, at.clone()).await.map_err(store_error)?;
    let (held, unread) = match transaction.get(KV_SCOPE, scope_at.clone()).await.map_err(store_error)? {
        Some(fields) => match Scope::of(&fields) {
            Some(held) => (held, None),
            None => (counted(transaction, scope).await?, Some(fields)),
        },
        None => (Scope::default(), None),
    };
    let found = found.map(|fields| entry_of(&at, &fields)).transpose()?;
    let revision = found.as_ref().map(|(_, revision)| *revision);
    let holds = match expect {
        KvExpectation::Anything => true,
        KvExpectation::Absent => found.is_none(),
        KvExpectation::Revision(wanted) => revision.is_some_and(|revision| revision.to_string() == *wanted),
    };
    if !holds {
        return Err(Failed::Kv(KvError::Conflict));
    }
    let old = found.as_ref().map(|(value, _)| (name.len() + value.len()) as u64);
    let mut next = Scope {
        entries: held.entries - u64::from(old.is_some()).min(held.entries),
        bytes: held.bytes.saturating_sub(old.unwrap_or(0)),
        revision: held.revision + 1,
    };
    match change {
        Change::Remove if found.is_none() => return Ok(String::new()),
        Change::Remove => transaction.delete(KV, at).await.map_err(store_error)?,
        Change::Put(value, quota) => {
            next.entries += 1;
            next.bytes += (name.len() + value.len()) as u64;
            if next.entries > quota.entries_max as u64 {
                return Err(Failed::Kv(KvError::TooLarge { what: "the number of entries", max: quota.entries_max }));
            }
            if next.bytes > quota.total_bytes_max as u64 {
                return Err(Failed::Kv(KvError::TooLarge {
                    what: "the bytes of all entries",
                    max: quota.total_bytes_max,
                }));
            }
            let fields =
                object([("value", waybill_surreal::bytes(value.clone())), ("revision", number(next.revision))]);
            transaction.put(KV, at, fields).await.map_err(store_error)?;
        }
    }
    if let Some(fields) = unread {
        let reason = lacks(KV_SCOPE, &scope_at, "entries").to_string();
        put(transaction, KV_SCOPE, &scope_at, fields, None, &reason).await.map_err(Failed::Store)?;
    }
    transaction.put(KV_SCOPE, scope_at, next.fields()).await.map_err(store_error)?;
    Ok(next.revision.to_string())
}

#[async_trait]
impl KvStore for SurrealStore {
    async fn get(&self, scope: &str, key: &str) -> Result<Option<KvEntry>, KvError> {
        let transaction = self.begin(false).await.map_err(unavailable)?;
        let at = entry_key(scope, key);
        let found = transaction.get(KV, at.clone()).await.map_err(|fault| unavailable(store_error(fault)))?;
        let found = found.map(|fields| entry_of(&at, &fields)).transpose();
        let found = self.moved_away(found, &at).await.map_err(unavailable)?;
        Ok(found.map(|(value, revision)| KvEntry { value, revision: revision.to_string() }))
    }

    async fn put(
        &self,
        scope: &str,
        key: &str,
        value: Bytes,
        expect: KvExpectation,
        quota: KvQuota,
    ) -> Result<String, KvError> {
        if key.len() > KV_KEY_BYTES_MAX {
            return Err(KvError::TooLarge { what: "the key's bytes", max: KV_KEY_BYTES_MAX });
        }
        if value.len() > quota.value_bytes_max {
            return Err(KvError::TooLarge { what: "the value's bytes", max: quota.value_bytes_max });
        }
        self.change(scope, key, &expect, &Change::Put(value, quota)).await
    }

    async fn remove(&self, scope: &str, key: &str, expect: KvExpectation) -> Result<(), KvError> {
        self.change(scope, key, &expect, &Change::Remove).await.map(|_| ())
    }

    async fn keys(&self, scope: &str, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, KvError> {
        let transaction = self.begin(false).await.map_err(unavailable)?;
        let mut from = match after {
            Some(after) if after >= prefix => Bound::Excluded(entry_key(scope, after)),
            _ => Bound::Included(entry_key(scope, prefix)),
        };
        // A list comes behind all texts: the end of the scope.
        let until = Bound::Excluded(key([text(scope), array([])]));
        let mut names = Vec::new();
        while names.len() < limit as usize {
            let page = PAGE.min(limit as usize - names.len());
            let rows = transaction
                .scan(KV, from, until.clone(), page)
                .await
                .map_err(|fault| unavailable(store_error(fault)))?;
            let Some(last) = rows.last() else { break };
            from = Bound::Excluded(last.key.clone());
            let before = names.len();
            names.extend(
                rows.iter()
                    .filter_map(|row| part_text(&row.key, 1))
                    .take_while(|name| name.starts_with(prefix))
                    .map(str::to_owned),
            );
            if names.len() - before < rows.len() {
                break;
            }
        }
        Ok(names)
    }
}
