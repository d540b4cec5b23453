//! What relays and upkeep read: streams with how far relays are in them. A checkpoint that can't be read is none: what the stream keeps is
//! sent again.

use waybill_core::ids::RelayName;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::{RelayFound, RelayPage, RelaySlice, ShardOf, StreamSlice};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::records::Checkpoint;

use super::heads::{Snapshot, placed};
use super::keys::{checkpoint_key, streams_behind};
use crate::fault::store_error;
use crate::rows::streams as rows;
use crate::tables::RELAY_AT;

async fn checkpoint(
    snapshot: &mut Snapshot<'_>,
    relay: &RelayName,
    stream: &StreamKey,
) -> Result<Checkpoint, StoreError> {
    let key = checkpoint_key(relay, stream);
    let Some(fields) = snapshot.transaction.get(RELAY_AT, key.clone()).await.map_err(store_error)? else {
        return Ok(Checkpoint::default());
    };
    Ok(snapshot.spoilt.sift(RELAY_AT, &key, rows::checkpoint(&key, &fields))?.unwrap_or_default())
}

/// A stream of a relay, behind its checkpoint or behind `after` where that is later.
pub async fn slice(
    snapshot: &mut Snapshot<'_>,
    relay: &RelayName,
    stream: &StreamKey,
    (after, bytes_max): (u64, usize),
) -> Result<RelaySlice, StoreError> {
    let checkpoint = checkpoint(snapshot, relay, stream).await?;
    let slice = snapshot.slice(stream, after.max(checkpoint.upto), bytes_max).await?;
    Ok(RelaySlice { checkpoint, slice })
}

/// Streams behind this one, in order: those of the shard, among the next `limit`. A row whose key names no stream is none of them: the walk
/// goes on behind it.
pub async fn streams(
    snapshot: &mut Snapshot<'_>,
    relay: &RelayName,
    of: ShardOf,
    behind: Option<&StreamKey>,
    limit: usize,
) -> Result<RelayPage, StoreError> {
    let looked = placed(snapshot, streams_behind(behind), limit).await?;
    let mut page = RelayPage { streams: Vec::new(), last: looked.last().cloned() };
    for stream in looked.into_iter().filter(|stream| stream.shard(of.count) == of.shard) {
        let (head, rest) = snapshot.stands(&stream).await?;
        let checkpoint = checkpoint(snapshot, relay, &stream).await?;
        page.streams.push(RelayFound { stream, named_to: rest.named_to(&head), checkpoint });
    }
    Ok(page)
}

/// A stream behind a position, and how far relays are in it.
pub async fn with_checkpoints(
    snapshot: &mut Snapshot<'_>,
    stream: &StreamKey,
    relays: &[RelayName],
    (after, bytes_max): (u64, usize),
) -> Result<(StreamSlice, Vec<Checkpoint>), StoreError> {
    let mut checkpoints = Vec::with_capacity(relays.len());
    for relay in relays {
        checkpoints.push(checkpoint(snapshot, relay, stream).await?);
    }
    Ok((snapshot.bare_slice(stream, after, bytes_max).await?, checkpoints))
}
