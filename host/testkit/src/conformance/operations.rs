//! Bulk acts, and transports that are paused.

use waybill_core::fates::{Death, Fates, Trial, TrialState};
use waybill_core::ids::ShardId;
use waybill_core::outbox::dead_groups::DeadCause;
use waybill_core::port::dead::DeadKind;
use waybill_core::port::saga::RetryMode;
use waybill_core::port::store::Write;
use waybill_core::port::transact::{Operation, OperationState, Refusal, first_operation_id};
use waybill_core::time::UnixMillis;

use super::Store;
use super::samples::{Owner, SHARD, T0, tenant};

fn operation(id: &str, state: OperationState) -> Operation {
    let refusal =
        Refusal { code: "SAGA.STATE".into(), count: 1, example: "o-17".into(), detail: "it is paused".into() };
    Operation {
        counted_since: Some(T0),
        id: id.into(),
        kind: "replay".into(),
        filter: "code=HTTP.* age>1h".into(),
        step: Some("charge".into()),
        mode: Some(RetryMode::Retry),
        not_before: Some(UnixMillis(T0.0 + 9)),
        before: Some(UnixMillis(T0.0 - 3)),
        trial: Some(Trial { size: 5, state: TrialState::Passed }),
        tenant: Some("acme".into()),
        rate: 100,
        reason: "fixed the receiver".into(),
        actor: "ann".into(),
        state,
        matched: 5_000_000_000,
        done: 17,
        unchanged: 2,
        failed: 1,
        refusals: vec![refusal],
        fates: Fates { put_back: 2, delivered: 2, ..Fates::default() },
        not_followed: 1,
        causes: vec![DeadCause::new(DeadKind::Message, "acme", "HTTP.422", "answered 422")],
        cursor: Some("0.17/".into()),
        error: None,
        created_at: T0,
        updated_at: UnixMillis(T0.0 + 5),
    }
}

pub async fn operations_are_kept_and_found(store: &impl Store) {
    let mut written = operation("01J0000000000000000000000A", OperationState::Running);
    assert_eq!(store.operation(&written.id).await.unwrap(), None);
    store.put_operation(&written).await.unwrap();
    assert_eq!(store.operation(&written.id).await.unwrap().as_ref(), Some(&written));
    written.state = OperationState::Failed;
    written.error = Some("the shard moved".into());
    written.tenant = None;
    store.put_operation(&written).await.unwrap();
    assert_eq!(store.operation(&written.id).await.unwrap(), Some(written));
}

pub async fn only_running_operations_are_to_be_resumed(store: &impl Store) {
    let states = [
        OperationState::Running,
        OperationState::Done,
        OperationState::Cancelled,
        OperationState::Running,
        OperationState::Failed,
    ];
    for (n, state) in states.into_iter().enumerate() {
        store.put_operation(&operation(&format!("01J000000000000000000000{n:02}"), state)).await.unwrap();
    }
    let running = store.running_operations().await.unwrap();
    assert_eq!(
        running.iter().map(|operation| operation.id.as_str()).collect::<Vec<_>>(),
        ["01J00000000000000000000000", "01J00000000000000000000003"]
    );
    assert_eq!(running[0], operation("01J00000000000000000000000", OperationState::Running));
}

pub async fn the_latest_operations_are_listed_and_a_tenant_sees_its_own(store: &impl Store) {
    for n in 0..5 {
        let whose = (n % 2 == 0).then(|| "acme".to_owned());
        let written = operation(&format!("01J000000000000000000000{n:02}"), OperationState::Done);
        store.put_operation(&Operation { tenant: whose, ..written }).await.unwrap();
    }
    let ids = |found: Vec<Operation>| found.iter().map(|found| found.id[24..].to_owned()).collect::<Vec<_>>();
    assert_eq!(ids(store.operations(None, 3).await.unwrap()), ["04", "03", "02"]);
    assert_eq!(ids(store.operations(None, 100).await.unwrap()).len(), 5);
    assert_eq!(ids(store.operations(Some(&tenant("acme")), 2).await.unwrap()), ["04", "02"]);
    assert!(store.operations(Some(&tenant("other")), 2).await.unwrap().is_empty());
}

pub async fn fates_are_added_up_by_operation_over_all_shards(store: &impl Store) {
    let add = |operation: &str, fates: Fates| vec![Write::AddFates { operation: operation.into(), fates }];
    let put_back = |count| Fates { put_back: count, ..Fates::default() };
    let death = |id: &str| Some(Death { id: id.into(), code: "HTTP.422".into() });
    assert_eq!(store.fates("01J-A").await.unwrap(), Fates::default());
    let mut owner = Owner::new();
    owner.commit(store, add("01J-A", put_back(3))).await;
    owner
        .commit(store, add("01J-A", Fates { delivered: 1, died: 1, first_death: death("m-1"), ..Fates::default() }))
        .await;
    owner.commit(store, add("01J-A", Fates { died: 1, first_death: death("m-2"), ..Fates::default() })).await;
    owner.commit(store, add("01J-A2", put_back(100))).await;
    Owner::of(ShardId(7)).commit(store, add("01J-A", Fates { put_back: 2, ended: 1, ..Fates::default() })).await;
    let sum = Fates { put_back: 5, delivered: 1, died: 2, ended: 1, first_death: death("m-1") };
    assert_eq!(store.fates("01J-A").await.unwrap(), sum);
}

pub async fn operations_and_their_counts_go_when_they_were_over_for_long(store: &impl Store) {
    let old = |n: u64| first_operation_id(UnixMillis(T0.0 - 100 + n));
    let ends_at = |id: String, state, updated_at| Operation { updated_at, ..operation(&id, state) };
    let kept = [
        ends_at(old(0), OperationState::Running, UnixMillis(T0.0 - 100)),
        ends_at(old(1), OperationState::Done, UnixMillis(T0.0 + 5)),
        ends_at(first_operation_id(UnixMillis(T0.0 + 1)), OperationState::Done, UnixMillis(T0.0 - 1)),
    ];
    for operation in &kept {
        store.put_operation(operation).await.unwrap();
    }
    let states = [OperationState::Done, OperationState::Failed, OperationState::Cancelled];
    for (n, state) in (2..).zip(states) {
        store.put_operation(&ends_at(old(n), state, UnixMillis(T0.0 - 1))).await.unwrap();
    }
    // Of the fifth there is no operation: it was removed before its messages were settled.
    let counted: Vec<String> = (0..6).map(old).chain([kept[2].id.clone()]).collect();
    let one = Fates { put_back: 1, ..Fates::default() };
    for shard in [SHARD, ShardId(7)] {
        let writes = counted.iter().map(|id| Write::AddFates { operation: id.as_str().into(), fates: one.clone() });
        Owner::of(shard).commit(store, writes.collect()).await;
    }
    let mut rounds = 0;
    while store.purge_operations(T0, 2).await.unwrap() == 2 {
        rounds += 1;
        assert!(rounds < 10, "it never ends");
    }
    assert_eq!(store.purge_operations(T0, 2).await.unwrap(), 0, "what is left stays");
    let mut left: Vec<String> = store.operations(None, 100).await.unwrap().into_iter().map(|found| found.id).collect();
    left.reverse();
    assert_eq!(left, kept.each_ref().map(|kept| kept.id.clone()));
    for id in counted {
        let put_back = if left.contains(&id) { 2 } else { 0 };
        assert_eq!(store.fates(&id).await.unwrap().put_back, put_back, "{id}");
    }
}

pub async fn a_pause_stays_until_it_is_lifted(store: &impl Store) {
    assert!(store.paused().await.unwrap().is_empty());
    for name in ["webhooks", "nats", "nats"] {
        store.set_paused(name, true).await.unwrap();
    }
    assert_eq!(store.paused().await.unwrap(), ["nats", "webhooks"]);
    for name in ["nats", "never"] {
        store.set_paused(name, false).await.unwrap();
    }
    assert_eq!(store.paused().await.unwrap(), ["webhooks"]);
}

pub async fn a_record_of_incidents_stays_until_it_is_empty(store: &impl Store) {
    assert_eq!(store.incidents("a").await.unwrap(), "");
    for (host, record) in [("a", "{}"), ("b", "{\"open\":[]}"), ("a", "[]"), ("never", "")] {
        store.note_incidents(host, record).await.unwrap();
    }
    assert_eq!(store.incidents("a").await.unwrap(), "[]");
    assert_eq!(store.incidents("b").await.unwrap(), "{\"open\":[]}");
    store.note_incidents("a", "").await.unwrap();
    assert_eq!((store.incidents("a").await.unwrap(), store.paused().await.unwrap().len()), (String::new(), 0));
}
