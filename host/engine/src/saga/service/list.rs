//! Many sagas, newest start first: those in memory as they are now, merged with the rows of those that rest at other hosts
//! and of those that have ended.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use waybill_core::port::query::Page;
use waybill_core::port::saga_store::SagaTable;
use waybill_core::port::store::StoreError;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::records::SagaSummary;
use waybill_core::time::UnixMillis;

use super::super::SagaHandle;
use super::super::mail::MemoryQuery;
use super::Sagas;

/// Most items of one page.
const LIMIT_MAX: usize = 1_000;
/// Pages read of one table for one answer.
const READS_MAX: usize = 16;

/// Place of a saga in the order of a list: newest start first, ties by tenant and id, descending.
type Place = (UnixMillis, SagaKey);

fn place(saga: &SagaSummary) -> Place {
    (saga.started_at, saga.key.clone())
}

/// A place as a cursor has it.
fn written((at, key): &Place) -> (u64, String, String) {
    (at.0, key.tenant.to_string(), key.id.to_string())
}

/// Where a list goes on, as a caller hands it back.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    /// Only what comes after this place: start, tenant, id.
    after: Option<(u64, String, String)>,
    /// Where each table is read on: nothing = from its beginning, an empty text = it is through.
    open: Option<String>,
    done: Option<String>,
}

impl Cursor {
    fn read(text: Option<&str>) -> Result<Self, SagaError> {
        let bad = || StoreError::Statement("the cursor isn't one that this list gave out".to_owned());
        let Some(text) = text else { return Ok(Self::default()) };
        let bytes = hex(text).ok_or_else(bad)?;
        Ok(serde_json::from_slice(&bytes).map_err(|_| bad())?)
    }

    fn write(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        text.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    fn place(&self) -> Result<Option<Place>, SagaError> {
        let Some((at, tenant, id)) = &self.after else { return Ok(None) };
        let key = SagaKey { tenant: waybill_core::ids::Tenant::new(tenant)?, id: SagaId::new(id)? };
        Ok(Some((UnixMillis(*at), key)))
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}

/// What was read of one source.
#[derive(Default)]
struct Source {
    items: Vec<SagaSummary>,
    /// Cursor of the page that each item came with.
    pages: Vec<(usize, Option<String>)>,
    /// Where it would be read on; none = it is through.
    next: Option<String>,
    /// Nothing after this place is known of it.
    known_to: Option<Place>,
}

impl Source {
    /// Where it is to be read on when everything up to a place was handed out: with the page that holds the next item.
    fn resume(&self, after: &Place) -> Option<String> {
        let taken = self.items.iter().filter(|saga| place(saga) >= *after).count();
        if taken == self.items.len() {
            return Some(self.next.clone().unwrap_or_default());
        }
        self.pages.iter().rev().find(|(first, _)| *first <= taken).and_then(|(_, cursor)| cursor.clone())
    }
}

impl Sagas {
    pub(super) async fn list_sagas(
        &self,
        filter: &SagaFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SagaSummary>, SagaError> {
        let tables: &[SagaTable] =
            if filter.is_open { &[SagaTable::Open] } else { &[SagaTable::Open, SagaTable::Done] };
        let limit = limit.clamp(1, LIMIT_MAX);
        let cursor = Cursor::read(cursor)?;
        let after = cursor.place()?;
        let mut all = self.in_memory(filter, after.as_ref()).await;
        let seen: HashSet<SagaKey> = all.iter().map(|saga| saga.key.clone()).collect();
        let mut sources = Vec::new();
        for table in tables {
            let from = if *table == SagaTable::Open { &cursor.open } else { &cursor.done };
            let source = self.read(*table, filter, from.as_deref(), after.as_ref(), limit).await?;
            all.extend(source.items.iter().filter(|saga| !seen.contains(&saga.key)).cloned());
            sources.push((*table, source));
        }
        all.sort_by_key(|saga| std::cmp::Reverse(place(saga)));
        all.dedup_by(|a, b| a.key == b.key);
        // What a table hasn't been read up to might stand before it.
        if sources.iter().any(|(_, source)| source.next.is_some() && source.known_to.is_none()) {
            all.clear();
        }
        if let Some(known) = sources.iter().filter_map(|(_, source)| source.known_to.as_ref()).max() {
            all.retain(|saga| place(saga) >= *known);
        }
        let is_all = all.len() <= limit && sources.iter().all(|(_, source)| source.next.is_none());
        all.truncate(limit);
        let next = match all.last().map(place).or_else(|| after.clone()) {
            _ if is_all => None,
            last => Some(next_cursor(&cursor, last.as_ref(), &sources)),
        };
        Ok(Page { items: all, next_cursor: next })
    }

    /// Where a list goes on behind a saga of the page that was read from `cursor`.
    pub fn cursor_behind(cursor: Option<&str>, saga: &SagaSummary) -> Result<String, SagaError> {
        Ok(Cursor { after: Some(written(&place(saga))), ..Cursor::read(cursor)? }.write())
    }

    /// How many match, where this host writes all sagas that haven't ended and none else is asked for: each shard is asked once.
    pub(super) async fn count_in_memory(&self, filter: &SagaFilter) -> Option<u64> {
        if !filter.is_open {
            return None;
        }
        let mut count = 0;
        for shard in &self.shards {
            let filter = Box::new(filter.clone());
            let counted = shard.query(|reply| MemoryQuery::Count { filter, reply }).await;
            count += counted.filter(|_| shard.is_written())?;
        }
        Some(count)
    }

    async fn in_memory(&self, filter: &SagaFilter, after: Option<&Place>) -> Vec<SagaSummary> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let filter = Box::new(filter.clone());
            all.extend(shard.query(|reply| MemoryQuery::List { filter, reply }).await.unwrap_or_default());
        }
        all.retain(|saga| after.is_none_or(|after| place(saga) < *after));
        all
    }

    /// Reads a table until a page is full, within bounds.
    async fn read(
        &self,
        table: SagaTable,
        filter: &SagaFilter,
        from: Option<&str>,
        after: Option<&Place>,
        limit: usize,
    ) -> Result<Source, SagaError> {
        let mut source = Source::default();
        // Rows of sagas in memory are behind.
        let is_whole = self.shards.iter().all(|shard| shard.is_written());
        if from == Some("") || (table == SagaTable::Open && is_whole) {
            return Ok(source);
        }
        let mut cursor = from.map(str::to_owned);
        for _ in 0..READS_MAX {
            let page = self.store().list_sagas(table, filter, cursor.as_deref(), limit).await?;
            source.pages.push((source.items.len(), cursor));
            let last = page.items.last().map(place);
            let items = page.items.into_iter().filter(|saga| after.is_none_or(|after| place(saga) < *after));
            let items = self.not_in_memory(table, items.collect()).await;
            source.items.extend(items);
            source.known_to = last.or(source.known_to);
            source.next = page.next_cursor.clone();
            cursor = page.next_cursor;
            if cursor.is_none() {
                source.known_to = None;
                break;
            }
            if source.items.len() >= limit {
                break;
            }
        }
        Ok(source)
    }

    /// Without the rows of sagas that are in this host's memory, whether or not they match there.
    async fn not_in_memory(&self, table: SagaTable, rows: Vec<SagaSummary>) -> Vec<SagaSummary> {
        if table == SagaTable::Done {
            return rows;
        }
        let mut known: HashSet<SagaKey> = HashSet::new();
        for shard in self.shards.iter().filter(|shard| SagaHandle::is_written(shard)) {
            let count = self.shared.context.config.shards;
            let keys: Vec<SagaKey> =
                rows.iter().map(|row| row.key.clone()).filter(|key| key.shard(count) == shard.shard).collect();
            known.extend(shard.query(|reply| MemoryQuery::Present { keys, reply }).await.unwrap_or_default());
        }
        rows.into_iter().filter(|row| !known.contains(&row.key)).collect()
    }
}

fn next_cursor(before: &Cursor, last: Option<&Place>, sources: &[(SagaTable, Source)]) -> String {
    let mut next = Cursor { after: last.map(written), open: before.open.clone(), done: before.done.clone() };
    for (table, source) in sources {
        let resume = match last {
            Some(last) => source.resume(last),
            None => Some(source.next.clone().unwrap_or_default()),
        };
        match table {
            SagaTable::Open => next.open = resume,
            SagaTable::Done => next.done = resume,
        }
    }
    next.write()
}
