//! Lists and counts of sagas. The rows of every shard lie by their start, so a page is the newest of the shards' ends,
//! merged. Only columns are read, never trees that lie apart.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use waybill_core::ids::ShardId;
use waybill_core::port::query::Page;
use waybill_core::port::saga_store::SagaTable;
use waybill_core::port::store::StoreError;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::records::SagaSummary;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction};

use super::place::name;
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::query::cursor::{At, Filling};
use crate::query::{end_key, first_key};
use crate::rows::saga::summary;
use crate::store::SurrealStore;
use crate::tables::{part, part_shard, part_text, saga_key, saga_start_of, shard_end, shard_start};

/// Rows read at once over all shards, and of one shard at least.
const PAGE: usize = 256;
const LANE_PAGE_MIN: usize = 16;
/// Rows read at once of one shard against a server, which reads all of a range however few rows are asked for.
const LANE_PAGE_REMOTE: usize = 500;
/// Therefore ranges are narrow there: the latest sagas of so many milliseconds, ...
const WINDOW_MS: u64 = 10_000;
/// ... and before them those of so many times as long, and so on.
const WINDOW_GROWTH: u64 = 16;
/// Rows of one page of a count.
const COUNT_PAGE: usize = 500;
/// Numbers of a cursor: none for the shard, the start, the length of the tenant.
const CURSOR_NUMBERS: usize = 3;

/// What orders a list: newest start first, then tenant and id, descending.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    started: u64,
    tenant: String,
    id: String,
}

impl Place {
    fn of(key: &RecordIdKey) -> Option<Self> {
        Some(Self { started: part(key, 1)?, tenant: part_text(key, 2)?.to_owned(), id: part_text(key, 3)?.to_owned() })
    }

    fn at(&self) -> At {
        At::new(ShardId(0), &[self.started, self.tenant.len() as u64], &format!("{}{}", self.tenant, self.id))
    }
}

/// The rows of one shard, from its end.
struct Lane {
    shard: ShardId,
    until: Bound,
    /// The range begins at this start.
    low: u64,
    /// How much further the next range reaches.
    window: u64,
    rows: VecDeque<(Place, Row)>,
    exhausted: bool,
}

impl Lane {
    /// Behind a place in the list, or from the end. In windows down from `newest` if there is one.
    fn new(shard: ShardId, behind: Option<&(UnixMillis, SagaKey)>, newest: Option<UnixMillis>) -> Self {
        let until = match behind {
            Some((started, key)) => saga_key(shard, *started, key),
            None => shard_end(shard),
        };
        let top = behind.map_or(newest, |(started, _)| newest.map(|_| *started));
        Self {
            shard,
            until: Bound::Excluded(until),
            low: top.map_or(0, |top| top.0.saturating_sub(WINDOW_MS)),
            window: WINDOW_MS * WINDOW_GROWTH,
            rows: VecDeque::new(),
            exhausted: false,
        }
    }

    fn head(&self) -> Option<&Place> {
        self.rows.front().map(|(place, _)| place)
    }

    /// Reads the next rows if none are left.
    async fn fill(
        &mut self,
        transaction: &dyn Transaction,
        table: &'static str,
        page: usize,
    ) -> Result<(), StoreError> {
        while self.rows.is_empty() && !self.exhausted {
            let low = saga_start_of(self.shard, UnixMillis(self.low));
            let from = Bound::Included(low.clone());
            let rows = transaction.scan_back(table, from, self.until.clone(), page).await.map_err(store_error)?;
            match rows.last() {
                Some(last) if rows.len() == page => self.until = Bound::Excluded(last.key.clone()),
                _ => {
                    self.exhausted = self.low == 0;
                    self.until = Bound::Excluded(low);
                    self.low = self.low.saturating_sub(self.window);
                    self.window = self.window.saturating_mul(WINDOW_GROWTH);
                }
            }
            self.rows.extend(rows.into_iter().filter_map(|row| Some((Place::of(&row.key)?, row))));
        }
        Ok(())
    }
}

/// The shards that have rows. Against a server, where every read of a range reads all of it, those that there are.
async fn shards(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    table: &'static str,
) -> Result<Vec<ShardId>, StoreError> {
    if !store.is_embedded() {
        return Ok((0..store.shards()).map(ShardId).collect());
    }
    let mut shards = Vec::new();
    let mut until = end_key();
    loop {
        let (from, before) = (Bound::Included(first_key()), Bound::Excluded(until));
        let rows = transaction.scan_back(table, from, before, 1).await.map_err(store_error)?;
        let Some(shard) = rows.first().and_then(|row| part_shard(&row.key)) else { return Ok(shards) };
        until = shard_start(shard);
        shards.push(shard);
    }
}

/// Now, to begin at: whatever began later by another clock is in the first window too.
fn now() -> UnixMillis {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

pub async fn list(
    store: &SurrealStore,
    table: SagaTable,
    filter: &SagaFilter,
    (cursor, limit): (Option<&str>, usize),
    spoilt: &mut Spoilt,
) -> Result<Page<SagaSummary>, StoreError> {
    let table = name(table);
    let after = cursor.map(|cursor| At::from_cursor(cursor, CURSOR_NUMBERS)).transpose()?;
    let behind = after.as_ref().map(|at| Ok::<_, StoreError>((UnixMillis(at.number(0)), at.saga(1)?))).transpose()?;
    let transaction = store.begin(false).await?;
    let newest = (!store.is_embedded()).then(now);
    let shards = shards(store, transaction.as_ref(), table).await?;
    let mut lanes: Vec<Lane> = shards.into_iter().map(|shard| Lane::new(shard, behind.as_ref(), newest)).collect();
    let lane_page = if store.is_embedded() { (PAGE / lanes.len().max(1)).max(LANE_PAGE_MIN) } else { LANE_PAGE_REMOTE };
    let mut page = Filling::new(after, limit);
    loop {
        for lane in &mut lanes {
            lane.fill(transaction.as_ref(), table, lane_page).await?;
        }
        let newest = lanes.iter_mut().max_by(|one, other| one.head().cmp(&other.head()));
        let Some((place, row)) = newest.and_then(|lane| lane.rows.pop_front()) else { return Ok(page.end()) };
        if !page.has_room() {
            return Ok(page.cut());
        }
        let found = spoilt.sift(table, &row.key, summary(table, &row))?;
        page.visit(place.at(), found.filter(|found| filter.takes(found)));
    }
}

pub async fn count(
    transaction: &dyn Transaction,
    table: SagaTable,
    filter: &SagaFilter,
    spoilt: &mut Spoilt,
) -> Result<u64, StoreError> {
    let table = name(table);
    let mut from = Bound::Included(first_key());
    let mut count = 0;
    loop {
        let rows = transaction.scan(table, from, Bound::Excluded(end_key()), COUNT_PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(count) };
        from = Bound::Excluded(last.key.clone());
        for row in &rows {
            let found = spoilt.sift(table, &row.key, summary(table, row))?;
            count += u64::from(found.is_some_and(|found| filter.takes(&found)));
        }
    }
}
