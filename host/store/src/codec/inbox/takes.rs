//! The takes of one commit: `[[source, ...], [[seq, fingerprint, order, source], ...]]`. Seqs are differences to the one before, and
//! sources are named once a record.

use minicbor::{Decoder, Encoder};
use waybill_core::ids::{Seq, SourceName};
use waybill_core::inbox::fingerprint::OrderTag;
use waybill_core::inbox::records::{Take, TakeRecord};

use super::{Infallible, fingerprint};
use crate::codec::CodecError;
use crate::codec::attempts::place_of;
use crate::codec::envelope::{self, Kind};

/// Bytes that a take is written in, about.
const TAKE_BYTES: usize = 28;

/// The record's beat is its key and isn't repeated.
pub fn encode_takes(record: &TakeRecord) -> Result<Vec<u8>, Infallible> {
    let mut sources: Vec<&str> = Vec::new();
    let places: Vec<u32> = record.takes.iter().map(|take| place_of(&mut sources, take.source.as_str())).collect();
    let mut encoder = Encoder::new(envelope::begin(record.takes.len() * TAKE_BYTES));
    encoder.array(2)?.encode(&sources)?.array(record.takes.len() as u64)?;
    let mut before = 0_u64;
    for (take, source) in record.takes.iter().zip(places) {
        encoder.array(4)?.u64(take.seq.0.wrapping_sub(before))?.bytes(&take.fingerprint.0)?;
        encoder.u64(take.order.0)?.u32(source)?;
        before = take.seq.0;
    }
    Ok(envelope::seal(Kind::Takes, encoder.into_writer()))
}

pub fn decode_takes(beat: u64, bytes: &[u8]) -> Result<TakeRecord, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::Takes, bytes)?);
    decoder.array()?;
    let names: Vec<&str> = decoder.decode()?;
    let sources = names.into_iter().map(SourceName::new).collect::<Result<Vec<_>, _>>()?;
    let mut takes = Vec::new();
    let mut seq = 0_u64;
    for _ in 0..decoder.array()?.unwrap_or(0) {
        decoder.array()?;
        seq = seq.wrapping_add(decoder.u64()?);
        let fingerprint = fingerprint(decoder.bytes()?)?;
        let order = OrderTag(decoder.u64()?);
        let source = sources.get(decoder.u32()? as usize).cloned();
        let source =
            source.ok_or_else(|| CodecError::Damaged("a take names a source that isn't in its table".into()))?;
        takes.push(Take { seq: Seq(seq), fingerprint, order, source });
    }
    Ok(TakeRecord { beat, takes })
}
