//! What a server says on a connection, and what of it concerns the connection itself: heartbeats, alarms, goodbyes.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use waybill_plugin::broker::Link;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::control;
use waybill_plugin::net::Input;
use waybill_plugin::transport::{ErrorKind, Fault, Health, HealthReport, PluginError};

use crate::codec::{self, Content, HEADER, METHOD, Method};
use crate::connection::{ASIDE, CHANNEL};
use crate::refusal::{Refusal, Scope};
use crate::text::shown;
use crate::wire;

const CHANNEL_FLOW_OK: (u16, u16) = (20, 21);
const CHANNEL_CLOSE_OK: (u16, u16) = (20, 41);
/// Largest body that is taken; of a larger one only the size is told.
const BODY_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// When a server that has asked to wait is looked at again, in milliseconds.
const BLOCKED_AFTER_MS: u32 = 2_000;

/// How many connections the server has asked to wait; the host is told when it becomes one, and none. Each takes itself out
/// again when it ends.
#[derive(Clone, Debug, Default)]
pub struct Alarms(Rc<Cell<usize>>);

impl Alarms {
    /// Whether the server has asked at least one connection to wait.
    pub fn any(&self) -> bool {
        self.0.get() > 0
    }

    fn begin(&self, reason: &str) {
        self.0.set(self.0.get() + 1);
        if self.0.get() == 1 {
            control::report_health(&HealthReport::new(Health::Blocked, format!("the server asks to wait: {reason}")));
        }
    }

    fn end(&self) {
        self.0.set(self.0.get().saturating_sub(1));
        if self.0.get() == 0 {
            control::report_health(&HealthReport::new(Health::Ready, "the server takes messages again"));
        }
    }
}

/// What a server said that its caller has to look at.
pub enum Event<'a> {
    /// A word on messages up to or with this number.
    Confirm {
        /// Number of the message on its channel.
        tag: u64,
        /// All up to it.
        multiple: bool,
        /// Whether the server took it.
        taken: bool,
    },
    /// No queue takes this message.
    Returned(Content<'a>),
    /// An answer to a question of the connection's own.
    Reply(u16, Method<'a>),
}

/// A message of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Number of the delivery on its channel, for settling it.
    pub tag: u64,
    /// It was delivered before, to us or to another consumer.
    pub redelivered: bool,
    /// Exchange it was published to.
    pub exchange: Vec<u8>,
    /// Routing key it was published with.
    pub routing_key: Vec<u8>,
    /// Its content header, for [`codec::content`].
    pub header: Vec<u8>,
    /// What it holds; empty if it is too large to be taken.
    pub body: Vec<u8>,
    /// Bytes of a body that is too large.
    pub omitted: Option<u64>,
}

/// What comes in, and what of it concerns the connection itself.
pub struct Incoming {
    input: Input,
    /// Signs of life of both sides.
    pub beat: Beat,
    alarms: Alarms,
    blocked: Option<String>,
    /// Why the server closed the connection or the channel for messages.
    pub refusal: Option<Refusal>,
    /// Messages of a queue, whole. They wait here until their consumer takes them, whoever reads meanwhile.
    pub delivered: VecDeque<Delivered>,
    /// A message that isn't through: its content header, then bytes of its body, are to come.
    arriving: Arriving,
    /// Bodies of what comes are left out: all of it will be given back.
    pub skips_bodies: bool,
    /// The server closed the channel for questions.
    aside_ended: bool,
    /// Frames that answer the server.
    pub due: Vec<u8>,
}

/// What of a message is to come. A returned one has no delivery.
enum Arriving {
    Nothing,
    Header(Option<Delivered>),
    Body(u64, Option<Delivered>),
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.set_blocked(None);
    }
}

impl Incoming {
    /// For a connection whose alarms are counted with those of the others of its instance.
    pub fn new(alarms: Alarms) -> Self {
        Self {
            input: Input::new(),
            beat: Beat::every(0),
            alarms,
            blocked: None,
            refusal: None,
            delivered: VecDeque::new(),
            arriving: Arriving::Nothing,
            skips_bodies: false,
            aside_ended: false,
            due: Vec::new(),
        }
    }

    /// Takes what was read.
    pub fn push(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.beat.heard();
            self.input.push(bytes);
        }
    }

    /// Why the server has asked us to wait, if it has.
    pub fn blocked(&self) -> Option<&str> {
        self.blocked.as_deref()
    }

    /// What is to be written on the connection's own account: answers, and a heartbeat where one is due.
    pub fn due(&mut self) -> Vec<u8> {
        let mut due = std::mem::take(&mut self.due);
        if due.is_empty() && self.beat.is_due() {
            wire::heartbeat(&mut due);
        }
        if !due.is_empty() {
            self.beat.spoke();
        }
        due
    }

    /// Goes through everything that is there whole.
    ///
    /// # Errors
    /// The server closed the connection or the channel for messages (see `refusal`), or speaks no AMQP.
    pub fn drain(&mut self, mut on: impl FnMut(Event<'_>)) -> Result<(), PluginError> {
        let mut input = std::mem::take(&mut self.input);
        let done = loop {
            match codec::next(input.unread()) {
                Ok(Some((frame, length))) => {
                    if let Err(error) = self.frame(&frame, &mut on) {
                        break Err(error);
                    }
                    input.consume(length);
                }
                Ok(None) => break Ok(()),
                Err(garbage) => break Err(no_amqp(garbage)),
            }
        };
        self.input = input;
        done
    }

    fn frame(&mut self, frame: &codec::Frame<'_>, on: &mut impl FnMut(Event<'_>)) -> Result<(), PluginError> {
        if frame.kind == codec::HEARTBEAT {
            return Ok(());
        }
        match (frame.kind, std::mem::replace(&mut self.arriving, Arriving::Nothing)) {
            (METHOD, Arriving::Nothing) => {
                let method = codec::method(frame.payload).map_err(no_amqp)?;
                self.method(frame.channel, method, on)
            }
            (HEADER, Arriving::Header(delivered)) if frame.channel == CHANNEL => {
                let content = codec::content(frame.payload).map_err(no_amqp)?;
                let delivered = match delivered {
                    Some(delivered) => {
                        let omitted = (self.skips_bodies || content.body > BODY_BYTES_MAX).then_some(content.body);
                        Some(Delivered { header: frame.payload.to_vec(), omitted, ..delivered })
                    }
                    None => {
                        on(Event::Returned(content));
                        None
                    }
                };
                self.arrived(content.body, delivered);
                Ok(())
            }
            (codec::BODY, Arriving::Body(left, mut delivered)) if frame.channel == CHANNEL => {
                if let Some(delivered) = delivered.as_mut().filter(|delivered| delivered.omitted.is_none()) {
                    delivered.body.extend_from_slice(frame.payload);
                }
                self.arrived(left.saturating_sub(frame.payload.len() as u64), delivered);
                Ok(())
            }
            _ => Err(no_amqp(codec::Garbage("a frame out of place"))),
        }
    }

    /// So many bytes of a body are still to come.
    fn arrived(&mut self, left: u64, delivered: Option<Delivered>) {
        match (left, delivered) {
            (0, Some(delivered)) => self.delivered.push_back(delivered),
            (0, None) => {}
            (left, delivered) => self.arriving = Arriving::Body(left, delivered),
        }
    }

    fn method(&mut self, channel: u16, method: Method<'_>, on: &mut impl FnMut(Event<'_>)) -> Result<(), PluginError> {
        match method {
            Method::Confirm { tag, multiple, taken } => on(Event::Confirm { tag, multiple, taken }),
            Method::Return(_) => self.arriving = Arriving::Header(None),
            Method::Deliver(deliver) => {
                self.arriving = Arriving::Header(Some(Delivered {
                    tag: deliver.tag,
                    redelivered: deliver.redelivered,
                    exchange: deliver.exchange.to_vec(),
                    routing_key: deliver.routing_key.to_vec(),
                    ..Delivered::default()
                }));
            }
            Method::Blocked(reason) => self.set_blocked(Some(shown(&String::from_utf8_lossy(reason)))),
            Method::Unblocked => self.set_blocked(None),
            Method::Flow(active) => {
                // What RabbitMQ did before `connection.blocked`, and other servers do.
                self.set_blocked((!active).then(|| "flow control".to_owned()));
                wire::method(&mut self.due, channel, CHANNEL_FLOW_OK, |out| out.push(u8::from(active)));
            }
            Method::Close(closing) => return Err(self.refuse(Refusal::new(Scope::Connection, &closing))),
            Method::ChannelClose(closing) if channel == CHANNEL => {
                return Err(self.refuse(Refusal::new(Scope::Channel, &closing)));
            }
            method => {
                if channel == ASIDE && matches!(method, Method::ChannelClose(_)) {
                    self.aside_ended = true;
                    wire::bare(&mut self.due, ASIDE, CHANNEL_CLOSE_OK);
                }
                on(Event::Reply(channel, method));
            }
        }
        Ok(())
    }

    /// Whether the server closed the channel for questions since this was asked last.
    pub(crate) fn take_aside_ended(&mut self) -> bool {
        std::mem::take(&mut self.aside_ended)
    }

    fn refuse(&mut self, refusal: Refusal) -> PluginError {
        let error = refusal.error();
        self.refusal = Some(refusal);
        error
    }

    fn set_blocked(&mut self, reason: Option<String>) {
        match (&self.blocked, &reason) {
            (None, Some(reason)) => self.alarms.begin(reason),
            (Some(_), None) => self.alarms.end(),
            _ => {}
        }
        self.blocked = reason;
    }

    /// Reads until `pick` finds what it wants.
    pub async fn wait<T>(
        &mut self,
        link: &Link,
        deadline: Deadline,
        mut pick: impl FnMut(u16, &Method<'_>) -> Option<T>,
    ) -> Result<T, PluginError> {
        loop {
            let mut found = None;
            self.drain(|event| {
                if let (None, Event::Reply(channel, method)) = (&found, event) {
                    found = pick(channel, &method);
                }
            })?;
            if let Some(found) = found {
                return Ok(found);
            }
            self.push(link.receive(deadline).await?);
        }
    }
}

/// Signs of life of both sides.
pub struct Beat {
    /// Agreed; none = no heartbeats.
    pub every: Option<Duration>,
    spoke: Instant,
    heard: Instant,
}

impl Beat {
    /// One in so many seconds; 0 = none.
    pub fn every(seconds: u16) -> Self {
        let every = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
        Self { every, spoke: Instant::now(), heard: Instant::now() }
    }

    fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Something is about to be written.
    pub fn spoke(&mut self) {
        self.spoke = Instant::now();
    }

    fn is_due(&self) -> bool {
        self.every.is_some_and(|every| self.spoke.elapsed() >= every / 2)
    }

    /// Two beats were missed (section 4.2.7).
    pub fn is_dead(&self) -> bool {
        self.every.is_some_and(|every| self.heard.elapsed() > every * 2)
    }

    /// Whether the server has said nothing since then.
    pub fn is_silent_since(&self, then: Instant) -> bool {
        self.heard <= then
    }

    /// Milliseconds until the next one is due.
    pub fn next(&self) -> Option<u32> {
        let left = (self.every? / 2).saturating_sub(self.spoke.elapsed()).as_millis();
        Some(u32::try_from(left).unwrap_or(u32::MAX).max(1))
    }
}

/// The server has asked to wait.
pub fn asked_to_wait(why: &str) -> PluginError {
    let why = if why.is_empty() { "a resource alarm" } else { why };
    let reason = format!("the server asks to wait: {why}");
    PluginError::new(ErrorKind::Throttled, Fault::new("RABBITMQ.BLOCKED", reason).with_after(Some(BLOCKED_AFTER_MS)))
}

fn no_amqp(codec::Garbage(what): codec::Garbage) -> PluginError {
    PluginError::unavailable("RABBITMQ.PROTOCOL", format!("who answers there speaks no AMQP 0-9-1: {what}"))
}

#[cfg(test)]
#[path = "incoming_tests.rs"]
mod tests;
