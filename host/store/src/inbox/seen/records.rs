//! Records of the seen set, one by one: each has a field `data`, and its key says what that is.

use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Object, Row, Transaction, bytes, bytes_of, object};

use super::bucket::{BucketKey, Part};
use crate::codec::inbox::seen::{
    BucketHead, SeenIds, decode_addition, decode_block, decode_bucket, encode_addition, encode_block, encode_bucket,
};
use crate::fault::store_error;
use crate::quarantine::{Spoilt, sifted};
use crate::rows::{encoded, lacks, unreadable};
use crate::tables::INBOX_SEEN;

/// What a record holds.
pub enum Content {
    Head(BucketHead),
    Added(SeenIds),
    Block(SeenIds),
}

/// Reads a record of any part.
pub fn read(row: &Row) -> Result<Content, StoreError> {
    let (_, part) = BucketKey::of_record(&row.key).ok_or_else(|| lacks(INBOX_SEEN, &row.key, "id"))?;
    let data = bytes_of(row.fields.get("data")).ok_or_else(|| lacks(INBOX_SEEN, &row.key, "data"))?;
    let content = match part {
        Part::Head => decode_bucket(&data).map(Content::Head),
        Part::Added(_) => decode_addition(&data).map(Content::Added),
        Part::Block { .. } => decode_block(&data).map(Content::Block),
    };
    content.map_err(|error| unreadable(INBOX_SEEN, &row.key, error))
}

fn of_data(data: Vec<u8>) -> Object {
    object([("data", bytes(data))])
}

pub fn of_head(head: &BucketHead) -> Result<Object, StoreError> {
    encoded(encode_bucket(head)).map(of_data)
}

/// Of what a commit adds.
pub fn of_added(ids: &SeenIds) -> Result<Object, StoreError> {
    encoded(encode_addition(ids)).map(of_data)
}

pub fn of_block(block: &SeenIds) -> Result<Object, StoreError> {
    encoded(encode_block(block)).map(of_data)
}

/// The head of a bucket; none when it isn't there, or can't be read.
pub async fn head(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    spoilt: &mut Spoilt,
) -> Result<Option<BucketHead>, StoreError> {
    let key = bucket.record(shard, Part::Head);
    let Some(fields) = transaction.get(INBOX_SEEN, key.clone()).await.map_err(store_error)? else { return Ok(None) };
    match spoilt.sift(INBOX_SEEN, &key, read(&Row { key: key.clone(), fields }))? {
        Some(Content::Head(head)) => Ok(Some(head)),
        _ => Ok(None),
    }
}

/// A block; none when it isn't there, or can't be read.
pub async fn block(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    part: Part,
    spoilt: &mut Spoilt,
) -> Result<Option<SeenIds>, StoreError> {
    let key = bucket.record(shard, part);
    let Some(fields) = transaction.get(INBOX_SEEN, key.clone()).await.map_err(store_error)? else { return Ok(None) };
    match spoilt.sift(INBOX_SEEN, &key, read(&Row { key: key.clone(), fields }))? {
        Some(Content::Block(block)) => Ok(Some(block)),
        _ => Ok(None),
    }
}

/// The head of a bucket that is about to be written; an empty one when there is none. One that can't be read has to be moved away first.
pub async fn head_to_write(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    spoilt: &mut Spoilt,
) -> Result<BucketHead, StoreError> {
    let key = bucket.record(shard, Part::Head);
    let Some(fields) = transaction.get(INBOX_SEEN, key.clone()).await.map_err(store_error)? else {
        return Ok(BucketHead::default());
    };
    match spoilt.note_corrupt(INBOX_SEEN, &key, read(&Row { key: key.clone(), fields }))? {
        Content::Head(head) => Ok(head),
        _ => Ok(BucketHead::default()),
    }
}

/// The same of a block.
pub async fn block_to_write(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    part: Part,
    spoilt: &mut Spoilt,
) -> Result<SeenIds, StoreError> {
    let key = bucket.record(shard, part);
    let Some(fields) = transaction.get(INBOX_SEEN, key.clone()).await.map_err(store_error)? else {
        return Ok(SeenIds::default());
    };
    match spoilt.note_corrupt(INBOX_SEEN, &key, read(&Row { key: key.clone(), fields }))? {
        Content::Block(block) => Ok(block),
        _ => Ok(SeenIds::default()),
    }
}

/// Blocks of a table from the first number to before the second, without those that can't be read.
pub async fn blocks(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    (table, first, behind): (u32, u32, u32),
    spoilt: &mut Spoilt,
) -> Result<Vec<SeenIds>, StoreError> {
    let at = |block: u32| bucket.record(shard, Part::Block { table, block });
    let range = (Bound::Included(at(first)), Bound::Excluded(at(behind)));
    let count = behind.saturating_sub(first) as usize;
    let found = sifted(transaction, INBOX_SEEN, range, count, spoilt, |row| read(&row)).await?;
    let block = |content: Content| match content {
        Content::Block(block) => Some(block),
        Content::Head(_) | Content::Added(_) => None,
    };
    Ok(found.into_iter().filter_map(block).collect())
}
