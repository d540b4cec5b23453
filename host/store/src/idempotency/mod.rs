//! Idempotency keys: `idempotency:[tenant, key]`, and per entry a row by its end, so that the background finds what is over
//! without looking at the rest. The rules are the core's ([`waybill_core::idempotency::decide`]); here entries are read, decided
//! on and written in one transaction.

mod list;
mod row;

use std::collections::BTreeMap;

use async_trait::async_trait;
use waybill_core::idempotency::{Act, Applied, Decision, Entry, EntryFilter, EntryKey, Op, Reply, decide};
use waybill_core::ids::Tenant;
use waybill_core::port::idempotency::{FoundEntry, IdempotencyStore};
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{Conclusion, Transacted};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, RecordIdKey, Row, Transaction};

use crate::fault::store_error;
use crate::fronts::{PurgeFronts, Reached};
use crate::quarantine::{Spoilt, put};
use crate::rows::lacks;
use crate::store::{SurrealStore, finish};
use crate::tables::{IDEMPOTENCY, IDEMPOTENCY_DUE};
pub(crate) use row::due;
use row::{due_key, entry_key};

/// Tries against other writers of the same entries.
const TRIES_MAX: u32 = 8;

/// An entry in a transaction: as it was read, and as it is to be.
struct PendingEntry {
    before: Option<Entry>,
    after: Option<Entry>,
    changed: bool,
}

/// Entries as one transaction sees and leaves them.
struct Entries<'a> {
    transaction: &'a dyn Transaction,
    now: UnixMillis,
    pending: BTreeMap<EntryKey, PendingEntry>,
    spoilt: Spoilt,
}

impl<'a> Entries<'a> {
    fn new(transaction: &'a dyn Transaction, now: UnixMillis) -> Self {
        Self { transaction, now, pending: BTreeMap::new(), spoilt: Spoilt::default() }
    }

    /// Does one act on what the acts before it have left.
    async fn act(&mut self, op: &Op) -> Result<Applied, StoreError> {
        if !self.pending.contains_key(&op.of) {
            let before = read(self.transaction, &op.of).await;
            let before = self.spoilt.note_corrupt(IDEMPOTENCY, &entry_key(&op.of), before)?;
            self.pending.insert(op.of.clone(), PendingEntry { after: before.clone(), before, changed: false });
        }
        let missing = || StoreError::Other("an entry that was read is gone from memory".to_owned());
        let pending = self.pending.get_mut(&op.of).ok_or_else(missing)?;
        let Decision { next, changed, reply } = decide(pending.after.as_ref(), &op.act, self.now);
        if changed {
            pending.after.clone_from(&next);
            pending.changed = true;
        }
        Ok(Applied { reply, entry: next })
    }

    async fn write(self) -> Result<(), StoreError> {
        let changed =
            self.pending.into_iter().filter(|(_, pending)| pending.changed && pending.before != pending.after);
        for (of, PendingEntry { before, after, .. }) in changed {
            match &after {
                Some(entry) => self.transaction.put(IDEMPOTENCY, entry_key(&of), row::fields(entry)).await,
                None => self.transaction.delete(IDEMPOTENCY, entry_key(&of)).await,
            }
            .map_err(store_error)?;
            let (old_end, new_end) = (before.map(|entry| entry.until), after.map(|entry| entry.until));
            if old_end == new_end {
                continue;
            }
            if let Some(until) = old_end {
                self.transaction.delete(IDEMPOTENCY_DUE, due_key(&of, until)).await.map_err(store_error)?;
            }
            if let Some(until) = new_end {
                let due = self.transaction.put(IDEMPOTENCY_DUE, due_key(&of, until), Object::default());
                due.await.map_err(store_error)?;
            }
        }
        Ok(())
    }
}

/// The entry in a row.
pub(crate) fn entry_in(row: &Row) -> Result<(), StoreError> {
    row::of_row(&row.key).ok_or_else(|| lacks(IDEMPOTENCY, &row.key, "id"))?;
    row::entry(&row.key, &row.fields).map(|_| ())
}

/// Where the row by its end lies of an entry's row.
pub(crate) fn due_of(row: &Row) -> Option<RecordIdKey> {
    let entry = row::entry(&row.key, &row.fields).ok()?;
    Some(due_key(&row::of_row(&row.key)?, entry.until))
}

/// An entry as stored, also one that is over.
async fn read(transaction: &dyn Transaction, of: &EntryKey) -> Result<Option<Entry>, StoreError> {
    let at = entry_key(of);
    let found = transaction.get(IDEMPOTENCY, at.clone()).await.map_err(store_error)?;
    found.map(|fields| row::entry(&at, &fields)).transpose()
}

type Answers = Vec<Result<Applied, StoreError>>;

/// What became of the acts, and the rows that could not be read.
async fn try_act(transaction: &dyn Transaction, ops: &[Op], now: UnixMillis) -> Result<(Answers, Spoilt), StoreError> {
    let mut entries = Entries::new(transaction, now);
    let mut answers = Vec::with_capacity(ops.len());
    for op in ops {
        answers.push(match entries.act(op).await {
            // One that can't be read concerns its own key only.
            Err(error @ (StoreError::Corrupt(_) | StoreError::NewerData(_))) => Err(error),
            Err(error) => return Err(error),
            Ok(applied) => Ok(applied),
        });
    }
    let spoilt = std::mem::take(&mut entries.spoilt);
    entries.write().await.map(|()| (answers, spoilt))
}

async fn try_purge(
    fronts: &PurgeFronts,
    transaction: &dyn Transaction,
    now: UnixMillis,
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<(usize, Reached), StoreError> {
    let rows = fronts.scan(transaction, IDEMPOTENCY_DUE, now, limit).await?;
    for row in &rows {
        // An entry that began anew has a row of its own by then.
        if let Some((end, of)) = due(&row.key) {
            let entry = read(transaction, &of).await;
            let entry = spoilt.sift(IDEMPOTENCY, &entry_key(&of), entry)?.flatten();
            if entry.is_some_and(|entry| entry.until <= end) {
                transaction.delete(IDEMPOTENCY, entry_key(&of)).await.map_err(store_error)?;
            }
        } else {
            let reason = lacks(IDEMPOTENCY_DUE, &row.key, "id").to_string();
            put(transaction, IDEMPOTENCY_DUE, &row.key, row.fields.clone(), None, &reason).await?;
            continue;
        }
        transaction.delete(IDEMPOTENCY_DUE, row.key.clone()).await.map_err(store_error)?;
    }
    Ok((rows.len(), Reached::of(&rows)))
}

/// Finishes a key in a caller's transaction. A key that isn't the caller's any more fails all of it.
pub async fn conclude(
    transaction: &dyn Transaction,
    conclusion: &Conclusion,
    done: &Transacted,
) -> Result<(), StoreError> {
    let hold = &conclusion.hold;
    let act = Act::Finish { token: hold.token.clone(), answer: (conclusion.answer)(done) };
    let mut entries = Entries::new(transaction, conclusion.now);
    match entries.act(&Op { of: hold.of.clone(), act }).await?.reply {
        Reply::Applied => entries.write().await,
        _ => Err(StoreError::LeaseLost(hold.of.key.to_string())),
    }
}

#[async_trait]
impl IdempotencyStore for SurrealStore {
    async fn act(&self, ops: &[Op], now: UnixMillis) -> Result<Answers, StoreError> {
        let mut tries = 1;
        loop {
            let transaction = self.begin(true).await?;
            let worked = try_act(transaction.as_ref(), ops, now).await;
            match finish(transaction, worked).await {
                Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(error),
                Ok((answers, spoilt)) => {
                    self.set_aside(spoilt).await;
                    return Ok(answers);
                }
            }
        }
    }

    async fn entry(&self, of: &EntryKey, now: UnixMillis) -> Result<Option<Entry>, StoreError> {
        let transaction = self.begin(false).await?;
        let mut spoilt = Spoilt::default();
        let found = spoilt.note_corrupt(IDEMPOTENCY, &entry_key(of), read(transaction.as_ref(), of).await);
        self.set_aside(spoilt).await;
        Ok(found?.filter(|entry| !entry.is_over(now)))
    }

    async fn entries(
        &self,
        tenant: Option<&Tenant>,
        filter: &EntryFilter,
        now: UnixMillis,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<FoundEntry>, StoreError> {
        let transaction = self.begin(false).await?;
        let mut spoilt = Spoilt::default();
        let found = list::entries(transaction.as_ref(), tenant, filter, now, (cursor, limit), &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn purge_idempotency(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        let transaction = self.begin(true).await?;
        let mut spoilt = Spoilt::default();
        let worked = try_purge(self.purge_fronts(), transaction.as_ref(), now, limit, &mut spoilt).await;
        let done = finish(transaction, worked).await;
        self.set_aside(spoilt).await;
        let (count, reached) = done?;
        self.purge_fronts().reached(IDEMPOTENCY_DUE, reached);
        Ok(count)
    }
}
