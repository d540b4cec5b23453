//! Dead letters, the latest in the order first. Rows lie by shard and seq, and a seq begins with the milliseconds at which its
//! message entered the order: so each shard is read from its end, and the shards are merged by seq.

use std::collections::VecDeque;
use std::sync::Arc;

use waybill_core::ids::{Seq, ShardId};
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DeadLetter;
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction, bytes_of};

use super::cursor::{At, Filling};
use super::dead::matching;
use super::{end_key, first_key};
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::tables::{DEAD, part, part_shard, seq_key, shard_start};

/// Rows read at once, over all shards.
const ROWS_PAGE: usize = 200;
/// Rows read at once of one shard at least.
const ROWS_MIN: usize = 8;

/// What is left of one shard.
struct Head {
    shard: ShardId,
    /// Read and not looked at yet, the latest first.
    rows: VecDeque<Row>,
    /// Nothing from here on is left to read.
    until: RecordIdKey,
    over: bool,
}

impl Head {
    /// The seq of its latest row.
    async fn latest(&mut self, transaction: &dyn Transaction, limit: usize) -> Result<Option<u64>, StoreError> {
        if self.rows.is_empty() && !self.over {
            let (from, until) = (Bound::Included(shard_start(self.shard)), Bound::Excluded(self.until.clone()));
            self.rows = transaction.scan_back(DEAD, from, until, limit).await.map_err(store_error)?.into();
            self.over = self.rows.len() < limit;
            if let Some(last) = self.rows.back() {
                self.until = last.key.clone();
            }
        }
        Ok(self.rows.front().and_then(|row| part(&row.key, 1)))
    }
}

/// The shards that have dead letters, each found by its last row.
async fn shards(transaction: &dyn Transaction) -> Result<Vec<ShardId>, StoreError> {
    let (from, mut until) = (Bound::Included(first_key()), Bound::Excluded(end_key()));
    let mut shards = Vec::new();
    loop {
        let last = transaction.scan_back(DEAD, from.clone(), until, 1).await.map_err(store_error)?;
        let Some(shard) = last.first().and_then(|row| part_shard(&row.key)) else { return Ok(shards) };
        until = Bound::Excluded(shard_start(shard));
        shards.push(shard);
    }
}

/// One page.
pub async fn latest_dead(
    transaction: &dyn Transaction,
    filter: &Filter,
    cursor: Option<&str>,
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<Page<Arc<DeadLetter>>, StoreError> {
    let after = cursor.map(|cursor| At::from_cursor(cursor, 2)).transpose()?;
    let after = after.map(|at| (at.seq().0, at.shard()));
    // A message died after it entered the order.
    let before = filter.before.map_or(u64::MAX, |before| before.0.saturating_mul(1 << 20));
    let until = |shard: ShardId| match after {
        Some((seq, of)) if shard < of => seq.saturating_add(1).min(before),
        Some((seq, _)) => seq.min(before),
        None => before,
    };
    let head = |shard| Head { shard, rows: VecDeque::new(), until: seq_key(shard, Seq(until(shard))), over: false };
    let mut heads: Vec<Head> = shards(transaction).await?.into_iter().map(head).collect();
    let at_once = (ROWS_PAGE / heads.len().max(1)).max(ROWS_MIN);
    let mut page = Filling::new(None, limit);
    loop {
        let mut latest: Option<(u64, ShardId, usize)> = None;
        for (index, head) in heads.iter_mut().enumerate() {
            if let Some(seq) = head.latest(transaction, at_once).await? {
                latest = latest.max(Some((seq, head.shard, index)));
            }
        }
        let Some((seq, shard, index)) = latest else { return Ok(page.end()) };
        if !page.has_room() {
            return Ok(page.cut());
        }
        let Some(row) = heads.get_mut(index).and_then(|head| head.rows.pop_front()) else { return Ok(page.end()) };
        page.weigh(bytes_of(row.fields.get("data")).map_or(0, |data| data.len()));
        page.look(At::new(shard, &[seq], ""), matching(filter, &row, spoilt)?);
    }
}
