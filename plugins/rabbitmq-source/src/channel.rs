//! What one session has delivered: what waits to be handed over, what is unsettled, and how it is settled.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use waybill_plugin::source::{Disposition, Settled, Settlement};
use waybill_rabbitmq_wire::wire::method;
use waybill_rabbitmq_wire::{CHANNEL, Delivered};

const ACK: (u16, u16) = (60, 80);
const REJECT: (u16, u16) = (60, 90);

/// A session's deliveries. Its tokens hold for no other session.
pub(crate) struct Channel {
    session: u64,
    /// Deliveries that may be unsettled.
    prefetch: u16,
    /// Came, and wasn't handed over yet.
    held: VecDeque<(Instant, Delivered)>,
    held_bytes: usize,
    /// Tags of all that came and wasn't settled.
    unsettled: BTreeSet<u64>,
}

impl Channel {
    pub(crate) fn new(session: u64, prefetch: u16) -> Self {
        Self { session, prefetch, held: VecDeque::new(), held_bytes: 0, unsettled: BTreeSet::new() }
    }

    pub(crate) fn prefetch(&self) -> u16 {
        self.prefetch
    }

    /// Whether more may be on its way although so many bytes are held: then the session goes on with as few deliveries as fit. The server
    /// can't be told a bound in bytes, and ends a connection whose end isn't read.
    pub(crate) fn shrink(&mut self, bytes: usize) -> bool {
        let is_too_much = self.held_bytes >= bytes && !self.is_full();
        if is_too_much {
            self.prefetch = u16::try_from(self.held.len()).unwrap_or(u16::MAX).min(self.prefetch).max(1);
        }
        is_too_much
    }

    pub(crate) fn hold(&mut self, delivered: impl Iterator<Item = Delivered>) {
        let now = Instant::now();
        for message in delivered {
            self.unsettled.insert(message.tag);
            self.held_bytes += message.body.len();
            self.held.push_back((now, message));
        }
    }

    /// The next one that fits into so many bytes, when it came, and its token. The first of a pull always fits.
    pub(crate) fn next(&mut self, room: Option<usize>) -> Option<(Instant, Delivered, Vec<u8>)> {
        let (_, message) = self.held.front()?;
        if room.is_some_and(|room| message.body.len() > room) {
            return None;
        }
        let (since, message) = self.held.pop_front()?;
        self.held_bytes -= message.body.len();
        let token = self.token(message.tag);
        Some((since, message, token))
    }

    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether something has waited to be handed over for so long.
    pub(crate) fn is_held_since(&self, time: Duration) -> bool {
        self.held.front().is_some_and(|(since, _)| since.elapsed() >= time)
    }

    #[cfg(test)]
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// Whether the server delivers no more before something is settled.
    pub(crate) fn is_full(&self) -> bool {
        self.unsettled.len() >= usize::from(self.prefetch)
    }

    fn token(&self, tag: u64) -> Vec<u8> {
        [self.session.to_be_bytes(), tag.to_be_bytes()].concat()
    }

    /// The tag of a token of this session.
    fn tag(&self, token: &[u8]) -> Option<u64> {
        let (session, tag) = token.split_first_chunk::<8>()?;
        let tag = u64::from_be_bytes(tag.try_into().ok()?);
        (u64::from_be_bytes(*session) == self.session && self.unsettled.contains(&tag)).then_some(tag)
    }

    /// Adds the frames that settle these, and answers what became of each.
    pub(crate) fn settle(&mut self, items: &[Settlement], out: &mut Vec<u8>) -> Vec<Settled> {
        let mut acknowledged = BTreeSet::new();
        let mut settled = Vec::with_capacity(items.len());
        for item in items {
            let Some(tag) = self.tag(&item.token) else {
                settled.push(Settled::Lost);
                continue;
            };
            match item.disposition {
                Disposition::Ack => {
                    acknowledged.insert(tag);
                }
                Disposition::Release | Disposition::Nack(None) => reject(out, tag, true),
                Disposition::Reject(_) => reject(out, tag, false),
                Disposition::Extend | Disposition::Nack(Some(_)) => {
                    settled.push(Settled::unsupported());
                    continue;
                }
            }
            self.unsettled.remove(&tag);
            settled.push(Settled::Done);
        }
        self.acknowledge(&acknowledged, out);
        settled
    }

    /// One frame for all below the oldest that stays unsettled, one for each of the others.
    fn acknowledge(&self, tags: &BTreeSet<u64>, out: &mut Vec<u8>) {
        let oldest = self.unsettled.first().copied().unwrap_or(u64::MAX);
        if let Some(last) = tags.range(..oldest).next_back() {
            ack(out, *last, true);
        }
        for tag in tags.range(oldest..) {
            ack(out, *tag, false);
        }
    }

    /// Adds the frames that give back what wasn't handed over.
    pub(crate) fn give_back(&mut self, out: &mut Vec<u8>) {
        for (_, message) in self.held.drain(..) {
            self.unsettled.remove(&message.tag);
            reject(out, message.tag, true);
        }
        self.held_bytes = 0;
    }

    /// Tokens of what was handed over and can't be settled any more.
    pub(crate) fn lost(self) -> Vec<Vec<u8>> {
        let held: BTreeSet<u64> = self.held.iter().map(|(_, message)| message.tag).collect();
        self.unsettled.difference(&held).map(|tag| self.token(*tag)).collect()
    }
}

fn ack(out: &mut Vec<u8>, tag: u64, multiple: bool) {
    method(out, CHANNEL, ACK, |out| {
        out.extend_from_slice(&tag.to_be_bytes());
        out.push(u8::from(multiple));
    });
}

fn reject(out: &mut Vec<u8>, tag: u64, requeue: bool) {
    method(out, CHANNEL, REJECT, |out| {
        out.extend_from_slice(&tag.to_be_bytes());
        out.push(u8::from(requeue));
    });
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;
