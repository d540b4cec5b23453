//! Crashes between and in the middle of commits of sagas: a commit is there as a whole or not at all.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use waybill_core::ids::ShardId;
use waybill_core::port::saga_store::{Acquired, SagaStore, SagaTable};
use waybill_core::port::store::OwnerStore;
use waybill_core::port::transact::DoorGroup;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::records::{JournalEntry, SagaCommit, SagaShardRecord, SagaWrite};
use waybill_store::{StoreConfig, SurrealStore};
use waybill_testkit::conformance::saga_samples::{completed, dead, key, resting, transitions};
use waybill_testkit::conformance::samples::message;

use super::image::{LOG, crash_image};

const SHARD: ShardId = ShardId(0);
const COMMITS: usize = 12;

async fn open(dir: &Path) -> SurrealStore {
    SurrealStore::open(StoreConfig::new(format!("surrealkv://{}", dir.display()))).await.unwrap()
}

/// What a store holds, in a form that can be compared.
#[derive(Clone, Debug, Default, PartialEq)]
struct Held {
    beat: u64,
    journal: Vec<u64>,
    resting: Vec<String>,
    ended: Vec<String>,
    dead: Vec<String>,
    messages: Vec<String>,
}

async fn held(store: &SurrealStore) -> Held {
    let beat = store.saga_shard(SHARD).await.unwrap().beat;
    let everything = SagaFilter::default();
    let ended = store.list_sagas(SagaTable::Done, &everything, None, 100).await.unwrap();
    for saga in &ended.items {
        assert!(store.saga(SHARD, &saga.key).await.unwrap().is_some());
    }
    let door = store.door(SHARD, 0, u64::MAX >> 1, None, 100).await.unwrap();
    let messages = door.into_iter().flat_map(|row| row.content.unwrap()).map(|message| message.id.to_string());
    let Acquired::Taken(found) = store.acquire(SHARD, 1, 99).await.unwrap() else { panic!("nobody else is here") };
    Held {
        beat,
        journal: found.journal.iter().map(|record| record.beat).collect(),
        resting: found.rows.iter().map(|row| row.summary.key.id.to_string()).collect(),
        ended: ended.items.iter().map(|saga| saga.key.id.to_string()).collect(),
        dead: found.dead.iter().map(|key| key.id.to_string()).collect(),
        messages: messages.collect(),
    }
}

/// Commit `number`: a saga rests, the one before ends, one is stuck, and each sends a message.
fn commit(number: usize, stands: SagaShardRecord) -> (SagaCommit, impl Fn(&mut Held)) {
    let id = |number: usize| format!("s{number:02}");
    let entry = JournalEntry {
        key: key("acme", &id(number)),
        from: 0,
        events: transitions(number as u64).swap_remove(0),
        ended: false,
    };
    let mut writes = vec![SagaWrite::PutRow(Arc::new(resting(entry.key.clone(), number as u64)))];
    if let Some(before) = number.checked_sub(1) {
        let key = key("acme", &id(before));
        writes.push(SagaWrite::DeleteRow(key.clone()));
        writes.push(SagaWrite::PutDone(Arc::new(completed(key.clone(), before as u64))));
        writes.push(SagaWrite::DeleteDead(key));
    }
    writes.push(SagaWrite::PutDead(Arc::new(dead(entry.key.clone(), "HTTP.500"))));
    let record = SagaShardRecord { beat: stands.beat + 1, floor: stands.beat, nonce: number as u64, ..stands };
    let messages = vec![DoorGroup { shard: SHARD, messages: vec![Arc::new(message(&id(number)))] }];
    let (expect_token, expect_beat) = (stands.token, stands.beat);
    let commit = SagaCommit {
        shard: SHARD,
        expect_token,
        expect_beat,
        record,
        journal: vec![entry],
        writes,
        messages,
        door: Vec::new(),
        events: Default::default(),
    };
    let apply = move |held: &mut Held| {
        held.journal.retain(|beat| *beat >= record.floor);
        held.journal.push(record.beat);
        held.beat = record.beat;
        held.resting = vec![id(number)];
        held.dead = vec![id(number)];
        if let Some(before) = number.checked_sub(1) {
            held.ended.insert(0, id(before));
        }
        held.messages.push(id(number));
    };
    (commit, apply)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_any_commit_or_in_the_middle_of_one_loses_nothing_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let living = root.path().join("living");
    let store = open(&living).await;
    let Acquired::Taken(taken) = store.acquire(SHARD, 1, 1).await.unwrap() else { panic!("nobody else is here") };
    let mut stands = taken.record;
    let mut expected = Held { beat: stands.beat, ..Held::default() };
    for number in 0..COMMITS {
        let before = (expected.clone(), fs::metadata(living.join(LOG)).unwrap().len() as usize);
        let (commit, apply) = commit(number, stands);
        stands = commit.record;
        store.commit_sagas(commit).await.unwrap();
        apply(&mut expected);
        let after = root.path().join(format!("after-{number}"));
        crash_image(&living, &after);
        let log = fs::read(after.join(LOG)).unwrap();
        let reopened = open(&after).await;
        assert_eq!(held(&reopened).await, expected, "after commit {number}");
        drop(reopened);
        if number % 4 != 3 {
            continue;
        }
        for cut in [before.1 + 3, (before.1 + log.len()) / 2, log.len() - 1] {
            let torn = root.path().join(format!("torn-{number}-{cut}"));
            crash_image(&living, &torn);
            fs::write(torn.join(LOG), &log[..cut]).unwrap();
            let reopened = open(&torn).await;
            assert_eq!(held(&reopened).await, before.0, "commit {number} cut at {cut}");
        }
    }
}
