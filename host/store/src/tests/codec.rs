//! The encodings, whatever the records hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use waybill_core::annotation::Annotation;
use waybill_core::ids::{Key, MessageId, Place, Seq, ShardId, Tenant, host_made_id};
use waybill_core::message::{Message, Payload};
use waybill_core::new_message::usual_event_type;
use waybill_core::outbox::records::{
    AttemptRecord, DeadLetter, DeadState, Done, DoneEnd, Entry, HistoryChunk, Parked, Scheduled, Segment,
};
use waybill_core::outbox::suspicion::{Suspect, Suspicion};
use waybill_core::time::UnixMillis;
use waybill_core::topic::Topic;
use waybill_core::tx_event::{TxEvent, TxEventKind, TxRecord, TxRecordKey, TxSubject};
use waybill_testkit::conformance::samples;

use crate::codec::{
    CodecError, decode_dead, decode_door, decode_history, decode_parked, decode_segment, decode_suspicion,
    decode_tx_events, encode_dead, encode_door, encode_history, encode_parked, encode_scheduled, encode_segment,
    encode_suspicion, encode_tx_events,
};

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9äß€🚚 _/:.-]{1,20}"
}

fn instant() -> impl Strategy<Value = UnixMillis> {
    any::<u64>().prop_map(UnixMillis)
}

fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        vec(any::<u8>(), 0..300).prop_map(|bytes| Payload::Inline(Bytes::from(bytes))),
        (text(), any::<u32>()).prop_map(|(blob, bytes)| Payload::Blob { blob, bytes }),
    ]
}

fn topic() -> impl Strategy<Value = Topic> {
    prop_oneof![Just("bus:orders.created"), Just("https://a.example/x?y=1"), Just("custom:mail")]
        .prop_map(|topic| Topic::parse(topic).unwrap())
}

prop_compose! {
    fn message()(
        (id, caller_id, tenant, topic, key) in (text(), any::<bool>(), text(), topic(), option::of(text())),
        (headers, payload) in (vec((text(), text()), 0..3), payload()),
        (event_type, event_version) in (option::of(text()), prop_oneof![Just(1_u32), any::<u32>()]),
        texts in vec(option::of(text()), Annotation::COUNT),
        (occurred_at, created_at, same, not_before, expires_at)
            in (instant(), instant(), any::<bool>(), option::of(instant()), option::of(instant())),
        statements in option::of(any::<[u8; 32]>().prop_map(Box::new)),
        (replays, replayed_by) in (prop_oneof![Just(0_u32), any::<u32>()], option::of(text().prop_map(Arc::<str>::from))),
    ) -> Message {
        Message {
            id: MessageId::new(id).unwrap(),
            caller_id,
            tenant: Tenant::new(tenant).unwrap(),
            key: key.map(|key| Key::new(key).unwrap()),
            headers,
            payload,
            event_type: event_type.unwrap_or_else(|| usual_event_type(&topic).to_owned()),
            topic,
            event_version,
            annotations: Annotation::ALL.into_iter().zip(texts).filter_map(|(annotation, text)| Some((annotation, text?))).collect(),
            occurred_at: if same { created_at } else { occurred_at },
            created_at,
            not_before,
            expires_at,
            statements,
            replays,
            replayed_by,
        }
    }
}

prop_compose! {
    fn segment()(tenant in text(), entries in vec((any::<u16>(), message(), any::<bool>()), 0..8)) -> Segment {
        let tenant = Tenant::new(tenant).unwrap();
        let entries = entries.into_iter().map(|(index, mut message, own)| {
            if own {
                message.tenant = tenant.clone();
            }
            Entry { index, message: Arc::new(message) }
        });
        Segment { first: Seq(7), entries: entries.collect(), tenant }
    }
}

fn attempts() -> impl Strategy<Value = Vec<AttemptRecord>> {
    vec((0..3_usize, text(), any::<u64>()), 0..6).prop_map(|picks| {
        let vary = |(sample, worker, took_ms): (usize, String, u64)| AttemptRecord {
            worker: worker.into(),
            took_ms,
            ..samples::attempts()[sample].clone()
        };
        picks.into_iter().map(vary).collect()
    })
}

prop_compose! {
    fn done()(index in any::<u16>(), message in message(), at in instant(), attempts in any::<u32>(), history in attempts(), full in any::<bool>()) -> Done {
        let sample = samples::done(index, message, DoneEnd::Expired);
        Done { at, attempts, history, receipt: sample.receipt.clone().filter(|_| full), ..sample }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn segments_come_back(segment in segment()) {
        let bytes = encode_segment(&segment).unwrap();
        prop_assert_eq!(decode_segment(segment.first, &bytes).unwrap(), segment);
    }

    #[test]
    fn one_flipped_byte_anywhere_is_found(segment in segment(), at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let mut bytes = encode_segment(&segment).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(matches!(decode_segment(segment.first, &bytes), Err(CodecError::Damaged(_))));
    }

    #[test]
    fn a_cut_segment_is_found(segment in segment(), at in any::<prop::sample::Index>()) {
        let bytes = encode_segment(&segment).unwrap();
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(decode_segment(segment.first, cut).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert!(decode_segment(Seq(1), &bytes).is_err());
        prop_assert!(decode_door(&bytes).is_err());
        prop_assert!(decode_suspicion(&bytes).is_err());
        prop_assert!(decode_tx_events(tx_key(), &bytes).is_err());
    }

    #[test]
    fn suspicion_comes_back(
        calling in btree_set(any::<u64>(), 0..20),
        suspects in btree_map(any::<u64>(), (any::<u32>(), any::<u32>()), 0..20),
        alone in any::<Option<u64>>(),
        (unclean, cautious) in any::<(u32, bool)>(),
        (lived, longest_life) in any::<(u32, u32)>(),
    ) {
        let suspicion = Suspicion {
            unclean,
            cautious,
            calling: calling.into_iter().map(Seq).collect(),
            alone: alone.map(Seq),
            suspects: suspects.into_iter().map(|(seq, (crashes, alone))| (Seq(seq), Suspect { crashes, alone })).collect(),
            lived: Duration::from_millis(u64::from(lived)),
            longest_life: Duration::from_millis(u64::from(longest_life)),
        };
        prop_assert_eq!(decode_suspicion(&encode_suspicion(&suspicion).unwrap()).unwrap(), suspicion);
    }

    #[test]
    fn groups_on_the_doorstep_come_back(messages in vec(message(), 0..8)) {
        let messages: Vec<Arc<Message>> = messages.into_iter().map(Arc::new).collect();
        prop_assert_eq!(decode_door(&encode_door(&messages).unwrap()).unwrap(), messages);
    }

    #[test]
    fn history_comes_back(entries in vec(done(), 0..6), at in instant()) {
        let chunk = HistoryChunk { shard: ShardId(3), segment: Seq(9), beat: 4, at, entries };
        let bytes = encode_history(&chunk).unwrap();
        prop_assert_eq!(decode_history(ShardId(3), Seq(9), 4, &bytes).unwrap(), chunk);
    }

    #[test]
    fn stopped_messages_come_back(message in message(), history in attempts(), number in any::<u32>(), flag in any::<bool>(), note in text()) {
        let message = Arc::new(message);
        let place = Place { shard: ShardId(2), segment: Seq(u64::from(number)), index: 4_000 };
        let parked = Parked {
            place,
            message: Arc::clone(&message),
            attempts: number,
            due: UnixMillis(u64::from(number)),
            delay: Duration::from_nanos(u64::from(number)),
            first_attempt_at: UnixMillis(5),
            claimed: flag,
            history: history.clone(),
        };
        prop_assert_eq!(decode_parked(ShardId(2), &encode_parked(&parked).unwrap()).unwrap(), parked);
        let state = if flag { DeadState::Dead } else { DeadState::Quarantined { note: note.clone(), at: UnixMillis(3) } };
        let dead = DeadLetter {
            place, message, code: note.clone(), reason: note, attempts: number, suspect: 3, died_at: UnixMillis(1), state, holds_key: flag, history,
        };
        prop_assert_eq!(decode_dead(ShardId(2), &encode_dead(&dead).unwrap()).unwrap(), dead);
    }
}

fn tx_key() -> TxRecordKey {
    TxRecordKey { at: UnixMillis(7), shard: ShardId(2), of: TxSubject::Message, beat: 3, part: 0 }
}

/// What every commit writes besides must stay small.
#[test]
fn events_of_a_segment_take_some_twenty_bytes_and_those_of_callers_ids_little_more_than_the_ids() {
    let record = |id: &dyn Fn(u16) -> String| {
        let event = |index| TxEvent::plain(TxEventKind::Begin, &Tenant::unnamed(), id(index));
        TxRecord { key: tx_key(), host: "host-1".into(), events: (0..1_000).map(event).collect() }
    };
    let place = |index| Place { shard: ShardId(2), segment: Seq(1_800_000_000_000 << 20), index };
    let made = record(&|index| host_made_id(place(index)).as_str().to_owned());
    let bytes = encode_tx_events(&made).unwrap();
    assert!(bytes.len() < 64, "{} bytes", bytes.len());
    assert_eq!(decode_tx_events(tx_key(), &bytes).unwrap(), made);
    let chosen = record(&|index| format!("order-{index:04}"));
    let bytes = encode_tx_events(&chosen).unwrap();
    assert!(bytes.len() < 1_000 * ("order-0000".len() + 4) + 64, "{} bytes", bytes.len());
    assert_eq!(decode_tx_events(tx_key(), &bytes).unwrap(), chosen);
}

/// What an earlier version wrote has these numbers.
#[test]
fn annotations_lie_under_their_numbers() {
    let message = Message { annotations: samples::all_annotations(), ..samples::message("m") };
    let scheduled = Scheduled { shard: ShardId(0), due: UnixMillis(1), message: Arc::new(message) };
    let bytes = encode_scheduled(&scheduled).unwrap();
    let mut body = minicbor::Decoder::new(&bytes[8..]);
    let mut texts = BTreeMap::new();
    for _ in 0..body.map().unwrap().unwrap() {
        let number = body.u8().unwrap();
        match body.datatype().unwrap() {
            minicbor::data::Type::String => {
                texts.insert(number, body.str().unwrap());
            }
            _ => body.skip().unwrap(),
        }
    }
    for (number, annotation) in [
        (6, Annotation::ContentType),
        (12, Annotation::AggregateType),
        (13, Annotation::AggregateId),
        (14, Annotation::EnvelopeId),
        (15, Annotation::CorrelationId),
        (16, Annotation::CausationId),
        (17, Annotation::ReplyTo),
        (18, Annotation::Traceparent),
    ] {
        assert_eq!(texts.get(&number).copied(), scheduled.message.annotation(annotation), "{annotation:?}");
    }
}
