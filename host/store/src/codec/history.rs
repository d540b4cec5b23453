//! Chunks of finished messages: `[at, names, [done, ...]]`.

use std::sync::Arc;

use minicbor::encode::Error as EncodeError;
use minicbor::{Decode, Decoder, Encode, Encoder};
use waybill_core::ids::{Seq, ShardId, Tenant};
use waybill_core::outbox::records::{Done, DoneEnd, HistoryChunk};
use waybill_core::time::UnixMillis;

use super::CodecError;
use super::attempts::{Names, WireAttempt, WireReceipt};
use super::envelope::{self, Kind};
use super::message::{Shared, WireMessage};

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireDone<'b> {
    #[n(0)]
    index: u16,
    #[b(1)]
    message: WireMessage<'b>,
    #[n(2)]
    end: u8,
    #[n(3)]
    at: u64,
    #[n(4)]
    attempts: u32,
    #[b(5)]
    receipt: Option<WireReceipt<'b>>,
    #[b(6)]
    history: Vec<WireAttempt<'b>>,
}

/// Encodes a chunk. Shard, segment and beat are its key and aren't repeated.
pub fn encode_history(chunk: &HistoryChunk) -> Result<Vec<u8>, EncodeError<std::convert::Infallible>> {
    let mut names = Names::default();
    let mut entries = Vec::with_capacity(chunk.entries.len());
    let mut weight = 64;
    for done in &chunk.entries {
        weight += done.message.weight() + 64 * done.history.len();
        entries.push(WireDone {
            index: done.index,
            message: WireMessage::of(&done.message, true),
            end: match done.end {
                DoneEnd::Delivered => 0,
                DoneEnd::Cancelled => 1,
                DoneEnd::Expired => 2,
                DoneEnd::Purged => 3,
            },
            at: done.at.0,
            attempts: done.attempts,
            receipt: done.receipt.as_ref().map(WireReceipt::of),
            history: names.pack(&done.history),
        });
    }
    let mut encoder = Encoder::new(envelope::begin(weight));
    encoder.array(3)?.u64(chunk.at.0)?.encode(&names)?.array(entries.len() as u64)?;
    for entry in &entries {
        encoder.encode(entry)?;
    }
    Ok(envelope::seal(Kind::History, encoder.into_writer()))
}

pub fn decode_history(shard: ShardId, segment: Seq, beat: u64, bytes: &[u8]) -> Result<HistoryChunk, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::History, bytes)?);
    decoder.array()?;
    let at = UnixMillis(decoder.u64()?);
    let names: Names<'_> = decoder.decode()?;
    let mut shared = Shared::of(Tenant::unnamed());
    let mut entries = Vec::new();
    for _ in 0..decoder.array()?.unwrap_or(0) {
        let wire: WireDone<'_> = decoder.decode()?;
        entries.push(Done {
            index: wire.index,
            message: Arc::new(wire.message.into_message(&mut shared)?),
            end: match wire.end {
                0 => DoneEnd::Delivered,
                1 => DoneEnd::Cancelled,
                2 => DoneEnd::Expired,
                3 => DoneEnd::Purged,
                other => return Err(CodecError::Damaged(format!("there is no end number {other}"))),
            },
            at: UnixMillis(wire.at),
            attempts: wire.attempts,
            receipt: wire.receipt.map(WireReceipt::into_receipt),
            history: names.unpack(wire.history)?,
        });
    }
    Ok(HistoryChunk { shard, segment, beat, at, entries })
}
