//! A message of the server as a delivery.

use waybill_mqtt_wire::cloudevent;
use waybill_mqtt_wire::keys::Body;
use waybill_mqtt_wire::packet::Message;
use waybill_mqtt_wire::property::{CONTENT_TYPE, CORRELATION_DATA, Properties, Property, RESPONSE_TOPIC};
use waybill_plugin::broker::push_header;
use waybill_plugin::source::Delivery;

use crate::arrivals::headers_weight;
use crate::config::Keys;

/// User property with the message's id.
const ID: &[u8] = b"id";
/// Header of a delivery that the server had retained.
const RETAIN: &str = "mqtt-retain";

/// Most bytes of a message's properties. The protocol lets them fill a packet, and the host takes a pull of 4 MiB.
const PROPERTIES_BYTES_MAX: usize = 256 * 1024;
/// Most bytes that the host holds for the headers of a message. Many small ones take more than their texts have.
const HEADERS_BYTES_MAX: usize = 1024 * 1024;

/// A message with what it says of itself in properties, or in the CloudEvent that its body is. It has no token yet.
pub(crate) fn delivery(message: &Message<'_>, group: Option<&str>, own: &Keys) -> Delivery {
    let topic = String::from_utf8_lossy(message.topic);
    let topic = if own.dots { topic.replace('/', ".") } else { topic.into_owned() };
    let mut delivery = Delivery::new(Vec::new(), topic, message.payload);
    delivery.group = group.map(str::to_owned);
    delivery.redelivered = message.is_again;
    if let Some(bytes) = message.omitted {
        delivery.payload = Vec::new();
        delivery.omitted = Some(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
    let size = message.properties.len();
    if size > PROPERTIES_BYTES_MAX {
        let mut all = Properties::new(message.properties);
        delivery.id = all.find_map(|property| match property {
            Property::Pair(ID, value) => std::str::from_utf8(value).ok().map(str::to_owned),
            _ => None,
        });
        return delivery.invalid(format!("its properties have {size} bytes, more than {PROPERTIES_BYTES_MAX}"));
    }
    for property in Properties::new(message.properties) {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        match property {
            Property::Bytes(CONTENT_TYPE, bytes) => push_header(&mut delivery, b"content-type", bytes),
            Property::Bytes(CORRELATION_DATA, bytes) => push_header(&mut delivery, b"x-correlation-id", bytes),
            Property::Bytes(RESPONSE_TOPIC, bytes) => push_header(&mut delivery, b"x-reply-to", bytes),
            Property::Pair(ID, value) if delivery.id.is_none() => delivery.id = text(value),
            Property::Pair(name, value) => push_header(&mut delivery, name, value),
            Property::Bytes(..) | Property::Number(..) => {}
        }
    }
    if message.is_retained {
        delivery.headers.push((RETAIN.to_owned(), "true".to_owned()));
    }
    if message.omitted.is_none() && is_wrapped(message, &delivery, own.body) {
        cloudevent::read(&mut delivery);
    }
    let weight = headers_weight(&delivery);
    if weight > HEADERS_BYTES_MAX {
        delivery.headers = Vec::new();
        return delivery.invalid(format!("its headers take {weight} bytes, more than {HEADERS_BYTES_MAX}"));
    }
    delivery
}

/// Whether to look for a CloudEvent in the body. Who speaks 3.1.1 can't name it, whatever version we speak.
fn is_wrapped(message: &Message<'_>, delivery: &Delivery, body: Body) -> bool {
    match body {
        Body::Plain => false,
        Body::Cloudevent => true,
        Body::Auto => {
            let is_named = delivery.content_type.as_deref().is_some_and(cloudevent::is_media_type);
            is_named || message.properties.is_empty() && message.payload.first() == Some(&b'{')
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use waybill_mqtt_wire::property::{push_pair, push_property};

    const EVENT: &[u8] =
        br#"{"specversion":"1.0","id":"m1","source":"/s","type":"order.created","tenant":"acme","data":{"n":1}}"#;

    fn keys(body: Body, dots: bool) -> Keys {
        Keys { body, dots, ..Keys::default() }
    }

    fn read(properties: &[u8], payload: &[u8], body: Body) -> Delivery {
        let message = Message { topic: b"orders/created", id: 7, properties, payload, ..Message::default() };
        delivery(&message, None, &keys(body, false))
    }

    #[test]
    fn properties_fill_in_what_they_say() {
        let mut properties = Vec::new();
        assert!(push_property(&mut properties, CONTENT_TYPE, "application/json"));
        assert!(push_property(&mut properties, CORRELATION_DATA, "cor-1"));
        assert!(push_property(&mut properties, RESPONSE_TOPIC, "answers"));
        for (name, value) in
            [("id", "m1"), ("x-tenant", "acme"), ("x-key", "order-1"), ("X-Shop", "berlin"), ("id", "m2")]
        {
            assert!(push_pair(&mut properties, name, value));
        }
        let message = Message { is_again: true, is_retained: true, ..Message::default() };
        let message = Message { topic: b"orders/created", id: 7, properties: &properties, payload: b"{}", ..message };
        let delivery = delivery(&message, Some("shop"), &keys(Body::Auto, true));
        assert_eq!((delivery.id.as_deref(), delivery.topic.as_str()), (Some("m1"), "orders.created"));
        assert_eq!((delivery.tenant.as_deref(), delivery.key.as_deref()), (Some("acme"), Some("order-1")));
        assert_eq!(delivery.content_type.as_deref(), Some("application/json"));
        assert_eq!(
            (delivery.correlation_id.as_deref(), delivery.reply_to.as_deref()),
            (Some("cor-1"), Some("answers"))
        );
        assert_eq!((delivery.group.as_deref(), delivery.position, delivery.redelivered), (Some("shop"), None, true));
        for header in [("X-Shop", "berlin"), ("mqtt-retain", "true"), ("id", "m2")] {
            assert!(delivery.headers.contains(&(header.0.to_owned(), header.1.to_owned())), "{header:?}");
        }
    }

    #[test]
    fn a_cloudevent_is_known_by_its_media_type_or_where_nothing_is_named_by_itself() {
        let (mut named, mut other) = (Vec::new(), Vec::new());
        assert!(push_property(&mut named, CONTENT_TYPE, "application/cloudevents+json; charset=utf-8"));
        assert!(push_pair(&mut other, "unit", "celsius"));
        for (properties, body, is_read) in [
            (named.as_slice(), Body::Auto, true),
            (&other, Body::Auto, false),
            (&other, Body::Cloudevent, true),
            (&[], Body::Auto, true),
            (&[], Body::Plain, false),
        ] {
            let delivery = read(properties, EVENT, body);
            assert_eq!(delivery.id.is_some(), is_read, "{body:?}");
            assert_eq!(delivery.payload == br#"{"n":1}"#, is_read);
        }
        let plain = read(&[], b"21.5", Body::Cloudevent);
        assert_eq!((plain.id, plain.payload.as_slice()), (None, &b"21.5"[..]));
    }

    #[test]
    fn too_many_properties_make_a_dead_letter_with_its_id() {
        let (mut large, mut many) = (Vec::new(), Vec::new());
        for out in [&mut large, &mut many] {
            assert!(push_pair(out, "id", "m1"));
        }
        for _ in 0..5 {
            assert!(push_pair(&mut large, "a", &"x".repeat(60_000)));
        }
        for _ in 0..40_000 {
            assert!(push_pair(&mut many, "", "b"));
        }
        assert!(many.len() < PROPERTIES_BYTES_MAX);
        for properties in [large, many] {
            let delivery = read(&properties, b"21.5", Body::Auto);
            assert_eq!((delivery.id.as_deref(), delivery.payload.as_slice()), (Some("m1"), &b"21.5"[..]));
            assert!(delivery.headers.is_empty());
            assert!(delivery.attributes.iter().any(|(name, _)| name == "invalid"), "{:?}", delivery.attributes);
        }
    }

    #[test]
    fn texts_that_are_none_do_no_harm() {
        let message = Message { topic: b"a\xff", omitted: Some(20_000_000), payload: b"part", ..Message::default() };
        let delivery = delivery(&message, None, &keys(Body::Auto, false));
        assert_eq!((delivery.topic.as_str(), delivery.omitted), ("a\u{fffd}", Some(20_000_000)));
        assert!(delivery.payload.is_empty());
    }
}
