//! A message of the queue as a delivery.

use waybill_plugin::broker::push_header;
use waybill_plugin::source::Delivery;
use waybill_rabbitmq_wire::Delivered;
use waybill_rabbitmq_wire::codec::{Value, content};

/// Header by which a quorum queue tells how often it delivered a message before.
const COUNT: &str = "x-delivery-count";

/// What is known of the queue beside the message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue<'a> {
    pub(crate) name: &'a str,
    /// Redeliveries after which a quorum queue gives a message up.
    pub(crate) limit: Option<u32>,
    /// The operator named the limit, so it is a quorum queue.
    pub(crate) is_quorum: bool,
}

/// A message as it is handed over; a payload of more than `most` bytes stays out.
pub(crate) fn delivery(
    token: Vec<u8>,
    message: Delivered,
    queue: Queue<'_>,
    settle_within: u32,
    most: u32,
) -> Delivery {
    let topic = match message.routing_key.as_slice() {
        [] => queue.name.to_owned(),
        key => String::from_utf8_lossy(key).into_owned(),
    };
    let mut delivery = Delivery::new(token, topic, message.body);
    let mut before = None;
    if let Ok(content) = content(&message.header) {
        let text = |bytes: Option<&[u8]>| bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned);
        delivery.id = text(content.message_id);
        delivery.content_type = text(content.content_type);
        delivery.correlation_id = text(content.correlation_id);
        delivery.reply_to = text(content.reply_to);
        delivery.event_type = text(content.kind);
        delivery.occurred_at = content.timestamp.and_then(|seconds| seconds.checked_mul(1_000));
        for (name, value) in content.headers.iter().flat_map(|headers| headers.entries()) {
            match value {
                Value::Text(bytes) => push_header(&mut delivery, name, bytes),
                Value::Number(number) => {
                    if name == COUNT.as_bytes() {
                        before = u32::try_from(number).ok();
                    }
                    push_header(&mut delivery, name, number.to_string().as_bytes());
                }
                Value::Flag(flag) => push_header(&mut delivery, name, flag.to_string().as_bytes()),
                Value::Time(seconds) => push_header(&mut delivery, name, seconds.to_string().as_bytes()),
                Value::Table(_) | Value::Other => {}
            }
        }
    }
    let before = before.or((queue.is_quorum && !message.redelivered).then_some(0));
    delivery.delivery_count = before.map(|before| before.saturating_add(1));
    delivery.deliveries_left = before.and_then(|before| Some(queue.limit?.saturating_sub(before)));
    delivery.redelivered = message.redelivered || before.is_some_and(|before| before > 0);
    delivery.settle_within = Some(settle_within);
    match message.omitted {
        Some(bytes) => delivery.omitted = Some(u32::try_from(bytes).unwrap_or(u32::MAX)),
        None if delivery.payload.len() > most as usize => delivery = delivery.without_payload(),
        None => {}
    }
    delivery
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_rabbitmq_wire::codec::{CONTENT_TYPE, CORRELATION_ID, HEADERS, MESSAGE_ID, TIMESTAMP, TYPE};
    use waybill_rabbitmq_wire::wire::{flag_entry, number_entry, short, table, text_entry};

    const QUEUE: Queue<'static> = Queue { name: "orders", limit: Some(3), is_quorum: false };

    fn message(count: Option<i64>, redelivered: bool) -> Delivered {
        let mut header = vec![0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let flags = CONTENT_TYPE | HEADERS | CORRELATION_ID | MESSAGE_ID | TIMESTAMP | TYPE;
        header.extend_from_slice(&flags.to_be_bytes());
        short(&mut header, "application/json");
        table(&mut header, |out| {
            text_entry(out, "x-tenant", "acme");
            text_entry(out, "x-key", "order-1");
            text_entry(out, "x-occurred-at", "2023-11-14T22:13:20.005Z");
            number_entry(out, "x-event-version", 3);
            flag_entry(out, "gift", true);
            if let Some(count) = count {
                number_entry(out, COUNT, count);
            }
        });
        short(&mut header, "cor-1");
        short(&mut header, "m1");
        header.extend_from_slice(&1_700_000_001_u64.to_be_bytes());
        short(&mut header, "order.created");
        Delivered {
            tag: 9,
            redelivered,
            routing_key: b"orders.created".to_vec(),
            header,
            body: b"{}".to_vec(),
            ..Delivered::default()
        }
    }

    fn read(message: Delivered, queue: Queue<'_>) -> Delivery {
        delivery(b"t".to_vec(), message, queue, 1_000, 100)
    }

    #[test]
    fn properties_and_headers_fill_in_what_they_say() {
        let delivery = read(message(None, false), QUEUE);
        assert_eq!((delivery.topic.as_str(), delivery.id.as_deref()), ("orders.created", Some("m1")));
        assert_eq!((delivery.tenant.as_deref(), delivery.key.as_deref()), (Some("acme"), Some("order-1")));
        assert_eq!((delivery.event_type.as_deref(), delivery.event_version), (Some("order.created"), Some(3)));
        assert_eq!(delivery.content_type.as_deref(), Some("application/json"));
        assert_eq!(delivery.correlation_id.as_deref(), Some("cor-1"));
        assert_eq!(delivery.occurred_at, Some(1_700_000_000_005), "more exact than the timestamp's seconds");
        assert!(delivery.headers.contains(&("gift".to_owned(), "true".to_owned())));
        assert_eq!((delivery.position, delivery.settle_within), (None, Some(1_000)));
        let bare = Delivered { routing_key: Vec::new(), ..Delivered::default() };
        assert_eq!((read(bare.clone(), QUEUE).topic.as_str(), read(bare, QUEUE).id), ("orders", None));
    }

    #[test]
    fn a_quorum_queue_counts_and_a_classic_one_only_says_that_it_came_before() {
        let limits = |delivery: &Delivery| (delivery.delivery_count, delivery.deliveries_left, delivery.redelivered);
        assert_eq!(limits(&read(message(Some(2), true), QUEUE)), (Some(3), Some(1), true));
        assert_eq!(limits(&read(message(Some(5), true), QUEUE)), (Some(6), Some(0), true));
        assert_eq!(limits(&read(message(None, true), QUEUE)), (None, None, true));
        assert_eq!(limits(&read(message(None, false), QUEUE)), (None, None, false));
        let quorum = Queue { is_quorum: true, ..QUEUE };
        assert_eq!(limits(&read(message(None, false), quorum)), (Some(1), Some(3), false));
        assert_eq!(limits(&read(message(Some(1), true), Queue { limit: None, ..QUEUE })), (Some(2), None, true));
    }

    #[test]
    fn a_payload_that_is_too_large_is_told_by_its_size() {
        let large = Delivered { body: vec![0; 101], ..Delivered::default() };
        assert_eq!(read(large, QUEUE).omitted, Some(101));
        let skipped = Delivered { omitted: Some(20_000_000), ..Delivered::default() };
        assert_eq!(read(skipped, QUEUE).omitted, Some(20_000_000));
    }
}
