//! What a commit of the inbox costs the store, and a look-up in what was seen: by the form of the ids, while it flows, when it is packed, and
//! in a new process.
//!
//! `cargo run --release -p waybill-store --example inbox_commit -- 'surrealkv:///tmp/a?sync=never' surrealkv:///tmp/b`
//!
//! One task. Each commit finishes `size` messages with a history entry each, and asks for them before, as an owner does.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::time::{Duration, Instant};

use waybill_core::ids::{ConsumerName, InboundId, Place, Seq, ShardId, Tenant, host_made_id};
use waybill_core::inbox::fingerprint::{ContentCheck, HashSecret};
use waybill_core::inbox::records::{InboxCommit, InboxDone, InboxEnd, InboxShardRecord};
use waybill_core::inbox::seen::{OwnedAge, SeenMark, SeenPlace, SeenQuery};
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::time::UnixMillis;
use waybill_store::{StoreConfig, SurrealStore};

const SHARD: ShardId = ShardId(0);
const SECRET: HashSecret = HashSecret(0x5eed);
const NOW: u64 = 1_800_000_000_000;
/// Messages of one measurement.
const MESSAGES: usize = 200_000;
/// Owned time from one message to the next: 10,000 a second.
const MICROS_A_MESSAGE: u64 = 100;

/// CPU time of this process.
fn cpu() -> Duration {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(usage.tv_sec as u64, usage.tv_nsec as u32)
}

fn micros(time: Duration, of: usize) -> f64 {
    time.as_secs_f64() * 1e6 / of as f64
}

/// The id of a message by its number.
type IdOf = fn(u64) -> String;

const FORMS: [(&str, IdOf); 3] = [
    ("time", |number| {
        let segment = Seq(((NOW + number / 10) << 20) | (number % 10));
        host_made_id(Place { shard: SHARD, segment, index: 0 }).as_str().to_owned()
    }),
    ("counter", |number| format!("outbox-{number}")),
    ("neither", |number| {
        let hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        format!("{:08x}-d9cb-469f-a165-{:012x}", hash >> 32, number)
    }),
];

struct Writer<'s> {
    store: &'s SurrealStore,
    record: InboxShardRecord,
    consumer: ConsumerName,
}

impl Writer<'_> {
    fn query(&self, id: &str) -> SeenQuery {
        let fingerprint = SECRET.of_id(&self.consumer, &InboundId::new(id).unwrap());
        SeenQuery { consumer: self.consumer.clone(), places: SeenPlace::all_of(id, fingerprint, None) }
    }

    fn mark(&self, id: &str) -> SeenMark {
        let fingerprint = SECRET.of_id(&self.consumer, &InboundId::new(id).unwrap());
        let place = SeenPlace::of(id, fingerprint, None, UnixMillis(NOW));
        SeenMark { consumer: self.consumer.clone(), place, check: ContentCheck(7) }
    }

    fn done(&self, id: &str) -> InboxDone {
        InboxDone {
            consumer: self.consumer.clone(),
            id: InboundId::new(id).unwrap(),
            tenant: Tenant::unnamed(),
            subject: "orders.created".into(),
            received_at: UnixMillis(NOW),
            processed_at: UnixMillis(NOW + 5),
            attempts: 1,
            end: InboxEnd::Processed,
        }
    }

    fn next(&self, age: u64) -> InboxCommit {
        let before = &self.record;
        let record =
            InboxShardRecord { token: 1, beat: before.beat + 1, age: OwnedAge(age), secret: SECRET, ..before.clone() };
        InboxCommit {
            shard: SHARD,
            expect_token: before.token,
            expect_beat: before.beat,
            record,
            writes: Vec::new(),
            seen: Vec::new(),
            done: Vec::new(),
            messages: Vec::new(),
            sagas: Vec::new(),
            events: Default::default(),
        }
    }

    async fn commit(&mut self, commit: InboxCommit) {
        self.record = commit.record.clone();
        self.store.commit_inbox(commit).await.unwrap();
    }
}

async fn flow(writer: &mut Writer<'_>, form: (&str, IdOf), size: usize) -> Vec<String> {
    let ids: Vec<String> = (0..MESSAGES as u64).map(form.1).collect();
    let begin = writer.record.age.0;
    let (mut times, mut asked) = (Vec::new(), Duration::ZERO);
    let (begun, begun_cpu) = (Instant::now(), cpu());
    for (number, ids) in (0..).zip(ids.chunks(size)) {
        let queries: Vec<SeenQuery> = ids.iter().map(|id| writer.query(id)).collect();
        let mut commit = writer.next(begin + number * size as u64 * MICROS_A_MESSAGE / 1_000);
        commit.seen = ids.iter().map(|id| writer.mark(id)).collect();
        commit.done = ids.iter().map(|id| writer.done(id)).collect();
        let one = Instant::now();
        let hits = writer.store.inbox_seen(SHARD, &queries).await.unwrap();
        asked += one.elapsed();
        assert!(hits.iter().all(Option::is_none), "nothing was finished before");
        let one = Instant::now();
        writer.commit(commit).await;
        times.push(one.elapsed());
    }
    let (took, used) = (begun.elapsed(), cpu() - begun_cpu);
    times.sort();
    println!(
        "  {:>7}, {size:>4} a commit: {:>7.0}/s, p50 {:?}, p99 {:?}, a look-up {:.2} us, CPU a message {:.1} us",
        form.0,
        ids.len() as f64 / took.as_secs_f64(),
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        micros(asked, ids.len()),
        micros(used, ids.len()),
    );
    ids
}

async fn asked(writer: &Writer<'_>, what: &str, ids: &[String]) {
    // One by one, and from all over.
    let some: Vec<SeenQuery> = ids.iter().step_by(97).map(|id| writer.query(id)).collect();
    let begun = Instant::now();
    let mut found = 0;
    for query in &some {
        found += usize::from(writer.store.inbox_seen(SHARD, std::slice::from_ref(query)).await.unwrap()[0].is_some());
    }
    println!("           {what}: {found} of {} found, {:.1} us each", some.len(), micros(begun.elapsed(), some.len()));
}

async fn tidy(writer: &Writer<'_>, until: OwnedAge) {
    let (begun, begun_cpu) = (Instant::now(), cpu());
    let mut looked = 0;
    loop {
        match writer.store.tidy_inbox(SHARD, until, UnixMillis(0), 1_000).await.unwrap().records() {
            some if some >= 1_000 => looked += some,
            rest => {
                looked += rest;
                break;
            }
        }
    }
    println!("           tidied: {looked} records in {:?}, CPU {:?}", begun.elapsed(), cpu() - begun_cpu);
}

#[tokio::main]
async fn main() {
    for url in std::env::args().skip(1) {
        println!("{url}");
        let store = SurrealStore::open(StoreConfig::new(&url)).await.unwrap();
        let record = InboxShardRecord::default();
        let mut writer = Writer { store: &store, record, consumer: ConsumerName::new("first").unwrap() };
        for (number, form) in (0..).zip(FORMS) {
            for (size_number, size) in [16, 100, 1_000].into_iter().enumerate() {
                writer.consumer = ConsumerName::new(format!("{}-{size_number}-{number}", form.0)).unwrap();
                let ids = flow(&mut writer, form, size).await;
                asked(&writer, "what flows", &ids).await;
                let age = writer.record.age.0;
                let commit = writer.next(age + 10 * 60_000);
                writer.commit(commit).await;
                tidy(&writer, OwnedAge(0)).await;
                asked(&writer, "packed", &ids).await;
                asked(&writer, "packed, again", &ids).await;
            }
        }
        let age = writer.record.age;
        tidy(&writer, age).await;
        store.close().await.unwrap();
    }
}
