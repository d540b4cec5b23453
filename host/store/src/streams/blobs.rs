//! Payloads that lie beside their chunks, read in the snapshot that shows these.

use waybill_core::port::store::StoreError;
use waybill_core::streams::blob::{self, Payloads, wanted};
use waybill_core::streams::chunk::StoredChunk;
use waybill_core::streams::name::StreamKey;
use waybill_surreal::{Transaction, bytes_of};

use super::keys::blob_key;
use crate::fault::store_error;
use crate::tables::EVENT_BLOB;

/// Puts back the payloads of events from one number to another, as many as go into so many bytes of events.
pub async fn put_back(
    transaction: &dyn Transaction,
    stream: &StreamKey,
    chunks: &mut [StoredChunk],
    range: (u64, u64),
    bytes_max: usize,
) -> Result<(), StoreError> {
    let mut payloads = Payloads::new();
    for seq in wanted(chunks, range, bytes_max) {
        let found = transaction.get(EVENT_BLOB, blob_key(stream, seq)).await.map_err(store_error)?;
        payloads.insert(seq, found.and_then(|fields| bytes_of(fields.get("data"))));
    }
    blob::put_back(chunks, &payloads);
    Ok(())
}
