//! A reader of many streams: a scan by name, then the feeds of all shards, then live. Its cursor is a token.
//!
//! ```text
//! ends of all feeds, first ─▶ scan by name, of each stream what they name ─▶ feeds ─▶ join the ring ─▶ feeds once more ─▶ live
//! a feed was trimmed: the ends again ─▶ scan again for what came between
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::chunk::StoredEvent;
use super::super::name::{StreamKey, StreamName};
use super::super::records::StreamRest;
use super::super::rules::{Rule, Rules};
use super::positions::Positions;
use super::ring::{Looked, Ring, kept_events};
use super::scan::{Between, ScanStop, Scanned, scan};
use super::token::{Place, ScanAt, Token};
use super::wants::{FeedWants, Followed, Restart, next_record};
use super::{Read, Selector};
use crate::ids::{ShardId, Tenant};
use crate::port::stream_store::{FeedSlice, ScanFrom, ScanQuery, StreamSlice};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Replay,
    Catch,
    Live,
}

#[derive(Clone, Debug)]
enum Pending {
    Event(Read, Place),
    Place(Place),
    /// The feed has named what the client had of this stream before.
    Named(StreamName),
}

#[derive(Clone, Debug)]
pub struct FeedReader {
    tenant: Tenant,
    selector: Selector,
    incarnation: u64,
    shards: u16,
    /// Behind the last event that was handed on.
    place: Option<Place>,
    /// What the client had when it began.
    positions: Positions,
    pending: VecDeque<Pending>,
    phase: Phase,
    /// Ends of the feeds, as far as it reads before it goes on to the next phase.
    ends: Option<Vec<u64>>,
    /// Where it goes on to scan again.
    again: Option<Vec<u64>>,
    /// A mutation of the model: the ends are taken behind the scan.
    takes_ends_late: bool,
    /// Its place in the ring.
    ring_place: u64,
    /// A feed record that the ring doesn't have all of.
    fills: Option<(ShardId, u64)>,
    /// Events of it that a record names are gone, and it isn't known whether any were wanted.
    asks: Option<StreamKey>,
    /// Streams of the record that never had a wanted event.
    others: BTreeSet<StreamKey>,
    scan_bytes: usize,
    rules: Rules,
}

/// Place of a part in a feed record, its stream, the last number that it names, and its events or why the reader begins anew.
type PartRead<'a> = (usize, &'a StreamKey, u64, Result<Vec<StoredEvent>, Restart>);

impl FeedReader {
    /// One that begins with the earliest events that are kept.
    pub fn from_earliest(tenant: Tenant, selector: Selector, incarnation: u64, shards: u16, rules: Rules) -> Self {
        Self {
            tenant,
            selector,
            incarnation,
            shards,
            place: None,
            positions: Positions::default(),
            pending: VecDeque::new(),
            phase: Phase::Replay,
            ends: None,
            again: None,
            takes_ends_late: false,
            ring_place: 0,
            fills: None,
            asks: None,
            others: BTreeSet::new(),
            scan_bytes: super::super::limits::REPLAY_BYTES_MAX,
            rules,
        }
    }

    /// The same, but of streams that are here it has everything up to these numbers.
    #[must_use]
    pub fn with_positions(self, had: BTreeMap<StreamName, u64>) -> Self {
        Self { positions: Positions::new(had), ..self }
    }

    /// One that goes on where this one is: what it has read and nobody took is read again.
    #[must_use]
    pub fn again(&self) -> Self {
        let (tenant, selector) = (self.tenant.clone(), self.selector.clone());
        let (place, positions, scan_bytes) = (self.place.clone(), self.positions.clone(), self.scan_bytes);
        let begun = Self::from_earliest(tenant, selector, self.incarnation, self.shards, self.rules);
        Self { place, positions, scan_bytes, ..begun }
    }

    /// One that goes on behind a token, which was parsed for this tenant, selector and store.
    pub fn resume(tenant: Tenant, selector: Selector, token: &Token, shards: u16, rules: Rules) -> Self {
        let place = Some(token.place.clone());
        Self { place, ..Self::from_earliest(tenant, selector, token.incarnation, shards, rules) }
    }

    /// Bytes of chunks that it reads at once while it scans.
    #[must_use]
    pub fn with_scan_bytes(self, scan_bytes: usize) -> Self {
        Self { scan_bytes, ..self }
    }

    /// The cursor behind the last event that was handed on; none before it knows where it begins, and, where it began with numbers of
    /// streams, as long as it goes by them: its client goes on by these.
    pub fn token(&self) -> Option<Token> {
        let scope = Token::scope(&self.tenant, &self.selector);
        let place = self.place.clone().filter(|place| self.positions.are_past(place))?;
        Some(Token { scope, incarnation: self.incarnation, place })
    }

    pub fn is_live(&self) -> bool {
        self.phase == Phase::Live
    }

    /// It is live, and has had all that was published and these feeds.
    pub fn is_idle(&self, ring: &Ring, ends: &[u64]) -> bool {
        let has_all = matches!(&self.place, Some(Place::Feed { pos, part: None }) if pos == ends);
        self.is_live() && self.pending.is_empty() && self.ring_place == ring.next() && has_all
    }

    /// The next event, if one is there. The token is behind it from then on.
    #[expect(
        clippy::should_implement_trait,
        reason = "nothing now isn't the end: it is asked again behind the next look"
    )]
    pub fn next(&mut self) -> Option<Read> {
        while let Some(pending) = self.pending.pop_front() {
            match pending {
                Pending::Place(place) => self.place = Some(place),
                Pending::Named(stream) => self.positions.named(&stream),
                Pending::Event(read, place) => {
                    self.place = Some(place);
                    return Some(read);
                }
            }
        }
        None
    }

    /// What it needs. Where it has read up to the ends that it knew, it goes on to the next phase.
    pub fn wants(&mut self, ring: &Ring) -> FeedWants {
        if self.pending.iter().any(|pending| matches!(pending, Pending::Event(..))) {
            return FeedWants::Nothing;
        }
        // What is left changes its place only.
        self.next();
        if self.again.is_some() || self.takes_ends_late {
            return FeedWants::Ends;
        }
        if let Some(stream) = &self.asks {
            return FeedWants::Selected(stream.clone(), self.selector.clone());
        }
        if let Some((shard, pos)) = self.fills {
            return FeedWants::Feed(shard, pos);
        }
        match (&self.place, self.phase) {
            (None, _) => FeedWants::Ends,
            (Some(Place::Scan { low, at, .. }), _) => FeedWants::Scan(self.scan_query(low, at)),
            (Some(Place::Feed { .. }), Phase::Live) => FeedWants::Live,
            (Some(Place::Feed { pos, part }), _) => {
                let Some(ends) = &self.ends else { return FeedWants::Ends };
                if let Some((shard, next)) = next_record(pos, ends, part.map(|part| part.0)) {
                    return FeedWants::Feed(shard, next);
                }
                self.ends = None;
                match self.phase {
                    Phase::Replay => {
                        self.ring_place = ring.next();
                        let joins_first = self.rules.kept(Rule::JoinBeforeLastLook);
                        self.phase = if joins_first { Phase::Catch } else { Phase::Live };
                    }
                    _ => self.phase = Phase::Live,
                }
                self.wants(ring)
            }
        }
    }

    fn scan_query(&self, low: &[u64], at: &ScanAt) -> ScanQuery {
        let from = self.positions.resumes_from().unwrap_or_else(|| match at {
            ScanAt::Behind(name) => ScanFrom::Behind(name.clone()),
            ScanAt::Within { stream, seq, .. } => ScanFrom::Within(stream.clone(), *seq),
        });
        // What is found next may be a stream that is looked at from elsewhere.
        let is_glance = matches!(from, ScanFrom::Behind(_)) && !self.positions.are_scanned(at);
        let from_end = self.rules.kept(Rule::AgainFromEnd);
        ScanQuery {
            tenant: self.tenant.clone(),
            selector: self.selector.clone(),
            from,
            since: if from_end { low.to_vec() } else { Vec::new() },
            bytes_max: if is_glance { 1 } else { self.scan_bytes },
        }
    }

    /// Takes the ends of the feeds: where a scan begins, or how far to read before it is live.
    pub fn take_ends(&mut self, ends: Vec<u64>) {
        if let Some(low) = self.again.take() {
            self.place = Some(Place::Scan { low, feed: ends, at: ScanAt::Behind(None) });
        } else if self.place.is_none() {
            self.place = Some(Place::Scan { low: Vec::new(), feed: ends, at: ScanAt::Behind(None) });
        } else if std::mem::take(&mut self.takes_ends_late) {
            self.place = Some(Place::Feed { pos: ends, part: None });
        } else {
            self.ends = Some(ends);
        }
    }

    /// Takes the next stream of a scan; none = there is no other.
    pub fn take_scan(&mut self, found: Option<(StreamName, StreamSlice)>) -> Followed {
        let Some(Place::Scan { low, feed, at }) = &self.place else { return Ok(()) };
        let Some((name, slice)) = found else {
            self.place = Some(Place::Feed { pos: feed.clone(), part: None });
            self.positions.scanned();
            self.takes_ends_late = !self.rules.kept(Rule::FeedBeforeScan);
            return Ok(());
        };
        if self.positions.meets(at, &name) {
            return Ok(());
        }
        let stream = StreamKey { tenant: self.tenant.clone(), name };
        let shard = usize::from(stream.shard(self.shards).0);
        let between = Between { low: low.get(shard).copied(), feed: feed.get(shard).copied().unwrap_or(0) };
        let start = self.positions.begin(&slice, between.feed);
        let at = start.as_ref().unwrap_or(at);
        let scanned = scan(at, &stream.name, &slice, between, self.rules).map_err(|stop| match stop {
            ScanStop::Expired => Restart::Expired,
            ScanStop::Unreadable(reason) => Restart::Unreadable(reason),
        })?;
        for scanned in scanned {
            let place = |at| Place::Scan { low: low.clone(), feed: feed.clone(), at };
            self.pending.push_back(match scanned {
                Scanned::Event(event, at) if self.selector.takes(&event) => {
                    Pending::Event(Read { stream: stream.clone(), event }, place(at))
                }
                Scanned::Event(_, at) | Scanned::At(at) => Pending::Place(place(at)),
            });
        }
        Ok(())
    }

    /// Takes the feed record that it wanted; none = it was trimmed.
    pub fn take_feed(&mut self, found: Option<FeedSlice>) -> Followed {
        let wanted = self.fills.take();
        let Some(Place::Feed { pos, part }) = &self.place else { return Ok(()) };
        let Some(slice) = found else {
            if !self.positions.is_empty() {
                // Its client knows better where it was than what is left here tells.
                return Err(Restart::Lagged);
            }
            if part.is_some() {
                // Which part of the record it had can't be told from what is left.
                return Err(Restart::Expired);
            }
            (self.again, self.ends, self.phase) = (Some(pos.clone()), None, Phase::Replay);
            self.others.clear();
            return Ok(());
        };
        let ends = self.ends.as_deref().unwrap_or_default();
        let shard = match wanted.or_else(|| next_record(pos, ends, part.map(|part| part.0))) {
            Some((shard, number)) if number == slice.record.pos => shard,
            _ => return Ok(()),
        };
        let parts = slice.record.parts.iter().zip(&slice.parts).enumerate();
        let parts = parts.map(|(place, (part, (rest, chunks)))| {
            let is_whole = self.whole(rest, part.from);
            let events = if is_whole {
                kept_events(chunks, part.from, part.to, self.rules).map_err(Restart::Unreadable)
            } else {
                Err(Restart::Expired)
            };
            (place, &part.stream, part.to, events)
        });
        let parts: Vec<_> = parts.collect();
        let followed = self.take_record(shard, slice.record.pos, parts);
        if self.asks.is_some() {
            self.fills = wanted;
        }
        followed
    }

    /// Takes what it asked of a stream of which events are gone. One that never had a wanted event says nothing; the record is read again.
    pub fn take_selected(&mut self, is_selected: bool) -> Followed {
        match self.asks.take() {
            Some(_) if is_selected && self.rules.kept(Rule::AskIfSelected) => Err(Restart::Expired),
            stream => {
                self.others.extend(stream);
                Ok(())
            }
        }
    }

    /// Whether what a record names is still there, as far as retention and dropped tombstones go.
    fn whole(&self, rest: &StreamRest, from: u64) -> bool {
        let is_trimmed = rest.first > from && self.rules.kept(Rule::CompareCoverage);
        let is_purged = rest.purged >= from && self.rules.kept(Rule::ComparePurged);
        !is_trimmed && !is_purged
    }

    /// Takes the next entry of the ring.
    pub fn take_live(&mut self, ring: &Ring) -> Followed {
        let Some(Place::Feed { pos, .. }) = &self.place else { return Ok(()) };
        let entry = match ring.at(self.ring_place) {
            Looked::Lagged => return Err(Restart::Lagged),
            Looked::Nothing => return Ok(()),
            Looked::Entry(entry) => entry,
        };
        let had = pos.get(usize::from(entry.shard.0)).copied().unwrap_or(0);
        let lacks_events = entry.parts.iter().any(|(_, part)| part.events.is_none());
        if entry.pos <= had {
            self.ring_place += 1;
        } else if entry.pos > had + 1 || lacks_events {
            self.fills = Some((entry.shard, had + 1));
        } else {
            self.ring_place += 1;
            let parts = entry.parts.iter();
            let parts =
                parts.map(|(place, part)| (*place, &part.stream, part.to, part.events.clone().ok_or(Restart::Expired)));
            let parts: Vec<_> = parts.collect();
            return self.take_record(entry.shard, entry.pos, parts);
        }
        Ok(())
    }

    fn take_record(&mut self, shard: ShardId, number: u64, parts: Vec<PartRead<'_>>) -> Followed {
        let Some(Place::Feed { pos, part: had }) = &self.place else { return Ok(()) };
        let had = had.filter(|had| had.0 == shard.0);
        let (mut pending, mut named) = (Vec::new(), Vec::new());
        for (place, stream, to, events) in parts {
            let place = place as u64;
            let wanted = stream.tenant == self.tenant && self.selector.may_take(&stream.name);
            if !wanted || had.is_some_and(|had| place < had.1) {
                continue;
            }
            if self.positions.end_by(&stream.name, to) {
                named.push(Pending::Named(stream.name.clone()));
            }
            if self.positions.has(&stream.name, to) {
                continue;
            }
            let events = match events {
                // Selectors by node and type are about few of the streams whose names may be taken.
                Err(Restart::Expired) if !matches!(self.selector, Selector::Prefix(_)) => {
                    if !self.others.contains(stream) {
                        self.asks = Some(stream.clone());
                        return Ok(());
                    }
                    Vec::new()
                }
                events => events?,
            };
            for event in events {
                let had_it = had.is_some_and(|had| place == had.1 && event.seq <= had.2)
                    || self.positions.has(&stream.name, event.seq);
                if !had_it && self.selector.takes(&event) {
                    let behind = Place::Feed { pos: pos.clone(), part: Some((shard.0, place, event.seq)) };
                    pending.push(Pending::Event(Read { stream: stream.clone(), event }, behind));
                }
            }
        }
        let mut pos = pos.clone();
        if let Some(slot) = pos.get_mut(usize::from(shard.0)) {
            *slot = number;
        }
        pending.push(Pending::Place(Place::Feed { pos, part: None }));
        pending.append(&mut named);
        self.pending.extend(pending);
        self.others.clear();
        Ok(())
    }

    /// The look of every second: whether it lacks something that the ring doesn't know of.
    pub fn look_again(&mut self) {
        if self.is_live() && self.fills.is_none() {
            (self.phase, self.ends) = (Phase::Catch, None);
        }
    }
}
