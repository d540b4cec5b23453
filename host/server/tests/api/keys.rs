//! Idempotency keys in memory, by the core's own rules and a clock that a test sets.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use waybill_api::idempotency::{BeginRequest, IdempotencyService, KeyView};
use waybill_core::idempotency::{
    Act, Answer, Begun, Entry, EntryFilter, EntryKey, EntryState, Reply, Settings, decide,
};
use waybill_core::ids::{HoldToken, RequestHash, Tenant};
use waybill_core::port::idempotency::{FoundEntry, Hold};
use waybill_core::port::missing::Missing;
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::time::UnixMillis;

use crate::support::NOW;

type Served<T> = Result<T, ServiceError>;

/// A key whose every act succeeds, whoever has it: for tests that try every call.
pub const EXAMPLE: &str = "example";

/// The keys of a host.
#[derive(Default)]
pub struct Keys {
    pub settings: Mutex<Option<Settings>>,
    pub entries: Mutex<BTreeMap<EntryKey, Entry>>,
    /// How far its clock is past [`NOW`], in milliseconds.
    pub after: AtomicU64,
    /// Every act fails like this.
    pub fails: Mutex<Option<ServiceError>>,
    tokens: AtomicU64,
}

impl Keys {
    pub fn set(&self, settings: Settings) {
        *self.settings.lock().unwrap() = Some(settings);
    }
    pub fn pass(&self, time: Duration) {
        self.after.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }
    pub fn now(&self) -> UnixMillis {
        UnixMillis(NOW.0 + self.after.load(Ordering::Relaxed))
    }
    /// The only entry; fails when there are more or none.
    pub fn only(&self) -> Entry {
        let entries = self.entries.lock().unwrap();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.values().next().unwrap().clone()
    }
    fn act(&self, of: &EntryKey, act: &Act) -> Served<Reply> {
        if let Some(error) = self.fails.lock().unwrap().clone() {
            return Err(error);
        }
        let mut entries = self.entries.lock().unwrap();
        let decision = decide(entries.get(of), act, self.now());
        match decision.next {
            Some(entry) => entries.insert(of.clone(), entry),
            None => entries.remove(of),
        };
        Ok(decision.reply)
    }
    fn hold(&self, hold: &Hold, act: &Act) -> Served<()> {
        match self.act(&hold.of, act)? {
            _ if hold.of.key.as_str() == EXAMPLE => Ok(()),
            Reply::Applied => Ok(()),
            _ => Err(ServiceError::LeaseLost { what: "idempotency key", id: hold.of.key.to_string() }),
        }
    }
    fn missing(of: &EntryKey) -> ServiceError {
        ServiceError::NotFound { what: Missing::IdempotencyKey, id: of.key.to_string() }
    }
}

#[async_trait]
impl IdempotencyService for Keys {
    fn settings(&self) -> Settings {
        self.settings.lock().unwrap().unwrap_or_default()
    }
    async fn begin(&self, request: BeginRequest) -> Served<Begun> {
        let settings = self.settings();
        let token = HoldToken::new(format!("t-{}", self.tokens.fetch_add(1, Ordering::Relaxed) + 1)).unwrap();
        if request.of.key.as_str() == EXAMPLE {
            self.entries.lock().unwrap().remove(&request.of);
        }
        let (ttl, lease) = (request.ttl.unwrap_or(settings.ttl), request.lease.unwrap_or(settings.lease));
        match self.act(&request.of, &Act::Begin { hash: request.hash, token, ttl, lease })? {
            Reply::Begin(begun) => Ok(begun),
            other => panic!("{other:?}"),
        }
    }
    async fn finish(&self, hold: Hold, answer: Answer) -> Served<Answer> {
        let answer = answer.kept(&self.settings());
        self.hold(&hold, &Act::Finish { token: hold.token.clone(), answer: answer.clone() }).map(|()| answer)
    }
    async fn fail(&self, hold: Hold, error: &str) -> Served<()> {
        self.hold(&hold, &Act::Fail { token: hold.token.clone(), error: error.to_owned() })
    }
    async fn release(&self, hold: Hold) -> Served<()> {
        self.hold(&hold, &Act::Release { token: hold.token.clone() })
    }
    async fn give_up(&self, hold: Hold) -> Served<()> {
        self.hold(&hold, &Act::Yield { token: hold.token.clone() })
    }
    async fn renew(&self, hold: Hold, lease: Option<Duration>) -> Served<UnixMillis> {
        let lease = lease.unwrap_or(self.settings().lease);
        self.hold(&hold, &Act::Renew { token: hold.token.clone(), lease })?;
        if hold.of.key.as_str() == EXAMPLE {
            return Ok(self.now().plus(lease));
        }
        let entry = self.entries.lock().unwrap().get(&hold.of).cloned().unwrap();
        match entry.state {
            EntryState::InFlight { lease_until } => Ok(lease_until),
            other => panic!("{other:?}"),
        }
    }
    async fn entry(&self, of: &EntryKey) -> Served<KeyView> {
        let entry = self.entries.lock().unwrap().get(of).cloned().ok_or_else(|| Self::missing(of))?;
        Ok(FoundEntry { of: of.clone(), entry }.into())
    }
    async fn entries(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Served<Page<KeyView>> {
        let filter = EntryFilter::parse(filter, self.now())?;
        let after = cursor.map(|cursor| EntryKey::from_cursor(cursor).unwrap());
        let entries = self.entries.lock().unwrap();
        let mut items: Vec<FoundEntry> = entries
            .iter()
            .filter(|(of, entry)| tenant.is_none_or(|tenant| of.tenant == *tenant) && filter.takes(of, entry))
            .filter(|(of, _)| after.as_ref().is_none_or(|after| *of > after))
            .map(|(of, entry)| FoundEntry { of: of.clone(), entry: entry.clone() })
            .collect();
        let more = items.len() > limit;
        items.truncate(limit);
        let next_cursor = items.last().filter(|_| more).map(|last| last.of.to_cursor());
        Ok(Page { items: items.into_iter().map(KeyView::from).collect(), next_cursor })
    }
    async fn forget(&self, of: &EntryKey, finished: bool, _: &str, _: &str) -> Served<KeyView> {
        if of.key.as_str() == EXAMPLE {
            let hash = RequestHash::new("h").unwrap();
            self.begin(BeginRequest { of: of.clone(), hash, ttl: None, lease: None }).await?;
        }
        match self.act(of, &Act::Forget { finished })? {
            Reply::Forgotten(entry) => Ok(FoundEntry { of: of.clone(), entry: *entry }.into()),
            Reply::Finished => Err(ServiceError::State {
                what: "idempotency key",
                id: of.key.to_string(),
                state: "finished".into(),
                fix: "say finished",
            }),
            _ => Err(Self::missing(of)),
        }
    }
}
