//! What an owner's commit costs: commits a second, latency and CPU, at several numbers of messages a commit.
//!
//! `cargo run --release -p waybill-store --example owner_commit -- mem:// surrealkv:///tmp/bench?sync=never surrealkv:///tmp/bench2`
//!
//! One task; each commit writes the shard record, a new segment, and removes the one before. Payloads of 300 bytes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use waybill_core::ids::Seq;
use waybill_core::message::Payload;
use waybill_core::outbox::records::{DoneEnd, Entry, Segment};
use waybill_core::port::query::QueryStore;
use waybill_core::port::store::{OwnerStore, Write};
use waybill_store::codec::{decode_segment, encode_history, encode_segment};
use waybill_store::{StoreConfig, SurrealStore};
use waybill_testkit::conformance::samples::{self, Owner, SHARD, chunk, done, message, seq};

fn segment(first: Seq, count: u16) -> Segment {
    let entries = (0..count).map(|index| {
        let mut message = message(&format!("01J0000000000000000000{index:04}"));
        message.payload = Payload::Inline(Bytes::from(vec![b'x'; 300]));
        Entry { index, message: Arc::new(message) }
    });
    Segment { first, tenant: samples::tenant("acme"), entries: entries.collect() }
}

/// CPU time of this process.
fn cpu() -> Duration {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(usage.tv_sec as u64, usage.tv_nsec as u32)
}

fn codec() {
    let segment = segment(seq(0, 0), 100);
    let bytes = encode_segment(&segment).unwrap();
    let entries = segment.entries.iter().map(|entry| {
        let mut done = done(entry.index, entry.message.as_ref().clone(), DoneEnd::Delivered);
        done.history.truncate(1);
        done
    });
    let chunk = chunk(seq(0, 0), 1, samples::T0, entries.collect());
    println!(
        "codec, 100 messages of 300 bytes: {} bytes a segment, {} a history chunk",
        bytes.len(),
        encode_history(&chunk).unwrap().len()
    );
    let rounds = 2_000_u32;
    for (name, work) in [
        (
            "encode segment",
            &(|| {
                encode_segment(&segment).unwrap();
            }) as &dyn Fn(),
        ),
        ("decode segment", &|| {
            decode_segment(seq(0, 0), &bytes).unwrap();
        }),
        ("encode history", &|| {
            encode_history(&chunk).unwrap();
        }),
    ] {
        let begun = cpu();
        (0..rounds).for_each(|_| work());
        println!("  {name}: {:.2} us a message", (cpu() - begun).as_secs_f64() * 1e6 / f64::from(rounds) / 100.0);
    }
}

async fn commits(store: &SurrealStore, count: u16) {
    let mut owner = Owner::new();
    owner.record = store.shard(SHARD).await.unwrap();
    let rounds: u64 = if count >= 1_000 { 300 } else { 1_500 };
    let mut times = Vec::new();
    let base = owner.record.last.0.max(seq(0, 0).0) + 1;
    let (begun, begun_cpu) = (Instant::now(), cpu());
    for round in 0..rounds {
        let first = Seq(base + round * 5_000);
        let mut writes = Vec::new();
        if count > 0 {
            writes.push(Write::PutSegment(Arc::new(segment(first, count))));
            if round > 0 {
                writes.push(Write::DeleteSegment(Seq(first.0 - 5_000)));
            }
        }
        let mut commit = owner.next(writes);
        commit.record.last = Seq(first.0 + u64::from(count));
        let record = commit.record.clone();
        let one = Instant::now();
        store.commit(commit).await.unwrap();
        times.push(one.elapsed());
        owner.record = record;
    }
    let (took, used) = (begun.elapsed(), cpu() - begun_cpu);
    times.sort();
    let per_message = if count == 0 {
        String::from("-")
    } else {
        format!("{:.2} us", used.as_secs_f64() * 1e6 / rounds as f64 / f64::from(count))
    };
    println!(
        "  {count:>5} messages: {:>7.0} commits/s, p50 {:?}, p99 {:?}, CPU a commit {:.0} us, a message {per_message}",
        rounds as f64 / took.as_secs_f64(),
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        used.as_secs_f64() * 1e6 / rounds as f64
    );
}

async fn dead(store: &SurrealStore, count: u16) {
    let mut owner = Owner::new();
    owner.record = store.shard(SHARD).await.unwrap();
    for block in 0..u64::from(count) / 1_000 {
        let letters =
            (0..1_000).map(|index| Write::PutDead(Arc::new(samples::dead(seq(block, 0), index, "acme", "HTTP.400"))));
        owner.commit(store, letters.collect()).await;
    }
    let depths = Instant::now();
    store.depths(usize::from(count)).await.unwrap();
    println!("  depths over {count} dead letters: {:?} first, then {:?}", depths.elapsed(), {
        let again = Instant::now();
        store.depths(usize::from(count)).await.unwrap();
        again.elapsed()
    });
    let begun = Instant::now();
    store.held_keys(SHARD).await.unwrap();
    println!("  held keys: {:?}", begun.elapsed());
    let begun = Instant::now();
    store.dead_groups(&waybill_core::outbox::filter::Filter::default(), usize::from(count)).await.unwrap();
    println!("  groups: {:?}", begun.elapsed());
}

#[tokio::main]
async fn main() {
    codec();
    for url in std::env::args().skip(1) {
        println!("{url}");
        let store = SurrealStore::open(StoreConfig::new(url)).await.unwrap();
        for count in [0, 1, 16, 100, 1_000] {
            commits(&store, count).await;
        }
        dead(&store, 50_000).await;
        store.close().await.unwrap();
    }
}
