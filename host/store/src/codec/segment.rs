//! Segments: `[tenant, [[index, message], ...]]`. Entries of an earlier version have two counts of crashes behind
//! their message; they are read over.

use std::sync::Arc;

use minicbor::encode::Error as EncodeError;
use minicbor::{Decode, Decoder, Encode, Encoder};
use waybill_core::ids::{Seq, Tenant};
use waybill_core::outbox::records::{Entry, Segment};

use super::CodecError;
use super::envelope::{self, Kind};
use super::message::{Shared, WireMessage};

#[derive(Encode, Decode)]
struct WireEntry<'b> {
    #[n(0)]
    index: u16,
    #[b(1)]
    message: WireMessage<'b>,
}

/// Writing to memory can't fail; the type of the writer says so.
type Infallible = EncodeError<std::convert::Infallible>;

/// Encodes a segment. Its first seq is its key and isn't repeated.
pub fn encode_segment(segment: &Segment) -> Result<Vec<u8>, Infallible> {
    let mut encoder = Encoder::new(envelope::begin(segment.weight()));
    encoder.array(2)?.str(segment.tenant.as_str())?.array(segment.entries.len() as u64)?;
    for entry in &segment.entries {
        encoder.encode(WireEntry {
            index: entry.index,
            message: WireMessage::of(&entry.message, entry.message.tenant != segment.tenant),
        })?;
    }
    Ok(envelope::seal(Kind::Segment, encoder.into_writer()))
}

pub fn decode_segment(first: Seq, bytes: &[u8]) -> Result<Segment, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::Segment, bytes)?);
    decoder.array()?;
    let tenant = Tenant::new(decoder.str()?)?;
    let count = decoder.array()?.unwrap_or(0);
    let mut shared = Shared::of(tenant.clone());
    let mut entries =
        Vec::with_capacity(usize::try_from(count).unwrap_or(0).min(waybill_core::limits::SEGMENT_MESSAGES_MAX));
    for _ in 0..count {
        let wire: WireEntry<'_> = decoder.decode()?;
        entries.push(Entry { index: wire.index, message: Arc::new(wire.message.into_message(&mut shared)?) });
    }
    Ok(Segment { first, tenant, entries })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use waybill_testkit::conformance::samples;

    #[derive(Encode)]
    struct EarlierEntry<'b> {
        #[n(0)]
        index: u16,
        #[b(1)]
        message: WireMessage<'b>,
        #[n(2)]
        suspect: Option<u32>,
        #[n(3)]
        solo_crashes: Option<u32>,
    }

    #[test]
    fn counts_of_crashes_of_an_earlier_version_are_read_over() {
        let message = samples::message("one");
        let mut encoder = Encoder::new(envelope::begin(0));
        encoder.array(2).unwrap().str(message.tenant.as_str()).unwrap().array(2).unwrap();
        for index in [0, 7] {
            let message = WireMessage::of(&message, false);
            encoder.encode(EarlierEntry { index, message, suspect: Some(5), solo_crashes: Some(2) }).unwrap();
        }
        let bytes = envelope::seal(Kind::Segment, encoder.into_writer());
        let segment = decode_segment(Seq(9), &bytes).unwrap();
        let entry = |index| Entry { index, message: Arc::new(message.clone()) };
        assert_eq!(segment.entries, [entry(0), entry(7)]);
    }
}
