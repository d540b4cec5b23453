//! The encodings of sagas.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use waybill_core::saga::records::JournalEntry;
use waybill_core::saga::state::Tree;
use waybill_testkit::conformance::saga_samples::{after, completed, events, full, key, resting};

use crate::codec::CodecError;
use crate::codec::saga::{Ended, decode_ended, decode_journal, decode_tree, encode_ended, encode_journal, encode_tree};

fn journal() -> Vec<JournalEntry> {
    let entry = |(number, event)| JournalEntry {
        key: key("acme", &format!("saga-{number}")),
        from: number as u32 * 3,
        events: vec![event],
        ended: number % 2 == 1,
    };
    events().into_iter().enumerate().map(entry).collect()
}

fn trees() -> Vec<Tree> {
    let of = || key("acme", "01J00000000000000000000000");
    let rows = [completed(of(), 0), resting(of(), 5)];
    rows.into_iter().map(|row| Arc::unwrap_or_clone(row.tree)).chain([full(of())]).collect()
}

#[test]
fn trees_come_back() {
    for tree in trees() {
        assert_eq!(decode_tree(&encode_tree(&tree).unwrap()).unwrap(), tree);
    }
}

#[test]
fn journals_come_back() {
    assert_eq!(decode_journal(&encode_journal(&journal()).unwrap()).unwrap(), journal());
    assert_eq!(decode_journal(&encode_journal(&[]).unwrap()).unwrap(), []);
}

#[test]
fn a_completed_saga_of_three_steps_fits_its_row() {
    let bytes = encode_tree(&completed(key("acme", "01J00000000000000000000000"), 0).tree).unwrap();
    assert!(bytes.len() < 1_200, "{} bytes", bytes.len());
}

#[test]
fn data_of_a_newer_host_is_told_from_damage() {
    let mut bytes = encode_journal(&journal()).unwrap();
    bytes[3] = 9;
    assert!(matches!(decode_journal(&bytes), Err(CodecError::Damaged(cause)) if cause.contains("checksum")));
    let crc = crc32fast::hash(&[&[b'J', 9], &bytes[8..]].concat()).to_le_bytes();
    bytes[4..8].copy_from_slice(&crc);
    assert_eq!(decode_journal(&bytes), Err(CodecError::Newer(9)));
}

#[test]
fn a_record_of_another_kind_is_refused() {
    let bytes = encode_journal(&journal()).unwrap();
    assert!(matches!(decode_tree(&bytes), Err(CodecError::Damaged(cause)) if cause.contains("another kind")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn one_flipped_byte_anywhere_is_found(at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let mut tree = encode_tree(&full(key("acme", "a"))).unwrap();
        let place = at.index(tree.len());
        tree[place] ^= flip;
        prop_assert!(decode_tree(&tree).is_err());
        let mut entries = encode_journal(&journal()).unwrap();
        let place = at.index(entries.len());
        entries[place] ^= flip;
        prop_assert!(decode_journal(&entries).is_err());
    }

    #[test]
    fn bytes_that_are_sealed_but_make_no_sense_are_an_error(body in vec(any::<u8>(), 0..200)) {
        for kind in [b'J', b'A', b'E'] {
            let crc = crc32fast::hash(&[&[kind, 1], body.as_slice()].concat()).to_le_bytes();
            let bytes = [b"WB".as_slice(), &[kind, 1], &crc, &body].concat();
            // Whatever comes out, nothing panics; an empty list is the only thing so short that it may be right.
            let _ = (decode_journal(&bytes), decode_tree(&bytes).unwrap_err(), decode_ended(&bytes));
        }
    }

    #[test]
    fn ended_ones_come_back(list in vec((any::<u32>(), any::<u32>(), "[a-zäß]{1,9}", any::<bool>(), any::<bool>()), 0..20)) {
        let list: Vec<Ended> = list
            .into_iter()
            .map(|(at, started, id, apart, put_off)| Ended {
                at: after(at.into()),
                started_at: after(started.into()),
                key: key("acme", &id),
                apart,
                put_off,
            })
            .collect();
        prop_assert_eq!(decode_ended(&encode_ended(&list).unwrap()).unwrap(), list);
    }
}
