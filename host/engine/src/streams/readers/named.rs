//! A reader of named streams, each with a place of its own.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::Notify;
use waybill_core::ids::Tenant;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{EventPiece, Start, StreamError, SubscriptionEnd};
use waybill_core::port::stream_store::StreamSlice;
use waybill_core::streams::chunk::StoredEvent;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::reading::{NamedReader, NamedWants, PageLimits, page};
use waybill_core::streams::rules::Rules;

use super::super::Shared;
use super::super::rings::{RingOf, Rings, Seat};
use super::cursor::{self, Position, STREAMS_MAX};
use super::{Answer, Ask, LOOK_BYTES, PIECE_BYTES, Reader, Step, failed};

/// Streams that are compared with the store at once, of a reader of very many.
const LOOKS_AT_ONCE: usize = 64;

struct One {
    reader: NamedReader,
    seat: Seat,
    /// What was handed on, and the mark that goes with it.
    handed: Position,
    /// It is the look of every second, which mostly finds nothing.
    is_look: bool,
}

pub(in crate::streams) struct Named {
    streams: Vec<One>,
    pending: VecDeque<(usize, StoredEvent)>,
    /// Which stream is looked at first.
    turn: usize,
    limits: PageLimits,
}

/// Begins a reader, when what it asks for is there: what is gone already is told at once.
pub(in crate::streams) async fn begin(
    shared: &Arc<Shared>,
    tenant: &Tenant,
    names: &[StreamName],
    start: &Start,
    limits: PageLimits,
    wake: &Arc<Notify>,
) -> Result<Reader, ServiceError> {
    let streams: Vec<StreamKey> =
        names.iter().map(|name| StreamKey { tenant: tenant.clone(), name: name.clone() }).collect();
    let asked: Vec<Option<Position>> = match start {
        Start::Earliest | Start::Latest => vec![None; names.len()],
        Start::Positions(map) => names.iter().map(|name| map.get(name).map(|seq| (*seq, None))).collect(),
        Start::Cursor(text) => {
            let malformed = || StreamError::Cursor { text: text.clone() };
            cursor::positions(text, names.len()).ok_or_else(malformed)?.into_iter().map(Some).collect()
        }
    };
    let settings = shared.settings();
    // In the ring before the first look, so that nothing can come between.
    let seats: Vec<Seat> = streams
        .iter()
        .map(|stream| Rings::join(shared, RingOf::Stream(stream.clone()), wake, &settings.events))
        .collect();
    let looks = join_all(streams.iter().zip(&asked).map(|(stream, position)| {
        let after = position.map_or(0, |position| position.0);
        shared.slice(stream, after, 1)
    }));
    let looks: Result<Vec<StreamSlice>, ServiceError> = looks.await.into_iter().collect();
    let rules = Rules::default();
    let mut ones = Vec::with_capacity(streams.len());
    for ((stream, seat), (position, slice)) in streams.into_iter().zip(seats).zip(asked.into_iter().zip(looks?)) {
        let reader = match (position, start) {
            (Some((seq, base)), _) => {
                page(&slice, seq, base.unwrap_or(0), limits, rules).map_err(StreamError::Read)?;
                NamedReader::after(stream, seq, limits, rules).with_base(base.unwrap_or(0))
            }
            (None, Start::Latest) => NamedReader::after(stream, slice.head.last, limits, rules),
            (None, _) => NamedReader::from_earliest(stream, &slice.rest, limits, rules),
        };
        let handed = (reader.position(), reader.base());
        ones.push(One { reader, seat, handed, is_look: false });
    }
    Ok(Reader::Named(Named { streams: ones, pending: VecDeque::new(), turn: 0, limits }))
}

impl One {
    fn key(&self) -> &StreamKey {
        self.reader.stream()
    }

    /// Behind what was handed on, as if it had just begun there.
    fn go_back(&mut self, limits: PageLimits) {
        let (seq, base) = self.handed;
        let again = NamedReader::after(self.key().clone(), seq, limits, Rules::default());
        (self.reader, self.is_look) = (again.with_base(base.unwrap_or(0)), false);
    }
}

impl Named {
    pub(super) fn ready(&mut self) -> Vec<EventPiece> {
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while let Some((at, event)) = self.pending.pop_front() {
            let size = event.packed.len();
            if bytes + size > PIECE_BYTES && !pieces.is_empty() {
                self.pending.push_front((at, event));
                break;
            }
            bytes += size;
            let Some(one) = self.streams.get_mut(at) else { continue };
            let base = one.handed.1.filter(|base| event.seq < *base);
            one.handed = (event.seq, base);
            let stream = one.key().clone();
            let cursor = self.cursor_of(at);
            pieces.push(EventPiece { stream, seq: event.seq, packed: event.packed, cursor });
        }
        pieces
    }

    /// Of all streams, or, where those are too many for a text, of the one at a place.
    fn cursor_of(&self, at: usize) -> Arc<str> {
        if self.streams.len() <= STREAMS_MAX {
            return self.cursor();
        }
        cursor::text_of(self.streams.get(at).map(|one| one.handed).into_iter())
    }

    pub(super) fn cursor(&self) -> Arc<str> {
        cursor::text_of(self.streams.iter().map(|one| one.handed))
    }

    pub(super) fn step(&mut self) -> Result<Step, SubscriptionEnd> {
        let count = self.streams.len();
        for offset in 0..count {
            let at = (self.turn + offset) % count.max(1);
            let Some(one) = self.streams.get_mut(at) else { continue };
            loop {
                if let NamedWants::Slice(after) = one.reader.wants() {
                    let bytes_max = if one.is_look { LOOK_BYTES } else { self.limits.bytes };
                    let stream = one.key().clone();
                    self.turn = at;
                    return Ok(Step::Read(Ask::Slice { at, stream, after, bytes_max }));
                }
                let reader = &mut one.reader;
                let live = one.seat.with(|ring| (!reader.is_idle(ring)).then(|| reader.take_live(ring)));
                match live {
                    None => break,
                    Some(None) => return Err(SubscriptionEnd::Lagged),
                    Some(Some(events)) => {
                        // It was called to the store: mostly there is little.
                        one.is_look |= !one.reader.is_live();
                        self.pending.extend(events.into_iter().map(|event| (at, event)));
                    }
                }
                if !self.pending.is_empty() {
                    self.turn = (at + 1) % count.max(1);
                    return Ok(Step::Again);
                }
            }
        }
        Ok(Step::Wait)
    }

    pub(super) fn take(&mut self, answer: Answer) -> Result<(), SubscriptionEnd> {
        let Answer::Slice { at, slice } = answer else { return Ok(()) };
        let Some(one) = self.streams.get_mut(at) else { return Ok(()) };
        let reader = &mut one.reader;
        let events =
            one.seat.with(|ring| reader.take_slice(&slice, ring)).map_err(|error| failed(StreamError::Read(error)))?;
        one.is_look &= events.is_empty() && !one.reader.is_live();
        if events.is_empty() {
            // Compaction took what is between, or there was nothing: nobody has to hear of it.
            one.handed = (one.reader.position(), one.reader.base());
        }
        self.pending.extend(events.into_iter().map(|event| (at, event)));
        self.turn = (at + 1) % self.streams.len().max(1);
        Ok(())
    }

    pub(super) fn drop_page(&mut self) {
        let had: Vec<usize> = self.pending.drain(..).map(|(at, _)| at).collect();
        for at in had {
            if let Some(one) = self.streams.get_mut(at) {
                one.go_back(self.limits);
            }
        }
    }

    pub(super) fn look_again(&mut self) {
        let count = self.streams.len();
        for offset in 0..count.min(LOOKS_AT_ONCE) {
            let at = (self.turn + offset) % count.max(1);
            let Some(one) = self.streams.get_mut(at) else { continue };
            let reader = &mut one.reader;
            let was_live = reader.is_live();
            one.seat.with(|ring| reader.look_again(ring));
            one.is_look |= was_live && !one.reader.is_live();
        }
        // Others are next.
        self.turn = (self.turn + count.min(LOOKS_AT_ONCE)) % count.max(1);
    }
}
