//! A message as `XADD`, or as a call of the script that adds it once: its envelope and its payload as fields.

use std::convert::Infallible;
use std::time::{SystemTime, UNIX_EPOCH};

use waybill_plugin::broker::{Part, envelope};
use waybill_plugin::transport::{Fault, Message};
use waybill_redis_wire::command::{push_head, push_text};

use crate::config::{Keys, Trim};
use crate::dedup::{self, SCRIPT, SHA1};
use crate::template::Template;

/// Goes before a header's name, so that it is never taken for a field of the envelope.
const HEADER: &[u8] = b"h:";

/// What goes into every message.
pub(crate) struct Encoder {
    template: Template,
    create_streams: bool,
    trim: Trim,
    /// Milliseconds for which ids are remembered.
    remembers: Option<u32>,
    /// Most bytes of one text.
    pub(crate) max_payload: usize,
    /// Whether the server is believed to have the script.
    pub(crate) knows_script: bool,
    /// Below which entries are taken away, if by age.
    oldest: Option<u64>,
    /// The stream of the message at hand, its id's key, and its arguments: kept for their allocations.
    stream: String,
    key: String,
    arguments: Arguments,
}

#[derive(Default)]
struct Arguments {
    bytes: Vec<u8>,
    count: usize,
}

impl Arguments {
    fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    fn push(&mut self, text: impl AsRef<[u8]>) {
        push_text(&mut self.bytes, text.as_ref());
        self.count += 1;
    }

    fn number(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number));
    }

    fn field(&mut self, name: &str, value: &str) {
        self.push(name);
        self.push(value);
    }

    fn header(&mut self, name: &str, value: &str) {
        push_head(&mut self.bytes, b'$', HEADER.len() + name.len());
        for part in [HEADER, name.as_bytes(), b"\r\n"] {
            self.bytes.extend_from_slice(part);
        }
        self.count += 1;
        self.push(value);
    }
}

impl Encoder {
    pub(crate) fn new(config: &Keys, template: Template, max_payload: usize) -> Self {
        Self {
            template,
            create_streams: config.create_streams,
            trim: config.trim,
            remembers: config.remembers(),
            max_payload,
            knows_script: false,
            oldest: None,
            stream: String::new(),
            key: String::new(),
            arguments: Arguments::default(),
        }
    }

    /// Whether a stream that isn't there is made.
    pub(crate) fn creates_streams(&self) -> bool {
        self.create_streams
    }

    /// Looks at the clock, for what is too old. Once for many messages.
    pub(crate) fn tick(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        self.oldest = self.trim.max_age.map(|age| now.saturating_sub(u64::from(age)));
    }

    /// The key of a message's stream.
    ///
    /// # Errors
    /// It has none.
    pub(crate) fn stream(&mut self, message: &Message) -> Result<&str, Fault> {
        self.template.write(message, &mut self.stream).map_err(|why| Fault::new("REDIS.STREAM", why))?;
        Ok(&self.stream)
    }

    /// Adds one message to `out`. A server that doesn't know the script gets it whole.
    ///
    /// # Errors
    /// It can never be sent so; `out` is as it was.
    pub(crate) fn add(&mut self, out: &mut Vec<u8>, message: &Message) -> Result<(), Fault> {
        self.stream(message)?;
        let payload = message.payload.as_slice();
        if payload.len() > self.max_payload {
            let reason = format!("the payload has {} bytes, the server takes {}", payload.len(), self.max_payload);
            return Err(Fault::new("REDIS.MAX_PAYLOAD", reason));
        }
        self.arguments.clear();
        self.command(message);
        self.envelope(message);
        for (name, value) in &message.headers {
            self.arguments.header(name, value);
        }
        self.arguments.push("payload");
        out.reserve(self.arguments.bytes.len() + payload.len() + 32);
        push_head(out, b'*', self.arguments.count + 1);
        out.extend_from_slice(&self.arguments.bytes);
        push_text(out, payload);
        Ok(())
    }

    /// Everything before the fields.
    fn command(&mut self, message: &Message) {
        let arguments = &mut self.arguments;
        if let Some(window) = self.remembers {
            if self.knows_script {
                arguments.field("EVALSHA", SHA1);
            } else {
                arguments.field("EVAL", SCRIPT);
                self.knows_script = true;
            }
            dedup::write_key(message, &self.stream, &mut self.key);
            arguments.push("2");
            arguments.push(&self.stream);
            arguments.push(&self.key);
            arguments.number(u64::from(window));
        } else {
            arguments.push("XADD");
            arguments.push(&self.stream);
        }
        if !self.create_streams {
            arguments.push("NOMKSTREAM");
        }
        let least = self.trim.max_len.map(|len| ("MAXLEN", len)).or(self.oldest.map(|oldest| ("MINID", oldest)));
        if let Some((strategy, threshold)) = least {
            arguments.push(strategy);
            arguments.push(if self.trim.exact { "=" } else { "~" });
            arguments.number(threshold);
        }
        arguments.push("*");
    }

    /// The id, and the envelope without the beginning that keeps headers apart: fields have names of their own.
    fn envelope(&mut self, message: &Message) {
        let arguments = &mut self.arguments;
        arguments.field("id", &message.id);
        let Ok(()) = envelope(message, |name, part| {
            arguments.push(name.strip_prefix("x-").unwrap_or(name));
            match part {
                Part::Text(text) => arguments.push(text),
                Part::Number(number) => arguments.number(u64::from(number)),
            }
            Ok::<_, Infallible>(())
        });
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
pub(crate) mod tests;
