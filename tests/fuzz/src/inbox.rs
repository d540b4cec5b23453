//! What the inbox keeps as bytes.

use waybill_core::ids::{Seq, Tenant};
use waybill_core::inbox::fingerprint::{ContentCheck, Fingerprint};
use waybill_core::inbox::records::{InboxDead, InboxEnd, InboxShardRecord, SagaDoorItem, TakeRecord};
use waybill_core::inbox::seen::{Member, OwnedAge};
use waybill_core::outbox::records::DeadState;
use waybill_core::port::saga::StepReply;
use waybill_core::saga::event::StepDirection;
use waybill_core::saga::id::SagaId;
use waybill_core::saga::json::Json;
use waybill_store::codec::inbox::seen::{
    BucketHead, Merge, SeenIds, Table, decode_addition, decode_block, decode_bucket, encode_addition, encode_block,
    encode_bucket,
};
use waybill_store::codec::inbox::{
    Head, InboxState, decode_dead, decode_done, decode_head, decode_inbound, decode_saga_door, decode_state,
    decode_takes, encode_dead, encode_done, encode_head, encode_inbound, encode_saga_door, encode_state, encode_takes,
};
use waybill_testkit::conformance::inbox_samples::{
    dead as dead_letter, done as finished, full_inbound, full_record, row, signal, take,
};
use waybill_testkit::conformance::samples::T0;

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
    let InboxState { open, suspicion, contexts, positions } = state;
    InboxShardRecord { open, suspicion, contexts, positions, ..InboxShardRecord::default() }
}

fn inbounds() -> Vec<Vec<u8>> {
    vec![encode_inbound(&full_inbound("m")).expect("a sample")]
}

fn heads() -> Vec<Vec<u8>> {
    vec![encode_head(&Head::of(&row(1, full_inbound("m")))).expect("a sample")]
}

fn dead_letters() -> Vec<Vec<u8>> {
    let state = DeadState::Quarantined { note: "look".into(), at: T0 };
    let dead = InboxDead { state, ..dead_letter(1, full_inbound("m"), "HTTP.422") };
    vec![encode_dead(&dead).expect("a sample")]
}

fn take_records() -> Vec<Vec<u8>> {
    vec![encode_takes(&TakeRecord { beat: 7, takes: vec![take(1), take(2), take(9)] }).expect("a sample")]
}

fn states() -> Vec<Vec<u8>> {
    vec![encode_state(&full_record(1, 1)).expect("a sample")]
}

fn histories() -> Vec<Vec<u8>> {
    let all = [InboxEnd::Processed, InboxEnd::Duplicate, InboxEnd::Dead].map(|end| finished("m", end));
    vec![encode_done(&all).expect("a sample")]
}

fn saga_doors() -> Vec<Vec<u8>> {
    let (tenant, id) = (Tenant::unnamed(), SagaId::new("order-17~pay").expect("a sample"));
    let reply = StepReply {
        id,
        step: "charge".into(),
        way: StepDirection::Execute,
        attempt: Some(2),
        result: Ok(Json::null()),
    };
    let items = [signal("s", "paid"), SagaDoorItem::Reply { tenant, reply: Box::new(reply) }];
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
