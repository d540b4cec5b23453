//! A stream as far as some resources have events in it: of what the index knows only the chunks that it names, and all that is newer.

use std::collections::BTreeSet;

use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::StreamSlice;
use waybill_core::streams::chunk::StoredChunk;
use waybill_core::streams::limits::{SLICE_IDS_MAX, SLICE_ROWS_MAX};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::reading::ResourceIds;
use waybill_core::streams::records::Resource;
use waybill_surreal::{Bound, Row};

use super::chunks::{bytes_of, covering, within};
use super::heads::Snapshot;
use super::keys::{behind_id, ids_from, resource_in, resource_rows};
use crate::fault::store_error;
use crate::quarantine::sifted;
use crate::rows::lacks;
use crate::tables::EVENT_RESOURCE;

/// Numbers of events in a stream, of resources that somebody asks for.
struct Named {
    seqs: BTreeSet<u64>,
    /// Up to here there are no others.
    upto: u64,
}

/// What a scan reads of a stream behind a number. A chunk in it reaches back over those that were left out, so its reader finds no gap.
pub async fn slice(
    snapshot: &mut Snapshot<'_>,
    stream: &StreamKey,
    asked: (&str, ResourceIds<'_>),
    after: u64,
    bytes_max: usize,
) -> Result<StreamSlice, StoreError> {
    let (head, rest) = snapshot.stands(stream).await?;
    let mut slice = StreamSlice { head, rest, chunks: Vec::new(), is_all: false };
    // A row of what isn't kept any more would name nothing.
    let front = after.max(rest.first.saturating_sub(1));
    let named = match front < rest.indexed {
        true => named(snapshot, stream, asked, (front, rest.indexed)).await?,
        false => None,
    };
    let Some(named) = named else {
        (slice.chunks, slice.is_all) =
            within(snapshot.transaction, stream, after, bytes_max, &mut snapshot.spoilt).await?;
        return Ok(slice);
    };
    let (mut position, mut bytes) = (after, 0);
    for seq in named.seqs {
        // It was in the chunk before: they became one.
        if seq <= position {
            continue;
        }
        let found = covering(snapshot.transaction, stream, (seq, seq), &mut snapshot.spoilt).await?;
        let Some(stored) = found.into_iter().next() else {
            // What the index names is gone: its reader finds that the slice ends before the stream does.
            slice.is_all = true;
            return Ok(slice);
        };
        bytes += bytes_of(&stored);
        if bytes > bytes_max && !slice.chunks.is_empty() {
            return Ok(slice);
        }
        let last = stored.last;
        slice.chunks.push(stored.reaching_back(position, seq));
        position = last;
    }
    if named.upto < rest.indexed || (bytes >= bytes_max && !slice.chunks.is_empty()) {
        return Ok(slice);
    }
    let behind = position.max(rest.indexed);
    let left = bytes_max.saturating_sub(bytes);
    let (newer, is_all) = within(snapshot.transaction, stream, behind, left, &mut snapshot.spoilt).await?;
    slice.is_all = is_all;
    if newer.is_empty() && position < rest.indexed {
        slice.chunks.push(StoredChunk::hollow(position, rest.indexed));
    }
    let mut newer = newer.into_iter();
    slice.chunks.extend(newer.next().map(|first| first.reaching_back(position, behind.saturating_add(1))));
    slice.chunks.extend(newer);
    Ok(slice)
}

/// What the index says of some resources in a stream, behind a number up to where it ends; none = of too many to ask it.
async fn named(
    snapshot: &mut Snapshot<'_>,
    stream: &StreamKey,
    (resource_type, ids): (&str, ResourceIds<'_>),
    (front, indexed): (u64, u64),
) -> Result<Option<Named>, StoreError> {
    let ids = match ids {
        ResourceIds::One(id) => vec![id.to_owned()],
        ResourceIds::Beginning(prefix) => match ids_of(snapshot, stream, resource_type, prefix).await? {
            Some(ids) => ids,
            None => return Ok(None),
        },
    };
    let mut named = Named { seqs: BTreeSet::new(), upto: indexed };
    for id in ids {
        let resource: Resource = (resource_type.to_owned(), id);
        let range = resource_rows(stream, &resource, (front, indexed));
        let read = |row: Row| match resource_in(&row.key) {
            Some((_, seq)) => Ok(seq),
            None => Err(lacks(EVENT_RESOURCE, &row.key, "id")),
        };
        let seqs =
            sifted(snapshot.transaction, EVENT_RESOURCE, range, SLICE_ROWS_MAX, &mut snapshot.spoilt, read).await?;
        if let Some(last) = seqs.last().filter(|_| seqs.len() >= SLICE_ROWS_MAX) {
            named.upto = named.upto.min(*last);
        }
        named.seqs.extend(seqs);
    }
    named.seqs.retain(|seq| *seq <= named.upto);
    Ok(Some(named))
}

/// Ids that begin so and that are in the index, in whatever stream; none = there are too many.
async fn ids_of(
    snapshot: &mut Snapshot<'_>,
    stream: &StreamKey,
    resource_type: &str,
    prefix: &str,
) -> Result<Option<Vec<String>>, StoreError> {
    let (mut from, until) = ids_from(&stream.tenant, resource_type, prefix);
    let mut ids = Vec::new();
    loop {
        let rows = snapshot.transaction.scan(EVENT_RESOURCE, from, until.clone(), 1).await.map_err(store_error)?;
        let Some(row) = rows.first() else { return Ok(Some(ids)) };
        let Some((id, _)) = resource_in(&row.key) else {
            snapshot.spoilt.note_misplaced(EVENT_RESOURCE, row);
            from = Bound::Excluded(row.key.clone());
            continue;
        };
        if !id.starts_with(prefix) {
            return Ok(Some(ids));
        }
        if ids.len() >= SLICE_IDS_MAX {
            return Ok(None);
        }
        from = behind_id(&stream.tenant, resource_type, id);
        ids.push(id.to_owned());
    }
}
