//! Stopped messages, the latest received first: each shard is read from its end, and shards are merged by when their messages were
//! received. What an operator put back has a new place and the time of its message, and comes by that place within its shard.

use std::sync::Arc;

use waybill_core::ids::{Seq, ShardId};
use waybill_core::inbox::reached::Reached;
use waybill_core::inbox::records::InboxRow;
use waybill_core::port::inbox_store::InboxFilter;
use waybill_core::port::query::ReadPage;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Transaction, millis_of};

use super::stopped::{may_match, stopped};
use crate::quarantine::Spoilt;
use crate::query::cursor::{At, Filling};
use crate::query::latest::{Head, ROWS_MIN, ROWS_PAGE, Range, shards};
use crate::tables::{INBOX, seq_key, shard_end, shard_start};

pub async fn newest(
    transaction: &dyn Transaction,
    filter: &InboxFilter,
    (cursor, limit): (Option<&str>, usize),
    spoilt: &mut Spoilt,
) -> Result<ReadPage<(ShardId, Arc<InboxRow>)>, StoreError> {
    let mut reached = Reached::from_cursor(cursor)?;
    let mut heads: Vec<Head> = Vec::new();
    for shard in shards(transaction, INBOX, spoilt).await? {
        let end = reached.of(shard).map_or_else(|| shard_end(shard), |seq| seq_key(shard, seq));
        heads.push(Head::new(INBOX, shard, vec![Range { first: shard_start(shard), end, is_narrow: false }]));
    }
    let mut page = Filling::new(None, limit);
    while let Some(Next { shard, seq, index, .. }) = next(&mut heads, transaction, spoilt).await? {
        if !page.has_room() {
            let reads = page.reads();
            return Ok(ReadPage { items: page.end().items, next_cursor: Some(reached.to_cursor()), reads });
        }
        let Some(row) = heads.get_mut(index).and_then(|head| head.rows.pop_front()) else { break };
        reached.note(shard, Seq(seq));
        let found = match may_match(filter, &row) {
            true => stopped(transaction, &row, spoilt).await?,
            false => None,
        };
        page.weigh(found.as_ref().map_or(0, |found| found.message.weight()));
        let found = found.filter(|found| filter.takes(&found.consumer, &found.message));
        page.visit(At::new(shard, &[seq], ""), found.map(|found| (shard, found)));
    }
    let reads = page.reads();
    Ok(ReadPage { items: page.end().items, next_cursor: None, reads })
}

/// The row that comes next, of all shards' latest ones.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Next {
    received_at: u64,
    seq: u64,
    shard: ShardId,
    index: usize,
}

async fn next(
    heads: &mut [Head],
    transaction: &dyn Transaction,
    spoilt: &mut Spoilt,
) -> Result<Option<Next>, StoreError> {
    let at_once = (ROWS_PAGE / heads.len().max(1)).max(ROWS_MIN);
    let mut latest = None;
    for (index, head) in heads.iter_mut().enumerate() {
        if let Some(seq) = head.latest(transaction, at_once, spoilt).await? {
            let column = head.rows.front().and_then(|row| millis_of(row.fields.get("received_at")));
            let received_at = column.unwrap_or(0);
            latest = latest.max(Some(Next { received_at, seq, shard: head.shard, index }));
        }
    }
    Ok(latest)
}
