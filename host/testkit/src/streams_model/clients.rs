//! Callers: over the doorstep, straight to an owner, at an expected number.

use waybill_core::port::store::StoreError;
use waybill_core::streams::exact::{ExactAppend, ExactRefusal};
use waybill_core::streams::owner::Ticket;
use waybill_core::time::UnixMillis;

use super::events::Id;
use super::setup::{SHARDS, STREAMS, WALL_START, shard_of};
use super::world::World;
use crate::memory_store::StreamTx;

/// A transaction that is to be committed.
#[derive(Clone, Debug)]
pub(super) struct ClientTx {
    pub tx: StreamTx,
    /// When its statements ran, in nanoseconds.
    pub stamp: u64,
    pub commit_at: u64,
    pub ids: Vec<Id>,
    /// The stream and the number at which it appends.
    pub exact: Option<(usize, u64)>,
}

impl World {
    pub(super) fn caller(&mut self) {
        match self.rng.below(10) {
            0..4 => self.at_the_door(),
            4..7 => self.straight(),
            _ => self.exactly(),
        }
    }

    /// A business transaction of any client: rows on the doorstep, stamped now, committed later.
    fn at_the_door(&mut self) {
        let (mut appends, mut ids) = (Vec::new(), Vec::new());
        let transaction = self.next_transaction();
        for index in 0..1 + self.rng.index(3) {
            let stream = self.rng.index(STREAMS);
            let id = self.new_event(stream, true, transaction, index, true);
            ids.push(id);
            appends.push((shard_of(stream), self.append_of(stream, &[id])));
        }
        let tx = self.store.read(|tables| tables.streams.begin_door(&appends));
        let late = if self.rng.percent(30) { self.rng.below(250) } else { self.rng.below(6) };
        let client = ClientTx { tx, stamp: self.nanos(), commit_at: self.now + late, ids, exact: None };
        if self.rng.percent(8) {
            // It didn't hear the answer.
            let commit_at = client.commit_at + self.rng.below(60);
            self.clients.push(ClientTx { commit_at, ..client.clone() });
        }
        self.clients.push(client);
    }

    /// By API at a host, which owns the stream or puts it on the doorstep.
    fn straight(&mut self) {
        let host = self.rng.index(self.hosts.len());
        if !self.hosts[host].up || self.hosts[host].paused_until > self.now {
            return;
        }
        let stream = self.rng.index(STREAMS);
        let (transaction, is_indexed) = (self.next_transaction(), self.rng.percent(50));
        let count = 1 + self.rng.index(2);
        let ids: Vec<Id> =
            (0..count).map(|index| self.new_event(stream, true, transaction, index, is_indexed)).collect();
        let append = self.append_of(stream, &ids);
        match self.hosts[host].lives[usize::from(shard_of(stream).0)].as_mut() {
            Some(life) => {
                self.tickets += 1;
                let ticket = Ticket(self.tickets);
                life.tickets.insert(ticket, ids);
                life.owner.append(ticket, append);
            }
            None => self.put_at_door(stream, ids),
        }
    }

    /// A host that doesn't own the stream, or lost it, puts a direct append on the doorstep.
    pub(super) fn put_at_door(&mut self, stream: usize, ids: Vec<Id>) {
        let appends = [(shard_of(stream), self.append_of(stream, &ids))];
        let tx = self.store.read(|tables| tables.streams.begin_door(&appends));
        let commit_at = self.now + self.rng.below(30);
        self.clients.push(ClientTx { tx, stamp: self.nanos(), commit_at, ids, exact: None });
    }

    /// At an expected number, in the caller's own transaction.
    fn exactly(&mut self) {
        let stream = self.rng.index(STREAMS);
        let key = self.setup.stream(stream).clone();
        let last = self.store.read(|tables| tables.streams.head(&key).last);
        let expected = if self.rng.percent(75) { last } else { self.rng.below(last + 2) };
        let (transaction, count) = (self.next_transaction(), 1 + self.rng.index(2));
        if expected != last {
            self.ledger.stats.exact_refused += 1;
            let append = ExactAppend::new(self.probe(stream), expected, SHARDS);
            let told = self.store.read(|tables| tables.streams.begin_exact(&append, UnixMillis(0), self.setup.rules));
            let is_right = matches!(told, Err(ExactRefusal::ExpectedSeq { actual, .. }) if actual == last);
            if !is_right && !self.ledger.events.is_empty() {
                self.ledger.violation(format!("EXACT append at {expected} of {last} was answered {told:?}"));
            }
            return;
        }
        let ids: Vec<Id> = (0..count).map(|index| self.new_event(stream, false, transaction, index, true)).collect();
        let append = self.append_of(stream, &ids).as_ref().clone();
        let append = ExactAppend::new(append, expected, SHARDS);
        let now = UnixMillis(WALL_START + self.now);
        let begun = self.store.read(|tables| tables.streams.begin_exact(&append, now, self.setup.rules));
        let Ok((_, tx)) = begun else {
            self.ledger.violation(format!("EXACT append to stream {stream} at its end was refused: {begun:?}"));
            return;
        };
        let late = if self.rng.percent(20) { self.rng.below(120) } else { self.rng.below(5) };
        let exact = Some((stream, expected));
        let client = ClientTx { tx, stamp: self.nanos(), commit_at: self.now + late, ids, exact };
        if self.rng.percent(10) {
            let commit_at = client.commit_at + self.rng.below(40);
            self.clients.push(ClientTx { commit_at, ..client.clone() });
        }
        self.clients.push(client);
    }

    /// Something that isn't there, to hear what is.
    fn probe(&self, stream: usize) -> waybill_core::streams::records::Append {
        use waybill_core::ids::EventId;
        let mut event = self.ledger.events.first().and_then(|known| known.packed.clone());
        if let Some(event) = &mut event {
            event.id = EventId::new("probe").unwrap();
        }
        let events = event.into_iter().collect();
        waybill_core::streams::records::Append::new(self.setup.stream(stream).clone(), events)
    }

    /// What is due is committed, or lost.
    pub(super) fn commit_clients(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.clients).into_iter().partition(|client| client.commit_at <= now);
        self.clients.extend(later);
        for client in due {
            if !self.rng.percent(95) {
                continue;
            }
            let done = self.apply_client(&client);
            let Some((stream, expected)) = client.exact else { continue };
            if done.is_ok() {
                self.ledger.stats.exact += 1;
                continue;
            }
            self.ledger.stats.exact_refused += 1;
            let key = self.setup.stream(stream);
            let moved = self.store.read(|tables| tables.streams.head(key).last != expected);
            let twice = client.ids.iter().any(|id| self.ledger.events[*id].seq.is_some());
            if !moved && !twice {
                self.ledger.violation(format!("EXACT append to stream {stream} was aborted though nobody appended"));
            }
        }
    }

    fn apply_client(&mut self, client: &ClientTx) -> Result<(), StoreError> {
        let before = self.books_before(&client.tx.writes);
        let applied = self.store.write(|tables| tables.streams.apply_tx(&client.tx, client.stamp));
        if applied.is_ok() {
            for id in &client.ids {
                self.ledger.acknowledge(*id);
            }
            self.books_after(&client.tx.writes, before);
        } else {
            self.ledger.stats.conflicts += 1;
        }
        applied
    }
}
