//! What one owner does, step by step. Schedules are drawn by the model (`waybill_testkit::streams_model`).

use std::collections::BTreeMap;

use super::*;
use crate::commit::{Step, StoreAnswer};
use crate::outbox::records::{DoorKey, Malformed};
use crate::port::store::StoreError;
use crate::port::stream_store::PassFound;
use crate::streams::chunk::{Chunk, StoredChunk, StoredEvent};
use crate::streams::fixtures::{append, new_event, stream};
use crate::streams::records::{
    DoorContent, EventIdRecord, StreamCommit, StreamCommitted, StreamDead, StreamDoorRow, StreamHead, StreamRest,
    StreamView, StreamWrite,
};
use crate::streams::upkeep::Act;
use crate::time::{Now, UnixMillis};

const TTL: Duration = Duration::from_secs(10);

fn owner() -> StreamOwner {
    let record = StreamShardRecord { token: 3, beat: 5, nonce: 1, pos: 40, ..StreamShardRecord::default() };
    StreamOwner::new(OwnerConfig::new(ShardId(0), 1, TTL), record, Relays::default(), Monotonic::default())
}

fn now() -> Now {
    Now { wall: UnixMillis(1_000), mono: Monotonic(Duration::from_secs(1)) }
}

fn row(nanos: u64, content: DoorContent) -> StreamDoorRow {
    StreamDoorRow { key: DoorKey { nanos, ordinal: 0, ulid: "x".into() }, content: Ok(content) }
}

fn puts(nanos: u64, name: &str, ids: &[&str]) -> StreamDoorRow {
    row(nanos, DoorContent::Append(Arc::new(append(name, ids))))
}

/// All of the doorstep, over streams that end at these numbers and are named all the way.
fn found(rows: Vec<StreamDoorRow>, ends: &[(&str, u64)]) -> PassFound {
    let view = |last| StreamView { head: StreamHead { last, fed: last, bytes: 0 }, ..StreamView::default() };
    let streams = ends.iter().map(|(name, last)| (stream(name), view(*last))).collect();
    PassFound { until: 100, rows, is_all: true, streams, ids: BTreeMap::new() }
}

/// One event of an exact append, numbered `last`.
fn unnamed(last: u64) -> StoredChunk {
    let event = StoredEvent { seq: last, pos: 0, packed: new_event("exact").packed, apart: 0 };
    let chunk = Chunk { from: last - 1, last, total: 0, at: UnixMillis(1), events: vec![event] };
    StoredChunk { last, chunk: Ok(Arc::new(chunk)) }
}

fn build(owner: &mut StreamOwner, found: PassFound) -> Built {
    owner.plan(false).unwrap();
    owner.build(found, Extras::default(), now(), 77)
}

fn committed(owner: &mut StreamOwner, found: PassFound) -> (StreamCommit, Applied) {
    let commit = build(owner, found).commit.unwrap();
    let Some(answer) = owner.take_committed(Ok(StreamCommitted::Applied)) else { panic!("it went in") };
    match take_answer(owner, answer, now(), || 0) {
        Step::Applied(applied) => (commit, applied),
        other => panic!("{other:?}"),
    }
}

/// A stream, and the numbers from (exclusive) and to that the feed names of it.
type NamedRange = (String, u64, u64);

/// Ids with their numbers, of all chunks that a commit writes, and what the feed names.
fn numbered(commit: &StreamCommit) -> (Vec<(String, u64)>, Vec<NamedRange>) {
    let (mut events, mut named) = (Vec::new(), Vec::new());
    for write in &commit.writes {
        match write {
            StreamWrite::PutChunk { key, chunk, .. } => {
                assert_eq!(*key, chunk.last);
                assert!(chunk.events.iter().all(|event| event.pos == 41));
                events.extend(chunk.events.iter().map(|event| {
                    let head = crate::streams::envelope::EventHead::of(&event.packed).unwrap();
                    (head.id.to_owned(), event.seq)
                }));
            }
            StreamWrite::PutFeed(record) => {
                let parts = record.parts.iter();
                named.extend(parts.map(|part| (part.stream.name.to_string(), part.from, part.to)));
            }
            _ => {}
        }
    }
    (events, named)
}

fn pairs(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
    pairs.iter().map(|(id, seq)| ((*id).to_owned(), *seq)).collect()
}

#[test]
fn the_doorstep_is_numbered_in_its_order_and_direct_appends_behind_it() {
    let mut owner = owner();
    owner.append(Ticket(1), Arc::new(append("a", &["d"])));
    let (commit, applied) =
        committed(&mut owner, found(vec![puts(5, "a", &["x", "y"]), puts(6, "a", &["z"])], &[("a", 7)]));
    let (events, named) = numbered(&commit);
    assert_eq!(events, pairs(&[("x", 8), ("y", 9), ("z", 10), ("d", 11)]));
    assert_eq!(named, [("a".to_owned(), 8, 11)]);
    assert_eq!(commit.heads, [(stream("a"), 7)]);
    assert_eq!((commit.expect_token, commit.expect_beat, commit.record.beat, commit.record.pos), (3, 5, 6, 41));
    assert_eq!(applied.answers, [(Ticket(1), DirectAnswer::Numbered { seqs: vec![11], duplicates: vec![] })]);
    assert_eq!(applied.published.unwrap().pos, 41);
    assert_eq!(commit.writes.iter().filter(|write| matches!(write, StreamWrite::DeleteDoor(_))).count(), 2);
}

#[test]
fn a_direct_append_waits_for_the_last_page() {
    let mut owner = owner();
    owner.append(Ticket(1), Arc::new(append("a", &["d"])));
    let page = PassFound { is_all: false, ..found(vec![puts(5, "a", &["x"])], &[("a", 0)]) };
    let (commit, applied) = committed(&mut owner, page);
    assert_eq!((numbered(&commit).0, applied.answers.len()), (pairs(&[("x", 1)]), 0));
    let query = owner.plan(false).unwrap();
    assert_eq!(query.door.map(|door| (door.until, door.from)), Some((Some(100), 0)));
    let built = owner.build(found(vec![], &[]), Extras::default(), now(), 78);
    let heads = built.commit.unwrap().heads;
    assert_eq!(heads, [(stream("a"), 1)], "its end is known from the commit before");
}

#[test]
fn what_exact_appenders_numbered_is_named_first_and_never_by_the_head() {
    let view = StreamView {
        head: StreamHead { last: 9, fed: 7, bytes: 50 },
        rest: StreamRest { fed: 8, ..StreamRest::default() },
        unnamed: vec![unnamed(9)],
    };
    let look = || PassFound {
        rows: vec![row(4, DoorContent::Look(stream("a")))],
        streams: BTreeMap::from([(stream("a"), view.clone())]),
        ..found(vec![], &[])
    };
    let (commit, _) = committed(&mut owner(), look());
    assert_eq!(numbered(&commit), (pairs(&[("exact", 9)]), vec![("a".to_owned(), 9, 9)]));
    assert!(commit.heads.is_empty() && !commit.writes.iter().any(|write| matches!(write, StreamWrite::PutHead { .. })));
    let rest = commit.writes.iter().find_map(|write| match write {
        StreamWrite::PutRest { rest, .. } => Some(rest.fed),
        _ => None,
    });
    assert_eq!(rest, Some(9));
    let mut both = look();
    both.rows.push(puts(5, "a", &["x"]));
    let (commit, _) = committed(&mut owner(), both);
    assert_eq!(numbered(&commit).1, [("a".to_owned(), 9, 9), ("a".to_owned(), 10, 10)]);
}

#[test]
fn a_stream_with_more_to_name_than_one_commit_takes_is_numbered_later() {
    let head = StreamHead { last: 9, ..StreamHead::default() };
    let view = StreamView { head, rest: StreamRest { fed: 7, ..StreamRest::default() }, unnamed: vec![unnamed(8)] };
    let mut page = found(vec![puts(5, "a", &["x"])], &[]);
    page.streams.insert(stream("a"), view);
    let (commit, _) = committed(&mut owner(), page);
    assert_eq!(numbered(&commit), (pairs(&[("exact", 8)]), vec![("a".to_owned(), 8, 8)]));
    assert!(!commit.writes.iter().any(|write| matches!(write, StreamWrite::DeleteDoor(_))), "the row stays");
}

#[test]
fn a_repeat_is_dropped_and_a_borrowed_id_goes_nowhere() {
    let record = |seq, digest| EventIdRecord { stream: stream("a"), seq, digest, at: UnixMillis(1) };
    let ids = |page: &mut PassFound| {
        let key = |id: &str| (stream("a").tenant, new_event(id).id);
        page.ids.insert(key("x"), record(3, new_event("x").digest));
        page.ids.insert(key("y"), record(4, Default::default()));
    };
    let mut page = found(vec![puts(5, "a", &["x", "y", "z"]), puts(6, "a", &["z"])], &[("a", 7)]);
    ids(&mut page);
    let mut owner = owner();
    let (commit, _) = committed(&mut owner, page);
    assert_eq!(numbered(&commit).0, pairs(&[("z", 8)]));
    let dead = commit.writes.iter().filter_map(|write| match write {
        StreamWrite::PutDead(dead) => Some(dead.as_ref()),
        _ => None,
    });
    let dead: Vec<_> = dead.collect();
    assert!(matches!(&dead[..], [StreamDead::Door { event, .. }] if event.id.as_str() == "y"), "{dead:?}");
    assert_eq!(owner.counts().duplicates, 2);

    for (ticket, ids) in [(1, ["x", "n"]), (2, ["m", "y"])] {
        owner.append(Ticket(ticket), Arc::new(append("a", &ids)));
    }
    let mut page = found(vec![], &[("a", 8)]);
    ids(&mut page);
    let (commit, applied) = committed(&mut owner, page);
    assert_eq!(commit.heads, [(stream("a"), 8)]);
    let first = DirectAnswer::Numbered { seqs: vec![3, 9], duplicates: vec![0] };
    assert_eq!(applied.answers, [(Ticket(1), first), (Ticket(2), DirectAnswer::IdTaken(1))]);
}

#[test]
fn a_stream_whose_head_moved_goes_alone_and_holds_no_neighbour() {
    let mut owner = owner();
    let rows = || vec![puts(5, "a", &["x"]), puts(6, "b", &["y"])];
    build(&mut owner, found(rows(), &[("a", 7), ("b", 0)])).commit.unwrap();
    assert!(owner.take_committed(Ok(StreamCommitted::Moved(vec![(stream("a"), 8)]))).is_none());
    let (alone, _) = committed(&mut owner, found(rows(), &[("a", 8), ("b", 0)]));
    assert_eq!(alone.heads, [(stream("a"), 8)]);
    build(&mut owner, found(rows(), &[("a", 9), ("b", 0)])).commit.unwrap();
    owner.moved(vec![(stream("a"), 9)]);
    let went: Vec<_> = (0..2).map(|_| committed(&mut owner, found(rows(), &[("a", 9), ("b", 0)])).0.heads).collect();
    assert_eq!(went, [vec![(stream("a"), 9)], vec![(stream("a"), 9), (stream("b"), 0)]]);
}

#[test]
fn direct_appends_to_a_stream_that_moved_leave_their_room_to_the_others() {
    let config = OwnerConfig { commit_events: 1, ..OwnerConfig::new(ShardId(0), 1, TTL) };
    let mut owner = StreamOwner::new(config, StreamShardRecord::default(), Relays::default(), Monotonic::default());
    owner.append(Ticket(1), Arc::new(append("a", &["x"])));
    owner.append(Ticket(2), Arc::new(append("b", &["y"])));
    // Everybody, and then a by itself: it moves each time.
    for last in 1..3 {
        assert_eq!(owner.plan(false).unwrap().streams, [stream("a")]);
        let built = owner.build(found(vec![], &[("a", last - 1)]), Extras::default(), now(), 77);
        assert_eq!(built.commit.unwrap().heads, [(stream("a"), last - 1)]);
        assert!(owner.take_committed(Ok(StreamCommitted::Moved(vec![(stream("a"), last)]))).is_none());
    }
    assert_eq!(owner.plan(false).unwrap().streams, [stream("b")]);
}

#[test]
fn an_unknown_commit_is_given_up_behind_a_barrier_and_not_before() {
    let mut owner = owner();
    owner.append(Ticket(1), Arc::new(append("a", &["d"])));
    build(&mut owner, found(vec![], &[("a", 0)])).commit.unwrap();
    let stored = owner.record().clone();
    let unknown = StoreAnswer::Committed(Err(StoreError::Unavailable("no answer".into())));
    assert!(matches!(take_answer(&mut owner, unknown, now(), || 0), Step::Read(_)));
    let read = StoreAnswer::Record(Ok(stored.clone()));
    let Step::Barrier(barrier) = take_answer(&mut owner, read, now(), || 99) else { panic!("no barrier") };
    assert!(barrier.writes.is_empty() && owner.plan(false).is_none(), "nothing else is committed meanwhile");
    let read = StoreAnswer::Record(Ok(barrier.record));
    assert!(matches!(take_answer(&mut owner, read, now(), || 0), Step::NotApplied(())));
    let (commit, applied) = committed(&mut owner, found(vec![], &[("a", 0)]));
    assert_eq!((commit.expect_beat, applied.answers.len()), (stored.beat + 1, 1), "it is numbered after all");
}

#[test]
fn a_refused_commit_needs_no_barrier_and_a_higher_token_ends_everything() {
    let mut owner = owner();
    let page = || found(vec![puts(5, "a", &["x"])], &[("a", 0)]);
    build(&mut owner, page()).commit.unwrap();
    let stored = owner.record().clone();
    let refused = || StoreAnswer::Committed(Err(StoreError::Conflict("the head".into())));
    assert!(matches!(take_answer(&mut owner, refused(), now(), || 0), Step::Read(_)));
    let read = StoreAnswer::Record(Ok(stored.clone()));
    assert!(matches!(take_answer(&mut owner, read, now(), || 0), Step::NotApplied(())));
    build(&mut owner, page()).commit.unwrap();
    take_answer(&mut owner, refused(), now(), || 0);
    let other = StreamShardRecord { token: 4, beat: 6, nonce: 5, ..stored };
    assert!(matches!(take_answer(&mut owner, StoreAnswer::Record(Ok(other)), now(), || 0), Step::Lost));
}

#[test]
fn upkeep_keeps_out_of_what_is_numbered_and_of_what_is_old() {
    let act = |name: &str, beat| {
        let writes = vec![StreamWrite::DeleteChunk { stream: stream(name), key: 1 }];
        Some(Act { stream: stream(name), beat, writes, events: 1 })
    };
    for (name, beat, expected) in [("a", 5, false), ("b", 4, false), ("b", 5, true)] {
        let mut owner = owner();
        owner.plan(false).unwrap();
        let extras = Extras { act: act(name, beat), trim_feed: None };
        let built = owner.build(found(vec![puts(5, "a", &["x"])], &[("a", 0)]), extras, now(), 7);
        assert_eq!(built.has_act, expected, "{name} read at {beat}");
    }
}

#[test]
fn a_row_that_cant_be_read_or_lies_elsewhere_stops_nobody() {
    let mut owner = owner();
    owner.config.shards = 2;
    let named = |shard| ('a'..='z').map(String::from).find(|name| stream(name).shard(2) == ShardId(shard)).unwrap();
    let (here, there) = (&*named(0), &*named(1));
    let bad = Malformed { reason: "cut".into(), raw: String::new() };
    let rows = vec![
        StreamDoorRow { content: Err(bad), ..puts(4, here, &["q"]) },
        puts(5, there, &["x"]),
        puts(6, here, &["y"]),
    ];
    let (commit, _) = committed(&mut owner, found(rows, &[(here, 0), (there, 0)]));
    assert_eq!(numbered(&commit).0, pairs(&[("y", 1)]));
    let moved = commit.writes.iter().any(|write| matches!(write, StreamWrite::PutDoor { shard: ShardId(1), .. }));
    let kept = commit.writes.iter().any(|write| matches!(write, StreamWrite::QuarantineDoor { .. }));
    assert!(moved && kept && owner.counts().quarantined == 1);
}

#[test]
fn nothing_is_committed_without_need_but_for_the_beat() {
    let mut owner = owner();
    assert!(build(&mut owner, found(vec![], &[])).commit.is_none());
    let late = Now { mono: Monotonic(Duration::from_secs(5)), ..now() };
    owner.plan(false).unwrap();
    let beat = owner.build(found(vec![], &[]), Extras::default(), late, 7).commit.unwrap();
    assert!(beat.writes.is_empty() && beat.record.pos == 40);
}

#[test]
fn the_death_of_an_event_is_in_the_audit_trail_of_its_commit_where_that_is_wanted() {
    let other = EventIdRecord { stream: stream("a"), seq: 4, digest: Default::default(), at: UnixMillis(1) };
    for host in [Some("host-a"), None] {
        let mut page = found(vec![puts(5, "a", &["y"])], &[("a", 7)]);
        page.ids.insert((stream("a").tenant, new_event("y").id), other.clone());
        let config = OwnerConfig { tx_events: host.map(Arc::from), ..OwnerConfig::new(ShardId(0), 1, TTL) };
        let record = StreamShardRecord { token: 3, beat: 5, nonce: 1, pos: 40, ..StreamShardRecord::default() };
        let mut owner = StreamOwner::new(config, record, Relays::default(), Monotonic::default());
        let (commit, _) = committed(&mut owner, page);
        let records = commit.writes.iter().filter_map(|write| match write {
            StreamWrite::PutTxEvents(record) => Some(record),
            _ => None,
        });
        let events = records.flat_map(|record| &record.events);
        let noted: Vec<String> = events.map(|event| format!("{} {}", event.kind.as_str(), event.id)).collect();
        let expected: Vec<String> = host.map(|_| "TxDead event-0-6-0".to_owned()).into_iter().collect();
        assert_eq!(noted, expected);
    }
}
