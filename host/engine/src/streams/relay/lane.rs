//! Events that wait for a lane of their transport. A batch is made when the lane has a call free, of what waits by then: one that was made
//! before would hold a single event for as long as the lane is busy.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use waybill_core::ids::{Key, Tenant};
use waybill_core::message::Delivery;
use waybill_core::port::transport::Transport;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::relay::RelaySend;

use crate::live::TransportEntry;
use crate::transport_call;

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
    /// What would have to go behind some of them and has no room there: it isn't sent.
    pub given_back: Vec<RelaySend>,
}

/// A batch, and through what it goes: what that can do is what the batch was made by.
pub(super) struct Taken {
    pub entry: Arc<TransportEntry>,
    pub serving: Arc<dyn Transport>,
    pub batch: Batch,
}

struct Waiting {
    send: RelaySend,
    delivery: Delivery,
    /// It goes behind the one before it or not at all: they are of one stream and key.
    is_behind: bool,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Waiting>,
    /// The transport as it was when the latest of them came.
    entry: Option<Arc<TransportEntry>>,
    takers: u32,
}

/// One lane of a relay's transport, in one shard.
#[derive(Clone, Default)]
pub(super) struct Lane(Arc<Mutex<Queue>>);

impl Lane {
    /// Puts events behind those that wait. True: there is to be one more who takes them, of as many as the lane has calls.
    /// `has_runs`: several of them may be of one stream and key, in order.
    pub fn put(
        &self,
        entry: &Arc<TransportEntry>,
        events: Vec<(RelaySend, Delivery)>,
        calls: u32,
        has_runs: bool,
    ) -> bool {
        let alone = |(send, delivery)| Waiting { send, delivery, is_behind: false };
        let waiting = if has_runs { in_runs(events) } else { events.into_iter().map(alone).collect() };
        let mut queue = self.0.lock();
        queue.entry = Some(Arc::clone(entry));
        queue.events.extend(waiting);
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
    pub fn take(&self, bounds: BatchBounds) -> Option<Taken> {
        let mut queue = self.0.lock();
        let taken = queue.entry.clone().filter(|_| !queue.events.is_empty()).map(|entry| {
            let serving = transport_call::serving(&entry);
            let batch = take_batch(&mut queue.events, bounds, serving.limits().key_runs);
            Taken { entry, serving, batch }
        });
        if taken.is_none() {
            queue.takers = queue.takers.saturating_sub(1);
        }
        taken
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

/// Events as they wait: those of one stream and key together, at the place of the first of them. What has no key goes alone.
fn in_runs(events: Vec<(RelaySend, Delivery)>) -> Vec<Waiting> {
    let (mut runs, mut places) = (Vec::<Vec<Waiting>>::new(), HashMap::<(StreamKey, Key), usize>::new());
    for (send, delivery) in events {
        let next = runs.len();
        let of = delivery.message.key.clone().map(|key| (send.stream.clone(), key));
        let place = of.map_or(next, |of| *places.entry(of).or_insert(next));
        match runs.get_mut(place) {
            Some(run) => run.push(Waiting { send, delivery, is_behind: true }),
            None => runs.push(vec![Waiting { send, delivery, is_behind: false }]),
        }
    }
    runs.into_iter().flatten().collect()
}

/// The first of them, one at least. Two streams may share a key, and a call never holds two messages of one, but for a run, where the
/// transport keeps its order. A run is cut only where it is too much for a call by itself.
fn take_batch(events: &mut VecDeque<Waiting>, bounds: BatchBounds, keeps_runs: bool) -> Batch {
    let (mut batch, mut bytes, mut keys) = (Batch::default(), 0, HashSet::new());
    while let Some(first) = events.front() {
        let count = 1 + events.iter().skip(1).take_while(|next| next.is_behind).count();
        let of_run: usize = events.iter().take(count).map(|one| one.delivery.payload.len()).sum();
        let is_alone = first.delivery.message.key.is_none() || keys.insert(keys_of(&first.delivery));
        let fits = batch.sends.len() + count <= bounds.events && bytes + of_run <= bounds.bytes;
        let joins = is_alone && fits;
        if !joins && !batch.sends.is_empty() {
            break;
        }
        let mut is_cut = false;
        for (place, Waiting { send, delivery, .. }) in events.drain(..count).enumerate() {
            let size = delivery.payload.len();
            let has_room = keeps_runs && batch.sends.len() < bounds.events && bytes + size <= bounds.bytes;
            is_cut |= place > 0 && !has_room;
            if is_cut {
                batch.given_back.push(send);
                continue;
            }
            bytes += size;
            batch.sends.push(send);
            batch.deliveries.push(delivery);
        }
    }
    batch
}
