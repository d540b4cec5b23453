//! Readers of all streams, or of the events of a node. A client keeps the token of the last event that it had, or the number of the last one
//! of each stream.

use std::collections::BTreeMap;

use waybill_core::ids::Tenant;
use waybill_core::streams::reading::{FeedReader, FeedWants, Followed, Place, Restart, Selector, Token};

use super::events::{EventSeen, Folded, fold, node_name};
use super::setup::{SHARDS, STREAMS};
use super::world::World;

/// The store's incarnation: nobody restores it here.
const INCARNATION: u64 = 7;

#[derive(Debug)]
pub(super) struct Many {
    /// The node of whose events it takes all; none = it takes those of all streams.
    pub node: Option<u8>,
    pub host: usize,
    /// None = it isn't connected.
    pub reader: Option<FeedReader>,
    /// What the client keeps beside its numbers: the text of a token.
    token: Option<String>,
    /// It begins with nothing.
    is_new: bool,
    pub had: [Option<u64>; STREAMS],
    pub state: [Folded; STREAMS],
    /// Until when it does nothing.
    stalled_until: u64,
}

impl Many {
    pub fn new(node: Option<u8>, stalled_until: u64) -> Self {
        let (had, state) = ([None; STREAMS], Default::default());
        Self { node, host: 0, reader: None, token: None, is_new: true, had, state, stalled_until }
    }

    fn selector(&self) -> Selector {
        self.node.map_or_else(|| Selector::Prefix("s".into()), |node| Selector::Node(node_name(node)))
    }
}

impl World {
    pub(super) fn has_all(&self, many: &Many) -> bool {
        let ring = &self.hosts[many.host].all;
        many.reader.as_ref().is_some_and(|reader| reader.is_idle(ring, &self.ends()))
    }

    /// One act of a reader.
    pub(super) fn many(&mut self, number: usize) {
        let now = self.now;
        if self.many[number].stalled_until > now {
            return;
        }
        if !self.calm {
            if self.rng.percent(2) {
                self.many[number].reader = None;
            } else if self.rng.percent(5) {
                self.many[number].stalled_until = now + self.rng.below(120);
                return;
            }
        }
        let Some(mut reader) = self.many[number].reader.take() else { return self.connect_many(number) };
        while let Some(read) = reader.next() {
            let stream = self.setup.number(&read.stream);
            self.hand_many(number, stream, &EventSeen::of(&read.event), &reader);
            if !self.calm && self.rng.percent(3) {
                return;
            }
        }
        match self.take_from_ring(number, &mut reader) {
            Ok(()) => self.many[number].reader = Some(reader),
            Err(Restart::Lagged) => self.ledger.stats.lagged += 1,
            Err(Restart::Expired) => {
                self.ledger.stats.expired += 1;
                let many = &mut self.many[number];
                (many.token, many.is_new) = (None, true);
            }
            Err(Restart::Unreadable(reason)) => self.ledger.violation(format!("PHANTOM B{number}: {reason}")),
        }
    }

    fn take_from_ring(&mut self, number: usize, reader: &mut FeedReader) -> Followed {
        let host = self.many[number].host;
        match reader.wants(&self.hosts[host].all) {
            FeedWants::Nothing => Ok(()),
            FeedWants::Ends => {
                let is_again = matches!(reader.token().map(|token| token.place), Some(Place::Feed { .. }));
                reader.take_ends(self.ends());
                let scans = matches!(reader.token().map(|token| token.place), Some(Place::Scan { .. }));
                self.ledger.stats.rescans += u64::from(is_again && scans);
                Ok(())
            }
            FeedWants::Scan(query) => {
                let found = self.store.read(|tables| tables.streams.scan(&query));
                reader.take_scan(found)
            }
            FeedWants::Feed(shard, pos) => {
                let found = self.store.read(|tables| tables.streams.feed_slice(shard, pos));
                reader.take_feed(found)
            }
            FeedWants::Selected(stream, selector) => {
                reader.take_selected(self.store.read(|tables| tables.streams.is_selected(&stream, &selector)))
            }
            FeedWants::Live => {
                if reader.is_idle(&self.hosts[host].all, &self.ends()) {
                    if self.rng.percent(20) {
                        reader.look_again();
                    }
                    return Ok(());
                }
                if self.rng.percent(10) {
                    reader.look_again();
                }
                reader.take_live(&self.hosts[host].all)
            }
        }
    }

    fn connect_many(&mut self, number: usize) {
        let host = self.rng.index(self.hosts.len());
        if !self.hosts[host].up {
            return;
        }
        let (tenant, rules) = (Tenant::unnamed(), self.setup.rules);
        let (selector, is_of_node) = (self.many[number].selector(), self.many[number].node.is_some());
        // Now and then a client that has a token goes by its numbers all the same. Of a node's events it can't.
        let token = self.many[number].token.clone().filter(|_| is_of_node || !self.now.is_multiple_of(8));
        let reader = match token {
            Some(text) => {
                self.ledger.stats.resumed += 1;
                let scope = Token::scope(&tenant, &selector);
                let token = Token::parse(&text, scope, INCARNATION, SHARDS).unwrap();
                FeedReader::resume(tenant, selector, &token, SHARDS, rules)
            }
            None if self.many[number].is_new || is_of_node => {
                let many = &mut self.many[number];
                (many.had, many.state, many.is_new) = ([None; STREAMS], Default::default(), false);
                FeedReader::from_earliest(tenant, selector, INCARNATION, SHARDS, rules)
            }
            None => {
                self.ledger.stats.by_numbers += 1;
                let had = self.many[number].had.iter().enumerate();
                let had = had.filter_map(|(stream, had)| Some((self.setup.stream(stream).name.clone(), (*had)?)));
                let had: BTreeMap<_, _> = had.collect();
                FeedReader::from_earliest(tenant, selector, INCARNATION, SHARDS, rules).with_positions(had)
            }
        };
        let reader = reader.with_scan_bytes(self.rng.index(400));
        (self.many[number].host, self.many[number].reader) = (host, Some(reader));
    }

    fn hand_many(&mut self, number: usize, stream: usize, seen: &EventSeen, reader: &FeedReader) {
        let (node, had) = (self.many[number].node, self.many[number].had[stream]);
        self.check_delivery(&format!("B{number}"), stream, node, had, seen);
        let many = &mut self.many[number];
        many.had[stream] = Some(seen.seq);
        fold(&mut many.state[stream], seen);
        many.token = reader.token().map(|token| token.text());
    }
}
