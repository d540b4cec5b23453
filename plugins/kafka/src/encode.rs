//! A message as a record: its id, its envelope and its caller's headers as headers, its key, its payload.

use std::convert::Infallible;

use waybill_kafka_wire::batch::{Filling, Record, push_header};
use waybill_plugin::broker::{Part, envelope, is_envelope};
use waybill_plugin::transport::Message;

/// Header with the message's id.
pub(crate) const ID: &str = "id";

/// What a record takes beside its payload, key and headers: its numbers, at their longest.
const NUMBERS_BYTES_MAX: usize = 40;

/// Writes records. Kept for its allocation.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    headers: Vec<u8>,
}

impl Encoder {
    /// Adds a message to a batch, unless that would make it longer than `most` bytes. One alone may be longer.
    ///
    /// Its record has the time at which it goes, in milliseconds of Unix: a topic keeps it for as long as it says, however long
    /// the message waited before.
    pub(crate) fn add(&mut self, batch: &mut Filling, message: &Message, most: usize, now: i64) -> bool {
        let count = self.write_headers(message);
        let key = message.key.as_deref().map(str::as_bytes);
        let length = self.headers.len() + message.payload.len() + key.map_or(0, <[u8]>::len) + NUMBERS_BYTES_MAX;
        if !batch.is_empty() && batch.len() + length > most {
            return false;
        }
        batch.push(Record { timestamp: now, key, headers: (&self.headers, count), value: &message.payload });
        true
    }

    /// Writes the headers and counts them.
    fn write_headers(&mut self, message: &Message) -> usize {
        self.headers.clear();
        push_header(&mut self.headers, ID.as_bytes(), message.id.as_bytes());
        let (mut count, headers) = (1, &mut self.headers);
        let Ok(()) = envelope(message, |name, part| {
            match part {
                Part::Text(text) => push_header(headers, name.as_bytes(), text.as_bytes()),
                Part::Number(number) => {
                    push_header(headers, name.as_bytes(), itoa::Buffer::new().format(number).as_bytes());
                }
            }
            count += 1;
            Ok::<_, Infallible>(())
        });
        for (name, value) in &message.headers {
            if name != ID && !is_envelope(message, name) {
                push_header(headers, name.as_bytes(), value.as_bytes());
                count += 1;
            }
        }
        count
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
pub(crate) mod tests;
