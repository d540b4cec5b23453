#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
use proptest::prelude::*;

use super::*;
use crate::batch::{self, Filling, Producer};

fn batch(compression: Compression) -> Vec<u8> {
    let mut headers = Vec::new();
    batch::push_header(&mut headers, b"id", b"m1");
    batch::push_header(&mut headers, b"id", b"");
    let mut filling = Filling::default();
    for (timestamp, key) in [(1_000, Some(&b"k"[..])), (999, None)] {
        filling.push(batch::Record { timestamp, key, headers: (&headers, 2), value: b"payload payload payload" });
    }
    filling.end(compression).unwrap().stamped(Producer { id: 7, epoch: 1 }, 5).to_vec()
}

#[test]
fn what_was_written_is_read_back() {
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
    {
        let mut bytes = Bytes::from([batch(compression), b"a piece".to_vec()].concat());
        let read = next_batch(&mut bytes).unwrap().unwrap();
        assert_eq!((read.base_offset, read.last_offset, read.producer_id), (0, 1, 7));
        assert!(!read.is_control && !read.is_transactional);
        let whole = read.whole().unwrap();
        let records: Vec<_> = read.records(&whole).map(Result::unwrap).collect();
        let [first, second] = records.as_slice() else { panic!() };
        assert_eq!((first.offset, first.timestamp, first.key), (0, 1_000, Some(&b"k"[..])));
        assert_eq!((second.offset, second.timestamp, second.key), (1, 999, None));
        assert_eq!(second.headers, [(&b"id"[..], Some(&b"m1"[..])), (b"id", Some(b""))]);
        assert_eq!(second.value, Some(&b"payload payload payload"[..]));
        assert!(next_batch(&mut bytes).unwrap().is_none());
    }
}

#[test]
fn another_stamp_changes_nothing_else() {
    let mut filling = Filling::default();
    filling.push(batch::Record { timestamp: 1, key: None, headers: (&[], 0), value: b"a" });
    let mut batch = filling.end(Compression::None).unwrap();
    let first = batch.stamped(Producer { id: 1, epoch: 0 }, 0);
    let other = batch.stamped(Producer { id: 2, epoch: 0 }, 9);
    assert_ne!(first, other);
    assert_eq!(first, batch.stamped(Producer { id: 1, epoch: 0 }, 0));
    assert_eq!(next_batch(&mut other.clone()).unwrap().unwrap().producer_id, 2);
}

#[test]
fn a_changed_byte_is_found() {
    let mut bytes = batch(Compression::None);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let unreadable = next_batch(&mut Bytes::from(bytes)).unwrap_err();
    assert_eq!((unreadable.why.as_str(), unreadable.base_offset), ("its checksum is wrong", 0));
    assert_eq!(unreadable.bytes, last + 1);
    let mut old = batch(Compression::None);
    old[16] = 1;
    assert!(next_batch(&mut Bytes::from(old)).unwrap_err().why.contains("format 1"));
}

proptest! {
    #[test]
    fn garbage_ends_no_reader(bytes in proptest::collection::vec(any::<u8>(), 0..300), seed in any::<u64>()) {
        let mut garbage = Bytes::from(bytes.clone());
        let _ = next_batch(&mut garbage);
        let mut whole = batch(Compression::None);
        let place = usize::try_from(seed % 1_000).unwrap() % (whole.len() - HEAD_BYTES) + HEAD_BYTES;
        whole[place] ^= 0x55;
        let checksum = crc32c::crc32c(&whole[21..]).to_be_bytes();
        whole[17..21].copy_from_slice(&checksum);
        if let Ok(Some(read)) = next_batch(&mut Bytes::from(whole)) {
            if let Ok(whole) = read.whole() {
                read.records(&whole).take_while(Result::is_ok).for_each(drop);
            }
        }
    }
}
