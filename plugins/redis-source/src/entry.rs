//! Entries of a stream in the server's replies, and an entry as a delivery.

use serde_json::{Map, Value};
use waybill_plugin::broker::{is_envelope_name, push_header};
use waybill_plugin::source::Delivery;
use waybill_redis_wire::resp::Reply;

/// Field with the sender's id.
const ID: &str = "id";
/// Field with the media type of the payload.
const CONTENT_TYPE: &str = "content-type";
/// Goes before the name of a header, see the transport.
const HEADER: &str = "h:";

/// An entry as it is handed over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) id: String,
    /// None: it was removed from the stream after it had been delivered.
    pub(crate) delivery: Option<Delivery>,
}

/// The id of a delivery's entry: its token.
pub(crate) fn id_of(delivery: &Delivery) -> Option<String> {
    String::from_utf8(delivery.token.clone()).ok()
}

/// How entries become deliveries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping<'a> {
    pub(crate) stream: &'a str,
    pub(crate) payload_field: &'a str,
    /// Milliseconds after which another consumer may take it.
    pub(crate) ack_wait: u32,
    /// Largest payload that is handed over.
    pub(crate) most: u32,
}

/// The entries in the reply to `XREADGROUP` of one stream; none in time is an empty list.
pub(crate) fn of_read(reply: &Reply<'_>, mapping: Mapping<'_>) -> Vec<Entry> {
    // RESP 3 has a map of streams, RESP 2 a list of pairs.
    let entries = match reply.list() {
        [Reply::List(stream), ..] => stream.get(1),
        [_, entries, ..] => Some(entries),
        _ => None,
    };
    entries.map(|entries| of_list(entries, mapping)).unwrap_or_default()
}

/// The entries in a list of them.
pub(crate) fn of_list(list: &Reply<'_>, mapping: Mapping<'_>) -> Vec<Entry> {
    list.list().iter().filter_map(|entry| read(entry, mapping)).collect()
}

fn read(entry: &Reply<'_>, mapping: Mapping<'_>) -> Option<Entry> {
    let [id, fields] = entry.list() else { return None };
    let id = id.text()?.to_owned();
    let delivery = match fields {
        Reply::List(fields) => Some(delivery(&id, fields, mapping)),
        _ => None,
    };
    Some(Entry { id, delivery })
}

fn delivery(id: &str, fields: &[Reply<'_>], mapping: Mapping<'_>) -> Delivery {
    let pairs = || {
        fields.chunks_exact(2).filter_map(|pair| match pair {
            [name, value] => Some((name.bytes()?, value.bytes()?)),
            _ => None,
        })
    };
    let payload = pairs().find(|(name, _)| *name == mapping.payload_field.as_bytes()).map(|(_, value)| value);
    let mut delivery = Delivery::new(id, mapping.stream, payload.unwrap_or_default());
    // Two streams may have entries of one id.
    delivery.position = Some(format!("{}/{id}", mapping.stream));
    delivery.occurred_at = id.split_once('-').and_then(|(millis, _)| millis.parse().ok());
    delivery.settle_within = Some(mapping.ack_wait);
    let mut others = Map::new();
    for (name, value) in pairs() {
        let Ok(text) = std::str::from_utf8(name) else { continue };
        if text == mapping.payload_field {
            continue;
        }
        // The transport leaves out the beginning that keeps the envelope apart elsewhere: fields have names of their own.
        let header = if text == CONTENT_TYPE { text.to_owned() } else { format!("x-{text}") };
        if text == ID {
            delivery.id = std::str::from_utf8(value).ok().map(str::to_owned);
        } else if let Some(own) = text.strip_prefix(HEADER) {
            push_header(&mut delivery, own.as_bytes(), value);
        } else if is_envelope_name(&header) {
            push_header(&mut delivery, header.as_bytes(), value);
        } else {
            push_header(&mut delivery, name, value);
            others.insert(text.to_owned(), String::from_utf8_lossy(value).into_owned().into());
        }
    }
    if payload.is_none() {
        delivery.payload = Value::Object(others).to_string().into_bytes();
        delivery.content_type.get_or_insert_with(|| "application/json".to_owned());
    }
    if delivery.payload.len() > mapping.most as usize { delivery.without_payload() } else { delivery }
}

/// How often entries were delivered, in the reply to `XPENDING` with a range: ids, whose they are, and counts.
pub(crate) fn of_pending<'a>(reply: &'a Reply<'a>) -> impl Iterator<Item = (&'a str, &'a str, u32)> {
    reply.list().iter().filter_map(|entry| match entry.list() {
        [id, consumer, _, count] => {
            Some((id.text()?, consumer.text()?, u32::try_from(count.number()?).unwrap_or(u32::MAX)))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use waybill_redis_wire::resp;

    const MAPPING: Mapping<'static> =
        Mapping { stream: "orders.created", payload_field: "payload", ack_wait: 30_000, most: 1_000 };

    fn bulk(text: &[u8]) -> Vec<u8> {
        [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
    }

    fn entry(id: &str, fields: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = b"*2\r\n".to_vec();
        out.extend(bulk(id.as_bytes()));
        out.extend(format!("*{}\r\n", fields.len() * 2).into_bytes());
        for (name, value) in fields {
            out.extend(bulk(name.as_bytes()));
            out.extend(bulk(value));
        }
        out
    }

    fn entries(head: &[u8], all: &[Vec<u8>]) -> Vec<Entry> {
        let bytes = [head, &bulk(b"orders.created"), format!("*{}\r\n", all.len()).as_bytes(), &all.concat()].concat();
        of_read(&resp::next(&bytes).unwrap().unwrap().0, MAPPING)
    }

    #[test]
    fn entries_are_read_in_both_protocols_and_what_was_removed_has_no_fields() {
        let all = [
            entry("1700000000000-0", &[("payload", b"{}")]),
            [b"*2\r\n".to_vec(), bulk(b"1-2"), b"$-1\r\n".to_vec()].concat(),
        ];
        let (two, three) = (entries(b"*1\r\n*2\r\n", &all), entries(b"%1\r\n", &all));
        assert_eq!(two, three);
        let ids: Vec<_> = two.iter().map(|entry| (entry.id.as_str(), entry.delivery.is_some())).collect();
        assert_eq!(ids, [("1700000000000-0", true), ("1-2", false)]);
        assert!(of_read(&Reply::Null, MAPPING).is_empty());
    }

    #[test]
    fn what_the_transport_adds_is_read_back() {
        let fields: [(&str, &[u8]); 9] = [
            ("id", b"m1"),
            ("tenant", b"acme"),
            ("key", b"order-1"),
            ("event-type", b"order.created"),
            ("event-version", b"3"),
            ("content-type", b"text/plain"),
            ("occurred-at", b"2023-11-14T22:13:20.000Z"),
            ("h:X-Shop", b"berlin"),
            ("payload", b"hello"),
        ];
        let all = entries(b"%1\r\n", &[entry("1700000000001-3", &fields)]);
        let delivery = all.first().unwrap().delivery.clone().unwrap();
        assert_eq!(
            (delivery.id.as_deref(), delivery.position.as_deref()),
            (Some("m1"), Some("orders.created/1700000000001-3"))
        );
        assert_eq!((delivery.token.as_slice(), delivery.topic.as_str()), (&b"1700000000001-3"[..], "orders.created"));
        assert_eq!((delivery.tenant.as_deref(), delivery.key.as_deref()), (Some("acme"), Some("order-1")));
        assert_eq!((delivery.event_version, delivery.content_type.as_deref()), (Some(3), Some("text/plain")));
        assert_eq!((delivery.occurred_at, delivery.payload.as_slice()), (Some(1_700_000_000_000), &b"hello"[..]));
        assert!(delivery.headers.contains(&("X-Shop".to_owned(), "berlin".to_owned())));
        assert!(delivery.headers.contains(&("x-tenant".to_owned(), "acme".to_owned())));
    }

    #[test]
    fn an_entry_without_a_payload_is_a_json_object_of_its_fields() {
        let all = entries(b"%1\r\n", &[entry("1700000000001-0", &[("order", b"7"), ("tenant", b"acme")])]);
        let delivery = all.first().unwrap().delivery.clone().unwrap();
        assert_eq!(delivery.payload, br#"{"order":"7"}"#);
        assert_eq!(delivery.content_type.as_deref(), Some("application/json"));
        assert_eq!((delivery.id, delivery.occurred_at), (None, Some(1_700_000_000_001)));
    }

    #[test]
    fn entries_of_two_streams_have_two_positions() {
        let bytes = [b"*1\r\n".to_vec(), entry("1700000000001-0", &[("payload", b"{}")])].concat();
        let reply = resp::next(&bytes).unwrap().unwrap().0;
        let position = |stream| {
            let read = of_list(&reply, Mapping { stream, ..MAPPING });
            read.first().unwrap().delivery.clone().unwrap().position.unwrap()
        };
        assert_eq!(["a", "b"].map(position), ["a/1700000000001-0", "b/1700000000001-0"]);
    }

    #[test]
    fn a_payload_that_is_too_large_is_told_by_its_size() {
        let all = entries(b"%1\r\n", &[entry("1-0", &[("payload", &[b'x'; 1_001])])]);
        assert_eq!(all.first().unwrap().delivery.as_ref().unwrap().omitted, Some(1_001));
    }

    #[test]
    fn counts_of_deliveries_are_read() {
        let bytes =
            [b"*1\r\n*4\r\n".to_vec(), bulk(b"1-0"), bulk(b"waybill-shop"), b":5000\r\n:3\r\n".to_vec()].concat();
        let (reply, _) = resp::next(&bytes).unwrap().unwrap();
        assert_eq!(of_pending(&reply).collect::<Vec<_>>(), [("1-0", "waybill-shop", 3)]);
    }
}
