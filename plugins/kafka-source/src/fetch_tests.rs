#![allow(clippy::unwrap_used)]
use waybill_kafka_wire::batch::{Filling, Producer, Record};
use waybill_kafka_wire::compression::Compression;

use super::*;

const MAPPING: Mapping<'static> = Mapping { id_header: "id", most: 1_000 };

fn ample() -> Room {
    Room { count: 100, bytes: 1_000 }
}

/// A batch of so many records from an offset on, by a producer.
fn batch(base: i64, count: usize, producer: i64, is_transactional: bool) -> Vec<u8> {
    let mut filling = Filling::default();
    for _ in 0..count {
        filling.push(Record { timestamp: 1, key: None, headers: (&[], 0), value: b"a" });
    }
    let mut bytes = filling.end(Compression::Lz4).unwrap().stamped(Producer { id: producer, epoch: 0 }, 0).to_vec();
    mark(&mut bytes, base, if is_transactional { 0x13 } else { 3 });
    bytes
}

/// The end of a transaction.
fn marker(base: i64, producer: i64, commits: bool) -> Vec<u8> {
    let mut filling = Filling::default();
    filling.push(Record { timestamp: 1, key: Some(&[0, 0, 0, u8::from(commits)]), headers: (&[], 0), value: &[0; 6] });
    let mut bytes = filling.end(Compression::None).unwrap().stamped(Producer { id: producer, epoch: 0 }, 0).to_vec();
    mark(&mut bytes, base, 0x30);
    bytes
}

fn mark(bytes: &mut [u8], base: i64, attributes: u8) {
    bytes.get_mut(..8).unwrap().copy_from_slice(&base.to_be_bytes());
    *bytes.get_mut(22).unwrap() = attributes;
    let checksum = crc32c::crc32c(bytes.get(21..).unwrap()).to_be_bytes();
    bytes.get_mut(17..21).unwrap().copy_from_slice(&checksum);
}

fn share() -> Share {
    Share::new(("orders".to_owned(), 0), Uuid::nil(), 1, 0, 0)
}

fn held(share: &mut Share) -> Vec<String> {
    std::iter::from_fn(|| share.hand_over(1_000)).filter_map(|delivery| delivery.position).collect()
}

#[test]
fn what_a_transaction_took_back_is_passed_over() {
    let mut share = share();
    let bytes =
        [batch(0, 2, 7, true), batch(2, 1, 8, false), marker(3, 7, false), batch(4, 1, 7, true), marker(5, 7, true)];
    hold(&mut share, Bytes::from(bytes.concat()), vec![(0, 7)], &mut ample(), MAPPING);
    assert_eq!(share.position, 6);
    assert_eq!(held(&mut share), ["orders/0/2", "orders/0/4"]);
}

#[test]
fn what_lies_before_the_position_and_a_piece_at_the_end_are_passed_over() {
    let mut share = share();
    share.position = 1;
    let mut bytes = batch(0, 3, -1, false);
    bytes.extend(batch(3, 3, -1, false).get(..70).unwrap());
    hold(&mut share, Bytes::from(bytes), Vec::new(), &mut ample(), MAPPING);
    assert_eq!((share.position, held(&mut share)), (3, vec!["orders/0/1".to_owned(), "orders/0/2".to_owned()]));
}

#[test]
fn a_batch_that_can_not_be_read_is_fetched_once_more_and_then_one_delivery_that_says_so() {
    let mut share = share();
    let mut broken = batch(0, 3, -1, false);
    // It claims to hold a thousand records: only the batch behind it says where it ends.
    broken.get_mut(23..27).unwrap().copy_from_slice(&1_000_i32.to_be_bytes());
    let bytes = Bytes::from([broken.clone(), batch(3, 1, -1, false)].concat());
    hold(&mut share, bytes.clone(), Vec::new(), &mut ample(), MAPPING);
    assert_eq!((share.position, share.is_empty()), (0, true), "it may have been changed on its way");
    hold(&mut share, bytes, Vec::new(), &mut ample(), MAPPING);
    let delivery = share.hand_over(1_000).unwrap();
    assert_eq!(delivery.attributes.first().unwrap().0, "invalid");
    assert_eq!((share.position, held(&mut share)), (4, vec!["orders/0/3".to_owned()]));

    let mut alone = Share::new(("orders".to_owned(), 0), Uuid::nil(), 1, 0, 0);
    for _ in 0..2 {
        hold(&mut alone, Bytes::from(broken.clone()), Vec::new(), &mut ample(), MAPPING);
    }
    assert_eq!(alone.position, 1, "nothing behind it tells where it ends");
    // Nor is its base offset believed where the partition ends before it.
    broken.get_mut(..8).unwrap().copy_from_slice(&1_000_000_i64.to_be_bytes());
    alone.end = Some(9);
    for _ in 0..2 {
        hold(&mut alone, Bytes::from(broken.clone()), Vec::new(), &mut ample(), MAPPING);
    }
    assert_eq!(alone.position, 2);
}

#[test]
fn what_there_is_no_room_for_is_fetched_again() {
    let mut share = share();
    let bytes = Bytes::from([batch(0, 3, -1, false), batch(3, 3, -1, false)].concat());
    let mut room = Room { count: 2, bytes: 1_000 };
    hold(&mut share, bytes.clone(), Vec::new(), &mut room, MAPPING);
    assert_eq!((share.position, held(&mut share).len()), (2, 2));
    hold(&mut share, bytes.clone(), Vec::new(), &mut room, MAPPING);
    assert_eq!((share.position, held(&mut share).len()), (2, 0), "one room for all partitions");
    hold(&mut share, bytes, Vec::new(), &mut Room { count: 9, bytes: 3 }, MAPPING);
    assert_eq!(
        (share.position, held(&mut share)),
        (5, ["orders/0/2", "orders/0/3", "orders/0/4"].map(str::to_owned).to_vec())
    );
}

#[test]
fn an_answer_finds_its_share_by_name_or_by_id() {
    let id = Uuid::from_u128(5);
    for (topic, share_id) in [(Uuid::nil(), Uuid::nil()), (id, id)] {
        let share = Share::new(("orders".to_owned(), 0), share_id, 1, 0, 0);
        let mut shares = BTreeMap::from([(share.place.clone(), share)]);
        let data = PartitionData::default().with_records(Some(Bytes::from(batch(0, 1, -1, false))));
        let of = waybill_kafka_wire::messages::fetch_response::FetchableTopicResponse::default()
            .with_topic(TopicName(text(if topic.is_nil() { "orders" } else { "" })))
            .with_topic_id(topic)
            .with_partitions(vec![data]);
        let mut answer = FetchResponse::default().with_responses(vec![of]);
        let fetched = take(&mut answer, &mut shares, &mut ample(), MAPPING);
        assert_eq!(fetched, [(("orders".to_owned(), 0), Fetched::Well)]);
        assert_eq!(shares.values().next().unwrap().position, 1);
    }
}
