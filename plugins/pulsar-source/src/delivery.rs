//! A message of an entry as a delivery.

use waybill_plugin::broker::push_header;
use waybill_plugin::source::Delivery;
use waybill_pulsar_wire::batch::Message;

/// Property with the sender's id.
const ID: &str = "id";

/// Where a message lies, and what is known of it beside its entry.
#[derive(Clone, Debug)]
pub(crate) struct Origin<'a> {
    /// The topic's own name, without its namespace.
    pub(crate) topic: &'a str,
    /// What is in order: the partition; none where consumers share it.
    pub(crate) group: Option<&'a str>,
    pub(crate) ledger: u64,
    pub(crate) entry: u64,
    /// How often the entry was delivered before, where the broker counts.
    pub(crate) before: Option<u32>,
    /// It was delivered before.
    pub(crate) is_again: bool,
}

/// A message as it is handed over; a payload of more than `most` bytes stays out. `invalid`: why it can't be one.
pub(crate) fn delivery(
    token: Vec<u8>,
    message: Message,
    invalid: Option<&str>,
    origin: &Origin<'_>,
    most: u32,
) -> Delivery {
    let place = match message.index {
        Some(index) => format!("{}:{}:{index}", origin.ledger, origin.entry),
        None => format!("{}:{}", origin.ledger, origin.entry),
    };
    let mut delivery = Delivery::new(token, origin.topic, message.payload).with_position(place);
    for property in &message.properties {
        if property.key == ID {
            delivery.id = Some(property.value.clone());
        } else {
            push_header(&mut delivery, property.key.as_bytes(), property.value.as_bytes());
        }
    }
    if delivery.key.is_none() {
        // A key of bytes is in order all the same: each has a text of its own.
        delivery.key =
            message.key.map(|key| String::from_utf8(key).unwrap_or_else(|bytes| hexadecimal(bytes.as_bytes())));
    }
    delivery.occurred_at = delivery.occurred_at.or(message.event_time);
    delivery.group = origin.group.map(str::to_owned);
    delivery.delivery_count = origin.before.map(|before| before.saturating_add(1));
    delivery.redelivered = origin.is_again || origin.before.is_some_and(|before| before > 0);
    if let Some(why) = invalid {
        delivery = delivery.invalid(why);
    }
    if delivery.payload.len() > most as usize { delivery.without_payload() } else { delivery }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_pulsar_wire::proto::KeyValue;

    fn message() -> Message {
        let property = |key: &str, value: &str| KeyValue { key: key.to_owned(), value: value.to_owned() };
        Message {
            index: Some(2),
            properties: vec![
                property("id", "m1"),
                property("x-tenant", "acme"),
                property("content-type", "application/json"),
                property("shop", "berlin"),
            ],
            key: Some(b"order-1".to_vec()),
            event_time: Some(5),
            payload: b"{}".to_vec(),
        }
    }

    fn origin() -> Origin<'static> {
        Origin {
            topic: "orders",
            group: Some("orders-partition-1"),
            ledger: 7,
            entry: 9,
            before: Some(1),
            is_again: false,
        }
    }

    fn read(message: Message, origin: &Origin<'_>) -> Delivery {
        delivery(b"t".to_vec(), message, None, origin, 100)
    }

    #[test]
    fn properties_and_key_fill_in_what_they_say() {
        let delivery = read(message(), &origin());
        assert_eq!((delivery.id.as_deref(), delivery.position.as_deref()), (Some("m1"), Some("7:9:2")));
        assert_eq!((delivery.key.as_deref(), delivery.tenant.as_deref()), (Some("order-1"), Some("acme")));
        assert_eq!((delivery.topic.as_str(), delivery.group.as_deref()), ("orders", Some("orders-partition-1")));
        assert_eq!((delivery.delivery_count, delivery.redelivered), (Some(2), true));
        assert_eq!((delivery.occurred_at, delivery.content_type.as_deref()), (Some(5), Some("application/json")));
        assert!(delivery.headers.contains(&("shop".to_owned(), "berlin".to_owned())));
        assert!(!delivery.headers.iter().any(|(name, _)| name == "id"));
    }

    #[test]
    fn an_entry_of_one_has_no_index_and_foreign_keys_may_be_bytes() {
        let alone = Message { index: None, key: Some(vec![0xff, 1]), properties: Vec::new(), ..message() };
        let delivery = read(alone, &Origin { before: None, ..origin() });
        assert_eq!((delivery.position.as_deref(), delivery.id), (Some("7:9"), None));
        assert_eq!(
            (delivery.key.as_deref(), delivery.delivery_count, delivery.redelivered),
            (Some("ff01"), None, false)
        );
    }

    #[test]
    fn what_is_too_large_or_no_message_is_told() {
        let large = Message { payload: vec![0; 101], ..message() };
        assert_eq!(read(large, &origin()).omitted, Some(101));
        let invalid = delivery(b"t".to_vec(), message(), Some("encrypted"), &origin(), 100);
        assert!(invalid.attributes.contains(&("invalid".to_owned(), "encrypted".to_owned())));
    }
}
