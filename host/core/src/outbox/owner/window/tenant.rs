//! One tenant's part of the window: its directory, how far it was scanned, and what was skipped.

use std::collections::{BTreeMap, BTreeSet};

use super::super::HoldKey;
use super::directory::DirectoryEntry;
use super::load::LOAD_SEGMENTS;
use super::skipped::Resume;
use crate::ids::{KeyHash, Seq};

#[derive(Debug, Default)]
pub(super) struct TenantWindow {
    /// Its segments in the store, as far as the directory was read.
    pub directory: BTreeMap<Seq, DirectoryEntry>,
    /// Segments below were scanned.
    pub scan: Seq,
    /// A segment that was scanned up to this index and no further.
    pub partial: Option<(Seq, u16)>,
    /// Messages of it in memory that lie in segments.
    pub messages: usize,
    pub resume: BTreeMap<KeyHash, Resume>,
    /// Of those, such as may have nothing in memory any more: to be read again, in the order in which they lie. What no longer
    /// holds is found when its turn comes.
    pub resume_ready: BTreeSet<(Seq, KeyHash)>,
    /// Where the last read of skipped keys began: the next begins behind it, so that one key with much to do doesn't keep
    /// the others waiting.
    pub resume_turn: Seq,
    /// Keyless messages of held destinations, skipped from this seq on; and whether they may be read again.
    pub scopes: BTreeMap<HoldKey, (Seq, bool)>,
    /// Messages may be in memory that can't be sent for now and would make room for others.
    pub may_free: bool,
    /// The last read was for a skipped key, so the next one goes on with the scan.
    pub key_was_read: bool,
}

impl TenantWindow {
    pub fn is_empty(&self) -> bool {
        self.directory.is_empty() && self.messages == 0 && self.resume.is_empty() && self.scopes.is_empty()
    }
    pub fn next_unscanned(&self) -> Option<Seq> {
        self.directory.range(self.scan..).next().map(|(first, _)| *first)
    }
    /// Whether every known segment was scanned.
    pub fn caught_up(&self) -> bool {
        self.next_unscanned().is_none()
    }
    /// Segments below have been scanned, at least in part.
    fn read_until(&self) -> Seq {
        self.partial.map_or(self.scan, |(first, _)| self.scan.max(first.next()))
    }
    /// Whether a segment lies from this place on that was scanned, at least in part.
    pub fn has_read_beyond(&self, place: Seq) -> bool {
        self.directory.range(place..self.read_until().max(place)).next().is_some()
    }
    /// Whether something of it is to be read.
    pub fn wants(&self) -> bool {
        !self.resume_ready.is_empty() || self.scopes.values().any(|(_, ready)| *ready) || !self.caught_up()
    }
    /// The first seq of the segment that holds a place.
    pub fn segment_of(&self, place: Seq) -> Seq {
        self.directory.range(..=place).next_back().map_or(place, |(first, _)| *first)
    }
    /// The segments that may hold messages from `from` on, up to the scan, until they hold `enough` messages.
    pub fn segments_from(&self, from: Seq, enough: usize) -> Vec<Seq> {
        let start = self.segment_of(from);
        let mut messages = 0;
        let known = self.directory.range(start..self.read_until().max(start)).take(LOAD_SEGMENTS);
        let wanted = known.take_while(|(_, entry)| {
            let wanted = messages < enough;
            messages += entry.left();
            wanted
        });
        wanted.map(|(first, _)| *first).collect()
    }
    /// The next segments to scan, until they hold `enough` messages.
    pub fn unscanned(&self, enough: usize) -> Vec<Seq> {
        let mut expected = 0;
        let unscanned = self.directory.range(self.scan..).take(LOAD_SEGMENTS);
        let wanted = unscanned.take_while(|(_, entry)| {
            let wanted = expected < enough;
            expected += entry.left();
            wanted
        });
        wanted.map(|(first, _)| *first).collect()
    }
}
