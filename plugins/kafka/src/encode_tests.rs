//! Tests of what is written for a message.
#![allow(clippy::unwrap_used, clippy::panic)]

use bytes::Bytes;
use waybill_kafka_wire::batch::Producer;
use waybill_kafka_wire::compression::Compression;
use waybill_kafka_wire::records::next_batch;

use super::*;

pub(crate) fn message() -> Message {
    Message {
        id: "m1".to_owned(),
        tenant: "acme".to_owned(),
        topic: "bus:orders.created".to_owned(),
        destination: "orders.created".to_owned(),
        key: Some("order-1".to_owned()),
        headers: vec![
            ("X-Shop".to_owned(), "berlin".to_owned()),
            ("id".to_owned(), "not ours".to_owned()),
            ("X-Tenant".to_owned(), "not ours".to_owned()),
            ("X-Shop".to_owned(), "bonn".to_owned()),
        ],
        content_type: Some("application/json".to_owned()),
        payload: b"{}".to_vec(),
        event_type: Some("order.created".to_owned()),
        envelope_id: None,
        correlation_id: None,
        causation_id: None,
        reply_to: None,
        occurred_at: 0,
        created_at: 1,
        expires_at: None,
        attempt: 2,
        lease_epoch: 7,
        attributes: vec![("seq".to_owned(), "42".to_owned())],
    }
}

const HEADERS: &str = "id=m1 x-tenant=acme x-topic=bus:orders.created x-key=order-1 x-event-type=order.created x-seq=42 \
    content-type=application/json x-occurred-at=1970-01-01T00:00:00.000Z x-created-at=1970-01-01T00:00:00.001Z \
    x-attempt=2 x-lease-epoch=7 X-Shop=berlin X-Shop=bonn";

#[test]
fn a_message_is_one_record_with_its_envelope_as_headers() {
    let mut filling = Filling::default();
    assert!(Encoder::default().add(&mut filling, &message(), 1, 5));
    let bytes = filling.end(Compression::None).unwrap().stamped(Producer { id: 1, epoch: 0 }, 0);
    let batch = next_batch(&mut Bytes::from(bytes)).unwrap().unwrap();
    let whole = batch.whole().unwrap();
    let records = batch.records(&whole).collect::<Result<Vec<_>, _>>().unwrap();
    let [record] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!((record.key, record.value, record.timestamp), (Some(&b"order-1"[..]), Some(&b"{}"[..]), 5));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let headers: Vec<String> =
        record.headers.iter().map(|(name, value)| format!("{}={}", text(name), text(value.unwrap()))).collect();
    assert_eq!(headers.join(" "), HEADERS);
}

#[test]
fn a_batch_is_no_longer_than_it_may_be_and_holds_one_all_the_same() {
    let (mut filling, mut encoder) = (Filling::default(), Encoder::default());
    assert!(encoder.add(&mut filling, &message(), 1, 5));
    assert!(!encoder.add(&mut filling, &message(), 1, 5));
    assert!(encoder.add(&mut filling, &message(), 10_000, 5));
    assert!(filling.len() < 10_000);
}
