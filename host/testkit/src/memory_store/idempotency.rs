//! Idempotency keys.

use async_trait::async_trait;
use waybill_core::idempotency::{Act, Applied, Decision, Entry, EntryFilter, EntryKey, Op, Reply, decide};
use waybill_core::ids::Tenant;
use waybill_core::port::idempotency::{FoundEntry, IdempotencyStore};
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{Conclusion, Transacted};
use waybill_core::time::UnixMillis;

use super::{MemoryStore, Tables};

impl Tables {
    fn act(&mut self, op: &Op, now: UnixMillis) -> Applied {
        let Decision { next, changed, reply } = decide(self.idempotency.get(&op.of), &op.act, now);
        if changed {
            match &next {
                Some(entry) => self.idempotency.insert(op.of.clone(), entry.clone()),
                None => self.idempotency.remove(&op.of),
            };
        }
        Applied { reply, entry: next }
    }

    /// Finishes a key in a caller's transaction, or says that it isn't the caller's; then nothing has changed.
    pub(super) fn conclude(&mut self, conclusion: &Conclusion, done: &Transacted) -> Result<(), StoreError> {
        let token = conclusion.hold.token.clone();
        let act = Act::Finish { token, answer: (conclusion.answer)(done) };
        match self.act(&Op { of: conclusion.hold.of.clone(), act }, conclusion.now).reply {
            Reply::Applied => Ok(()),
            _ => Err(StoreError::LeaseLost(conclusion.hold.of.key.to_string())),
        }
    }
}

#[async_trait]
impl IdempotencyStore for MemoryStore {
    async fn act(&self, ops: &[Op], now: UnixMillis) -> Result<Vec<Result<Applied, StoreError>>, StoreError> {
        self.check()?;
        Ok(self.write(|tables| ops.iter().map(|op| Ok(tables.act(op, now))).collect()))
    }

    async fn entry(&self, of: &EntryKey, now: UnixMillis) -> Result<Option<Entry>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.idempotency.get(of).filter(|entry| !entry.is_over(now)).cloned()))
    }

    async fn entries(
        &self,
        tenant: Option<&Tenant>,
        filter: &EntryFilter,
        now: UnixMillis,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<FoundEntry>, StoreError> {
        self.check()?;
        let bad = || StoreError::Statement("the cursor isn't one of this list: begin without one".into());
        let after = cursor.map(|cursor| EntryKey::from_cursor(cursor).ok_or_else(bad)).transpose()?;
        Ok(self.read(|tables| {
            let wanted = tables
                .idempotency
                .iter()
                .filter(|(of, _)| tenant.is_none_or(|tenant| of.tenant == *tenant))
                .filter(|(of, _)| after.as_ref().is_none_or(|after| *of > after))
                .filter(|(of, entry)| !entry.is_over(now) && filter.takes(of, entry));
            let found = |(of, entry): (&EntryKey, &Entry)| FoundEntry { of: of.clone(), entry: entry.clone() };
            let mut items: Vec<FoundEntry> = wanted.take(limit + 1).map(found).collect();
            let more = items.len() > limit;
            items.truncate(limit);
            let next_cursor = items.last().filter(|_| more).map(|last| last.of.to_cursor());
            Page { items, next_cursor }
        }))
    }

    async fn purge_idempotency(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        self.check()?;
        Ok(self.write(|tables| {
            let over = tables.idempotency.iter().filter(|(_, entry)| entry.is_over(now)).map(|(of, _)| of.clone());
            let over: Vec<EntryKey> = over.take(limit).collect();
            for of in &over {
                tables.idempotency.remove(of);
            }
            over.len()
        }))
    }
}
