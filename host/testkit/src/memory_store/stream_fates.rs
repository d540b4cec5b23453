//! What befalls the commits of owners of streams.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::port::store::StoreError;
use waybill_core::streams::chunk::Chunk;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::records::{StreamCommit, StreamCommitted, StreamWrite};

use super::{Fate, MemoryStore, Tables};

impl Tables {
    /// Applies a commit of an owner of streams with its lines of the audit trail, all or nothing.
    pub fn apply_streams(&mut self, commit: &StreamCommit, nanos: u64) -> Result<StreamCommitted, StoreError> {
        let committed = self.streams.apply_owner(commit, nanos)?;
        if committed == StreamCommitted::Applied {
            for write in &commit.writes {
                if let StreamWrite::PutTxEvents(record) = write {
                    self.tx_events.insert(record.key, Arc::clone(record));
                }
            }
        }
        Ok(committed)
    }
}

impl MemoryStore {
    /// Replaces a chunk with bytes that don't decode.
    pub fn spoil_chunk(&self, stream: &StreamKey, last: u64) {
        let error = Chunk::unpack(&Bytes::from_static(b"spoilt")).map(Arc::new).map_err(|error| error.to_string());
        self.write(|tables| tables.streams.chunks.insert((stream.clone(), last), error));
    }

    /// What happens to the next commits of owners of streams, first to first. With none planned a commit is applied.
    pub fn plan_streams(&self, fates: impl IntoIterator<Item = Fate>) {
        self.faults.lock().streams_planned.extend(fates);
    }

    /// Lets the oldest commit of an owner of streams that is held back go in now. None are held: `None`.
    pub fn release_streams(&self) -> Option<Result<StreamCommitted, StoreError>> {
        let commit = self.faults.lock().streams_held.pop_front()?;
        Some(self.apply_streams(&commit))
    }

    /// Applies a commit of an owner of streams now, whatever fate is planned for the next one.
    pub fn apply_streams(&self, commit: &StreamCommit) -> Result<StreamCommitted, StoreError> {
        let nanos = self.clock();
        self.write(|tables| tables.apply_streams(commit, nanos))
    }

    pub(super) fn commit_streams_by_fate(&self, commit: StreamCommit) -> Result<StreamCommitted, StoreError> {
        self.check()?;
        let fate = self.faults.lock().streams_planned.pop_front().unwrap_or(Fate::Apply);
        let unknown = || StoreError::Unavailable("the connection broke before the answer came".into());
        match fate {
            Fate::Apply => self.apply_streams(&commit),
            Fate::Refuse(error) => Err(error),
            Fate::ApplyUnknown => {
                let _unheard = self.apply_streams(&commit);
                Err(unknown())
            }
            Fate::ApplyAndBreak => {
                let _unheard = self.apply_streams(&commit);
                self.fail_all(Some(unknown()));
                Err(unknown())
            }
            Fate::Lose => Err(unknown()),
            Fate::Hold => {
                self.faults.lock().streams_held.push_back(commit);
                Err(unknown())
            }
        }
    }
}
