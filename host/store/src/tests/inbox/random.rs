//! The seen set against a plain map, through random commits, packing, forgetting, other writers and commits without an answer.

use std::collections::BTreeMap;

use waybill_core::ids::{Place, Seq, ShardId, host_made_id};
use waybill_core::inbox::fingerprint::ContentCheck;
use waybill_core::inbox::seen::{OwnedAge, SeenQuery};
use waybill_core::port::inbox_store::InboxStore;
use waybill_testkit::conformance::inbox_samples::{Writer, mark, query};
use waybill_testkit::conformance::samples::{SHARD, T0};

use super::super::memory;
use super::{cold, finish_marks, pass, tidy};
use crate::SurrealStore;

const MINUTE: u64 = 60_000;
/// How long ids are remembered, in owned time: runs of two days take part.
const WINDOW: u64 = 30 * 60 * MINUTE;
const STEPS: usize = 120;
const SEEDS: u64 = 4;

/// Numbers that only the seed decides.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// An id of any form. Some come again.
    fn id(&mut self) -> String {
        match self.below(3) {
            0 => {
                let segment = Seq((T0.0 + self.below(5) * MINUTE) << 20);
                let place = Place { shard: ShardId(0), segment, index: self.below(1_500) as u16 };
                host_made_id(place).as_str().to_owned()
            }
            1 => format!("outbox-{}", 60_000 + self.below(12_000)),
            _ => {
                let number = self.below(6_000);
                format!("{:08x}-d9cb-469f-a165-{number:012x}", number * 7_919)
            }
        }
    }
}

/// What was finished: the check of the last time, and its age.
type Finished = BTreeMap<String, (u16, u64)>;

/// Everything within the window is found as it was finished last; what is found otherwise was finished once.
async fn assert_right(store: &SurrealStore, finished: &Finished, age: u64, strangers: &[String], what: &str) {
    let ids: Vec<&String> = finished.keys().chain(strangers).collect();
    let queries: Vec<SeenQuery> = ids.iter().map(|id| query("ship", id)).collect();
    let hits = store.inbox_seen(SHARD, &queries).await.unwrap();
    for (id, hit) in ids.into_iter().zip(hits) {
        let expected = finished.get(id);
        let is_within = expected.is_some_and(|(_, at)| at + WINDOW > age);
        match (expected, hit) {
            (Some((check, at)), Some(hit)) => {
                assert_eq!(hit.check, ContentCheck(*check), "{what}: {id}");
                assert!(hit.age >= OwnedAge(*at), "{what}: {id}: {hit:?}, finished at {at}");
            }
            (None, Some(hit)) => panic!("{what}: {id} was never finished: {hit:?}"),
            (_, None) => assert!(!is_within, "{what}: {id} is forgotten, {expected:?} at {age}"),
        }
    }
}

async fn finish_some(
    numbers: &mut Numbers,
    writer: &mut Writer,
    store: &SurrealStore,
    finished: &mut Finished,
    age: u64,
) {
    let mut marks = Vec::new();
    for _ in 0..=numbers.below(60) {
        let (id, check) = (numbers.id(), numbers.below(4) as u16);
        marks.push(mark("ship", &id, check));
        finished.insert(id, (check, age));
    }
    finish_marks(writer, store, age, marks).await;
}

async fn run(seed: u64) {
    let store = memory().await;
    let (mut numbers, mut writer) = (Numbers(seed), Writer::new());
    let (mut finished, mut age) = (Finished::new(), 1_000);
    for step in 0..STEPS {
        let what = format!("seed {seed}, step {step}");
        match numbers.below(12) {
            0..=4 => {
                age += numbers.below(4) * 25_000;
                finish_some(&mut numbers, &mut writer, &store, &mut finished, age).await;
            }
            5 => {
                age += numbers.below(12 * 60) * MINUTE;
                pass(&mut writer, &store, age).await;
            }
            6 | 7 => tidy(&store, age.saturating_sub(WINDOW)).await,
            // Another writer, until the first one reads the record again.
            8 => {
                finish_some(&mut numbers, &mut writer, &cold(&store), &mut finished, age).await;
                store.inbox_shard(SHARD).await.unwrap();
            }
            // A commit that went in and wasn't answered.
            9 => {
                finish_some(&mut numbers, &mut writer, &cold(&store), &mut finished, age).await;
                drop(store.seen_memory().begin(SHARD));
            }
            10 => tidy(&cold(&store), age.saturating_sub(WINDOW)).await,
            _ => {
                let strangers: Vec<String> = (0..20).map(|number| format!("stranger/{number}")).collect();
                assert_right(&cold(&store), &finished, age, &strangers, &what).await;
            }
        }
        // Now and then, so that memory isn't filled with everything at once.
        if step % 3 == 0 {
            let strangers: Vec<String> =
                (0..20).map(|_| numbers.id()).filter(|id| !finished.contains_key(id)).collect();
            assert_right(&store, &finished, age, &strangers, &what).await;
        }
    }
    assert_right(&cold(&store), &finished, age, &[], &format!("seed {seed}, at the end")).await;
}

#[tokio::test]
async fn what_is_within_the_window_is_always_found_and_nothing_else_that_was_not_finished() {
    for seed in 1..=SEEDS {
        run(seed).await;
    }
}
