//! A saga's history as the event stream `saga.{id}`.
//!
//! What is read is what the store has: memory may be ahead of it, and what it is ahead by may never be. A saga that another host
//! writes is read from its row, which it gets when it rests or ends, so its readers hear of it then.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_core::error::InputResult;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::StreamSlice;
use waybill_core::saga::definition::DefinitionSet;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::event::{Event, EventKind};
use waybill_core::saga::history::event_id;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::state::Tree;
use waybill_core::streams::envelope;
use waybill_core::streams::event::{self, Body, Op};
use waybill_core::streams::name::StreamKey;

use super::Sagas;
use super::lookup::missing;
use crate::saga::mail::{Known, MemoryQuery};
use crate::saga::takeover::why_not;
use crate::saga::view::history_line;
use crate::streams::histories::Histories;

/// What events of sagas are about.
const RESOURCE_TYPE: &str = "SAGA";
/// Of their payload: a line of a saga's `history` as `GET /v1/sagas/{id}` shows it.
const SCHEMA_VERSION: u32 = 1;

/// A tree with how many of its events the store has.
struct Stored {
    known: Known,
    committed: u32,
    /// It is written elsewhere, and there may be more of it.
    may_be_behind: bool,
}

impl Sagas {
    /// A tree by the key of its root; none = there is no such saga.
    async fn stored(&self, key: &SagaKey) -> Result<Option<Stored>, SagaError> {
        let shard = self.shard(key)?;
        if let Some(Some((known, committed))) =
            shard.query(|reply| MemoryQuery::History { key: key.clone(), reply }).await
        {
            let committed = committed.ok_or(SagaError::Store(StoreError::TooLarge))?;
            return Ok(Some(Stored { known, committed, may_be_behind: false }));
        }
        let Some(row) = self.store().saga(shard.shard, key).await? else {
            return match missing(shard, key) {
                SagaError::NotFound { .. } => Ok(None),
                unknown => Err(unknown),
            };
        };
        let definitions = self.definitions_of(&row.tree).await?;
        let committed = row.tree.events;
        let may_be_behind = !shard.is_written() && !row.tree.is_ended();
        Ok(Some(Stored { known: (Arc::clone(&row.tree), definitions), committed, may_be_behind }))
    }

    async fn history(&self, key: &SagaKey, after: u64, bytes_max: usize) -> Result<StreamSlice, SagaError> {
        let Some(Stored { known: (tree, definitions), committed, may_be_behind }) = self.stored(key).await? else {
            return Ok(StreamSlice { is_all: true, ..StreamSlice::default() });
        };
        if may_be_behind && after > u64::from(committed) {
            // Who read as far has read it at the host that writes it.
            return Err(SagaError::Unavailable(why_not(&self.shard(key)?.condition())));
        }
        Ok(tree.history_slice(committed, after, bytes_max, |seq, event| packed(&tree, &definitions, seq, event)))
    }
}

#[async_trait]
impl Histories for Sagas {
    async fn slice(&self, stream: &StreamKey, after: u64, bytes_max: usize) -> Result<StreamSlice, ServiceError> {
        let Some(id) = stream.name.saga_id() else {
            return Ok(StreamSlice { is_all: true, ..StreamSlice::default() });
        };
        let key = SagaKey { tenant: stream.tenant.clone(), id };
        Ok(self.history(&key, after, bytes_max).await?)
    }
}

/// The envelope of an event of a tree.
fn packed(tree: &Tree, definitions: &DefinitionSet, seq: u64, event: &Event) -> Bytes {
    envelope_of(tree, definitions, seq, event).map_or_else(|_| Bytes::new(), |event| envelope::pack(&event).into())
}

fn envelope_of(tree: &Tree, definitions: &DefinitionSet, seq: u64, event: &Event) -> InputResult<event::Event> {
    let line = history_line(tree, event, definitions);
    let cause = line.failure.as_ref().map(|failure| format!("{}: {}", failure.code, failure.reason));
    let op = match event.what {
        EventKind::Started(_) => Op::CREATE,
        _ => Op::STATE_TRANSITION,
    };
    let body = Body::Bytes(serde_json::to_vec(&line).unwrap_or_default().into());
    Ok(event::Event {
        id: event_id(&tree.key.id, seq)?,
        ts: event.at,
        resource_type: RESOURCE_TYPE.to_owned(),
        resource_id: line.saga,
        op,
        schema_version: SCHEMA_VERSION,
        node_uuid: None,
        correlation_id: tree.started.correlation_id.as_ref().map(ToString::to_string),
        cause,
        headers: BTreeMap::new(),
        content_type: Some("application/json".to_owned()),
        body,
    })
}
