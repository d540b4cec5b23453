//! Appends at an expected number: refusals, repeats, and the races with an owner and with each other.

use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::{DoorQuery, PassQuery, StreamStore as Store};
use waybill_core::streams::exact::{ExactAnswer, ExactAppend, ExactRefusal};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::records::{DoorContent, StreamCommitted, StreamHead, StreamRest, StreamWrite};

use super::samples::{SHARD, T0};
use super::stream_samples::{ALL_BYTES, Writer, all_at_door, append, event_id, exact, found, put_chunk, stream};

type Answered = Result<Result<ExactAnswer, ExactRefusal>, StoreError>;

async fn appended(store: &impl Store, append: &ExactAppend) -> Vec<u64> {
    store.append_exact(append, T0).await.unwrap().unwrap().seqs
}

/// Numbers of all events that are stored of a stream, in order; each chunk begins where the one before ended.
async fn stored_seqs(store: &impl Store, of: &StreamKey) -> Vec<u64> {
    let slice = store.stream_slice(of, 0, ALL_BYTES).await.unwrap();
    let (mut seqs, mut last) = (Vec::new(), 0);
    for stored in &slice.chunks {
        let chunk = stored.chunk.as_ref().unwrap();
        assert_eq!((chunk.from, chunk.last), (last, stored.last), "{slice:?}");
        seqs.extend(chunk.events.iter().map(|event| event.seq));
        last = chunk.last;
    }
    assert_eq!(slice.head.last, last, "the head is the end");
    seqs
}

pub async fn an_exact_append_numbers_itself_and_leaves_a_note_for_the_owner(store: &impl Store) {
    let of = stream("a");
    assert_eq!(appended(store, &exact("a", &["x", "y"], 0)).await, [1, 2]);
    assert_eq!(appended(store, &exact("a", &["z"], 2)).await, [3]);
    assert_eq!(stored_seqs(store, &of).await, [1, 2, 3]);
    let slice = store.stream_slice(&of, 0, ALL_BYTES).await.unwrap();
    let chunks: Vec<_> = slice.chunks.iter().map(|stored| stored.chunk.clone().unwrap()).collect();
    let packed: Vec<_> = append("a", &["x", "y"]).events.into_iter().map(|event| event.packed).collect();
    assert_eq!(chunks[0].events.iter().map(|event| event.packed.clone()).collect::<Vec<_>>(), packed);
    assert!(chunks.iter().all(|chunk| chunk.events.iter().all(|event| event.pos == 0) && chunk.at == T0));
    let bytes = chunks.iter().map(|chunk| chunk.bytes() as u64).sum();
    assert_eq!(slice.head, StreamHead { last: 3, fed: 0, bytes });
    let door = all_at_door(store, SHARD).await;
    let notes: Vec<_> = door.rows.iter().map(|row| row.content.clone().unwrap()).collect();
    assert_eq!(notes, [DoorContent::Look(of.clone()), DoorContent::Look(of.clone())]);
    assert_eq!(door.streams[&of].unnamed, slice.chunks, "and the owner finds what is to be named");
    let ids = ["x", "y", "z"].map(|id| (of.tenant.clone(), event_id(id))).into();
    let ids = PassQuery { ids, ..PassQuery::default() };
    let ids = store.stream_pass(SHARD, &ids).await.unwrap().ids;
    assert_eq!(ids.values().map(|record| record.seq).collect::<Vec<_>>(), [1, 2, 3]);
}

pub async fn a_look_ends_at_so_many_bytes_of_exact_appends_and_leaves_the_rows_behind_them(store: &impl Store) {
    let names = ["a", "b", "c"];
    for name in names {
        appended(store, &exact(name, &[name], 0)).await;
    }
    let door = DoorQuery { until: None, from: 0, limit: 100 };
    let small = PassQuery { door: Some(door), unnamed_bytes_max: 1, ..PassQuery::default() };
    let found = store.stream_pass(SHARD, &small).await.unwrap();
    assert_eq!((found.rows.len(), found.streams.len(), found.is_all), (1, 1, false), "one at least");
    let asked = PassQuery { streams: names.map(stream).into(), unnamed_bytes_max: 1, ..PassQuery::default() };
    let asked = store.stream_pass(SHARD, &asked).await.unwrap();
    assert_eq!((asked.streams.len(), asked.is_all), (1, true));
    let all = all_at_door(store, SHARD).await;
    assert_eq!((all.rows.len(), all.streams.len(), all.is_all), (3, 3, true));
}

pub async fn an_exact_append_at_another_end_is_refused_and_leaves_nothing(store: &impl Store) {
    appended(store, &exact("a", &["x"], 0)).await;
    for expected in [0, 2] {
        let refused = store.append_exact(&exact("a", &["y"], expected), T0).await.unwrap();
        assert_eq!(refused, Err(ExactRefusal::ExpectedSeq { stream: stream("a"), expected, actual: 1 }));
    }
    let refused = store.append_exact(&exact("new", &["y"], 1), T0).await.unwrap();
    assert_eq!(refused, Err(ExactRefusal::ExpectedSeq { stream: stream("new"), expected: 1, actual: 0 }));
    assert_eq!(store.append_exact(&exact("a", &[], 1), T0).await.unwrap(), Err(ExactRefusal::Empty));
    assert_eq!(stored_seqs(store, &stream("a")).await, [1]);
    assert_eq!(all_at_door(store, SHARD).await.rows.len(), 1, "the note of the one that went in");
    assert_eq!(appended(store, &exact("a", &["y"], 1)).await, [2], "its id is free");
}

pub async fn a_repeated_exact_append_answers_the_first_result(store: &impl Store) {
    let first = exact("a", &["x", "y"], 0);
    appended(store, &first).await;
    appended(store, &exact("a", &["z"], 2)).await;
    let again = store.append_exact(&first, T0).await.unwrap();
    assert_eq!(again, Ok(ExactAnswer { seqs: vec![1, 2], is_repeat: true }));
    let borrowed = ExactAppend { append: append("b", &["x"]), ..exact("b", &[], 0) };
    let refused = store.append_exact(&borrowed, T0).await.unwrap();
    assert_eq!(refused, Err(ExactRefusal::IdTaken { id: event_id("x") }), "in another stream it is another event");
    assert_eq!(stored_seqs(store, &stream("a")).await, [1, 2, 3]);
    assert_eq!(all_at_door(store, SHARD).await.rows.len(), 2);
}

pub async fn of_many_exact_appends_at_once_each_number_is_given_once(store: &impl Store) {
    let of = stream("a");
    for expected in 0..5 {
        let appends: Vec<ExactAppend> =
            (0..8).map(|number| exact("a", &[format!("{expected}-{number}").as_str()], expected)).collect();
        let answers: Vec<Answered> =
            futures::future::join_all(appends.iter().map(|append| store.append_exact(append, T0))).await;
        let went_in = answers.iter().filter(|answer| matches!(answer, Ok(Ok(_)))).count();
        assert_eq!(went_in, 1, "{answers:?}");
        let refused = Err(ExactRefusal::ExpectedSeq { stream: of.clone(), expected, actual: expected + 1 });
        let others = answers.iter().filter(|answer| !matches!(answer, Ok(Ok(_))));
        for other in others {
            assert!(matches!(other, Ok(other) if *other == refused) || matches!(other, Err(StoreError::Conflict(_))));
        }
    }
    assert_eq!(stored_seqs(store, &of).await, [1, 2, 3, 4, 5]);
}

pub async fn of_an_exact_append_and_an_owner_who_numbers_one_gets_the_number(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    for round in 0..20_u64 {
        let head = store.stream_slice(&of, 0, 0).await.unwrap().head;
        let numbering = writer.numbering(head, &of, &["plain"]);
        let record = numbering.record.clone();
        let append = exact("a", &[format!("exact-{round}").as_str()], head.last);
        let (numbered, appended) = futures::join!(store.commit_streams(numbering), store.append_exact(&append, T0));
        let is_numbered = match numbered {
            Ok(StreamCommitted::Applied) => true,
            Ok(StreamCommitted::Moved(heads)) => {
                assert_eq!(heads, [(of.clone(), head.last + 1)]);
                false
            }
            Err(StoreError::Conflict(_)) => false,
            Err(error) => panic!("{error}"),
        };
        match appended {
            Ok(Ok(answer)) => assert_eq!((answer.seqs, is_numbered), (vec![head.last + 1], false)),
            Ok(Err(refusal)) => {
                let actual = head.last + 1;
                let expected = head.last;
                assert_eq!(refusal, ExactRefusal::ExpectedSeq { stream: of.clone(), expected, actual });
                assert!(is_numbered);
            }
            Err(error) => assert!(matches!(error, StoreError::Conflict(_)) && is_numbered, "{error}"),
        }
        assert_eq!(stored_seqs(store, &of).await.len() as u64, round + 1);
        if is_numbered {
            writer.record = record;
        }
        assert_eq!(store.stream_shard(SHARD).await.unwrap(), writer.record);
    }
}

pub async fn an_owner_who_adopts_disturbs_no_exact_append(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    for round in 0..10_u64 {
        appended(store, &exact("a", &[format!("{round}-a").as_str()], 2 * round)).await;
        let view = found(store, &of).await;
        let adopted = view.unnamed[0].chunk.as_ref().unwrap().adopted(round + 1, T0);
        let mut adopting = writer.next();
        adopting.record.pos = round + 1;
        let rest = StreamRest { fed: adopted.last, ..view.rest };
        adopting.writes = vec![put_chunk(&of, &adopted), StreamWrite::PutRest { stream: of.clone(), rest }];
        let record = adopting.record.clone();
        let next = exact("a", &[format!("{round}-b").as_str()], 2 * round + 1);
        let (adopts, appends) = futures::join!(store.commit_streams(adopting), store.append_exact(&next, T0));
        assert_eq!((adopts, appends.unwrap().unwrap().seqs), (Ok(StreamCommitted::Applied), vec![2 * round + 2]));
        writer.record = record;
        // The next round begins with all of it named.
        let view = found(store, &of).await;
        let rest = StreamRest { fed: view.head.last, ..view.rest };
        writer.write(store, vec![StreamWrite::PutRest { stream: of.clone(), rest }]).await;
    }
    assert_eq!(stored_seqs(store, &of).await, (1..=20).collect::<Vec<_>>());
}
