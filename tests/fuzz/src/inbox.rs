//! What the inbox keeps as bytes.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::ids::{ConsumerName, InboundId, Key, Seq, SourceName, Tenant};
use waybill_core::inbox::fingerprint::{ContentCheck, ContentDigest, Fingerprint, OrderTag};
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::records::{
    ContextCount, InboxDead, InboxDone, InboxEnd, InboxRow, InboxShardRecord, LastError, SagaDoorItem, Take, TakeRecord,
};
use waybill_core::inbox::seen::{Member, OwnedAge};
use waybill_core::outbox::records::DeadState;
use waybill_core::outbox::suspicion::{Suspect, Suspicion};
use waybill_core::port::saga::StepReply;
use waybill_core::saga::event::StepDirection;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::time::UnixMillis;
use waybill_store::codec::inbox::seen::{
    BucketHead, Merge, SeenIds, Table, decode_addition, decode_block, decode_bucket, encode_addition, encode_block,
    encode_bucket,
};
use waybill_store::codec::inbox::{
    Head, InboxState, decode_dead, decode_done, decode_head, decode_inbound, decode_saga_door, decode_state,
    decode_takes, encode_dead, encode_done, encode_head, encode_inbound, encode_saga_door, encode_state, encode_takes,
};

use crate::Target;
use crate::records::both;

pub(crate) const TARGETS: &[Target] = &[
    Target { name: "inbound", read: inbound, seeds: inbounds },
    Target { name: "inbox_head", read: head, seeds: heads },
    Target { name: "inbox_dead", read: dead, seeds: dead_letters },
    Target { name: "inbox_takes", read: takes, seeds: take_records },
    Target { name: "inbox_state", read: state, seeds: states },
    Target { name: "inbox_done", read: done, seeds: histories },
    Target { name: "saga_door", read: saga_door, seeds: saga_doors },
    Target { name: "seen_addition", read: addition, seeds: additions },
    Target { name: "seen_block", read: block, seeds: blocks },
    Target { name: "seen_bucket", read: bucket, seeds: buckets },
];

const SEQ: Seq = Seq(1 << 40);
const AT: UnixMillis = UnixMillis(1_800_000_000_000);

fn inbound(bytes: &[u8]) {
    both(b'M', bytes, decode_inbound, |message| encode_inbound(message));
}

fn head(bytes: &[u8]) {
    both(b'I', bytes, |bytes| decode_head(SEQ, bytes), encode_head);
}

fn dead(bytes: &[u8]) {
    both(b'D', bytes, |bytes| decode_dead(SEQ, bytes), encode_dead);
}

fn takes(bytes: &[u8]) {
    both(b'K', bytes, |bytes| decode_takes(7, bytes), encode_takes);
}

fn state(bytes: &[u8]) {
    both(b'U', bytes, decode_state, |state| encode_state(&record(state.clone())));
}

fn done(bytes: &[u8]) {
    both(b'N', bytes, decode_done, |done| encode_done(done));
}

fn saga_door(bytes: &[u8]) {
    both(b'R', bytes, decode_saga_door, encode_saga_door);
}

fn addition(bytes: &[u8]) {
    both(b'Q', bytes, decode_addition, encode_addition);
}

fn block(bytes: &[u8]) {
    both(b'B', bytes, decode_block, encode_block);
}

fn bucket(bytes: &[u8]) {
    both(b'Z', bytes, decode_bucket, encode_bucket);
}

/// A shard record with what is packed of it.
fn record(state: InboxState) -> InboxShardRecord {
    let InboxState { open, suspicion, contexts } = state;
    InboxShardRecord { open, suspicion, contexts, ..InboxShardRecord::default() }
}

fn message() -> Arc<InboundMessage> {
    Arc::new(InboundMessage {
        id: InboundId::new("outbox-17").expect("a sample"),
        source: SourceName::new("shop").expect("a sample"),
        tenant: Tenant::new("Größe & Söhne").expect("a sample"),
        subject: "orders.created".into(),
        context: "sales".into(),
        key: Some(Key::new("order-17").expect("a sample")),
        headers: vec![("x-a".into(), "1".into()), ("x-a".into(), String::new())],
        content_type: Some("application/json".into()),
        payload: "{\"n\":1}".into(),
        event_type: Some("created".into()),
        event_version: Some(3),
        correlation_id: Some("corr".into()),
        causation_id: Some("cause".into()),
        reply_to: Some("bus:replies".into()),
        occurred_at: Some(AT),
        received_at: AT,
        position: Some("orders@5/17".into()),
        attributes: vec![("partition".into(), "3".into())],
        omitted: Some(5_000_000),
    })
}

fn row() -> InboxRow {
    InboxRow {
        seq: SEQ,
        consumer: ConsumerName::new("ship").expect("a sample"),
        fingerprint: Fingerprint([7; 10]),
        order: Some(OrderTag(9)),
        digest: ContentDigest(1 << 100),
        message: message(),
        attempts: 4,
        last_error: Some(LastError { code: "HTTP.503".into(), reason: "it was down".into() }),
        due: AT,
        delay: Duration::from_millis(1_500),
        maybe_handled: true,
    }
}

fn inbounds() -> Vec<Vec<u8>> {
    vec![encode_inbound(&message()).expect("a sample")]
}

fn heads() -> Vec<Vec<u8>> {
    vec![encode_head(&Head::of(&row())).expect("a sample")]
}

fn dead_letters() -> Vec<Vec<u8>> {
    let row = row();
    let state = DeadState::Quarantined { note: "look".into(), at: AT };
    let dead = InboxDead {
        seq: SEQ,
        consumer: row.consumer,
        fingerprint: row.fingerprint,
        digest: row.digest,
        message: row.message,
        code: "HTTP.422".into(),
        reason: "it can't be read".into(),
        attempts: 1,
        died_at: AT,
        state,
    };
    vec![encode_dead(&dead).expect("a sample")]
}

fn take_records() -> Vec<Vec<u8>> {
    let take = |number: u64, source: &str| Take {
        seq: Seq(SEQ.0 + number),
        fingerprint: Fingerprint([number as u8; 10]),
        order: OrderTag(number),
        source: SourceName::new(source).expect("a sample"),
    };
    let takes = vec![take(1, "shop"), take(2, "orders"), take(3, "shop")];
    vec![encode_takes(&TakeRecord { beat: 7, takes }).expect("a sample")]
}

fn states() -> Vec<Vec<u8>> {
    let named = Fingerprint([3; 10]);
    let suspicion = Suspicion {
        unclean: 2,
        cautious: true,
        calling: [named, Fingerprint([5; 10])].into(),
        alone: Some(named),
        suspects: [(named, Suspect { crashes: 3, alone: 1 })].into(),
        lived: Duration::from_secs(5),
        longest_life: Duration::from_secs(60),
    };
    let state = InboxState {
        open: [(7, [SEQ, Seq(SEQ.0 + 9)].into())].into(),
        suspicion,
        contexts: [("sales".into(), ContextCount { count: 4, oldest_at: AT })].into(),
    };
    vec![encode_state(&record(state)).expect("a sample")]
}

fn histories() -> Vec<Vec<u8>> {
    let done = |id: &str, end| InboxDone {
        consumer: ConsumerName::new("ship").expect("a sample"),
        id: InboundId::new(id).expect("a sample"),
        tenant: Tenant::unnamed(),
        subject: "orders.created".into(),
        received_at: AT,
        processed_at: UnixMillis(AT.0 + 40),
        attempts: 2,
        end,
    };
    let all = [done("a", InboxEnd::Processed), done("b", InboxEnd::Duplicate), done("c", InboxEnd::Dead)];
    vec![encode_done(&all).expect("a sample")]
}

fn saga_doors() -> Vec<Vec<u8>> {
    let (tenant, id) = (Tenant::unnamed(), SagaId::new("order-17~pay").expect("a sample"));
    let reply = StepReply {
        id: id.clone(),
        step: "charge".into(),
        way: StepDirection::Execute,
        attempt: Some(2),
        result: Ok(Json::null()),
    };
    let signal = SagaDoorItem::Signal {
        key: SagaKey { tenant: tenant.clone(), id },
        name: "paid".into(),
        data: Json::null(),
        by: "source shop".into(),
    };
    let items = [signal, SagaDoorItem::Reply { tenant, reply: Box::new(reply) }];
    items.iter().map(|item| encode_saga_door(item).expect("a sample")).collect()
}

/// Ids of both kinds, in order.
fn ids() -> [SeenIds; 2] {
    let hashes = (0..5).map(|number| (Member::Hash(Fingerprint([number; 10])), ContentCheck(number.into())));
    let numbers = [4_096, 4_097, 8_191].map(|number| (Member::Number(number), ContentCheck(number)));
    let age = OwnedAge(86_400_000);
    [SeenIds { age, ids: hashes.collect() }, SeenIds { age, ids: numbers.into() }]
}

fn additions() -> Vec<Vec<u8>> {
    ids().iter().map(|ids| encode_addition(ids).expect("a sample")).collect()
}

fn blocks() -> Vec<Vec<u8>> {
    ids().iter().map(|ids| encode_block(ids).expect("a sample")).collect()
}

fn buckets() -> Vec<Vec<u8>> {
    let table = |number| Table { number, blocks: 4, ids: 1_000 };
    let head = BucketHead {
        age: 86_400_000,
        next: 5,
        tables: vec![table(1), table(2)],
        merge: Some(Merge { into: table(4), sources: vec![1, 2], done: 3 }),
        gone: vec![table(0)],
    };
    vec![encode_bucket(&head).expect("a sample")]
}
