//! The claimed segments of a shard record: `[[first, acked, moved], ...]`.

use std::collections::BTreeMap;

use minicbor::encode::Error as EncodeError;
use minicbor::{Decoder, Encoder};
use waybill_core::ids::Seq;
use waybill_core::outbox::bits::Bits;
use waybill_core::outbox::records::OpenSegment;

use super::CodecError;
use super::envelope::{self, Kind};

/// Bytes that a claimed segment of some hundred messages takes.
const OPEN_BYTES: usize = 40;

pub fn encode_open(open: &BTreeMap<Seq, OpenSegment>) -> Result<Vec<u8>, EncodeError<std::convert::Infallible>> {
    let mut encoder = Encoder::new(envelope::begin(open.len() * OPEN_BYTES));
    encoder.array(open.len() as u64)?;
    for (first, segment) in open {
        encoder.array(3)?.u64(first.0)?.bytes(&segment.acked.to_bytes())?.bytes(&segment.moved.to_bytes())?;
    }
    Ok(envelope::seal(Kind::Open, encoder.into_writer()))
}

pub fn decode_open(bytes: &[u8]) -> Result<BTreeMap<Seq, OpenSegment>, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::Open, bytes)?);
    let mut open = BTreeMap::new();
    for _ in 0..decoder.array()?.unwrap_or(0) {
        decoder.array()?;
        let first = Seq(decoder.u64()?);
        let acked = Bits::from_bytes(decoder.bytes()?);
        let moved = Bits::from_bytes(decoder.bytes()?);
        open.insert(first, OpenSegment { acked, moved });
    }
    Ok(open)
}
