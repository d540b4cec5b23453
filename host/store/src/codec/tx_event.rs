//! Audit events of one commit: `[host, [tenant, ...], [group, ...]]`.
//!
//! Events one behind the other that differ in nothing but their ids are a group. Ids that the host made from places one behind the
//! other are a run, so a segment of a thousand messages takes some twenty bytes.

use std::sync::Arc;

use minicbor::encode::Error as EncodeError;
use minicbor::{Decode, Decoder, Encode, Encoder};
use waybill_core::ids::{Place, Seq, Tenant, host_made_id, place_of};
use waybill_core::limits::SEGMENT_MESSAGES_MAX;
use waybill_core::tx_event::{TxEvent, TxEventKind, TxRecord, TxRecordKey, TxSubject};

use super::CodecError;
use super::envelope::{self, Kind};

/// Ids one behind the other.
#[derive(Encode, Decode)]
#[cbor(map)]
struct WireIds<'b> {
    /// An id by itself,
    #[b(0)]
    text: Option<&'b str>,
    /// or ids made from places of this segment,
    #[n(1)]
    segment: Option<u64>,
    /// from this index on,
    #[n(2)]
    from: Option<u16>,
    /// so many of them.
    #[n(3)]
    count: Option<u16>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct WireGroup<'b> {
    #[n(0)]
    kind: u8,
    /// Number of its tenant.
    #[n(1)]
    tenant: u16,
    #[n(2)]
    attempts: Option<u32>,
    #[b(3)]
    code: Option<&'b str>,
    #[b(4)]
    step: Option<&'b str>,
    #[b(5)]
    actor: Option<&'b str>,
    #[b(6)]
    ids: Vec<WireIds<'b>>,
    /// Records of earlier versions have none.
    #[b(7)]
    consumer: Option<&'b str>,
    /// As of consumers.
    #[b(8)]
    relay: Option<&'b str>,
    /// As of consumers.
    #[b(9)]
    stream: Option<&'b str>,
}

fn kind_number(kind: TxEventKind) -> u8 {
    match kind {
        TxEventKind::Begin => 0,
        TxEventKind::Retry => 1,
        TxEventKind::Dead => 2,
        TxEventKind::Replay => 3,
    }
}

fn kind_of(number: u8) -> Result<TxEventKind, CodecError> {
    let kind = TxEventKind::ALL.into_iter().find(|kind| kind_number(*kind) == number);
    kind.ok_or_else(|| CodecError::Damaged(format!("there is no kind of event number {number}")))
}

/// Whether two events differ in nothing but their ids.
fn alike(one: &TxEvent, other: &TxEvent) -> bool {
    (one.kind, &one.tenant, one.attempts) == (other.kind, &other.tenant, other.attempts)
        && (&one.code, &one.step) == (&other.code, &other.step)
        && (&one.consumer, &one.actor) == (&other.consumer, &other.actor)
        && (&one.relay, &one.stream) == (&other.relay, &other.stream)
}

/// Encodes a record. What is in its key isn't repeated.
pub fn encode_tx_events(record: &TxRecord) -> Result<Vec<u8>, EncodeError<std::convert::Infallible>> {
    let mut tenants: Vec<&str> = Vec::new();
    let mut groups: Vec<WireGroup<'_>> = Vec::new();
    let is_message = record.key.of == TxSubject::Message;
    for events in record.events.chunk_by(alike) {
        let Some(first) = events.first() else { continue };
        let tenant = tenants.iter().position(|tenant| *tenant == first.tenant.as_str()).unwrap_or_else(|| {
            tenants.push(first.tenant.as_str());
            tenants.len() - 1
        });
        let mut ids: Vec<WireIds<'_>> = Vec::new();
        for event in events {
            let place = Some(&event.id).filter(|_| is_message).and_then(|id| place_of(id));
            add(&mut ids, &event.id, place.filter(|place| place.shard == record.key.shard));
        }
        groups.push(WireGroup {
            kind: kind_number(first.kind),
            tenant: u16::try_from(tenant).unwrap_or(u16::MAX),
            attempts: Some(first.attempts).filter(|attempts| *attempts > 0),
            code: first.code.as_deref(),
            step: first.step.as_deref(),
            actor: first.actor.as_deref(),
            ids,
            consumer: first.consumer.as_deref(),
            relay: first.relay.as_deref(),
            stream: first.stream.as_deref(),
        });
    }
    let mut encoder = Encoder::new(envelope::begin(64 + 32 * groups.len()));
    encoder.array(3)?.str(&record.host)?.encode(&tenants)?.encode(&groups)?;
    Ok(envelope::seal(Kind::TxEvents, encoder.into_writer()))
}

/// Adds an id, to the last run if it goes on there.
fn add<'b>(ids: &mut Vec<WireIds<'b>>, text: &'b str, place: Option<Place>) {
    let Some(place) = place else {
        ids.push(WireIds { text: Some(text), segment: None, from: None, count: None });
        return;
    };
    if let Some(WireIds { segment: Some(segment), from: Some(from), count: Some(count), .. }) = ids.last_mut()
        && *segment == place.segment.0
        && *from + *count == place.index
    {
        *count += 1;
        return;
    }
    ids.push(WireIds { text: None, segment: Some(place.segment.0), from: Some(place.index), count: Some(1) });
}

/// Decodes the record under a key.
pub fn decode_tx_events(key: TxRecordKey, bytes: &[u8]) -> Result<TxRecord, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::TxEvents, bytes)?);
    decoder.array()?;
    let host = Arc::from(decoder.str()?);
    let tenants: Vec<&str> = decoder.decode()?;
    let tenants = tenants.into_iter().map(Tenant::new).collect::<Result<Vec<_>, _>>()?;
    let groups: Vec<WireGroup<'_>> = decoder.decode()?;
    let mut events = Vec::new();
    for group in groups {
        let tenant = tenants
            .get(usize::from(group.tenant))
            .ok_or_else(|| CodecError::Damaged(format!("it has no tenant number {}", group.tenant)))?;
        let like = TxEvent {
            attempts: group.attempts.unwrap_or(0),
            code: group.code.map(Arc::from),
            step: group.step.map(Arc::from),
            actor: group.actor.map(Arc::from),
            consumer: group.consumer.map(Arc::from),
            relay: group.relay.map(Arc::from),
            stream: group.stream.map(Arc::from),
            ..TxEvent::plain(kind_of(group.kind)?, tenant, "")
        };
        for ids in group.ids {
            match ids {
                WireIds { text: Some(text), .. } => events.push(TxEvent { id: Arc::from(text), ..like.clone() }),
                WireIds { segment: Some(segment), from: Some(from), count: Some(count), .. }
                    if usize::from(from) + usize::from(count) <= SEGMENT_MESSAGES_MAX =>
                {
                    events.extend((from..from + count).map(|index| {
                        let place = Place { shard: key.shard, segment: Seq(segment), index };
                        TxEvent { id: Arc::from(&host_made_id(place)), ..like.clone() }
                    }));
                }
                _ => return Err(CodecError::Damaged("an id is neither a text nor a run of places".to_owned())),
            }
        }
    }
    Ok(TxRecord { key, host, events })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use waybill_core::ids::ShardId;
    use waybill_core::time::UnixMillis;

    use super::*;

    #[test]
    fn a_run_of_places_past_the_end_of_a_segment_is_damage() {
        let key = TxRecordKey { at: UnixMillis(7), shard: ShardId(2), of: TxSubject::Message, beat: 3, part: 0 };
        let with = |from, count| {
            let run = WireIds { text: None, segment: Some(9), from: Some(from), count: Some(count) };
            let (attempts, code, step, actor) = (None, None, None, None);
            let (consumer, relay, stream) = (None, None, None);
            let ids = vec![run];
            let group = WireGroup { kind: 0, tenant: 0, attempts, code, step, actor, ids, consumer, relay, stream };
            let mut encoder = Encoder::new(envelope::begin(0));
            encoder.array(3).unwrap().str("host").unwrap().encode(["acme"]).unwrap().encode([group]).unwrap();
            decode_tx_events(key, &envelope::seal(Kind::TxEvents, encoder.into_writer()))
        };
        assert_eq!(with(4_000, 96).unwrap().events.len(), 96);
        assert!(matches!(with(4_000, 97), Err(CodecError::Damaged(_))));
        assert!(matches!(with(1, u16::MAX), Err(CodecError::Damaged(_))));
    }

    #[test]
    fn a_record_of_before_consumers_were_in_it_is_read_and_one_without_any_is_written_like_it() {
        let key = TxRecordKey { at: UnixMillis(7), shard: ShardId(2), of: TxSubject::Message, beat: 3, part: 0 };
        let mut old = Encoder::new(envelope::begin(0));
        old.array(3).unwrap().str("host").unwrap().encode(["acme"]).unwrap().array(1).unwrap();
        old.map(5).unwrap().u8(0).unwrap().u8(2).unwrap().u8(1).unwrap().u16(0).unwrap();
        old.u8(2).unwrap().u32(12).unwrap().u8(3).unwrap().str("HTTP.400").unwrap();
        old.u8(6).unwrap().array(1).unwrap().map(1).unwrap().u8(0).unwrap().str("m-1").unwrap();
        let old = envelope::seal(Kind::TxEvents, old.into_writer());
        let read = decode_tx_events(key, &old).unwrap();
        let plain = TxEvent::plain(TxEventKind::Dead, &Tenant::new("acme").unwrap(), "m-1");
        assert_eq!(read.events, [TxEvent { attempts: 12, code: Some("HTTP.400".into()), ..plain }]);
        assert_eq!(encode_tx_events(&read).unwrap(), old);
    }
}
