//! Rows from their ends: dead letters, the latest in the order first, and what lists of other messages, newest first, are made of.
//! Rows lie by shard and seq, and a seq begins with the milliseconds at which its message entered the order: so each shard is read from
//! its end, and the shards are merged by seq. Scheduled messages lie by shard and due time in the same way.

use std::collections::VecDeque;
use std::sync::Arc;

use waybill_core::ids::{Place, Seq, ShardId};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DeadLetter;
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction, bytes_of};

use super::cursor::{At, Filling};
use super::dead::matching;
use super::reach::{Reach, Span};
use super::{end_key, first_key};
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::store::SurrealStore;
use crate::tables::{DEAD, part, part_shard, shard_start};

/// Rows read at once, over all shards.
pub(crate) const ROWS_PAGE: usize = 200;
/// Rows read at once by a walk, over all shards.
pub(super) const WALK_PAGE: usize = 500;
/// Bytes of the rows looked at by one walk, after which it ends.
pub(super) const WALK_BYTES_MAX: usize = 256 * 1024 * 1024;
/// A seq is the milliseconds at which its message entered the order, shifted by this.
const SEQ_MILLIS_SHIFT: u32 = 20;
/// Rows read at once of one shard at least.
pub(crate) const ROWS_MIN: usize = 8;

/// A range of keys.
pub(crate) struct Range {
    pub first: RecordIdKey,
    /// The one behind it.
    pub end: RecordIdKey,
    /// Whether all of it lies under one number: it has few rows then, and is read forwards, which costs SurrealKV less than going backwards.
    pub is_narrow: bool,
}

/// What is left of one shard in a table.
pub(crate) struct Head {
    table: &'static str,
    pub shard: ShardId,
    /// Read and not looked at yet, the latest first.
    pub rows: VecDeque<Row>,
    /// Ranges of keys that are left to read, the latest at the end.
    left: Vec<Range>,
}

impl Head {
    /// The rows of a shard in some ranges of keys, which are in order.
    pub fn new(table: &'static str, shard: ShardId, ranges: Vec<Range>) -> Self {
        Self { table, shard, rows: VecDeque::new(), left: ranges }
    }

    /// The number behind the shard in the key of its latest row: a seq, or when it is due. Rows whose keys have none are passed over and
    /// noted: others lie behind them.
    pub async fn latest(
        &mut self,
        transaction: &dyn Transaction,
        limit: usize,
        spoilt: &mut Spoilt,
    ) -> Result<Option<u64>, StoreError> {
        loop {
            while self.rows.is_empty()
                && let Some(Range { first, end, is_narrow }) = self.left.pop()
            {
                if is_narrow {
                    self.rows = self.all_of(transaction, first, end, limit).await?;
                    continue;
                }
                let (from, until) = (Bound::Included(first.clone()), Bound::Excluded(end));
                self.rows = transaction.scan_back(self.table, from, until, limit).await.map_err(store_error)?.into();
                let more = self.rows.back().filter(|_| self.rows.len() >= limit);
                self.left.extend(more.map(|last| Range { first, end: last.key.clone(), is_narrow }));
            }
            let Some(row) = self.rows.front() else { return Ok(None) };
            if let Some(seq) = part(&row.key, 1) {
                return Ok(Some(seq));
            }
            spoilt.note(self.table, &row.key);
            self.rows.pop_front();
        }
    }

    /// All rows of a range, the latest first.
    async fn all_of(
        &self,
        transaction: &dyn Transaction,
        first: RecordIdKey,
        end: RecordIdKey,
        limit: usize,
    ) -> Result<VecDeque<Row>, StoreError> {
        let (mut from, mut all) = (Bound::Included(first), VecDeque::new());
        loop {
            let until = Bound::Excluded(end.clone());
            let rows = transaction.scan(self.table, from, until, limit).await.map_err(store_error)?;
            let next = rows.last().filter(|_| rows.len() >= limit).map(|last| last.key.clone());
            rows.into_iter().for_each(|row| all.push_front(row));
            match next {
                Some(last) => from = Bound::Excluded(last),
                None => return Ok(all),
            }
        }
    }
}

/// The shards that have rows in a table, each found by its last row.
pub(crate) async fn shards(
    transaction: &dyn Transaction,
    table: &'static str,
    spoilt: &mut Spoilt,
) -> Result<Vec<ShardId>, StoreError> {
    let (from, mut until) = (Bound::Included(first_key()), Bound::Excluded(end_key()));
    let mut shards = Vec::new();
    loop {
        let last = transaction.scan_back(table, from.clone(), until, 1).await.map_err(store_error)?;
        let Some(row) = last.first() else { return Ok(shards) };
        until = Bound::Excluded(match part_shard(&row.key) {
            Some(shard) => {
                shards.push(shard);
                shard_start(shard)
            }
            None => {
                spoilt.note(table, &row.key);
                row.key.clone()
            }
        });
    }
}

/// What lies within reach of rows that lie under the seq of their messages, before a seq in each shard.
fn within(reach: &Reach, until: impl Fn(ShardId) -> u64 + Send) -> impl Fn(ShardId) -> Vec<Range> + Send {
    let spans = reach.spans(Place::seq);
    move |shard| ranges(&spans, shard, Seq(until(shard)))
}

/// What of some spans lies in a shard before a seq.
pub(super) fn ranges(spans: &[Span], shard: ShardId, end: Seq) -> Vec<Range> {
    let within = spans.iter().filter_map(|span| span.within(shard, end));
    within.map(|span| Range { first: span.begin(), end: span.end(), is_narrow: span.is_narrow() }).collect()
}

/// All shards of a table from their ends on, the latest row first.
pub(super) struct Latest<'t> {
    transaction: &'t dyn Transaction,
    heads: Vec<Head>,
    /// Rows read at once of one shard.
    at_once: usize,
}

/// A row that comes next: the number behind the shard in its key, its shard, and the index of its head.
pub(super) type Next = (u64, ShardId, usize);

impl<'t> Latest<'t> {
    /// `ranges`: what is wanted of a shard, in order. `rows`: how many are read at once, over all shards.
    pub async fn begin(
        transaction: &'t dyn Transaction,
        table: &'static str,
        rows: usize,
        ranges: impl Fn(ShardId) -> Vec<Range> + Send,
        spoilt: &mut Spoilt,
    ) -> Result<Self, StoreError> {
        let all = shards(transaction, table, spoilt).await?;
        let heads: Vec<Head> = all.into_iter().map(|shard| Head::new(table, shard, ranges(shard))).collect();
        let at_once = (rows / heads.len().max(1)).max(ROWS_MIN);
        Ok(Self { transaction, heads, at_once })
    }

    pub async fn next(&mut self, spoilt: &mut Spoilt) -> Result<Option<Next>, StoreError> {
        let mut latest: Option<Next> = None;
        for (index, head) in self.heads.iter_mut().enumerate() {
            if let Some(seq) = head.latest(self.transaction, self.at_once, spoilt).await? {
                latest = latest.max(Some((seq, head.shard, index)));
            }
        }
        Ok(latest)
    }

    pub fn take(&mut self, next: Next) -> Option<Row> {
        self.heads.get_mut(next.2).and_then(|head| head.rows.pop_front())
    }
}

/// The seq before which everything lies that died before an instant: a message died after it entered the order.
fn end_of(before: Option<UnixMillis>) -> u64 {
    before.map_or(u64::MAX, |before| before.0.saturating_mul(1 << SEQ_MILLIS_SHIFT))
}

/// Bytes of a row's message as it is stored.
pub(super) fn weight(row: &Row) -> usize {
    bytes_of(row.fields.get("data")).map_or(0, |data| data.len())
}

/// Calls `each` with the latest rows within reach of what died before an instant, `reads` of them at most and `WALK_BYTES_MAX` of bytes.
/// Answers when the last row that was looked at entered the order, if there are more behind it. Rows whose keys are no places are noted.
pub async fn walk(
    transaction: &dyn Transaction,
    reach: &Reach,
    before: Option<UnixMillis>,
    reads: usize,
    spoilt: &mut Spoilt,
    mut each: impl FnMut(&Row, ShardId, &mut Spoilt) -> Result<(), StoreError> + Send,
) -> Result<Option<UnixMillis>, StoreError> {
    let end = end_of(before);
    let ranges = within(reach, |_| end);
    let mut latest = Latest::begin(transaction, DEAD, WALK_PAGE.min(reads.saturating_add(1)), ranges, spoilt).await?;
    let (mut left, mut bytes) = (reads, 0_usize);
    let mut reached = None;
    while let Some(next) = latest.next(spoilt).await? {
        if left == 0 || bytes >= WALK_BYTES_MAX {
            return Ok(Some(reached.unwrap_or(UnixMillis(next.0 >> SEQ_MILLIS_SHIFT))));
        }
        let Some(row) = latest.take(next) else { break };
        left -= 1;
        bytes = bytes.saturating_add(weight(&row));
        reached = Some(UnixMillis(next.0 >> SEQ_MILLIS_SHIFT));
        each(&row, next.1, spoilt)?;
    }
    Ok(None)
}

pub async fn latest_dead(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    filter: &Filter,
    cursor: Option<&str>,
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<Page<Arc<DeadLetter>>, StoreError> {
    let after = cursor.map(|cursor| At::from_cursor(cursor, 2)).transpose()?;
    let after = after.map(|at| (at.seq().0, at.shard()));
    let before = end_of(filter.before);
    let until = |shard: ShardId| match after {
        Some((seq, of)) if shard < of => seq.saturating_add(1).min(before),
        Some((seq, _)) => seq.min(before),
        None => before,
    };
    let reach = Reach::of(store, transaction, filter, spoilt).await?;
    let mut latest = Latest::begin(transaction, DEAD, ROWS_PAGE, within(&reach, until), spoilt).await?;
    let mut page = Filling::new(None, limit);
    while let Some(next) = latest.next(spoilt).await? {
        if !page.has_room() {
            return Ok(page.cut());
        }
        let Some(row) = latest.take(next) else { break };
        page.weigh(weight(&row));
        page.visit(At::new(next.1, &[next.0], ""), matching(filter, &row, spoilt)?);
    }
    Ok(page.end())
}
