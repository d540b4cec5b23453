//! Readers of one stream each. A client keeps the number of the last event that it had.

use waybill_core::streams::chunk::StoredEvent;
use waybill_core::streams::reading::{NamedReader, NamedWants, PageError, PageLimits};

use super::events::{EventSeen, Folded, fold};
use super::world::World;

#[derive(Debug)]
pub(super) struct Named {
    pub stream: usize,
    pub host: usize,
    /// None = it isn't connected.
    pub reader: Option<NamedReader>,
    /// What the client keeps.
    pub had: Option<u64>,
    pub state: Folded,
    /// Until when it does nothing.
    stalled_until: u64,
}

impl Named {
    pub fn new(stream: usize, stalled_until: u64) -> Self {
        Self { stream, host: 0, reader: None, had: None, state: Folded::new(), stalled_until }
    }
}

impl World {
    pub(super) fn is_at_end(&self, named: &Named) -> bool {
        let ring = &self.hosts[named.host].rings[named.stream];
        let last = self.ledger.last[named.stream];
        named.reader.as_ref().is_some_and(|reader| reader.is_idle(ring) && reader.position() >= last)
    }

    /// One act of a reader.
    pub(super) fn named(&mut self, number: usize) {
        let now = self.now;
        if self.named[number].stalled_until > now {
            return;
        }
        if !self.calm {
            if self.rng.percent(2) {
                self.named[number].reader = None;
            } else if self.rng.percent(6) {
                self.named[number].stalled_until = now + self.rng.below(150);
                return;
            }
        }
        let Some(mut reader) = self.named[number].reader.take() else { return self.connect_named(number) };
        let (host, stream) = (self.named[number].host, self.named[number].stream);
        let key = self.setup.stream(stream).clone();
        let taken = match reader.wants() {
            NamedWants::Slice(after) => {
                let slice = self.store.read(|tables| tables.streams.slice(&key, after, 0));
                reader.take_slice(&slice, &self.hosts[host].rings[stream])
            }
            NamedWants::Live if reader.is_idle(&self.hosts[host].rings[stream]) => {
                if self.rng.percent(20) {
                    reader.look_again(&self.hosts[host].rings[stream]);
                }
                Ok(Vec::new())
            }
            NamedWants::Live => match reader.take_live(&self.hosts[host].rings[stream]) {
                Some(events) => Ok(events),
                None => {
                    self.ledger.stats.lagged += 1;
                    return;
                }
            },
        };
        match taken {
            Ok(events) => {
                self.hand_named(number, &events);
                self.named[number].reader = Some(reader);
            }
            Err(PageError::Expired { after, .. }) => self.expired_named(number, after),
            Err(error) => self.ledger.violation(format!("PHANTOM A{number} of stream {stream}: {error}")),
        }
    }

    fn connect_named(&mut self, number: usize) {
        let host = self.rng.index(self.hosts.len());
        if !self.hosts[host].up {
            return;
        }
        let key = self.setup.stream(self.named[number].stream).clone();
        let (limits, rules) = (PageLimits::default(), self.setup.rules);
        let limits = PageLimits { events: 1 + self.rng.index(4), ..limits };
        let reader = match self.named[number].had {
            Some(had) => {
                self.ledger.stats.resumed += 1;
                NamedReader::after(key, had, limits, rules)
            }
            None => {
                let rest = self.store.read(|tables| tables.streams.rest(&key));
                self.named[number].state.clear();
                NamedReader::from_earliest(key, &rest, limits, rules)
            }
        };
        (self.named[number].host, self.named[number].reader) = (host, Some(reader));
    }

    fn hand_named(&mut self, number: usize, events: &[StoredEvent]) {
        let (who, stream) = (format!("A{number}"), self.named[number].stream);
        for seen in events.iter().map(EventSeen::of) {
            self.check_delivery(&who, stream, None, self.named[number].had, &seen);
            let named = &mut self.named[number];
            named.had = Some(seen.seq);
            fold(&mut named.state, &seen);
        }
    }

    /// 410: it begins with nothing.
    fn expired_named(&mut self, number: usize, after: u64) {
        self.ledger.stats.expired += 1;
        let stream = self.named[number].stream;
        let rest = self.store.read(|tables| tables.streams.rest(self.setup.stream(stream)));
        if after + 1 >= rest.first && after >= rest.purged {
            self.ledger.violation(format!("EXPIRED A{number}: stream {stream} refused {after} without a reason"));
        }
        let named = &mut self.named[number];
        (named.had, named.reader) = (None, None);
        named.state.clear();
    }
}
