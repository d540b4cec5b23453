//! Event streams: lists of them, what is old, and what is read of some resources.

use std::collections::BTreeSet;

use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::stream_store::{DueStream, ScanQuery, StreamSlice, StreamStanding};
use waybill_core::streams::chunk::StoredChunk;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::records::Resource;
use waybill_core::time::UnixMillis;

use super::streams::{StreamTables, within};

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
        match query.selector.resources() {
            Some((resource_type, ids)) => {
                let rows = self.resources.range((stream.clone(), Resource::default(), 0)..);
                let rows = rows.take_while(|(of, ..)| of == stream);
                let named = rows.filter(|(_, (of, id), _)| of == resource_type && ids.take(id));
                let named: BTreeSet<u64> = named.map(|(.., seq)| *seq).collect();
                let slice = self.slice_of_named(stream, &named, after, query.bytes_max);
                self.with_payloads(stream, after, query.bytes_max, slice)
            }
            None => self.slice(stream, after, query.bytes_max),
        }
    }

    /// A stream as far as the index names events in it: a chunk reaches back over those before it that it doesn't name.
    fn slice_of_named(&self, stream: &StreamKey, named: &BTreeSet<u64>, after: u64, bytes_max: usize) -> StreamSlice {
        let (head, rest) = (self.head(stream), self.rest(stream));
        // A row of what isn't kept any more names nothing.
        let (mut wanted, mut position, mut before) = (Vec::new(), after, after.max(rest.first.saturating_sub(1)));
        for stored in self.chunks_after(stream, after) {
            let last = stored.last;
            if last > rest.indexed || named.range(before + 1..=last).next().is_some() {
                wanted.push(stored.reaching_back(position, before + 1));
                position = last;
            }
            before = last;
        }
        let (mut chunks, is_all) = within(wanted.into_iter(), bytes_max);
        if is_all && position < rest.indexed && rest.first <= rest.indexed {
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
