//! One batch over one connection: messages go out in large writes while at most `window` of them wait for JetStream's word.
//!
//! Reading and writing overlap, and each fate is told to the host early where the batch goes on for longer. When the
//! connection ends, what was written and not acknowledged may be there all the same and says so; what wasn't written is
//! given back untried. What this doesn't do: send anything twice. That is the host's part, with the next attempt's number.

use waybill_nats_wire::{Event, Incoming, PONG, no_publish};
use waybill_plugin::broker::Outcomes;
use waybill_plugin::exchange::{self, Side, exchange};
use waybill_plugin::transport::{CallInfo, Fault, Message, Outcome, PluginError};

use crate::Connection;
use crate::answer;
use crate::encode::Encoder;

/// Bytes after which a write begins. A larger message goes out in a write of its own.
const CHUNK_BYTES: usize = 60 * 1024;

/// What became of the batch, and why the connection is of no more use if it isn't.
pub(crate) struct Sent {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) lost: Option<PluginError>,
}

/// Sends a batch and waits for the last word on it: at most `window` messages are without one. `expected` is the stream that
/// has to take them.
pub(crate) async fn publish(
    connection: &mut Connection,
    call: &CallInfo,
    batch: &[Message],
    expected: Option<&str>,
    window: usize,
    bounds: exchange::Bounds,
) -> Sent {
    let base = connection.take_numbers(batch.len());
    let (stream, incoming) = connection.split();
    let encoder = Encoder::new(incoming.inbox().to_owned(), expected, incoming.max_payload());
    let mut publishing = Publishing { flight: Flight::new(call, batch, base), encoder, incoming, window };
    let ended = exchange(stream, &mut publishing, bounds).await.err().map(Connection::broken);
    Sent { outcomes: publishing.flight.end(ended.as_ref()), lost: ended }
}

/// A batch on its way over a connection.
struct Publishing<'a> {
    flight: Flight<'a>,
    encoder: Encoder<'a>,
    incoming: &'a mut Incoming,
    window: usize,
}

impl Side for Publishing<'_> {
    fn outgoing(&mut self) -> Vec<u8> {
        self.flight.chunk(&mut self.encoder, self.incoming, self.window)
    }

    fn waits(&self) -> bool {
        self.flight.waiting > 0
    }

    fn incoming(&mut self, bytes: Vec<u8>) -> Result<(), PluginError> {
        self.incoming.push(bytes);
        let flight = &mut self.flight;
        self.incoming.drain(|event| flight.take(event))?;
        flight.tell_early();
        Ok(())
    }
}

/// Where each message of the batch is.
struct Flight<'a> {
    call: &'a CallInfo,
    batch: &'a [Message],
    outcomes: Outcomes<'a>,
    /// Number of the batch's first message in the inbox.
    base: u64,
    /// The first message that wasn't written yet.
    next: usize,
    /// Written, and without a fate.
    waiting: usize,
}

impl<'a> Flight<'a> {
    fn new(call: &'a CallInfo, batch: &'a [Message], base: u64) -> Self {
        Self { call, batch, outcomes: Outcomes::new(call, batch.len()), base, next: 0, waiting: 0 }
    }

    /// The next bytes to write: as many messages as window and chunk let out, and the answer to a ping.
    fn chunk(&mut self, encoder: &mut Encoder<'_>, incoming: &mut Incoming, window: usize) -> Vec<u8> {
        let mut chunk = Vec::new();
        if incoming.take_pong_due() {
            chunk.extend_from_slice(PONG);
        }
        encoder.max_payload = incoming.max_payload();
        if self.call.cancelled() {
            return chunk;
        }
        while chunk.len() < CHUNK_BYTES
            && self.waiting < window
            && let Some(message) = self.batch.get(self.next)
        {
            match encoder.publish(&mut chunk, message, self.base + self.next as u64) {
                Ok(()) => self.waiting += 1,
                Err(fault) => self.outcomes.settle(self.next, Outcome::Permanent(fault)),
            }
            self.next += 1;
        }
        chunk
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Answer(number, message) => {
                let place = number.checked_sub(self.base).and_then(|place| usize::try_from(place).ok());
                if let Some(place) = place.filter(|place| self.is_waiting(*place)) {
                    self.waiting -= 1;
                    self.outcomes.settle(place, answer::outcome(&message));
                }
            }
            Event::NoPublish(subject) => self.no_publish(&subject),
            Event::Pong | Event::Delivery(_) => {}
        }
    }

    /// The server drops every message to this subject without another word.
    fn no_publish(&mut self, subject: &str) {
        for place in 0..self.next {
            if self.is_waiting(place) && self.batch.get(place).is_some_and(|message| message.destination == subject) {
                self.waiting -= 1;
                self.outcomes.settle(place, Fault::new("NATS.PERMISSIONS", no_publish(subject)).blocking(""));
            }
        }
    }

    fn is_waiting(&self, place: usize) -> bool {
        place < self.next && self.outcomes.is_open(place)
    }

    fn tell_early(&mut self) {
        if self.waiting > 0 || self.next < self.batch.len() {
            self.outcomes.tell_early();
        }
    }

    /// One outcome a message.
    fn end(self, lost: Option<&PluginError>) -> Vec<Outcome> {
        let (code, reason) = lost.map_or(("NATS.CANCELLED", "the host ended the call"), |error| {
            (error.fault.code.as_str(), error.fault.reason.as_str())
        });
        self.outcomes.end(&Fault::new(code, reason), |place| place < self.next)
    }
}
