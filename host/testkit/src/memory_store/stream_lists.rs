//! Event streams: lists of them, and what is old.

use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::stream_store::{DueStream, StreamStanding};
use waybill_core::streams::name::StreamName;
use waybill_core::time::UnixMillis;

use super::streams::StreamTables;

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
