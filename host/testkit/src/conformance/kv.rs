//! State of plugins.

use bytes::Bytes;
use waybill_core::port::kv::{KvError, KvExpectation, KvQuota};

use super::Store;

const QUOTA: KvQuota = KvQuota { value_bytes_max: 10, total_bytes_max: 40, entries_max: 3 };

async fn put(store: &impl Store, scope: &str, key: &str, value: &str) -> Result<String, KvError> {
    store.put(scope, key, Bytes::copy_from_slice(value.as_bytes()), KvExpectation::Anything, QUOTA).await
}

pub async fn an_entry_comes_back_with_its_revision(store: &impl Store) {
    assert_eq!(store.get("s", "k").await.unwrap(), None);
    let first = put(store, "s", "k", "one").await.unwrap();
    let second = put(store, "s", "k", "two").await.unwrap();
    assert_ne!(first, second);
    let entry = store.get("s", "k").await.unwrap().unwrap();
    assert_eq!((entry.value.as_ref(), entry.revision), (&b"two"[..], second));
    store.remove("s", "k", KvExpectation::Anything).await.unwrap();
    store.remove("s", "k", KvExpectation::Anything).await.unwrap();
    assert_eq!(store.get("s", "k").await.unwrap(), None);
    assert_ne!(put(store, "s", "k", "two").await.unwrap(), first);
}

pub async fn expectations_are_held(store: &impl Store) {
    let value = Bytes::from_static(b"v");
    let with = |expect| store.put("s", "k", value.clone(), expect, QUOTA);
    assert_eq!(with(KvExpectation::Revision("1".into())).await.unwrap_err(), KvError::Conflict);
    let revision = with(KvExpectation::Absent).await.unwrap();
    assert_eq!(with(KvExpectation::Absent).await.unwrap_err(), KvError::Conflict);
    let newer = with(KvExpectation::Revision(revision.clone())).await.unwrap();
    assert_eq!(with(KvExpectation::Revision(revision.clone())).await.unwrap_err(), KvError::Conflict);
    assert_eq!(store.remove("s", "k", KvExpectation::Revision(revision)).await.unwrap_err(), KvError::Conflict);
    store.remove("s", "k", KvExpectation::Revision(newer.clone())).await.unwrap();
    assert_eq!(store.remove("s", "k", KvExpectation::Revision(newer)).await.unwrap_err(), KvError::Conflict);
}

pub async fn quotas_are_kept(store: &impl Store) {
    let too_large =
        |result: Result<String, KvError>| assert!(matches!(result, Err(KvError::TooLarge { .. })), "{result:?}");
    too_large(put(store, "s", "k", "eleven chars").await);
    too_large(put(store, "s", &"k".repeat(513), "v").await);
    for key in ["a", "b", "c"] {
        put(store, "s", key, "1234567890").await.unwrap();
    }
    too_large(put(store, "s", "d", "v").await);
    put(store, "s", "a", "v").await.unwrap();
    store.remove("s", "b", KvExpectation::Anything).await.unwrap();
    put(store, "s", "d", "v").await.unwrap();
    too_large(put(store, "s", &"k".repeat(30), "v").await);
    too_large(
        store
            .put(
                "s",
                "a",
                Bytes::from_static(b"1234567890"),
                KvExpectation::Anything,
                KvQuota { total_bytes_max: 20, ..QUOTA },
            )
            .await,
    );
}

pub async fn keys_are_listed_in_order_by_prefix(store: &impl Store) {
    let quota = KvQuota { entries_max: 100, total_bytes_max: 10_000, ..QUOTA };
    for key in ["b/2", "a/1", "b/10", "b/1", "c", "b", "ü/1"] {
        store.put("s", key, Bytes::new(), KvExpectation::Anything, quota).await.unwrap();
    }
    put(store, "t", "b/9", "").await.unwrap();
    assert_eq!(store.keys("s", "b/", None, 10).await.unwrap(), ["b/1", "b/10", "b/2"]);
    assert_eq!(store.keys("s", "b/", Some("b/1"), 1).await.unwrap(), ["b/10"]);
    assert_eq!(store.keys("s", "", None, 10).await.unwrap(), ["a/1", "b", "b/1", "b/10", "b/2", "c", "ü/1"]);
    assert_eq!(store.keys("s", "", Some("b/2"), 10).await.unwrap(), ["c", "ü/1"]);
    assert!(store.keys("s", "x", None, 10).await.unwrap().is_empty());
    assert!(store.keys("s", "", None, 0).await.unwrap().is_empty());
}

pub async fn scopes_are_apart(store: &impl Store) {
    put(store, "one", "k", "1").await.unwrap();
    put(store, "two", "k", "2").await.unwrap();
    store.remove("one", "k", KvExpectation::Anything).await.unwrap();
    assert_eq!(store.get("two", "k").await.unwrap().unwrap().value.as_ref(), b"2");
}
