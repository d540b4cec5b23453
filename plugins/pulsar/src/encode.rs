//! A message, or several, as one entry: the id and the envelope are properties, the key is the partition's key and the ordering key.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use waybill_plugin::broker::{Part, envelope, is_envelope};
use waybill_plugin::transport::{Fault, Message};
use waybill_pulsar_wire::batch;
use waybill_pulsar_wire::frame;
use waybill_pulsar_wire::proto::{KeyValue, MessageMetadata, Send, SingleMessageMetadata};

/// Property with the message's id.
const ID: &str = "id";
/// What a property, a key and an entry have around them, generously.
const PROPERTY_BYTES: usize = 12;
const ENTRY_BYTES: usize = 256;

/// A message that can be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prepared<'a> {
    properties: Vec<KeyValue>,
    key: Option<&'a str>,
    event_time: u64,
    payload: &'a [u8],
    /// Bytes that it takes at most.
    pub(crate) size: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    pub(crate) producer: u64,
    pub(crate) name: &'a str,
    /// Number of the entry's first message.
    pub(crate) sequence: u64,
}

impl<'a> Prepared<'a> {
    /// As it is sent; `max` is the most bytes that a broker takes.
    ///
    /// # Errors
    /// It is larger.
    pub(crate) fn of(message: &'a Message, max: usize) -> Result<Self, Fault> {
        let properties = properties(message);
        let words: usize =
            properties.iter().map(|property| property.key.len() + property.value.len() + PROPERTY_BYTES).sum();
        let key = message.key.as_deref();
        let size = ENTRY_BYTES + words + 2 * key.map_or(0, str::len) + message.payload.len();
        if size > max {
            let reason = format!("the message has about {size} bytes with its properties, the broker takes {max}");
            return Err(Fault::new("PULSAR.MESSAGE_SIZE", reason));
        }
        Ok(Self { properties, key, event_time: message.occurred_at, payload: &message.payload, size })
    }

    fn single(self, sequence: u64) -> (SingleMessageMetadata, &'a [u8]) {
        let metadata = SingleMessageMetadata {
            properties: self.properties,
            partition_key: self.key.map(str::to_owned),
            // An entry has fewer bytes than the broker's limit, which is of this type.
            payload_size: i32::try_from(self.payload.len()).unwrap_or(i32::MAX),
            event_time: Some(self.event_time),
            ordering_key: self.key.map(|key| key.as_bytes().to_vec()),
            sequence_id: Some(sequence),
            ..SingleMessageMetadata::default()
        };
        (metadata, self.payload)
    }
}

/// Adds one entry with these messages: one alone is no batch.
pub(crate) fn entry(out: &mut Vec<u8>, mut messages: Vec<Prepared<'_>>, sender: Sender<'_>) {
    let count = messages.len();
    let Some(first) = messages.first() else { return };
    let mut metadata = MessageMetadata {
        producer_name: sender.name.to_owned(),
        sequence_id: sender.sequence,
        publish_time: now(),
        partition_key: first.key.map(str::to_owned),
        ordering_key: first.key.map(|key| key.as_bytes().to_vec()),
        ..MessageMetadata::default()
    };
    let last = sender.sequence + (count as u64 - 1);
    let send = Send {
        producer_id: sender.producer,
        sequence_id: sender.sequence,
        num_messages: i32::try_from(count).ok(),
        highest_sequence_id: (count > 1).then_some(last),
    };
    if count == 1 {
        let Some(only) = messages.pop() else { return };
        metadata.properties = only.properties;
        metadata.event_time = Some(only.event_time);
        return frame::send(out, send, &metadata, only.payload);
    }
    metadata.num_messages_in_batch = i32::try_from(count).ok();
    metadata.highest_sequence_id = Some(last);
    let mut payload = Vec::with_capacity(messages.iter().map(|message| message.size).sum());
    for (message, sequence) in messages.into_iter().zip(sender.sequence..) {
        let (single, bytes) = message.single(sequence);
        batch::add(&mut payload, &single, bytes);
    }
    frame::send(out, send, &metadata, &payload);
}

/// The id, the envelope, and the caller's headers.
fn properties(message: &Message) -> Vec<KeyValue> {
    let property = |key: &str, value: &str| KeyValue { key: key.to_owned(), value: value.to_owned() };
    let mut properties = Vec::with_capacity(16 + message.headers.len());
    properties.push(property(ID, &message.id));
    let written = envelope(message, |name, part| {
        properties.push(match part {
            Part::Text(text) => property(name, text),
            Part::Number(number) => property(name, &number.to_string()),
        });
        Ok::<_, std::convert::Infallible>(())
    });
    let Ok(()) = written;
    // Clients read properties as a map: what repeats is joined, as in HTTP.
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (name, value) in &message.headers {
        if name == ID || is_envelope(message, name) {
            continue;
        }
        if let Some(known) = places.get(name.as_str()).and_then(|place| properties.get_mut(*place)) {
            known.value.push_str(", ");
            known.value.push_str(value);
        } else {
            places.insert(name, properties.len());
            properties.push(property(name, value));
        }
    }
    properties
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(now).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "encode_tests.rs"]
pub(crate) mod tests;
