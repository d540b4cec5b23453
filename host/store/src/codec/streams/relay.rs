//! How far relays are: `[[relay, pos], ...]` in a shard record, and in a checkpoint what is settled beyond it, each number as the difference
//! to the one before.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decoder, Encoder};
use waybill_core::ids::RelayName;

use super::Infallible;
use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};

/// Bytes that a mark is written in, about.
const MARK_BYTES: usize = 24;

pub fn encode_marks(marks: &BTreeMap<RelayName, u64>) -> Result<Vec<u8>, Infallible> {
    let mut encoder = Encoder::new(envelope::begin(marks.len() * MARK_BYTES));
    encoder.array(marks.len() as u64)?;
    for (relay, pos) in marks {
        encoder.array(2)?.str(relay.as_str())?.u64(*pos)?;
    }
    Ok(envelope::seal(Kind::StreamMarks, encoder.into_writer()))
}

pub fn decode_marks(bytes: &[u8]) -> Result<BTreeMap<RelayName, u64>, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::StreamMarks, bytes)?);
    let mut marks = BTreeMap::new();
    for _ in 0..decoder.array()?.unwrap_or(0) {
        decoder.array()?;
        marks.insert(RelayName::new(decoder.str()?)?, decoder.u64()?);
    }
    Ok(marks)
}

pub fn encode_settled(upto: u64, settled: &BTreeSet<u64>) -> Result<Vec<u8>, Infallible> {
    let mut encoder = Encoder::new(envelope::begin(2 * settled.len()));
    encoder.array(settled.len() as u64)?;
    let mut before = upto;
    for seq in settled {
        encoder.u64(seq.wrapping_sub(before))?;
        before = *seq;
    }
    Ok(envelope::seal(Kind::StreamSettled, encoder.into_writer()))
}

pub fn decode_settled(upto: u64, bytes: &[u8]) -> Result<BTreeSet<u64>, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::StreamSettled, bytes)?);
    let (mut settled, mut seq) = (BTreeSet::new(), upto);
    for _ in 0..decoder.array()?.unwrap_or(0) {
        seq = seq.wrapping_add(decoder.u64()?);
        settled.insert(seq);
    }
    Ok(settled)
}
