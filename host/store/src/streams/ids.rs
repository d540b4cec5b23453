//! The index of events' ids. One whose row can't be read is taken, by nobody knows what: whoever uses it again is refused.

use waybill_core::port::store::StoreError;
use waybill_core::streams::event::EventDigest;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::records::{EventIdKey, EventIdRecord};

use super::heads::Snapshot;
use super::keys::event_id_key;
use crate::fault::store_error;
use crate::quarantine::is_held;
use crate::rows::streams as rows;
use crate::tables::EVENT_ID;

/// What the index has of an id.
pub async fn read(snapshot: &mut Snapshot<'_>, id: &EventIdKey) -> Result<Option<EventIdRecord>, StoreError> {
    let key = event_id_key(id);
    let Some(fields) = snapshot.transaction.get(EVENT_ID, key.clone()).await.map_err(store_error)? else {
        return Ok(None);
    };
    let read = match is_held(&fields) {
        true => None,
        false => snapshot.spoilt.sift(EVENT_ID, &key, rows::event_id(&id.0, &key, &fields))?,
    };
    read.map_or_else(|| taken(id), Ok).map(Some)
}

/// No event has this digest, so none is the same.
fn taken((tenant, _): &EventIdKey) -> Result<EventIdRecord, StoreError> {
    let name = StreamName::new("unreadable").map_err(|error| StoreError::Other(error.to_string()))?;
    let stream = StreamKey { tenant: tenant.clone(), name };
    Ok(EventIdRecord { stream, seq: 0, digest: EventDigest::default() })
}
