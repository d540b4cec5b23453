//! Rings, and who fills them: the owner with what it committed, others with what they read of the feed.

use std::sync::Arc;

use waybill_core::ids::ShardId;
use waybill_core::streams::owner::Published;
use waybill_core::streams::reading::LiveEntry;

use super::host::Host;
use super::setup::{RING, SHARDS, STREAMS};
use super::world::World;

/// Bytes of a ring: never what cuts it here.
const RING_BYTES: usize = 1 << 20;

impl World {
    /// The owner's process knows at once.
    pub(super) fn publish(&mut self, host: usize, published: &Published) {
        let entries = (0..STREAMS).map(|stream| {
            let key = self.setup.stream(stream);
            LiveEntry::of(published, |wanted| wanted == key)
        });
        let (entries, all) = (entries.collect(), LiveEntry::of(published, |_| true));
        self.hand_out(host, entries, all);
    }

    /// A hint may be lost: it costs time, never an event.
    fn hand_out(&mut self, host: usize, entries: Vec<LiveEntry>, all: LiveEntry) {
        let is_lost = self.rng.percent(3);
        let host: &mut Host = &mut self.hosts[host];
        let published = &mut host.published[usize::from(all.shard.0)];
        if all.pos != *published + 1 {
            return;
        }
        *published = all.pos;
        if is_lost {
            return;
        }
        for (stream, entry) in entries.into_iter().enumerate() {
            if !entry.parts.is_empty() {
                host.rings[stream].push(Arc::new(entry), RING, RING_BYTES);
            }
        }
        host.all.push(Arc::new(all), RING, RING_BYTES);
    }

    /// Reads what other hosts appended.
    pub(super) fn follow(&mut self, host: usize) {
        for shard in 0..SHARDS {
            for _ in 0..2 {
                let (published, end) =
                    (self.hosts[host].published[usize::from(shard)], self.record(usize::from(shard)).pos);
                if published >= end {
                    break;
                }
                let shard = ShardId(shard);
                let slice = self.store.read(|tables| tables.streams.feed_slice(shard, published + 1));
                let Some(slice) = slice else {
                    let host = &mut self.hosts[host];
                    host.published[usize::from(shard.0)] = end;
                    host.rings.iter_mut().for_each(|ring| ring.lose());
                    host.all.lose();
                    continue;
                };
                let entries = (0..STREAMS).map(|stream| {
                    let key = self.setup.stream(stream);
                    LiveEntry::of_slice(shard, &slice, |wanted| wanted == key)
                });
                let (entries, all) = (entries.collect(), LiveEntry::of_slice(shard, &slice, |_| true));
                self.hand_out(host, entries, all);
            }
        }
    }
}
