//! What enters the order, and under which id.

use super::bench::*;
use waybill_core::annotation::Annotation;
use waybill_core::ids::{MessageId, Seq, ShardId, Tenant, place_of};
use waybill_core::outbox::owner::{LoadPurpose, LoadRequest, OwnerConfig};
use waybill_core::outbox::records::{DoorKey, IdState, Malformed};
use waybill_core::port::store::{SegmentInfo, StoredSegment};

fn with_id(name: &str, id: &str) -> waybill_core::new_message::NewMessage {
    waybill_core::new_message::NewMessage { id: Some(id.to_owned()), ..message(name) }
}

fn id_row(bench: &Bench, id: &str) -> Option<waybill_core::outbox::records::IdRecord> {
    let named = [(Tenant::unnamed(), MessageId::new(id).unwrap())];
    now_or(waybill_core::port::store::OwnerStore::ids(&bench.store, &named)).remove(0)
}

#[test]
fn a_host_made_id_needs_no_row_and_a_callers_gets_one() {
    let mut bench = Bench::new();
    let ids = bench.enqueue(vec![message("one"), with_id("two", "order-7")]);
    let sending = bench.take(10);
    assert_eq!(place_of(ids[0].as_str()).unwrap().seq(), sending[0].seq);
    assert!(id_row(&bench, ids[0].as_str()).is_none());
    let row = id_row(&bench, "order-7").unwrap();
    assert!(matches!(row.state, IdState::At(place) if place.seq() == sending[1].seq));
    assert!(row.content.is_some());
}

#[test]
fn a_doorstep_message_keeps_its_id_and_gets_a_row() {
    let mut bench = Bench::new();
    bench.door(vec![message("one")]);
    bench.commit();
    let sending = bench.take(1).remove(0);
    let row = id_row(&bench, sending.message.id.as_str()).unwrap();
    assert!(matches!(row.state, IdState::At(place) if place.seq() == sending.seq));
    assert_eq!(bench.read(|tables| tables.door.len()), 0);
}

#[test]
fn a_direct_request_comes_after_what_lay_on_the_doorstep_before() {
    let mut bench = Bench::new();
    bench.door(vec![keyed("first", "a")]);
    bench.enqueue(vec![keyed("second", "a")]);
    assert_eq!(bench.take_names(10), ["first"]);
}

#[test]
fn a_long_doorstep_is_drained_in_pages_before_direct_requests() {
    let mut limits = config().limits;
    limits.door_page = 2;
    let mut bench = Bench::with(OwnerConfig { limits, ..config() });
    bench.door((0..5).map(|n| keyed(&format!("d{n}"), "a")).collect());
    bench.ask(vec![keyed("direct", "a")]);
    let (_, first) = bench.commit_one();
    assert!(first.enqueued.is_empty() && bench.owner.in_door_pass());
    assert_eq!(bench.commit().enqueued.len(), 1);
    let mut order = Vec::new();
    for _ in 0..6 {
        let sending = bench.take(1).remove(0);
        order.extend(names(std::slice::from_ref(&sending)));
        assert!(bench.settle(&sending, ack()));
        bench.commit();
    }
    assert_eq!(order, ["d0", "d1", "d2", "d3", "d4", "direct"]);
}

#[test]
fn a_row_with_an_early_stamp_that_commits_between_two_pages_comes_in_order() {
    let mut limits = config().limits;
    limits.door_page = 2;
    let mut bench = Bench::with(OwnerConfig { limits, ..config() });
    let stamped = |bench: &Bench, name: &str, at: u64| {
        let draft = bench.draft(keyed(name, "a"));
        let key = DoorKey { nanos: (WALL + at) * 1_000_000, ordinal: 0, ulid: name.to_owned() };
        bench.store.put_door(SHARD, key, Ok(vec![draft.finish(|| MessageId::new(format!("door-{name}")).unwrap())]));
    };
    bench.pass_time(100);
    for (name, at) in [("x", 10), ("y", 20), ("z", 30)] {
        stamped(&bench, name, at);
    }
    bench.commit_one();
    // One transaction, stamped at 5 and 40, commits now.
    stamped(&bench, "early", 5);
    stamped(&bench, "late", 40);
    bench.commit();
    let mut order = Vec::new();
    for _ in 0..5 {
        let sending = bench.take(1).remove(0);
        order.extend(names(std::slice::from_ref(&sending)));
        assert!(bench.settle(&sending, ack()));
        bench.commit();
    }
    assert!(order.iter().position(|name| name == "early") < order.iter().position(|name| name == "late"), "{order:?}");
}

#[test]
fn a_repeated_id_is_dropped_and_a_taken_one_is_a_dead_letter() {
    for between in [true, false] {
        let mut bench = Bench::new();
        bench.door(vec![with_id("one", "order-7")]);
        if between {
            bench.commit();
        }
        bench.door(vec![with_id("one", "order-7"), with_id("other", "order-7")]);
        bench.commit();
        assert_eq!(bench.take_names(10), ["one"]);
        let dead = bench.dead();
        assert_eq!(dead.len(), 1);
        assert_eq!(
            (dead[0].code.as_str(), dead[0].message.annotation(Annotation::CorrelationId)),
            ("STORAGE.CONFLICT", Some("other"))
        );
    }
}

#[test]
fn a_direct_request_whose_id_enters_from_the_doorstep_is_looked_up_again() {
    let mut bench = Bench::new();
    bench.door(vec![with_id("one", "order-7")]);
    let ticket = bench.ask(vec![with_id("one", "order-7")]);
    let (_, applied) = bench.commit_one();
    assert!(applied.enqueued.is_empty());
    // The next commit meets the row; nothing of it goes in, and the request comes back.
    bench.prepare();
    let commit = bench.build().commit.unwrap();
    assert!(matches!(bench.store.apply(&commit), Err(waybill_core::port::store::StoreError::Exists(_))));
    bench.owner.commit_failed();
    let record = now_or(waybill_core::port::store::OwnerStore::shard(&bench.store, SHARD));
    let now = bench.now();
    let waybill_core::outbox::owner::Resolution::Barrier(barrier) = bench.owner.resolve(&record, now, 901) else {
        panic!()
    };
    bench.store.apply(&barrier).unwrap();
    let record = now_or(waybill_core::port::store::OwnerStore::shard(&bench.store, SHARD));
    assert!(matches!(bench.owner.resolve(&record, now, 902), waybill_core::outbox::owner::Resolution::NotApplied));
    let recalled = bench.owner.recall_identified();
    assert_eq!(recalled.iter().map(|request| request.ticket).collect::<Vec<_>>(), [ticket]);
}

#[test]
fn a_malformed_row_is_a_visible_dead_letter() {
    let mut bench = Bench::new();
    let key = DoorKey { nanos: bench.nanos(), ordinal: 0, ulid: "x".to_owned() };
    bench.store.put_door(SHARD, key, Err(Malformed { reason: "no topic".to_owned(), raw: "{}".to_owned() }));
    bench.door(vec![message("good")]);
    bench.commit();
    assert_eq!(bench.take_names(10), ["good"]);
    assert_eq!((bench.dead()[0].code.as_str(), bench.dead()[0].reason.as_str()), ("OUTBOX.MALFORMED", "no topic"));
}

#[test]
fn a_stray_is_forwarded_to_its_shard() {
    let mut bench = Bench::with(OwnerConfig { shards: 4, ..config() });
    let stray = (0..)
        .map(|n| keyed("stray", &format!("k{n}")))
        .find(|new| {
            let draft = bench.draft(new.clone());
            ShardId::of(&draft.message.tenant, draft.message.key.as_ref(), None, 0, 4) == ShardId(2)
        })
        .unwrap();
    bench.door(vec![stray]);
    bench.commit();
    assert!(bench.take(1).is_empty());
    assert_eq!(bench.read(|tables| tables.door.keys().map(|(shard, _)| *shard).collect::<Vec<_>>()), [ShardId(2)]);
}

#[test]
fn a_segment_that_cant_be_decoded_goes_to_quarantine_and_the_scan_goes_on() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("lost")]);
    bench.enqueue(vec![message("next")]);
    let first = bench.read(|tables| tables.segments.keys().next().copied()).unwrap().1;
    // Its owner goes in good order, so that nothing is claimed.
    bench.owner.begin_release(bench.now());
    bench.commit();
    bench.store.spoil_segment(SHARD, first, Malformed { reason: "a bad checksum".to_owned(), raw: "AA".to_owned() });
    bench.crash();
    bench.commit();
    assert_eq!(bench.take_names(10), ["next"]);
    assert_eq!(
        bench.read(|tables| tables.quarantine.values().map(|(reason, _)| reason.clone()).collect::<Vec<_>>()),
        ["a bad checksum"]
    );
}

fn malformed() -> Malformed {
    Malformed { reason: "a bad checksum".to_owned(), raw: "AA".to_owned() }
}

/// A read of one segment that says it can't be decoded.
fn read_malformed(bench: &mut Bench, first: Seq) {
    let request = LoadRequest::Segments { tenant: Tenant::unnamed(), purpose: LoadPurpose::Keys, firsts: vec![first] };
    let page = vec![StoredSegment { first, segment: Err(malformed()) }];
    let now = bench.now();
    bench.owner.segments_page(&request, page, now);
}

#[test]
fn a_segment_in_memory_goes_on_though_its_row_cant_be_decoded() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one")]);
    let first = bench.read(|tables| tables.segments.keys().next().copied()).unwrap().1;
    bench.store.spoil_segment(SHARD, first, malformed());
    read_malformed(&mut bench, first);
    bench.commit();
    bench.send_one("one", ack());
    bench.commit();
    assert!(bench.read(|tables| tables.quarantine.is_empty() && tables.segments.is_empty()));
    assert_eq!(bench.history().len(), 1);
}

#[test]
fn a_page_from_before_its_quarantine_doesnt_move_a_segment_there_again() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("lost")]);
    let first = bench.read(|tables| tables.segments.keys().next().copied()).unwrap().1;
    bench.owner.begin_release(bench.now());
    bench.commit();
    bench.store.spoil_segment(SHARD, first, malformed());
    bench.crash();
    bench.commit();
    read_malformed(&mut bench, first);
    assert!(bench.commit_one().0.is_none());
    assert!(bench.read(|tables| tables.quarantine.values().all(|(_, content)| content.is_some())));
}

#[test]
fn a_known_segment_stays_its_tenants_whatever_a_later_page_says() {
    let mut bench = Bench::new();
    bench.enqueue(vec![of_tenant("one", "acme")]);
    let first = bench.read(|tables| tables.segments.keys().next().copied()).unwrap().1;
    let info = SegmentInfo { first, tenant: Tenant::unnamed(), messages: 1, bytes: 0 };
    bench.owner.directory_page(vec![info], Seq(0), 10);
    bench.owner.check_invariants().unwrap();
    bench.send_one("one", ack());
    bench.commit();
    assert!(bench.read(|tables| tables.segments.is_empty()));
}
