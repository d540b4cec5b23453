//! Messages that stopped: parked, scheduled, dead. The row's plain columns are for people; this is what the host reads.

use std::time::Duration;

use minicbor::encode::Error as EncodeError;
use minicbor::{Decode, Encode};
use waybill_core::ids::{Place, Seq, ShardId};
use waybill_core::outbox::records::{DeadLetter, DeadState, Parked, Scheduled};
use waybill_core::time::UnixMillis;

use super::CodecError;
use super::attempts::{Names, WireAttempt};
use super::envelope::{self, Kind};
use super::message::{WireMessage, alone};

type Infallible = EncodeError<std::convert::Infallible>;

/// Bytes of a row besides its message.
const ROW_BYTES: usize = 256;

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireParked<'b> {
    #[n(0)]
    segment: u64,
    #[n(1)]
    index: u16,
    #[b(2)]
    message: WireMessage<'b>,
    #[n(3)]
    attempts: u32,
    /// Counts of crashes of an earlier version, which reads no row without them.
    #[n(4)]
    zero: u32,
    #[n(5)]
    zero_too: u32,
    #[n(6)]
    due: u64,
    #[n(7)]
    delay_nanos: u64,
    #[n(8)]
    first_attempt_at: u64,
    #[n(9)]
    claimed: bool,
    #[b(10)]
    names: Names<'b>,
    #[b(11)]
    history: Vec<WireAttempt<'b>>,
}

fn seal<T: Encode<()>>(kind: Kind, weight: usize, wire: T) -> Result<Vec<u8>, Infallible> {
    let mut bytes = envelope::begin(weight + ROW_BYTES);
    minicbor::encode(wire, &mut bytes)?;
    Ok(envelope::seal(kind, bytes))
}

/// Encodes a parked message.
pub fn encode_parked(parked: &Parked) -> Result<Vec<u8>, Infallible> {
    let mut names = Names::default();
    let history = names.pack(&parked.history);
    let wire = WireParked {
        segment: parked.place.segment.0,
        index: parked.place.index,
        message: WireMessage::of(&parked.message, true),
        attempts: parked.attempts,
        zero: 0,
        zero_too: 0,
        due: parked.due.0,
        delay_nanos: u64::try_from(parked.delay.as_nanos()).unwrap_or(u64::MAX),
        first_attempt_at: parked.first_attempt_at.0,
        claimed: parked.claimed,
        names,
        history,
    };
    seal(Kind::Parked, parked.message.weight(), wire)
}

/// Decodes a parked message.
pub fn decode_parked(shard: ShardId, bytes: &[u8]) -> Result<Parked, CodecError> {
    let wire: WireParked<'_> = minicbor::decode(envelope::open(Kind::Parked, bytes)?)?;
    Ok(Parked {
        place: Place { shard, segment: Seq(wire.segment), index: wire.index },
        message: alone(wire.message)?,
        attempts: wire.attempts,
        due: UnixMillis(wire.due),
        delay: Duration::from_nanos(wire.delay_nanos),
        first_attempt_at: UnixMillis(wire.first_attempt_at),
        claimed: wire.claimed,
        history: wire.names.unpack(wire.history)?,
    })
}

/// Encodes a scheduled message: the message alone, its instant is in the key.
pub fn encode_scheduled(scheduled: &Scheduled) -> Result<Vec<u8>, Infallible> {
    seal(Kind::Scheduled, scheduled.message.weight(), WireMessage::of(&scheduled.message, true))
}

/// Decodes a scheduled message.
pub fn decode_scheduled(shard: ShardId, due: UnixMillis, bytes: &[u8]) -> Result<Scheduled, CodecError> {
    let wire: WireMessage<'_> = minicbor::decode(envelope::open(Kind::Scheduled, bytes)?)?;
    Ok(Scheduled { shard, due, message: alone(wire)? })
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireDead<'b> {
    #[n(0)]
    segment: u64,
    #[n(1)]
    index: u16,
    #[b(2)]
    message: WireMessage<'b>,
    #[b(3)]
    code: &'b str,
    #[b(4)]
    reason: &'b str,
    #[n(5)]
    attempts: u32,
    #[n(6)]
    suspect: u32,
    #[n(7)]
    died_at: u64,
    #[b(8)]
    note: Option<&'b str>,
    #[n(9)]
    quarantined_at: Option<u64>,
    #[n(10)]
    holds_key: bool,
    #[b(11)]
    names: Names<'b>,
    #[b(12)]
    history: Vec<WireAttempt<'b>>,
}

/// Encodes a dead letter.
pub fn encode_dead(dead: &DeadLetter) -> Result<Vec<u8>, Infallible> {
    let mut names = Names::default();
    let history = names.pack(&dead.history);
    let (note, quarantined_at) = match &dead.state {
        DeadState::Dead => (None, None),
        DeadState::Quarantined { note, at } => (Some(note.as_str()), Some(at.0)),
    };
    let wire = WireDead {
        segment: dead.place.segment.0,
        index: dead.place.index,
        message: WireMessage::of(&dead.message, true),
        code: &dead.code,
        reason: &dead.reason,
        attempts: dead.attempts,
        suspect: dead.suspect,
        died_at: dead.died_at.0,
        note,
        quarantined_at,
        holds_key: dead.holds_key,
        names,
        history,
    };
    seal(Kind::Dead, dead.message.weight(), wire)
}

/// Decodes a dead letter.
pub fn decode_dead(shard: ShardId, bytes: &[u8]) -> Result<DeadLetter, CodecError> {
    let wire: WireDead<'_> = minicbor::decode(envelope::open(Kind::Dead, bytes)?)?;
    let state = match wire.quarantined_at {
        None => DeadState::Dead,
        Some(at) => DeadState::Quarantined { note: wire.note.unwrap_or("").to_owned(), at: UnixMillis(at) },
    };
    Ok(DeadLetter {
        place: Place { shard, segment: Seq(wire.segment), index: wire.index },
        message: alone(wire.message)?,
        code: wire.code.to_owned(),
        reason: wire.reason.to_owned(),
        attempts: wire.attempts,
        suspect: wire.suspect,
        died_at: UnixMillis(wire.died_at),
        state,
        holds_key: wire.holds_key,
        history: wire.names.unpack(wire.history)?,
    })
}
