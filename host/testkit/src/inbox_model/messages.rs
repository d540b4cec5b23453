//! Messages as sources bring them: ids in the three forms, contents as payloads.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::{InboundId, Key, SourceName, Tenant};
use waybill_core::inbox::message::InboundMessage;
use waybill_core::time::UnixMillis;

use super::broker::Published;
use super::setup::{IdShape, SOURCES, WALL_START};

const ULID_DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The id of a message on the wire; its number stands in it.
pub(super) fn id(number: u64, shape: IdShape) -> String {
    match shape {
        IdShape::Counter => format!("m-{number}"),
        IdShape::Neither => format!("{number:08x}-0000-4000-8000-000000000000"),
        IdShape::Time => {
            let value = u128::from(WALL_START + number) << 80 | u128::from(number);
            let digit = |place: u32| ULID_DIGITS[(value >> (5 * place) & 31) as usize];
            (0..26).rev().map(|place| char::from(digit(place))).collect()
        }
    }
}

/// The number in an id.
pub(super) fn number_of_id(id: &str) -> u64 {
    if let Some(number) = id.strip_prefix("m-") {
        return number.parse().unwrap();
    }
    match id.split_once('-') {
        Some((number, _)) => u64::from_str_radix(number, 16).unwrap(),
        None => id.bytes().rev().take(8).enumerate().fold(0, |sum, (place, byte)| {
            let digit = ULID_DIGITS.iter().position(|digit| *digit == byte).unwrap() as u64;
            sum | digit << (5 * place)
        }),
    }
}

pub(super) fn number_of(message: &InboundMessage) -> u64 {
    number_of_id(message.id.as_str())
}

pub(super) fn content_of(message: &InboundMessage) -> u8 {
    message.payload.first().copied().unwrap_or_default()
}

/// What a source makes of a published message.
pub(super) fn inbound(
    published: &Published,
    source: usize,
    position: usize,
    shape: IdShape,
    received_at: UnixMillis,
) -> Arc<InboundMessage> {
    Arc::new(InboundMessage {
        id: InboundId::new(id(published.id, shape)).unwrap(),
        source: SourceName::new(SOURCES[source]).unwrap(),
        tenant: Tenant::unnamed(),
        subject: "sales.event.paid.v1".to_owned(),
        context: "sales".to_owned(),
        key: published.key.map(|key| Key::new(format!("k{key}")).unwrap()),
        headers: Vec::new(),
        content_type: None,
        payload: Bytes::from(vec![published.content]),
        event_type: None,
        event_version: None,
        correlation_id: None,
        causation_id: None,
        reply_to: None,
        occurred_at: None,
        received_at,
        position: Some(format!("{source}/{position}")),
        attributes: Vec::new(),
        omitted: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_back_from_an_id_of_any_form() {
        for shape in [IdShape::Time, IdShape::Counter, IdShape::Neither] {
            for number in [1, 31, 32, 1_000, 70_000] {
                assert_eq!(number_of_id(&id(number, shape)), number, "{shape:?}");
            }
        }
    }
}
