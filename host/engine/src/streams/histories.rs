//! Sagas' histories, which are read as streams and aren't stored as such.

use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use waybill_core::port::service::ServiceError;
use waybill_core::port::stream_store::StreamSlice;
use waybill_core::streams::name::StreamKey;

/// Who knows the histories of sagas.
#[async_trait]
pub(crate) trait Histories: Send + Sync + 'static {
    /// A saga's history behind a number, as the store shows that of a stream. Where there is no such saga it is as a stream that never had
    /// an event.
    async fn slice(&self, stream: &StreamKey, after: u64, bytes_max: usize) -> Result<StreamSlice, ServiceError>;
}

/// The histories of this host, once its sagas are there. They hold the streams, so they aren't held here.
#[derive(Default)]
pub(crate) struct HistorySource(OnceLock<Weak<dyn Histories>>);

impl HistorySource {
    /// Takes them in; a second time it changes nothing.
    pub fn begin(&self, histories: &Arc<dyn Histories>) {
        let _first = self.0.set(Arc::downgrade(histories));
    }

    /// A part of a history. A host without sagas knows of none.
    pub async fn slice(&self, stream: &StreamKey, after: u64, bytes_max: usize) -> Result<StreamSlice, ServiceError> {
        match self.0.get().and_then(Weak::upgrade) {
            Some(histories) => histories.slice(stream, after, bytes_max).await,
            None => Ok(StreamSlice { is_all: true, ..StreamSlice::default() }),
        }
    }
}
