//! A message as `HPUB`: its envelope in headers, its payload as it is.

use std::fmt::Write as _;

use waybill_nats_wire::{shown, subject};
use waybill_plugin::broker::{Part, envelope, is_envelope};
use waybill_plugin::transport::{Fault, Message};

/// Version line of a header block.
const VERSION: &str = "NATS/1.0\r\n";

/// Prefix of headers that command JetStream (`Nats-Rollup` purges a subject): a caller's are left out.
const COMMANDS: &str = "nats-";

/// What goes into every message of a batch.
pub(crate) struct Encoder<'a> {
    /// Subject prefix of replies, with its final dot.
    inbox: String,
    /// The stream that has to take it.
    stream: Option<&'a str>,
    /// Most bytes of headers and payload together.
    pub(crate) max_payload: usize,
    /// Header block of the message at hand; kept for its allocation.
    scratch: String,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(inbox: String, stream: Option<&'a str>, max_payload: usize) -> Self {
        Self { inbox, stream, max_payload, scratch: String::with_capacity(1024) }
    }

    /// Adds one message to `out`; its acknowledgement comes to the inbox with this number.
    ///
    /// # Errors
    /// It can never be sent so; `out` is as it was.
    pub(crate) fn publish(&mut self, out: &mut Vec<u8>, message: &Message, number: u64) -> Result<(), Fault> {
        subject::check(&message.destination)
            .map_err(|why| Fault::new("NATS.SUBJECT", format!("subject `{}` {why}", shown(&message.destination))))?;
        self.headers(message)?;
        let total = self.scratch.len() + message.payload.len();
        if total > self.max_payload {
            let reason = format!("headers and payload have {total} bytes, the server takes {}", self.max_payload);
            return Err(Fault::new("NATS.MAX_PAYLOAD", reason));
        }
        out.reserve(message.destination.len() + self.inbox.len() + total + 64);
        out.extend_from_slice(b"HPUB ");
        out.extend_from_slice(message.destination.as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.inbox.as_bytes());
        for part in [number, self.scratch.len() as u64, total as u64] {
            push_number(out, part);
            out.push(b' ');
        }
        out.pop();
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.scratch.as_bytes());
        out.extend_from_slice(&message.payload);
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn headers(&mut self, message: &Message) -> Result<(), Fault> {
        self.scratch.clear();
        self.scratch.push_str(VERSION);
        self.header("Nats-Msg-Id", &message.id)?;
        if let Some(stream) = self.stream {
            self.header("Nats-Expected-Stream", stream)?;
        }
        envelope(message, |name, part| match part {
            Part::Text(value) => self.header(name, value),
            Part::Number(number) => {
                // Writing to a String can't fail.
                let _ = write!(self.scratch, "{name}: {number}\r\n");
                Ok(())
            }
        })?;
        for (name, value) in &message.headers {
            let is_command = name.get(..COMMANDS.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(COMMANDS));
            if !is_command && !is_envelope(message, name) {
                self.header(name, value)?;
            }
        }
        self.scratch.push_str("\r\n");
        Ok(())
    }

    fn header(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':') {
            let reason = format!("`{}` is no header name: letters, digits and signs but `:`", shown(name));
            return Err(Fault::new("NATS.HEADER", reason));
        }
        if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            let reason = format!("the value of header `{}` holds a line break", shown(name));
            return Err(Fault::new("NATS.HEADER", reason));
        }
        for part in [name, ": ", value, "\r\n"] {
            self.scratch.push_str(part);
        }
        Ok(())
    }
}

/// Decimal digits, without the machinery of formatting: this runs three times a message.
fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let start = out.len();
    loop {
        // A digit fits into a byte.
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
