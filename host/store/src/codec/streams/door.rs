//! The events of one append: `[tenant, stream, [[indexed, digest, envelope], ...]]`. Id, type and node of an event are in its envelope.

use bytes::Bytes;
use minicbor::{Decoder, Encoder};
use waybill_core::ids::EventId;
use waybill_core::streams::envelope::EventHead;
use waybill_core::streams::event::{EventDigest, NewEvent};
use waybill_core::streams::records::Append;

use super::{Infallible, digest, stream};
use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};

pub fn encode_append(append: &Append) -> Result<Vec<u8>, Infallible> {
    let mut encoder = Encoder::new(envelope::begin(append.weight()));
    encoder.array(3)?.str(append.stream.tenant.as_str())?.str(append.stream.name.as_str())?;
    encoder.array(append.events.len() as u64)?;
    for event in &append.events {
        encoder.array(3)?.bool(event.is_indexed)?.bytes(&event.digest.0)?.bytes(&event.packed)?;
    }
    Ok(envelope::seal(Kind::StreamDoor, encoder.into_writer()))
}

/// The events share the memory of `bytes`.
pub fn decode_append(bytes: &Bytes) -> Result<Append, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::StreamDoor, bytes)?);
    decoder.array()?;
    let stream = stream(decoder.str()?, decoder.str()?)?;
    let mut events = Vec::new();
    for _ in 0..decoder.array()?.unwrap_or(0) {
        decoder.array()?;
        let (is_indexed, digest) = (decoder.bool()?, digest(decoder.bytes()?)?);
        events.push(event(is_indexed, digest, bytes.slice_ref(decoder.bytes()?))?);
    }
    Ok(Append::new(stream, events))
}

/// An event with what its envelope says.
pub(super) fn event(is_indexed: bool, digest: EventDigest, packed: Bytes) -> Result<NewEvent, CodecError> {
    let head = EventHead::of(&packed)
        .map_err(|error| CodecError::Damaged(format!("a stored envelope can't be read: {error}")))?;
    let (id, resource_type) = (EventId::new(head.id)?, head.resource_type.to_owned());
    let node_uuid = Some(head.node_uuid).filter(|node| !node.is_empty()).map(str::to_owned);
    Ok(NewEvent { id, is_indexed, digest, resource_type, node_uuid, packed })
}
