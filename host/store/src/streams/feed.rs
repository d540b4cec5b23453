//! The feed of a shard: what each commit added to its streams. A record that can't be read is as one that was trimmed: who follows the feed
//! finds a gap and reads the streams themselves.

use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::FeedSlice;
use waybill_core::streams::records::FeedRecord;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Row};

use super::blobs;
use super::chunks::covering;
use super::heads::Snapshot;
use super::keys::feed_key;
use crate::fault::store_error;
use crate::quarantine::sifted;
use crate::rows::streams as rows;
use crate::store::SurrealStore;
use crate::tables::{STREAM_FEED, shard_end};

/// A feed record with its events.
pub async fn slice(snapshot: &mut Snapshot<'_>, shard: ShardId, pos: u64) -> Result<Option<FeedSlice>, StoreError> {
    let key = feed_key(shard, pos);
    let Some(fields) = snapshot.transaction.get(STREAM_FEED, key.clone()).await.map_err(store_error)? else {
        return Ok(None);
    };
    let row = Row { key, fields };
    let Some(record) = snapshot.spoilt.sift(STREAM_FEED, &row.key, rows::feed(&row))? else { return Ok(None) };
    let mut parts = Vec::with_capacity(record.parts.len());
    for part in &record.parts {
        let (_, rest) = snapshot.stands(&part.stream).await?;
        let range = (part.from, part.to);
        let mut chunks = covering(snapshot.transaction, &part.stream, range, &mut snapshot.spoilt).await?;
        blobs::put_back(snapshot.transaction, &part.stream, &mut chunks, range, usize::MAX).await?;
        parts.push((rest, chunks));
    }
    Ok(Some(FeedSlice { record, parts }))
}

/// Records after a number, in order.
pub async fn after(
    snapshot: &mut Snapshot<'_>,
    shard: ShardId,
    after: u64,
    limit: usize,
) -> Result<Vec<FeedRecord>, StoreError> {
    let range = (Bound::Excluded(feed_key(shard, after)), Bound::Excluded(shard_end(shard)));
    let transaction = snapshot.transaction;
    sifted(transaction, STREAM_FEED, range, limit, &mut snapshot.spoilt, |row| rows::feed(&row)).await
}

/// The last of the records written before an instant, of the oldest `limit` that are kept.
pub async fn before(
    store: &SurrealStore,
    snapshot: &mut Snapshot<'_>,
    shard: ShardId,
    (before, limit): (UnixMillis, usize),
) -> Result<Option<u64>, StoreError> {
    // What is before the front was removed, and leaves marks that are slow to read over.
    let front = store.feed_fronts().begin(shard).saturating_sub(1);
    let records = after(snapshot, shard, front, limit).await?;
    Ok(records.iter().take_while(|record| record.at < before).last().map(|record| record.pos))
}
