//! What one relay does, step by step. Schedules are drawn by the model (`waybill_testkit::streams_model`).

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::port::stream_store::{RelayFound, RelayPage, RelaySlice, StreamSlice};
use crate::streams::chunk::{Chunk, StoredChunk, StoredEvent};
use crate::streams::envelope;
use crate::streams::event::Event;
use crate::streams::event::tests::event;
use crate::streams::fixtures::stream;
use crate::streams::limits::UPKEEP_BYTES_MAX;
use crate::streams::name::StreamPattern;
use crate::streams::records::{FeedPart, FeedRecord, Refusal, StreamDead, StreamHead, StreamRest};
use crate::time::{Monotonic, UnixMillis};

/// A stream of one chunk whose events, from number `first` on, belong to these resources; event n is named by feed record n.
fn stored(first: u64, resources: &str) -> RelaySlice {
    let last = first + resources.len() as u64 - 1;
    let events = resources.chars().zip(first..).map(|(resource, seq)| {
        let event = Event { resource_id: resource.to_string(), ..event(&format!("e{seq}")) };
        StoredEvent { seq, pos: seq, packed: envelope::pack(&event).into(), apart: 0 }
    });
    let chunk = Chunk { from: first - 1, last, total: 0, at: UnixMillis(0), events: events.collect() };
    let chunks = vec![StoredChunk { last, chunk: Ok(Arc::new(chunk)) }];
    let head = StreamHead { last, fed: last, bytes: 0 };
    let rest = StreamRest { first, ..StreamRest::default() };
    let slice = StreamSlice { head, rest, chunks, is_all: true };
    RelaySlice { checkpoint: Checkpoint::default(), slice }
}

fn record(pos: u64) -> StreamShardRecord {
    StreamShardRecord { token: 1, beat: 9, pos, ..StreamShardRecord::default() }
}

fn named(pos: u64) -> FeedRecord {
    let part = FeedPart { stream: stream("a"), from: pos, to: pos };
    FeedRecord { pos, at: UnixMillis(0), parts: vec![part] }
}

/// A relay that has read the stream.
fn relay(read: &RelaySlice) -> Relays {
    let settings = RelaySettings::new(RelayName::new("out").unwrap(), StreamPattern::parse("**").unwrap());
    let mut relay = Relay::new(settings, &record(0));
    let last = read.slice.head.last;
    assert_eq!(relay.feed_wanted(&record(last)), Some(0));
    relay.take_feed(&(1..=last).map(named).collect::<Vec<_>>(), &record(last));
    assert_eq!(relay.windows_wanted(9, Monotonic::default(), |_| false), [(stream("a"), 0)]);
    relay.take_window(&stream("a"), read);
    Relays::new(vec![relay])
}

fn one(relays: &mut Relays) -> &mut Relay {
    relays.get_mut(&RelayName::new("out").unwrap()).unwrap()
}

fn sent(relays: &mut Relays) -> Vec<u64> {
    one(relays).sends(Monotonic::default(), 99).iter().map(|send| send.seq).collect()
}

fn answer(relays: &mut Relays, seq: u64, outcome: RelayOutcome) {
    assert!(one(relays).answer(&stream("a"), seq, 0, outcome), "{seq}");
}

fn refused() -> RelayOutcome {
    RelayOutcome::Refused(Refusal { code: "NO".into(), reason: "never".into() })
}

/// End of the settled run and marks beyond it; none = no checkpoint is written.
type Settled = Option<(u64, Vec<u64>)>;

/// The next commit: end of the settled run, marks beyond it, and the relay's mark.
fn drafted(relays: &Relays) -> (RelayFlight, Vec<StreamWrite>, Settled, u64) {
    let (mut writes, mut shard) = (Vec::new(), StreamShardRecord { beat: 10, ..record(9) });
    let flight = relays.draft(&mut writes, &mut shard);
    let checkpoint = writes.iter().find_map(|write| match write {
        StreamWrite::PutCheckpoint { checkpoint, .. } => {
            Some((checkpoint.upto, checkpoint.done.iter().copied().collect()))
        }
        _ => None,
    });
    let mark = shard.marks[&RelayName::new("out").unwrap()];
    (flight, writes, checkpoint, mark)
}

fn commit(relays: &mut Relays) -> (Option<(u64, Vec<u64>)>, u64) {
    let (flight, _, checkpoint, mark) = drafted(relays);
    relays.applied(flight);
    (checkpoint, mark)
}

#[test]
fn a_window_ends_before_an_event_whose_payload_was_not_read_and_goes_on_with_it() {
    let whole = stored(1, "abc");
    let mut read = whole.clone();
    let stored = &mut read.slice.chunks[0];
    let mut chunk = stored.chunk.clone().unwrap().as_ref().clone();
    chunk.events[1].apart = 70_000;
    stored.chunk = Ok(Arc::new(chunk));
    let mut relays = relay(&read);
    assert_eq!(sent(&mut relays), [1]);
    assert_eq!(one(&mut relays).windows_wanted(9, Monotonic::default(), |_| false), [(stream("a"), 1)]);
    one(&mut relays).take_window(&stream("a"), &whole);
    assert_eq!(sent(&mut relays), [2, 3]);
}

#[test]
fn of_a_key_the_earliest_unsettled_event_goes_and_the_checkpoint_is_the_settled_run() {
    let mut relays = relay(&stored(1, "abab"));
    assert_eq!(sent(&mut relays), [1, 2]);
    answer(&mut relays, 2, RelayOutcome::Acknowledged);
    assert_eq!(sent(&mut relays), [4], "an acknowledgement frees its key at once");
    assert_eq!(commit(&mut relays), (Some((0, vec![2])), 0));
    answer(&mut relays, 4, RelayOutcome::Acknowledged);
    answer(&mut relays, 1, RelayOutcome::Again(Monotonic(Duration::from_secs(1))));
    assert_eq!(sent(&mut relays), [0_u64; 0]);
    assert_eq!(one(&mut relays).next_due(Monotonic::default()), Some(Monotonic(Duration::from_secs(1))));
    let again = one(&mut relays).sends(Monotonic(Duration::from_secs(1)), 99);
    assert_eq!(again.iter().map(|send| send.seq).collect::<Vec<_>>(), [1]);
    answer(&mut relays, 1, RelayOutcome::Acknowledged);
    assert_eq!(commit(&mut relays), (Some((2, vec![4])), 2));
    assert_eq!(sent(&mut relays), [3]);
    answer(&mut relays, 3, RelayOutcome::Acknowledged);
    assert_eq!(commit(&mut relays), (Some((4, vec![])), 4));
    assert_eq!(one(&mut relays).streams_behind(), 0);
}

#[test]
fn of_a_key_the_earliest_unsettled_events_go_together_where_runs_are_kept() {
    let mut relays = relay(&stored(1, "aabaaba"));
    one(&mut relays).set_run_max(3);
    assert_eq!(sent(&mut relays), [1, 2, 3, 4, 6], "three of a, and all of b");
    answer(&mut relays, 1, RelayOutcome::Acknowledged);
    assert_eq!(sent(&mut relays), [0_u64; 0], "others of a are under way");
    // The second failed, and the third went back untried.
    answer(&mut relays, 2, RelayOutcome::Failed(Monotonic(Duration::from_secs(2))));
    answer(&mut relays, 4, RelayOutcome::Again(Monotonic(Duration::from_secs(1))));
    let at = |relays: &mut Relays, secs: u64| -> Vec<u64> {
        one(relays).sends(Monotonic(Duration::from_secs(secs)), 99).iter().map(|send| send.seq).collect()
    };
    assert_eq!(at(&mut relays, 1), [0_u64; 0], "nothing overtakes it");
    assert_eq!(at(&mut relays, 2), [2, 4, 5]);
    answer(&mut relays, 2, refused());
    answer(&mut relays, 4, RelayOutcome::Again(Monotonic::default()));
    answer(&mut relays, 5, RelayOutcome::Again(Monotonic::default()));
    assert_eq!(at(&mut relays, 3), [0_u64; 0], "its dead letter isn't durable yet");
    let (flight, ..) = drafted(&relays);
    relays.applied(flight);
    assert_eq!(at(&mut relays, 3), [4, 5, 7]);
}

#[test]
fn what_goes_back_behind_one_that_failed_is_nothing_to_wake_for() {
    let now = Monotonic::default();
    let later = Monotonic(Duration::from_secs(30));
    for is_first_told_first in [true, false] {
        let mut relays = relay(&stored(1, "aaa"));
        one(&mut relays).set_run_max(3);
        assert_eq!(sent(&mut relays), [1, 2, 3]);
        let mut answers =
            vec![(1, RelayOutcome::Failed(later)), (2, RelayOutcome::Again(now)), (3, RelayOutcome::Again(now))];
        if !is_first_told_first {
            answers.reverse();
        }
        for (seq, outcome) in answers {
            answer(&mut relays, seq, outcome);
        }
        assert_eq!(one(&mut relays).next_due(now), Some(later));
        assert_eq!(one(&mut relays).sends(later, 99).len(), 3);
    }
}

#[test]
fn what_has_no_key_goes_alone_where_runs_are_kept_too() {
    let settings = RelaySettings {
        order_by: OrderBy::Node,
        ..RelaySettings::new(RelayName::new("out").unwrap(), StreamPattern::parse("**").unwrap())
    };
    let mut relay = Relay::new(settings, &record(0));
    relay.take_feed(&(1..=2).map(named).collect::<Vec<_>>(), &record(2));
    relay.take_window(&stream("a"), &stored(1, "ab"));
    relay.set_run_max(9);
    let seqs: Vec<u64> = relay.sends(Monotonic::default(), 99).iter().map(|send| send.seq).collect();
    assert_eq!(seqs, [1], "the events of no node have no key that a transport could keep them in order by");
}

#[test]
fn a_refusal_frees_its_key_when_its_dead_letter_is_durable() {
    let mut relays = relay(&stored(1, "aa"));
    assert_eq!(sent(&mut relays), [1]);
    answer(&mut relays, 1, refused());
    assert_eq!(sent(&mut relays), [0_u64; 0]);
    let (flight, writes, checkpoint, _) = drafted(&relays);
    let is_dead = |write: &StreamWrite| matches!(write, StreamWrite::PutDead(dead) if matches!(dead.as_ref(), StreamDead::Relay { seq: 1, .. }));
    assert!(writes.iter().any(is_dead));
    assert_eq!(checkpoint, Some((1, vec![])));
    // A commit that never went in changes nothing.
    assert_eq!((sent(&mut relays), drafted(&relays).2), (vec![], Some((1, vec![]))));
    relays.applied(flight);
    assert_eq!(sent(&mut relays), [2]);
}

#[test]
fn what_was_trimmed_before_it_was_sent_is_told_and_the_mark_waits_for_that() {
    let mut trimmed = stored(4, "ab");
    trimmed.slice.head.last = 5;
    let mut relays = relay(&trimmed);
    assert_eq!(one(&mut relays).overtaken(), 3);
    let (flight, writes, checkpoint, mark) = drafted(&relays);
    assert!(writes.iter().any(|write| matches!(write, StreamWrite::NoteOvertaken { from: 1, to: 3, .. })));
    assert_eq!((checkpoint, mark), (Some((3, vec![])), 3));
    relays.applied(flight);
    assert!(!drafted(&relays).1.iter().any(|write| matches!(write, StreamWrite::NoteOvertaken { .. })), "told once");
    assert_eq!(sent(&mut relays), [4, 5]);
}

#[test]
fn a_stream_that_wasnt_read_holds_the_mark() {
    let mut relays = relay(&stored(1, "a"));
    one(&mut relays).take_feed(
        &[FeedRecord { parts: vec![FeedPart { stream: stream("b"), from: 1, to: 1 }], ..named(2) }],
        &record(2),
    );
    sent(&mut relays);
    answer(&mut relays, 1, RelayOutcome::Acknowledged);
    assert_eq!(commit(&mut relays), (Some((1, vec![])), 1));
    assert_eq!(one(&mut relays).windows_wanted(9, Monotonic::default(), |_| false), [(stream("b"), 0)]);
}

#[test]
fn a_seek_waits_for_what_is_in_flight_and_later_words_for_it_are_dropped() {
    let read = stored(1, "abc");
    let mut relays = relay(&read);
    assert_eq!(sent(&mut relays), [1, 2, 3]);
    for seq in [1, 2] {
        answer(&mut relays, seq, RelayOutcome::Acknowledged);
    }
    one(&mut relays).seek(&stream("a"), &Checkpoint::default(), 0);
    assert!(relays.is_seeking(&stream("a")) && one(&mut relays).seeks_wanted().is_empty());
    assert_eq!(drafted(&relays).2, None);
    answer(&mut relays, 3, RelayOutcome::Again(Monotonic::default()));
    assert_eq!(sent(&mut relays), [0_u64; 0]);
    assert_eq!(one(&mut relays).seeks_wanted(), [stream("a")]);
    one(&mut relays).seek_look(&stream("a"), &read.slice, 8);
    assert_eq!(drafted(&relays).2, None, "what is kept was read before the last commit");
    one(&mut relays).seek_look(&stream("a"), &read.slice, 9);
    let (flight, writes, ..) = drafted(&relays);
    let generation = writes.iter().find_map(|write| match write {
        StreamWrite::PutCheckpoint { checkpoint, .. } => Some((checkpoint.generation, checkpoint.upto)),
        _ => None,
    });
    assert_eq!(generation, Some((1, 0)));
    relays.applied(flight);
    assert!(!one(&mut relays).answer(&stream("a"), 3, 0, RelayOutcome::Acknowledged));
    assert_eq!(one(&mut relays).windows_wanted(9, Monotonic::default(), |_| false), [(stream("a"), 0)]);
    let sought = RelaySlice { checkpoint: Checkpoint { generation: 1, ..Checkpoint::default() }, ..read };
    one(&mut relays).take_window(&stream("a"), &sought);
    assert_eq!(sent(&mut relays), [1, 2, 3]);
}

#[test]
fn a_seek_that_comes_while_anothers_commit_is_out_follows_it() {
    let read = stored(1, "abc");
    let mut relays = relay(&read);
    let place = |relays: &Relays| {
        let (flight, writes, ..) = drafted(relays);
        let place = writes.iter().find_map(|write| match write {
            StreamWrite::PutCheckpoint { checkpoint, .. } => Some((checkpoint.upto, checkpoint.generation)),
            _ => None,
        });
        (flight, place)
    };
    one(&mut relays).seek(&stream("a"), &Checkpoint::default(), 2);
    one(&mut relays).seek_look(&stream("a"), &read.slice, 9);
    let (flight, first) = place(&relays);
    assert_eq!(first, Some((2, 1)));
    one(&mut relays).seek(&stream("a"), &Checkpoint::default(), 1);
    one(&mut relays).seek_look(&stream("a"), &read.slice, 9);
    relays.applied(flight);
    assert!(relays.is_seeking(&stream("a")), "it isn't done with the first one");
    assert_eq!(place(&relays).1, None, "what is kept was read before that was in");
    assert_eq!(one(&mut relays).seeks_wanted(), [stream("a")]);
    one(&mut relays).seek_look(&stream("a"), &read.slice, 9);
    let (flight, second) = place(&relays);
    assert_eq!(second, Some((1, 2)));
    relays.applied(flight);
    assert!(!relays.is_seeking(&stream("a")));
}

#[test]
fn who_finds_the_feed_trimmed_goes_through_all_streams_while_the_mark_stays() {
    let settings = RelaySettings::new(RelayName::new("out").unwrap(), StreamPattern::parse("**").unwrap());
    let mut relay = Relay::new(settings, &record(0));
    assert_eq!(relay.take_feed(&[named(5)], &record(6)), FeedTaken::Trimmed);
    let found = |name, named_to, upto| RelayFound {
        stream: stream(name),
        named_to,
        checkpoint: Checkpoint { upto, ..Checkpoint::default() },
    };
    assert_eq!(relay.streams_wanted(), Some(None));
    let page = RelayPage { streams: vec![found("a", 3, 1), found("b", 3, 3)], last: Some(stream("b")) };
    relay.take_streams(&page, &record(6));
    assert_eq!(relay.streams_wanted(), Some(Some(&stream("b"))));
    relay.take_streams(&RelayPage::default(), &record(6));
    assert_eq!((relay.streams_wanted(), relay.feed_wanted(&record(6))), (None, None));
    assert_eq!(relay.windows_wanted(9, Monotonic::default(), |_| false), [(stream("a"), 0)]);
    assert_eq!(drafted(&Relays::new(vec![relay])).3, 0);
}

#[test]
fn behind_an_event_that_cant_be_sent_there_are_only_so_many_marks() {
    let settings = RelaySettings::new(RelayName::new("out").unwrap(), StreamPattern::parse("**").unwrap());
    let mut relay = Relay::new(RelaySettings { window_events: 4, ..settings }, &record(0));
    relay.take_feed(&(1..=8).map(named).collect::<Vec<_>>(), &record(8));
    let mut read = stored(1, "abcd");
    read.slice.head = StreamHead { last: 8, fed: 8, bytes: 0 };
    relay.take_window(&stream("a"), &read);
    let mut relays = Relays::new(vec![relay]);
    assert_eq!(sent(&mut relays), [1, 2, 3, 4]);
    answer(&mut relays, 1, RelayOutcome::Again(Monotonic(Duration::from_secs(1))));
    for seq in 2..=4 {
        answer(&mut relays, seq, RelayOutcome::Acknowledged);
    }
    assert_eq!(commit(&mut relays).0, Some((0, vec![2, 3, 4])));
    assert!(
        one(&mut relays).windows_wanted(9, Monotonic::default(), |_| false).is_empty(),
        "three marks and the event are four"
    );
    // The next owner has to read, or it would never know what is to be sent.
    let mut relay = Relay::new(RelaySettings { window_events: 4, ..one(&mut relays).settings().clone() }, &record(0));
    relay.take_feed(&(1..=8).map(named).collect::<Vec<_>>(), &record(8));
    read.checkpoint.done = (2..=4).collect();
    relay.take_window(&stream("a"), &read);
    let mut relays = Relays::new(vec![relay]);
    assert!(one(&mut relays).windows_wanted(9, Monotonic::default(), |_| false).is_empty());
    assert_eq!(sent(&mut relays), [1]);
    answer(&mut relays, 1, RelayOutcome::Acknowledged);
    assert_eq!(commit(&mut relays).0, Some((4, vec![])));
    assert_eq!(one(&mut relays).windows_wanted(9, Monotonic::default(), |_| false), [(stream("a"), 4)]);
}

#[test]
fn windows_have_no_more_in_memory_than_their_room_and_streams_take_turns() {
    let begin = |window_bytes| {
        let settings = RelaySettings::new(RelayName::new("out").unwrap(), StreamPattern::parse("**").unwrap());
        let mut relay = Relay::new(RelaySettings { window_bytes, ..settings }, &record(0));
        let of =
            |name, pos| FeedRecord { parts: vec![FeedPart { stream: stream(name), from: 1, to: 2 }], ..named(pos) };
        relay.take_feed(&[of("a", 1), of("b", 2), of("c", 3)], &record(3));
        relay
    };
    let wanted = |relay: &mut Relay| {
        let wanted = relay.windows_wanted(9, Monotonic::default(), |_| false).into_iter();
        wanted.map(|(stream, after)| (stream.name.as_str().to_owned(), after)).collect::<Vec<_>>()
    };
    let mut relay = begin(UPKEEP_BYTES_MAX);
    assert_eq!(wanted(&mut relay), [("a".to_owned(), 0)]);
    relay.take_window(&stream("a"), &stored(1, "aa"));
    assert!(wanted(&mut relay).is_empty(), "a stream without a window waits for its room, too");
    let mut relays = Relays::new(vec![relay]);
    for seq in [1, 2] {
        assert_eq!(sent(&mut relays), [seq]);
        answer(&mut relays, seq, RelayOutcome::Acknowledged);
    }
    commit(&mut relays);
    assert_eq!(wanted(one(&mut relays)), [("b".to_owned(), 0)], "what was sent makes room");

    let mut relay = begin(6 * UPKEEP_BYTES_MAX);
    relay.take_window(&stream("a"), &stored(1, "a"));
    assert!(!relay.still_wants(&stream("a"), 0) && relay.still_wants(&stream("a"), 1));
    let turns = [("b".to_owned(), 0), ("c".to_owned(), 0)];
    assert_eq!(wanted(&mut relay), turns, "the last one has more only while half of the room is free");
    let left = relay.windows_wanted(9, Monotonic::default(), |of| *of == stream("b"));
    assert_eq!(left, [(stream("c"), 0), (stream("a"), 1)]);
}

#[test]
fn one_that_begins_with_the_latest_leaves_out_what_was_there_and_a_seek_goes_before_that() {
    let settings = RelaySettings::new(RelayName::new("out").unwrap(), StreamPattern::parse("**").unwrap());
    let settings = RelaySettings { from_latest: true, ..settings };
    let read = stored(1, "abc");
    let begin = |shard: &StreamShardRecord| {
        let mut relay = Relay::new(settings.clone(), shard);
        relay.take_feed(&(1..=3).map(named).collect::<Vec<_>>(), &StreamShardRecord { pos: 3, ..shard.clone() });
        assert_eq!(relay.take_window(&stream("a"), &read), None);
        Relays::new(vec![relay])
    };
    let mut relays = begin(&record(2));
    assert_eq!(sent(&mut relays), [3]);
    let mut shard = record(3);
    let flight = relays.draft(&mut Vec::new(), &mut shard);
    relays.applied(flight);
    assert_eq!(shard.starts[&RelayName::new("out").unwrap()], 2, "the next owner begins there, too");
    assert_eq!(sent(&mut begin(&shard)), [3]);
    one(&mut relays).answer(&stream("a"), 3, 0, RelayOutcome::Acknowledged);
    assert_eq!(commit(&mut relays).0, Some((3, vec![])), "what is left out needn't be kept for it");
    let ran = StreamShardRecord { marks: [(settings.name.clone(), 0)].into(), ..record(2) };
    assert_eq!(sent(&mut begin(&ran)), [1, 2, 3], "it ran before it was to begin with the latest");

    let sought = RelaySlice { checkpoint: Checkpoint { generation: 1, ..Checkpoint::default() }, ..read.clone() };
    let mut relay = Relay::new(settings.clone(), &record(2));
    relay.take_feed(&(1..=3).map(named).collect::<Vec<_>>(), &record(3));
    relay.take_window(&stream("a"), &sought);
    assert_eq!(sent(&mut Relays::new(vec![relay])), [1, 2, 3]);

    let mut trimmed = stored(3, "c");
    trimmed.slice.rest.gone = 2;
    let mut relay = Relay::new(settings.clone(), &record(2));
    assert_eq!(relay.take_window(&stream("a"), &trimmed), None, "what went was before its start");
    let mut relay = Relay::new(settings.clone(), &record(1));
    assert!(relay.take_window(&stream("a"), &trimmed).is_some());
}

#[test]
fn a_stream_that_cant_be_sent_leaves_its_room_to_others_and_comes_back_when_it_is_due() {
    let settings = RelaySettings::new(RelayName::new("out").unwrap(), StreamPattern::parse("**").unwrap());
    let settings = RelaySettings { window_bytes: 1, read_bytes: 1, ..settings };
    let mut relay = Relay::new(settings, &record(0));
    let of = |name, pos| FeedRecord { parts: vec![FeedPart { stream: stream(name), from: 1, to: 2 }], ..named(pos) };
    relay.take_feed(&[of("a", 1), of("b", 2)], &record(2));
    relay.take_window(&stream("a"), &stored(1, "ab"));
    let at = |seconds| Monotonic(Duration::from_secs(seconds));
    let wanted = |relays: &mut Relays, seconds| {
        let wanted = one(relays).windows_wanted(9, at(seconds), |_| false).into_iter();
        wanted.map(|(stream, after)| (stream.name.as_str().to_owned(), after)).collect::<Vec<_>>()
    };
    let mut relays = Relays::new(vec![relay]);
    assert!(wanted(&mut relays, 0).is_empty(), "what can be sent keeps its room");
    assert_eq!(sent(&mut relays), [1, 2]);
    answer(&mut relays, 1, RelayOutcome::Again(at(5)));
    assert!(wanted(&mut relays, 0).is_empty(), "some of it is under way");
    answer(&mut relays, 2, RelayOutcome::Acknowledged);
    assert!(wanted(&mut relays, 0).is_empty(), "an acknowledgement isn't recorded");
    assert_eq!(commit(&mut relays), (Some((0, vec![2])), 0));
    assert_eq!(wanted(&mut relays, 0), [("b".to_owned(), 0)]);
    assert_eq!(one(&mut relays).window_bytes(), 0);
    assert_eq!((commit(&mut relays), one(&mut relays).streams_behind()), ((None, 0), 2), "it holds the mark");

    one(&mut relays).take_window(&stream("b"), &stored(1, "ab"));
    assert_eq!(sent(&mut relays), [1, 2]);
    for seq in [1, 2] {
        assert!(one(&mut relays).answer(&stream("b"), seq, 0, RelayOutcome::Acknowledged));
    }
    commit(&mut relays);
    assert!(wanted(&mut relays, 4).is_empty(), "nothing of it is due");
    assert_eq!((one(&mut relays).next_due(at(4)), one(&mut relays).next_due(at(5))), (Some(at(5)), None));
    assert_eq!(wanted(&mut relays, 5), [("a".to_owned(), 0)]);
    let checkpoint = Checkpoint { done: [2].into(), ..Checkpoint::default() };
    one(&mut relays).take_window(&stream("a"), &RelaySlice { checkpoint, ..stored(1, "ab") });
    assert_eq!(sent(&mut relays), [0_u64; 0], "it is sent again when it may be");
    let again = one(&mut relays).sends(at(5), 99);
    assert_eq!(again.iter().map(|send| send.seq).collect::<Vec<_>>(), [1]);
    answer(&mut relays, 1, RelayOutcome::Acknowledged);
    assert_eq!(commit(&mut relays).0, Some((2, vec![])));
    assert_eq!((one(&mut relays).streams_behind(), one(&mut relays).next_due(at(5))), (0, None));
}

#[test]
fn only_so_many_streams_leave_their_room() {
    let settings = RelaySettings::new(RelayName::new("out").unwrap(), StreamPattern::parse("**").unwrap());
    let settings = RelaySettings { window_bytes: 1, read_bytes: 1, parked_max: 1, ..settings };
    let mut relay = Relay::new(settings, &record(0));
    let of = |name, pos| FeedRecord { parts: vec![FeedPart { stream: stream(name), from: 1, to: 1 }], ..named(pos) };
    relay.take_feed(&[of("a", 1), of("b", 2), of("c", 3)], &record(3));
    let later = Monotonic(Duration::from_secs(5));
    for (name, next) in [("a", Some("b")), ("b", None)] {
        relay.take_window(&stream(name), &stored(1, "a"));
        assert_eq!(relay.sends(Monotonic::default(), 9).len(), 1);
        assert!(relay.answer(&stream(name), 1, 0, RelayOutcome::Again(later)));
        let wanted = relay.windows_wanted(9, Monotonic::default(), |_| false);
        assert_eq!(wanted, next.map(|next| (stream(next), 0)).into_iter().collect::<Vec<_>>(), "behind {name}");
    }
    // Once it is sent there is room again.
    assert_eq!(relay.sends(later, 9).len(), 1);
    assert!(relay.answer(&stream("b"), 1, 0, RelayOutcome::Acknowledged));
    let mut relays = Relays::new(vec![relay]);
    commit(&mut relays);
    assert_eq!(one(&mut relays).windows_wanted(1, Monotonic::default(), |_| false), [(stream("c"), 0)]);
}

#[test]
fn only_so_many_streams_are_in_memory() {
    let settings = RelaySettings::new(RelayName::new("out").unwrap(), StreamPattern::parse("**").unwrap());
    let mut relay = Relay::new(RelaySettings { windows_max: 2, ..settings }, &record(0));
    let of = |name, pos| FeedRecord { parts: vec![FeedPart { stream: stream(name), from: 1, to: 2 }], ..named(pos) };
    relay.take_feed(&[of("a", 1), of("b", 2), of("c", 3)], &record(3));
    let wanted = |relay: &mut Relay| relay.windows_wanted(9, Monotonic::default(), |_| false);
    assert_eq!(wanted(&mut relay), [(stream("a"), 0), (stream("b"), 0)]);
    relay.take_window(&stream("a"), &stored(1, "aa"));
    assert_eq!(wanted(&mut relay), [(stream("b"), 0)]);
    relay.take_window(&stream("b"), &stored(1, "aa"));
    assert!(wanted(&mut relay).is_empty());
    assert_eq!(relay.sends(Monotonic::default(), 9).len(), 2);
    assert!(relay.answer(&stream("a"), 1, 0, RelayOutcome::Again(Monotonic(Duration::from_secs(5)))));
    assert_eq!(wanted(&mut relay), [(stream("c"), 0)], "one of which nothing can be sent makes room here, too");
}

#[test]
fn what_was_settled_beyond_the_checkpoint_isnt_lost_when_it_is_trimmed() {
    let trimmed = |done: &[u64]| {
        let mut read = stored(4, "a");
        read.checkpoint.done = done.iter().copied().collect();
        read
    };
    let mut relays = relay(&trimmed(&[2]));
    assert_eq!(one(&mut relays).overtaken(), 2);
    assert!(one(&mut relays).has_to_record(&stream("a")));
    let mut relays = relay(&trimmed(&[1, 2, 3]));
    assert_eq!(one(&mut relays).overtaken(), 0);
    assert!(one(&mut relays).has_to_record(&stream("a")), "the checkpoint moves all the same");
    let (flight, writes, checkpoint, mark) = drafted(&relays);
    assert!(!writes.iter().any(|write| matches!(write, StreamWrite::NoteOvertaken { .. })));
    assert_eq!((checkpoint, mark), (Some((3, vec![])), 3));
    relays.applied(flight);
    assert!(!one(&mut relays).has_to_record(&stream("a")));
}

#[test]
fn failures_are_counted_until_their_event_is_settled_or_gone() {
    let read = stored(1, "ab");
    let settings = RelaySettings::new(RelayName::new("out").unwrap(), StreamPattern::parse("**").unwrap());
    let settings = RelaySettings { window_bytes: 1, read_bytes: 1, ..settings };
    let at = |seconds| Monotonic(Duration::from_secs(seconds));
    let mut relay = Relay::new(settings, &record(0));
    let of = |name, pos| FeedRecord { parts: vec![FeedPart { stream: stream(name), from: 1, to: 2 }], ..named(pos) };
    relay.take_feed(&[of("a", 1), of("b", 2)], &record(2));
    relay.take_window(&stream("a"), &read);
    let failed = |relay: &Relay| [1, 2].map(|seq| relay.failures(&stream("a"), seq));
    for (now, before) in [(0, 0), (1, 1)] {
        let sends = relay.sends(at(now), 9);
        assert_eq!(sends.iter().map(|send| (send.seq, send.failed)).collect::<Vec<_>>(), [(1, before), (2, before)]);
        for seq in [1, 2] {
            assert!(relay.answer(&stream("a"), seq, 0, RelayOutcome::Failed(at(now + 1))));
        }
    }
    assert_eq!(failed(&relay), [2, 2]);
    // Its room goes to another stream, and what was counted stays; retention takes the first event meanwhile.
    assert_eq!(relay.windows_wanted(9, at(1), |_| false), [(stream("b"), 0)]);
    assert_eq!((relay.window_bytes(), failed(&relay)), (0, [2, 2]));
    relay.take_window(&stream("a"), &stored(2, "b"));
    assert_eq!((failed(&relay), relay.overtaken()), ([0, 2], 1));
    assert_eq!(relay.sends(at(2), 9).iter().map(|send| (send.seq, send.failed)).collect::<Vec<_>>(), [(2, 2)]);
    // A broker that isn't there counts against nobody.
    assert!(relay.answer(&stream("a"), 2, 0, RelayOutcome::Again(at(2))));
    assert_eq!(failed(&relay), [0, 2]);
    relay.forget_failures();
    assert_eq!(relay.sends(at(2), 9).first().map(|send| send.failed), Some(0));
    assert!(relay.answer(&stream("a"), 2, 0, RelayOutcome::Failed(at(3))));
    // A seek sends it anew.
    relay.seek(&stream("a"), &Checkpoint::default(), 1);
    relay.seek_look(&stream("a"), &stored(2, "b").slice, 9);
    let mut relays = Relays::new(vec![relay]);
    commit(&mut relays);
    assert_eq!(failed(&*one(&mut relays)), [0, 0]);
}
