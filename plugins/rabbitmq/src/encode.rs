//! A message as `basic.publish` with its content: its envelope in properties and headers, its payload in as many frames as it takes.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use waybill_plugin::broker::{Part, envelope, is_envelope};
use waybill_plugin::transport::{Fault, Message};

use waybill_rabbitmq_wire::codec::{
    BODY, CONTENT_TYPE, CORRELATION_ID, DELIVERY_MODE, EXPIRATION, FRAME_OVERHEAD, HEADER, HEADERS, MESSAGE_ID,
    PRIORITY, REPLY_TO, TIMESTAMP, TYPE,
};
use waybill_rabbitmq_wire::wire::{SHORT_BYTES_MAX, frame, method, number_entry, short, table, text_entry};
use waybill_rabbitmq_wire::{CHANNEL, shown};

use crate::routing::{Target, Unroutable};

const BASIC: u16 = 60;
const PUBLISH: (u16, u16) = (BASIC, 40);
/// Bit of `basic.publish`: what no queue takes comes back.
const MANDATORY: u8 = 1;
/// Delivery mode of a message that a durable queue keeps on disk.
const PERSISTENT: u8 = 2;
const TRANSIENT: u8 = 1;

/// A reply address that RabbitMQ takes for a command about its own consumers (direct reply-to).
const DIRECT_REPLY_TO: &str = "amq.rabbitmq.reply-to";

/// Header with the number of the attempt.
pub(crate) const ATTEMPT: &str = "x-attempt";
/// Header with whose message it is.
pub(crate) const TENANT: &str = "x-tenant";

/// Headers by which RabbitMQ routes, counts deliveries and tells where a message has been: a caller's are left out.
const COMMANDS: &[&str] = &["BCC", "CC", "x-death", "x-delivery-count", "x-received-from"];
/// Beginnings of such names.
const COMMAND_PREFIXES: &[&str] = &["x-first-death-", "x-last-death-"];

/// What goes for every message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoder {
    /// Most bytes of a frame, with what is around its payload.
    pub(crate) frame_max: usize,
    /// Whether the server keeps messages on disk.
    pub(crate) persistent: bool,
}

impl Encoder {
    /// Adds one message to `out`.
    ///
    /// # Errors
    /// It can never be sent so; `out` is as it was.
    pub(crate) fn publish(&self, out: &mut Vec<u8>, message: &Message, target: &Target<'_>) -> Result<(), Fault> {
        let start = out.len();
        let written = self.write(out, message, target);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn write(&self, out: &mut Vec<u8>, message: &Message, target: &Target<'_>) -> Result<(), Fault> {
        out.reserve(message.payload.len() + 1024);
        method(out, CHANNEL, PUBLISH, |out| {
            out.extend_from_slice(&[0, 0]);
            short(out, target.exchange);
            short(out, &target.routing_key);
            out.push(if target.unroutable == Unroutable::Accept { 0 } else { MANDATORY });
        });
        let head = out.len();
        let mut wrong = None;
        frame(out, HEADER, CHANNEL, |out| {
            out.extend_from_slice(&BASIC.to_be_bytes());
            out.extend_from_slice(&[0, 0]);
            out.extend_from_slice(&(message.payload.len() as u64).to_be_bytes());
            wrong = self.properties(out, message).err();
        });
        if let Some(fault) = wrong {
            return Err(fault);
        }
        let head = out.len() - head;
        if head > self.frame_max {
            let reason = format!("headers have {head} bytes, they must fit into a frame of {}", self.frame_max);
            return Err(Fault::new("RABBITMQ.HEADERS_TOO_LARGE", reason));
        }
        for part in message.payload.chunks(self.frame_max - FRAME_OVERHEAD) {
            frame(out, BODY, CHANNEL, |out| out.extend_from_slice(part));
        }
        Ok(())
    }

    fn properties(&self, out: &mut Vec<u8>, message: &Message) -> Result<(), Fault> {
        let content_type = message.content_type.as_deref().filter(|text| fits(text));
        let correlation_id = message.correlation_id.as_deref().filter(|text| fits(text));
        let reply_to = message.reply_to.as_deref().filter(|text| fits(text) && !text.starts_with(DIRECT_REPLY_TO));
        let event_type = message.event_type.as_deref().filter(|text| fits(text));
        let priority = message.attribute("priority").and_then(|text| text.parse::<u8>().ok());
        let expiration = message.expires_at.map(time_left);
        let mut flags = HEADERS | DELIVERY_MODE | MESSAGE_ID | TIMESTAMP;
        for (flag, there) in [
            (CONTENT_TYPE, content_type.is_some()),
            (PRIORITY, priority.is_some()),
            (CORRELATION_ID, correlation_id.is_some()),
            (REPLY_TO, reply_to.is_some()),
            (EXPIRATION, expiration.is_some()),
            (TYPE, event_type.is_some()),
        ] {
            if there {
                flags |= flag;
            }
        }
        if !fits(&message.id) {
            return Err(Fault::new("RABBITMQ.MESSAGE_ID", format!("the id is longer than {SHORT_BYTES_MAX} bytes")));
        }
        out.extend_from_slice(&flags.to_be_bytes());
        if let Some(content_type) = content_type {
            short(out, content_type);
        }
        let mut wrong = None;
        table(out, |out| wrong = headers(out, message).err());
        if let Some(fault) = wrong {
            return Err(fault);
        }
        out.push(if self.persistent { PERSISTENT } else { TRANSIENT });
        if let Some(priority) = priority {
            out.push(priority);
        }
        for text in [correlation_id, reply_to, expiration.as_deref(), Some(message.id.as_str())].into_iter().flatten() {
            short(out, text);
        }
        out.extend_from_slice(&(message.created_at / 1_000).to_be_bytes());
        if let Some(event_type) = event_type {
            short(out, event_type);
        }
        Ok(())
    }
}

/// The envelope's headers, then the caller's.
fn headers(out: &mut Vec<u8>, message: &Message) -> Result<(), Fault> {
    envelope(message, |name, part| {
        match part {
            Part::Text(text) if has_property(name, text) => {}
            Part::Text(text) => text_entry(out, name, text),
            Part::Number(number) => number_entry(out, name, i64::from(number)),
        }
        Ok(())
    })?;
    for (place, (name, value)) in message.headers.iter().enumerate() {
        if is_ours(name, message) {
            continue;
        }
        if name.is_empty() || !fits(name) {
            let reason = format!("`{}` is no header name: one to {SHORT_BYTES_MAX} bytes", shown(name));
            return Err(Fault::new("RABBITMQ.HEADER", reason));
        }
        let same = |(other, _): &&(String, String)| other == name;
        // A table has each name once: what repeats is joined, as in HTTP.
        if message.headers.iter().take(place).any(|header| same(&header)) {
            continue;
        }
        let mut more = message.headers.iter().skip(place + 1).filter(same).peekable();
        let mut value = Cow::Borrowed(value.as_str());
        if more.peek().is_some() {
            for (_, next) in more {
                let value = value.to_mut();
                value.push_str(", ");
                value.push_str(next);
            }
        }
        text_entry(out, name, &value);
    }
    Ok(())
}

/// Whether a part of the envelope is a property: it is a header only where it doesn't fit there.
fn has_property(name: &str, text: &str) -> bool {
    match name {
        "x-event-type" | "x-correlation-id" | "content-type" => fits(text),
        "x-reply-to" => fits(text) && !text.starts_with(DIRECT_REPLY_TO),
        _ => false,
    }
}

/// Whether a caller's header would take the place of the envelope's, or command the server.
fn is_ours(name: &str, message: &Message) -> bool {
    is_envelope(message, name)
        || COMMANDS.contains(&name)
        || COMMAND_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn fits(text: &str) -> bool {
    text.len() <= SHORT_BYTES_MAX
}

/// Milliseconds until then, at least one, as RabbitMQ wants them: text.
fn time_left(until: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let left = until.saturating_sub(u64::try_from(now).unwrap_or(u64::MAX));
    // RabbitMQ takes no more.
    left.clamp(1, u64::from(u32::MAX)).to_string()
}

#[cfg(test)]
#[path = "encode_tests.rs"]
pub(crate) mod tests;
