//! A message as PUBLISH: its envelope as properties, or as a CloudEvent around its payload.

use std::time::{SystemTime, UNIX_EPOCH};

use waybill_mqtt_wire::keys::Body;
use waybill_mqtt_wire::property::{
    CONTENT_TYPE, CORRELATION_DATA, MESSAGE_EXPIRY, RESPONSE_TOPIC, push_number, push_pair, push_property,
};
use waybill_mqtt_wire::topic::check_name;
use waybill_mqtt_wire::write::{BODY_BYTES_MAX, Publish};
use waybill_mqtt_wire::{Limits, Version, cloudevent};
use waybill_plugin::broker::{Part, envelope, is_envelope};
use waybill_plugin::transport::{Fault, Message};

use crate::config::Keys;
use crate::template::Template;

/// User property with the message's id.
const ID: &str = "id";
/// Header by which a message says itself whether it is retained; it isn't sent.
const RETAIN: &str = "mqtt-retain";

/// What goes into every message.
pub(crate) struct Encoder {
    template: Template,
    version: Version,
    /// Whether the body is a CloudEvent.
    wraps: bool,
    retain: bool,
    /// Whether the server retains messages.
    retains: bool,
    /// Largest packet that the server takes, in bytes.
    packet: usize,
    /// The operator was warned that nobody had subscribed.
    pub(crate) has_warned: bool,
    /// Name and properties of the message at hand: kept for their allocations.
    topic: String,
    properties: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new(config: &Keys, template: Template, version: Version, limits: &Limits) -> Self {
        let wraps = match config.body {
            Body::Auto => version == Version::V311,
            Body::Plain => false,
            Body::Cloudevent => true,
        };
        Self {
            template,
            version,
            wraps,
            retain: config.retain,
            retains: limits.retains,
            packet: limits.packet.min(BODY_BYTES_MAX),
            has_warned: false,
            topic: String::new(),
            properties: Vec::new(),
        }
    }

    /// Whether the server keeps this message for those who subscribe later.
    pub(crate) fn is_retained(&self, message: &Message) -> bool {
        let own = message.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(RETAIN));
        own.map_or(self.retain, |(_, value)| value == "true")
    }

    /// Adds one message to `out`, to be acknowledged by `id`.
    ///
    /// # Errors
    /// It can never be sent so; `out` is as it was.
    pub(crate) fn add(&mut self, out: &mut Vec<u8>, message: &Message, id: u16) -> Result<(), Fault> {
        self.template.write(message, &mut self.topic).map_err(|why| Fault::new("MQTT.TOPIC", why))?;
        let retain = self.is_retained(message);
        if retain && !self.retains {
            return Err(Fault::new("MQTT.RETAIN", "the server retains nothing, and the message wants to be"));
        }
        let wrapped = self.wraps.then(|| cloudevent::write(message));
        self.properties.clear();
        if self.version == Version::V5 {
            self.properties(message)?;
        }
        let publish = Publish {
            topic: &self.topic,
            id,
            retain,
            properties: (self.version == Version::V5).then_some(self.properties.as_slice()),
            payload: wrapped.as_deref().unwrap_or(&message.payload),
        };
        if publish.size() > self.packet {
            let reason =
                format!("the message is a packet of {} bytes, the server takes {}", publish.size(), self.packet);
            return Err(Fault::new("MQTT.MAX_PACKET", reason));
        }
        publish.write(out);
        Ok(())
    }

    fn properties(&mut self, message: &Message) -> Result<(), Fault> {
        let out = &mut self.properties;
        if let Some(expires) = message.expires_at {
            push_number(out, MESSAGE_EXPIRY, seconds_left(expires));
        }
        if self.wraps {
            return text(out, CONTENT_TYPE, cloudevent::MEDIA_TYPE);
        }
        pair(out, ID, &message.id)?;
        envelope(message, |name, part| match (name, part) {
            ("content-type", Part::Text(value)) => text(out, CONTENT_TYPE, value),
            ("x-correlation-id", Part::Text(value)) => text(out, CORRELATION_DATA, value),
            // What is no name of a topic is text for who knows it.
            ("x-reply-to", Part::Text(value)) if check_name(value).is_ok() => text(out, RESPONSE_TOPIC, value),
            (name, Part::Text(value)) => pair(out, name, value),
            (name, Part::Number(number)) => pair(out, name, &number.to_string()),
        })?;
        for (name, value) in &message.headers {
            let is_ours = is_envelope(message, name) || name == ID || name.eq_ignore_ascii_case(RETAIN);
            if !is_ours {
                pair(out, name, value)?;
            }
        }
        Ok(())
    }
}

fn text(out: &mut Vec<u8>, id: u8, value: &str) -> Result<(), Fault> {
    if push_property(out, id, value) {
        Ok(())
    } else {
        Err(unfit(if id == CONTENT_TYPE { "content-type" } else { "a property" }))
    }
}

fn pair(out: &mut Vec<u8>, name: &str, value: &str) -> Result<(), Fault> {
    if push_pair(out, name, value) { Ok(()) } else { Err(unfit(name)) }
}

fn unfit(name: &str) -> Fault {
    let name: String = name.chars().filter(|letter| !letter.is_control()).take(80).collect();
    Fault::new("MQTT.HEADER", format!("`{name}` is longer than 65535 bytes, or holds a control character"))
}

/// Seconds until then, at least one.
fn seconds_left(until: u64) -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let left = until.saturating_sub(u64::try_from(now).unwrap_or(u64::MAX));
    u32::try_from(left.div_ceil(1_000)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
#[path = "encode_tests.rs"]
pub(crate) mod tests;
