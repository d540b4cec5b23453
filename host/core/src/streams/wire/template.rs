//! Where an event goes, as text with places for what it has: `events.{stream}`.
//!
//! A value is written so that it is one part of the name, and comes back when `%XX` is decoded: two events with different values never
//! meet in one name, whoever chose them. Only a stream's name keeps the dots between its parts.

use std::borrow::Cow;

use thiserror::Error;

use super::broker::Broker;
use crate::error::{InputError, InputResult};
use crate::streams::event::Event;
use crate::streams::name::StreamKey;
use crate::topic::{Scheme, Topic};

/// Longest name of an exchange, in bytes: AMQP counts it in one.
const EXCHANGE_BYTES_MAX: usize = 255;
/// What stands for the node of an event without one.
const NO_NODE: &str = "-";
const KNOWN: &str = "there are {stream}, {resource_type}, {node_uuid}, {resource_id}, {op} and {tenant}";
const DOTS: &str = "a part of the path would be . or .., which leads elsewhere: put text beside the place";

/// A template that isn't one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// This kind of transport has no place of its own for events.
    #[error("topic is missing: say where the events go, e.g. topic = \"https://hooks.example/events/{{stream}}\"")]
    Missing,
    #[error("topic {text:?} {cause}")]
    Unusable { text: String, cause: String },
}

/// A place for what an event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Stream,
    ResourceType,
    NodeUuid,
    ResourceId,
    Op,
    Tenant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Value),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    broker: Broker,
    /// Of RabbitMQ; none = the transport's own.
    exchange: Option<String>,
    parts: Vec<Part>,
}

/// Where one event goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPlace {
    pub topic: Topic,
    /// Exchange of RabbitMQ; none = the transport's own.
    pub exchange: Option<String>,
}

/// What of an event the places are filled with.
struct Names<'a> {
    stream: &'a str,
    tenant: &'a str,
    resource_type: &'a str,
    resource_id: &'a str,
    node_uuid: &'a str,
    op: Cow<'a, str>,
}

impl Template {
    /// Reads what the configuration says, else takes the default of what the transport speaks. `{{` and `}}` are braces. With RabbitMQ,
    /// what is before the first `/` is the exchange.
    pub fn parse(broker: Broker, text: Option<&str>) -> Result<Self, TemplateError> {
        let text = text.or(broker.default_topic()).ok_or(TemplateError::Missing)?;
        let unusable = |cause: String| TemplateError::Unusable { text: text.to_owned(), cause };
        let is_url = text.starts_with("http://") || text.starts_with("https://");
        let broker = if broker == Broker::Other && is_url { Broker::Http } else { broker };
        let mut template = Self { broker, exchange: None, parts: parts(text).map_err(unusable)? };
        match broker {
            Broker::RabbitMq => template.split_exchange().map_err(unusable)?,
            Broker::Http => check_authority(text).map_err(unusable)?,
            _ => {}
        }
        // Whatever the values are, they are written as plain as these.
        let names =
            Names { stream: "a", tenant: "a", resource_type: "a", resource_id: "a", node_uuid: "a", op: "a".into() };
        template.fill(&names).map_err(|error| unusable(format!("isn't usable: {error}")))?;
        Ok(template)
    }

    fn split_exchange(&mut self) -> Result<(), String> {
        let has_slash = |part: &Part| matches!(part, Part::Text(text) if text.contains('/'));
        let Some(at) = self.parts.iter().position(has_slash) else { return Ok(()) };
        let Some(Part::Text(first)) = self.parts.first_mut().filter(|_| at == 0) else {
            return Err("has a place before its /: the exchange there is plain text".to_owned());
        };
        let (exchange, key) = first.split_once('/').unwrap_or(("", first));
        if exchange.len() > EXCHANGE_BYTES_MAX {
            return Err(format!("has an exchange of {} bytes, AMQP takes {EXCHANGE_BYTES_MAX}", exchange.len()));
        }
        if exchange.chars().any(char::is_control) {
            return Err("has an exchange with a control character".to_owned());
        }
        let (exchange, key) = (exchange.to_owned(), key.to_owned());
        *first = key;
        self.exchange = Some(exchange);
        Ok(())
    }

    /// Where an event goes.
    pub fn place(&self, stream: &StreamKey, event: &Event) -> InputResult<EventPlace> {
        let topic = self.fill(&Names {
            stream: stream.name.as_str(),
            tenant: stream.tenant.as_str(),
            resource_type: &event.resource_type,
            resource_id: &event.resource_id,
            node_uuid: event.node_uuid.as_deref().unwrap_or_default(),
            op: event.op.name().map_or_else(|| event.op.0.to_string().into(), Cow::Borrowed),
        })?;
        Ok(EventPlace { topic, exchange: self.exchange.clone() })
    }

    fn fill(&self, names: &Names<'_>) -> InputResult<Topic> {
        let mut out = String::from(if self.broker == Broker::Http { "" } else { "bus:" });
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(Value::Stream) => write_stream(self.broker, names.stream, &mut out),
                Part::Value(Value::NodeUuid) if names.node_uuid.is_empty() => out.push_str(NO_NODE),
                Part::Value(Value::NodeUuid) if names.node_uuid == NO_NODE => out.push_str("%2D"),
                Part::Value(value) => {
                    let text: &str = match value {
                        Value::Stream => names.stream,
                        Value::Tenant => names.tenant,
                        Value::ResourceType => names.resource_type,
                        Value::ResourceId => names.resource_id,
                        Value::NodeUuid => names.node_uuid,
                        Value::Op => &names.op,
                    };
                    text.chars().for_each(|letter| write_letter(self.broker, letter, &mut out));
                }
            }
        }
        if self.broker == Broker::Http && has_dots(&out) {
            return Err(InputError::TopicUrl { topic: out, cause: DOTS.to_owned() });
        }
        let topic = Topic::parse(&out)?;
        if (topic.scheme() == Scheme::Http) != (self.broker == Broker::Http) {
            return Err(InputError::TopicUrl { topic: out, cause: "write https://... or http://...".to_owned() });
        }
        Ok(topic)
    }
}

fn parts(text: &str) -> Result<Vec<Part>, String> {
    let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(letter) = rest.chars().next() {
        let after = rest.get(letter.len_utf8()..).unwrap_or_default();
        rest = match letter {
            '{' | '}' if after.starts_with(letter) => {
                plain.push(letter);
                after.get(1..).unwrap_or_default()
            }
            '{' => {
                let (name, behind) = after.split_once('}').ok_or("has a { without its }; write {{ for a brace")?;
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Value(value(name)?));
                behind
            }
            '}' => return Err("has a } without its {; write }} for a brace".to_owned()),
            letter => {
                plain.push(letter);
                after
            }
        };
    }
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(parts)
}

fn value(name: &str) -> Result<Value, String> {
    Ok(match name {
        "stream" => Value::Stream,
        "resource_type" => Value::ResourceType,
        "node_uuid" => Value::NodeUuid,
        "resource_id" => Value::ResourceId,
        "op" => Value::Op,
        "tenant" => Value::Tenant,
        other => return Err(format!("has {{{other}}}: {KNOWN}")),
    })
}

/// Who appends chooses the values, and must not choose the host that is called.
fn check_authority(text: &str) -> Result<(), String> {
    let address = text.strip_prefix("http:").filter(|rest| rest.starts_with("http")).unwrap_or(text);
    let (_, behind) = address.split_once("://").ok_or("isn't a URL: write https://... or http://...")?;
    let authority = behind.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('{') {
        return Err("has a place before its path: host and port are plain text".to_owned());
    }
    Ok(())
}

/// Whether a part of a URL's path stands for the folder itself or the one above.
fn has_dots(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.split('/').any(|part| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | ".."))
}

fn write_letter(broker: Broker, letter: char, out: &mut String) {
    if broker.is_plain(letter) {
        out.push(letter);
        return;
    }
    let mut bytes = [0; 4];
    for byte in letter.encode_utf8(&mut bytes).bytes() {
        out.push_str(&format!("%{byte:02X}"));
    }
}

/// A stream's name keeps its separators, but for those around an empty part, which a broker refuses.
fn write_stream(broker: Broker, name: &str, out: &mut String) {
    let mut is_part_empty = true;
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_separator = Some(letter) == broker.separator();
        let next_is_empty = letters.peek().is_none_or(|next| Some(*next) == broker.separator());
        if is_separator && (broker.takes_empty_parts() || !(is_part_empty || next_is_empty)) {
            out.push(letter);
            is_part_empty = true;
        } else {
            write_letter(broker, letter, out);
            is_part_empty = false;
        }
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
