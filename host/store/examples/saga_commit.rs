//! What a commit of sagas costs the store: transitions and sagas a second, and CPU, at several numbers of transitions a
//! commit.
//!
//! `cargo run --release -p waybill-store --example saga_commit -- mem:// 'surrealkv:///tmp/a?sync=never' surrealkv:///tmp/b`
//!
//! One task. Sagas of three steps that all succeed, four transitions each: begun, and an answer of each step; the last one
//! writes the row of the ended saga. Each commit holds transitions of as many sagas, as many of them in each state. With `back`
//! as the first argument sagas have six transitions, as when the third step fails and two are compensated.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ulid::Ulid;
use waybill_core::ids::ShardId;
use waybill_core::port::saga_store::{Acquired, SagaStore, SagaTable};
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::records::{JournalEntry, SagaCommit, SagaShardRecord, SagaWrite};
use waybill_store::codec::saga::{decode_journal, decode_tree, encode_journal, encode_tree};
use waybill_store::{StoreConfig, SurrealStore};
use waybill_testkit::conformance::saga_samples::{after, completed, key, transitions};

const SHARD: ShardId = ShardId(0);
/// Transitions of one saga, each by the sample that is as large.
type Course = &'static [usize];
const THROUGH: Course = &[0, 1, 2, 3];
/// The third fails, two are compensated.
const BACK: Course = &[0, 1, 2, 1, 2, 3];

/// CPU time of this process.
fn cpu() -> Duration {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(usage.tv_sec as u64, usage.tv_nsec as u32)
}

fn micros(time: Duration, of: usize) -> f64 {
    time.as_secs_f64() * 1e6 / of as f64
}

/// One transition of the saga with a number, and the row that its end writes.
fn transition(course: Course, number: u64, stage: usize) -> (JournalEntry, Option<SagaWrite>) {
    let of = key("acme", &Ulid::from_parts(after(number).0, number.into()).to_string());
    let ended = stage + 1 == course.len();
    let row = ended.then(|| SagaWrite::PutDone(Arc::new(completed(of.clone(), number))));
    let events = transitions(number).swap_remove(course[stage]);
    (JournalEntry { key: of, from: 2 * stage as u32, events, ended }, row)
}

fn codec() {
    let entries: Vec<JournalEntry> = (0..64).map(|number| transition(THROUGH, number, number as usize % 4).0).collect();
    let journal = encode_journal(&entries).unwrap();
    let row = completed(key("acme", &Ulid::from_parts(0, 1).to_string()), 0);
    let tree = encode_tree(&row.tree).unwrap();
    println!("codec: {} bytes a transition in a journal of 64, {} a tree of 3 steps", journal.len() / 64, tree.len());
    let rounds = 5_000;
    let time = |name: &str, of: usize, work: &dyn Fn()| {
        let begun = cpu();
        (0..rounds).for_each(|_| work());
        println!("  {name}: {:.2} us", micros(cpu() - begun, rounds * of));
    };
    time("encode a transition", 64, &|| drop(encode_journal(&entries).unwrap()));
    time("decode a transition", 64, &|| drop(decode_journal(&journal).unwrap()));
    time("encode a tree", 1, &|| drop(encode_tree(&row.tree).unwrap()));
    time("decode a tree", 1, &|| drop(decode_tree(&tree).unwrap()));
}

/// Commits of `size` transitions, made beforehand: only the store is measured.
fn prepare(course: Course, record: SagaShardRecord, size: usize, rounds: usize, base: u64) -> Vec<SagaCommit> {
    let mut stands = record;
    let mut commits = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let mut commit = SagaCommit {
            shard: SHARD,
            expect_token: stands.token,
            expect_beat: stands.beat,
            record: SagaShardRecord {
                beat: stands.beat + 1,
                nonce: stands.nonce.wrapping_mul(6_364_136_223_846_793_005) + 1,
                ..stands
            },
            journal: Vec::with_capacity(size),
            writes: Vec::new(),
            messages: Vec::new(),
            events: Default::default(),
            door: Vec::new(),
        };
        // Those that are old enough have ended: their records are of no use.
        commit.record.floor = commit.record.beat.saturating_sub(course.len() as u64).max(stands.floor);
        for lane in 0..size {
            // A lane is one saga after the other; lanes stand in different stages.
            let (saga, stage) = ((round + lane) / course.len(), (round + lane) % course.len());
            let (entry, row) = transition(course, base + (saga * size + lane) as u64, stage);
            commit.journal.push(entry);
            commit.writes.extend(row);
        }
        stands = commit.record;
        commits.push(commit);
    }
    commits
}

async fn commits(course: Course, store: &SurrealStore, size: usize, base: u64) {
    let rounds = (40_000 / size).clamp(100, 2_000);
    let Acquired::Taken(taken) = store.acquire(SHARD, 1, 1).await.unwrap() else { panic!("nobody else is here") };
    let prepared = prepare(course, taken.record, size, rounds, base);
    let ended: usize = prepared.iter().map(|commit| commit.writes.len()).sum();
    let mut times = Vec::with_capacity(rounds);
    let (begun, begun_cpu) = (Instant::now(), cpu());
    for commit in prepared {
        let one = Instant::now();
        store.commit_sagas(commit).await.unwrap();
        times.push(one.elapsed());
    }
    let (took, used) = (begun.elapsed(), cpu() - begun_cpu);
    times.sort();
    println!(
        "  {size:>5} transitions: {:>7.0}/s = {:>6.0} sagas/s, p50 {:?}, p99 {:?}, CPU a commit {:.0} us, a transition {:.2} us, a saga {:.1} us",
        (rounds * size) as f64 / took.as_secs_f64(),
        ended as f64 / took.as_secs_f64(),
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        micros(used, rounds),
        micros(used, rounds * size),
        micros(used, ended.max(1)),
    );
}

async fn reads(store: &SurrealStore) {
    let (everything, rare) = (SagaFilter::default(), SagaFilter::parse("tenant=none", after(0)).unwrap());
    let begun = Instant::now();
    let count = store.count_sagas(SagaTable::Done, &everything).await.unwrap();
    println!("  {count} ended ones are counted in {:?}", begun.elapsed());
    for (name, filter) in [("newest 100", &everything), ("none in the first rows", &rare)] {
        let begun = Instant::now();
        let page = store.list_sagas(SagaTable::Done, filter, None, 100).await.unwrap();
        println!("  list, {name}: {} in {:?}", page.items.len(), begun.elapsed());
    }
    let begun = Instant::now();
    let takeover = store.acquire(SHARD, 1, 2).await.unwrap();
    let Acquired::Taken(takeover) = takeover else { panic!("nobody else is here") };
    println!("  a takeover with {} journal records: {:?}", takeover.journal.len(), begun.elapsed());
    let (begun, begun_cpu) = (Instant::now(), cpu());
    let mut expired = 0;
    loop {
        match store.expire_sagas(after(10_000_000_000), Duration::ZERO, 500).await.unwrap().removed {
            0 => break,
            some => expired += some as usize,
        }
    }
    println!(
        "  {expired} expired in {:?}, {:.1} us CPU each",
        begun.elapsed(),
        micros(cpu() - begun_cpu, expired.max(1))
    );
}

#[tokio::main]
async fn main() {
    codec();
    let mut arguments = std::env::args().skip(1).peekable();
    let course = if arguments.next_if_eq("back").is_some() { BACK } else { THROUGH };
    for url in arguments {
        println!("{url}");
        let store = SurrealStore::open(StoreConfig::new(url)).await.unwrap();
        for (number, size) in [1, 16, 64, 256].into_iter().enumerate() {
            commits(course, &store, size, 1_000_000 * number as u64).await;
        }
        reads(&store).await;
        store.close().await.unwrap();
    }
}
