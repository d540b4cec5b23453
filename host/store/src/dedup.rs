//! Payload dedup: `outbox_dedup:[tenant, transport, target, sha256]`, and per entry a row by the end of its window, so
//! that the background finds what is over without looking at the rest.

use std::collections::BTreeMap;

use async_trait::async_trait;
use waybill_core::ids::Tenant;
use waybill_core::port::dedup::{DedupAsk, DedupEnd, DedupKey, DedupStore, FirstDelivery, Reservation};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, RecordIdKey, Row, Transaction, Value, from_json, key, object, text, text_of, to_json};

use crate::fault::store_error;
use crate::fronts::{PurgeFronts, Reached};
use crate::quarantine::put;
use crate::rows::lacks;
use crate::store::{SurrealStore, finish};
use crate::tables::{DEDUP, DEDUP_DUE, number, part, part_text, parts, unsigned};

/// Tries against other writers of the same entries.
const TRIES_MAX: u32 = 8;

/// What is known of a payload.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    /// The message that reserved it.
    id: String,
    since: UnixMillis,
    until: UnixMillis,
    first: Option<FirstDelivery>,
}

fn entry_key(of: &DedupKey) -> RecordIdKey {
    key([text(of.tenant.as_str()), text(&of.transport), text(&of.target), text(&of.sha256)])
}

fn due_key(of: &DedupKey, until: UnixMillis) -> RecordIdKey {
    key([number(until.0), text(of.tenant.as_str()), text(&of.transport), text(&of.target), text(&of.sha256)])
}

/// The entry in a row.
pub(crate) fn entry_in(row: &Row) -> Result<(), StoreError> {
    Entry::of(&row.key, &row.fields).map(|_| ())
}

/// The key in a row of [`DEDUP_DUE`], with its instant.
pub(crate) fn due(row: &RecordIdKey) -> Option<(UnixMillis, DedupKey)> {
    let key = DedupKey {
        tenant: Tenant::new(part_text(row, 1)?).ok()?,
        transport: part_text(row, 2)?.to_owned(),
        target: part_text(row, 3)?.to_owned(),
        sha256: part_text(row, 4)?.to_owned(),
    };
    Some((UnixMillis(part(row, 0)?), key))
}

/// Where the row by the end of its window lies of an entry's row.
pub(crate) fn due_of(row: &Row) -> Option<RecordIdKey> {
    let until = Entry::of(&row.key, &row.fields).ok()?.until;
    Some(key([number(until.0)].into_iter().chain(parts(&row.key).iter().cloned())))
}

impl Entry {
    fn of(at: &RecordIdKey, fields: &Object) -> Result<Self, StoreError> {
        let instant =
            |name: &'static str| unsigned(fields.get(name)).map(UnixMillis).ok_or_else(|| lacks(DEDUP, at, name));
        let first = match fields.get("first") {
            Some(value @ Value::Object(_)) => {
                let json = to_json(value.clone()).map_err(store_error)?;
                let first = serde_json::from_value(json);
                Some(first.map_err(|error| StoreError::Corrupt(format!("a record of {DEDUP}: {error}")))?)
            }
            _ => None,
        };
        let id = text_of(fields.get("id_of")).ok_or_else(|| lacks(DEDUP, at, "id_of"))?.to_owned();
        Ok(Self { id, since: instant("since")?, until: instant("until")?, first })
    }

    fn fields(&self) -> Result<Object, StoreError> {
        let mut fields =
            object([("id_of", text(&self.id)), ("since", number(self.since.0)), ("until", number(self.until.0))]);
        if let Some(first) = &self.first {
            let json = serde_json::to_value(first)
                .map_err(|error| StoreError::Other(format!("a receipt can't be encoded: {error}")))?;
            fields.insert("first", from_json(json));
        }
        Ok(fields)
    }
}

/// Entries as one transaction sees and leaves them: what was read, and what it is to be.
struct Entries<'a> {
    transaction: &'a dyn Transaction,
    now: UnixMillis,
    seen: BTreeMap<DedupKey, (Option<Entry>, Option<Entry>)>,
    /// Rows that can't be read, with why. What they knew is lost: a payload may be delivered twice, which is better than never.
    spoilt: Vec<(RecordIdKey, Object, String)>,
}

impl<'a> Entries<'a> {
    fn new(transaction: &'a dyn Transaction, now: UnixMillis) -> Self {
        Self { transaction, now, seen: BTreeMap::new(), spoilt: Vec::new() }
    }

    /// The entry as it stands, if its window isn't over.
    async fn get(&mut self, of: &DedupKey) -> Result<Option<Entry>, StoreError> {
        if !self.seen.contains_key(of) {
            let at = entry_key(of);
            let found = self.transaction.get(DEDUP, at.clone()).await.map_err(store_error)?;
            let entry = match found.map(|fields| Entry::of(&at, &fields).map_err(|error| (error, fields))) {
                Some(Err((StoreError::Corrupt(reason), fields))) => {
                    self.spoilt.push((at, fields, reason));
                    None
                }
                Some(Err((error, _))) => return Err(error),
                Some(Ok(entry)) => Some(entry),
                None => None,
            };
            self.seen.insert(of.clone(), (entry.clone(), entry));
        }
        Ok(self.seen.get(of).and_then(|(_, entry)| entry.clone()).filter(|entry| entry.until > self.now))
    }

    fn set(&mut self, of: &DedupKey, entry: Option<Entry>) {
        if let Some((_, next)) = self.seen.get_mut(of) {
            *next = entry;
        }
    }

    async fn write(self) -> Result<(), StoreError> {
        for (at, fields, reason) in self.spoilt {
            put(self.transaction, DEDUP, &at, fields, None, &reason).await?;
        }
        for (of, (before, after)) in self.seen {
            if before == after {
                continue;
            }
            let old_end = before.map(|entry| entry.until);
            let new_end = after.as_ref().map(|entry| entry.until);
            match &after {
                Some(entry) => self.transaction.put(DEDUP, entry_key(&of), entry.fields()?).await,
                None => self.transaction.delete(DEDUP, entry_key(&of)).await,
            }
            .map_err(store_error)?;
            if old_end == new_end {
                continue;
            }
            if let Some(until) = old_end {
                self.transaction.delete(DEDUP_DUE, due_key(&of, until)).await.map_err(store_error)?;
            }
            if let Some(until) = new_end {
                let due = self.transaction.put(DEDUP_DUE, due_key(&of, until), Object::default());
                due.await.map_err(store_error)?;
            }
        }
        Ok(())
    }
}

async fn try_reserve(
    transaction: &dyn Transaction,
    asks: &[DedupAsk],
    now: UnixMillis,
    stale: UnixMillis,
) -> Result<Vec<Reservation>, StoreError> {
    let mut entries = Entries::new(transaction, now);
    let mut answers = Vec::with_capacity(asks.len());
    for ask in asks {
        answers.push(match entries.get(&ask.key).await? {
            Some(Entry { first: Some(first), .. }) => Reservation::Delivered(first),
            Some(entry) if entry.id != ask.id.as_str() && entry.since >= stale => Reservation::Held,
            _ => {
                let entry = Entry { id: ask.id.to_string(), since: now, until: now.plus(ask.window), first: None };
                entries.set(&ask.key, Some(entry));
                Reservation::Reserved
            }
        });
    }
    entries.write().await.map(|()| answers)
}

async fn try_conclude(transaction: &dyn Transaction, ends: &[DedupEnd], now: UnixMillis) -> Result<(), StoreError> {
    let mut entries = Entries::new(transaction, now);
    for DedupEnd { ask, receipt } in ends {
        let found = entries.get(&ask.key).await?;
        if found.as_ref().is_some_and(|entry| entry.first.is_some()) {
            continue;
        }
        let mine = found.filter(|entry| entry.id == ask.id.as_str());
        match receipt {
            Some(receipt) => {
                let until = mine.map_or(now.plus(ask.window), |entry| entry.until);
                let first = FirstDelivery { id: ask.id.to_string(), receipt: receipt.clone(), at: now };
                let entry = Entry { id: ask.id.to_string(), since: now, until, first: Some(first) };
                entries.set(&ask.key, Some(entry));
            }
            None if mine.is_some() => entries.set(&ask.key, None),
            None => {}
        }
    }
    entries.write().await
}

async fn try_purge(
    fronts: &PurgeFronts,
    transaction: &dyn Transaction,
    now: UnixMillis,
    limit: usize,
) -> Result<(usize, Reached), StoreError> {
    let rows = fronts.scan(transaction, DEDUP_DUE, now, limit).await?;
    let (mut over, mut spoilt) = (Vec::new(), Vec::new());
    for row in &rows {
        let Some((end, of)) = due(&row.key) else {
            spoilt.push((DEDUP_DUE, row.key.clone(), row.fields.clone(), lacks(DEDUP_DUE, &row.key, "id")));
            continue;
        };
        let at = entry_key(&of);
        if let Some(fields) = transaction.get(DEDUP, at.clone()).await.map_err(store_error)? {
            match Entry::of(&at, &fields) {
                Ok(entry) if entry.until <= end => over.push(at),
                // It began anew and has a row of its own by then.
                Ok(_) => {}
                Err(error) => spoilt.push((DEDUP, at, fields, error)),
            }
        }
    }
    for row in &rows {
        transaction.delete(DEDUP_DUE, row.key.clone()).await.map_err(store_error)?;
    }
    for at in over {
        transaction.delete(DEDUP, at).await.map_err(store_error)?;
    }
    for (table, at, fields, error) in spoilt {
        put(transaction, table, &at, fields, None, &error.to_string()).await?;
    }
    Ok((rows.len(), Reached::of(&rows)))
}

#[async_trait]
impl DedupStore for SurrealStore {
    async fn reserve(
        &self,
        asks: &[DedupAsk],
        now: UnixMillis,
        stale: UnixMillis,
    ) -> Result<Vec<Reservation>, StoreError> {
        let mut tries = 1;
        loop {
            let transaction = self.begin(true).await?;
            let worked = try_reserve(transaction.as_ref(), asks, now, stale).await;
            match finish(transaction, worked).await {
                Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
                done => return done,
            }
        }
    }

    async fn conclude(&self, ends: &[DedupEnd], now: UnixMillis) -> Result<(), StoreError> {
        let mut tries = 1;
        loop {
            let transaction = self.begin(true).await?;
            let worked = try_conclude(transaction.as_ref(), ends, now).await;
            match finish(transaction, worked).await {
                Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
                done => return done,
            }
        }
    }

    async fn delivered(&self, of: &DedupKey, now: UnixMillis) -> Result<Option<FirstDelivery>, StoreError> {
        let transaction = self.begin(false).await?;
        Ok(Entries::new(transaction.as_ref(), now).get(of).await?.and_then(|entry| entry.first))
    }

    async fn purge_dedup(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        let transaction = self.begin(true).await?;
        let worked = try_purge(self.purge_fronts(), transaction.as_ref(), now, limit).await;
        let (count, reached) = finish(transaction, worked).await?;
        self.purge_fronts().reached(DEDUP_DUE, reached);
        Ok(count)
    }
}
