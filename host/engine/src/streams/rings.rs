//! What was published of late, for the readers of this host: one ring a stream or selector, while it has a reader.
//!
//! Rings are hints. What isn't in one is read from the store, so an entry that is dropped for want of room costs its readers time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::stream_store::FeedSlice;
use waybill_core::saga::id::SagaKey;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::owner::Published;
use waybill_core::streams::reading::{LiveEntry, Ring, Selector};
use waybill_core::streams::settings::EventsSettings;

/// What a ring is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RingOf {
    Stream(StreamKey),
    Many(Tenant, Selector),
}

/// Where a ring lies. That of a selector has a number, so that each of ten thousand readers finds its own without looking at the others'.
enum Place {
    Stream(StreamKey),
    Many(u64),
}

/// A ring with those who read it.
struct Slot {
    ring: Ring,
    /// As they were when it began: it keeps its size while it is live.
    entries_max: usize,
    bytes_max: usize,
    readers: HashMap<u64, Arc<Notify>>,
}

impl Slot {
    /// A reader leaves; true = it was the last one.
    fn is_left_by(&mut self, id: u64) -> bool {
        self.readers.remove(&id);
        self.readers.is_empty()
    }
}

#[derive(Default)]
struct State {
    streams: HashMap<StreamKey, Slot>,
    many: BTreeMap<u64, ((Tenant, Selector), Slot)>,
    bytes: usize,
    bytes_total: usize,
    /// The next number of a reader, or of the ring of a selector.
    next_number: u64,
    /// Up to which record the feed of a shard that isn't this host's was taken.
    followed: BTreeMap<ShardId, u64>,
}

/// The rings of this host.
#[derive(Default)]
pub(crate) struct Rings {
    state: Mutex<State>,
    /// Rung when there is a first reader.
    pub joined: Notify,
    /// Places of readers of sagas' histories: mostly there is none, and a saga that moves has nobody to look for.
    histories: AtomicUsize,
}

/// A reader's place among the readers of a ring; dropped, it leaves.
pub(super) struct Seat {
    shared: Arc<super::Shared>,
    place: Place,
    id: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.rings.leave(&self.place, self.id);
    }
}

impl Seat {
    /// Looks at the ring.
    pub fn with<T>(&self, look: impl FnOnce(&Ring) -> T) -> T {
        let state = self.shared.rings.state.lock();
        match state.slot(&self.place) {
            Some(slot) => look(&slot.ring),
            // It is there for as long as this reader is.
            None => look(&Ring::default()),
        }
    }
}

impl State {
    fn slot(&self, place: &Place) -> Option<&Slot> {
        match place {
            Place::Stream(stream) => self.streams.get(stream),
            Place::Many(number) => self.many.get(number).map(|(_, slot)| slot),
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The ring that a selector has, or gets.
    fn number_of(&mut self, tenant: &Tenant, selector: &Selector) -> u64 {
        let known = self.many.iter().find(|(_, (of, _))| of.0 == *tenant && of.1 == *selector);
        match known.map(|(number, _)| *number) {
            Some(number) => number,
            None => self.number(),
        }
    }

    fn push(slot: &mut Slot, entry: LiveEntry, bytes: &mut usize, bytes_total: usize) {
        let before = slot.ring.bytes();
        // Where all rings together have too much, this one keeps its latest entry alone.
        let bytes_max = if *bytes > bytes_total { 0 } else { slot.bytes_max };
        slot.ring.push(Arc::new(entry), slot.entries_max, bytes_max);
        *bytes = (*bytes + slot.ring.bytes()).saturating_sub(before);
        slot.readers.values().for_each(|reader| reader.notify_one());
    }

    /// Gives every ring its part. `entry` makes the entry with the streams that are wanted.
    fn publish(&mut self, streams: &[StreamKey], entry: impl Fn(&dyn Fn(&StreamKey) -> bool) -> LiveEntry) {
        let Self { streams: rings, many, bytes, bytes_total, .. } = self;
        for stream in streams {
            if let Some(slot) = rings.get_mut(stream) {
                Self::push(slot, entry(&|wanted: &StreamKey| wanted == stream), bytes, *bytes_total);
            }
        }
        for ((tenant, selector), slot) in many.values_mut() {
            let wants = |stream: &StreamKey| stream.tenant == *tenant && selector.may_take(&stream.name);
            Self::push(slot, entry(&wants), bytes, *bytes_total);
        }
    }
}

impl Rings {
    /// Joins the readers of a ring; `wake` is rung with each entry.
    pub(super) fn join(shared: &Arc<super::Shared>, of: RingOf, wake: &Arc<Notify>, settings: &EventsSettings) -> Seat {
        if matches!(&of, RingOf::Stream(stream) if stream.name.is_saga()) {
            shared.rings.histories.fetch_add(1, Ordering::AcqRel);
        }
        let mut state = shared.rings.state.lock();
        state.bytes_total = settings.live_bytes_total;
        let id = state.number();
        let fresh = || Slot {
            ring: Ring::default(),
            entries_max: settings.live_entries.max(1),
            bytes_max: settings.live_bytes,
            readers: HashMap::new(),
        };
        let (place, slot) = match of {
            RingOf::Stream(stream) => {
                (Place::Stream(stream.clone()), state.streams.entry(stream).or_insert_with(fresh))
            }
            RingOf::Many(tenant, selector) => {
                let number = state.number_of(&tenant, &selector);
                let (_, slot) = state.many.entry(number).or_insert_with(|| ((tenant, selector), fresh()));
                (Place::Many(number), slot)
            }
        };
        slot.readers.insert(id, Arc::clone(wake));
        drop(state);
        shared.rings.joined.notify_one();
        Seat { shared: Arc::clone(shared), place, id }
    }

    fn leave(&self, place: &Place, id: u64) {
        if matches!(place, Place::Stream(stream) if stream.name.is_saga()) {
            self.histories.fetch_sub(1, Ordering::AcqRel);
        }
        let mut state = self.state.lock();
        let gone = match place {
            Place::Stream(stream) => {
                let is_empty = state.streams.get_mut(stream).is_some_and(|slot| slot.is_left_by(id));
                if is_empty { state.streams.remove(stream) } else { None }
            }
            Place::Many(number) => {
                let is_empty = state.many.get_mut(number).is_some_and(|(_, slot)| slot.is_left_by(id));
                if is_empty { state.many.remove(number).map(|(_, slot)| slot) } else { None }
            }
        };
        let bytes = gone.map_or(0, |slot| slot.ring.bytes());
        state.bytes = state.bytes.saturating_sub(bytes);
    }

    /// What a commit of this host added.
    pub fn publish(&self, published: &Published) {
        let streams = distinct(published.parts.iter().map(|part| &part.part.stream));
        self.state.lock().publish(&streams, |wants| LiveEntry::of(published, wants));
    }

    /// The same of a record of another host's feed.
    pub fn publish_slice(&self, shard: ShardId, slice: &FeedSlice) {
        let streams = distinct(slice.record.parts.iter().map(|part| &part.stream));
        let mut state = self.state.lock();
        state.publish(&streams, |wants| LiveEntry::of_slice(shard, slice, wants));
        state.followed.insert(shard, slice.record.pos);
    }

    /// A commit of this host moved a saga: readers of its history look for what is new. It isn't in the ring, as most sagas have no reader.
    pub fn call_history(&self, saga: &SagaKey) {
        if self.histories.load(Ordering::Acquire) == 0 {
            return;
        }
        let Ok(name) = StreamName::of_saga(saga.id.as_str()) else { return };
        if let Some(slot) = self.state.lock().streams.get_mut(&StreamKey { tenant: saga.tenant.clone(), name }) {
            slot.ring.call();
            slot.readers.values().for_each(|reader| reader.notify_one());
        }
    }

    /// Whether any reader of this host listens.
    pub fn has_readers(&self) -> bool {
        let state = self.state.lock();
        !state.streams.is_empty() || !state.many.is_empty()
    }

    /// Up to which record the feed of a shard was followed; `end` where it wasn't. What came before that, readers look for themselves.
    pub fn followed(&self, shard: ShardId, end: u64) -> u64 {
        *self.state.lock().followed.entry(shard).or_insert(end)
    }

    /// A shard is followed anew, from its end of then on.
    pub fn forget_shard(&self, shard: ShardId) {
        self.state.lock().followed.remove(&shard);
    }

    /// Rings, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.streams.len() + state.many.len(), state.bytes)
    }

    /// Who reads a stream by name.
    pub fn readers_of(&self, stream: &StreamKey) -> usize {
        self.state.lock().streams.get(stream).map_or(0, |slot| slot.readers.len())
    }
}

/// A commit may name a stream twice: what it adopted, and what it numbered.
fn distinct<'a>(streams: impl Iterator<Item = &'a StreamKey>) -> Vec<StreamKey> {
    let mut streams: Vec<StreamKey> = streams.cloned().collect();
    streams.sort_unstable();
    streams.dedup();
    streams
}
