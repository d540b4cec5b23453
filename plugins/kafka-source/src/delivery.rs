//! A record as a delivery.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use waybill_kafka_wire::records::Record;
use waybill_plugin::broker::push_header;
use waybill_plugin::source::Delivery;

use crate::share::Share;

/// How records become deliveries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping<'a> {
    /// Header with the sender's id.
    pub(crate) id_header: &'a str,
    /// Largest payload that is handed over.
    pub(crate) most: u32,
}

/// A record of a share.
pub(crate) fn delivery(share: &Share, record: &Record<'_>, mapping: Mapping<'_>) -> Delivery {
    let mut delivery = at(share, record.offset, record.value.unwrap_or_default());
    delivery.occurred_at = u64::try_from(record.timestamp).ok();
    for (name, value) in &record.headers {
        let value = value.unwrap_or_default();
        if *name == mapping.id_header.as_bytes() {
            delivery.id = std::str::from_utf8(value).ok().filter(|id| !id.is_empty()).map(str::to_owned);
        } else {
            push_header(&mut delivery, name, value);
        }
    }
    // What the partition was chosen by counts, whatever a header says. Bytes that are no text become one.
    if let Some(key) = record.key {
        let text = std::str::from_utf8(key).map_or_else(|_| STANDARD_NO_PAD.encode(key), str::to_owned);
        delivery.key = Some(text);
    }
    if delivery.payload.len() > mapping.most as usize { delivery.without_payload() } else { delivery }
}

/// A batch that can't be read.
pub(crate) fn unreadable(share: &Share, offset: i64, why: &str) -> Delivery {
    at(share, offset, &[]).invalid(format!("a batch of the partition can't be read: {why}"))
}

fn at(share: &Share, offset: i64, payload: &[u8]) -> Delivery {
    let mut delivery = Delivery::new(share.token(offset), share.place.0.clone(), payload);
    delivery.group = Some(share.group());
    // An offset repeats after the topic was made anew; its id doesn't.
    let topic = if share.topic.is_nil() { share.place.0.clone() } else { share.topic.to_string() };
    delivery.position = Some(format!("{topic}/{}/{offset}", share.place.1));
    delivery
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use waybill_kafka_wire::Uuid;

    const MAPPING: Mapping<'static> = Mapping { id_header: "id", most: 10 };

    fn share(topic: Uuid) -> Share {
        Share::new(("orders".to_owned(), 3), topic, 1, 0, 0)
    }

    fn record<'a>(key: Option<&'a [u8]>, value: &'a [u8]) -> Record<'a> {
        let headers = vec![
            (&b"id"[..], Some(&b"m1"[..])),
            (b"x-tenant", Some(b"acme")),
            (b"x-key", Some(b"other")),
            (b"trace", None),
            (b"bytes", Some(b"\xff")),
        ];
        Record { offset: 42, timestamp: 5, key, value: Some(value), headers }
    }

    #[test]
    fn a_record_has_its_place_its_id_and_its_envelope() {
        let delivery = delivery(&share(Uuid::from_u128(1)), &record(Some(b"order-1"), b"{}"), MAPPING);
        assert_eq!(delivery.position.as_deref(), Some("00000000-0000-0000-0000-000000000001/3/42"));
        assert_eq!((delivery.id.as_deref(), delivery.group.as_deref()), (Some("m1"), Some("orders/3")));
        assert_eq!((delivery.tenant.as_deref(), delivery.key.as_deref()), (Some("acme"), Some("order-1")));
        assert_eq!((delivery.occurred_at, delivery.payload.as_slice()), (Some(5), &b"{}"[..]));
        assert!(delivery.headers.contains(&("bytes-bin".to_owned(), "/w".to_owned())));
    }

    #[test]
    fn keys_of_bytes_are_text_and_large_payloads_are_left_out() {
        let found = delivery(&share(Uuid::nil()), &record(Some(b"\xff\xfe"), b"more than ten bytes"), MAPPING);
        assert_eq!((found.key.as_deref(), found.omitted), (Some("//4"), Some(19)));
        assert_eq!(found.position.as_deref(), Some("orders/3/42"));
        assert_eq!(delivery(&share(Uuid::nil()), &record(None, b""), MAPPING).key.as_deref(), Some("other"));
        assert_eq!(unreadable(&share(Uuid::nil()), 7, "why").attributes.len(), 1);
    }
}
