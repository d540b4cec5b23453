//! Appends and pages.

use std::sync::Arc;

use waybill_core::code::Code;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{AppendRequest, Appended, EventInput, ImportEvent, Start, StreamAct};
use waybill_core::port::stream_store::StreamStore;
use waybill_core::streams::records::Append;
use waybill_core::time::UnixMillis;
use waybill_testkit::memory_store::Fate;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn events_are_numbered_from_1_and_read_back_in_order() {
    let world = World::new();
    let host = world.start().await;
    assert_eq!(numbered(host.append("task.a", &["t1-1", "t1-2"]).await), [1, 2]);
    assert_eq!(numbered(host.append("task.a", &["t2-1"]).await), [3]);
    assert_eq!(numbered(host.append("task.b", &["t1-3"]).await), [1]);
    let page = host.streams.read_stream(&key("task.a"), None, 0).await.unwrap();
    let read: Vec<_> = page.events.iter().map(shown).collect();
    assert_eq!(seqs(&read), [1, 2, 3]);
    assert_eq!(read[2].2, "t2-1");
    assert_eq!((page.first, page.last, &*page.next_after, page.is_end), (1, 3, "3", true));
    let rest = host.streams.read_stream(&key("task.a"), Some("1"), 1).await.unwrap();
    assert_eq!((rest.events.len(), &*rest.next_after, rest.is_end), (1, "2", false));
}

#[tokio::test(start_paused = true)]
async fn the_same_append_again_is_recognized_and_another_with_its_id_is_refused() {
    let world = World::new();
    let host = world.start().await;
    host.append("a", &["x-1", "x-2"]).await;
    let Appended::Numbered { seqs, duplicates, .. } = host.append("a", &["x-1", "x-2"]).await else { panic!() };
    assert_eq!((seqs, duplicates), (vec![1, 2], vec![0, 1]));
    let other = EventInput { cause: Some("another".into()), ..input("x-1") };
    let request = AppendRequest { stream: key("a"), events: vec![other], expected_seq: None, traceparent: None };
    assert_eq!(host.streams.append(request).await.unwrap_err().code(), Code::EVENT_ID_TAKEN);
    assert_eq!(numbered(host.append("a", &["x-3"]).await), [3]);
}

#[tokio::test(start_paused = true)]
async fn an_append_at_an_expected_number_goes_in_only_there() {
    let world = World::new();
    let host = world.start().await;
    assert_eq!(numbered(host.try_append("a", &["x-1"], Some(0)).await.unwrap()), [1]);
    let error = host.try_append("a", &["x-2"], Some(0)).await.unwrap_err();
    assert_eq!(error.code(), Code::STREAM_EXPECTED_SEQ);
    assert!(error.to_string().contains("ends at 1, not at 0"), "{error}");
    assert_eq!(numbered(host.append("a", &["x-3"]).await), [2], "what the exact one put there is before it");
    // Whoever numbered next named it in the feed, too.
    let detail = host.streams.stream(&key("a")).await.unwrap();
    assert_eq!((detail.named_to, detail.summary.last), (2, 2));
}

/// Puts events of a stream there without ringing, as another client of the same database does.
async fn leave_at_door(world: &World, ids: &[&str]) {
    let made = |id: &&str| {
        let event = input(id).into_event(|| panic!(), UnixMillis(1_700_000_000_000));
        event.admit(&name("a"), &Default::default(), true).unwrap()
    };
    let append = Append::new(key("a"), ids.iter().map(made).collect());
    world.memory.append_at_door(&[(key("a").shard(1), Arc::new(append))]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_somebody_leaves_on_the_doorstep_is_numbered_without_being_asked() {
    let world = World::new();
    let host = world.start().await;
    leave_at_door(&world, &["x-1", "x-2"]).await;
    eventually("both are numbered", async || {
        let page = host.streams.read_stream(&key("a"), None, 0).await;
        page.is_ok_and(|page| page.last == 2)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_an_owner_hasnt_numbered_is_told_until_it_has() {
    let world = World::new();
    let host = world.start().await;
    let stats = async || host.streams.stream_stats().await.unwrap();
    let idle = stats().await;
    assert_eq!((idle.owned, idle.shards, idle.door_rows, idle.door_age_ms), (1, 1, 0, None));
    // None of its next commits goes in.
    world.memory.plan_streams(vec![Fate::Lose; 20]);
    leave_at_door(&world, &["x-1"]).await;
    eventually("the row is told", async || {
        let late = stats().await;
        late.door_rows == 1 && late.door_age_ms.is_some()
    })
    .await;
    eventually("it is numbered", async || {
        let stats = stats().await;
        (stats.door_rows, stats.door_age_ms, stats.appended) == (0, None, 1)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_unknown_outcome_is_found_out_and_nothing_is_numbered_twice() {
    for fate in [Fate::ApplyUnknown, Fate::Lose, Fate::Hold] {
        let world = World::new();
        let host = world.start().await;
        world.memory.plan_streams([fate.clone()]);
        assert_eq!(numbered(host.append("a", &["x-1"]).await), [1], "{fate:?}");
        // What was held back comes too late.
        let _late = world.memory.release_streams();
        assert_eq!(numbered(host.append("a", &["x-2"]).await), [2], "{fate:?}");
        let page = host.streams.read_stream(&key("a"), None, 0).await.unwrap();
        assert_eq!(page.events.len(), 2, "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_appends_to_a_sagas_history_or_reads_a_stream_that_never_was() {
    let world = World::new();
    let host = world.start().await;
    let error = host.try_append("saga.1", &["x-1"], None).await.unwrap_err();
    assert_eq!(error.code(), Code::STREAM_READ_ONLY);
    let error = host.streams.read_stream(&key("nothing"), None, 0).await.unwrap_err();
    assert_eq!(error.code(), Code::STREAM_NOT_FOUND);
    assert_eq!(host.try_append("a", &[], None).await.unwrap_err().code(), Code::SCHEMA_VALIDATION_FAILED);
}

#[tokio::test(start_paused = true)]
async fn a_position_beyond_the_end_or_before_what_is_kept_is_told() {
    let world = World::new();
    let host = world.start().await;
    host.append("a", &["x-1", "x-2"]).await;
    host.append("a", &["x-3"]).await;
    let ahead = host.streams.read_stream(&key("a"), Some("9"), 0).await.unwrap_err();
    assert_eq!(ahead.code(), Code::EVENT_CURSOR_AHEAD);
    let act = StreamAct { stream: key("a"), is_plan: true, actor: "ops".into(), reason: "test".into() };
    let planned = host.streams.purge(&act, Some(3)).await.unwrap();
    assert_eq!((planned.events, planned.first, planned.last), (2, 3, 3));
    assert_eq!(host.streams.read_stream(&key("a"), Some("0"), 0).await.unwrap().events.len(), 3, "it was a plan");
    let done = host.streams.purge(&StreamAct { is_plan: false, ..act.clone() }, Some(3)).await.unwrap();
    assert_eq!(done, planned);
    let gone = host.streams.read_stream(&key("a"), Some("0"), 0).await.unwrap_err();
    assert_eq!(gone.code(), Code::EVENT_CURSOR_EXPIRED);
    assert_eq!(host.streams.read_stream(&key("a"), None, 0).await.unwrap().events.len(), 1);
    let deleted = host.streams.delete(&StreamAct { is_plan: false, ..act }).await.unwrap();
    assert_eq!((deleted.events, deleted.first, deleted.last), (1, 4, 3));
    assert_eq!(numbered(host.append("a", &["x-4"]).await), [4], "numbers never start again");
}

#[tokio::test(start_paused = true)]
async fn an_import_keeps_numbers_and_goes_on_where_it_was() {
    let world = World::new();
    let host = world.start().await;
    let part = |seqs: std::ops::RangeInclusive<u64>| {
        seqs.map(|seq| ImportEvent { seq, event: input(&format!("x-{seq}")) }).collect::<Vec<_>>()
    };
    let act = StreamAct { stream: key("a"), is_plan: false, actor: "ops".into(), reason: "moving here".into() };
    host.streams.import(&act, part(1..=3)).await.unwrap();
    let again = host.streams.import(&act, part(1..=3)).await.unwrap_err();
    assert_eq!(again.code(), Code::STREAM_NOT_EMPTY);
    let mut falling = part(4..=5);
    falling.reverse();
    let falls = host.streams.import(&act, falling).await.unwrap_err();
    assert_eq!(falls.code(), Code::SCHEMA_VALIDATION_FAILED);
    let done = host.streams.import(&act, part(4..=5)).await.unwrap();
    assert_eq!((done.events, done.last), (2, 5));
    let page = host.streams.read_stream(&key("a"), None, 0).await.unwrap();
    assert_eq!(page.events.iter().map(|piece| shown(piece).2).collect::<Vec<_>>(), ["x-1", "x-2", "x-3", "x-4", "x-5"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_trimmed_and_compacted_elsewhere_is_imported_with_its_holes() {
    let world = World::new();
    let host = world.start().await;
    let event = |seq: u64| ImportEvent { seq, event: input(&format!("x-{seq}")) };
    let act = StreamAct { stream: key("a"), is_plan: false, actor: "ops".into(), reason: "moving here".into() };
    let done = host.streams.import(&act, vec![event(7), event(8), event(11)]).await.unwrap();
    assert_eq!((done.events, done.first, done.last), (3, 7, 11));
    assert_eq!(done.left_out, 2, "what was trimmed before 7 is refused to cursors, and needs no note");
    assert_eq!(host.streams.import(&act, vec![event(15)]).await.unwrap().left_out, 3);
    assert_eq!(numbered(host.append("a", &["y"]).await), [16]);
    let numbers = async |after: Option<&str>| {
        let page = host.streams.read_stream(&key("a"), after, 0).await?;
        assert_eq!((page.first, page.last), (7, 16));
        Ok::<_, ServiceError>(page.events.iter().map(|piece| piece.seq).collect::<Vec<_>>())
    };
    assert_eq!(numbers(None).await.unwrap(), [7, 8, 11, 15, 16]);
    assert_eq!(numbers(Some("9")).await.unwrap(), [11, 15, 16]);
    assert_eq!(numbers(Some("5")).await.unwrap_err().code(), Code::EVENT_CURSOR_EXPIRED, "what was trimmed isn't here");
    let mut many = host.subscribe(prefix(""), Start::Earliest).await;
    assert_eq!(seqs(&many.take(5).await), [7, 8, 11, 15, 16]);
}

#[tokio::test(start_paused = true)]
async fn streams_are_listed_by_name() {
    let world = World::new();
    let host = world.start().await;
    for stream in ["task.b", "task.a", "node.1"] {
        host.append(stream, &[&format!("x-{stream}")]).await;
    }
    let list = async |cursor: Option<&str>| host.streams.streams(&tenant(), "task.", cursor, 1).await.unwrap();
    let first = list(None).await;
    assert_eq!(first.items[0].stream, key("task.a"));
    let second = list(first.next_cursor.as_deref()).await;
    assert_eq!(second.items[0].stream, key("task.b"));
    let end = list(second.next_cursor.as_deref()).await;
    assert_eq!((end.items.len(), end.next_cursor), (0, None));
}
