//! `kv`: small durable state over the core's port, and an in-memory one for tests and `plugin test`.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use waybill_bindings::api::kv::{Entry, Expectation, Host, KvError};
use waybill_core::port::kv::{KV_KEY_BYTES_MAX, KvEntry, KvError as Failure, KvExpectation, KvQuota, KvStore};

use super::context::EndpointContext;
use super::state::InstanceState;
use crate::limits::KV_KEYS_MAX;
use crate::meters::Bound;

type Access<'a> = (&'a dyn KvStore, KvQuota);

/// The endpoint's store; the contract has no `denied` here, so the text says what is missing.
fn granted(context: &EndpointContext) -> Result<Access<'_>, KvError> {
    context.kv.as_ref().map(|(store, quota)| (&**store, *quota)).ok_or_else(|| {
        let why = "kv isn't granted: the manifest must ask for feature kv, and the endpoint needs `allow.kv = true`";
        context.denied(why);
        KvError::Unavailable(why.to_owned())
    })
}

fn too_large(context: &EndpointContext) -> KvError {
    context.meters.hit(Bound::Kv);
    KvError::TooLarge
}

fn failure(context: &EndpointContext, error: Failure) -> KvError {
    match error {
        Failure::TooLarge { .. } => too_large(context),
        Failure::Conflict => KvError::Conflict,
        Failure::Unavailable(why) => KvError::Unavailable(why),
    }
}

fn expectation(expect: Expectation) -> KvExpectation {
    match expect {
        Expectation::Anything => KvExpectation::Anything,
        Expectation::Absent => KvExpectation::Absent,
        Expectation::Revision(revision) => KvExpectation::Revision(revision),
    }
}

fn checked<'k>(context: &EndpointContext, key: &'k str) -> Result<&'k str, KvError> {
    if key.is_empty() || key.len() > KV_KEY_BYTES_MAX { Err(too_large(context)) } else { Ok(key) }
}

impl Host for InstanceState {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Entry>, KvError>> {
        Ok(async {
            let (store, _) = granted(&self.context)?;
            let found = store
                .get(&self.context.name, checked(&self.context, &key)?)
                .await
                .map_err(|error| failure(&self.context, error))?;
            Ok(found.map(|entry| Entry { value: entry.value.into(), revision: entry.revision }))
        }
        .await)
    }

    async fn put(
        &mut self,
        key: String,
        value: Vec<u8>,
        expect: Expectation,
    ) -> wasmtime::Result<Result<String, KvError>> {
        Ok(async {
            let (store, quota) = granted(&self.context)?;
            if value.len() > quota.value_bytes_max {
                return Err(too_large(&self.context));
            }
            let key = checked(&self.context, &key)?;
            store
                .put(&self.context.name, key, value.into(), expectation(expect), quota)
                .await
                .map_err(|error| failure(&self.context, error))
        }
        .await)
    }

    async fn remove(&mut self, key: String, expect: Expectation) -> wasmtime::Result<Result<(), KvError>> {
        Ok(async {
            let (store, _) = granted(&self.context)?;
            store
                .remove(&self.context.name, checked(&self.context, &key)?, expectation(expect))
                .await
                .map_err(|error| failure(&self.context, error))
        }
        .await)
    }

    async fn keys(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> wasmtime::Result<Result<Vec<String>, KvError>> {
        Ok(async {
            let (store, _) = granted(&self.context)?;
            let limit = limit.min(KV_KEYS_MAX);
            store
                .keys(&self.context.name, &prefix, after.as_deref(), limit)
                .await
                .map_err(|error| failure(&self.context, error))
        }
        .await)
    }
}

/// A [`KvStore`] in memory: lost with the process.
#[derive(Debug, Default)]
pub struct MemoryKv {
    scopes: Mutex<BTreeMap<String, Scope>>,
}

#[derive(Debug, Default)]
struct Scope {
    writes: u64,
    entries: BTreeMap<String, KvEntry>,
}

impl Scope {
    fn check(&self, key: &str, expect: &KvExpectation) -> Result<(), Failure> {
        let found = self.entries.get(key);
        let holds = match expect {
            KvExpectation::Anything => true,
            KvExpectation::Absent => found.is_none(),
            KvExpectation::Revision(revision) => found.is_some_and(|entry| entry.revision == *revision),
        };
        if holds { Ok(()) } else { Err(Failure::Conflict) }
    }

    fn bytes_without(&self, key: &str) -> usize {
        self.entries.iter().filter(|(own, _)| *own != key).map(|(own, entry)| own.len() + entry.value.len()).sum()
    }
}

#[async_trait]
impl KvStore for MemoryKv {
    async fn get(&self, scope: &str, key: &str) -> Result<Option<KvEntry>, Failure> {
        Ok(self.scopes.lock().get(scope).and_then(|scope| scope.entries.get(key).cloned()))
    }

    async fn put(
        &self,
        scope: &str,
        key: &str,
        value: Bytes,
        expect: KvExpectation,
        quota: KvQuota,
    ) -> Result<String, Failure> {
        let mut scopes = self.scopes.lock();
        let scope = scopes.entry(scope.to_owned()).or_default();
        scope.check(key, &expect)?;
        for (what, is, max) in [
            ("key", key.len(), KV_KEY_BYTES_MAX),
            ("value", value.len(), quota.value_bytes_max),
            ("total", scope.bytes_without(key) + key.len() + value.len(), quota.total_bytes_max),
            (
                "number of entries",
                scope.entries.len() + usize::from(!scope.entries.contains_key(key)),
                quota.entries_max,
            ),
        ] {
            if is > max {
                return Err(Failure::TooLarge { what, max });
            }
        }
        scope.writes += 1;
        let revision = scope.writes.to_string();
        scope.entries.insert(key.to_owned(), KvEntry { value, revision: revision.clone() });
        Ok(revision)
    }

    async fn remove(&self, scope: &str, key: &str, expect: KvExpectation) -> Result<(), Failure> {
        let mut scopes = self.scopes.lock();
        let scope = scopes.entry(scope.to_owned()).or_default();
        scope.check(key, &expect)?;
        scope.entries.remove(key);
        Ok(())
    }

    async fn keys(&self, scope: &str, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, Failure> {
        let scopes = self.scopes.lock();
        let Some(scope) = scopes.get(scope) else { return Ok(Vec::new()) };
        Ok(scope
            .entries
            .keys()
            .filter(|key| key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after))
            .take(limit as usize)
            .cloned()
            .collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn writes_are_guarded_by_revision() {
        let kv = MemoryKv::default();
        let quota = KvQuota::default();
        let put = async |expect| kv.put("a", "k", Bytes::from_static(b"v"), expect, quota).await;
        let first = put(KvExpectation::Absent).await.unwrap();
        assert_eq!(put(KvExpectation::Absent).await, Err(Failure::Conflict));
        let second = put(KvExpectation::Revision(first.clone())).await.unwrap();
        assert_ne!(first, second);
        assert_eq!(put(KvExpectation::Revision(first)).await, Err(Failure::Conflict));
        assert_eq!(kv.remove("a", "k", KvExpectation::Revision("no".to_owned())).await, Err(Failure::Conflict));
        assert_eq!(kv.remove("a", "missing", KvExpectation::Anything).await, Ok(()));
    }

    #[tokio::test]
    async fn scopes_are_apart_and_keys_come_in_order() {
        let kv = MemoryKv::default();
        for (scope, key) in [("a", "x2"), ("a", "x1"), ("a", "y"), ("b", "x0")] {
            kv.put(scope, key, Bytes::new(), KvExpectation::Anything, KvQuota::default()).await.unwrap();
        }
        assert_eq!(kv.keys("a", "x", None, 10).await.unwrap(), ["x1", "x2"]);
        assert_eq!(kv.keys("a", "", Some("x1"), 1).await.unwrap(), ["x2"]);
    }

    #[tokio::test]
    async fn the_quota_holds() {
        let kv = MemoryKv::default();
        let quota = KvQuota { value_bytes_max: 4, total_bytes_max: 6, entries_max: 2 };
        let put = async |key: &str, value: &'static [u8]| {
            kv.put("a", key, Bytes::from_static(value), KvExpectation::Anything, quota).await.is_ok()
        };
        assert!(!put("a", b"12345").await);
        assert!(put("a", b"1234").await && put("a", b"12").await && put("b", b"12").await);
        assert!(!put("b", b"123").await);
        assert!(!put("c", b"").await);
    }
}
