//! Fills a data directory with what an inbox has seen, as a host would have left it that finished 10,000 ids a second: the commits of its
//! writer, and a round of tidying every minute of owned time. Nothing else is in it, no history either. `cargo xtask bench seen` starts
//! hosts on it.
//!
//! `cargo run --release -p waybill-store --example seen_fill -- DIR CONSUMER HOME FORM COUNT END_MS`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use waybill_core::ids::{ConsumerName, InboundId, ShardId};
use waybill_core::inbox::fingerprint::HashSecret;
use waybill_core::inbox::records::{InboxCommit, InboxShardRecord};
use waybill_core::inbox::seen::{OwnedAge, SeenMark, SeenPlace};
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::time::UnixMillis;
use waybill_store::{StoreConfig, SurrealStore};
use waybill_testkit::load::{Filled, IDS_A_MS, SeenForm, seen_payload};

/// An embedded store has one.
const SHARD: ShardId = ShardId(0);
const SECRET: HashSecret = HashSecret(0x5eed);
/// The first owner's. A record without one has no secret yet, for who takes it over.
const TOKEN: u64 = 1;
/// Ids of a commit, as many as a window of 512 lets a host finish at once.
const COMMIT_IDS: u64 = 500;
/// Owned time between two rounds of tidying, and records of a step, as the engine has them.
const TIDY_EVERY_MS: u64 = 60_000;
const TIDY_RECORDS: usize = 500;
/// Ids between two lines about how far it is.
const TOLD_IDS: u64 = 10_000_000;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, consumer, home, form, count, end] = arguments.as_slice() else {
        panic!("usage: seen_fill DIR CONSUMER HOME FORM COUNT END_MS");
    };
    let form = SeenForm::by_name(form).expect("a form");
    let filled = Filled { form, count: count.parse().unwrap(), end: end.parse().unwrap() };
    let consumer = ConsumerName::new(consumer).unwrap();
    // Nothing is lost when this process ends by itself, and who starts on it syncs its own commits.
    let store = SurrealStore::open(StoreConfig::new(format!("surrealkv://{dir}?sync=never"))).await.unwrap();
    store.bind_inbox_consumer(&consumer, home).await.unwrap();
    let check = SECRET.of_content(seen_payload().as_bytes()).check();
    let (mut record, mut tidied) = (InboxShardRecord::default(), 0);
    for from in (0..filled.count).step_by(COMMIT_IDS as usize) {
        let until = filled.count.min(from + COMMIT_IDS);
        // No owner's age is zero.
        let age = 1 + until / IDS_A_MS;
        let mark = |number| SeenMark { consumer: consumer.clone(), place: place(&filled, &consumer, number), check };
        let commit = commit(&record, age, (from..until).map(mark).collect());
        record = commit.record.clone();
        store.commit_inbox(commit).await.unwrap();
        if age - tidied >= TIDY_EVERY_MS {
            tidied = age;
            let tidy = async || store.tidy_inbox(SHARD, OwnedAge(0), UnixMillis(0), TIDY_RECORDS).await.unwrap();
            while tidy().await.records() >= TIDY_RECORDS {}
        }
        if until.is_multiple_of(TOLD_IDS) {
            eprintln!("  {} million of {}", until / 1_000_000, filled.count / 1_000_000);
        }
    }
    store.close().await.unwrap();
}

fn commit(before: &InboxShardRecord, age: u64, seen: Vec<SeenMark>) -> InboxCommit {
    let beat = before.beat + 1;
    let age = OwnedAge(age);
    let record = InboxShardRecord { token: TOKEN, beat, nonce: beat, age, secret: SECRET, ..before.clone() };
    InboxCommit {
        shard: SHARD,
        expect_token: before.token,
        expect_beat: before.beat,
        record,
        writes: Vec::new(),
        seen,
        done: Vec::new(),
        messages: Vec::new(),
        sagas: Vec::new(),
        events: Default::default(),
    }
}

fn place(filled: &Filled, consumer: &ConsumerName, number: u64) -> SeenPlace {
    let (id, at) = (InboundId::new(filled.id(number)).unwrap(), UnixMillis(filled.at(number)));
    let stamp = filled.form.is_stamped().then_some(at);
    SeenPlace::of(id.as_str(), SECRET.of_id(consumer, &id), stamp, at)
}
