//! Tests of frames.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;

use super::*;
use crate::proto::{KeyValue, Ping, SendReceipt};

const MAX: usize = 1024;

#[test]
fn a_command_is_written_as_the_protocol_has_it() {
    let mut out = Vec::new();
    command(&mut out, Command::Ping(Ping {}));
    // Two lengths, the kind (field 1 is 18), and an empty field 18.
    assert_eq!(out, [0, 0, 0, 9, 0, 0, 0, 5, 0x08, 18, 0x92, 0x01, 0]);
    let (length, frame) = next(&out, MAX).unwrap().unwrap();
    assert_eq!((length, frame.unwrap().command), (13, Command::Ping(Ping {})));
    for cut in 0..out.len() {
        assert_eq!(next(&out[..cut], MAX), Ok(None), "{cut}");
    }
}

fn sent(payload: &[u8]) -> (Vec<u8>, MessageMetadata) {
    let metadata = MessageMetadata {
        producer_name: "p".to_owned(),
        sequence_id: 7,
        publish_time: 1,
        properties: vec![KeyValue { key: "id".to_owned(), value: "m1".to_owned() }],
        ..MessageMetadata::default()
    };
    let mut out = Vec::new();
    let head = Send { producer_id: 1, sequence_id: 7, num_messages: Some(1), highest_sequence_id: None };
    send(&mut out, head, &metadata, payload);
    (out, metadata)
}

#[test]
fn an_entry_is_read_back_and_a_bit_of_it_is_missed() {
    let (out, metadata) = sent(b"payload");
    let (length, frame) = next(&out, MAX).unwrap().unwrap();
    assert_eq!(length, out.len());
    let mut bytes = frame.unwrap().entry;
    assert_eq!(entry(&bytes), Ok((metadata, &b"payload"[..])));
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(entry(&bytes), Err(Garbled("an entry has another checksum than it says")));
}

#[test]
fn what_a_broker_adds_is_skipped_and_no_checksum_is_needed() {
    let (out, metadata) = sent(b"payload");
    let bytes = next(&out, MAX).unwrap().unwrap().1.unwrap().entry;
    let added = [&BROKER_MARK[..], &[0, 0, 0, 2, 8, 1], &bytes].concat();
    assert_eq!(entry(&added), Ok((metadata.clone(), &b"payload"[..])));
    assert_eq!(entry(&bytes[6..]), Ok((metadata, &b"payload"[..])));
}

#[test]
fn a_frame_that_is_too_large_is_refused_before_it_is_there() {
    assert!(next(&[0, 0, 5, 0], MAX).is_err());
    assert_eq!(next(&[0, 0, 4, 0], MAX), Ok(None));
}

#[test]
fn a_command_of_a_newer_broker_is_skipped() {
    // Kind 99 with a field of that number.
    let bytes = [0, 0, 0, 9, 0, 0, 0, 5, 0x08, 99, 0x9a, 0x06, 0];
    assert_eq!(next(&bytes, MAX), Ok(Some((13, None))));
}

#[test]
fn an_answer_is_known_by_its_request() {
    let success = Command::Success(crate::proto::Success { request_id: 4 });
    assert_eq!(success.request(), Some(4));
    let receipt = SendReceipt { producer_id: 1, sequence_id: 4, message_id: None };
    assert_eq!(Command::SendReceipt(receipt).request(), None);
}

proptest! {
    #[test]
    fn garbage_is_refused_or_waits_and_never_breaks(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = next(&bytes, MAX);
        let _ = entry(&bytes);
    }

    #[test]
    fn a_frame_with_garbage_in_it_never_breaks(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let mut framed = Vec::new();
        put_number(&mut framed, bytes.len() + 4);
        put_number(&mut framed, bytes.len());
        framed.extend_from_slice(&bytes);
        let _ = next(&framed, MAX);
    }
}
