//! Scheduled messages, the soonest due first. Rows lie by shard and due time: so each shard is read from its beginning, and the
//! shards are merged by due time.

use std::collections::VecDeque;

use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Row, Transaction};

use super::latest::{ROWS_MIN, WALK_BYTES_MAX, WALK_PAGE, weight};
use super::{end_key, first_key};
use crate::fault::store_error;
use crate::tables::{SCHEDULED, part, part_shard, shard_end, shard_start};

/// What is left of one shard.
struct Head {
    shard: ShardId,
    /// Read and not looked at yet, the soonest first.
    rows: VecDeque<Row>,
    /// What is left to read begins here.
    from: Bound,
    over: bool,
}

impl Head {
    fn new(shard: ShardId) -> Self {
        Self { shard, rows: VecDeque::new(), from: Bound::Included(shard_start(shard)), over: false }
    }

    /// When its soonest row is due.
    async fn due(&mut self, transaction: &dyn Transaction, limit: usize) -> Result<Option<u64>, StoreError> {
        if self.rows.is_empty() && !self.over {
            let (from, until) = (self.from.clone(), Bound::Excluded(shard_end(self.shard)));
            self.rows = transaction.scan(SCHEDULED, from, until, limit).await.map_err(store_error)?.into();
            self.over = self.rows.len() < limit;
            if let Some(last) = self.rows.back() {
                self.from = Bound::Excluded(last.key.clone());
            }
        }
        Ok(self.rows.front().map(|row| part(&row.key, 1).unwrap_or(0)))
    }
}

/// The shards that have scheduled messages, each found by its first row.
async fn shards(transaction: &dyn Transaction) -> Result<Vec<ShardId>, StoreError> {
    let mut from = Bound::Included(first_key());
    let mut shards = Vec::new();
    loop {
        let first = transaction.scan(SCHEDULED, from, Bound::Excluded(end_key()), 1).await.map_err(store_error)?;
        let Some(shard) = first.first().and_then(|row| part_shard(&row.key)) else { return Ok(shards) };
        from = Bound::Included(shard_end(shard));
        shards.push(shard);
    }
}

/// Calls `each` with the soonest due rows, `reads` of them at most and `WALK_BYTES_MAX` of bytes. Answers when the first row that
/// wasn't looked at is due, if there is one.
pub async fn walk(
    transaction: &dyn Transaction,
    reads: usize,
    mut each: impl FnMut(&Row, ShardId) + Send,
) -> Result<Option<UnixMillis>, StoreError> {
    let mut heads: Vec<Head> = shards(transaction).await?.into_iter().map(Head::new).collect();
    let at_once = (WALK_PAGE.min(reads.saturating_add(1)) / heads.len().max(1)).max(ROWS_MIN);
    let (mut left, mut bytes) = (reads, 0_usize);
    loop {
        let mut soonest: Option<(u64, ShardId, usize)> = None;
        for (index, head) in heads.iter_mut().enumerate() {
            if let Some(due) = head.due(transaction, at_once).await? {
                let next = (due, head.shard, index);
                soonest = Some(soonest.map_or(next, |soonest| soonest.min(next)));
            }
        }
        let Some((due, shard, index)) = soonest else { return Ok(None) };
        if left == 0 || bytes >= WALK_BYTES_MAX {
            return Ok(Some(UnixMillis(due)));
        }
        let Some(row) = heads.get_mut(index).and_then(|head| head.rows.pop_front()) else { return Ok(None) };
        left -= 1;
        bytes = bytes.saturating_add(weight(&row));
        each(&row, shard);
    }
}
