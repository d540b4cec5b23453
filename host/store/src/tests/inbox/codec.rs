//! The encodings of the inbox, whatever the records hold.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use waybill_core::ids::{ConsumerName, InboundId, Key, Seq, SourceName, Tenant};
use waybill_core::inbox::fingerprint::{ContentCheck, ContentDigest, Fingerprint, HashSecret, OrderTag};
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::records::{
    ContextCount, InboxDead, InboxDone, InboxEnd, InboxRow, InboxShardRecord, LastError, SagaDoorItem, SourcePosition,
    Take, TakeRecord,
};
use waybill_core::inbox::seen::{Member, OwnedAge};
use waybill_core::outbox::records::DeadState;
use waybill_core::outbox::suspicion::{Suspect, Suspicion};
use waybill_core::port::saga::{ReplyFailure, StepReply};
use waybill_core::saga::event::{Failure, StepDirection};
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::time::UnixMillis;

use crate::codec::CodecError;
use crate::codec::inbox::seen::{
    BLOCK_NUMBERS, BucketHead, Merge, SeenIds, Table, decode_addition, decode_block, decode_bucket, encode_addition,
    encode_block, encode_bucket,
};
use crate::codec::inbox::{
    Head, InboxState, decode_dead, decode_done, decode_head, decode_inbound, decode_saga_door, decode_state,
    decode_takes, encode_dead, encode_done, encode_head, encode_inbound, encode_saga_door, encode_state, encode_takes,
};

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9äß€🚚 _/:.-]{1,20}"
}

/// At most 64 bytes, as names of sources and consumers are.
fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9äß€🚚 _/:.-]{1,16}"
}

fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    vec((text(), text()), 0..3)
}

fn instant() -> impl Strategy<Value = UnixMillis> {
    // As far as a clock tells.
    (0..u64::MAX / 4).prop_map(UnixMillis)
}

fn fingerprint() -> impl Strategy<Value = Fingerprint> {
    any::<[u8; 10]>().prop_map(Fingerprint)
}

prop_compose! {
    fn message()(
        (id, source, tenant, subject) in (text(), name(), text(), text()),
        (own_context, key, headers, content_type) in (option::of(text()), option::of(text()), pairs(), option::of(text())),
        payload in vec(any::<u8>(), 0..300),
        texts in vec(option::of(text()), 5),
        event_version in option::of(any::<u32>()),
        (occurred_at, received_at) in (option::of(instant()), instant()),
        (attributes, omitted) in (pairs(), option::of(any::<u64>())),
    ) -> InboundMessage {
        let context = own_context.unwrap_or_else(|| waybill_core::inbox::message::context_of(&subject).to_owned());
        InboundMessage {
            id: InboundId::new(id).unwrap(),
            source: SourceName::new(source).unwrap(),
            tenant: Tenant::new(tenant).unwrap(),
            subject,
            context,
            key: key.map(|key| Key::new(key).unwrap()),
            headers,
            content_type,
            payload: Bytes::from(payload),
            event_type: texts[0].clone(),
            event_version,
            correlation_id: texts[1].clone(),
            causation_id: texts[2].clone(),
            reply_to: texts[3].clone(),
            occurred_at,
            received_at,
            position: texts[4].clone(),
            attributes,
            omitted,
        }
    }
}

prop_compose! {
    fn row()(
        (consumer, fingerprint, order, digest) in (name(), fingerprint(), option::of(any::<u64>()), any::<u128>()),
        (message, error, attempts, maybe_handled) in (message(), option::of((text(), text())), any::<u32>(), any::<bool>()),
        (due, delay_ms) in (instant(), any::<u32>()),
    ) -> InboxRow {
        InboxRow {
            seq: Seq(77),
            consumer: ConsumerName::new(consumer).unwrap(),
            fingerprint,
            order: order.map(OrderTag),
            digest: ContentDigest(digest),
            message: Arc::new(message),
            attempts,
            last_error: error.map(|(code, reason)| LastError { code, reason }),
            due,
            delay: Duration::from_millis(u64::from(delay_ms)),
            maybe_handled,
        }
    }
}

fn hashes(count: usize) -> impl Strategy<Value = Vec<(Member, ContentCheck)>> {
    btree_map(fingerprint(), any::<u16>(), 0..count)
        .prop_map(|ids| ids.into_iter().map(|(hash, check)| (Member::Hash(hash), ContentCheck(check))).collect())
}

/// Counters of one block, in order.
fn numbers() -> impl Strategy<Value = Vec<(Member, ContentCheck)>> {
    (0..16_u16, btree_map(0..BLOCK_NUMBERS, any::<u16>(), 0..80)).prop_map(|(block, ids)| {
        let of = |(number, check): (u16, u16)| (Member::Number(block * BLOCK_NUMBERS + number), ContentCheck(check));
        ids.into_iter().map(of).collect()
    })
}

fn done(number: usize, tenant: &str, subject: &str, took_ms: u64) -> InboxDone {
    InboxDone {
        consumer: ConsumerName::new(["ship", "bill"][number % 2]).unwrap(),
        id: InboundId::new(format!("m-{number}")).unwrap(),
        tenant: Tenant::new(tenant).unwrap(),
        subject: subject.to_owned(),
        received_at: UnixMillis(1_800_000_000_000),
        processed_at: UnixMillis(1_800_000_000_000 + took_ms),
        attempts: 3,
        end: [InboxEnd::Processed, InboxEnd::Duplicate, InboxEnd::Dead][number % 3],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn messages_come_back(message in message()) {
        prop_assert_eq!(decode_inbound(&encode_inbound(&message).unwrap()).unwrap(), Arc::new(message));
    }

    #[test]
    fn rows_come_back_in_two_parts(row in row()) {
        let head = decode_head(row.seq, &encode_head(&Head::of(&row)).unwrap()).unwrap();
        prop_assert_eq!(head.head.clone(), row.head());
        prop_assert_eq!(head.with(Arc::clone(&row.message)), row);
    }

    #[test]
    fn dead_letters_come_back(row in row(), note in option::of(text()), code in text(), after in any::<u32>()) {
        let state = note.map_or(DeadState::Dead, |note| DeadState::Quarantined { note, at: UnixMillis(9) });
        let dead = InboxDead {
            seq: row.seq,
            consumer: row.consumer,
            fingerprint: row.fingerprint,
            digest: row.digest,
            died_at: row.message.received_at.plus(Duration::from_millis(u64::from(after))),
            message: row.message,
            reason: format!("{code} happened"),
            code,
            attempts: row.attempts,
            state,
        };
        prop_assert_eq!(decode_dead(dead.seq, &encode_dead(&dead).unwrap()).unwrap(), dead);
    }

    #[test]
    fn takes_come_back(takes in vec((any::<u64>(), fingerprint(), any::<u64>(), 0..3_usize), 0..20)) {
        let sources = ["shop", "orders", "Größe"];
        let take = |(seq, fingerprint, order, source): (u64, Fingerprint, u64, usize)| Take {
            seq: Seq(seq),
            fingerprint,
            order: OrderTag(order),
            source: SourceName::new(sources[source]).unwrap(),
        };
        let record = TakeRecord { beat: 8, takes: takes.into_iter().map(take).collect() };
        prop_assert_eq!(decode_takes(8, &encode_takes(&record).unwrap()).unwrap(), record);
    }

    #[test]
    fn what_a_shard_record_packs_comes_back(
        open in btree_map(any::<u64>(), btree_set(any::<u64>(), 1..8), 0..5),
        (calling, alone) in (btree_set(fingerprint(), 0..8), option::of(fingerprint())),
        suspects in btree_map(fingerprint(), any::<(u32, u32)>(), 0..8),
        (unclean, cautious, lived, longest) in any::<(u32, bool, u32, u32)>(),
        contexts in btree_map(text(), any::<(u64, u64)>(), 0..4),
        positions in btree_map(0..3_usize, (text(), option::of(any::<u64>())), 0..3),
    ) {
        let suspicion = Suspicion {
            unclean,
            cautious,
            calling,
            alone,
            suspects: suspects.into_iter().map(|(of, (crashes, alone))| (of, Suspect { crashes, alone })).collect(),
            lived: Duration::from_millis(u64::from(lived)),
            longest_life: Duration::from_millis(u64::from(longest)),
        };
        let count = |(name, (count, at)): (String, (u64, u64))| {
            (Arc::<str>::from(name), ContextCount { count, oldest_at: UnixMillis(at) })
        };
        let sources = ["shop", "orders", "Größe"];
        let position = |(source, (position, since)): (usize, (String, Option<u64>))| {
            let position = SourcePosition { position, unnamed_since: since.map(OwnedAge) };
            (SourceName::new(sources[source]).unwrap(), position)
        };
        let state = InboxState {
            open: open.into_iter().map(|(beat, seqs)| (beat, seqs.into_iter().map(Seq).collect())).collect(),
            suspicion,
            contexts: contexts.into_iter().map(count).collect(),
            positions: positions.into_iter().map(position).collect(),
        };
        let record = InboxShardRecord {
            open: state.open.clone(),
            suspicion: state.suspicion.clone(),
            contexts: state.contexts.clone(),
            positions: state.positions.clone(),
            secret: HashSecret(5),
            ..InboxShardRecord::default()
        };
        prop_assert_eq!(decode_state(&encode_state(&record).unwrap()).unwrap(), state);
    }

    #[test]
    fn history_comes_back(all in vec((text(), text(), any::<u32>()), 0..30)) {
        let of = |(number, (tenant, subject, took)): (usize, (String, String, u32))| {
            done(number, &tenant, &subject, u64::from(took))
        };
        let all: Vec<InboxDone> = all.into_iter().enumerate().map(of).collect();
        prop_assert_eq!(decode_done(&encode_done(&all).unwrap()).unwrap(), all);
    }

    #[test]
    fn additions_come_back(hashes in hashes(50), numbers in numbers(), age in any::<u64>()) {
        for ids in [hashes, numbers] {
            let added = SeenIds { age: OwnedAge(age), ids };
            prop_assert_eq!(decode_addition(&encode_addition(&added).unwrap()).unwrap(), added);
        }
    }

    #[test]
    fn blocks_come_back_and_are_searched(hashes in hashes(400), numbers in numbers(), age in any::<u64>()) {
        for ids in [hashes, numbers] {
            let block = SeenIds { age: OwnedAge(age), ids };
            let read = decode_block(&encode_block(&block).unwrap()).unwrap();
            prop_assert_eq!(&read, &block);
            for (member, check) in &block.ids {
                prop_assert_eq!(read.find(*member), Some(*check));
            }
        }
    }

    #[test]
    fn one_flipped_byte_anywhere_is_found(ids in hashes(40), at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let mut bytes = encode_block(&SeenIds { age: OwnedAge(3), ids }).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(matches!(decode_block(&bytes), Err(CodecError::Damaged(_))));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert!(decode_inbound(&bytes).is_err() && decode_head(Seq(1), &bytes).is_err());
        prop_assert!(decode_dead(Seq(1), &bytes).is_err() && decode_takes(1, &bytes).is_err());
        prop_assert!(decode_state(&bytes).is_err() && decode_done(&bytes).is_err());
        prop_assert!(decode_saga_door(&bytes).is_err() && decode_addition(&bytes).is_err());
        prop_assert!(decode_block(&bytes).is_err() && decode_bucket(&bytes).is_err());
    }
}

#[test]
fn what_is_left_for_sagas_comes_back() {
    let (tenant, id) = (Tenant::new("acme").unwrap(), SagaId::new("order-17~pay").unwrap());
    let signal = SagaDoorItem::Signal {
        key: SagaKey { tenant: tenant.clone(), id: id.clone() },
        name: "paid".into(),
        data: Json::parse("{\"n\":12345678901234567890.5}").unwrap(),
        by: "source shop".into(),
    };
    let failed = ReplyFailure {
        failure: Failure { maybe_done: true, ..Failure::new("HTTP.503", "it was down") },
        retryable: true,
    };
    let reply = |attempt, result| {
        let reply =
            StepReply { id: id.clone(), step: "charge".into(), way: StepDirection::Compensate, attempt, result };
        SagaDoorItem::Reply { tenant: tenant.clone(), reply: Box::new(reply) }
    };
    for item in [signal, reply(Some(3), Ok(Json::parse("[1]").unwrap())), reply(None, Err(failed))] {
        assert_eq!(decode_saga_door(&encode_saga_door(&item).unwrap()).unwrap(), item);
    }
}

#[test]
fn heads_of_buckets_come_back() {
    let table = |number| Table { number, blocks: 7 * number, ids: 2_000 };
    let full = BucketHead {
        age: 77,
        next: 9,
        tables: vec![table(3), table(4)],
        merge: Some(Merge { into: table(8), sources: vec![3, 4], done: 5 }),
        gone: vec![table(1)],
    };
    for head in [full, BucketHead::default()] {
        assert_eq!(decode_bucket(&encode_bucket(&head).unwrap()).unwrap(), head);
    }
}

#[test]
fn a_message_that_was_processed_before_it_was_received_is_refused_with_its_code() {
    let wrong = InboxDone { processed_at: UnixMillis(5), ..done(1, "acme", "orders", 0) };
    let refused = decode_done(&encode_done(&[wrong]).unwrap());
    assert!(
        matches!(&refused, Err(CodecError::Damaged(cause)) if cause.starts_with("INVALID_TIMESTAMP")),
        "{refused:?}"
    );
}

/// What the design promises of sizes: a hundred ids of one minute in 12 bytes each, a full block of counters in 2.
#[test]
fn packed_ids_take_what_they_should() {
    let hash = |number: u16| {
        let mut bytes = [7; 10];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        (Member::Hash(Fingerprint(bytes)), ContentCheck(number))
    };
    let added = SeenIds { age: OwnedAge(1 << 40), ids: (0..100).map(hash).collect() };
    assert!(encode_addition(&added).unwrap().len() <= 100 * 12 + 32);
    let numbers = (0..BLOCK_NUMBERS).map(|number| (Member::Number(number), ContentCheck(number)));
    let block = SeenIds { age: OwnedAge(1 << 40), ids: numbers.collect() };
    assert!(encode_block(&block).unwrap().len() <= usize::from(BLOCK_NUMBERS) * 2 + 512 + 40);
    let history: Vec<InboxDone> = (0..100).map(|number| done(number, "acme", "orders.created", 12)).collect();
    assert!(encode_done(&history).unwrap().len() <= 100 * 70);
}
