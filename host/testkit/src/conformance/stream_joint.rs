//! Events in commits of something else: in transactions of callers, with the state of steps, with the marks of handlers. All or nothing.

use std::sync::Arc;

use waybill_core::ids::EventId;
use waybill_core::inbox::records::{InboxCommit, InboxShardRecord};
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::port::store::{OwnerStore, StoreError};
use waybill_core::port::stream_store::StreamStore;
use waybill_core::port::transact::{DoorGroup, TransactStore, Transacted};
use waybill_core::saga::records::{SagaCommit, SagaShardRecord};
use waybill_core::streams::exact::ExactRefusal;
use waybill_core::streams::joint::{JointAppend, JointAppends};
use waybill_core::streams::records::{Append, DoorContent};

use super::SagaPorts;
use super::inbox_samples::Writer;
use super::sagas::{entry, next, take};
use super::samples::{SHARD, T0, full_message, message};
use super::stream_samples::{ALL_BYTES, all_at_door, append, exact, stream};

fn plain(to: &str, ids: &[&str]) -> JointAppend {
    JointAppend::Plain { shard: SHARD, append: Arc::new(append(to, ids)) }
}

fn numbered(to: &str, ids: &[&str], expected: u64) -> JointAppend {
    JointAppend::Exact(exact(to, ids, expected))
}

/// A transaction with these events and a message of this id, which the host made or its caller.
async fn transact(
    store: &impl TransactStore,
    events: Vec<JointAppend>,
    (id, caller_id): (&str, bool),
) -> Result<Transacted, StoreError> {
    let message = match caller_id {
        true => full_message(id),
        false => message(id),
    };
    assert_eq!(message.caller_id, caller_id, "of the samples");
    let group = DoorGroup { shard: SHARD, messages: vec![Arc::new(message)] };
    store.transact(Vec::new(), vec![group], JointAppends { list: events, at: T0 }, None).await
}

/// Ids of the messages on the doorstep.
async fn messages(store: &impl OwnerStore) -> Vec<String> {
    let rows = store.door(SHARD, 0, u64::MAX, None, 100).await.unwrap();
    let messages = rows.into_iter().flat_map(|row| row.content.unwrap());
    messages.map(|message| message.id.to_string()).collect()
}

async fn last(store: &impl StreamStore, of: &str) -> u64 {
    store.stream_slice(&stream(of), 0, ALL_BYTES).await.unwrap().head.last
}

pub async fn events_of_a_transaction_commit_with_its_messages(store: &(impl OwnerStore + TransactStore + StreamStore)) {
    let events = vec![plain("a", &["1", "2"]), numbered("b", &["3", "4"], 0), numbered("c", &["5"], 0)];
    let done = transact(store, events, ("m", false)).await.unwrap();
    assert_eq!((done.seqs, done.is_repeat), (vec![None, Some(vec![1, 2]), Some(vec![1])], false));
    assert_eq!(messages(store).await, ["m"]);
    assert_eq!((last(store, "a").await, last(store, "b").await, last(store, "c").await), (0, 2, 1));
    let rows = all_at_door(store, SHARD).await.rows;
    let rows: Vec<_> = rows.into_iter().map(|row| row.content.unwrap()).collect();
    assert!(rows.contains(&DoorContent::Append(Arc::new(append("a", &["1", "2"])))), "{rows:?}");
    assert!(rows.contains(&DoorContent::Look(stream("b"))) && rows.contains(&DoorContent::Look(stream("c"))));
    assert_eq!(rows.len(), 3);
}

pub async fn a_stream_that_ends_elsewhere_undoes_the_whole_transaction(
    store: &(impl OwnerStore + TransactStore + StreamStore),
) {
    transact(store, vec![numbered("b", &["1"], 0)], ("first", false)).await.unwrap();
    let events = vec![plain("a", &["2"]), numbered("c", &["3"], 0), numbered("b", &["4"], 0)];
    let error = transact(store, events, ("m", false)).await.unwrap_err();
    let refusal = ExactRefusal::ExpectedSeq { stream: stream("b"), expected: 0, actual: 1 };
    assert_eq!(error, StoreError::Append(Box::new(refusal)));
    assert_eq!(messages(store).await, ["first"]);
    assert_eq!((last(store, "b").await, last(store, "c").await), (1, 0));
    assert_eq!(all_at_door(store, SHARD).await.rows.len(), 1, "the note of the one that went in");
    let done = transact(store, vec![numbered("c", &["3"], 0)], ("again", false)).await.unwrap();
    assert_eq!(done.seqs, [Some(vec![1])], "its id is free");
}

pub async fn a_transaction_whose_events_are_there_is_a_repeat_as_a_whole(
    store: &(impl OwnerStore + TransactStore + StreamStore),
) {
    let events = || vec![numbered("b", &["1", "2"], 0), numbered("c", &["3"], 0)];
    transact(store, events(), ("m", false)).await.unwrap();
    let again = transact(store, events(), ("made-anew", false)).await.unwrap();
    assert_eq!((again.seqs, again.is_repeat), (vec![Some(vec![1, 2]), Some(vec![1])], true));
    assert_eq!(messages(store).await, ["m"], "nothing is put a second time");

    let taken = |id: &str| StoreError::Append(Box::new(ExactRefusal::IdTaken { id: EventId::new(id).unwrap() }));
    let beside = vec![numbered("b", &["1", "2"], 0), plain("c", &["9"])];
    assert_eq!(transact(store, beside, ("n", false)).await, Err(taken("1")));
    assert_eq!(transact(store, events(), ("of-the-caller", true)).await, Err(taken("1")), "its message isn't there");
    assert_eq!(messages(store).await, ["m"]);
    assert_eq!((last(store, "b").await, last(store, "c").await), (2, 1));
}

/// Its answer may be lost, and nobody has taken its message in yet. That its stream ends elsewhere is its own doing.
pub async fn a_transaction_whose_message_waits_is_a_repeat_before_its_events_are_looked_at(
    store: &(impl OwnerStore + TransactStore + StreamStore),
) {
    for (id, events) in [
        ("m", vec![numbered("b", &["1"], 0)]),
        ("n", vec![numbered("c", &["2"], 0), plain("a", &["3"])]),
        ("o", vec![numbered("d", &["4"], 0), numbered("e", &["5"], 0)]),
    ] {
        transact(store, events.clone(), (id, true)).await.unwrap();
        let lost = transact(store, events, (id, true)).await;
        assert!(matches!(lost, Err(StoreError::Exists(_))), "{id}: {lost:?}");
        let stale = transact(store, vec![numbered("b", &["9"], 0)], (id, true)).await;
        assert!(matches!(stale, Err(StoreError::Exists(_))), "{id}: {stale:?}");
    }
    let other = transact(store, vec![numbered("b", &["9"], 0)], ("other", true)).await;
    assert!(matches!(other, Err(StoreError::Append(_))), "{other:?}");
    assert_eq!(messages(store).await, ["m", "n", "o"]);
}

pub async fn of_many_transactions_at_one_end_exactly_one_goes_in(
    store: &(impl OwnerStore + TransactStore + StreamStore),
) {
    let ids: Vec<String> = (0..8).map(|number| format!("{number}")).collect();
    let attempts = ids.iter().map(|id| transact(store, vec![numbered("b", &[id], 0)], (id, false)));
    let done = futures::future::join_all(attempts).await;
    let won = done.iter().filter(|done| done.is_ok()).count();
    for error in done.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::Append(_) | StoreError::Conflict(_)), "{error}");
    }
    assert_eq!((won, last(store, "b").await, messages(store).await.len()), (1, 1, 1));
}

fn joint(list: Vec<JointAppend>) -> JointAppends {
    JointAppends { list, at: T0 }
}

fn at_the_door(left: &Arc<Append>) -> JointAppends {
    joint(vec![JointAppend::Plain { shard: SHARD, append: Arc::clone(left) }])
}

/// Three appends of which the last one can't be made, and what is said of it.
fn elsewhere() -> (JointAppends, StoreError) {
    let events = joint(vec![plain("p", &["1"]), numbered("b", &["2"], 0), numbered("a", &["3"], 7)]);
    let refusal = ExactRefusal::ExpectedSeq { stream: stream("a"), expected: 7, actual: 0 };
    (events, StoreError::Appends(vec![(2, refusal)]))
}

/// What lies on the doorstep of streams, by what it says.
async fn at_door(store: &impl StreamStore) -> Vec<DoorContent> {
    all_at_door(store, SHARD).await.rows.into_iter().map(|row| row.content.unwrap()).collect()
}

pub async fn events_of_a_step_commit_with_its_state_and_its_messages(store: &(impl SagaPorts + StreamStore)) {
    let record = take(store, SHARD, 1).await.record;
    let left = Arc::new(append("a", &["1", "2"]));
    let group = || DoorGroup { shard: SHARD, messages: vec![Arc::new(message("m"))] };
    let commit = || SagaCommit {
        journal: vec![entry("saga", 0, false)],
        messages: vec![group()],
        events: at_the_door(&left),
        ..next(&record)
    };
    let stale = SagaCommit { expect_beat: record.beat + 7, ..commit() };
    let stale = SagaCommit { record: SagaShardRecord { beat: record.beat + 8, ..stale.record }, ..stale };
    assert!(matches!(store.commit_sagas(stale).await, Err(StoreError::Conflict(_))));
    assert_eq!((at_door(store).await, messages(store).await), (vec![], vec![]), "neither state, message nor event");
    store.commit_sagas(commit()).await.unwrap();
    assert_eq!(at_door(store).await, [DoorContent::Append(left)]);
    assert_eq!(messages(store).await, ["m"]);
    assert_eq!(take(store, SHARD, 2).await.journal.len(), 1, "the step's state");
}

pub async fn events_of_a_handler_commit_with_its_mark(store: &(impl OwnerStore + InboxStore + StreamStore)) {
    let (mut writer, left) = (Writer::new(), Arc::new(append("a", &["1"])));
    let events = || at_the_door(&left);
    let stale = InboxCommit { expect_beat: 7, events: events(), ..writer.next() };
    let stale = InboxCommit { record: InboxShardRecord { beat: 8, ..stale.record.clone() }, ..stale };
    assert!(matches!(store.commit_inbox(stale).await, Err(StoreError::Conflict(_))));
    assert!(at_door(store).await.is_empty());
    let group = DoorGroup { shard: SHARD, messages: vec![Arc::new(message("m"))] };
    writer.commit(store, |commit| (commit.events, commit.messages) = (events(), vec![group])).await;
    assert_eq!((at_door(store).await, messages(store).await), (vec![DoorContent::Append(left)], vec!["m".to_owned()]));
}

pub async fn a_step_whose_events_number_themselves_commits_whole_or_not_at_all(store: &(impl SagaPorts + StreamStore)) {
    let record = take(store, SHARD, 1).await.record;
    let commit = |before: &SagaShardRecord, events: JointAppends| SagaCommit {
        journal: vec![entry("saga", 0, false)],
        messages: vec![DoorGroup { shard: SHARD, messages: vec![Arc::new(message("m"))] }],
        events,
        ..next(before)
    };
    let (events, refused) = elsewhere();
    assert_eq!(store.commit_sagas(commit(&record, events)).await, Err(refused));
    assert_eq!((last(store, "b").await, at_door(store).await, messages(store).await), (0, vec![], vec![]));
    assert_eq!(store.saga_shard(SHARD).await.unwrap(), record, "no state either");
    let events = || joint(vec![numbered("a", &["3", "4"], 0), numbered("b", &["2"], 0)]);
    let first = commit(&record, events());
    store.commit_sagas(first.clone()).await.unwrap();
    assert_eq!((last(store, "a").await, last(store, "b").await, messages(store).await), (2, 1, vec!["m".to_owned()]));
    // Who was replaced hears of that, not of the streams.
    let (late, _) = elsewhere();
    assert!(matches!(store.commit_sagas(commit(&record, late)).await, Err(StoreError::Conflict(_))));
    // The step again, under the same ids: the first result, though the streams have grown.
    store.commit_sagas(SagaCommit { events: events(), ..next(&first.record) }).await.unwrap();
    assert_eq!((last(store, "a").await, last(store, "b").await), (2, 1));
    assert_eq!(take(store, SHARD, 2).await.journal.len(), 1, "the step's state");
}

pub async fn a_handler_whose_events_number_themselves_commits_whole_or_not_at_all(
    store: &(impl OwnerStore + InboxStore + StreamStore),
) {
    let mut writer = Writer::new();
    let group = || DoorGroup { shard: SHARD, messages: vec![Arc::new(message("m"))] };
    let (events, refused) = elsewhere();
    let commit = InboxCommit { events, messages: vec![group()], ..writer.next() };
    assert_eq!(store.commit_inbox(commit).await, Err(refused));
    assert_eq!((last(store, "b").await, at_door(store).await, messages(store).await), (0, vec![], vec![]));
    assert_eq!(store.inbox_shard(SHARD).await.unwrap(), InboxShardRecord::default(), "no mark either");
    let events = || joint(vec![numbered("a", &["3", "4"], 0), numbered("b", &["2"], 0)]);
    writer.commit(store, |commit| (commit.events, commit.messages) = (events(), vec![group()])).await;
    assert_eq!((last(store, "a").await, last(store, "b").await, messages(store).await), (2, 1, vec!["m".to_owned()]));
    writer.commit(store, |commit| commit.events = events()).await;
    assert_eq!((last(store, "a").await, last(store, "b").await), (2, 1), "the same again");
}

pub async fn of_a_step_and_a_handler_at_one_end_exactly_one_goes_in(
    store: &(impl SagaPorts + InboxStore + StreamStore),
) {
    let record = take(store, SHARD, 1).await.record;
    let step = SagaCommit { events: joint(vec![numbered("a", &["1"], 0)]), ..next(&record) };
    let handler = InboxCommit { events: joint(vec![numbered("a", &["2"], 0)]), ..Writer::new().next() };
    let (step, handler) = futures::join!(store.commit_sagas(step), store.commit_inbox(handler));
    assert!(step.is_ok() != handler.is_ok(), "{step:?} {handler:?}");
    let error = step.err().or(handler.err()).unwrap();
    assert!(matches!(error, StoreError::Appends(_) | StoreError::Conflict(_)), "{error}");
    assert_eq!(last(store, "a").await, 1);
}
