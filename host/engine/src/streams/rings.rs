//! What was published of late, for the readers of this host: one ring a stream or selector, while it has a reader.
//!
//! Rings are hints. What isn't in one is read from the store, so an entry that is dropped for want of room costs its readers time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::stream_store::FeedSlice;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::owner::Published;
use waybill_core::streams::reading::{LiveEntry, Ring, Selector};
use waybill_core::streams::settings::EventsSettings;

/// What a ring is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RingOf {
    Stream(StreamKey),
    Many(Tenant, Selector),
}

/// A ring with those who read it.
struct Slot {
    ring: Ring,
    /// As they were when it began: it keeps its size while it is live.
    entries_max: usize,
    bytes_max: usize,
    readers: HashMap<u64, Arc<Notify>>,
}

#[derive(Default)]
struct State {
    streams: HashMap<StreamKey, Slot>,
    many: Vec<((Tenant, Selector), Slot)>,
    bytes: usize,
    bytes_total: usize,
    next_reader: u64,
    /// Up to which record the feed of a shard that isn't this host's was taken.
    followed: BTreeMap<ShardId, u64>,
}

/// The rings of this host.
#[derive(Default)]
pub(crate) struct Rings {
    state: Mutex<State>,
    /// Rung when there is a first reader.
    pub joined: Notify,
}

/// A reader's place among the readers of a ring; dropped, it leaves.
pub(super) struct Seat {
    rings: Arc<super::Shared>,
    of: RingOf,
    id: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.rings.rings.leave(&self.of, self.id);
    }
}

impl Seat {
    /// Looks at the ring.
    pub fn with<T>(&self, look: impl FnOnce(&Ring) -> T) -> T {
        let state = self.rings.rings.state.lock();
        match state.slot(&self.of) {
            Some(slot) => look(&slot.ring),
            // It is there for as long as this reader is.
            None => look(&Ring::default()),
        }
    }
}

impl State {
    fn slot(&self, of: &RingOf) -> Option<&Slot> {
        match of {
            RingOf::Stream(stream) => self.streams.get(stream),
            RingOf::Many(tenant, selector) => {
                let is_it = |known: &&((Tenant, Selector), Slot)| known.0.0 == *tenant && known.0.1 == *selector;
                self.many.iter().find(is_it).map(|(_, slot)| slot)
            }
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
        for ((tenant, selector), slot) in many {
            let wants = |stream: &StreamKey| stream.tenant == *tenant && selector.may_take(&stream.name);
            Self::push(slot, entry(&wants), bytes, *bytes_total);
        }
    }
}

impl Rings {
    /// Joins the readers of a ring; `wake` is rung with each entry.
    pub(super) fn join(shared: &Arc<super::Shared>, of: RingOf, wake: &Arc<Notify>, settings: &EventsSettings) -> Seat {
        let mut state = shared.rings.state.lock();
        state.next_reader += 1;
        state.bytes_total = settings.live_bytes_total;
        let id = state.next_reader;
        let fresh = || Slot {
            ring: Ring::default(),
            entries_max: settings.live_entries.max(1),
            bytes_max: settings.live_bytes,
            readers: HashMap::new(),
        };
        let slot = match &of {
            RingOf::Stream(stream) => state.streams.entry(stream.clone()).or_insert_with(fresh),
            RingOf::Many(tenant, selector) => {
                let at = state.many.iter().position(|known| known.0.0 == *tenant && known.0.1 == *selector);
                let at = at.unwrap_or_else(|| {
                    state.many.push(((tenant.clone(), selector.clone()), fresh()));
                    state.many.len() - 1
                });
                match state.many.get_mut(at) {
                    Some((_, slot)) => slot,
                    None => return Seat { rings: Arc::clone(shared), of, id },
                }
            }
        };
        slot.readers.insert(id, Arc::clone(wake));
        drop(state);
        shared.rings.joined.notify_one();
        Seat { rings: Arc::clone(shared), of, id }
    }

    fn leave(&self, of: &RingOf, id: u64) {
        let mut state = self.state.lock();
        let gone = match of {
            RingOf::Stream(stream) => {
                let is_empty = state.streams.get_mut(stream).is_some_and(|slot| {
                    slot.readers.remove(&id);
                    slot.readers.is_empty()
                });
                if is_empty { state.streams.remove(stream) } else { None }
            }
            RingOf::Many(tenant, selector) => {
                let at = state.many.iter().position(|known| known.0.0 == *tenant && known.0.1 == *selector);
                let is_empty = at.and_then(|at| state.many.get_mut(at)).is_some_and(|(_, slot)| {
                    slot.readers.remove(&id);
                    slot.readers.is_empty()
                });
                at.filter(|_| is_empty).map(|at| state.many.swap_remove(at).1)
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
