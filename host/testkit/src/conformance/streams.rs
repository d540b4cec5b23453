//! Event streams: the guard of an owner's commits, the doorstep, and ids.

use std::sync::Arc;

use waybill_core::ids::{RelayName, ShardId};
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::{DoorQuery, PassFound, PassQuery, StreamStore as Store};
use waybill_core::streams::chunk::Chunk;
use waybill_core::streams::event::{Body, Event};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::records::{
    Append, DoorContent, EventIdRecord, Refusal, RelayNote, RelayStop, RelayWord, StreamCommitted, StreamDead,
    StreamHead, StreamRest, StreamShardRecord, StreamView, StreamWrite,
};

use super::samples::{SHARD, T0, tenant};
use super::stream_samples::{
    ALL_BYTES, Writer, admitted, all_at_door, append, at, chunk, event, event_id, exact, found, full_event, id_of,
    name, put_chunk, relay, stored, stream,
};

pub async fn streams_of_a_shard_without_a_record_are_the_default_record(store: &impl Store) {
    assert_eq!(store.stream_shard(ShardId(5)).await.unwrap(), StreamShardRecord::default());
    let found = all_at_door(store, ShardId(5)).await;
    assert_eq!(found, PassFound { until: found.until, is_all: true, ..PassFound::default() });
    assert!(found.until > 0, "a pass ends at the clock");
}

pub async fn a_record_of_streams_comes_back_as_it_was_written(store: &impl Store) {
    let mut writer = Writer::new();
    writer.commit(store, |commit| (commit.record.token, commit.record.pos) = (7, 1 << 40)).await;
    assert_eq!(store.stream_shard(SHARD).await.unwrap(), writer.record, "without relays");
    writer.commit(store, |commit| commit.record.marks = [(relay("a"), 0), (relay("größe"), 1 << 40)].into()).await;
    assert_eq!(store.stream_shard(SHARD).await.unwrap(), writer.record);
    writer.commit(store, |commit| commit.record.starts = [(relay("größe"), 9)].into()).await;
    assert_eq!(store.stream_shard(SHARD).await.unwrap(), writer.record);
    assert_eq!(store.feed_ends(2).await.unwrap(), [1 << 40, 0], "by shard");
}

pub async fn a_stale_commit_of_streams_changes_nothing(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    writer.number(store, &of, &["x"]).await;
    for (token, beat) in [(0, 1), (1, 0), (2, 1)] {
        let mut stale = writer.numbering(StreamHead { last: 1, fed: 1, bytes: 0 }, &of, &["y"]);
        (stale.expect_token, stale.expect_beat) = (token, beat);
        stale.record.beat = beat + 1;
        stale.writes.push(StreamWrite::PutDoor { shard: SHARD, content: DoorContent::Look(of.clone()) });
        let error = store.commit_streams(stale).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    }
    let mut idle = writer.next();
    idle.record.beat = writer.record.beat;
    assert!(store.commit_streams(idle).await.is_err(), "every commit raises the beat");
    assert_eq!(store.stream_shard(SHARD).await.unwrap(), writer.record);
    assert_eq!(store.stream_slice(&of, 0, ALL_BYTES).await.unwrap().head.last, 1);
    assert_eq!(store.feed(SHARD, 0, 10).await.unwrap().len(), 1);
    assert!(all_at_door(store, SHARD).await.rows.is_empty());
}

pub async fn of_two_commits_of_streams_at_once_exactly_one_goes_in(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    for round in 0..10_u64 {
        let head = store.stream_slice(&of, 0, 0).await.unwrap().head;
        let one = writer.numbering(head, &of, &["one"]);
        let mut other = writer.numbering(head, &of, &["other"]);
        other.record.nonce = round;
        let records = (one.record.clone(), other.record.clone());
        let (first, second) = futures::join!(store.commit_streams(one), store.commit_streams(other));
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
        writer.record = store.stream_shard(SHARD).await.unwrap();
        assert_eq!(writer.record, if first.is_ok() { records.0 } else { records.1 });
        assert_eq!(store.stream_slice(&of, 0, 0).await.unwrap().head.last, round + 1);
    }
}

pub async fn a_commit_that_finds_a_head_elsewhere_writes_nothing_and_says_where_it_stands(store: &impl Store) {
    let (mut writer, moved, other) = (Writer::new(), stream("moved"), stream("other"));
    writer.number(store, &moved, &["x", "y"]).await;
    let mut commit = writer.numbering(StreamHead::default(), &moved, &["z"]);
    let neighbour = writer.numbering(StreamHead::default(), &other, &["n"]);
    commit.heads.extend(neighbour.heads);
    commit.writes.extend(neighbour.writes);
    assert_eq!(store.commit_streams(commit).await.unwrap(), StreamCommitted::Moved(vec![(moved.clone(), 2)]));
    assert_eq!(store.stream_shard(SHARD).await.unwrap(), writer.record);
    assert_eq!(store.stream_slice(&other, 0, 0).await.unwrap().head, StreamHead::default());
    assert_eq!(store.stream_slice(&moved, 0, ALL_BYTES).await.unwrap().chunks.len(), 1);
    let missing = writer.numbering(StreamHead { last: 5, fed: 5, bytes: 0 }, &other, &["n"]);
    assert_eq!(store.commit_streams(missing).await.unwrap(), StreamCommitted::Moved(vec![(other, 0)]));
}

/// An append with one of each kind of event.
fn mixed() -> Append {
    let of = StreamKey { tenant: tenant("Größe & Söhne"), name: name("task.node.n-1") };
    let large = Event { body: Body::Bytes(vec![7; 200_000].into()), ..event("large") };
    let events = vec![admitted(full_event("full"), true), admitted(event("plain"), false), admitted(large, false)];
    Append::new(of, events)
}

pub async fn events_on_the_doorstep_come_back_in_order_with_all_that_they_say(store: &impl Store) {
    let (first, second) = (Arc::new(mixed()), Arc::new(append("a", &["x", "y"])));
    let rows = [(SHARD, Arc::clone(&first)), (ShardId(1), Arc::clone(&second)), (SHARD, Arc::clone(&second))];
    store.append_at_door(&rows).await.unwrap();
    store.append_at_door(&[(SHARD, Arc::clone(&first))]).await.unwrap();
    let found = all_at_door(store, SHARD).await;
    let contents: Vec<_> = found.rows.iter().map(|row| row.content.clone().unwrap()).collect();
    let of = |append: &Arc<Append>| DoorContent::Append(Arc::clone(append));
    assert_eq!(contents, [of(&first), of(&second), of(&first)]);
    assert!(found.rows.is_sorted_by(|one, other| one.key < other.key), "by stamp, and in order within a commit");
    assert!(found.rows.iter().all(|row| row.key.nanos <= found.until) && found.is_all);
    assert_eq!(found.streams.keys().collect::<Vec<_>>(), [&first.stream, &second.stream]);
    assert_eq!(all_at_door(store, ShardId(1)).await.rows.len(), 1, "shards are apart");
}

pub async fn the_doorstep_of_streams_is_read_in_pages_up_to_a_stamp(store: &impl Store) {
    for number in 0..5 {
        store.append_at_door(&[(SHARD, Arc::new(append(&format!("s{number}"), &["x"])))]).await.unwrap();
    }
    let all = all_at_door(store, SHARD).await;
    let read = async |until, from, limit| {
        let query = PassQuery { door: Some(DoorQuery { until, from, limit }), ..PassQuery::default() };
        store.stream_pass(SHARD, &query).await.unwrap()
    };
    let page = read(None, 0, 3).await;
    assert_eq!((page.rows.len(), page.is_all, page.streams.len()), (3, false, 3));
    assert_eq!(read(None, 0, 5).await.rows, all.rows, "as many as there are, and it is known that these are all");
    assert!(read(None, 0, 5).await.is_all);
    let third = all.rows[2].key.nanos;
    let upto = read(Some(third), 0, 10).await;
    assert_eq!((upto.rows.len(), upto.is_all, upto.until), (3, true, third), "what is there up to the stamp is all");
    assert_eq!(read(Some(third), third, 10).await.rows, all.rows[2..3]);
    let unread = store.stream_pass(SHARD, &PassQuery::default()).await.unwrap();
    assert_eq!(unread, PassFound { is_all: true, ..PassFound::default() });
}

pub async fn a_row_that_was_taken_in_is_gone_and_a_stray_lies_on_its_own_doorstep(store: &impl Store) {
    let mut writer = Writer::new();
    let (one, two) = (Arc::new(append("a", &["x"])), Arc::new(append("b", &["y"])));
    store.append_at_door(&[(SHARD, one), (SHARD, Arc::clone(&two))]).await.unwrap();
    let keys: Vec<_> = all_at_door(store, SHARD).await.rows.into_iter().map(|row| row.key).collect();
    let (stray, note) = (DoorContent::Append(two), DoorContent::Look(stream("note")));
    writer
        .write(
            store,
            vec![
                StreamWrite::DeleteDoor(keys[0].clone()),
                StreamWrite::DeleteDoor(keys[1].clone()),
                StreamWrite::PutDoor { shard: ShardId(2), content: stray.clone() },
                StreamWrite::PutDoor { shard: ShardId(2), content: note.clone() },
            ],
        )
        .await;
    assert!(all_at_door(store, SHARD).await.rows.is_empty());
    let there = all_at_door(store, ShardId(2)).await;
    assert_eq!(there.rows.iter().map(|row| row.content.clone().unwrap()).collect::<Vec<_>>(), [stray, note]);
    assert_eq!(there.streams.keys().collect::<Vec<_>>(), [&stream("b"), &stream("note")]);
    let key = there.rows[0].key.clone();
    let mut other = Writer::of(ShardId(2));
    let reason = "its bytes are damaged".to_owned();
    let dead = StreamDead::Door {
        key: key.clone(),
        stream: stream("b"),
        event: admitted(full_event("y"), true),
        why: Refusal { code: "EVENT.ID_TAKEN".into(), reason: reason.clone() },
    };
    let writes = vec![StreamWrite::QuarantineDoor { key, reason }, StreamWrite::PutDead(Box::new(dead))];
    other.write(store, writes).await;
    assert_eq!(all_at_door(store, ShardId(2)).await.rows.len(), 1);
}

pub async fn a_pass_finds_the_ids_and_the_streams_of_its_rows_and_those_asked_for(store: &impl Store) {
    let mut writer = Writer::new();
    let (known, asked) = (append("known", &["x", "y"]), append("asked", &["z"]));
    writer.number(store, &known.stream, &["x"]).await;
    writer.write(store, vec![id_of(&known, 0, 1), id_of(&asked, 0, 9)]).await;
    let plain = Append { events: vec![admitted(event("z"), false)], ..known.clone() };
    store.append_at_door(&[(SHARD, Arc::new(known.clone())), (SHARD, Arc::new(plain))]).await.unwrap();
    let found = all_at_door(store, SHARD).await;
    let record = EventIdRecord { stream: known.stream.clone(), seq: 1, digest: known.events[0].digest, at: at(1) };
    let key = |id: &str| (tenant("acme"), event_id(id));
    assert_eq!(found.ids, [(key("x"), record)].into(), "of events with ids that callers chose, those that are there");
    assert_eq!(found.streams[&known.stream].head.last, 1);
    let query = PassQuery {
        streams: vec![stream("nowhere"), known.stream.clone()],
        ids: vec![key("z"), key("nobody's"), (tenant("other"), event_id("z"))],
        unnamed_bytes_max: ALL_BYTES,
        ..PassQuery::default()
    };
    let found = store.stream_pass(SHARD, &query).await.unwrap();
    let digest = asked.events[0].digest;
    assert_eq!(found.ids, [(key("z"), EventIdRecord { stream: asked.stream, seq: 9, digest, at: at(9) })].into());
    assert_eq!(found.streams.len(), 2);
    assert_eq!(found.streams[&stream("nowhere")], StreamView::default());
}

pub async fn old_ids_are_forgotten_and_may_be_used_again(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), append("a", &["x", "y", "z"]));
    let elsewhere = Append { stream: StreamKey { tenant: tenant("other"), ..of.stream.clone() }, ..of.clone() };
    writer.write(store, vec![id_of(&of, 0, 1), id_of(&elsewhere, 0, 1)]).await;
    writer.write(store, vec![id_of(&of, 1, 2)]).await;
    let late = store.append_exact(&exact("b", &["late"], 0), at(3)).await.unwrap();
    assert!(late.is_ok());
    let ids = [("acme", "x"), ("other", "x"), ("acme", "y"), ("acme", "late")];
    let known = async || {
        let ids = ids.map(|(of, id)| (tenant(of), event_id(id))).into();
        let query = PassQuery { ids, ..PassQuery::default() };
        store.stream_pass(SHARD, &query).await.unwrap().ids.len()
    };
    assert_eq!((store.forget_ids(at(1), 10).await.unwrap(), known().await), (0, 4), "none is from before");
    assert_eq!((store.forget_ids(at(2), 10).await.unwrap(), known().await), (2, 2), "of every tenant");
    assert_eq!(store.forget_ids(at(2), 10).await.unwrap(), 0);
    assert_eq!(
        (store.forget_ids(at(9), 1).await.unwrap(), known().await),
        (1, 1),
        "the oldest, no more than are asked for"
    );
    assert_eq!((store.forget_ids(at(9), 1).await.unwrap(), known().await), (1, 0));
    writer.write(store, vec![id_of(&of, 0, 5)]).await;
    assert_eq!((known().await, store.forget_ids(at(5), 10).await.unwrap()), (1, 0), "it is another one's now");
}

pub async fn what_is_said_last_of_a_relay_is_noted_with_a_number_that_grows(store: &impl Store) {
    let [first, second] = ["out", "out-2"].map(|name| RelayName::new(name).unwrap());
    assert!(store.relay_notes().await.unwrap().is_empty());
    let noted = |is_paused, number| RelayNote { is_paused, stopped: None, number, stops: Vec::new() };
    assert_eq!(store.note_relay(&first, &RelayWord::Pause).await.unwrap(), noted(true, 1));
    assert_eq!(store.note_relay(&second, &RelayWord::Pause).await.unwrap(), noted(true, 1));
    assert_eq!(store.note_relay(&first, &RelayWord::Resume).await.unwrap(), noted(false, 2));
    let notes = store.relay_notes().await.unwrap();
    assert_eq!(notes, [(first.clone(), noted(false, 2)), (second.clone(), noted(true, 1))]);
    assert_eq!(store.note_relay(&first, &RelayWord::Resume).await.unwrap(), noted(false, 3), "also what it was before");
    // One that is negative for a signed integer.
    let key = u64::MAX - 3;
    let known = |note: RelayNote| RelayNote { stops: vec![key], ..note };
    let stopped =
        |is_paused, number| known(RelayNote { stopped: Some("a refusal".into()), ..noted(is_paused, number) });
    let stop = RelayWord::Stop(RelayStop { key, reason: "a refusal".into() });
    assert_eq!(store.note_relay(&first, &stop).await.unwrap(), stopped(false, 4));
    assert_eq!(store.note_relay(&second, &stop).await.unwrap(), stopped(true, 2), "it is paused as well");
    assert_eq!(store.note_relay(&first, &RelayWord::Pause).await.unwrap(), stopped(true, 5), "a pause ends no stop");
    let notes = store.relay_notes().await.unwrap();
    assert_eq!(notes, [(first.clone(), stopped(true, 5)), (second, stopped(true, 2))]);
    assert_eq!(store.note_relay(&first, &RelayWord::Resume).await.unwrap(), known(noted(false, 6)));
    assert_eq!(store.note_relay(&first, &stop).await.unwrap(), known(noted(false, 6)), "the same stop, told again");
    assert_eq!(store.relay_notes().await.unwrap()[0], (first.clone(), known(noted(false, 6))));
    let other = RelayWord::Stop(RelayStop { key: 3, reason: "another".into() });
    let note = RelayNote { stopped: Some("another".into()), stops: vec![key, 3], ..noted(false, 7) };
    assert_eq!(store.note_relay(&first, &other).await.unwrap(), note);
    assert_eq!(store.relay_notes().await.unwrap()[0], (first, note));
}

pub async fn what_the_feed_has_not_named_is_found_in_order_and_in_parts(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    writer.number(store, &of, &["x"]).await;
    let unnamed: Vec<Chunk> = [(1, "y"), (2, "z"), (3, "w")].map(|(from, id)| chunk(from, 0, &[id])).into();
    let head = StreamHead { last: 4, fed: 1, bytes: 77 };
    let mut writes = vec![StreamWrite::PutHead { stream: of.clone(), head }];
    writes.extend(unnamed.iter().map(|chunk| put_chunk(&of, chunk)));
    writer.write(store, writes).await;
    let view = found(store, &of).await;
    assert_eq!((view.head, view.rest), (head, StreamRest::default()));
    assert_eq!(view.unnamed, unnamed.iter().map(stored).collect::<Vec<_>>());
    let part = PassQuery { streams: vec![of.clone()], unnamed_bytes_max: 1, ..PassQuery::default() };
    let part = store.stream_pass(SHARD, &part).await.unwrap();
    assert_eq!(part.streams[&of].unnamed, [stored(&unnamed[0])], "one at least");
    let rest = StreamRest { first: 1, fed: 3, purged: 2, gone: 1 << 40, due: None, indexed: 1 << 41 };
    writer.write(store, vec![StreamWrite::PutRest { stream: of.clone(), rest }]).await;
    let view = found(store, &of).await;
    assert_eq!((view.rest, view.unnamed), (rest, vec![stored(&unnamed[2])]), "behind the larger of the two");
}

pub async fn an_id_is_put_once_and_nothing_of_a_commit_with_one_that_is_there_is_written(store: &impl Store) {
    let mut writer = Writer::new();
    let events = append("a", &["x", "y"]);
    writer.write(store, vec![id_of(&events, 0, 1)]).await;
    let mut again = writer.next();
    let head = StreamHead { last: 2, fed: 2, bytes: T0.0 };
    again.writes =
        vec![StreamWrite::PutHead { stream: events.stream.clone(), head }, id_of(&events, 1, 2), id_of(&events, 0, 3)];
    let error = store.commit_streams(again).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists(_) | StoreError::Conflict(_)), "{error}");
    assert_eq!(store.stream_shard(SHARD).await.unwrap(), writer.record);
    let query = PassQuery { ids: vec![(tenant("acme"), event_id("y"))], ..PassQuery::default() };
    assert!(store.stream_pass(SHARD, &query).await.unwrap().ids.is_empty());
    assert_eq!(store.stream_slice(&events.stream, 0, 0).await.unwrap().head, StreamHead::default());
    let other = Append { stream: StreamKey { tenant: tenant("other"), ..events.stream.clone() }, ..events };
    writer.write(store, vec![id_of(&other, 0, 1)]).await;
}
