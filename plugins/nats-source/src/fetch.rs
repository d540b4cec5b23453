//! One pull over one connection: a request to the consumer, and what it delivers until it says that this was all.
//!
//! A request has `no_wait` and an expiry: the server waits for the first message, and ends the request when it has no more. So
//! nothing is on its way when the pull ends, and nothing is fetched ahead of what was asked for.

use std::time::Instant;

use serde_json::json;
use waybill_nats_wire::codec::Message;
use waybill_nats_wire::{Event, Incoming, PONG, no_publish, shown};
use waybill_plugin::exchange::{Bounds, Broken, Side, exchange};
use waybill_plugin::source::Delivery;
use waybill_plugin::transport::{ErrorKind, Fault, PluginError};

use crate::Connection;
use crate::ack::Metadata;
use crate::delivery::delivery;

/// Shortest expiry, in milliseconds: without one, a request hangs while too much is unsettled.
const WAIT_MS_MIN: u32 = 10;
/// Requests of one pull at most: the first, and those that take its place when the server refuses it.
const REQUESTS_MAX: u64 = 4;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) messages: u32,
    /// Most bytes of them together.
    pub(crate) bytes: u32,
    /// Milliseconds to wait for the first.
    pub(crate) wait: u32,
    /// Largest payload that is handed over. One that is alone may be larger than `bytes`.
    pub(crate) payload: u32,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// As many came as were asked for.
    Whole,
    /// No more were waiting, or none came in time.
    Drained,
    /// The request ended before its time, e.g. because the consumer moved to another server.
    Cut,
    /// The consumer isn't there any more.
    Gone,
    /// The server doesn't take the request.
    Refused(PluginError),
}

/// What one pull brought.
pub(crate) struct Fetched {
    pub(crate) deliveries: Vec<(Metadata, Delivery)>,
    /// None: the connection ended before the request did.
    pub(crate) end: Option<End>,
    /// Why the connection is of no more use if it isn't.
    pub(crate) lost: Option<PluginError>,
    /// The server said nothing for too long, and the connection is alive.
    pub(crate) is_silent: bool,
}

/// Asks the consumer behind `subject` for messages.
pub(crate) async fn fetch(connection: &mut Connection, subject: &str, wanted: Wanted, bounds: Bounds) -> Fetched {
    let first = connection.take_numbers(usize::try_from(REQUESTS_MAX).unwrap_or(usize::MAX));
    let (stream, incoming) = connection.split();
    let inbox = incoming.inbox().to_owned();
    let mut fetching = Fetching { incoming, request: Request::new(subject, inbox, first, wanted) };
    let ended = exchange(stream, &mut fetching, bounds).await.err();
    let is_silent = matches!(ended, Some(Broken::Silent));
    let request = fetching.request;
    Fetched { deliveries: request.deliveries, end: request.end, lost: ended.map(Connection::broken), is_silent }
}

struct Fetching<'a> {
    incoming: &'a mut Incoming,
    request: Request,
}

impl Side for Fetching<'_> {
    fn outgoing(&mut self) -> Vec<u8> {
        let mut piece = std::mem::take(&mut self.request.due);
        if self.incoming.take_pong_due() {
            piece.extend_from_slice(PONG);
        }
        piece
    }

    fn waits(&self) -> bool {
        self.request.end.is_none()
    }

    fn incoming(&mut self, bytes: Vec<u8>) -> Result<(), PluginError> {
        self.incoming.push(bytes);
        let request = &mut self.request;
        self.incoming.drain(|event| request.take(event))?;
        Ok(())
    }
}

/// A request, and those that took its place.
struct Request {
    subject: String,
    /// Subject prefix of answers.
    inbox: String,
    wanted: Wanted,
    began: Instant,
    /// Number of the request under way.
    number: u64,
    /// The last number that may be used.
    last: u64,
    /// Messages that it may still bring.
    left: u32,
    /// To be written.
    due: Vec<u8>,
    deliveries: Vec<(Metadata, Delivery)>,
    end: Option<End>,
}

impl Request {
    fn new(subject: &str, inbox: String, first: u64, wanted: Wanted) -> Self {
        let mut request = Self {
            subject: subject.to_owned(),
            inbox,
            wanted,
            began: Instant::now(),
            number: first,
            last: first + REQUESTS_MAX - 1,
            left: 0,
            due: Vec::new(),
            deliveries: Vec::new(),
            end: None,
        };
        let expires = request.expires();
        request.write(
            wanted.messages,
            &json!({ "batch": wanted.messages, "no_wait": true, "expires": expires, "max_bytes": wanted.bytes }),
        );
        request
    }

    /// Nanoseconds that are left to wait.
    fn expires(&self) -> u64 {
        let gone = u32::try_from(self.began.elapsed().as_millis()).unwrap_or(u32::MAX);
        u64::from(self.wanted.wait.saturating_sub(gone).max(WAIT_MS_MIN)) * 1_000_000
    }

    fn write(&mut self, messages: u32, body: &serde_json::Value) {
        self.left = messages;
        let body = body.to_string();
        let line = format!("PUB {} {}{} {}\r\n{body}\r\n", self.subject, self.inbox, self.number, body.len());
        self.due.extend_from_slice(line.as_bytes());
    }

    /// Another request takes the place of one that was refused.
    fn again(&mut self, body: &serde_json::Value) {
        if self.number >= self.last {
            self.end = Some(End::Cut);
            return;
        }
        self.number += 1;
        self.write(1, body);
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            _ if self.end.is_some() => {}
            Event::Delivery(message) => self.message(&message),
            Event::Answer(number, message) if number == self.number => self.status(&message),
            Event::NoPublish(subject) if subject == self.subject => {
                self.end = Some(End::Refused(PluginError::denied("NATS.PERMISSIONS", no_publish(&subject))));
            }
            _ => {}
        }
    }

    fn message(&mut self, message: &Message<'_>) {
        let subject = String::from_utf8_lossy(message.reply);
        let Some(metadata) = Metadata::parse(&subject) else { return };
        self.deliveries.push((metadata, delivery(message, &metadata, self.wanted.payload)));
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.end = Some(End::Whole);
        }
    }

    /// What the server says instead of a message, or behind the last one.
    fn status(&mut self, message: &Message<'_>) {
        let text = message.status_text();
        let says = |part: &str| text.contains(part);
        match message.status() {
            // A heartbeat.
            Some(100) => {}
            // Others wait already: in a queue with them.
            Some(408) if says("Requests Pending") => {
                let expires = self.expires();
                self.again(&json!({ "batch": 1, "expires": expires }));
            }
            Some(404 | 408) => self.end = Some(End::Drained),
            // The first one alone is larger than all may be: it is told by its size.
            Some(409) if says("MaxBytes") && self.deliveries.is_empty() => {
                let expires = self.expires();
                self.again(&json!({ "batch": 1, "no_wait": true, "expires": expires }));
            }
            Some(409) if says("MaxBytes") => self.end = Some(End::Whole),
            Some(409) if says("Leadership Change") || says("Server Shutdown") || says("MaxWaiting") => {
                self.end = Some(End::Cut);
            }
            Some(409) if says("Consumer Deleted") => self.end = Some(End::Gone),
            Some(503) => self.end = Some(End::Gone),
            status => {
                let reason = format!("the server refused the request for messages: {}", shown(&text));
                let fault = Fault::new("NATS.CONSUMER", reason)
                    .with_attribute("broker-code", status.unwrap_or_default().to_string());
                self.end = Some(End::Refused(PluginError::new(ErrorKind::InvalidConfig, fault)));
            }
        }
    }
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
