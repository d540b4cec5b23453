//! Rows that can't be read: a bad disk spoils segments, doorstep rows and parked rows.
//!
//! Nobody else is stopped, and nothing is lost without a trace: a segment goes to quarantine in its owner's commit, a parked
//! row with the read that meets it, and a doorstep row becomes a dead letter. What an owner has in memory goes on from there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use waybill_core::ids::{ShardId, Tenant};
use waybill_core::outbox::records::{DeadLetter, Parked};
use waybill_core::port::store::{SegmentInfo, StoredSegment};
use waybill_core::tx_event::TxEventKind;

use super::known::{End, Known, Spot};
use super::ledger::{At, Booking, Ledger, at};
use super::stats::Stats;
use super::store::{ModelStore, Spoilt};
use super::world::World;

/// A row is spoilt once in so many steps.
const SPOILT_EVERY: u64 = 120;
/// The code of a dead letter that stands for a doorstep row.
pub(super) const MALFORMED: &str = "OUTBOX.MALFORMED";

/// Rows that can't be read, and those that were set aside.
#[derive(Debug, Default)]
pub(super) struct Damage {
    /// Segments that were spoilt at some time.
    segments: BTreeSet<At>,
    aside: BTreeSet<At>,
    /// Parked messages that were set aside: each with whether it was claimed.
    pub parked: BTreeMap<At, (usize, bool)>,
}

impl<S: ModelStore> World<S> {
    /// The disk may spoil a row.
    pub(super) fn spoil(&mut self) {
        if !self.setup.spoils || self.calm || !self.spoils.one_in(SPOILT_EVERY) {
            return;
        }
        let spoilt = match self.spoils.below(3) {
            0 => self.spoil_segment(),
            1 => self.spoil_door(),
            _ => self.spoil_parked(),
        };
        if let Some(what) = spoilt {
            self.stats.spoilt += 1;
            self.note(|_| format!("{what} is spoilt"));
        }
    }

    fn spoil_segment(&mut self) -> Option<String> {
        let firsts: Vec<At> = self.ledger.segments.keys().copied().collect();
        let first = *self.spoils.pick(&firsts)?;
        self.store.spoil(&Spoilt::Segment(first.0, first.1)).then(|| {
            self.ledger.damage.segments.insert(first);
            format!("segment {first:?}")
        })
    }

    fn spoil_door(&mut self) -> Option<String> {
        let keys: Vec<_> = self.ledger.door.keys().cloned().collect();
        let (shard, key) = self.spoils.pick(&keys)?.clone();
        let row = Spoilt::Door(shard, key);
        self.store.spoil(&row).then(|| format!("{row:?}"))
    }

    fn spoil_parked(&mut self) -> Option<String> {
        let seqs: Vec<At> = self.ledger.parked.keys().copied().collect();
        let seq = *self.spoils.pick(&seqs)?;
        self.store.spoil_parked(seq);
        Some(format!("parked row {seq:?}"))
    }

    /// Parked rows, as far as they can be read; the others are set aside with this.
    pub(super) fn read_parked(&mut self, shard: ShardId) -> Vec<Arc<Parked>> {
        let parked = self.store.parked(shard);
        for seq in self.store.take_moved() {
            self.note(|_| format!("parked row {seq:?} is set aside"));
            self.ledger.set_parked_aside(seq, self.now, &mut self.stats);
        }
        parked
    }

    /// An owner has read segments: what it couldn't read holds up nobody from now on.
    pub(super) fn note_unreadable(&mut self, shard: ShardId, page: &[StoredSegment]) {
        for stored in page.iter().filter(|stored| stored.segment.is_err()) {
            self.ledger.pass_over((shard, stored.first));
        }
    }

    /// An owner has read what segments there are. Where the store can't even say whose one is, nobody of its tenant waits for it.
    pub(super) fn note_nameless(&mut self, shard: ShardId, page: &[SegmentInfo]) {
        for info in page.iter().filter(|info| info.tenant == Tenant::unnamed()) {
            self.ledger.pass_over((shard, info.first));
        }
    }

    /// Quarantine has what went there, and nothing else.
    pub(super) fn audit_quarantine(&mut self) {
        let stored = self.store.quarantined();
        if stored != self.ledger.damage.aside {
            let text = format!("segments {stored:?} are in quarantine, the ledger has {:?}", self.ledger.damage.aside);
            self.violation(text);
        }
    }
}

impl Ledger {
    /// The messages of a segment hold up nobody any more.
    fn pass_over(&mut self, first: At) {
        for (_, number) in self.segments.get(&first).into_iter().flatten() {
            if let Some(known) = self.known.get_mut(*number) {
                known.unreadable = true;
            }
        }
    }

    /// Whether a message that lay at this place was set aside.
    pub fn is_aside(&self, seq: At) -> bool {
        let lay_there = |known: &Known| known.spot == Spot::Quarantined && known.place.map(at) == Some(seq);
        self.damage.parked.contains_key(&seq) || self.known.iter().any(lay_there)
    }

    /// A commit moves a segment to quarantine, with all that isn't gone from it.
    pub(super) fn quarantine_segment(&mut self, first: At, reason: &str, booking: &mut Booking) {
        if !self.damage.segments.contains(&first) {
            self.violation(booking.now, format!("segment {first:?} can be read and went to quarantine: {reason}"));
        }
        self.ghosts.remove(&first);
        let Some(entries) = self.segments.remove(&first) else { return };
        self.damage.aside.insert(first);
        for (_, number) in entries {
            // What was delivered has come to its end.
            if !matches!(self.spot(number), Spot::Acked(_)) {
                self.end(number, End::Quarantined, booking.now);
            }
            self.set_spot(number, Spot::Quarantined);
            booking.quarantined += 1;
        }
    }

    /// A dead letter stands for a doorstep row that can't be read.
    pub(super) fn malformed_door(&mut self, dead: &DeadLetter, booking: &mut Booking, stats: &mut Stats) {
        let row = dead.message.headers.iter().find(|(name, _)| name == "door-row").map(|(_, row)| row.as_str());
        let lay_there = |from: &Spot| match from {
            Spot::Door(_, key) => row == Some(format!("{}-{}-{}", key.nanos, key.ordinal, key.ulid).as_str()),
            _ => false,
        };
        let numbers: Vec<usize> =
            booking.limbo.iter().filter(|(_, from)| lay_there(from)).map(|(number, _)| *number).collect();
        if numbers.is_empty() {
            self.violation(booking.now, format!("a dead letter stands for a doorstep row that isn't there: {row:?}"));
        }
        for number in numbers {
            booking.limbo.remove(&number);
            self.end(number, End::Quarantined, booking.now);
            self.set_spot(number, Spot::Quarantined);
        }
        booking.events.owe(TxEventKind::Dead, &dead.message);
        // It says nothing of any message that the model knows.
        self.dead.insert(at(dead.place), usize::MAX);
        stats.malformed += 1;
    }

    /// A read has met a parked row that can't be read.
    pub(super) fn set_parked_aside(&mut self, seq: At, now: u64, stats: &mut Stats) {
        let Some((number, claimed)) = self.parked.remove(&seq) else {
            return self.violation(now, format!("parked row {seq:?} was set aside, and there is none"));
        };
        self.damage.parked.insert(seq, (number, claimed));
        self.end(number, End::Quarantined, now);
        stats.quarantined += 1;
    }

    /// An owner writes over a parked row that a rival's read has set aside: it has the message in memory.
    pub(super) fn take_parked_back(&mut self, seq: At) {
        let Some((number, claimed)) = self.damage.parked.remove(&seq) else { return };
        self.parked.insert(seq, (number, claimed));
        if let Some(known) = self.known.get_mut(number) {
            known.end = None;
        }
    }
}
