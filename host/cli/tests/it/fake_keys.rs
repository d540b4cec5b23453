//! A host with idempotency keys.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use waybill_api::idempotency::{BeginRequest, IdempotencyService, KeyView};
use waybill_core::idempotency::{Answer, Begun, Entry, EntryFilter, EntryKey, EntryState, Settings};
use waybill_core::ids::{HoldToken, IdempotencyKey, RequestHash, Tenant};
use waybill_core::port::idempotency::{FoundEntry, Hold};
use waybill_core::port::missing::Missing;
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::time::UnixMillis;

use crate::fake_host::{NOW, Recorded};

/// `order-17` is in flight, `pay-1` of acme has succeeded, `gone` isn't there.
pub struct Keys {
    pub seen: Arc<Mutex<Recorded>>,
}

fn entries() -> Vec<FoundEntry> {
    let found = |tenant: &str, key: &str, state: EntryState| FoundEntry {
        of: EntryKey { tenant: Tenant::new(tenant).unwrap(), key: IdempotencyKey::new(key).unwrap() },
        entry: Entry {
            hash: RequestHash::new("9f86d081").unwrap(),
            origin: HoldToken::new("secret-token").unwrap(),
            token: HoldToken::new("secret-token").unwrap(),
            begun: 2,
            state,
            created_at: NOW,
            changed_at: NOW,
            until: NOW.plus(Duration::from_secs(24 * 3600)),
        },
    };
    vec![
        found("acme", "pay-1", EntryState::Succeeded(Answer::of_json("{\"charged\":990}"))),
        found("default", "mail-2", EntryState::Failed("no such address".into())),
        found("default", "order-17", EntryState::InFlight { lease_until: NOW.plus(Duration::from_secs(60)) }),
    ]
}

fn found(of: &EntryKey) -> Result<FoundEntry, ServiceError> {
    let missing = || ServiceError::NotFound { what: Missing::IdempotencyKey, id: of.key.to_string() };
    entries().into_iter().find(|found| found.of == *of).ok_or_else(missing)
}

fn refused<T>() -> Result<T, ServiceError> {
    Err(ServiceError::Unavailable("no key is begun here".into()))
}

#[async_trait]
impl IdempotencyService for Keys {
    fn settings(&self) -> Settings {
        Settings::default()
    }
    async fn begin(&self, _: BeginRequest) -> Result<Begun, ServiceError> {
        refused()
    }
    async fn finish(&self, _: Hold, _: Answer) -> Result<Answer, ServiceError> {
        refused()
    }
    async fn fail(&self, _: Hold, _: &str) -> Result<(), ServiceError> {
        refused()
    }
    async fn release(&self, _: Hold) -> Result<(), ServiceError> {
        refused()
    }
    async fn give_up(&self, _: Hold) -> Result<(), ServiceError> {
        refused()
    }
    async fn renew(&self, _: Hold, _: Option<Duration>) -> Result<UnixMillis, ServiceError> {
        refused()
    }
    async fn entry(&self, of: &EntryKey) -> Result<KeyView, ServiceError> {
        found(of).map(KeyView::from)
    }
    async fn entries(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        _: Option<&str>,
        limit: usize,
    ) -> Result<Page<KeyView>, ServiceError> {
        let filter = EntryFilter::parse(filter, NOW)?;
        let mut items = entries();
        items.retain(|found| {
            tenant.is_none_or(|tenant| found.of.tenant == *tenant) && filter.takes(&found.of, &found.entry)
        });
        items.truncate(limit);
        Ok(Page { items: items.into_iter().map(KeyView::from).collect(), next_cursor: None })
    }
    async fn forget(&self, of: &EntryKey, finished: bool, reason: &str, _: &str) -> Result<KeyView, ServiceError> {
        let found = found(of)?;
        if found.entry.is_finished() && !finished {
            return Err(ServiceError::State {
                what: "idempotency key",
                id: of.key.to_string(),
                state: "finished".into(),
                fix: "release it with finished = true",
            });
        }
        self.seen.lock().unwrap().acts.push(format!("forget {} {} {finished} {reason}", of.tenant, of.key));
        Ok(found.into())
    }
}
