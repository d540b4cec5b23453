//! What lies on doorsteps of the messages that a transaction names: committed, and not yet taken in by the owner of its shard. The
//! store refuses such a transaction before its statements run; here it is found out what to answer.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use waybill_core::ids::{MessageId, ShardId, Tenant};
use waybill_core::limits::{DOOR_LOOK_BYTES_MAX, DOOR_LOOK_PAGE, DOOR_LOOK_ROWS_MAX};
use waybill_core::message::Message;
use waybill_core::new_message::Draft;
use waybill_core::outbox::records::{IdOrigin, IdRecord, content_digest};
use waybill_core::port::service::ServiceError;

use super::Outbox;

/// A transaction waits this long at most for a long doorstep to be taken in.
const TAKE_IN_TIMEOUT: Duration = Duration::from_secs(2);

/// What a message with a caller's id was committed with.
pub(super) struct Known {
    pub content: Option<[u8; 32]>,
    pub origin: IdOrigin,
}

impl Known {
    /// Of a message that was taken in.
    pub fn indexed(record: &IdRecord) -> Self {
        Self { content: record.content, origin: record.origin }
    }

    /// Of one on a doorstep: what its owner will note.
    fn waiting(message: &Message) -> Self {
        let origin = message.statements.as_ref().map_or(IdOrigin::Alone, |digest| IdOrigin::Transaction(**digest));
        Self { content: Some(content_digest(message)), origin }
    }
}

/// What lies on doorsteps, by tenant and id.
pub(super) type Waiting = HashMap<(Tenant, MessageId), Known>;

impl Outbox {
    /// Those of the messages with callers' ids that lie on the doorsteps of their shards.
    pub(super) async fn on_doorsteps(&self, drafts: &[Draft], shards: &[ShardId]) -> Result<Waiting, ServiceError> {
        let mut named: BTreeMap<ShardId, HashSet<(&Tenant, &MessageId)>> = BTreeMap::new();
        for (draft, shard) in drafts.iter().zip(shards).filter(|(draft, _)| !draft.needs_id) {
            named.entry(*shard).or_default().insert((&draft.message.tenant, &draft.message.id));
        }
        let mut found = Waiting::new();
        for (shard, ids) in named {
            self.look_on_doorstep(shard, &ids, &mut found).await?;
        }
        Ok(found)
    }

    async fn look_on_doorstep(
        &self,
        shard: ShardId,
        ids: &HashSet<(&Tenant, &MessageId)>,
        found: &mut Waiting,
    ) -> Result<(), ServiceError> {
        let (mut after, mut looked, mut bytes) = (None, 0, 0);
        loop {
            let rows = self.context.stores.owner.door(shard, 0, u64::MAX, after, DOOR_LOOK_PAGE).await?;
            let is_last = rows.len() < DOOR_LOOK_PAGE;
            looked += rows.len();
            after = rows.last().map(|row| row.key.clone());
            for message in rows.into_iter().filter_map(|row| row.content.ok()).flatten() {
                bytes += message.payload.len();
                if message.caller_id && ids.contains(&(&message.tenant, &message.id)) {
                    // The first is the one that counts.
                    let of = (message.tenant.clone(), message.id.clone());
                    found.entry(of).or_insert_with(|| Known::waiting(&message));
                }
            }
            if is_last {
                return Ok(());
            }
            if looked >= DOOR_LOOK_ROWS_MAX {
                return self.take_in(shard, ("the doorstep of a message", looked, DOOR_LOOK_ROWS_MAX)).await;
            }
            if bytes >= DOOR_LOOK_BYTES_MAX {
                return self
                    .take_in(shard, ("the doorstep of a message, by its bytes,", bytes, DOOR_LOOK_BYTES_MAX))
                    .await;
            }
        }
    }

    /// Has the owner take a doorstep in of which there is more than is looked through; what was there is found by its id then.
    async fn take_in(
        &self,
        shard: ShardId,
        (what, count, count_max): (&'static str, usize, usize),
    ) -> Result<(), ServiceError> {
        let taken_in = tokio::time::timeout(TAKE_IN_TIMEOUT, self.shard(shard)?.take_in_door()).await;
        match taken_in {
            Ok(true) => Ok(()),
            _ => Err(ServiceError::Busy { what, count, count_max }),
        }
    }
}
