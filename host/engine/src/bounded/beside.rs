//! What parts beside the owners ask of the store: state of plugins, API tokens, and schedules.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_core::port::kv::{KvEntry, KvError, KvExpectation, KvQuota, KvStore};
use waybill_core::port::schedules::ScheduleStore;
use waybill_core::port::store::StoreError;
use waybill_core::port::tokens::{StoredToken, TokenStore};
use waybill_core::port::transact::DoorGroup;
use waybill_core::schedule::{Schedule, ScheduleKey};

use super::{Bounded, GivenUp, within};

impl GivenUp for KvError {
    fn given_up(what: String) -> Self {
        Self::Unavailable(what)
    }
}

#[async_trait]
impl KvStore for Bounded<dyn KvStore> {
    async fn get(&self, scope: &str, key: &str) -> Result<Option<KvEntry>, KvError> {
        within!(self.get(scope, key))
    }
    async fn put(
        &self,
        scope: &str,
        key: &str,
        value: Bytes,
        expect: KvExpectation,
        quota: KvQuota,
    ) -> Result<String, KvError> {
        within!(self.put(scope, key, value, expect, quota))
    }
    async fn remove(&self, scope: &str, key: &str, expect: KvExpectation) -> Result<(), KvError> {
        within!(self.remove(scope, key, expect))
    }
    async fn keys(&self, scope: &str, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, KvError> {
        within!(self.keys(scope, prefix, after, limit))
    }
}

#[async_trait]
impl TokenStore for Bounded<dyn TokenStore> {
    async fn add_token(&self, token: &StoredToken) -> Result<(), StoreError> {
        within!(self.add_token(token))
    }
    async fn remove_token(&self, name: &str) -> Result<bool, StoreError> {
        within!(self.remove_token(name))
    }
    async fn stored_tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
        within!(self.stored_tokens())
    }
}

#[async_trait]
impl ScheduleStore for Bounded<dyn ScheduleStore> {
    async fn add_schedule(&self, schedule: &Schedule) -> Result<(), StoreError> {
        within!(self.add_schedule(schedule))
    }
    async fn change_schedule(&self, next: &Schedule, messages: Vec<DoorGroup>) -> Result<(), StoreError> {
        within!(self.change_schedule(next, messages))
    }
    async fn remove_schedule(&self, key: &ScheduleKey) -> Result<bool, StoreError> {
        within!(self.remove_schedule(key))
    }
    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        within!(self.schedule(key))
    }
    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        within!(self.schedules())
    }
}

/// Schedules with `limit` on every call; one that is given up is [`StoreError::Unavailable`].
pub(crate) fn bounded_schedules(store: Arc<dyn ScheduleStore>, limit: Duration) -> Arc<dyn ScheduleStore> {
    Bounded::new(store, limit)
}

/// API tokens with `limit` on every call; one that is given up is [`StoreError::Unavailable`].
pub fn bounded_tokens(store: Arc<dyn TokenStore>, limit: Duration) -> Arc<dyn TokenStore> {
    Bounded::new(store, limit)
}

/// Plugins' state with `limit` on every call; one that is given up is [`KvError::Unavailable`].
pub fn bounded_kv(store: Arc<dyn KvStore>, limit: Duration) -> Arc<dyn KvStore> {
    Bounded::new(store, limit)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A store that never answers.
    struct Silent;

    #[async_trait]
    impl KvStore for Silent {
        async fn get(&self, _: &str, _: &str) -> Result<Option<KvEntry>, KvError> {
            std::future::pending().await
        }
        async fn put(&self, _: &str, _: &str, _: Bytes, _: KvExpectation, _: KvQuota) -> Result<String, KvError> {
            std::future::pending().await
        }
        async fn remove(&self, _: &str, _: &str, _: KvExpectation) -> Result<(), KvError> {
            std::future::pending().await
        }
        async fn keys(&self, _: &str, _: &str, _: Option<&str>, _: u32) -> Result<Vec<String>, KvError> {
            std::future::pending().await
        }
    }

    #[async_trait]
    impl TokenStore for Silent {
        async fn add_token(&self, _: &StoredToken) -> Result<(), StoreError> {
            std::future::pending().await
        }
        async fn remove_token(&self, _: &str) -> Result<bool, StoreError> {
            std::future::pending().await
        }
        async fn stored_tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_that_are_never_answered_are_given_up() {
        let store = bounded_tokens(Arc::new(Silent), Duration::from_secs(60));
        assert!(matches!(store.stored_tokens().await, Err(StoreError::Unavailable(_))));
        assert!(matches!(store.remove_token("ci").await, Err(StoreError::Unavailable(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn plugins_state_that_never_answers_is_given_up() {
        let store = bounded_kv(Arc::new(Silent), Duration::from_secs(60));
        let all = KvExpectation::Anything;
        let errors = [
            store.get("s", "k").await.unwrap_err(),
            store.put("s", "k", Bytes::new(), all.clone(), KvQuota::default()).await.unwrap_err(),
            store.remove("s", "k", all).await.unwrap_err(),
            store.keys("s", "", None, 1).await.unwrap_err(),
        ];
        for (error, call) in errors.iter().zip(["get", "put", "remove", "keys"]) {
            assert_eq!(*error, KvError::Unavailable(format!("it didn't answer {call} within 60s")));
            assert!(error.retryable());
        }
    }
}
