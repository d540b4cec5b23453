//! Scans of many streams by name: of those that a prefix, a node or a type selects, without looking at others.

use waybill_core::ids::Tenant;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::{ScanFrom, ScanQuery, StreamSlice, StreamStanding};
use waybill_core::streams::chunk::StoredChunk;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::reading::Selector;
use waybill_surreal::{Bound, RecordIdKey};

use super::chunks::Back;
use super::heads::{Snapshot, placed};
use super::keys::{names_behind, selected_behind, selected_in, selected_key, stream_in};
use super::resources;
use crate::fault::store_error;
use crate::tables::{STREAM, STREAM_NODE, STREAM_TYPE};

/// The next stream of a scan, and what is read of it.
pub async fn next(
    snapshot: &mut Snapshot<'_>,
    query: &ScanQuery,
) -> Result<Option<(StreamName, StreamSlice)>, StoreError> {
    let of = |name: &StreamName| StreamKey { tenant: query.tenant.clone(), name: name.clone() };
    let (name, after) = match &query.from {
        ScanFrom::Within(name, after) => (name.clone(), *after),
        ScanFrom::Behind(behind) => {
            let Some(name) = name_behind(snapshot, query, behind.as_ref()).await? else { return Ok(None) };
            let after = had_to(snapshot, &of(&name), &query.since).await?;
            (name, after)
        }
    };
    let slice = match query.selector.resources() {
        Some(asked) => {
            let slice = resources::slice(snapshot, &of(&name), asked, after, query.bytes_max).await?;
            snapshot.with_payloads(&of(&name), after, query.bytes_max, slice).await?
        }
        None => snapshot.slice(&of(&name), after, query.bytes_max).await?,
    };
    Ok(Some((name, slice)))
}

/// Where the streams of a tenant stand whose names begin with this, by name.
pub async fn standing(
    snapshot: &mut Snapshot<'_>,
    tenant: &Tenant,
    prefix: &str,
    behind: Option<&StreamName>,
    limit: usize,
) -> Result<Vec<StreamStanding>, StoreError> {
    let streams = placed(snapshot, names_behind(tenant, prefix, behind), limit).await?;
    let mut found = Vec::with_capacity(streams.len());
    for stream in streams {
        let (head, rest) = snapshot.stands(&stream).await?;
        found.push(StreamStanding { stream, head, rest });
    }
    Ok(found)
}

/// Whether a stream ever had an event of what a selector names.
pub async fn is_selected(
    snapshot: &mut Snapshot<'_>,
    stream: &StreamKey,
    selector: &Selector,
) -> Result<bool, StoreError> {
    let (table, by) = match selector {
        Selector::Prefix(_) => return Ok(selector.may_take(&stream.name)),
        Selector::Node(node) => (STREAM_NODE, node),
        Selector::Resource { resource_type, .. } | Selector::OneResource { resource_type, .. } => {
            (STREAM_TYPE, resource_type)
        }
    };
    let row = snapshot.transaction.get(table, selected_key(stream, by)).await.map_err(store_error)?;
    Ok(row.is_some())
}

/// The first selected stream behind a name.
async fn name_behind(
    snapshot: &mut Snapshot<'_>,
    query: &ScanQuery,
    behind: Option<&StreamName>,
) -> Result<Option<StreamName>, StoreError> {
    let (table, (mut from, until)) = match &query.selector {
        Selector::Prefix(prefix) => (STREAM, names_behind(&query.tenant, prefix, behind)),
        Selector::Node(node) => (STREAM_NODE, selected_behind(&query.tenant, node, behind)),
        Selector::Resource { resource_type, .. } | Selector::OneResource { resource_type, .. } => {
            (STREAM_TYPE, selected_behind(&query.tenant, resource_type, behind))
        }
    };
    loop {
        let rows = snapshot.transaction.scan(table, from, until.clone(), 1).await.map_err(store_error)?;
        let Some(row) = rows.first() else { return Ok(None) };
        match name_in(table, &row.key) {
            Some(name) => return Ok(Some(name)),
            None => snapshot.spoilt.note_misplaced(table, row),
        }
        from = Bound::Excluded(row.key.clone());
    }
}

fn name_in(table: &str, key: &RecordIdKey) -> Option<StreamName> {
    match table {
        STREAM => stream_in(key).map(|stream| stream.name),
        _ => selected_in(key),
    }
}

/// Behind which number a reader that scans again lacks something; 0 for one that begins. Places in the feed grow with a stream's numbers,
/// so this is looked for from its end backwards: what is new is mostly little.
async fn had_to(snapshot: &mut Snapshot<'_>, stream: &StreamKey, since: &[u64]) -> Result<u64, StoreError> {
    let count = u16::try_from(since.len()).unwrap_or(u16::MAX);
    let Some(low) = since.get(usize::from(stream.shard(count).0)) else { return Ok(0) };
    let mut back = Back::of(snapshot.transaction, stream);
    while let Some(stored) = back.next(&mut snapshot.spoilt).await? {
        if had(&stored, *low) {
            return Ok(stored.last);
        }
    }
    Ok(0)
}

/// What compaction emptied, and what can't be read, tells nothing of where it was in the feed.
fn had(stored: &StoredChunk, low: u64) -> bool {
    let events = stored.chunk.as_ref().map(|chunk| chunk.events.as_slice()).unwrap_or_default();
    !events.is_empty() && events.iter().all(|event| event.pos > 0 && event.pos <= low)
}
