//! Double entry: every commit that goes in is booked message by message, and what doesn't add up is a violation.
//!
//! Whatever leaves one place in a commit has to arrive at another in the same commit; nothing ends twice; what was
//! delivered gets to the history exactly once; nothing comes back that had left.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use waybill_core::ids::{MessageId, Place, Seq, Tenant};
use waybill_core::message::Message;
use waybill_core::outbox::records::{
    DeadLetter, DoneEnd, DoorKey, HistoryChunk, IdState, Parked, Scheduled, Segment, ShardRecord,
};
use waybill_core::port::store::{OwnerCommit, Write};
use waybill_core::time::UnixMillis;

use super::known::{End, Known, Spot};
use super::stats::Stats;
use super::unreadable::{Damage, MALFORMED};

/// Number of a message: its `correlation_id`.
pub(super) fn number_of(message: &Message) -> usize {
    message.correlation_id.as_deref().and_then(|text| text.parse().ok()).unwrap_or(usize::MAX)
}

/// What is stored, message by message.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub known: Vec<Known>,
    /// The shard record as committed last.
    pub record: ShardRecord,
    /// Entries of stored segments that haven't moved on.
    pub segments: BTreeMap<Seq, BTreeMap<u16, usize>>,
    /// Entries that moved on and are still in the bytes of their segment.
    pub ghosts: BTreeMap<Seq, BTreeSet<u16>>,
    pub parked: BTreeMap<Seq, (usize, bool)>,
    pub scheduled: BTreeMap<(UnixMillis, String), usize>,
    pub dead: BTreeMap<Seq, usize>,
    pub door: BTreeMap<DoorKey, Vec<usize>>,
    pub ids: BTreeMap<(Tenant, MessageId), IdState>,
    /// The message that has an id, by tenant and id.
    holders: HashMap<(Tenant, MessageId), usize>,
    /// The one that had it last, of ids that were forgotten with their message.
    former: HashMap<(Tenant, MessageId), usize>,
    /// Dead letters that hold their key: where, whose, which key.
    pub held: BTreeMap<usize, (Seq, Tenant, u64)>,
    /// How many suspects of each number of crashes may be on trial at once, as the takeover left them.
    pub halves: BTreeMap<u32, usize>,
    /// Rows that can't be read.
    pub damage: Damage,
    pub bad: Vec<String>,
}

/// A commit being booked.
pub(super) struct Booking {
    pub now: u64,
    /// Left their spot in this commit.
    pub limbo: BTreeMap<usize, Spot>,
    /// Delivered ones whose segment goes: they have to appear in the history now.
    owed: BTreeSet<usize>,
    /// Segments removed or rewritten.
    rewritten: BTreeSet<Seq>,
    /// Refused because their id belongs to another message.
    conflicts: BTreeSet<usize>,
    /// Messages that went to quarantine.
    pub quarantined: u64,
}

impl Ledger {
    pub(super) fn violation(&mut self, now: u64, text: String) {
        self.bad.push(format!("t{now} {text}"));
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
    pub fn put_door(&mut self, key: DoorKey, numbers: Vec<usize>, now: u64, stats: &mut Stats) {
        for number in &numbers {
            if let Some(known) = self.known.get_mut(*number) {
                known.commit = Some(now);
                known.via_door = true;
                known.spot = Spot::Door(key.clone());
                stats.committed += 1;
            }
        }
        self.door.insert(key, numbers);
    }

    /// Whether a message may be sent by the owner that the record names: durably claimed.
    pub fn is_claimed(&self, number: usize) -> bool {
        match self.spot(number) {
            Spot::Segment(place) | Spot::Acked(place) => self.record.open.contains_key(&place.segment),
            Spot::Parked(place) => {
                let row = self.parked.get(&place.seq()).or_else(|| self.damage.parked.get(&place.seq()));
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
            self.holders.remove(&key);
            self.former.insert(key, number);
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
    pub fn is_waiting(&self, seq: Seq) -> bool {
        let entries = self.segments.range(..=seq).next_back();
        let packed = entries.and_then(|(first, entries)| entries.get(&u16::try_from(seq.0 - first.0).ok()?));
        let is_packed = packed.is_some_and(|number| matches!(self.spot(*number), Spot::Segment(_)));
        is_packed || self.parked.contains_key(&seq)
    }

    /// Books a commit that went in.
    pub fn book(&mut self, commit: &OwnerCommit, now: u64, stats: &mut Stats) {
        let before = std::mem::replace(&mut self.record, commit.record.clone());
        if before.token != commit.record.token {
            self.halves = commit.record.suspicion.halves();
        }
        let mut booking = Booking {
            now,
            limbo: BTreeMap::new(),
            owed: BTreeSet::new(),
            rewritten: BTreeSet::new(),
            conflicts: BTreeSet::new(),
            quarantined: 0,
        };
        self.book_bits(commit, &mut booking);
        for write in &commit.writes {
            self.book_leaving(write, &mut booking);
        }
        for write in &commit.writes {
            self.book_arriving(write, &before, &mut booking, stats);
        }
        self.close(&before, commit, booking, stats);
    }

    fn book_bits(&mut self, commit: &OwnerCommit, booking: &mut Booking) {
        for (first, open) in &commit.record.open {
            let entries: Vec<(u16, usize)> = self
                .segments
                .get(first)
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
                    if let Some(entries) = self.segments.get_mut(first) {
                        entries.remove(&index);
                    }
                    self.ghosts.entry(*first).or_default().insert(index);
                }
            }
        }
    }

    fn book_leaving(&mut self, write: &Write, booking: &mut Booking) {
        match write {
            Write::DeleteSegment(first) => {
                booking.rewritten.insert(*first);
                self.ghosts.remove(first);
                for (_, number) in self.segments.remove(first).unwrap_or_default() {
                    self.leave_segment(number, booking);
                }
            }
            Write::PutSegment(segment) if self.segments.contains_key(&segment.first) => self.rewrite(segment, booking),
            Write::QuarantineSegment { first, reason } => self.quarantine_segment(*first, reason, booking),
            Write::DeleteParked(seq) => {
                self.take_parked_back(*seq);
                if let Some((number, _)) = self.parked.remove(seq) {
                    let spot = self.spot(number);
                    booking.limbo.insert(number, spot);
                }
            }
            Write::DeleteScheduled { due, id } => match self.scheduled.remove(&(*due, id.as_str().to_owned())) {
                Some(number) => {
                    booking.limbo.insert(number, Spot::Scheduled(*due));
                }
                None => self.violation(booking.now, format!("scheduled message {id} was taken twice")),
            },
            Write::DeleteDoor(key) => match self.door.remove(key) {
                Some(numbers) => {
                    booking.limbo.extend(numbers.into_iter().map(|number| (number, Spot::Door(key.clone()))));
                }
                None => self.violation(booking.now, format!("doorstep row {key:?} was taken twice")),
            },
            Write::DeleteDead(seq) => match self.dead.remove(seq) {
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
        booking.rewritten.insert(segment.first);
        self.ghosts.remove(&segment.first);
        let old = self.segments.remove(&segment.first).unwrap_or_default();
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
        self.segments.insert(segment.first, new);
    }

    fn book_arriving(&mut self, write: &Write, before: &ShardRecord, booking: &mut Booking, stats: &mut Stats) {
        match write {
            Write::PutSegment(segment) if !booking.rewritten.contains(&segment.first) => {
                self.new_segment(segment, before, booking, stats);
            }
            Write::PutParked(parked) => self.park(parked, booking),
            Write::PutScheduled(scheduled) => self.schedule(scheduled, booking, stats),
            Write::PutDead(dead) if dead.code == MALFORMED => self.malformed_door(dead, booking, stats),
            Write::PutDead(dead) => self.die(dead, booking, stats),
            Write::PutHistory(chunk) => self.history(chunk, booking, stats),
            Write::PutId { record, .. } => {
                self.ids.insert((record.tenant.clone(), record.id.clone()), record.state.clone());
            }
            Write::DeleteId { tenant, id } => {
                self.ids.remove(&(tenant.clone(), id.clone()));
            }
            _ => {}
        }
    }

    /// A message enters: from the doorstep, from the schedule, or directly with this commit.
    fn enter(&mut self, message: &Message, booking: &mut Booking, stats: &mut Stats) -> usize {
        let number = number_of(message);
        let from = booking.limbo.remove(&number);
        let spot = self.spot(number);
        match from {
            Some(Spot::Door(_)) => {}
            Some(Spot::Scheduled(_)) => stats.joined += 1,
            None if spot == Spot::Nowhere => {
                if let Some(known) = self.known.get_mut(number) {
                    known.commit = Some(booking.now);
                    stats.committed += 1;
                }
            }
            other => {
                self.violation(booking.now, format!("msg {number} was sequenced again: it was {other:?} {spot:?}"))
            }
        }
        if let Some(known) = self.known.get_mut(number) {
            known.id = Some(message.id.clone());
        }
        self.holders.insert((message.tenant.clone(), message.id.clone()), number);
        number
    }

    fn new_segment(&mut self, segment: &Segment, before: &ShardRecord, booking: &mut Booking, stats: &mut Stats) {
        if segment.first <= before.last {
            self.violation(booking.now, format!("segment {} is not above the last seq {}", segment.first, before.last));
        }
        let mut entries = BTreeMap::new();
        for entry in &segment.entries {
            let number = self.enter(&entry.message, booking, stats);
            let place = segment.place(super::store::SHARD, entry);
            if let Some(known) = self.known.get_mut(number) {
                known.place = Some(place);
                known.spot = Spot::Segment(place);
            }
            entries.insert(entry.index, number);
            if place.seq() > self.record.last {
                self.violation(booking.now, format!("msg {number} lies above the last seq given out"));
            }
        }
        self.segments.insert(segment.first, entries);
    }

    fn park(&mut self, parked: &Parked, booking: &mut Booking) {
        let number = number_of(&parked.message);
        let seq = parked.place.seq();
        self.take_parked_back(seq);
        match booking.limbo.remove(&number) {
            Some(Spot::Segment(place)) if place == parked.place => {}
            Some(Spot::Dead(place)) if place == parked.place => {
                if let Some(known) = self.known.get_mut(number) {
                    known.end = None;
                    known.joins_late = true;
                    known.replays += 1;
                }
            }
            None if self.parked.get(&seq).is_some_and(|(other, _)| *other == number) => {}
            other => self.violation(
                booking.now,
                format!("msg {number} was parked out of {other:?}, it was {:?}", self.spot(number)),
            ),
        }
        self.parked.insert(seq, (number, parked.claimed));
        self.set_spot(number, Spot::Parked(parked.place));
    }

    fn schedule(&mut self, scheduled: &Scheduled, booking: &mut Booking, stats: &mut Stats) {
        let number = match booking.limbo.get(&number_of(&scheduled.message)) {
            Some(Spot::Scheduled(_)) => {
                let number = number_of(&scheduled.message);
                booking.limbo.remove(&number);
                number
            }
            _ => self.enter(&scheduled.message, booking, stats),
        };
        self.scheduled.insert((scheduled.due, scheduled.message.id.as_str().to_owned()), number);
        self.set_spot(number, Spot::Scheduled(scheduled.due));
    }

    fn die(&mut self, dead: &DeadLetter, booking: &mut Booking, stats: &mut Stats) {
        let number = number_of(&dead.message);
        self.held.remove(&number);
        if let (true, Some((tenant, key))) =
            (dead.holds_key, self.known.get(number).and_then(|known| Some((known.tenant.clone(), known.key?))))
        {
            self.held.insert(number, (dead.place.seq(), tenant, key));
        }
        if self.dead.get(&dead.place.seq()) == Some(&number) {
            return;
        }
        match booking.limbo.remove(&number) {
            Some(Spot::Segment(place) | Spot::Parked(place)) if place == dead.place => {}
            Some(Spot::Door(_)) if dead.code == "STORAGE.CONFLICT" => {
                stats.taken_ids += 1;
                booking.conflicts.insert(number);
            }
            other => self
                .violation(booking.now, format!("msg {number} died out of {other:?}, it was {:?}", self.spot(number))),
        }
        stats.dead += 1;
        if dead.code == "SUSPECTED_POISON" {
            stats.convicted += 1;
            if self.known.get(number).is_some_and(|known| !known.poison) {
                stats.innocent += 1;
                self.violation(booking.now, format!("msg {number} is healthy and was convicted"));
            }
        }
        stats.held_keys += u64::from(dead.holds_key);
        self.end(number, End::Dead, booking.now);
        self.dead.insert(dead.place.seq(), number);
        if let Some(known) = self.known.get_mut(number) {
            known.place = Some(dead.place);
            known.spot = Spot::Dead(dead.place);
        }
    }

    fn history(&mut self, chunk: &HistoryChunk, booking: &mut Booking, stats: &mut Stats) {
        for done in &chunk.entries {
            let number = number_of(&done.message);
            let place = Place { shard: chunk.shard, segment: chunk.segment, index: done.index };
            if booking.owed.remove(&number) {
                if done.end != DoneEnd::Delivered || self.known.get(number).and_then(|known| known.place) != Some(place)
                {
                    self.violation(
                        booking.now,
                        format!("msg {number} is in the history as {:?} at {place:?}", done.end),
                    );
                }
            } else {
                match booking.limbo.remove(&number) {
                    Some(Spot::Dead(_)) if done.end == DoneEnd::Purged => {
                        if let Some(known) = self.known.get_mut(number) {
                            known.end = None;
                        }
                    }
                    Some(Spot::Segment(from) | Spot::Parked(from)) if from == place => {}
                    Some(Spot::Scheduled(_)) if done.end == DoneEnd::Cancelled => {}
                    other => {
                        let spot = self.spot(number);
                        self.violation(
                            booking.now,
                            format!("msg {number} went to the history out of {other:?}, it was {spot:?}"),
                        );
                    }
                }
                self.end(number, End::Finished(done.end), booking.now);
            }
            stats.expired += u64::from(done.end == DoneEnd::Expired);
            if let Some(known) = self.known.get_mut(number) {
                known.in_history += 1;
                known.place = Some(place);
                known.spot = Spot::Done(place);
            }
        }
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
            let is_repeat = matches!(from, Spot::Door(_))
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
            let acked =
                self.segments.get(first).into_iter().flatten().any(|(_, n)| matches!(self.spot(*n), Spot::Acked(_)));
            if acked || self.ghosts.get(first).is_some_and(|ghosts| !ghosts.is_empty()) {
                self.violation(now, format!("segment {first} was given up and its done bits forgotten"));
            }
        }
    }
}
