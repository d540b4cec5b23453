//! What a commit puts somewhere, booked: segments, parked rows, the schedule, dead letters, history, other shards' doorsteps.

use std::collections::BTreeMap;
use std::sync::Arc;

use waybill_core::ids::{Place, ShardId};
use waybill_core::message::Message;
use waybill_core::outbox::records::{DeadLetter, DoneEnd, DoorKey, HistoryChunk, Parked, Scheduled, Segment};
use waybill_core::port::store::Write;
use waybill_core::tx_event::TxEventKind;

use super::known::{End, Spot};
use super::ledger::{Booking, Ledger, at, number_of};
use super::stats::Stats;
use super::unreadable::MALFORMED;

impl Ledger {
    pub(super) fn book_arriving(&mut self, write: &Write, booking: &mut Booking, stats: &mut Stats) {
        match write {
            Write::PutSegment(segment) if !booking.rewritten.contains(&segment.first) => {
                self.new_segment(segment, booking, stats);
            }
            Write::PutParked(parked) => self.park(parked, booking),
            Write::PutScheduled(scheduled) => self.schedule(scheduled, booking, stats),
            Write::PutDead(dead) if dead.code == MALFORMED => self.malformed_door(dead, booking, stats),
            Write::PutDead(dead) => self.die(dead, booking, stats),
            Write::PutHistory(chunk) => self.history(chunk, booking, stats),
            Write::PutTxEvents(record) => booking.events.written(record),
            Write::ForwardDoor { shard, key, messages } => self.carry(*shard, key, messages, booking, stats),
            _ => {}
        }
    }

    /// A message enters: from the doorstep, from the schedule, or directly with this commit.
    fn enter(&mut self, message: &Message, booking: &mut Booking, stats: &mut Stats) -> usize {
        let number = number_of(message);
        let from = booking.limbo.remove(&number);
        let spot = self.spot(number);
        if !matches!(from, Some(Spot::Scheduled(..))) {
            booking.events.owe(TxEventKind::Begin, message);
        }
        self.attempts.remove(&number);
        match from {
            Some(Spot::Door(..)) => {}
            Some(Spot::Scheduled(..)) => stats.joined += 1,
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
        self.check_home(number, booking);
        number
    }

    /// All messages of a key are in the order of one shard, for ever: nothing else orders them.
    fn check_home(&mut self, number: usize, booking: &Booking) {
        let Some(known) = self.known.get(number) else { return };
        let Some(key) = known.key else { return };
        let home = *self.homes.entry((known.tenant.clone(), key)).or_insert(booking.shard);
        if home != booking.shard {
            let shard = booking.shard;
            self.violation(
                booking.now,
                format!("msg {number} is in the order of shard {shard}, others of its key {key} are in that of {home}"),
            );
        }
    }

    /// An owner carries what lies on the wrong doorstep to another one.
    fn carry(
        &mut self,
        to: ShardId,
        key: &DoorKey,
        messages: &[Arc<Message>],
        booking: &mut Booking,
        stats: &mut Stats,
    ) {
        let numbers: Vec<usize> = messages.iter().map(|message| number_of(message)).collect();
        for number in &numbers {
            match booking.limbo.remove(number) {
                Some(Spot::Door(from, _)) if from != to => {}
                other => {
                    self.violation(booking.now, format!("msg {number} was carried to shard {to} out of {other:?}"))
                }
            }
            self.set_spot(*number, Spot::Door(to, key.clone()));
        }
        stats.carried += numbers.len() as u64;
        if self.door.insert((to, key.clone()), numbers).is_some() {
            self.violation(booking.now, format!("what lay on the doorstep of shard {to} as {key:?} was written over"));
        }
    }

    fn new_segment(&mut self, segment: &Segment, booking: &mut Booking, stats: &mut Stats) {
        let (before, last) = booking.last;
        if segment.first <= before {
            self.violation(booking.now, format!("segment {} is not above the last seq {before}", segment.first));
        }
        let mut entries = BTreeMap::new();
        for entry in &segment.entries {
            let number = self.enter(&entry.message, booking, stats);
            let place = segment.place(booking.shard, entry);
            if let Some(known) = self.known.get_mut(number) {
                known.place = Some(place);
                known.spot = Spot::Segment(place);
            }
            entries.insert(entry.index, number);
            if place.seq() > last {
                self.violation(booking.now, format!("msg {number} lies above the last seq given out"));
            }
        }
        self.segments.insert((booking.shard, segment.first), entries);
    }

    fn park(&mut self, parked: &Parked, booking: &mut Booking) {
        let number = number_of(&parked.message);
        let seq = at(parked.place);
        self.take_parked_back(seq);
        match booking.limbo.remove(&number) {
            Some(Spot::Segment(place)) if place == parked.place => {}
            Some(Spot::Dead(place)) if place == parked.place => {
                booking.events.owe(TxEventKind::Replay, &parked.message);
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
        if self.attempts.insert(number, parked.attempts).unwrap_or(0) < parked.attempts {
            booking.events.owe(TxEventKind::Retry, &parked.message);
        }
        self.parked.insert(seq, (number, parked.claimed));
        self.set_spot(number, Spot::Parked(parked.place));
    }

    fn schedule(&mut self, scheduled: &Scheduled, booking: &mut Booking, stats: &mut Stats) {
        let number = match booking.limbo.get(&number_of(&scheduled.message)) {
            Some(Spot::Scheduled(..)) => {
                let number = number_of(&scheduled.message);
                booking.limbo.remove(&number);
                number
            }
            _ => self.enter(&scheduled.message, booking, stats),
        };
        let shard = booking.shard;
        self.scheduled.insert((shard, scheduled.due, scheduled.message.id.as_str().to_owned()), number);
        self.set_spot(number, Spot::Scheduled(shard, scheduled.due));
    }

    fn die(&mut self, dead: &DeadLetter, booking: &mut Booking, stats: &mut Stats) {
        let number = number_of(&dead.message);
        self.held.remove(&number);
        if let (true, Some((tenant, key))) =
            (dead.holds_key, self.known.get(number).and_then(|known| Some((known.tenant.clone(), known.key?))))
        {
            self.held.insert(number, (at(dead.place), tenant, key));
        }
        if self.dead.get(&at(dead.place)) == Some(&number) {
            return;
        }
        booking.events.owe(TxEventKind::Dead, &dead.message);
        match booking.limbo.remove(&number) {
            Some(Spot::Segment(place) | Spot::Parked(place)) if place == dead.place => {}
            Some(Spot::Door(..)) if dead.code == "STORAGE.CONFLICT" => {
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
        self.dead.insert(at(dead.place), number);
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
                    Some(Spot::Dead(..)) if done.end == DoneEnd::Purged => {
                        if let Some(known) = self.known.get_mut(number) {
                            known.end = None;
                        }
                    }
                    Some(Spot::Segment(from) | Spot::Parked(from)) if from == place => {}
                    Some(Spot::Scheduled(..)) if done.end == DoneEnd::Cancelled => {}
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
}
