//! Dead letters of streams: what a doorstep held and couldn't be numbered, what a broker refused for good.

use bytes::Bytes;
use minicbor::bytes::ByteSlice;
use minicbor::{Decode, Encode};
use waybill_core::ids::RelayName;
use waybill_core::outbox::records::DoorKey;
use waybill_core::streams::records::{Refusal, StreamDead};

use super::door::event;
use super::{Infallible, digest, stream};
use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};

/// Bytes of a dead letter besides its envelope.
const DEAD_BYTES: usize = 256;

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireDead<'b> {
    #[b(0)]
    tenant: &'b str,
    #[b(1)]
    stream: &'b str,
    #[b(2)]
    code: &'b str,
    #[b(3)]
    reason: &'b str,
    #[b(4)]
    packed: &'b ByteSlice,
    /// With a seq, of what a relay gave up; else it is from the doorstep.
    #[b(5)]
    relay: Option<&'b str>,
    #[n(6)]
    seq: Option<u64>,
    #[b(7)]
    door: Option<WireDoorKey<'b>>,
    #[n(8)]
    is_indexed: Option<bool>,
    #[b(9)]
    digest: Option<&'b ByteSlice>,
}

#[derive(Encode, Decode)]
struct WireDoorKey<'b> {
    #[n(0)]
    nanos: u64,
    #[n(1)]
    ordinal: u32,
    #[b(2)]
    ulid: &'b str,
}

pub fn encode_dead(dead: &StreamDead) -> Result<Vec<u8>, Infallible> {
    let wire = match dead {
        StreamDead::Door { key, stream, event, why } => WireDead {
            tenant: stream.tenant.as_str(),
            stream: stream.name.as_str(),
            code: &why.code,
            reason: &why.reason,
            packed: <&ByteSlice>::from(event.packed.as_ref()),
            relay: None,
            seq: None,
            door: Some(WireDoorKey { nanos: key.nanos, ordinal: key.ordinal, ulid: &key.ulid }),
            is_indexed: Some(event.is_indexed),
            digest: Some(<&ByteSlice>::from(event.digest.0.as_slice())),
        },
        StreamDead::Relay { relay, stream, seq, packed, why } => WireDead {
            tenant: stream.tenant.as_str(),
            stream: stream.name.as_str(),
            code: &why.code,
            reason: &why.reason,
            packed: <&ByteSlice>::from(packed.as_ref()),
            relay: Some(relay.as_str()),
            seq: Some(*seq),
            door: None,
            is_indexed: None,
            digest: None,
        },
    };
    let mut bytes = envelope::begin(wire.packed.len() + DEAD_BYTES);
    minicbor::encode(wire, &mut bytes)?;
    Ok(envelope::seal(Kind::StreamDead, bytes))
}

pub fn decode_dead(bytes: &[u8]) -> Result<StreamDead, CodecError> {
    let wire: WireDead<'_> = minicbor::decode(envelope::open(Kind::StreamDead, bytes)?)?;
    let stream = stream(wire.tenant, wire.stream)?;
    let why = Refusal { code: wire.code.to_owned(), reason: wire.reason.to_owned() };
    let packed = Bytes::copy_from_slice(wire.packed);
    match (wire.relay, wire.seq, wire.door, wire.digest) {
        (Some(relay), Some(seq), ..) => {
            Ok(StreamDead::Relay { relay: RelayName::new(relay)?, stream, seq, packed, why })
        }
        (_, _, Some(key), Some(bytes)) => {
            let key = DoorKey { nanos: key.nanos, ordinal: key.ordinal, ulid: key.ulid.to_owned() };
            let event = event(wire.is_indexed.unwrap_or(false), digest(bytes)?, packed)?;
            Ok(StreamDead::Door { key, stream, event, why })
        }
        _ => Err(CodecError::Damaged("a dead letter names neither its relay nor its place on a doorstep".into())),
    }
}
