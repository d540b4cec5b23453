//! Idempotency keys. The rules themselves are the core's; here is what a store has to add: atomic, durable, listed, collected.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::idempotency::{
    Act, Answer, Applied, Begun, Entry, EntryFilter, EntryKey, EntryState, Grant, Op, Reply,
};
use waybill_core::ids::{HoldToken, IdempotencyKey, RequestHash, ShardId, Tenant};
use waybill_core::port::idempotency::Hold;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::Conclusion;
use waybill_core::time::UnixMillis;

use super::Store;
use super::door::group;
use super::samples::message;

const TTL: Duration = Duration::from_secs(100);
const LEASE: Duration = Duration::from_secs(10);

fn at(seconds: u64) -> UnixMillis {
    UnixMillis(1_700_000_000_000 + seconds * 1_000)
}

fn of(tenant: &str, key: &str) -> EntryKey {
    EntryKey { tenant: Tenant::new(tenant).unwrap(), key: IdempotencyKey::new(key).unwrap() }
}

fn token(text: &str) -> HoldToken {
    HoldToken::new(text).unwrap()
}

fn begin_as(name: &str) -> Act {
    Act::Begin { hash: RequestHash::new("h").unwrap(), token: token(name), ttl: TTL, lease: LEASE }
}

fn finish_as(name: &str, answer: Answer) -> Act {
    Act::Finish { token: token(name), answer }
}

async fn apply(store: &impl Store, ops: Vec<(EntryKey, Act)>, now: u64) -> Vec<Applied> {
    let ops: Vec<Op> = ops.into_iter().map(|(of, act)| Op { of, act }).collect();
    let done = store.act(&ops, at(now)).await.unwrap();
    assert_eq!(done.len(), ops.len());
    done.into_iter().map(Result::unwrap).collect()
}

async fn act(store: &impl Store, key: &str, act: Act, now: u64) -> Reply {
    apply(store, vec![(of("t", key), act)], now).await.remove(0).reply
}

fn grant(reply: &Reply) -> &Grant {
    let grant = match reply {
        Reply::Begin(Begun::New(grant)) => Ok(grant),
        other => Err(format!("not begun: {other:?}")),
    };
    grant.unwrap()
}

fn succeeded(answer: Answer) -> Reply {
    Reply::Begin(Begun::Succeeded(answer))
}

pub async fn a_key_is_begun_once_and_answers_its_outcome_afterwards(store: &impl Store) {
    assert_eq!(grant(&act(store, "k", begin_as("a"), 0).await).begun, 1);
    assert_eq!(act(store, "k", begin_as("b"), 1).await, Reply::Begin(Begun::Busy { lease_until: at(10) }));
    let result = Answer::of_json(r#"{"z":1.10,"a":"ä"}"#);
    assert_eq!(act(store, "k", finish_as("a", result.clone()), 2).await, Reply::Applied);
    assert_eq!(act(store, "k", begin_as("b"), 3).await, succeeded(result));
    let other = Act::Begin { hash: RequestHash::new("other").unwrap(), token: token("c"), ttl: TTL, lease: LEASE };
    assert_eq!(act(store, "k", other, 4).await, Reply::Begin(Begun::Mismatch));
    assert_eq!(
        act(store, "k", begin_as("d"), 100).await,
        Reply::Begin(Begun::New(Grant {
            token: token("d"),
            origin: token("d"),
            begun: 1,
            lease_until: at(110),
            until: at(200),
        }))
    );
}

pub async fn every_field_of_an_entry_comes_back(store: &impl Store) {
    let digest_only = Answer { body: None, ..Answer::of_json("[1]") };
    let http = Answer {
        code: Some("STORAGE.CONFLICT".to_owned()),
        location: Some("/v1/sagas/1".to_owned()),
        ..Answer::new(Some(409), Some("application/problem+json".to_owned()), vec![0, 255, 10].into())
    };
    let bare = Answer { content_type: None, ..Answer::of_json("") };
    let failed = EntryState::Failed("no \"stock\"\nleft".to_owned());
    for (key, act_on, state) in [
        ("in flight", None, EntryState::InFlight { lease_until: at(10) }),
        ("digest", Some(finish_as("a", digest_only.clone())), EntryState::Succeeded(digest_only)),
        ("http", Some(finish_as("a", http.clone())), EntryState::Succeeded(http)),
        ("bare", Some(finish_as("a", bare.clone())), EntryState::Succeeded(bare)),
        ("failed", Some(Act::Fail { token: token("a"), error: "no \"stock\"\nleft".to_owned() }), failed),
    ] {
        assert_eq!(store.entry(&of("t", key), at(0)).await.unwrap(), None);
        act(store, key, begin_as("a"), 0).await;
        let mut changed_at = at(0);
        if let Some(act_on) = act_on {
            let done = apply(store, vec![(of("t", key), act_on)], 5).await.remove(0);
            changed_at = at(5);
            assert_eq!((done.reply, done.entry), (Reply::Applied, store.entry(&of("t", key), at(6)).await.unwrap()));
        }
        let entry = Entry {
            hash: RequestHash::new("h").unwrap(),
            origin: token("a"),
            token: token("a"),
            begun: 1,
            state,
            created_at: at(0),
            changed_at,
            until: at(100),
        };
        assert_eq!(store.entry(&of("t", key), at(6)).await.unwrap(), Some(entry), "{key}");
    }
    act(store, "in flight", begin_as("b"), 50).await;
    let taken = store.entry(&of("t", "in flight"), at(50)).await.unwrap().unwrap();
    assert_eq!((taken.token, taken.origin, taken.begun), (token("b"), token("a"), 2));
}

pub async fn acts_of_one_call_see_each_other_in_order(store: &impl Store) {
    let one = Answer::of_json("1");
    let done = apply(
        store,
        vec![
            (of("t", "k"), begin_as("a")),
            (of("t", "l"), begin_as("x")),
            (of("t", "k"), begin_as("b")),
            (of("t", "k"), finish_as("a", one.clone())),
            (of("t", "k"), begin_as("b")),
            (of("t", "l"), Act::Release { token: token("x") }),
            (of("t", "l"), begin_as("y")),
        ],
        0,
    )
    .await;
    assert_eq!(grant(&done[0].reply).token, token("a"));
    assert_eq!(done[2].reply, Reply::Begin(Begun::Busy { lease_until: at(10) }));
    assert_eq!((&done[3].reply, &done[4].reply), (&Reply::Applied, &succeeded(one)));
    assert_eq!((&done[5].reply, &done[5].entry), (&Reply::Applied, &None));
    assert_eq!(grant(&done[6].reply).origin, token("y"));
    assert!(apply(store, Vec::new(), 0).await.is_empty());
}

pub async fn keys_of_two_tenants_are_two_keys(store: &impl Store) {
    for (tenant, key) in [("t", "k"), ("u", "k"), ("t", "k/l"), ("tk", "")] {
        if key.is_empty() {
            continue;
        }
        let done = apply(store, vec![(of(tenant, key), begin_as("a"))], 0).await;
        assert_eq!(grant(&done[0].reply).begun, 1, "{tenant} {key}");
    }
}

pub async fn of_many_begins_at_once_one_gets_the_key(store: &impl Store) {
    let names: Vec<String> = (0..20).map(|n| format!("token-{n}")).collect();
    let work = names.iter().map(|name| async { act(store, "k", begin_as(name), 0).await });
    let replies = futures::future::join_all(work).await;
    let begun = replies.iter().filter(|reply| matches!(reply, Reply::Begin(Begun::New(_)))).count();
    let busy = replies.iter().filter(|reply| matches!(reply, Reply::Begin(Begun::Busy { .. }))).count();
    assert_eq!((begun, busy), (1, 19));
}

pub async fn a_stale_token_changes_nothing(store: &impl Store) {
    act(store, "k", begin_as("a"), 0).await;
    act(store, "k", begin_as("b"), 10).await;
    let before = store.entry(&of("t", "k"), at(11)).await.unwrap();
    for stale in [
        finish_as("a", Answer::of_json("1")),
        Act::Fail { token: token("a"), error: "no".to_owned() },
        Act::Release { token: token("a") },
        Act::Yield { token: token("a") },
        Act::Renew { token: token("a"), lease: LEASE },
    ] {
        assert_eq!(act(store, "k", stale.clone(), 11).await, Reply::Lost, "{stale:?}");
        assert_eq!(store.entry(&of("t", "k"), at(11)).await.unwrap(), before);
    }
    assert_eq!(act(store, "none", Act::Release { token: token("a") }, 11).await, Reply::Lost);
}

pub async fn what_is_over_is_collected_and_what_began_anew_is_not(store: &impl Store) {
    for (key, now) in [("old", 0), ("older", 0), ("young", 50)] {
        act(store, key, begin_as("a"), now).await;
        act(store, key, finish_as("a", Answer::of_json("1")), now + 1).await;
    }
    assert_eq!(store.purge_idempotency(at(99), 10).await.unwrap(), 0);
    // Over, and not collected yet.
    assert_eq!(store.entry(&of("t", "old"), at(100)).await.unwrap(), None);
    assert_eq!(grant(&act(store, "old", begin_as("b"), 100).await).begun, 1);
    while store.purge_idempotency(at(101), 1).await.unwrap() > 0 {}
    assert_eq!(store.entry(&of("t", "old"), at(101)).await.unwrap().unwrap().token, token("b"));
    assert_eq!(store.entry(&of("t", "young"), at(101)).await.unwrap().unwrap().token, token("a"));
    // Collected, not only hidden.
    assert_eq!(store.entry(&of("t", "older"), at(0)).await.unwrap(), None);
    while store.purge_idempotency(at(1_000), 10).await.unwrap() > 0 {}
    for key in ["old", "older", "young"] {
        assert_eq!(store.entry(&of("t", key), at(0)).await.unwrap(), None, "{key}");
    }
}

pub async fn a_renewed_entry_outlives_its_first_end(store: &impl Store) {
    act(store, "k", begin_as("a"), 0).await;
    let renew = Act::Renew { token: token("a"), lease: Duration::from_secs(50) };
    assert_eq!(act(store, "k", renew, 90).await, Reply::Applied);
    while store.purge_idempotency(at(120), 10).await.unwrap() > 0 {}
    assert_eq!(act(store, "k", begin_as("b"), 130).await, Reply::Begin(Begun::Busy { lease_until: at(140) }));
    // A released key leaves nothing to collect that would take the next one with it.
    assert_eq!(act(store, "k", Act::Release { token: token("a") }, 131).await, Reply::Applied);
    act(store, "k", begin_as("c"), 132).await;
    while store.purge_idempotency(at(150), 10).await.unwrap() > 0 {}
    assert!(store.entry(&of("t", "k"), at(150)).await.unwrap().is_some());
}

pub async fn entries_are_listed_by_filter_and_in_pages(store: &impl Store) {
    let mut ops = Vec::new();
    for tenant in ["s", "t", "u u"] {
        for n in 0..7 {
            ops.push((of(tenant, &format!("order-{n}")), begin_as("a")));
        }
        ops.push((of(tenant, "pay/1"), begin_as("a")));
    }
    ops.push((of("t", "order-3"), finish_as("a", Answer::of_json("3"))));
    apply(store, ops, 0).await;
    act(store, "order-9", begin_as("a"), 60).await;
    let now = at(70);
    let list = async |tenant: Option<&str>, filter: &str, page: usize| {
        let tenant = tenant.map(|name| Tenant::new(name).unwrap());
        let filter = EntryFilter::parse(filter, now).unwrap();
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let got = store.entries(tenant.as_ref(), &filter, now, cursor.as_deref(), page).await.unwrap();
            assert!(got.items.len() <= page);
            found.extend(got.items.into_iter().map(|one| format!("{}:{}", one.of.tenant, one.of.key)));
            cursor = got.next_cursor;
            if cursor.is_none() {
                return found;
            }
        }
    };
    let all = list(None, "", 100).await;
    assert_eq!((all.len(), all.is_sorted()), (25, true), "{all:?}");
    for page in [1, 3, 24, 25] {
        assert_eq!(list(None, "", page).await, all, "pages of {page}");
    }
    assert_eq!(list(Some("t"), "", 3).await.len(), 9);
    assert_eq!(list(None, "tenant=s key=order-*", 3).await.len(), 7);
    assert_eq!(list(Some("t"), "state=succeeded", 3).await, ["t:order-3"]);
    assert_eq!(list(None, "age<30s", 3).await, ["t:order-9"]);
    assert_eq!(list(Some("u u"), "key=pay/*", 3).await, ["u u:pay/1"]);
    assert_eq!(list(Some("none"), "", 3).await, Vec::<String>::new());
    // What is over isn't shown, also before it is collected.
    let young = store.entries(None, &EntryFilter::default(), at(100), None, 100).await.unwrap();
    assert_eq!(young.items.len(), 1);
    let bad = store.entries(None, &EntryFilter::default(), now, Some("x"), 10).await.unwrap_err();
    assert!(matches!(bad, StoreError::Statement(_)), "{bad:?}");
}

pub async fn a_transaction_finishes_a_key_with_its_commit_or_not_at_all(store: &impl Store) {
    let conclude = |name: &str, result: &'static str, now: u64| Conclusion {
        hold: Hold { of: of("t", "k"), token: token(name) },
        answer: Arc::new(move |_| Answer::of_json(result)),
        now: at(now),
    };
    act(store, "k", begin_as("a"), 0).await;
    act(store, "k", begin_as("b"), 10).await;
    let send = |name: &str| vec![group(ShardId(0), vec![message(name)])];
    let lost =
        store.transact(Vec::new(), send("stale"), Default::default(), Some(conclude("a", "1", 11))).await.unwrap_err();
    assert_eq!((lost.code().as_str(), lost.retryable()), ("TX.LEASE_LOST", false));
    assert!(store.door(ShardId(0), 0, u64::MAX >> 1, None, 10).await.unwrap().is_empty());
    store.transact(Vec::new(), send("good"), Default::default(), Some(conclude("b", "2", 12))).await.unwrap();
    assert_eq!(store.door(ShardId(0), 0, u64::MAX >> 1, None, 10).await.unwrap().len(), 1);
    assert_eq!(act(store, "k", begin_as("c"), 13).await, succeeded(Answer::of_json("2")));
    // The same conclusion again, as after an unknown outcome.
    store.transact(Vec::new(), Vec::new(), Default::default(), Some(conclude("b", "2", 14))).await.unwrap();
}
