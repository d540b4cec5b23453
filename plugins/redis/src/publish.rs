//! One batch over one connection: messages go out in large writes, and the server answers each in turn.
//!
//! A reply settles the oldest message without one. Each fate is told to the host early where the batch goes on for longer.
//! When the connection ends, what was written and not answered may be there all the same and says so; what wasn't written is
//! given back untried. What this doesn't do: send anything twice but what a server refused for want of the script.

use std::collections::VecDeque;

use waybill_plugin::broker::Outcomes;
use waybill_plugin::exchange::{Bounds, Side, exchange};
use waybill_plugin::net::Input;
use waybill_plugin::transport::{CallInfo, Fault, Message, Outcome, PluginError, Receipt};
use waybill_redis_wire::command::Commands;
use waybill_redis_wire::refusal::{self, Class, Refusal};
use waybill_redis_wire::resp::Reply;
use waybill_redis_wire::{broken, drain};

use crate::answer::{self, Answer};
use crate::config::{Config, Keys};
use crate::connection::Connection;
use crate::encode::Encoder;
use crate::runs::Runs;

/// Bytes after which a write begins. A larger message goes out in a write of its own.
const CHUNK_BYTES: usize = 60 * 1024;
/// Times that a message is refused for want of the script, on average over a batch: one after each flush by somebody.
const SCRIPTLESS_MAX: usize = 4;

/// What became of the batch, and why the connection is of no more use if it isn't.
pub(crate) struct Sent {
    pub(crate) outcomes: Result<Vec<Outcome>, PluginError>,
    pub(crate) lost: Option<PluginError>,
}

/// Sends a batch and waits for the last word on it.
pub(crate) async fn publish(
    connection: &mut Connection,
    call: &CallInfo,
    batch: &[Message],
    config: &Config,
    bounds: Bounds,
) -> Sent {
    let (stream, encoder, input) = connection.split();
    let mut flight = Flight::new(call, batch, encoder, config);
    let mut publishing = Publishing { flight: &mut flight, input };
    let ended = exchange(stream, &mut publishing, bounds).await.err().map(broken);
    flight.end(ended)
}

struct Publishing<'a, 'b> {
    flight: &'a mut Flight<'b>,
    input: &'a mut Input,
}

impl Side for Publishing<'_, '_> {
    fn outgoing(&mut self) -> Vec<u8> {
        self.flight.chunk()
    }

    fn waits(&self) -> bool {
        !self.flight.due.is_empty()
    }

    fn incoming(&mut self, bytes: Vec<u8>) -> Result<(), PluginError> {
        self.input.push(bytes);
        let flight = &mut *self.flight;
        drain(self.input, |reply| flight.take(reply))?;
        flight.tell_early();
        Ok(())
    }
}

/// What a reply that is due is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// The message at this place.
    Message(usize),
    /// The replicas that have what was written before.
    Replicas,
}

/// Where a message is.
#[derive(Clone, Debug)]
enum Place {
    /// Not written, or refused for want of the script.
    Here,
    /// Written, without a reply.
    Away,
    /// Added; replicas may not have it yet.
    Added(Receipt),
    /// Refused because the server takes nothing at all now.
    Refused,
    Settled,
}

/// Where each message of the batch is.
struct Flight<'a> {
    call: &'a CallInfo,
    batch: &'a [Message],
    encoder: &'a mut Encoder,
    config: &'a Keys,
    window: usize,
    places: Vec<Place>,
    runs: Runs,
    outcomes: Outcomes<'a>,
    /// The first message that was never written.
    next: usize,
    /// To be written once more.
    again: VecDeque<usize>,
    /// Replies that are due, in their order.
    due: VecDeque<Due>,
    /// Written, and without a fate.
    waiting: usize,
    /// Added, for replicas to have.
    added: Vec<usize>,
    /// Why nothing more can be sent.
    held: Option<Refusal>,
    /// Replies that were for want of the script.
    scriptless: usize,
    /// Why ids couldn't be remembered.
    forgotten: Option<String>,
}

impl<'a> Flight<'a> {
    fn new(call: &'a CallInfo, batch: &'a [Message], encoder: &'a mut Encoder, config: &'a Config) -> Self {
        Self {
            call,
            batch,
            encoder,
            config: &config.own,
            window: config.common.window as usize,
            places: vec![Place::Here; batch.len()],
            runs: Runs::of(batch),
            outcomes: Outcomes::new(call, batch.len()),
            next: 0,
            again: VecDeque::new(),
            due: VecDeque::new(),
            waiting: 0,
            added: Vec::new(),
            held: None,
            scriptless: 0,
            forgotten: None,
        }
    }

    /// The next bytes to write: as many messages as window and size let out, and the question for replicas behind them.
    fn chunk(&mut self) -> Vec<u8> {
        let mut chunk = Vec::new();
        if self.held.is_some() || self.call.cancelled() {
            return chunk;
        }
        self.encoder.tick();
        let written = self.due.len();
        while chunk.len() < CHUNK_BYTES && self.waiting < self.window {
            let place = self.again.pop_front().unwrap_or(self.next);
            let Some(message) = self.batch.get(place) else { break };
            self.next = self.next.max(place + 1);
            if !self.runs.may_go(place) || !matches!(self.places.get(place), Some(Place::Here)) {
                continue;
            }
            match self.encoder.add(&mut chunk, message) {
                Ok(()) => {
                    self.waiting += 1;
                    self.due.push_back(Due::Message(place));
                    self.put(place, Place::Away);
                }
                Err(fault) => self.settle(place, Outcome::Permanent(fault)),
            }
        }
        if self.config.wait_replicas > 0 && self.due.len() > written {
            let (replicas, millis) = (self.config.wait_replicas.to_string(), self.config.wait_timeout.to_string());
            let mut wait = Commands::default();
            wait.add(&["WAIT", &replicas, &millis]);
            chunk.extend_from_slice(&wait.bytes);
            self.due.push_back(Due::Replicas);
        }
        chunk
    }

    /// Takes the reply to what is due first.
    fn take(&mut self, reply: &Reply<'_>) -> Result<(), PluginError> {
        match self.due.pop_front() {
            Some(Due::Message(place)) => self.answered(place, reply),
            Some(Due::Replicas) => {
                self.replicated(reply);
                Ok(())
            }
            None => Err(match reply {
                // What a server says before it closes.
                Reply::Error(text) => refusal::sort(text).error(),
                _ => PluginError::unavailable("REDIS.PROTOCOL", "the server gave more answers than it was asked for"),
            }),
        }
    }

    fn answered(&mut self, place: usize, reply: &Reply<'_>) -> Result<(), PluginError> {
        match answer::read(reply, self.encoder.creates_streams()) {
            Answer::Added(receipt) => self.added(place, receipt),
            Answer::Forgotten(receipt, why) => {
                self.forgotten = Some(why);
                self.added(place, receipt);
            }
            Answer::Fate(outcome) => self.settled(place, outcome),
            Answer::NoScript => {
                // Whatever was written meanwhile gets the same answer; the next one goes out whole.
                self.encoder.knows_script = false;
                self.waiting -= 1;
                self.put(place, Place::Here);
                self.again.push_back(place);
                self.scriptless += 1;
                if self.scriptless > SCRIPTLESS_MAX * self.batch.len() {
                    let reason = "the server forgets the script of `dedup` as soon as it has it";
                    return Err(PluginError::unavailable("REDIS.NO_SCRIPT", reason));
                }
            }
            Answer::Held(refusal) => {
                self.waiting -= 1;
                self.put(place, Place::Refused);
                self.held.get_or_insert(refusal);
            }
            Answer::Ends(outcome) => {
                self.settled(place, outcome);
                // It reads nothing of what came behind.
                for due in std::mem::take(&mut self.due) {
                    if let Due::Message(place) = due {
                        self.put(place, Place::Refused);
                    }
                }
                return Err(PluginError::unavailable(
                    "REDIS.LOST",
                    "the server closed the connection behind a payload",
                ));
            }
        }
        Ok(())
    }

    fn added(&mut self, place: usize, receipt: Receipt) {
        let receipt = self.with_stream(place, receipt);
        if self.config.wait_replicas == 0 {
            self.settled(place, Outcome::Ack(receipt));
        } else {
            self.put(place, Place::Added(receipt));
            self.added.push(place);
        }
    }

    fn with_stream(&mut self, place: usize, mut receipt: Receipt) -> Receipt {
        if let Some(Ok(stream)) = self.batch.get(place).map(|message| self.encoder.stream(message)) {
            receipt.attributes.push(("stream".to_owned(), stream.to_owned()));
        }
        receipt
    }

    /// The reply to `WAIT`: whether enough replicas have what was added.
    fn replicated(&mut self, reply: &Reply<'_>) {
        let wanted = i64::from(self.config.wait_replicas);
        let fault = match reply {
            Reply::Number(have) if *have >= wanted => None,
            Reply::Number(have) => {
                let reason = format!("the message is at the primary; {have} of {wanted} replicas had it in time");
                Some(Fault::new("REDIS.REPLICAS", reason))
            }
            Reply::Error(text) => Some(refusal::sort(text).error().fault),
            _ => Some(Fault::new("REDIS.REPLICAS", "the server didn't tell how many replicas have the message")),
        };
        let fault = fault.map(|fault| fault.with_maybe_delivered(true));
        for place in std::mem::take(&mut self.added) {
            let receipt = match self.places.get_mut(place).map(|slot| std::mem::replace(slot, Place::Away)) {
                Some(Place::Added(receipt)) => receipt,
                _ => continue,
            };
            self.settled(place, fault.clone().map_or(Outcome::Ack(receipt), Outcome::Retryable));
        }
    }

    /// Settles one that was written.
    fn settled(&mut self, place: usize, outcome: Outcome) {
        self.waiting -= 1;
        self.settle(place, outcome);
    }

    /// Settles one, and what is behind it: that may go now, or isn't sent.
    fn settle(&mut self, place: usize, outcome: Outcome) {
        let is_acknowledged = matches!(outcome, Outcome::Ack(_));
        self.put(place, Place::Settled);
        self.outcomes.settle(place, outcome);
        let mut behind = self.runs.behind(place);
        if is_acknowledged {
            let Some(next) = behind else { return };
            self.runs.free(next);
            // One that wasn't come to yet goes in its turn.
            if next < self.next {
                self.again.push_back(next);
            }
            return;
        }
        while let Some(next) = behind {
            self.put(next, Place::Settled);
            let fault = Fault::new("REDIS.BEHIND", "a message of its key before it wasn't acknowledged");
            self.outcomes.settle(next, Outcome::Release(fault));
            behind = self.runs.behind(next);
        }
    }

    fn put(&mut self, place: usize, at: Place) {
        if let Some(slot) = self.places.get_mut(place) {
            *slot = at;
        }
    }

    fn tell_early(&mut self) {
        if !self.due.is_empty() || self.next < self.batch.len() || !self.again.is_empty() {
            self.outcomes.tell_early();
        }
    }

    /// One outcome a message, or the word that nothing can be sent.
    fn end(mut self, lost: Option<PluginError>) -> Sent {
        if let Some(why) = &self.forgotten {
            waybill_plugin::warn!(
                [("code", "REDIS.PERMISSIONS")],
                "ids aren't remembered, so messages may come twice: {why}"
            );
        }
        let unknown = |place: &Place| matches!(place, Place::Away | Place::Added(_));
        if let (Some(held), false) = (self.held.take(), self.places.iter().any(unknown)) {
            // What is settled stands; the others wait until the server takes messages again.
            self.outcomes.tell();
            let error = held.error();
            let leaves = matches!(held.class, Class::Elsewhere | Class::Denied);
            return Sent { lost: lost.or_else(|| leaves.then(|| error.clone())), outcomes: Err(error) };
        }
        let (code, reason) = lost.as_ref().map_or(("REDIS.CANCELLED", "the host ended the call"), |error| {
            (error.fault.code.as_str(), error.fault.reason.as_str())
        });
        let places = self.places;
        let outcomes = self.outcomes.end(&Fault::new(code, reason), |place| places.get(place).is_some_and(unknown));
        Sent { outcomes: Ok(outcomes), lost }
    }
}
