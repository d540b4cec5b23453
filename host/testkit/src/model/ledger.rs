//! Double entry: every commit that goes in is booked message by message, and what doesn't add up is a violation.
//!
//! Whatever leaves one place in a commit has to arrive at another in the same commit; nothing ends twice; what was
//! delivered gets to the history exactly once; nothing comes back that had left.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use waybill_core::annotation::Annotation;
use waybill_core::ids::{MessageId, Place, Seq, ShardId, Tenant};
use waybill_core::message::Message;
use waybill_core::outbox::records::{DoneEnd, DoorKey, Segment, ShardRecord};
use waybill_core::port::store::{OwnerCommit, Write};
use waybill_core::time::UnixMillis;

use super::known::{End, Known, Spot};
use super::stats::Stats;
use super::tx_events::OwedEvents;
use super::unreadable::Damage;

/// Number of a message: its `correlation_id`.
pub(super) fn number_of(message: &Message) -> usize {
    message.annotation(Annotation::CorrelationId).and_then(|text| text.parse().ok()).unwrap_or(usize::MAX)
}

/// A place in the order of a shard.
pub(super) type At = (ShardId, Seq);

/// Where a message lies in the order of its shard.
pub(super) fn at(place: Place) -> At {
    (place.shard, place.seq())
}

/// What is stored, message by message and over all shards.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub known: Vec<Known>,
    /// The shard records as committed last.
    records: BTreeMap<ShardId, ShardRecord>,
    /// That of a shard that nobody has taken yet.
    untaken: ShardRecord,
    /// Entries of stored segments that haven't moved on.
    pub segments: BTreeMap<At, BTreeMap<u16, usize>>,
    /// Entries that moved on and are still in the bytes of their segment.
    pub ghosts: BTreeMap<At, BTreeSet<u16>>,
    pub parked: BTreeMap<At, (usize, bool)>,
    pub scheduled: BTreeMap<(ShardId, UnixMillis, String), usize>,
    pub dead: BTreeMap<At, usize>,
    pub door: BTreeMap<(ShardId, DoorKey), Vec<usize>>,
    /// The message that has an id, by tenant and id.
    pub(super) holders: HashMap<(Tenant, MessageId), usize>,
    /// The one that had it last, of ids that were forgotten with their message.
    former: HashMap<(Tenant, MessageId), usize>,
    /// Dead letters that hold their key: where, whose, which key.
    pub held: BTreeMap<usize, (At, Tenant, u64)>,
    /// The shard of each key, as the first message of it found.
    pub(super) homes: BTreeMap<(Tenant, u64), ShardId>,
    /// How many suspects of each number of crashes may be on trial at once, as the takeovers left them.
    pub halves: BTreeMap<ShardId, BTreeMap<u32, usize>>,
    /// Failed attempts of messages that were parked, as their rows said last.
    pub(super) attempts: BTreeMap<usize, u32>,
    /// Rows that can't be read.
    pub damage: Damage,
    pub bad: Vec<String>,
}

/// A commit being booked.
pub(super) struct Booking {
    pub shard: ShardId,
    pub now: u64,
    /// The last seq given out before, and with it.
    pub last: (Seq, Seq),
    /// Left their spot in this commit.
    pub limbo: BTreeMap<usize, Spot>,
    /// Delivered ones whose segment goes: they have to appear in the history now.
    pub owed: BTreeSet<usize>,
    /// Segments removed or rewritten.
    pub rewritten: BTreeSet<Seq>,
    /// Refused because their id belongs to another message.
    pub conflicts: BTreeSet<usize>,
    /// Messages that went to quarantine.
    pub quarantined: u64,
    /// Audit events that it has to write.
    pub events: OwedEvents,
}

impl Ledger {
    pub(super) fn violation(&mut self, now: u64, text: String) {
        self.bad.push(format!("t{now} {text}"));
    }

    /// The record of a shard as committed last.
    pub fn record(&self, shard: ShardId) -> &ShardRecord {
        self.records.get(&shard).unwrap_or(&self.untaken)
    }

    pub fn get(&self, number: usize) -> Option<&Known> {
        self.known.get(number)
    }

    pub(super) fn spot(&self, number: usize) -> Spot {
        self.known.get(number).map_or(Spot::Nowhere, |known| known.spot.clone())
    }

    pub(super) fn set_spot(&mut self, number: usize, spot: Spot) {
        if let Some(known) = self.known.get_mut(number) {
            known.spot = spot;
        }
    }

    /// A client's doorstep rows were committed.
    pub fn put_door(&mut self, shard: ShardId, key: DoorKey, numbers: Vec<usize>, now: u64, stats: &mut Stats) {
        for number in &numbers {
            if let Some(known) = self.known.get_mut(*number) {
                known.commit = Some(now);
                known.via_door = true;
                known.spot = Spot::Door(shard, key.clone());
                stats.committed += 1;
            }
        }
        self.door.insert((shard, key), numbers);
    }

    /// Whether a message may be sent by the owner that the record names: durably claimed.
    pub fn is_claimed(&self, number: usize) -> bool {
        match self.spot(number) {
            Spot::Segment(place) | Spot::Acked(place) => self.record(place.shard).open.contains_key(&place.segment),
            Spot::Parked(place) => {
                let row = self.parked.get(&at(place)).or_else(|| self.damage.parked.get(&at(place)));
                row.is_some_and(|(_, claimed)| *claimed)
            }
            _ => false,
        }
    }

    /// What a message was is forgotten: its id is free again.
    pub fn purge(&mut self, number: usize) {
        let Some(known) = self.known.get_mut(number) else { return };
        known.purged = true;
        if let Some(id) = known.id.clone() {
            let key = (known.tenant.clone(), id);
            // Another message may have the id for which this one was refused.
            if self.holders.get(&key) == Some(&number) {
                self.holders.remove(&key);
                self.former.insert(key, number);
            }
        }
    }

    /// The message that has an id.
    pub fn holder(&self, tenant: &Tenant, id: &MessageId) -> Option<usize> {
        self.holders.get(&(tenant.clone(), id.clone())).copied()
    }

    fn holder_of(&self, number: usize) -> Option<&Known> {
        let known = self.known.get(number)?;
        let id = known.id.as_ref()?;
        // A repeat that was looked up before its first was forgotten is one still.
        let former = || self.former.get(&(known.tenant.clone(), id.clone())).copied();
        self.known.get(self.holder(&known.tenant, id).or_else(former)?)
    }

    /// Whether a message that isn't finished lies at this place.
    pub fn is_waiting(&self, (shard, seq): At) -> bool {
        let entries = self.segments.range((shard, Seq(0))..=(shard, seq)).next_back();
        let packed = entries.and_then(|((_, first), entries)| entries.get(&u16::try_from(seq.0 - first.0).ok()?));
        let is_packed = packed.is_some_and(|number| matches!(self.spot(*number), Spot::Segment(_)));
        is_packed || self.parked.contains_key(&(shard, seq))
    }

    /// Books a commit that went in.
    pub fn book(&mut self, commit: &OwnerCommit, now: u64, stats: &mut Stats) {
        let shard = commit.shard;
        let before = self.records.insert(shard, commit.record.clone()).unwrap_or_default();
        if before.token != commit.record.token {
            self.halves.insert(shard, commit.record.suspicion.halves());
        }
        let mut booking = Booking {
            shard,
            now,
            last: (before.last, commit.record.last),
            limbo: BTreeMap::new(),
            owed: BTreeSet::new(),
            rewritten: BTreeSet::new(),
            conflicts: BTreeSet::new(),
            quarantined: 0,
            events: OwedEvents::default(),
        };
        self.book_bits(commit, &mut booking);
        for write in &commit.writes {
            self.book_leaving(write, &mut booking);
        }
        for write in &commit.writes {
            self.book_arriving(write, &mut booking, stats);
        }
        self.close(&before, commit, booking, stats);
    }

    fn book_bits(&mut self, commit: &OwnerCommit, booking: &mut Booking) {
        for (first, open) in &commit.record.open {
            let first = (commit.shard, *first);
            let entries: Vec<(u16, usize)> = self
                .segments
                .get(&first)
                .map(|entries| entries.iter().map(|(i, n)| (*i, *n)).collect())
                .unwrap_or_default();
            for (index, number) in entries {
                let spot = self.spot(number);
                let Spot::Segment(place) = spot else { continue };
                if open.acked.contains(index) {
                    self.end(number, End::Finished(DoneEnd::Delivered), booking.now);
                    self.set_spot(number, Spot::Acked(place));
                } else if open.moved.contains(index) {
                    booking.limbo.insert(number, Spot::Segment(place));
                    if let Some(entries) = self.segments.get_mut(&first) {
                        entries.remove(&index);
                    }
                    self.ghosts.entry(first).or_default().insert(index);
                }
            }
        }
    }

    fn book_leaving(&mut self, write: &Write, booking: &mut Booking) {
        let shard = booking.shard;
        match write {
            Write::DeleteSegment(first) => {
                booking.rewritten.insert(*first);
                self.ghosts.remove(&(shard, *first));
                for (_, number) in self.segments.remove(&(shard, *first)).unwrap_or_default() {
                    self.leave_segment(number, booking);
                }
            }
            Write::PutSegment(segment) if self.segments.contains_key(&(shard, segment.first)) => {
                self.rewrite(segment, booking);
            }
            Write::QuarantineSegment { first, reason } => self.quarantine_segment((shard, *first), reason, booking),
            Write::DeleteParked(seq) => {
                self.take_parked_back((shard, *seq));
                if let Some((number, _)) = self.parked.remove(&(shard, *seq)) {
                    let spot = self.spot(number);
                    booking.limbo.insert(number, spot);
                }
            }
            Write::DeleteScheduled { due, id } => match self.scheduled.remove(&(shard, *due, id.as_str().to_owned())) {
                Some(number) => {
                    booking.limbo.insert(number, Spot::Scheduled(shard, *due));
                }
                None => self.violation(booking.now, format!("scheduled message {id} was taken twice")),
            },
            Write::DeleteDoor(key) => match self.door.remove(&(shard, key.clone())) {
                Some(numbers) => {
                    let from = |number| (number, Spot::Door(shard, key.clone()));
                    booking.limbo.extend(numbers.into_iter().map(from));
                }
                None => self.violation(booking.now, format!("doorstep row {key:?} was taken twice")),
            },
            Write::DeleteDead(seq) => match self.dead.remove(&(shard, *seq)) {
                Some(number) => {
                    let spot = self.spot(number);
                    self.held.remove(&number);
                    booking.limbo.insert(number, spot);
                }
                None => self.violation(booking.now, format!("dead letter {seq} was taken twice")),
            },
            _ => {}
        }
    }

    fn leave_segment(&mut self, number: usize, booking: &mut Booking) {
        match self.spot(number) {
            Spot::Acked(_) => {
                booking.owed.insert(number);
            }
            spot => {
                booking.limbo.insert(number, spot);
            }
        }
    }

    fn rewrite(&mut self, segment: &Segment, booking: &mut Booking) {
        let first = (booking.shard, segment.first);
        booking.rewritten.insert(segment.first);
        self.ghosts.remove(&first);
        let old = self.segments.remove(&first).unwrap_or_default();
        let mut new = BTreeMap::new();
        for entry in &segment.entries {
            let number = number_of(&entry.message);
            if old.get(&entry.index) != Some(&number) || !matches!(self.spot(number), Spot::Segment(_)) {
                let spot = self.spot(number);
                self.violation(
                    booking.now,
                    format!("msg {number} came back to segment {}: it was {spot:?}", segment.first),
                );
            }
            new.insert(entry.index, number);
        }
        for (index, number) in old {
            if !new.contains_key(&index) {
                self.leave_segment(number, booking);
            }
        }
        self.segments.insert(first, new);
    }

    pub(super) fn end(&mut self, number: usize, end: End, now: u64) {
        let Some(known) = self.known.get_mut(number) else { return };
        if let Some(before) = known.end.replace(end) {
            self.violation(now, format!("msg {number} settled twice: {before:?}, then {end:?}"));
        }
    }

    /// What is left over when everything was booked.
    fn close(&mut self, before: &ShardRecord, commit: &OwnerCommit, booking: Booking, stats: &mut Stats) {
        let now = booking.now;
        stats.quarantined += booking.quarantined;
        for text in booking.events.violations() {
            self.violation(now, text);
        }
        for number in booking.owed {
            self.violation(now, format!("msg {number} was delivered and isn't in the history"));
        }
        for number in booking.conflicts {
            let (known, holder) = (self.known.get(number), self.holder_of(number));
            if known.zip(holder).is_none_or(|(known, holder)| known.content == holder.content) {
                self.violation(now, format!("msg {number} was refused as a conflict, but nothing else has its id"));
            }
        }
        for (number, from) in booking.limbo {
            let (known, holder) = (self.known.get(number), self.holder_of(number));
            let is_repeat = matches!(from, Spot::Door(..))
                && holder.zip(known).is_some_and(|(holder, known)| holder.content == known.content);
            if is_repeat {
                stats.repeated_ids += 1;
                self.end(number, End::Repeat, now);
                self.set_spot(number, Spot::Dropped);
            } else {
                self.violation(now, format!("msg {number} vanished from {from:?}"));
            }
        }
        for first in before.open.keys().filter(|first| !commit.record.open.contains_key(first)) {
            let at = (commit.shard, *first);
            let acked =
                self.segments.get(&at).into_iter().flatten().any(|(_, n)| matches!(self.spot(*n), Spot::Acked(_)));
            if acked || self.ghosts.get(&at).is_some_and(|ghosts| !ghosts.is_empty()) {
                self.violation(now, format!("segment {first} was given up and its done bits forgotten"));
            }
        }
    }
}
