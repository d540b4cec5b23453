//! Sagas: the guard of their commits, journal, rows, definitions, dead letters.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::backoff::RetryPolicy;
use waybill_core::ids::ShardId;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::saga_store::{Acquired, DefinitionPut, SagaTable};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::DoorGroup;
use waybill_core::saga::definition::default_retry;
use waybill_core::saga::event::{Event, EventKind, Failure, Started, StepDirection, Wait};
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::{DefinitionHash, DefinitionRef, SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::saga::records::{
    JournalEntry, SagaCommit, SagaDead, SagaRow, SagaShardRecord, SagaSummary, SagaTakeover, SagaWrite,
    StoredDefinition,
};
use waybill_core::saga::state::{SagaState, Tree};
use waybill_core::time::UnixMillis;

use super::SagaPorts as Store;
use super::samples::{SHARD, T0, message, tenant};

pub(super) fn key(id: &str) -> SagaKey {
    SagaKey { tenant: tenant("acme"), id: SagaId::root(id).unwrap() }
}

pub(super) fn reference(name: &str, version: u32) -> DefinitionRef {
    DefinitionRef { name: name.into(), version, hash: DefinitionHash(format!("{name}-{version}").into()) }
}

pub(super) fn events(ms: u64) -> Vec<Event> {
    let at = T0.plus(Duration::from_millis(ms));
    let input = Json::parse("{\"n\":12345678901234567890.5}").unwrap();
    let retry = RetryPolicy { max_attempts: 9, floor_ms: Some(5), ..default_retry() };
    let started = Started {
        pinned: vec![("saga:pay".into(), reference("pay", 1))],
        caller_id: true,
        deadline: Some(T0.plus(Duration::from_secs(60))),
        headers: vec![("a".into(), "ü".into())],
        envelope_id: Some("e".into()),
        ..Started::new(reference("order", 2), 3, input, retry)
    };
    let failure = Failure { maybe_done: true, ..Failure::new("HTTP.503", "the answer was \"no\"") };
    let whats = [
        EventKind::Started(Box::new(started)),
        EventKind::StepBegan {
            step: 0,
            way: StepDirection::Execute,
            attempt: 1,
            input: None,
            wait: Wait::Call,
            until: Some(at),
        },
        EventKind::StepFailed {
            step: 0,
            way: StepDirection::Execute,
            attempt: 1,
            failure,
            retry_at: Some(at),
            plugin: None,
            took_ms: 7,
        },
        EventKind::Signalled { name: "paid".into(), data: Json::parse("[1]").unwrap(), step: None },
    ];
    whats.into_iter().map(|what| Event { at, saga: 0, actor: Some("ann".into()), what }).collect()
}

/// A tree that two events made, with the columns of this state.
pub(super) fn row(id: &str, ms: u64, state: SagaState) -> Arc<SagaRow> {
    let events = events(ms);
    let mut tree = Tree::begin(key(id), &events[0]).unwrap();
    events.iter().skip(1).for_each(|event| tree.apply(event));
    let started_at = T0.plus(Duration::from_millis(ms));
    let ended = matches!(state, SagaState::Completed | SagaState::Cancelled).then_some(started_at);
    let summary = SagaSummary {
        key: key(id),
        definition: reference("order", 2),
        state,
        waiting_for: ended.is_none().then(|| "signal:paid".into()),
        since: ended.is_none().then_some(started_at),
        until: None,
        steps: vec!["reserve".into(), "pay/charge".into()],
        code: Some("HTTP.503".into()),
        reason: Some("the answer was \"no\" after 12 ms".into()),
        started_at,
        updated_at: started_at,
        ended_at: ended,
        deadline: Some(T0),
    };
    Arc::new(SagaRow { summary, tree: Arc::new(tree) })
}

pub(super) async fn take(store: &impl Store, shard: ShardId, token: u64) -> SagaTakeover {
    match store.acquire(shard, token, token * 1_000).await.unwrap() {
        Acquired::Taken(takeover) => *takeover,
        Acquired::Lost { token } => panic!("lost to {token}"),
    }
}

pub(super) fn next(before: &SagaShardRecord) -> SagaCommit {
    let record = SagaShardRecord { beat: before.beat + 1, nonce: before.nonce + 1, ..*before };
    SagaCommit {
        shard: SHARD,
        expect_token: before.token,
        expect_beat: before.beat,
        record,
        journal: Vec::new(),
        writes: Vec::new(),
        events: Default::default(),
        messages: Vec::new(),
        door: Vec::new(),
    }
}

async fn write(store: &impl Store, writes: Vec<SagaWrite>) {
    let record = store.saga_shard(SHARD).await.unwrap();
    store.commit_sagas(SagaCommit { writes, ..next(&record) }).await.unwrap();
}

pub(super) fn entry(id: &str, from: u32, ended: bool) -> JournalEntry {
    JournalEntry { key: key(id), from, events: if ended { Vec::new() } else { events(5) }, ended }
}

pub async fn sagas_of_a_shard_without_a_record_are_taken_empty(store: &impl Store) {
    assert_eq!(store.saga_shard(SHARD).await.unwrap(), SagaShardRecord::default());
    let takeover = take(store, SHARD, 3).await;
    assert_eq!(takeover.record, SagaShardRecord { token: 3, beat: 1, nonce: 3_000, floor: 0 });
    assert_eq!((takeover.rows.len(), takeover.journal.len(), takeover.dead.len()), (0, 0, 0));
    assert_eq!(store.saga_shard(SHARD).await.unwrap(), takeover.record);
}

pub async fn a_lower_token_takes_no_sagas_and_an_equal_one_fences_its_earlier_self(store: &impl Store) {
    let first = take(store, SHARD, 5).await.record;
    assert_eq!(store.acquire(SHARD, 4, 1).await.unwrap(), Acquired::Lost { token: 5 });
    assert_eq!(store.saga_shard(SHARD).await.unwrap(), first);
    let second = take(store, SHARD, 5).await.record;
    assert_eq!((second.token, second.beat), (5, first.beat + 1));
    let error = store.commit_sagas(next(&first)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    store.commit_sagas(next(&second)).await.unwrap();
}

pub async fn a_stale_commit_of_sagas_changes_nothing(store: &impl Store) {
    let old = take(store, SHARD, 1).await.record;
    let new = take(store, SHARD, 2).await.record;
    let stale = SagaCommit {
        journal: vec![entry("a", 0, false)],
        writes: vec![SagaWrite::PutRow(row("a", 0, SagaState::Running))],
        messages: vec![DoorGroup { shard: SHARD, messages: vec![Arc::new(message("m"))] }],
        ..next(&old)
    };
    let error = store.commit_sagas(stale.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    let error = store.commit_sagas(SagaCommit { expect_token: new.token, ..stale }).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    assert_eq!(store.saga_shard(SHARD).await.unwrap(), new);
    assert!(store.saga(SHARD, &key("a")).await.unwrap().is_none());
    assert!(store.door(SHARD, 0, u64::MAX, None, 10).await.unwrap().is_empty());
    let takeover = take(store, SHARD, 2).await;
    assert!(takeover.journal.is_empty() && takeover.rows.is_empty());
}

pub async fn of_two_commits_of_sagas_at_once_exactly_one_goes_in(store: &impl Store) {
    let mut record = take(store, SHARD, 1).await.record;
    for round in 0..10_u64 {
        let one = next(&record);
        let mut other = next(&record);
        other.record.nonce = 1_000_000 + round;
        let (one_record, other_record) = (one.record, other.record);
        let (first, second) = futures::join!(store.commit_sagas(one), store.commit_sagas(other));
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
        record = store.saga_shard(SHARD).await.unwrap();
        assert_eq!(record, if first.is_ok() { one_record } else { other_record });
    }
}

pub async fn the_journal_comes_back_from_its_floor_as_it_was_written(store: &impl Store) {
    let mut record = take(store, SHARD, 1).await.record;
    for n in 0..4_u64 {
        let journal = if n == 2 { Vec::new() } else { vec![entry("a", 0, false), entry(&format!("b{n}"), 4, n == 3)] };
        let commit = SagaCommit { journal, ..next(&record) };
        record = commit.record;
        store.commit_sagas(commit).await.unwrap();
    }
    let takeover = take(store, SHARD, 1).await;
    let beats: Vec<u64> = takeover.journal.iter().map(|record| record.beat).collect();
    assert_eq!(beats, [record.beat - 3, record.beat - 2, record.beat]);
    assert_eq!(takeover.journal[2].entries, [entry("a", 0, false), entry("b3", 4, true)]);
    let mut cut = next(&takeover.record);
    cut.record.floor = record.beat - 2;
    store.commit_sagas(cut).await.unwrap();
    let takeover = take(store, SHARD, 2).await;
    assert_eq!(takeover.record.floor, record.beat - 2);
    assert_eq!(takeover.journal.iter().map(|record| record.beat).collect::<Vec<_>>(), [record.beat - 2, record.beat]);
}

pub async fn rows_of_sagas_come_back_as_they_were_written_and_go(store: &impl Store) {
    take(store, SHARD, 1).await;
    let resting = row("a", 1, SagaState::Running);
    write(store, vec![SagaWrite::PutRow(Arc::clone(&resting)), SagaWrite::PutRow(row("b", 2, SagaState::Paused))])
        .await;
    assert_eq!(store.saga(SHARD, &key("a")).await.unwrap().as_deref(), Some(&*resting));
    let takeover = take(store, SHARD, 1).await;
    assert_eq!(takeover.rows.len(), 2);
    assert!(takeover.rows.contains(&resting));
    let done = row("a", 1, SagaState::Completed);
    let gone = SagaKey { tenant: tenant("acme"), id: SagaId::root("never").unwrap() };
    let writes = vec![
        SagaWrite::PutDone(Arc::clone(&done)),
        SagaWrite::DeleteRow(key("a")),
        SagaWrite::DeleteRow(gone.clone()),
        SagaWrite::DeleteDead(gone),
    ];
    write(store, writes).await;
    assert_eq!(store.saga(SHARD, &key("a")).await.unwrap().as_deref(), Some(&*done));
    assert_eq!(take(store, SHARD, 1).await.rows.len(), 1);
    let other = SagaKey { tenant: tenant("other"), ..key("a") };
    assert!(store.saga(SHARD, &other).await.unwrap().is_none());
}

pub async fn messages_of_sagas_reach_the_doorstep_once(store: &impl Store) {
    let record = take(store, SHARD, 1).await.record;
    let mut sent = message("saga-1");
    sent.caller_id = true;
    let commit = |before: &SagaShardRecord| SagaCommit {
        messages: vec![DoorGroup { shard: ShardId(1), messages: vec![Arc::new(sent.clone())] }],
        ..next(before)
    };
    let first = commit(&record);
    let after = first.record;
    store.commit_sagas(first).await.unwrap();
    store.commit_sagas(commit(&after)).await.unwrap();
    let rows = store.door(ShardId(1), 0, u64::MAX, None, 10).await.unwrap();
    let messages: Vec<_> = rows.into_iter().flat_map(|row| row.content.unwrap()).collect();
    assert_eq!(messages.iter().map(|message| message.id.as_str()).collect::<Vec<_>>(), ["saga-1"]);
}

pub async fn lists_of_sagas_go_newest_first_and_in_pages(store: &impl Store) {
    take(store, SHARD, 1).await;
    let names = ["a", "b", "c", "d", "e"];
    let rows = names.iter().enumerate().map(|(n, id)| row(id, n as u64 / 2, SagaState::Running));
    write(store, rows.map(SagaWrite::PutRow).collect()).await;
    write(store, vec![SagaWrite::PutDone(row("z", 9, SagaState::Cancelled))]).await;
    let all = SagaFilter::default();
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.list_sagas(SagaTable::Open, &all, cursor.as_deref(), 2).await.unwrap();
        seen.extend(page.items.into_iter().map(|saga| saga.key.id.to_string()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["e", "d", "c", "b", "a"]);
    let error = store.list_sagas(SagaTable::Open, &all, Some("nonsense"), 2).await.unwrap_err();
    assert!(matches!(error, StoreError::Statement(_)));
    let done = store.list_sagas(SagaTable::Done, &all, None, 10).await.unwrap();
    assert_eq!(done.items[0], row("z", 9, SagaState::Cancelled).summary);
}

pub async fn lists_of_sagas_are_filtered_and_counted(store: &impl Store) {
    take(store, SHARD, 1).await;
    let rows = [row("a", 1, SagaState::Running), row("b", 2, SagaState::Paused), row("c", 3, SagaState::Failed)];
    write(store, rows.into_iter().map(SagaWrite::PutRow).collect()).await;
    for (filter, ids) in [
        ("state=paused", vec!["b"]),
        ("definition=ord* version=2 id=c", vec!["c"]),
        ("tenant=other", vec![]),
        ("waiting_for=signal:* step=pay/charge", vec!["c", "b", "a"]),
        ("code=HTTP.* reason=*after*", vec!["c", "b", "a"]),
    ] {
        let filter = SagaFilter::parse(filter, T0).unwrap();
        let page = store.list_sagas(SagaTable::Open, &filter, None, 10).await.unwrap();
        assert_eq!(page.items.iter().map(|saga| saga.key.id.as_str()).collect::<Vec<_>>(), ids);
        assert_eq!(store.count_sagas(SagaTable::Open, &filter).await.unwrap(), ids.len() as u64);
    }
}

pub async fn ended_sagas_expire_oldest_first(store: &impl Store) {
    take(store, SHARD, 1).await;
    let rows = (0..4).map(|n| row(&format!("s{n}"), n, SagaState::Completed));
    write(store, rows.map(SagaWrite::PutDone).collect()).await;
    assert_eq!(store.expire_sagas(T0.plus(Duration::from_millis(3)), Duration::ZERO, 2).await.unwrap().removed, 2);
    assert!(store.saga(SHARD, &key("s1")).await.unwrap().is_none());
    assert_eq!(store.expire_sagas(T0.plus(Duration::from_millis(3)), Duration::ZERO, 10).await.unwrap().removed, 1);
    assert!(store.saga(SHARD, &key("s3")).await.unwrap().is_some());
}

pub async fn an_ended_saga_stays_as_long_as_the_journal_holds_its_events(store: &impl Store) {
    let record = take(store, SHARD, 1).await.record;
    let began = SagaCommit { journal: vec![entry("a", 0, false)], ..next(&record) };
    store.commit_sagas(began.clone()).await.unwrap();
    let ended = SagaCommit {
        journal: vec![entry("a", 4, true)],
        writes: ["a", "b"].map(|id| SagaWrite::PutDone(row(id, 5, SagaState::Completed))).into(),
        ..next(&began.record)
    };
    store.commit_sagas(ended.clone()).await.unwrap();
    // `b` never was in the journal.
    let later = T0.plus(Duration::from_secs(60));
    assert_eq!(store.expire_sagas(later, Duration::ZERO, 10).await.unwrap().removed, 1);
    assert!(store.saga(SHARD, &key("a")).await.unwrap().is_some());
    assert!(store.saga(SHARD, &key("b")).await.unwrap().is_none());
    assert_eq!(store.expire_sagas(later, Duration::ZERO, 10).await.unwrap().removed, 0);
    let mut cut = next(&ended.record);
    cut.record.floor = ended.record.beat;
    store.commit_sagas(cut).await.unwrap();
    assert_eq!(store.expire_sagas(later, Duration::ZERO, 10).await.unwrap().removed, 1);
    assert!(store.saga(SHARD, &key("a")).await.unwrap().is_none());
}

/// A repeat of a start is found by the id that was made from its key, for as long as the key, however short ended sagas are kept.
pub async fn ended_sagas_with_ids_of_idempotency_keys_stay_for_longer(store: &impl Store) {
    take(store, SHARD, 1).await;
    let (derived, callers) = ("0123456789abcdef0123456789abcdef", "0123456789abcdef");
    let kept = row(derived, 1, SagaState::Completed);
    let rows = vec![Arc::clone(&kept), row(callers, 1, SagaState::Completed)];
    write(store, rows.into_iter().map(SagaWrite::PutDone).collect()).await;
    let expire = async |ms: u64| {
        let longer = Duration::from_millis(100);
        store.expire_sagas(T0.plus(Duration::from_millis(ms)), longer, 10).await.unwrap().removed
    };
    assert_eq!(expire(2).await, 1);
    assert!(store.saga(SHARD, &key(callers)).await.unwrap().is_none());
    assert_eq!(expire(101).await, 0);
    assert_eq!(store.saga(SHARD, &key(derived)).await.unwrap(), Some(kept));
    assert_eq!(expire(102).await, 1);
    assert!(store.saga(SHARD, &key(derived)).await.unwrap().is_none());
    // One whose longer time is over when it is first looked at goes at once.
    write(store, vec![SagaWrite::PutDone(row(derived, 200, SagaState::Completed))]).await;
    assert_eq!(expire(301).await, 1);
    assert!(store.saga(SHARD, &key(derived)).await.unwrap().is_none());
}

fn definition(name: &str, version: u32, hash: &str) -> StoredDefinition {
    StoredDefinition {
        reference: DefinitionRef { name: name.into(), version, hash: DefinitionHash(hash.into()) },
        canonical: Json::parse("{\"name\":\"x\"}").unwrap(),
        created_at: T0,
        created_by: "ann".into(),
    }
}

pub async fn a_version_of_a_definition_never_changes(store: &impl Store) {
    let first = definition("order", 1, "h1");
    assert_eq!(store.put_definition(&first).await.unwrap(), DefinitionPut::Created);
    let again = StoredDefinition { created_by: "bob".into(), ..first.clone() };
    assert_eq!(store.put_definition(&again).await.unwrap(), DefinitionPut::Same(first.clone()));
    let other = definition("order", 1, "h2");
    assert_eq!(store.put_definition(&other).await.unwrap(), DefinitionPut::Taken(first.clone()));
    assert_eq!(store.definition("order", Some(1)).await.unwrap(), Some(first.clone()));
    assert_eq!(store.definition_by_hash(&first.reference.hash).await.unwrap(), Some(first));
    assert_eq!(store.definition_by_hash(&other.reference.hash).await.unwrap(), None);
}

pub async fn definitions_are_found_by_name_version_and_hash(store: &impl Store) {
    for (name, version) in [("order", 1), ("order", 2), ("order", 10), ("orders", 3), ("a", 1)] {
        store.put_definition(&definition(name, version, &format!("{name}{version}"))).await.unwrap();
    }
    assert_eq!(store.definition("order", None).await.unwrap().unwrap().reference.version, 10);
    assert!(store.definition("order", Some(3)).await.unwrap().is_none());
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.definitions(None, cursor.as_deref(), 2).await.unwrap();
        seen.extend(page.items.iter().map(|found| format!("{}@{}", found.reference.name, found.reference.version)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["a@1", "order@10", "order@2", "order@1", "orders@3"]);
    assert_eq!(store.definitions(Some("order"), None, 10).await.unwrap().items.len(), 3);
}

pub(super) fn dead(id: &str) -> Arc<SagaDead> {
    Arc::new(SagaDead {
        key: key(id),
        saga: SagaId::new(&format!("{id}~pay")).unwrap(),
        definition: reference("pay", 1),
        step: "charge".into(),
        code: "HTTP.500".into(),
        reason: "no".into(),
        attempts: 6,
        died_at: UnixMillis(T0.0),
        state: DeadState::Dead,
    })
}

pub async fn stuck_sagas_are_dead_letters_of_their_kind(store: &impl Store) {
    take(store, SHARD, 1).await;
    write(store, vec![SagaWrite::PutDead(dead("a")), SagaWrite::PutDead(dead("b"))]).await;
    assert_eq!(store.dead_saga(SHARD, &key("a")).await.unwrap(), Some(dead("a")));
    assert_eq!(take(store, SHARD, 1).await.dead.len(), 2);
    let note = DeadState::Quarantined { note: "look".into(), at: T0 };
    assert!(store.mark_dead_saga(SHARD, &key("b"), &note).await.unwrap());
    assert!(!store.mark_dead_saga(SHARD, &key("c"), &note).await.unwrap());
    for (filter, count) in [
        ("kind=saga", 2),
        ("kind=message", 0),
        ("topic=saga:pay/charge state=quarantined", 1),
        ("definition=pay step=ch*", 2),
        ("definition=order", 0),
        ("id=a", 1),
        ("key=a", 0),
    ] {
        let filter = Filter::parse(filter, T0).unwrap();
        assert_eq!(store.dead_sagas(&filter, None, 10).await.unwrap().items.len(), count, "{filter:?}");
    }
    let first = store.dead_sagas(&Filter::default(), None, 1).await.unwrap();
    let rest = store.dead_sagas(&Filter::default(), first.next_cursor.as_deref(), 5).await.unwrap();
    assert_eq!((first.items[0].key.clone(), rest.items[0].key.clone(), rest.items.len()), (key("a"), key("b"), 1));
    write(store, vec![SagaWrite::DeleteDead(key("a"))]).await;
    assert!(store.dead_saga(SHARD, &key("a")).await.unwrap().is_none());
}
