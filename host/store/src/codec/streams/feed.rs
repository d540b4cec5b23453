//! What one commit added: `[at, [[tenant, stream, from, to - from], ...]]`. A tenant that is the one before is left out, as null.

use minicbor::{Decoder, Encoder};
use waybill_core::streams::records::{FeedPart, FeedRecord};
use waybill_core::time::UnixMillis;

use super::{Infallible, stream};
use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};

/// Bytes that a part is written in, about.
const PART_BYTES: usize = 64;

/// The record's number is its key and isn't repeated.
pub fn encode_feed(record: &FeedRecord) -> Result<Vec<u8>, Infallible> {
    let mut encoder = Encoder::new(envelope::begin(record.parts.len() * PART_BYTES));
    encoder.array(2)?.u64(record.at.0)?.array(record.parts.len() as u64)?;
    let mut before = None;
    for part in &record.parts {
        let tenant = part.stream.tenant.as_str();
        encoder.array(4)?.encode((before != Some(tenant)).then_some(tenant))?;
        encoder.str(part.stream.name.as_str())?.u64(part.from)?.u64(part.to.wrapping_sub(part.from))?;
        before = Some(tenant);
    }
    Ok(envelope::seal(Kind::StreamFeed, encoder.into_writer()))
}

pub fn decode_feed(pos: u64, bytes: &[u8]) -> Result<FeedRecord, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::StreamFeed, bytes)?);
    decoder.array()?;
    let at = UnixMillis(decoder.u64()?);
    let (mut parts, mut tenant) = (Vec::new(), "");
    for _ in 0..decoder.array()?.unwrap_or(0) {
        decoder.array()?;
        tenant = decoder.decode::<Option<&str>>()?.unwrap_or(tenant);
        let (stream, from) = (stream(tenant, decoder.str()?)?, decoder.u64()?);
        parts.push(FeedPart { stream, from, to: from.wrapping_add(decoder.u64()?) });
    }
    Ok(FeedRecord { pos, at, parts })
}
