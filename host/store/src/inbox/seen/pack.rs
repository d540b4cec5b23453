//! Packing what was added to a bucket, a bounded part of it in a transaction: fingerprints become a table, counters go into their blocks.

use std::collections::{BTreeMap, BTreeSet};

use waybill_core::ids::ShardId;
use waybill_core::inbox::fingerprint::ContentCheck;
use waybill_core::inbox::seen::{Member, OwnedAge};
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Row, Transaction};

use super::TRIES_MAX;
use super::bucket::{BucketKey, Form, Part};
use super::records::{self, Content};
use super::table::{blocks_for, cut};
use crate::codec::inbox::seen::{BucketHead, HASH_BYTES, SeenIds, Table, number_block};
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::store::{SurrealStore, finish};
use crate::tables::INBOX_SEEN;

/// Records of added ids that are packed in one transaction.
pub const RECORDS_MAX: usize = 1_024;
/// Records read at once: each may hold a whole commit.
const RECORDS_PAGE: usize = 64;
/// Bytes of ids after which no further page is packed in a transaction.
const BYTES_MAX: usize = 512 * 1024;

/// What was added to a bucket, as far as one transaction takes it.
#[derive(Default)]
struct Batch {
    ids: BTreeMap<Member, ContentCheck>,
    age: OwnedAge,
    rows: Vec<Row>,
}

/// Packs the first of what was added. How many records that were: zero = nothing is left.
pub async fn pack(store: &SurrealStore, shard: ShardId, bucket: &BucketKey) -> Result<usize, StoreError> {
    let mut tries = 1;
    loop {
        let mut spoilt = Spoilt::default();
        let transaction = store.begin(true).await?;
        let worked = try_pack(transaction.as_ref(), shard, bucket, &mut spoilt).await;
        if matches!(worked, Ok((_, true))) {
            // Tables are numbered anew: of a head that couldn't be read the filters of the same numbers may still be there.
            store.seen_filters().forget(shard, bucket);
        }
        let done = finish(transaction, worked).await;
        if !matches!(done, Ok((0, _))) {
            store.seen_memory().changed(shard, bucket);
        }
        store.set_aside(spoilt).await;
        match done {
            // What can't be read is moved away by now.
            Err(StoreError::Conflict(_) | StoreError::Corrupt(_)) if tries < TRIES_MAX => tries += 1,
            done => return done.map(|(count, _)| count),
        }
    }
}

/// How many records it packed, and whether the bucket had no head.
async fn try_pack(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    spoilt: &mut Spoilt,
) -> Result<(usize, bool), StoreError> {
    let batch = read(transaction, shard, bucket, spoilt).await?;
    if batch.ids.is_empty() {
        return Ok((0, false));
    }
    let mut head = records::head_to_write(transaction, shard, bucket, spoilt).await?;
    let is_first = head == BucketHead::default();
    head.age = head.age.max(batch.age.0);
    let blocks = match bucket.form {
        Form::Counter => counters(transaction, shard, bucket, &mut head, &batch, spoilt).await?,
        Form::Minute | Form::Run => table(&mut head, &batch),
    };
    // All reads are done: from here on it is only written.
    for (part, block) in blocks {
        let fields = records::of_block(&block)?;
        transaction.put(INBOX_SEEN, bucket.record(shard, part), fields).await.map_err(store_error)?;
    }
    let fields = records::of_head(&head)?;
    transaction.put(INBOX_SEEN, bucket.record(shard, Part::Head), fields).await.map_err(store_error)?;
    let count = batch.rows.len();
    for row in batch.rows {
        transaction.delete(INBOX_SEEN, row.key).await.map_err(store_error)?;
    }
    Ok((count, is_first))
}

/// In the order of the commits: of an id that comes twice the later one counts.
async fn read(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    spoilt: &mut Spoilt,
) -> Result<Batch, StoreError> {
    let mut batch = Batch::default();
    let mut from = Bound::Included(bucket.added_start(shard));
    let until = Bound::Excluded(bucket.blocks_start(shard));
    while batch.rows.len() < RECORDS_MAX && batch.ids.len() * HASH_BYTES < BYTES_MAX {
        let rows = transaction.scan(INBOX_SEEN, from, until.clone(), RECORDS_PAGE).await.map_err(store_error)?;
        let is_last = rows.len() < RECORDS_PAGE;
        let Some(last) = rows.last() else { break };
        from = Bound::Excluded(last.key.clone());
        for row in rows {
            if let Some(Content::Added(added)) = spoilt.sift(INBOX_SEEN, &row.key, records::read(&row))? {
                batch.age = batch.age.max(added.age);
                batch.ids.extend(added.ids);
                batch.rows.push(row);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(batch)
}

/// One more table.
fn table(head: &mut BucketHead, batch: &Batch) -> Vec<(Part, SeenIds)> {
    let ids = batch.ids.len() as u64;
    let table = Table { number: head.next, blocks: blocks_for(ids), ids };
    head.next = head.next.wrapping_add(1);
    head.tables.push(table);
    let blocks = cut(&batch.ids, batch.age, (0, table.blocks), table.blocks);
    blocks.into_iter().map(|(block, ids)| (Part::Block { table: table.number, block }, ids)).collect()
}

/// The blocks of counters with what was added to them. Each is a table of one block: so the head says which there are.
async fn counters(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    head: &mut BucketHead,
    batch: &Batch,
    spoilt: &mut Spoilt,
) -> Result<Vec<(Part, SeenIds)>, StoreError> {
    let block_of = |member: &Member| match member {
        Member::Number(number) => Some(number_block(*number)),
        Member::Hash(_) => None,
    };
    let touched: BTreeSet<u16> = batch.ids.keys().filter_map(block_of).collect();
    let mut blocks = Vec::with_capacity(touched.len());
    for number in touched {
        let part = Part::of_numbers(number);
        let before = records::block_to_write(transaction, shard, bucket, part, spoilt).await?;
        let mut ids: BTreeMap<Member, ContentCheck> = before.ids.into_iter().collect();
        for (member, check) in &batch.ids {
            if block_of(member) == Some(number) {
                ids.insert(*member, *check);
            }
        }
        let table = Table { number: u32::from(number), blocks: 1, ids: ids.len() as u64 };
        head.tables.retain(|other| other.number != table.number);
        head.tables.push(table);
        blocks.push((part, SeenIds { age: before.age.max(batch.age), ids: ids.into_iter().collect() }));
    }
    Ok(blocks)
}
