//! A message with its envelope as one JSON document: a structured CloudEvent, as version 3.1.1 has no place beside the body.
//!
//! Attributes have the names that the HTTP transport gives them. A payload that is JSON by its media type and by itself is the
//! member `data` as it is, a text is one there too, anything else is Base64 in `data_base64`. Headers of the caller are in the
//! attribute `waybillheaders`, because attributes have lower-case names and a value each.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use waybill_plugin::annotation::ANNOTATIONS;
use waybill_plugin::broker::{Part, envelope, is_envelope, push_header};
use waybill_plugin::source::Delivery;
use waybill_plugin::time::rfc3339;
use waybill_plugin::transport::Message;

/// Media type of the document.
pub const MEDIA_TYPE: &str = "application/cloudevents+json";
/// Attribute with the caller's headers.
const HEADERS: &str = "waybillheaders";
/// Members with the payload.
const DATA: &str = "data";
const DATA_BASE64: &str = "data_base64";
/// Most bytes of a document's attributes, names and values: each of them is an allocation, and a header of the delivery.
const ATTRIBUTES_BYTES_MAX: usize = 256 * 1024;

/// Writes a message as a document.
pub fn write(message: &Message) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.payload.len() * 4 / 3 + 512);
    out.push(b'{');
    let source = format!("/waybill/{}", message.tenant);
    let kind = message.event_type.as_deref().unwrap_or(&message.topic);
    let time = rfc3339(message.occurred_at);
    for (name, value) in
        [("specversion", "1.0"), ("id", &message.id), ("source", &source), ("type", kind), ("time", &time)]
    {
        attribute(&mut out, name, value);
    }
    // The envelope can't fail: nothing here does.
    let _ = envelope(message, |name, part| {
        match (name, part) {
            ("x-occurred-at" | "x-event-type", _) => {}
            ("content-type", Part::Text(text)) => attribute(&mut out, "datacontenttype", text),
            (name, Part::Text(text)) => attribute(&mut out, &attribute_name(name), text),
            (name, Part::Number(number)) => attribute(&mut out, &attribute_name(name), &number.to_string()),
        }
        Ok::<_, ()>(())
    });
    let headers: Vec<_> = message.headers.iter().filter(|(name, _)| !is_envelope(message, name)).collect();
    if !headers.is_empty() {
        // Texts can always be written.
        attribute(&mut out, HEADERS, &serde_json::to_string(&headers).unwrap_or_default());
    }
    data(&mut out, message);
    out.push(b'}');
    out
}

fn attribute(out: &mut Vec<u8>, name: &str, value: &str) {
    if out.len() > 1 {
        out.push(b',');
    }
    member(out, name);
    // Writing a text into a Vec can't fail.
    let _ = serde_json::to_writer(out, value);
}

fn member(out: &mut Vec<u8>, name: &str) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// `x-event-version` is `eventversion`, and the key has the name that CloudEvents give it.
fn attribute_name(header: &str) -> String {
    match header {
        "x-key" => "partitionkey".to_owned(),
        "x-expires-at" => "expirytime".to_owned(),
        header => header.strip_prefix("x-").unwrap_or(header).replace('-', ""),
    }
}

fn data(out: &mut Vec<u8>, message: &Message) {
    let (payload, media) = (message.payload.as_slice(), message.content_type.as_deref().unwrap_or_default());
    let text = std::str::from_utf8(payload).ok();
    // A reader that skips the texts of a document doesn't see that one of them isn't UTF-8.
    let is_whole = is_json(media) && text.is_some_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    let text = text.filter(|_| media.starts_with("text/") && !is_json(media));
    out.push(b',');
    match text {
        _ if is_whole => {
            member(out, DATA);
            out.extend_from_slice(payload);
        }
        Some(text) => {
            member(out, DATA);
            // The same.
            let _ = serde_json::to_writer(out, text);
        }
        None => {
            member(out, DATA_BASE64);
            out.push(b'"');
            out.extend_from_slice(STANDARD.encode(payload).as_bytes());
            out.push(b'"');
        }
    }
}

fn is_json(media: &str) -> bool {
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media == "application/json" || media == "text/json" || media.ends_with("+json")
}

/// Whether this is the media type of a document.
pub fn is_media_type(media: &str) -> bool {
    media.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case(MEDIA_TYPE))
}

/// Reads a document into a delivery whose payload it is. Answers whether it is one; else the delivery is as it was.
pub fn read(delivery: &mut Delivery) -> bool {
    let body = std::mem::take(&mut delivery.payload);
    let payload = read_document(delivery, &body);
    let is_read = payload.is_some();
    delivery.payload = payload.unwrap_or(body);
    is_read
}

/// The payload of a document, whose attributes go into the delivery.
fn read_document(delivery: &mut Delivery, body: &[u8]) -> Option<Vec<u8>> {
    let Document(document) = serde_json::from_slice(body).ok()?;
    let text = |name: &str| document.get(name).and_then(|raw| scalar(raw.get()));
    let (Some(_), Some(id), Some(_)) = (text("specversion"), text("id"), text("source")) else { return None };
    let media = text("datacontenttype").unwrap_or_else(|| "application/json".to_owned());
    let payload = match (document.get(DATA), text(DATA_BASE64)) {
        (_, Some(base64)) => STANDARD.decode(base64).ok()?,
        (Some(raw), None) if is_json(&media) => raw.get().as_bytes().to_vec(),
        (Some(raw), None) => {
            serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned()).into_bytes()
        }
        (None, None) => Vec::new(),
    };
    delivery.id = Some(id);
    delivery.event_type = text("type");
    if document.contains_key("datacontenttype") || document.contains_key(DATA) {
        delivery.content_type = Some(media);
    }
    for (name, raw) in &document {
        if matches!(name.as_str(), "specversion" | "id" | "type" | "datacontenttype" | DATA | DATA_BASE64) {
            continue;
        }
        let Some(value) = scalar(raw.get()) else { continue };
        if name != HEADERS {
            push_header(delivery, header_name(name).as_bytes(), value.as_bytes());
            continue;
        }
        for (name, value) in serde_json::from_str::<Vec<(String, String)>>(&value).unwrap_or_default() {
            push_header(delivery, name.as_bytes(), value.as_bytes());
        }
    }
    Some(payload)
}

/// The members of a document as they are written. What is inside the data isn't looked at: a sender makes that as large as it likes, and
/// each value of it would be an allocation.
struct Document<'a>(BTreeMap<String, &'a RawValue>);

impl<'de> Deserialize<'de> for Document<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Document<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a CloudEvent")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut members, mut bytes) = (BTreeMap::new(), 0);
        while let Some(name) = map.next_key::<String>()? {
            let raw: &'de RawValue = map.next_value()?;
            let is_data = name == DATA || name == DATA_BASE64;
            bytes += name.len() + if is_data { 0 } else { raw.get().len() };
            if bytes > ATTRIBUTES_BYTES_MAX {
                return Err(A::Error::custom("its attributes are too large"));
            }
            members.insert(name, raw);
        }
        Ok(Document(members))
    }
}

/// The header that an attribute was, or `ce-NAME` of one that others wrote.
fn header_name(attribute: &str) -> String {
    let known = [
        ("tenant", "x-tenant"),
        ("topic", "x-topic"),
        ("partitionkey", "x-key"),
        ("time", "x-occurred-at"),
        ("createdat", "x-created-at"),
        ("expirytime", "x-expires-at"),
        ("seq", "x-seq"),
        ("replay", "x-replay"),
        ("attempt", "x-attempt"),
        ("leaseepoch", "x-lease-epoch"),
    ];
    let annotated =
        ANNOTATIONS.iter().map(|annotation| (annotation.extension.trim_start_matches("ce-"), annotation.header));
    let found = known.into_iter().chain(annotated).find(|(name, _)| *name == attribute);
    found.map_or_else(|| format!("ce-{attribute}"), |(_, header)| header.to_owned())
}

/// A text, a number or a truth value as text; a number as it is written.
fn scalar(raw: &str) -> Option<String> {
    match raw.as_bytes().first()? {
        b'"' => serde_json::from_str(raw).ok(),
        b'{' | b'[' | b'n' => None,
        _ => Some(raw.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn message(content_type: Option<&str>, payload: &[u8]) -> Message {
        Message {
            id: "m1".to_owned(),
            tenant: "acme".to_owned(),
            topic: "bus:orders.created".to_owned(),
            destination: "orders.created".to_owned(),
            key: Some("order-1".to_owned()),
            headers: vec![("X-Shop".to_owned(), "berlin \"mitte\"".to_owned())],
            content_type: content_type.map(str::to_owned),
            payload: payload.to_vec(),
            event_type: Some("order.created".to_owned()),
            envelope_id: None,
            correlation_id: Some("cor-1".to_owned()),
            causation_id: Some("cau-1".to_owned()),
            reply_to: None,
            occurred_at: 1_700_000_000_000,
            created_at: 1_700_000_000_000,
            expires_at: None,
            attempt: 2,
            lease_epoch: 7,
            attributes: vec![("event-version".to_owned(), "3".to_owned())],
        }
    }

    fn read_back(bytes: Vec<u8>) -> Delivery {
        let mut delivery = Delivery::new(*b"t", "orders.created", bytes);
        assert!(read(&mut delivery));
        delivery
    }

    #[test]
    fn what_was_written_is_read_back() {
        for (media, payload) in [
            (Some("application/json"), &b"{ \"n\": 1.10 }"[..]),
            (Some("application/json"), b"\"text\""),
            (Some("application/json"), b"no json"),
            (Some("application/json"), b"\"\xff\""),
            (Some("text/plain; charset=utf-8"), "größe\n".as_bytes()),
            (Some("application/octet-stream"), &[0, 255, 7]),
            (None, b"\"a\""),
            (None, b""),
        ] {
            let delivery = read_back(write(&message(media, payload)));
            assert_eq!(delivery.payload.trim_ascii(), payload.trim_ascii(), "{media:?}");
            assert_eq!(delivery.content_type.as_deref(), media);
            assert_eq!((delivery.id.as_deref(), delivery.tenant.as_deref()), (Some("m1"), Some("acme")));
            assert_eq!((delivery.key.as_deref(), delivery.event_version), (Some("order-1"), Some(3)));
            assert_eq!(delivery.event_type.as_deref(), Some("order.created"));
            let chain = (delivery.correlation_id.as_deref(), delivery.causation_id.as_deref());
            assert_eq!((chain, delivery.occurred_at), ((Some("cor-1"), Some("cau-1")), Some(1_700_000_000_000)));
            assert!(delivery.headers.contains(&("X-Shop".to_owned(), "berlin \"mitte\"".to_owned())));
            assert!(delivery.headers.contains(&("x-topic".to_owned(), "bus:orders.created".to_owned())));
        }
    }

    #[test]
    fn a_document_has_lower_case_attributes_only() {
        let document: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(&write(&message(Some("application/json"), b"{}"))).unwrap();
        for name in document.keys() {
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()), "{name}");
        }
        assert_eq!(document["specversion"], "1.0");
        assert_eq!((&document["source"], &document["partitionkey"]), (&"/waybill/acme".into(), &"order-1".into()));
    }

    #[test]
    fn what_is_no_cloudevent_stays_as_it_is() {
        for body in [
            &b"21.5"[..],
            b"{}",
            b"{\"id\":\"a\"}",
            b"",
            b"\xff",
            b"{\"specversion\":\"1.0\",\"id\":\"a\",\"source\":\"b\",\"data_base64\":\"?\"}",
        ] {
            let mut delivery = Delivery::new(*b"t", "a", body);
            assert!(!read(&mut delivery));
            assert_eq!((delivery.payload.as_slice(), delivery.id), (body, None));
        }
        let other =
            read_back(br#"{"specversion":"1.0","id":"a","source":"/s","type":"t","n":7,"data":{"b":[]}}"#.to_vec());
        assert_eq!(other.payload, br#"{"b":[]}"#);
        assert!(other.headers.contains(&("ce-n".to_owned(), "7".to_owned())) && other.content_type.is_some());
    }
    #[test]
    fn numbers_are_as_they_are_written_and_what_is_in_the_data_is_not_looked_at() {
        let data = format!("[{}0]", "{\"a\":[]},".repeat(400_000));
        let head = r#"{"specversion":"1.0","id":"a","source":"/s","n":1.10,"none":null,"more":{"b":1},"data":"#;
        let delivery = read_back(format!("{head}{data}}}").into_bytes());
        assert!(delivery.payload == data.as_bytes() && delivery.payload.len() > 3_000_000);
        let named =
            |name: &str| delivery.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        assert_eq!((named("ce-n"), named("ce-none"), named("ce-more")), (Some("1.10"), None, None));
    }

    #[test]
    fn a_document_with_too_many_attributes_or_too_large_ones_is_none() {
        let head = r#"{"specversion":"1.0","id":"a","source":"/s""#;
        let many: String = (0..40_000).map(|number| format!(r#","a{number}":1"#)).collect();
        let large = format!(r#","type":"{}""#, "x".repeat(ATTRIBUTES_BYTES_MAX));
        for attributes in [many, large] {
            let body = format!("{head}{attributes},\"data\":1}}").into_bytes();
            let mut delivery = Delivery::new(*b"t", "a", body.clone());
            assert!(!read(&mut delivery));
            assert!(delivery.payload == body && delivery.id.is_none() && delivery.headers.is_empty());
        }
    }
}
