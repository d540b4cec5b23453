//! Event streams: payloads that lie beside their chunks.

use waybill_core::port::stream_store::StreamSlice;
use waybill_core::streams::blob::{put_back, wanted};
use waybill_core::streams::chunk::StoredChunk;
use waybill_core::streams::name::StreamKey;

use super::streams::StreamTables;

impl StreamTables {
    /// A slice behind a position with as many payloads as go into it.
    pub(super) fn with_payloads(
        &self,
        stream: &StreamKey,
        after: u64,
        bytes_max: usize,
        slice: StreamSlice,
    ) -> StreamSlice {
        let range = (after.saturating_add(1), u64::MAX);
        StreamSlice { chunks: self.put_back(stream, slice.chunks, range, bytes_max), ..slice }
    }

    /// Chunks with the payloads of events from one number to another.
    pub(super) fn put_back(
        &self,
        stream: &StreamKey,
        mut chunks: Vec<StoredChunk>,
        range: (u64, u64),
        bytes_max: usize,
    ) -> Vec<StoredChunk> {
        let wanted = wanted(&chunks, range, bytes_max).into_iter();
        let payloads = wanted.map(|seq| (seq, self.blobs.get(&(stream.clone(), seq)).cloned())).collect();
        put_back(&mut chunks, &payloads);
        chunks
    }
}
