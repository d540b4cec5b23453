//! Groups of messages on a doorstep: `[message, ...]`, each with its tenant.

use std::sync::Arc;

use minicbor::encode::Error as EncodeError;
use minicbor::{Decoder, Encoder};
use waybill_core::ids::Tenant;
use waybill_core::message::Message;

use super::CodecError;
use super::envelope::{self, Kind};
use super::message::{Shared, WireMessage};

pub fn encode_door(messages: &[Arc<Message>]) -> Result<Vec<u8>, EncodeError<std::convert::Infallible>> {
    let weight = messages.iter().map(|message| message.weight()).sum();
    let mut encoder = Encoder::new(envelope::begin(weight));
    encoder.array(messages.len() as u64)?;
    for message in messages {
        encoder.encode(WireMessage::of(message, true))?;
    }
    Ok(envelope::seal(Kind::Door, encoder.into_writer()))
}

pub fn decode_door(bytes: &[u8]) -> Result<Vec<Arc<Message>>, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::Door, bytes)?);
    let count = decoder.array()?.unwrap_or(0);
    let mut shared = Shared::of(Tenant::unnamed());
    let mut messages = Vec::new();
    for _ in 0..count {
        let wire: WireMessage<'_> = decoder.decode()?;
        messages.push(Arc::new(wire.into_message(&mut shared)?));
    }
    Ok(messages)
}
