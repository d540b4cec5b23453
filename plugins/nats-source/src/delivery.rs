//! A message of a stream as a delivery.

use waybill_nats_wire::codec::Message;
use waybill_plugin::broker::push_header;
use waybill_plugin::source::Delivery;

use crate::ack::Metadata;
use crate::consumer::Consumer;

/// Header with the sender's id.
const ID: &str = "Nats-Msg-Id";

/// All but its position; a payload of more than `most` bytes stays out.
pub(crate) fn delivery(message: &Message<'_>, metadata: &Metadata, most: u32) -> Delivery {
    let topic = String::from_utf8_lossy(message.subject);
    let mut delivery = Delivery::new(message.reply, topic, message.payload);
    delivery.id = message.header(ID).and_then(|id| std::str::from_utf8(id).ok()).map(str::to_owned);
    delivery.occurred_at = Some(metadata.stored_at);
    delivery.delivery_count = Some(metadata.delivered);
    delivery.redelivered = metadata.delivered > 1;
    for (name, value) in message.header_lines() {
        push_header(&mut delivery, name, value);
    }
    match message.omitted {
        Some(bytes) => delivery.omitted = Some(u32::try_from(bytes).unwrap_or(u32::MAX)),
        None if message.payload.len() > most as usize => delivery = delivery.without_payload(),
        None => {}
    }
    delivery
}

/// What only the consumer knows of it.
pub(crate) fn complete(delivery: &mut Delivery, metadata: &Metadata, consumer: &Consumer) {
    delivery.position = Some(consumer.position(metadata.sequence));
    delivery.settle_within = consumer.settle_within(metadata.delivered);
    delivery.deliveries_left = consumer.deliveries_left(metadata.delivered);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ACK: &str = "$JS.ACK.ORDERS.ship.2.17.9.1795697050623582361.4";

    fn message<'a>(headers: &'a [u8], payload: &'a [u8]) -> Message<'a> {
        Message { subject: b"orders.created", reply: ACK.as_bytes(), headers, payload, omitted: None }
    }

    #[test]
    fn headers_fill_in_what_they_say() {
        let headers = b"NATS/1.0\r\nNats-Msg-Id: m1\r\nx-tenant: acme\r\nx-key: order-1\r\nx-event-type: order.created\r\n\
            x-event-version: 3\r\nx-correlation-id: cor\r\nx-occurred-at: 2023-11-14T22:13:20.000Z\r\nContent-Type: application/json\r\n\
            X-Shop: berlin\r\nx-raw: \xff\r\n\r\n";
        let metadata = Metadata::parse(ACK).unwrap();
        let delivery = delivery(&message(headers, b"{}"), &metadata, 1024);
        assert_eq!((delivery.token.as_slice(), delivery.topic.as_str()), (ACK.as_bytes(), "orders.created"));
        assert_eq!((delivery.id.as_deref(), delivery.tenant.as_deref()), (Some("m1"), Some("acme")));
        assert_eq!((delivery.key.as_deref(), delivery.event_version), (Some("order-1"), Some(3)));
        assert_eq!(delivery.content_type.as_deref(), Some("application/json"));
        assert_eq!(delivery.occurred_at, Some(1_700_000_000_000));
        assert_eq!((delivery.delivery_count, delivery.redelivered), (Some(2), true));
        assert!(delivery.headers.contains(&("X-Shop".to_owned(), "berlin".to_owned())));
        assert!(delivery.headers.contains(&("x-raw-bin".to_owned(), "/w".to_owned())));
    }

    #[test]
    fn without_headers_the_stream_says_when_and_nobody_says_who() {
        let metadata = Metadata::parse(ACK).unwrap();
        let delivery = delivery(&message(b"", b"{}"), &metadata, 1024);
        assert_eq!((delivery.id, delivery.tenant, delivery.occurred_at), (None, None, Some(1_795_697_050_623)));
    }

    #[test]
    fn a_payload_that_is_too_large_is_told_by_its_size() {
        let metadata = Metadata::parse(ACK).unwrap();
        let large = delivery(&message(b"", b"hello"), &metadata, 4);
        assert_eq!((large.omitted, large.payload.len()), (Some(5), 0));
        let skipped = Message { omitted: Some(9_000_000), ..message(b"", b"") };
        assert_eq!(delivery(&skipped, &metadata, 1024).omitted, Some(9_000_000));
        assert_eq!(delivery(&message(b"", b"hell"), &metadata, 4).omitted, None);
    }
}
