//! The index of events' ids. One whose row can't be read is taken, by nobody knows what: whoever uses it again is refused.
//!
//! Each commit that puts ids there leaves a row that says which, under the time of it: what is old is found without reading the others.

use std::collections::BTreeMap;

use waybill_core::ids::{EventId, Tenant};
use waybill_core::port::store::StoreError;
use waybill_core::streams::event::EventDigest;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::records::{EventIdKey, EventIdRecord};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, RecordIdKey, Transaction};

use super::heads::Snapshot;
use super::keys::{event_id_due_key, event_id_key};
use crate::fault::store_error;
use crate::fronts::{PurgeFronts, Reached};
use crate::quarantine::{is_held, put};
use crate::rows::streams as rows;
use crate::store::{SurrealStore, finish};
use crate::tables::{EVENT_ID, EVENT_ID_DUE};

/// Commits whose ids are forgotten in one transaction, at most: each may have put thousands.
const DUE_PAGE: usize = 64;

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

/// Ids of one commit, as they are put.
#[derive(Default)]
pub struct Recorded(BTreeMap<(UnixMillis, Tenant), Vec<EventId>>);

impl Recorded {
    pub fn add(&mut self, (tenant, id): &EventIdKey, at: UnixMillis) {
        self.0.entry((at, tenant.clone())).or_default().push(id.clone());
    }

    /// The rows that say when they are old.
    pub fn rows(&self) -> impl Iterator<Item = (RecordIdKey, Object)> {
        self.0.iter().map(|((at, tenant), ids)| (event_id_due_key(*at), rows::of_recorded_ids(tenant, ids)))
    }
}

/// Forgets what was recorded before an instant, oldest first.
pub async fn forget(store: &SurrealStore, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
    let transaction = store.begin(true).await?;
    let worked = try_forget(store.purge_fronts(), transaction.as_ref(), before, limit).await;
    let (count, reached) = finish(transaction, worked).await?;
    store.purge_fronts().reached(EVENT_ID_DUE, reached);
    Ok(count)
}

async fn try_forget(
    fronts: &PurgeFronts,
    transaction: &dyn Transaction,
    before: UnixMillis,
    limit: usize,
) -> Result<(usize, Reached), StoreError> {
    let now = UnixMillis(before.0.saturating_sub(1));
    let due = fronts.scan(transaction, EVENT_ID_DUE, now, DUE_PAGE).await?;
    let (mut count, mut taken) = (0, 0);
    for row in &due {
        if count >= limit {
            break;
        }
        match rows::recorded_ids(row) {
            Ok((tenant, ids)) => {
                count += ids.len();
                for id in ids {
                    let key = event_id_key(&(tenant.clone(), id));
                    transaction.delete(EVENT_ID, key).await.map_err(store_error)?;
                }
                transaction.delete(EVENT_ID_DUE, row.key.clone()).await.map_err(store_error)?;
            }
            Err(StoreError::Corrupt(reason)) => {
                put(transaction, EVENT_ID_DUE, &row.key, row.fields.clone(), None, &reason).await?;
            }
            Err(error) => return Err(error),
        }
        taken += 1;
    }
    // Rows of which each has few are a page as well: there may be others.
    let is_full = taken == DUE_PAGE && count < limit;
    Ok((if is_full { limit } else { count }, Reached::of(due.get(..taken).unwrap_or_default())))
}

/// No event has this digest, so none is the same.
fn taken((tenant, _): &EventIdKey) -> Result<EventIdRecord, StoreError> {
    let name = StreamName::new("unreadable").map_err(|error| StoreError::Other(error.to_string()))?;
    let stream = StreamKey { tenant: tenant.clone(), name };
    Ok(EventIdRecord { stream, seq: 0, digest: EventDigest::default(), at: UnixMillis(0) })
}
