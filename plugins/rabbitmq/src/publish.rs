//! One batch over one connection: messages go out in large writes while at most `window` of them wait for their confirm.
//!
//! Each fate is told to the host early where the batch goes on for longer. When the connection ends, what was written and not
//! confirmed may be there all the same and says so; what wasn't written is given back untried. A connection that nothing was
//! confirmed on begins with a single message: under an alarm the server asks to wait at the first one, and no more are on
//! their way then. It looks at that one when the alarm is over.
//! What this doesn't do: send anything twice. That is the host's part, with the next attempt's number.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use waybill_plugin::broker::{Endpoint, Outcomes, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::{Bounds, Side, exchange};
use waybill_plugin::transport::{CallInfo, Fault, Message, Outcome, PluginError, Receipt};
use waybill_rabbitmq_wire::codec::{Content, Value};
use waybill_rabbitmq_wire::{Alarms, Event, Incoming, Refusal, asked_to_wait};

use crate::config::Config;
use crate::connection::{Connection, Shared};
use crate::encode::{ATTEMPT, Encoder, TENANT};
use crate::routing::{Routing, Unroutable};
use crate::suspects::Suspects;

/// Bytes after which a write begins. A larger message goes out in a write of its own.
const CHUNK_BYTES: usize = 60 * 1024;
/// Milliseconds between two looks at the time while the server has asked to wait.
const HELD_PULSE_MS: u32 = 250;

/// What became of the batch, and why the connection is of no more use if it isn't.
pub(crate) struct Sent {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) lost: Option<PluginError>,
}

/// Sends a batch and waits for the last word on it.
///
/// # Errors
/// The connection ended before anything was sent.
pub(crate) async fn publish(
    connection: &mut Connection,
    endpoint: &Endpoint<Connection>,
    call: &CallInfo,
    batch: &[Message],
    deadline: Deadline,
) -> Result<Sent, PluginError> {
    let Shared { routing, alarms, suspects, .. } = endpoint.shared();
    let missing = missing(connection, routing, batch, deadline).await?;
    let (first, proven) = (connection.next, connection.proven);
    let Config { common, own } = endpoint.config();
    let (stream, encoder, incoming) = connection.split();
    let mut flight = Flight {
        incoming,
        encoder,
        alarms,
        deadline,
        window: common.window as usize,
        patience: Duration::from_millis(u64::from(own.confirm_timeout)),
        state: State::new(call, batch, routing, suspects, &missing, first, proven),
    };
    let bounds = Bounds { silence: own.confirm_timeout, deadline };
    let ended = exchange(stream, &mut flight, bounds).await.err();
    let silent = || flight.incoming.blocked().map_or_else(silent, asked_to_wait);
    let ended = ended.map(|broken| Connection::CODES.broken(broken, silent));
    let why = flight.incoming.blocked().unwrap_or_default().to_owned();
    let (held, refusal) = (alarms.any().then_some(why.as_str()), flight.incoming.refusal.take());
    let state = flight.state;
    let (count, proven) = (state.sent.len() as u64, state.proven);
    let outcomes = state.end(ended.as_ref(), refusal.as_ref(), held);
    connection.next += count;
    connection.proven = proven;
    connection.channel_closed = refusal.is_some_and(|refusal| refusal.is_of_the_channel());
    Ok(Sent { outcomes, lost: ended })
}

/// The exchanges of a batch that aren't there: asked for once, so that their messages cost the others nothing.
async fn missing(
    connection: &mut Connection,
    routing: &Routing,
    batch: &[Message],
    deadline: Deadline,
) -> Result<HashMap<String, Refusal>, PluginError> {
    let mut missing = HashMap::new();
    for message in batch {
        let Ok(target) = routing.target(message) else { continue };
        if connection.knows(target.exchange) || missing.contains_key(target.exchange) {
            continue;
        }
        if let Err(refusal) = connection.has_exchange(target.exchange, deadline).await? {
            missing.insert(target.exchange.to_owned(), refusal);
        }
    }
    Ok(missing)
}

fn silent() -> PluginError {
    PluginError::unavailable("RABBITMQ.CONFIRM_TIMEOUT", "the server didn't confirm the message in time")
}

/// A batch in conversation with the server.
struct Flight<'a> {
    incoming: &'a mut Incoming,
    encoder: Encoder,
    alarms: &'a Alarms,
    deadline: Deadline,
    window: usize,
    /// Longest time without a confirm.
    patience: Duration,
    state: State<'a>,
}

impl Side for Flight<'_> {
    fn outgoing(&mut self) -> Vec<u8> {
        let mut piece = self.incoming.due();
        if !self.alarms.any() && !self.state.call.cancelled() {
            let before = piece.len();
            self.state.write(&mut piece, self.encoder, self.window);
            if piece.len() > before {
                self.incoming.beat.spoke();
            }
        }
        piece
    }

    fn waits(&self) -> bool {
        // Asked to wait until the call is over: the connection stays, it is the one that learns when the alarm ends.
        let over = || self.held() && self.deadline.left().is_none_or(|left| left < 2 * HELD_PULSE_MS);
        self.state.waiting > 0 && !over()
    }

    fn incoming(&mut self, bytes: Vec<u8>) -> Result<(), PluginError> {
        let Self { incoming, state, .. } = self;
        incoming.push(bytes);
        incoming.drain(|event| state.take(event))?;
        state.tell_early();
        Ok(())
    }

    fn pulse(&self) -> Option<u32> {
        let held = self.held().then_some(HELD_PULSE_MS);
        let patience = u32::try_from(self.patience.as_millis()).ok();
        [held, self.incoming.beat.next(), patience].into_iter().flatten().min()
    }

    fn held(&self) -> bool {
        self.incoming.blocked().is_some()
    }

    fn overdue(&self) -> bool {
        self.state.waiting > 0 && !self.held() && self.state.moved.elapsed() > self.patience
    }
}

/// Where each message of the batch is.
struct State<'a> {
    call: &'a CallInfo,
    batch: &'a [Message],
    routing: &'a Routing,
    suspects: &'a Suspects,
    /// Exchanges that aren't there.
    missing: &'a HashMap<String, Refusal>,
    /// The place in the batch of each written message, in the order of their numbers.
    sent: Vec<usize>,
    /// Number of the first of them.
    first: u64,
    /// All of `sent` before this have a fate.
    oldest: usize,
    /// The first message of the batch that wasn't looked at yet.
    next: usize,
    /// Written, and without a fate.
    waiting: usize,
    /// What is under way has to be through before anything else goes out.
    alone: bool,
    /// Something was confirmed on this connection.
    proven: bool,
    outcomes: Outcomes<'a>,
    /// The last word on a message, or the last write.
    moved: Instant,
}

impl<'a> State<'a> {
    fn new(
        call: &'a CallInfo,
        batch: &'a [Message],
        routing: &'a Routing,
        suspects: &'a Suspects,
        missing: &'a HashMap<String, Refusal>,
        first: u64,
        proven: bool,
    ) -> Self {
        Self {
            call,
            batch,
            routing,
            suspects,
            missing,
            sent: Vec::with_capacity(batch.len()),
            first,
            oldest: 0,
            next: 0,
            waiting: 0,
            alone: false,
            proven,
            outcomes: Outcomes::new(call, batch.len()),
            moved: Instant::now(),
        }
    }

    /// Adds as many messages as the window lets out.
    fn write(&mut self, piece: &mut Vec<u8>, encoder: Encoder, window: usize) {
        while piece.len() < CHUNK_BYTES
            && self.waiting < window
            && !self.alone
            && let Some(message) = self.batch.get(self.next)
        {
            let suspect = self.suspects.has(message);
            if suspect && self.waiting > 0 {
                break;
            }
            let place = self.next;
            self.next += 1;
            let target = match self.routing.target(message) {
                Ok(target) => target,
                Err(fault) => {
                    self.settle(place, Outcome::Permanent(fault));
                    continue;
                }
            };
            if let Some(refusal) = self.missing.get(target.exchange) {
                self.settle(place, refusal.fate());
                continue;
            }
            match encoder.publish(piece, message, &target) {
                Ok(()) => {
                    self.sent.push(place);
                    self.waiting += 1;
                    self.alone = suspect || !self.proven;
                    self.moved = Instant::now();
                }
                Err(fault) => self.settle(place, Outcome::Permanent(fault)),
            }
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Confirm { tag, multiple, taken } => self.confirm(tag, multiple, taken),
            Event::Returned(content) => self.returned(&content),
            Event::Reply(..) => {}
        }
    }

    fn confirm(&mut self, tag: u64, multiple: bool, taken: bool) {
        // A word on messages of an earlier batch, given up then.
        let last = match tag.checked_sub(self.first).map(usize::try_from) {
            Some(Ok(index)) if index < self.sent.len() => index,
            // Zero is "all so far".
            None if multiple && tag == 0 && !self.sent.is_empty() => self.sent.len() - 1,
            _ => return,
        };
        let from = if multiple { self.oldest } else { last };
        for index in from..=last {
            let Some(&place) = self.sent.get(index) else { continue };
            if self.outcomes.is_open(place) {
                self.end_wait();
                self.settle(place, if taken { Outcome::Ack(Receipt::new()) } else { not_taken() });
            }
        }
        self.proven |= taken;
        while self.sent.get(self.oldest).is_some_and(|place| !self.outcomes.is_open(*place)) {
            self.oldest += 1;
        }
    }

    /// No queue takes it; its confirm comes later and says nothing more.
    fn returned(&mut self, content: &Content<'_>) {
        let is_it = |place: &&usize| {
            let Some(message) = self.batch.get(**place).filter(|_| self.outcomes.is_open(**place)) else {
                return false;
            };
            let header = |name| content.headers.and_then(|headers| headers.get(name));
            content.message_id == Some(message.id.as_bytes())
                && header(TENANT) == Some(Value::Text(message.tenant.as_bytes()))
                && header(ATTEMPT) == Some(Value::Number(i64::from(message.attempt)))
        };
        let Some(&place) = self.sent.iter().skip(self.oldest).find(is_it) else { return };
        let target = self.batch.get(place).and_then(|message| self.routing.target(message).ok());
        let Some(target) = target else { return };
        let reason = format!(
            "no queue is bound to exchange `{}` for routing key `{}`: bind one",
            target.exchange, target.routing_key
        );
        let fault = Fault::new("RABBITMQ.UNROUTABLE", reason).with_attribute("broker-code", "312");
        let outcome = match target.unroutable {
            Unroutable::DeadLetter => Outcome::Permanent(fault),
            Unroutable::Block | Unroutable::Accept => fault.blocking(""),
        };
        self.end_wait();
        self.settle(place, outcome);
    }

    fn end_wait(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
        self.moved = Instant::now();
        self.alone &= self.waiting > 0;
    }

    fn settle(&mut self, place: usize, outcome: Outcome) {
        if let Some(message) = self.batch.get(place) {
            self.suspects.clear(message);
            self.outcomes.settle(place, outcome);
        }
    }

    fn tell_early(&mut self) {
        if self.waiting > 0 || self.next < self.batch.len() {
            self.outcomes.tell_early();
        }
    }

    /// One outcome a message. `held`: why the server has asked to wait, if it has.
    fn end(mut self, lost: Option<&PluginError>, refusal: Option<&Refusal>, held: Option<&str>) -> Vec<Outcome> {
        if let Some(refusal) = refusal {
            self.blame(refusal);
        }
        let fault = match lost {
            Some(error) => Fault::new(error.fault.code.as_str(), error.fault.reason.as_str()),
            None => match held {
                Some(why) => asked_to_wait(why).fault,
                None => Fault::new("RABBITMQ.CANCELLED", "the host ended the call"),
            },
        };
        let mut written = vec![false; self.batch.len()];
        for place in &self.sent {
            if let Some(written) = written.get_mut(*place) {
                *written = true;
            }
        }
        self.outcomes.end(&fault, |place| written.get(place).copied().unwrap_or_default())
    }

    /// The server closed the channel or the connection: whose fault that is. It did so at one message, and looked at none
    /// behind it.
    fn blame(&mut self, refusal: &Refusal) {
        let open: Vec<usize> = self.sent.iter().copied().filter(|place| self.outcomes.is_open(*place)).collect();
        if let [place] = open.as_slice() {
            return self.settle(*place, refusal.fate());
        }
        let routing = self.routing;
        let is_about = |message: &Message| {
            routing.target(message).is_ok_and(|target| refusal.is_about(target.exchange, &target.routing_key))
        };
        let blamed = |place: &usize| self.batch.get(*place).is_some_and(is_about);
        if let Some(at) = open.iter().position(blamed) {
            for place in open.into_iter().skip(at) {
                let outcome = if blamed(&place) { refusal.fate() } else { Outcome::Release(refusal.error().fault) };
                self.settle(place, outcome);
            }
        } else if refusal.blames_a_message() {
            for message in open.iter().filter_map(|place| self.batch.get(*place)) {
                self.suspects.add(message);
            }
        }
    }
}

/// `basic.nack`: a queue is full and refuses, or the server failed. Another queue may have it.
fn not_taken() -> Outcome {
    let reason = "the server didn't take the message: a queue is full and refuses more, or the server has failed";
    Outcome::Retryable(Fault::new("RABBITMQ.NACK", reason).with_maybe_delivered(true))
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
