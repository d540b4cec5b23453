//! Rows, whose heads are read without their messages, and dead letters. A record's seq is its key and isn't repeated.

use std::sync::Arc;
use std::time::Duration;

use minicbor::bytes::ByteSlice;
use minicbor::{Decode, Encode};
use waybill_core::ids::{ConsumerName, Seq, SourceName};
use waybill_core::inbox::fingerprint::{ContentDigest, OrderTag};
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::records::{InboxDead, InboxRow, LastError, RowHead};
use waybill_core::outbox::records::DeadState;
use waybill_core::time::UnixMillis;

use super::message::WireInbound;
use super::{Infallible, fingerprint};
use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};

/// Bytes of a row or a dead letter besides its message.
const HEAD_BYTES: usize = 256;

/// 128 bits.
fn digest(bytes: &[u8]) -> Result<ContentDigest, CodecError> {
    <[u8; 16]>::try_from(bytes)
        .map(|bytes| ContentDigest(u128::from_be_bytes(bytes)))
        .map_err(|_| CodecError::Damaged(format!("a content's digest has {} bytes", bytes.len())))
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireHead<'b> {
    #[b(0)]
    consumer: &'b str,
    #[b(1)]
    fingerprint: &'b ByteSlice,
    #[n(2)]
    order: Option<u64>,
    #[b(3)]
    digest: &'b ByteSlice,
    #[b(4)]
    source: &'b str,
    #[b(5)]
    context: &'b str,
    #[n(6)]
    received_at: u64,
    #[n(7)]
    attempts: u32,
    #[n(8)]
    due: u64,
    #[n(9)]
    delay_nanos: u64,
    #[n(10)]
    maybe_handled: Option<bool>,
    #[b(11)]
    code: Option<&'b str>,
    #[b(12)]
    reason: Option<&'b str>,
}

/// A row without its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub head: RowHead,
    pub last_error: Option<LastError>,
}

impl Head {
    pub fn of(row: &InboxRow) -> Self {
        Self { head: row.head(), last_error: row.last_error.clone() }
    }

    /// The whole row.
    pub fn with(self, message: Arc<InboundMessage>) -> InboxRow {
        let head = self.head;
        InboxRow {
            seq: head.seq,
            consumer: head.consumer,
            fingerprint: head.fingerprint,
            order: head.order,
            digest: head.digest,
            message,
            attempts: head.attempts,
            last_error: self.last_error,
            due: head.due,
            delay: head.delay,
            maybe_handled: head.maybe_handled,
        }
    }
}

pub fn encode_head(row: &Head) -> Result<Vec<u8>, Infallible> {
    let Head { head, last_error } = row;
    let digest = head.digest.0.to_be_bytes();
    let wire = WireHead {
        consumer: head.consumer.as_str(),
        fingerprint: <&ByteSlice>::from(head.fingerprint.0.as_slice()),
        order: head.order.map(|order| order.0),
        digest: <&ByteSlice>::from(digest.as_slice()),
        source: head.source.as_str(),
        context: &head.context,
        received_at: head.received_at.0,
        attempts: head.attempts,
        due: head.due.0,
        delay_nanos: u64::try_from(head.delay.as_nanos()).unwrap_or(u64::MAX),
        maybe_handled: head.maybe_handled.then_some(true),
        code: last_error.as_ref().map(|error| error.code.as_str()),
        reason: last_error.as_ref().map(|error| error.reason.as_str()),
    };
    let mut bytes = envelope::begin(HEAD_BYTES);
    minicbor::encode(wire, &mut bytes)?;
    Ok(envelope::seal(Kind::InboxHead, bytes))
}

pub fn decode_head(seq: Seq, bytes: &[u8]) -> Result<Head, CodecError> {
    let wire: WireHead<'_> = minicbor::decode(envelope::open(Kind::InboxHead, bytes)?)?;
    let last_error =
        wire.code.map(|code| LastError { code: code.to_owned(), reason: wire.reason.unwrap_or("").to_owned() });
    let head = RowHead {
        seq,
        consumer: ConsumerName::new(wire.consumer)?,
        fingerprint: fingerprint(wire.fingerprint)?,
        order: wire.order.map(OrderTag),
        digest: digest(wire.digest)?,
        source: SourceName::new(wire.source)?,
        context: Arc::from(wire.context),
        received_at: UnixMillis(wire.received_at),
        attempts: wire.attempts,
        due: UnixMillis(wire.due),
        delay: Duration::from_nanos(wire.delay_nanos),
        maybe_handled: wire.maybe_handled.unwrap_or(false),
    };
    Ok(Head { head, last_error })
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireDead<'b> {
    #[b(0)]
    consumer: &'b str,
    #[b(1)]
    fingerprint: &'b ByteSlice,
    #[b(2)]
    digest: &'b ByteSlice,
    #[b(3)]
    message: WireInbound<'b>,
    #[b(4)]
    code: &'b str,
    #[b(5)]
    reason: &'b str,
    #[n(6)]
    attempts: u32,
    #[n(7)]
    died_at: u64,
    #[b(8)]
    note: Option<&'b str>,
    #[n(9)]
    quarantined_at: Option<u64>,
}

pub fn encode_dead(dead: &InboxDead) -> Result<Vec<u8>, Infallible> {
    let (note, quarantined_at) = match &dead.state {
        DeadState::Dead => (None, None),
        DeadState::Quarantined { note, at } => (Some(note.as_str()), Some(at.0)),
    };
    let digest = dead.digest.0.to_be_bytes();
    let wire = WireDead {
        consumer: dead.consumer.as_str(),
        fingerprint: <&ByteSlice>::from(dead.fingerprint.0.as_slice()),
        digest: <&ByteSlice>::from(digest.as_slice()),
        message: WireInbound::of(&dead.message),
        code: &dead.code,
        reason: &dead.reason,
        attempts: dead.attempts,
        died_at: dead.died_at.0,
        note,
        quarantined_at,
    };
    let mut bytes = envelope::begin(HEAD_BYTES + dead.message.weight());
    minicbor::encode(wire, &mut bytes)?;
    Ok(envelope::seal(Kind::InboxDead, bytes))
}

pub fn decode_dead(seq: Seq, bytes: &[u8]) -> Result<InboxDead, CodecError> {
    let wire: WireDead<'_> = minicbor::decode(envelope::open(Kind::InboxDead, bytes)?)?;
    let state = match wire.quarantined_at {
        None => DeadState::Dead,
        Some(at) => DeadState::Quarantined { note: wire.note.unwrap_or("").to_owned(), at: UnixMillis(at) },
    };
    Ok(InboxDead {
        seq,
        consumer: ConsumerName::new(wire.consumer)?,
        fingerprint: fingerprint(wire.fingerprint)?,
        digest: digest(wire.digest)?,
        message: wire.message.into_message()?,
        code: wire.code.to_owned(),
        reason: wire.reason.to_owned(),
        attempts: wire.attempts,
        died_at: UnixMillis(wire.died_at),
        state,
    })
}
