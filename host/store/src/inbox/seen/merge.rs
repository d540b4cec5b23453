//! Making one table of several, in as many transactions as it takes: each writes a part of the new table's blocks, and the last one puts it
//! in the place of the others. Until then those are asked.

use std::collections::BTreeMap;

use waybill_core::ids::ShardId;
use waybill_core::inbox::fingerprint::ContentCheck;
use waybill_core::inbox::seen::{Member, OwnedAge};
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Transaction};

use super::TRIES_MAX;
use super::bucket::{BucketKey, Form, Part};
use super::records;
use super::table::{block_of, blocks_around, blocks_for, cut};
use crate::codec::inbox::seen::{BucketHead, Merge, Table};
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::store::{SurrealStore, finish};
use crate::tables::INBOX_SEEN;

/// Blocks that one transaction writes: half a megabyte.
const BLOCKS_AT_ONCE: u32 = 128;
/// Blocks removed in one transaction.
const REMOVED_AT_ONCE: usize = 512;
/// Tables up to so many ids are merged whatever the others' sizes.
const SMALL_IDS: u64 = 4_096;

/// Does the next step for a bucket, if there is one: how many records it looked at. Of a run that is over all tables become one.
pub async fn advance(
    store: &SurrealStore,
    shard: ShardId,
    bucket: &BucketKey,
    age: OwnedAge,
) -> Result<Option<usize>, StoreError> {
    if bucket.form == Form::Counter {
        return Ok(None);
    }
    let is_over = bucket.form == Form::Run && age >= bucket.run_end();
    let mut tries = 1;
    loop {
        let mut spoilt = Spoilt::default();
        let transaction = store.begin(true).await?;
        let worked = step(transaction.as_ref(), shard, bucket, is_over, &mut spoilt).await;
        let done = finish(transaction, worked).await;
        if !matches!(done, Ok(None)) {
            store.seen_memory().changed(shard, bucket);
        }
        store.set_aside(spoilt).await;
        match done {
            // What can't be read is moved away by now.
            Err(StoreError::Conflict(_) | StoreError::Corrupt(_)) if tries < TRIES_MAX => tries += 1,
            Ok(Some(Step { looked, switched })) => {
                if switched {
                    store.seen_filters().forget(shard, bucket);
                }
                return Ok(Some(looked));
            }
            Ok(None) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// What a transaction did.
struct Step {
    looked: usize,
    /// Other tables are asked from now on.
    switched: bool,
}

async fn step(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    is_over: bool,
    spoilt: &mut Spoilt,
) -> Result<Option<Step>, StoreError> {
    let mut head = records::head_to_write(transaction, shard, bucket, spoilt).await?;
    if let Some(table) = head.gone.first().copied() {
        let looked = remove(transaction, shard, bucket, &mut head, table).await?;
        return Ok(Some(Step { looked, switched: false }));
    }
    let merge = match head.merge.take() {
        Some(merge) => merge,
        None => match sources(&head.tables, is_over) {
            [] => return Ok(None),
            sources => {
                let ids = sources.iter().map(|table| table.ids).sum();
                let into = Table { number: head.next, blocks: blocks_for(ids), ids };
                let sources = sources.iter().map(|table| table.number).collect();
                head.next = head.next.wrapping_add(1);
                Merge { into, sources, done: 0 }
            }
        },
    };
    write(transaction, shard, bucket, head, merge, spoilt).await.map(Some)
}

/// The tables that become one next: the youngest ones, as long as the one before isn't much larger than all of them; none when there
/// are too few.
fn sources(tables: &[Table], all: bool) -> &[Table] {
    let mut ids = 0_u64;
    let mut count = 0;
    for table in tables.iter().rev() {
        if !all && count > 0 && table.ids > SMALL_IDS && table.ids > ids.saturating_mul(2) {
            break;
        }
        ids = ids.saturating_add(table.ids);
        count += 1;
    }
    let sources = tables.get(tables.len().saturating_sub(count)..).unwrap_or(&[]);
    if sources.len() < 2 { &[] } else { sources }
}

/// Writes the next blocks of a merged table.
async fn write(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    mut head: BucketHead,
    mut merge: Merge,
    spoilt: &mut Spoilt,
) -> Result<Step, StoreError> {
    let into = merge.into;
    let range = (merge.done, merge.done.saturating_add(BLOCKS_AT_ONCE).min(into.blocks));
    let (mut ids, mut age, mut looked) = (BTreeMap::<Member, ContentCheck>::new(), OwnedAge(0), 0);
    // The oldest first: of an id in several the last one counts.
    let sources: Vec<Table> =
        head.tables.iter().filter(|table| merge.sources.contains(&table.number)).copied().collect();
    for table in &sources {
        let (first, last) = blocks_around(range, into.blocks, table.blocks);
        let blocks = (table.number, first, last.saturating_add(1));
        let blocks = records::blocks(transaction, shard, bucket, blocks, spoilt).await?;
        looked += blocks.len();
        for block in blocks {
            age = age.max(block.age);
            let is_here = |member: &Member| match member {
                Member::Hash(fingerprint) => (range.0..range.1).contains(&block_of(fingerprint, into.blocks)),
                Member::Number(_) => false,
            };
            ids.extend(block.ids.into_iter().filter(|(member, _)| is_here(member)));
        }
    }
    // All reads are done: from here on it is only written.
    for (number, block) in cut(&ids, age, range, into.blocks) {
        let key = bucket.record(shard, Part::Block { table: into.number, block: number });
        transaction.put(INBOX_SEEN, key, records::of_block(&block)?).await.map_err(store_error)?;
    }
    merge.done = range.1;
    let switched = merge.done >= into.blocks;
    if switched {
        let at = head.tables.iter().position(|table| merge.sources.contains(&table.number)).unwrap_or(0);
        head.tables.retain(|table| !merge.sources.contains(&table.number));
        head.tables.insert(at.min(head.tables.len()), into);
        head.gone.extend(sources);
    } else {
        head.merge = Some(merge);
    }
    put_head(transaction, shard, bucket, &head).await?;
    Ok(Step { looked: looked.max(1), switched })
}

/// Removes blocks of a table that became part of another.
async fn remove(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    head: &mut BucketHead,
    table: Table,
) -> Result<usize, StoreError> {
    let at = |block: u32| bucket.record(shard, Part::Block { table: table.number, block });
    let (from, until) = (Bound::Included(at(0)), Bound::Included(at(u32::MAX)));
    let rows = transaction.scan(INBOX_SEEN, from, until, REMOVED_AT_ONCE).await.map_err(store_error)?;
    let count = rows.len();
    for row in rows {
        transaction.delete(INBOX_SEEN, row.key).await.map_err(store_error)?;
    }
    if count < REMOVED_AT_ONCE {
        head.gone.retain(|gone| gone.number != table.number);
        put_head(transaction, shard, bucket, head).await?;
    }
    Ok(count.max(1))
}

async fn put_head(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    head: &BucketHead,
) -> Result<(), StoreError> {
    let key = bucket.record(shard, Part::Head);
    transaction.put(INBOX_SEEN, key, records::of_head(head)?).await.map_err(store_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(ids: &[u64]) -> Vec<Table> {
        let table = |(number, ids): (u32, &u64)| Table { number, blocks: blocks_for(*ids), ids: *ids };
        (0..).zip(ids).map(table).collect()
    }

    fn merged(ids: &[u64], all: bool) -> usize {
        sources(&tables(ids), all).len()
    }

    #[test]
    fn a_large_table_is_not_written_anew_for_a_small_one() {
        assert_eq!(merged(&[1_000_000, 5_000], false), 0);
        assert_eq!(merged(&[1_000_000, 60_000, 60_000], false), 2);
        assert_eq!(merged(&[100_000, 60_000, 60_000], false), 3);
        assert_eq!(merged(&[1_000_000, 5, 5], false), 2);
        assert_eq!(merged(&[70_000], false), 0);
        assert_eq!(merged(&[], false), 0);
    }

    #[test]
    fn of_a_run_that_is_over_all_tables_become_one() {
        assert_eq!(merged(&[1_000_000, 5_000], true), 2);
        assert_eq!(merged(&[1_000_000], true), 0);
    }

    /// However many tables come, few are asked.
    #[test]
    fn tables_of_one_size_stay_few() {
        let mut sizes: Vec<u64> = Vec::new();
        for _ in 0..500 {
            sizes.push(60_000);
            loop {
                let count = merged(&sizes, false);
                if count == 0 {
                    break;
                }
                let kept = sizes.len() - count;
                let sum = sizes.split_off(kept).into_iter().sum();
                sizes.push(sum);
            }
            assert!(sizes.len() <= 10, "{sizes:?}");
        }
    }
}
