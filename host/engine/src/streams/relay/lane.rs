//! Events that wait for a lane of their transport. A batch is made when the lane has a call free, of what waits by then: one that was made
//! before would hold a single event for as long as the lane is busy.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use waybill_core::ids::{Key, Tenant};
use waybill_core::message::Delivery;
use waybill_core::streams::relay::RelaySend;

use crate::live::TransportEntry;

/// Most that one call holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchBounds {
    pub events: usize,
    pub bytes: usize,
}

/// Events that go in one call.
#[derive(Default)]
pub(super) struct Batch {
    pub sends: Vec<RelaySend>,
    pub deliveries: Vec<Delivery>,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<(RelaySend, Delivery)>,
    /// The transport as it was when the latest of them came.
    entry: Option<Arc<TransportEntry>>,
    takers: u32,
}

/// One lane of a relay's transport, in one shard.
#[derive(Clone, Default)]
pub(super) struct Lane(Arc<Mutex<Queue>>);

impl Lane {
    /// Puts events behind those that wait. True: there is to be one more who takes them, of as many as the lane has calls.
    pub fn put(&self, entry: &Arc<TransportEntry>, events: Vec<(RelaySend, Delivery)>, calls: u32) -> bool {
        let mut queue = self.0.lock();
        queue.entry = Some(Arc::clone(entry));
        queue.events.extend(events);
        let is_wanted = queue.takers < calls.max(1);
        queue.takers += u32::from(is_wanted);
        is_wanted
    }

    /// Whether nothing waits: then whoever asked takes no more, and waits for no call either.
    pub fn is_done(&self) -> bool {
        let mut queue = self.0.lock();
        let is_done = queue.events.is_empty();
        queue.takers = queue.takers.saturating_sub(u32::from(is_done));
        is_done
    }

    /// The next batch. None: nothing waits, and whoever asked takes no more.
    pub fn take(&self, bounds: BatchBounds) -> Option<(Arc<TransportEntry>, Batch)> {
        let mut queue = self.0.lock();
        let batch = take_batch(&mut queue.events, bounds);
        let taken = queue.entry.clone().filter(|_| !batch.sends.is_empty());
        if taken.is_none() {
            queue.takers = queue.takers.saturating_sub(1);
        }
        taken.map(|entry| (entry, batch))
    }

    /// What waits isn't sent any more.
    pub fn clear(&self) {
        self.0.lock().events.clear();
    }
}

/// Tenant and key of a message.
pub(super) fn keys_of(delivery: &Delivery) -> (Tenant, Option<Key>) {
    (delivery.message.tenant.clone(), delivery.message.key.clone())
}

/// The first of them, one at least. Two streams may share a key, and a call never holds two messages of one.
fn take_batch(events: &mut VecDeque<(RelaySend, Delivery)>, bounds: BatchBounds) -> Batch {
    let (mut batch, mut bytes, mut keys) = (Batch::default(), 0, HashSet::new());
    while let Some((send, delivery)) = events.pop_front() {
        bytes += delivery.payload.len();
        let is_alone = delivery.message.key.is_none() || keys.insert(keys_of(&delivery));
        let has_room = is_alone && batch.sends.len() < bounds.events && bytes <= bounds.bytes;
        if !has_room && !batch.sends.is_empty() {
            events.push_front((send, delivery));
            break;
        }
        batch.sends.push(send);
        batch.deliveries.push(delivery);
    }
    batch
}
