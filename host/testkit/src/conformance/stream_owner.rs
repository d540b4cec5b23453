//! The owner itself at work on a store, while others append to the same stream and chunks are merged.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use waybill_core::commit::{Step, StoreAnswer};
use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::StreamStore as Store;
use waybill_core::streams::envelope::EventHead;
use waybill_core::streams::exact::{ExactAppend, ExactRefusal};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::owner::{
    Direct, DirectAnswer, Extras, OwnerConfig, StreamOwner, Ticket, take_answer, takeover,
};
use waybill_core::streams::records::{StreamCommitted, StreamRest, StreamWrite};
use waybill_core::streams::relay::Relays;
use waybill_core::streams::rules::Rules;
use waybill_core::streams::upkeep::{Act, MergeSettings, UpkeepView, merge};
use waybill_core::time::{Monotonic, Now};

use super::samples::{SHARD, T0};
use super::stream_samples::{ALL_BYTES, Writer, all_at_door, append, at, exact, found, stream};

/// Appenders of each kind, and appends of each.
const APPENDERS: u64 = 4;
const APPENDS: u64 = 12;
/// Far more commits than any run takes.
const TURNS_MAX: u64 = 20_000;

const NOW: Now = Now { wall: T0, mono: Monotonic(Duration::ZERO) };

/// An owner with what its driver has.
struct Driver {
    owner: StreamOwner,
    nonce: u64,
    answers: Vec<(Ticket, DirectAnswer)>,
}

impl Driver {
    async fn take_over(store: &impl Store) -> Self {
        let stored = store.stream_shard(SHARD).await.unwrap();
        let commit = takeover(SHARD, stored.token + 1, 1, &stored).unwrap();
        let record = commit.record.clone();
        assert_eq!(store.commit_streams(commit).await.unwrap(), StreamCommitted::Applied);
        let config = OwnerConfig::new(SHARD, 1, Duration::from_secs(10));
        let owner = StreamOwner::new(config, record, Relays::default(), NOW.mono);
        Self { owner, nonce: 1, answers: Vec::new() }
    }

    /// Looks, and commits what comes of it. True: a commit went in.
    async fn turn(&mut self, store: &impl Store, act: Option<Act>) -> bool {
        let query = self.owner.plan(false).unwrap();
        let found = store.stream_pass(SHARD, &query).await.unwrap();
        self.nonce += 1;
        let built = self.owner.build(found, Extras { act, ..Extras::default() }, NOW, self.nonce);
        self.answers.extend(built.answers);
        let Some(commit) = built.commit else { return false };
        let Some(mut answer) = self.owner.take_committed(store.commit_streams(commit).await) else { return false };
        loop {
            self.nonce += 1;
            let nonce = self.nonce;
            match take_answer(&mut self.owner, answer, NOW, || nonce) {
                Step::Applied(applied) => {
                    self.answers.extend(applied.answers);
                    return true;
                }
                Step::NotApplied(()) | Step::TooLarge(()) => return false,
                Step::Read(_) => answer = StoreAnswer::Record(store.stream_shard(SHARD).await),
                Step::Barrier(commit) => {
                    answer = StoreAnswer::Barrier(store.commit_streams(*commit).await.map(|_| ()));
                }
                step @ (Step::Lost | Step::WentBack(_)) => panic!("{step:?}"),
            }
        }
    }

    /// What is to be merged of a stream, if anything is.
    async fn merges(&self, store: &impl Store, of: &StreamKey) -> Option<Act> {
        let (slice, _) = store.upkeep_slice(of, &[], 0, ALL_BYTES).await.unwrap();
        let view = UpkeepView::new(of.clone(), self.owner.record().beat, &slice, &[], Rules::default());
        let merged = merge(&view, MergeSettings { fan: 4, ..MergeSettings::default() }, Rules::default());
        merged.map(|merged| merged.act)
    }
}

async fn append_plain(store: &impl Store, to: &str, appender: u64) {
    for number in 0..APPENDS {
        let append = append(to, &[format!("plain-{appender}-{number}").as_str()]);
        store.append_at_door(&[(SHARD, Arc::new(append))]).await.unwrap();
        tokio::task::yield_now().await;
    }
}

async fn append_exact(store: &impl Store, to: &str, appender: u64) {
    for number in 0..APPENDS {
        let mut expected = 0;
        loop {
            let append = exact(to, &[format!("exact-{appender}-{number}").as_str()], expected);
            match store.append_exact(&append, T0).await {
                Ok(Ok(answer)) => {
                    assert_eq!(answer.seqs, [expected + 1]);
                    break;
                }
                Ok(Err(ExactRefusal::ExpectedSeq { actual, .. })) => expected = actual,
                Ok(Err(refusal)) => panic!("{refusal}"),
                Err(StoreError::Conflict(_)) => {}
                Err(error) => panic!("{error}"),
            }
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
    }
}

/// Takes a store's streams over and numbers all that lies on their doorstep.
pub async fn number_all(store: &impl Store) {
    let mut driver = Driver::take_over(store).await;
    for _turn in 0..TURNS_MAX {
        if !driver.turn(store, None).await {
            return;
        }
    }
    panic!("there is always more to number");
}

/// Events of a stream with the places in the feed that named them, in order and without a gap.
async fn events(store: &impl Store, of: &StreamKey) -> Vec<(String, u64)> {
    let slice = store.stream_slice(of, 0, ALL_BYTES).await.unwrap();
    assert!(slice.is_all);
    let (mut events, mut last) = (Vec::new(), 0);
    for stored in &slice.chunks {
        let chunk = stored.chunk.as_ref().unwrap();
        assert_eq!((chunk.from, chunk.last), (last, stored.last));
        for event in &chunk.events {
            last += 1;
            assert_eq!(event.seq, last);
            events.push((EventHead::of(&event.packed).unwrap().id.to_owned(), event.pos));
        }
    }
    assert_eq!(slice.head.last, last, "the head is the end");
    events
}

pub async fn an_owner_numbers_what_all_append_at_once_without_a_gap(store: &impl Store) {
    let (of, mut driver) = (stream("hot"), Driver::take_over(store).await);
    let total = 2 * APPENDERS * APPENDS;
    let owner = async {
        for turn in 0..TURNS_MAX {
            let act = if turn % 3 == 0 { driver.merges(store, &of).await } else { None };
            let has_committed = driver.turn(store, act).await;
            tokio::task::yield_now().await;
            let view = found(store, &of).await;
            let is_all = view.head.last == total && view.rest.named_to(&view.head) == total;
            if is_all && !has_committed && all_at_door(store, SHARD).await.rows.is_empty() {
                return;
            }
        }
        panic!("{:?}", found(store, &of).await);
    };
    let plain = futures::future::join_all((0..APPENDERS).map(|appender| append_plain(store, "hot", appender)));
    let exact = futures::future::join_all((0..APPENDERS).map(|appender| append_exact(store, "hot", appender)));
    futures::join!(owner, plain, exact);

    let events = events(store, &of).await;
    let ids: BTreeSet<&str> = events.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!((events.len() as u64, ids.len() as u64), (total, total), "each once");
    for appender in 0..APPENDERS {
        let prefix = format!("plain-{appender}-");
        let order = events.iter().filter_map(|(id, _)| id.strip_prefix(&prefix)).map(|number| number.parse().unwrap());
        assert_eq!(order.collect::<Vec<u64>>(), (0..APPENDS).collect::<Vec<_>>(), "as they were acknowledged");
    }
    // The feed names each event once, in order, and events say by which record.
    let mut named = Vec::new();
    for record in store.feed(SHARD, 0, TURNS_MAX as usize).await.unwrap() {
        assert!(record.parts.iter().all(|part| part.stream == of));
        named.extend(record.parts.iter().flat_map(|part| part.from..=part.to).map(|seq| (seq, record.pos)));
    }
    let said: Vec<(u64, u64)> = (1..).zip(events.iter().map(|(_, pos)| *pos)).collect();
    assert_eq!(named, said);
}

pub async fn an_id_is_numbered_once_whichever_way_its_event_comes(store: &impl Store) {
    let (of, mut driver) = (stream("a"), Driver::take_over(store).await);
    store
        .append_at_door(&[(SHARD, Arc::new(append("a", &["x"]))), (SHARD, Arc::new(append("a", &["x", "y"])))])
        .await
        .unwrap();
    driver.owner.append(Ticket(1), Arc::new(append("a", &["y", "z"])));
    while driver.turn(store, None).await {}
    driver.owner.append(Ticket(2), Arc::new(append("a", &["x"])));
    driver.owner.append(Ticket(3), Arc::new(append("b", &["x"])));
    store.append_at_door(&[(SHARD, Arc::new(append("b", &["z"])))]).await.unwrap();
    for _ in 0..4 {
        driver.turn(store, None).await;
    }
    let refused = store.append_exact(&exact("b", &["y"], 0), T0).await.unwrap();
    assert!(matches!(refused, Err(ExactRefusal::IdTaken { .. })), "{refused:?}");
    let ids: Vec<String> = events(store, &of).await.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["x", "y", "z"]);
    assert!(events(store, &stream("b")).await.is_empty(), "there it is another event");
    let numbered = |seqs: &[u64], duplicates: &[usize]| DirectAnswer::Numbered {
        seqs: seqs.into(),
        duplicates: duplicates.into(),
    };
    driver.answers.sort_by_key(|(ticket, _)| *ticket);
    let answers = [numbered(&[2, 3], &[0]), numbered(&[1], &[0]), DirectAnswer::IdTaken(0)];
    assert_eq!(driver.answers.into_iter().map(|(_, answer)| answer).collect::<Vec<_>>(), answers);
    assert_eq!(driver.owner.counts().dead, 1, "an event of the doorstep with another one's id");
    let recalled: Vec<Direct> = driver.owner.recall();
    assert!(recalled.is_empty() && all_at_door(store, SHARD).await.rows.is_empty());
}

pub async fn events_with_numbers_from_elsewhere_are_named_from_the_first_that_is_kept(store: &impl Store) {
    let (of, mut driver) = (stream("a"), Driver::take_over(store).await);
    let import = ExactAppend { skips: vec![6, 2], ..exact("a", &["x", "y"], 0) };
    assert_eq!(store.append_exact(&import, T0).await.unwrap().unwrap().seqs, [7, 10]);
    let behind = ExactAppend { skips: vec![4], ..exact("a", &["z"], 10) };
    assert_eq!(store.append_exact(&behind, T0).await.unwrap().unwrap().seqs, [15]);
    while driver.turn(store, None).await {}
    let slice = store.stream_slice(&of, 0, ALL_BYTES).await.unwrap();
    assert_eq!((slice.rest.first, slice.rest.fed, slice.head.last), (7, 15, 15));
    let covers = slice.chunks.iter().map(|stored| (stored.chunk.as_ref().unwrap().from, stored.last));
    assert_eq!(covers.collect::<Vec<_>>(), [(6, 10), (10, 15)]);
    let feed = store.feed(SHARD, 0, 10).await.unwrap();
    let named: Vec<_> = feed.iter().flat_map(|record| &record.parts).map(|part| (part.from, part.to)).collect();
    assert_eq!(named, [(7, 10), (11, 15)]);
}

pub async fn rows_that_say_when_streams_are_due_come_by_time_and_by_shard(store: &impl Store) {
    let mut writer = Writer::new();
    let put = |shard, pos, name: &str| StreamWrite::PutDue { shard, at: at(pos), stream: stream(name) };
    let rest = StreamRest { due: Some(at(5)), ..StreamRest::default() };
    let writes = vec![
        put(SHARD, 30, "a"),
        put(SHARD, 5, "b"),
        put(SHARD, 5, "a"),
        put(ShardId(1), 1, "c"),
        StreamWrite::PutRest { stream: stream("b"), rest },
    ];
    writer.write(store, writes).await;
    let due = async |shard, limit| {
        let found = store.streams_due(shard, limit).await.unwrap();
        found.into_iter().map(|row| (row.at, row.stream, row.noted)).collect::<Vec<_>>()
    };
    let all = [(at(5), stream("a"), None), (at(5), stream("b"), Some(at(5))), (at(30), stream("a"), None)];
    assert_eq!(due(SHARD, 10).await, all);
    assert_eq!(due(SHARD, 2).await, all[..2]);
    assert_eq!(due(ShardId(1), 10).await, [(at(1), stream("c"), None)]);
    let gone = StreamWrite::DeleteDue { shard: SHARD, at: at(5), stream: stream("a") };
    writer.write(store, vec![gone]).await;
    assert_eq!(due(SHARD, 10).await, all[1..]);
}

pub async fn who_takes_over_goes_on_where_the_one_before_ended(store: &impl Store) {
    let of = stream("a");
    let mut before = Driver::take_over(store).await;
    store.append_at_door(&[(SHARD, Arc::new(append("a", &["x"])))]).await.unwrap();
    assert!(before.turn(store, None).await);
    store.append_exact(&exact("a", &["y"], 1), T0).await.unwrap().unwrap();
    store.append_at_door(&[(SHARD, Arc::new(append("a", &["z"])))]).await.unwrap();
    let query = before.owner.plan(false).unwrap();
    let found = store.stream_pass(SHARD, &query).await.unwrap();
    let late = before.owner.build(found, Extras::default(), NOW, 9).commit.unwrap();

    let mut after = Driver::take_over(store).await;
    let fenced = store.commit_streams(late).await;
    assert!(matches!(fenced, Err(StoreError::Conflict(_))), "{fenced:?}");
    while after.turn(store, None).await {}
    let events = events(store, &of).await;
    let ids: Vec<&str> = events.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["x", "y", "z"]);
    assert_eq!(after.owner.record().token, before.owner.record().token + 1);
    assert_eq!(store.feed_ends(1).await.unwrap(), [events[2].1]);
}
