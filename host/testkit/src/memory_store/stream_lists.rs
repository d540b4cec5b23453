//! Event streams: lists of them, what is old, and what is read of some resources.

use std::collections::BTreeSet;
use std::ops::Bound;

use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::stream_store::{DueStream, ScanQuery, StreamSlice, StreamStanding};
use waybill_core::streams::chunk::StoredChunk;
use waybill_core::streams::limits::{SLICE_IDS_MAX, SLICE_ROWS_MAX};
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::reading::ResourceIds;
use waybill_core::time::UnixMillis;

use super::streams::{StreamTables, within};

/// Numbers of events in a stream, of resources that somebody asks for.
struct NamedRows {
    seqs: BTreeSet<u64>,
    /// Up to here there are no others.
    upto: u64,
}

impl StreamTables {
    /// Where the streams of a tenant stand whose names begin with this, behind a name.
    pub fn named(
        &self,
        tenant: &Tenant,
        prefix: &str,
        behind: Option<&StreamName>,
        limit: usize,
    ) -> Vec<StreamStanding> {
        let named = self.heads.iter().filter(|(stream, _)| {
            stream.tenant == *tenant
                && stream.name.as_str().starts_with(prefix)
                && behind.is_none_or(|behind| stream.name > *behind)
        });
        let standing =
            named.map(|(stream, head)| StreamStanding { stream: stream.clone(), head: *head, rest: self.rest(stream) });
        standing.take(limit).collect()
    }

    /// What a scan reads of a stream behind a position.
    pub(super) fn selected_slice(&self, stream: &StreamKey, after: u64, query: &ScanQuery) -> StreamSlice {
        let named = query.selector.resources().and_then(|asked| self.named_in(stream, asked, after));
        let slice = match named {
            Some(named) => self.slice_of_named(stream, &named, after, query.bytes_max),
            None => self.bare_slice(stream, after, query.bytes_max),
        };
        self.with_payloads(stream, after, query.bytes_max, slice)
    }

    /// What the index says of some resources in a stream, behind a position; none = it isn't asked.
    fn named_in(
        &self,
        stream: &StreamKey,
        (resource_type, ids): (&str, ResourceIds<'_>),
        after: u64,
    ) -> Option<NamedRows> {
        let rest = self.rest(stream);
        // A row of what isn't kept any more names nothing.
        let front = after.max(rest.first.saturating_sub(1));
        if front >= rest.indexed {
            return None;
        }
        let ids: BTreeSet<&str> = match ids {
            ResourceIds::One(id) => BTreeSet::from([id]),
            ResourceIds::Beginning(_) => {
                let rows = self.resources.iter().filter(|(of, ..)| of.tenant == stream.tenant);
                let rows = rows.filter(|(_, (kind, id), _)| kind == resource_type && ids.take(id));
                rows.map(|(_, (_, id), _)| id.as_str()).collect()
            }
        };
        if ids.len() > SLICE_IDS_MAX {
            return None;
        }
        let mut named = NamedRows { seqs: BTreeSet::new(), upto: rest.indexed };
        for id in ids {
            let row = |seq| (stream.clone(), (resource_type.to_owned(), id.to_owned()), seq);
            let rows = self.resources.range((Bound::Excluded(row(front)), Bound::Included(row(rest.indexed))));
            let seqs: Vec<u64> = rows.map(|(.., seq)| *seq).take(SLICE_ROWS_MAX).collect();
            if let Some(last) = seqs.last().filter(|_| seqs.len() >= SLICE_ROWS_MAX) {
                named.upto = named.upto.min(*last);
            }
            named.seqs.extend(seqs);
        }
        named.seqs.retain(|seq| *seq <= named.upto);
        Some(named)
    }

    /// A stream as far as the index names events in it: a chunk reaches back over those before it that it doesn't name.
    fn slice_of_named(&self, stream: &StreamKey, named: &NamedRows, after: u64, bytes_max: usize) -> StreamSlice {
        let (head, rest) = (self.head(stream), self.rest(stream));
        let is_part = named.upto < rest.indexed;
        let (mut wanted, mut position, mut before) = (Vec::new(), after, after.max(rest.first.saturating_sub(1)));
        for stored in self.chunks_after(stream, after) {
            let last = stored.last;
            let is_newer = last > rest.indexed && !is_part;
            if is_newer || named.seqs.range(before + 1..=last).next().is_some() {
                wanted.push(stored.reaching_back(position, before + 1));
                position = last;
            }
            before = last;
        }
        let (mut chunks, mut is_all) = within(wanted.into_iter(), bytes_max);
        if is_part && !chunks.is_empty() {
            is_all = false;
        } else if is_all && position < rest.indexed && rest.first <= rest.indexed {
            chunks.push(StoredChunk::hollow(position, rest.indexed));
        }
        StreamSlice { head, rest, chunks, is_all }
    }

    /// The first rows of a shard that say when a stream is due.
    pub fn due(&self, shard: ShardId, limit: usize) -> Vec<DueStream> {
        let rows = self.due.iter().filter(|(of, ..)| *of == shard).take(limit);
        let rows =
            rows.map(|(_, at, stream)| DueStream { at: *at, stream: stream.clone(), noted: self.rest(stream).due });
        rows.collect()
    }

    /// Forgets the oldest ids that were recorded before an instant; answers how many.
    pub fn forget_ids(&mut self, before: UnixMillis, limit: usize) -> usize {
        let old = self.ids.iter().filter(|(_, record)| record.at < before);
        let mut old: Vec<_> = old.map(|(id, record)| (record.at, id.clone())).collect();
        old.sort();
        old.truncate(limit);
        for (_, id) in &old {
            self.ids.remove(id);
        }
        old.len()
    }
}
