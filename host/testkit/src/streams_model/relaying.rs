//! The relay at the owner: it takes the feed, reads windows, sends. In some runs it comes later, and takes what is appended from then on.

use std::collections::BTreeMap;

use waybill_core::ids::ShardId;
use waybill_core::port::stream_store::ShardOf;
use waybill_core::streams::records::{StreamCommit, StreamShardRecord};
use waybill_core::streams::relay::{FeedTaken, RelaySend};

use super::broker::Sent;
use super::setup::{SHARDS, STREAMS, shard_of};
use super::world::World;

impl World {
    /// One act of the relay of a shard.
    pub(super) fn relay(&mut self, host: usize, shard: usize) {
        let clock = self.clock();
        let Some(life) = self.hosts[host].lives[shard].as_ref() else { return };
        if self.setup.has_relay(self.now) && life.owner.relays().iter().next().is_none() {
            // Another configuration is in force: the shard is taken over anew.
            return self.drop_life(host, shard);
        }
        self.take_up(host, shard);
        let Some(life) = self.hosts[host].lives[shard].as_ref() else { return };
        if clock.mono >= life.owner.lease_until() {
            return;
        }
        if !self.calm && self.rng.one_in(100) {
            self.seek(host, shard);
        }
        self.read_windows(host, shard);
        let count_max = self.rng.index(4);
        let (name, run_max) = (self.setup.relay.clone(), self.setup.run_max);
        let Some(life) = self.hosts[host].lives[shard].as_mut() else { return };
        let token = life.token;
        let Some(relay) = life.owner.relays_mut().get_mut(&name) else { return };
        relay.set_run_max(run_max);
        let mut before = BTreeMap::new();
        for send in relay.sends(clock.mono, count_max) {
            self.send(host, shard, token, &send, &mut before);
        }
    }

    /// What may be behind: named by the feed after the mark, or everything once the feed was trimmed.
    fn take_up(&mut self, host: usize, shard: usize) {
        let name = self.setup.relay.clone();
        let Some(life) = self.hosts[host].lives[shard].as_mut() else { return };
        let record = life.owner.record().clone();
        let Some(relay) = life.owner.relays_mut().get_mut(&name) else { return };
        let shard = ShardId(u16::try_from(shard).unwrap());
        if let Some(after) = relay.feed_wanted(&record) {
            let feed: Vec<_> = self.store.read(|tables| {
                let feed = tables.streams.feed.range((shard, after + 1)..=(shard, u64::MAX)).take(2);
                feed.map(|(_, record)| record.clone()).collect()
            });
            let taken = relay.take_feed(&feed, &record);
            debug_assert!(taken == FeedTaken::Trimmed || !feed.is_empty());
        }
        if let Some(behind) = relay.streams_wanted() {
            let of = ShardOf { shard, count: SHARDS };
            let page = self.store.read(|tables| tables.streams.relay_streams(&name, of, behind, 2));
            relay.take_streams(&page, &record);
        }
    }

    /// An owner takes a shard over with the relay: where that never ran, it begins here.
    pub(super) fn note_start(&mut self, shard: usize, record: &StreamShardRecord) {
        if self.setup.latest_from.is_some() && !record.marks.contains_key(&self.setup.relay) {
            self.ledger.starting.insert((shard, record.token), record.pos);
        }
    }

    /// The first commit of the relay is in: it has begun, and stays with that.
    pub(super) fn note_started(&mut self, commit: &StreamCommit) {
        let shard = usize::from(commit.shard.0);
        if self.ledger.started[shard].is_none() && commit.record.marks.contains_key(&self.setup.relay) {
            self.ledger.started[shard] = self.ledger.starting.get(&(shard, commit.record.token)).copied();
        }
    }

    /// Whether the feed had named a number before the relay of its shard began.
    pub(super) fn is_before_start(&self, stream: usize, seq: u64) -> bool {
        self.ledger.was_named_by(stream, seq, self.ledger.started[usize::from(shard_of(stream).0)])
    }

    fn seek(&mut self, host: usize, shard: usize) {
        let name = self.setup.relay.clone();
        let stream = shard + usize::from(SHARDS) * self.rng.index(STREAMS / usize::from(SHARDS));
        let key = self.setup.stream(stream).clone();
        let (last, checkpoint) =
            self.store.read(|tables| (tables.streams.head(&key).last, tables.streams.checkpoint(&name, &key)));
        if last == 0 {
            return;
        }
        let upto = self.rng.below(last);
        let Some(life) = self.hosts[host].lives[shard].as_mut() else { return };
        if let Some(relay) = life.owner.relays_mut().get_mut(&name) {
            relay.seek(&key, &checkpoint, upto);
        }
    }

    fn read_windows(&mut self, host: usize, shard: usize) {
        let (name, holds, now) = (self.setup.relay.clone(), self.setup.holds, self.clock().mono);
        let count = 1 + self.rng.index(2);
        let Some(life) = self.hosts[host].lives[shard].as_mut() else { return };
        let Some(relay) = life.owner.relays_mut().get_mut(&name) else { return };
        let wanted = relay.windows_wanted(count, now, |_| false);
        let held = relay.window_bytes();
        if let Some((room, read)) = self.setup.room.filter(|_| !wanted.is_empty())
            && held > 0
            && held + read > room
        {
            self.ledger.violation(format!("ROOM a relay with {held} bytes in memory reads more than {room}"));
        }
        for (key, after) in wanted {
            let read = self.store.read(|tables| tables.streams.relay_slice(&name, &key, after, 0));
            let Some(overtaken) = relay.take_window(&key, &read) else { continue };
            if holds {
                self.ledger.violation(format!("HOLD the relay of stream {key} was overtaken"));
            }
            self.ledger.stats.overtaken += 1;
            let stream = self.setup.number(&key);
            for seq in overtaken.from..=overtaken.to {
                if let Some(event) = self.ledger.event(stream, seq) {
                    event.lost = true;
                }
            }
        }
    }

    /// `before`: of each key of a stream the last event of the same call: when it is answered, and whether it is acknowledged then.
    fn send(
        &mut self,
        host: usize,
        shard: usize,
        token: u64,
        send: &RelaySend,
        before: &mut BTreeMap<(usize, u8), (u64, bool)>,
    ) {
        self.ledger.stats.sends += 1;
        let stream = self.setup.number(&send.stream);
        let (stands, checkpoint) = self.store.read(|tables| {
            let record = tables.streams.shard(ShardId(u16::try_from(shard).unwrap()));
            (record.token == token, tables.streams.checkpoint(&self.setup.relay, &send.stream))
        });
        if stands && checkpoint.generation == send.generation && checkpoint.covers(send.seq) {
            let seq = send.seq;
            self.ledger.violation(format!("NEEDLESS stream {stream}: {seq} sent though its checkpoint is durable"));
        }
        let start = self.ledger.starting.get(&(shard, token)).copied().or(self.ledger.started[shard]);
        if send.generation == 0 && self.ledger.was_named_by(stream, send.seq, start) {
            let seq = send.seq;
            self.ledger.violation(format!("EARLY the relay sent {seq} of stream {stream}, which was there before it"));
        }
        let resource = self.ledger.by_seq[stream].get(&send.seq).map(|id| self.ledger.events[*id].resource);
        let Some(resource) = resource else {
            let seq = send.seq;
            return self.ledger.violation(format!("PHANTOM the relay sent {seq} of stream {stream}"));
        };
        let now = self.now;
        let lands = now + 1 + if self.rng.one_in(8) { self.rng.below(90) } else { self.rng.below(5) };
        let takes = 1 + self.rng.below(6);
        // It is lost, whatever the dice say.
        let fate = if self.setup.blocked == Some(stream) { 1 } else { self.rng.below(20) };
        let (lands, fate) = match before.get(&(stream, resource)) {
            Some((answered, true)) => (lands.max(answered + 1), fate),
            // It isn't sent.
            Some((answered, false)) => (lands.max(*answered), 1),
            None => (lands, fate),
        };
        let answers = lands + takes;
        let is_behind = before.insert((stream, resource), (answers, fate > 4)).is_some();
        self.ledger.stats.behind += u64::from(is_behind);
        self.broker.sent.push(Sent::new(host, token, stream, send, resource, lands, answers, fate));
    }
}
