//! Stopped messages and dead letters: one by one, and lists of them by shard and seq.

use std::sync::Arc;

use waybill_core::ids::{Seq, ShardId};
use waybill_core::inbox::records::{InboxDead, InboxRow};
use waybill_core::outbox::records::DeadState;
use waybill_core::port::inbox_store::InboxFilter;
use waybill_core::port::query::{Page, ReadPage};
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Row, Transaction, bytes_of, text_of};

use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::query::cursor::{At, Filling};
use crate::query::{end_key, first_key};
use crate::rows::inbox as rows;
use crate::store::{SurrealStore, finish};
use crate::tables::{INBOX, INBOX_DATA, INBOX_DEAD, part, part_shard, seq_key};

/// Rows of one page of a walk.
const WALK_PAGE: usize = 100;
/// Numbers of a cursor: the shard and the seq.
const CURSOR_NUMBERS: usize = 2;
/// Tries of a transaction when another one came first.
const TRIES_MAX: u32 = 8;

/// The rows with these seqs, in the order asked.
pub async fn rows(
    transaction: &dyn Transaction,
    shard: ShardId,
    seqs: &[Seq],
    spoilt: &mut Spoilt,
) -> Result<Vec<Option<Arc<InboxRow>>>, StoreError> {
    let mut found = Vec::with_capacity(seqs.len());
    for seq in seqs {
        let key = seq_key(shard, *seq);
        found.push(match transaction.get(INBOX, key.clone()).await.map_err(store_error)? {
            Some(fields) => stopped(transaction, &Row { key, fields }, spoilt).await?,
            None => None,
        });
    }
    Ok(found)
}

/// A row with its message; none when one of them can't be read.
pub(super) async fn stopped(
    transaction: &dyn Transaction,
    row: &Row,
    spoilt: &mut Spoilt,
) -> Result<Option<Arc<InboxRow>>, StoreError> {
    let data = match rows::message_bytes(&row.fields) {
        Some(data) => Some(data),
        None => {
            let apart = transaction.get(INBOX_DATA, row.key.clone()).await.map_err(store_error)?;
            apart.as_ref().and_then(rows::message_bytes)
        }
    };
    spoilt.sift(INBOX, &row.key, rows::stopped(row, data))
}

pub async fn dead_letter(
    transaction: &dyn Transaction,
    shard: ShardId,
    seq: Seq,
) -> Result<Option<Arc<InboxDead>>, StoreError> {
    let key = seq_key(shard, seq);
    let fields = transaction.get(INBOX_DEAD, key.clone()).await.map_err(store_error)?;
    fields.map(|fields| rows::dead(&Row { key, fields })).transpose()
}

/// Changes the condition of a dead letter.
pub async fn mark(store: &SurrealStore, shard: ShardId, seq: Seq, state: &DeadState) -> Result<bool, StoreError> {
    let mut tries = 1;
    loop {
        let mut spoilt = Spoilt::default();
        let transaction = store.begin(true).await?;
        let worked = try_mark(transaction.as_ref(), shard, seq, state, &mut spoilt).await;
        let done = finish(transaction, worked).await;
        store.set_aside(spoilt).await;
        match done {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            done => return done,
        }
    }
}

async fn try_mark(
    transaction: &dyn Transaction,
    shard: ShardId,
    seq: Seq,
    state: &DeadState,
    spoilt: &mut Spoilt,
) -> Result<bool, StoreError> {
    let key = seq_key(shard, seq);
    let read = dead_letter(transaction, shard, seq).await;
    let Some(dead) = spoilt.note_corrupt(INBOX_DEAD, &key, read)? else { return Ok(false) };
    let dead = InboxDead { state: state.clone(), ..Arc::unwrap_or_clone(dead) };
    transaction.put(INBOX_DEAD, key, rows::of_dead(&dead)?).await.map_err(store_error)?;
    Ok(true)
}

/// Whether the columns leave a match possible.
pub(super) fn may_match(filter: &InboxFilter, row: &Row) -> bool {
    let holds = |wanted: Option<&str>, column: &str| {
        wanted.is_none_or(|wanted| text_of(row.fields.get(column)).is_none_or(|found| found == wanted))
    };
    holds(filter.consumer.as_ref().map(|consumer| consumer.as_str()), "consumer_name")
        && holds(filter.tenant.as_ref().map(|tenant| tenant.as_str()), "tenant")
        && holds(filter.context.as_deref(), "context")
        && holds(filter.id.as_ref().map(|id| id.as_str()), "message_id")
}

/// Rows of a list from a cursor on.
struct Walk<T> {
    table: &'static str,
    from: Bound,
    page: Filling<T>,
}

impl<T> Walk<T> {
    fn new(table: &'static str, cursor: Option<&str>, limit: usize) -> Result<Self, StoreError> {
        let after = cursor.map(|cursor| At::from_cursor(cursor, CURSOR_NUMBERS)).transpose()?;
        let from = match &after {
            Some(at) => Bound::Excluded(seq_key(at.shard(), at.seq())),
            None => Bound::Included(first_key()),
        };
        Ok(Self { table, from, page: Filling::new(after, limit) })
    }

    /// The page, with more behind it.
    fn cut(self) -> ReadPage<T> {
        let reads = self.page.reads();
        let Page { items, next_cursor } = self.page.cut();
        ReadPage { items, next_cursor, reads }
    }

    /// The page, which is the last one.
    fn end(self) -> ReadPage<T> {
        let reads = self.page.reads();
        ReadPage { items: self.page.end().items, next_cursor: None, reads }
    }

    async fn rows(&mut self, transaction: &dyn Transaction) -> Result<Vec<Row>, StoreError> {
        let until = Bound::Excluded(end_key());
        let rows = transaction.scan(self.table, self.from.clone(), until, WALK_PAGE).await.map_err(store_error)?;
        if let Some(last) = rows.last() {
            self.from = Bound::Excluded(last.key.clone());
        }
        Ok(rows)
    }
}

/// The shard and the seq of a row; none of one whose key isn't a place, which is noted.
fn place(table: &'static str, row: &Row, spoilt: &mut Spoilt) -> Option<(ShardId, u64)> {
    let place = part_shard(&row.key).zip(part(&row.key, 1));
    if place.is_none() {
        spoilt.note(table, &row.key);
    }
    place
}

pub async fn list(
    transaction: &dyn Transaction,
    filter: &InboxFilter,
    (cursor, limit): (Option<&str>, usize),
    spoilt: &mut Spoilt,
) -> Result<ReadPage<(ShardId, Arc<InboxRow>)>, StoreError> {
    let mut walk = Walk::new(INBOX, cursor, limit)?;
    loop {
        let rows = walk.rows(transaction).await?;
        if rows.is_empty() {
            return Ok(walk.end());
        }
        for row in &rows {
            if !walk.page.has_room() {
                return Ok(walk.cut());
            }
            let Some((shard, seq)) = place(INBOX, row, spoilt) else { continue };
            let found = match may_match(filter, row) {
                true => stopped(transaction, row, spoilt).await?,
                false => None,
            };
            walk.page.weigh(found.as_ref().map_or(0, |found| found.message.weight()));
            let found = found.filter(|found| filter.takes(&found.consumer, &found.message));
            walk.page.visit(At::new(shard, &[seq], ""), found.map(|found| (shard, found)));
        }
    }
}

pub async fn dead(
    transaction: &dyn Transaction,
    filter: &InboxFilter,
    (cursor, limit): (Option<&str>, usize),
    spoilt: &mut Spoilt,
) -> Result<ReadPage<(ShardId, Arc<InboxDead>)>, StoreError> {
    let mut walk = Walk::new(INBOX_DEAD, cursor, limit)?;
    loop {
        let rows = walk.rows(transaction).await?;
        if rows.is_empty() {
            return Ok(walk.end());
        }
        for row in &rows {
            if !walk.page.has_room() {
                return Ok(walk.cut());
            }
            let Some((shard, seq)) = place(INBOX_DEAD, row, spoilt) else { continue };
            walk.page.weigh(bytes_of(row.fields.get("data")).map_or(0, |data| data.len()));
            let found = match may_match(filter, row) {
                true => spoilt.sift(INBOX_DEAD, &row.key, rows::dead(row))?,
                false => None,
            };
            let found = found.filter(|found| filter.takes(&found.consumer, &found.message));
            walk.page.visit(At::new(shard, &[seq], ""), found.map(|found| (shard, found)));
        }
    }
}
