//! One batch over one connection: messages go out in large writes, as many at once as window and server let out.
//!
//! The server acknowledges each by its id. Each fate is told to the host early where the batch goes on for longer. When the
//! connection ends, what was written and not acknowledged may be there all the same and says so; what wasn't written is given back
//! untried. A server that won't have a message may end the connection without saying which one it was: what was tried before
//! goes alone, so that the one that is to blame costs its neighbours one attempt and no more.

use std::cell::Cell;
use std::time::{Duration, Instant};

use waybill_mqtt_wire::packet::{Answer, Packet};
use waybill_mqtt_wire::reason::{self, NO_SUBSCRIBERS, REFUSED};
use waybill_mqtt_wire::write::PING;
use waybill_mqtt_wire::{Beat, Incoming, broken, no_mqtt};
use waybill_plugin::broker::Outcomes;
use waybill_plugin::exchange::{Bounds, Side, exchange};
use waybill_plugin::transport::{CallInfo, Fault, Message, Outcome, PluginError, Receipt};

use crate::config::{Config, NoSubscribers};
use crate::connection::Connection;
use crate::encode::Encoder;

/// Bytes after which a write begins. A larger message goes out in a write of its own.
const CHUNK_BYTES: usize = 60 * 1024;
/// Most bytes of a read that looks as if the server held more back.
const HELD_BACK_BYTES: usize = 16;
/// What a receipt says of a message that nobody had subscribed to.
const UNHEARD: &str = "no-subscribers";

/// What became of the batch, and why the connection is of no more use if it isn't.
pub(crate) struct Sent {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) lost: Option<PluginError>,
}

/// Sends a batch and waits for the last acknowledgement.
pub(crate) async fn publish(
    connection: &mut Connection,
    call: &CallInfo,
    batch: &[Message],
    config: &Config,
    bounds: Bounds,
) -> Sent {
    let window = u16::try_from(config.common.window).unwrap_or(u16::MAX);
    let window = window.min(connection.wire().limits().receive_maximum);
    let (stream, encoder, incoming, beat) = connection.split();
    let mut flight = Flight::new(call, batch, encoder, window, config.own.no_subscribers);
    let mut publishing = Publishing::new(&mut flight, incoming, beat, bounds.silence);
    let lost = exchange(stream, &mut publishing, bounds).await.err().map(broken);
    flight.end(lost)
}

struct Publishing<'a, 'b> {
    flight: &'a mut Flight<'b>,
    incoming: &'a mut Incoming,
    beat: &'a mut Beat,
    /// The server may hold acknowledgements back until it knows that the one before has come (Nagle's algorithm, which Mosquitto has
    /// by default). Our system tells it some 40 ms late, or at once beside something that we send.
    is_held_back: bool,
    /// Milliseconds without an acknowledgement after which the batch is given up, whatever else the server says.
    patience_ms: u32,
    /// When a message was acknowledged last, or written to its end.
    moved: Cell<Instant>,
    /// Messages are on their way into the connection.
    is_writing: Cell<bool>,
}

impl<'a, 'b> Publishing<'a, 'b> {
    fn new(flight: &'a mut Flight<'b>, incoming: &'a mut Incoming, beat: &'a mut Beat, patience_ms: u32) -> Self {
        let (moved, is_writing) = (Cell::new(Instant::now()), Cell::new(false));
        Self { flight, incoming, beat, is_held_back: false, patience_ms, moved, is_writing }
    }

    /// The next bytes to write: messages, or a sign of life where one is of use.
    fn piece(&mut self) -> Vec<u8> {
        let mut chunk = self.flight.chunk();
        let is_held_back = std::mem::take(&mut self.is_held_back);
        if !chunk.is_empty() {
            self.is_writing.set(true);
        } else if self.waits() && (is_held_back || self.beat.is_due()) {
            chunk.extend_from_slice(&PING);
        }
        if !chunk.is_empty() {
            self.beat.spoke();
        }
        chunk
    }

    fn take(&mut self, bytes: Vec<u8>) -> Result<(), PluginError> {
        let (is_small, before) = (bytes.len() <= HELD_BACK_BYTES, self.flight.under_way);
        self.incoming.push(bytes);
        self.beat.heard();
        let flight = &mut *self.flight;
        while let Some(taken) = self.incoming.next(|packet| flight.take(packet))? {
            taken?;
        }
        // The answer to a sign of life is small, too: it must neither ask for the next one nor count as an acknowledgement.
        if self.flight.under_way < before {
            self.is_held_back = is_small;
            self.moved.set(Instant::now());
        }
        Ok(())
    }
}

impl Side for Publishing<'_, '_> {
    fn outgoing(&mut self) -> Vec<u8> {
        if self.flight.call.cancelled() { Vec::new() } else { self.piece() }
    }

    fn waits(&self) -> bool {
        self.flight.under_way > 0
    }

    fn incoming(&mut self, bytes: Vec<u8>) -> Result<(), PluginError> {
        self.take(bytes)?;
        self.flight.tell_early();
        Ok(())
    }

    fn pulse(&self) -> Option<u32> {
        [self.beat.every(), Some(self.patience_ms)].into_iter().flatten().min()
    }

    fn overdue(&self) -> bool {
        // Nobody asks while a write is under way: patience begins behind it, however long a large message took.
        if self.is_writing.take() {
            self.moved.set(Instant::now());
        }
        self.waits() && self.moved.get().elapsed() > Duration::from_millis(u64::from(self.patience_ms))
    }
}

/// Where each message of the batch is.
struct Flight<'a> {
    call: &'a CallInfo,
    batch: &'a [Message],
    encoder: &'a mut Encoder,
    no_subscribers: NoSubscribers,
    outcomes: Outcomes<'a>,
    /// The first message that was never written.
    next: usize,
    /// The message under way by each id, less one.
    places: Vec<Option<usize>>,
    /// Ids that no message has.
    free: Vec<u16>,
    /// Written, and not acknowledged.
    under_way: usize,
    /// One that was tried before is under way, alone.
    is_alone: bool,
    /// Messages that nobody had subscribed to.
    unheard: usize,
}

impl<'a> Flight<'a> {
    fn new(
        call: &'a CallInfo,
        batch: &'a [Message],
        encoder: &'a mut Encoder,
        window: u16,
        no_subscribers: NoSubscribers,
    ) -> Self {
        let window = window.min(u16::try_from(batch.len()).unwrap_or(u16::MAX)).max(1);
        Self {
            call,
            batch,
            encoder,
            no_subscribers,
            outcomes: Outcomes::new(call, batch.len()),
            next: 0,
            places: vec![None; usize::from(window)],
            free: (1..=window).rev().collect(),
            under_way: 0,
            is_alone: false,
            unheard: 0,
        }
    }

    /// The next bytes to write: as many messages as window and size let out.
    fn chunk(&mut self) -> Vec<u8> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK_BYTES {
            let (Some(message), Some(id)) = (self.batch.get(self.next), self.free.last().copied()) else { break };
            let was_tried = message.attempt > 1;
            if self.under_way > 0 && (self.is_alone || was_tried) {
                break;
            }
            let place = self.next;
            self.next += 1;
            match self.encoder.add(&mut chunk, message, id) {
                Ok(()) => {
                    self.free.pop();
                    self.put(id, Some(place));
                    self.under_way += 1;
                    self.is_alone = was_tried;
                }
                Err(fault) => self.outcomes.settle(place, Outcome::Permanent(fault)),
            }
        }
        chunk
    }

    fn put(&mut self, id: u16, place: Option<usize>) -> Option<usize> {
        let slot = self.places.get_mut(usize::from(id).checked_sub(1)?)?;
        std::mem::replace(slot, place)
    }

    fn take(&mut self, packet: Packet<'_>) -> Result<(), PluginError> {
        match packet {
            Packet::Acknowledged(answer) => self.acknowledged(&answer),
            Packet::Alive => Ok(()),
            Packet::Ended { reason, said } => {
                self.blame(reason, said);
                Err(reason::of_connection(reason, said).error())
            }
            _ => Err(no_mqtt("an answer that nobody asked for")),
        }
    }

    fn acknowledged(&mut self, answer: &Answer<'_>) -> Result<(), PluginError> {
        let Some(place) = self.put(answer.id, None) else {
            return Err(no_mqtt("an acknowledgement of a message that wasn't sent"));
        };
        self.free.push(answer.id);
        self.under_way -= 1;
        let outcome = match answer.reason {
            NO_SUBSCRIBERS => self.unheard(place),
            reason if reason >= REFUSED => reason::of_message(reason, answer.said).outcome(),
            _ => Outcome::Ack(Receipt::new()),
        };
        self.outcomes.settle(place, outcome);
        Ok(())
    }

    /// The server took it and had nobody to give it to. One that it retains is for those who come later.
    fn unheard(&mut self, place: usize) -> Outcome {
        let is_retained = self.batch.get(place).is_some_and(|message| self.encoder.is_retained(message));
        if is_retained {
            return Outcome::Ack(Receipt::new());
        }
        if self.no_subscribers == NoSubscribers::Hold {
            let reason = "nobody has subscribed to the topic, so the server kept nothing of the message";
            return Fault::new("MQTT.NO_SUBSCRIBERS", reason).blocking("");
        }
        self.unheard += 1;
        Outcome::Ack(Receipt::with_reference(UNHEARD))
    }

    /// Settles the one message under way where the server ends the connection because of it.
    fn blame(&mut self, number: u8, said: Option<&[u8]>) {
        let Some(refusal) = reason::of_message_at_end(number, said).filter(|_| self.under_way == 1) else { return };
        if let Some(place) = self.places.iter_mut().find_map(Option::take) {
            self.outcomes.settle(place, refusal.outcome());
        }
    }

    fn tell_early(&mut self) {
        if self.under_way > 0 || self.next < self.batch.len() {
            self.outcomes.tell_early();
        }
    }

    /// One outcome a message.
    fn end(self, lost: Option<PluginError>) -> Sent {
        if self.unheard > 0 && !std::mem::replace(&mut self.encoder.has_warned, true) {
            waybill_plugin::warn!(
                [("code", "MQTT.NO_SUBSCRIBERS")],
                "nobody had subscribed to the topics of {} messages: the server acknowledged and kept nothing of them; told once a connection",
                self.unheard
            );
        }
        let (code, reason) = lost.as_ref().map_or(("MQTT.CANCELLED", "the host ended the call"), |error| {
            (error.fault.code.as_str(), error.fault.reason.as_str())
        });
        let next = self.next;
        let outcomes = self.outcomes.end(&Fault::new(code, reason), |place| place < next);
        Sent { outcomes, lost }
    }
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
