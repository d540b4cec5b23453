//! Events that commit with something else of this host's: checked here, appended by the commit that they are in.

use std::collections::BTreeSet;

use waybill_core::error::InputError;
use waybill_core::ids::{EventId, ShardId};
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::StreamError;
use waybill_core::streams::joint::{JointAppend, JointAppends, JointEvent, SortedEvents, sort};
use waybill_core::streams::limits::{COMMIT_BYTES_MAX, COMMIT_EVENTS_MAX};

use super::{StreamHandle, Streams};
use crate::admission::Admitted;

impl Streams {
    /// Checks and packs the events of a transaction, and takes room for them among what waits for numbers.
    pub(crate) fn join(&self, events: Vec<JointEvent>) -> Result<(SortedEvents, Option<Admitted>), ServiceError> {
        let count = events.len();
        if count > COMMIT_EVENTS_MAX {
            return Err(InputError::TooMany { count, count_max: COMMIT_EVENTS_MAX }.into());
        }
        let (settings, now) = (self.shared.settings(), self.shared.context.clock.now().wall);
        let made_id = || EventId::new(ulid::Ulid::from_parts(now.0, rand::random()).to_string());
        let sorted = sort(events, (self.shared.shards(), self.steady_now()), |_, stream, input| {
            let limits = settings.event_limits(&stream.name);
            let (is_indexed, id) = (input.id.is_some(), input.id.clone().map_or_else(made_id, Ok)?);
            input.into_event(|| id, now).admit(&stream.name, &limits, is_indexed)
        })?;
        let (bytes, bytes_max) = (sorted.appends.weight(), COMMIT_BYTES_MAX);
        if bytes > bytes_max {
            return Err(StreamError::AppendTooLarge { bytes, bytes_max }.into());
        }
        let room = if count == 0 { None } else { Some(self.admission.admit(count, bytes)?) };
        Ok((sorted, room))
    }

    /// A commit of this process has ended that may have left these on their doorsteps.
    pub(crate) fn joined(&self, appends: &JointAppends) {
        self.wake_doors_of(appends.list.iter().map(JointAppend::shard));
    }

    /// A commit of this process has ended that may have left something on these shards' doorsteps.
    pub(crate) fn wake_doors_of(&self, shards: impl IntoIterator<Item = ShardId>) {
        let shards: BTreeSet<ShardId> = shards.into_iter().collect();
        if shards.is_empty() {
            return;
        }
        self.shared.bell.ring();
        let of_this_host = shards.iter().filter_map(|shard| self.shards.get(usize::from(shard.0)));
        of_this_host.for_each(StreamHandle::wake_door);
    }
}
