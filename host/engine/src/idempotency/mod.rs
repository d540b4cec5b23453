//! Idempotency keys as the API sees them.
//!
//! | file | holds |
//! |---|---|
//! | `lane` | acts that wait for a commit, and the commits |
//! | `cache` | entries in memory |
//! | `meter` | metrics |
//!
//! A key always goes to the same lane, whose acts commit together and one commit after another; so all acts of this host
//! on one key are in order. What memory knows for sure is answered from it, by the same rules.

mod cache;
mod lane;
mod meter;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use waybill_api::idempotency::{BeginRequest, IdempotencyService, KeyView};
use waybill_core::idempotency::{
    Act, Answer, Applied, Begun, EntryFilter, EntryKey, EntryState, Op, Reply, Settings, cut_error, known_answer,
};
use waybill_core::ids::{HoldToken, Tenant};
use waybill_core::port::idempotency::{FoundEntry, Hold};
use waybill_core::port::missing::Missing;
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::port::transact::AuditEvent;
use waybill_core::time::{SteadyClock, UnixMillis};

use crate::service::audit;
use crate::shard::Context;
use cache::Cache;
use lane::Lane;
use meter::IdempotencyMeter;

/// Lanes, each with one commit outstanding: while one commit waits for the disk, the other one is made.
const LANES: usize = 2;

/// What an operator's release of a key is called in the audit trail.
const RELEASED: &str = "IdempotencyReleased";

/// Idempotency keys of this host.
pub(crate) struct Idempotency {
    shared: Arc<Shared>,
    lanes: Vec<Lane>,
    spread: RandomState,
}

struct Shared {
    context: Arc<Context>,
    cache: Cache,
    clock: Mutex<SteadyClock>,
    meter: IdempotencyMeter,
}

impl Shared {
    fn settings(&self) -> Settings {
        self.context.live().config.idempotency
    }

    /// The instant, which never goes back.
    fn now(&self) -> UnixMillis {
        self.clock.lock().at(self.context.clock.now())
    }
}

fn lost(of: &EntryKey) -> ServiceError {
    ServiceError::LeaseLost { what: "idempotency key", id: of.key.to_string() }
}

fn absent(of: &EntryKey) -> ServiceError {
    ServiceError::NotFound { what: Missing::IdempotencyKey, id: of.key.to_string() }
}

impl Idempotency {
    /// Starts the lanes. They end with the engine.
    pub fn start(context: Arc<Context>) -> Arc<Self> {
        let shared = Arc::new(Shared {
            cache: Cache::new(context.config.exclusive),
            clock: Mutex::default(),
            meter: IdempotencyMeter::new(),
            context,
        });
        let lanes = (0..LANES).map(|_| Lane::start(Arc::clone(&shared))).collect();
        Arc::new(Self { shared, lanes, spread: RandomState::new() })
    }

    /// The instant by which keys are judged.
    pub fn now(&self) -> UnixMillis {
        self.shared.now()
    }

    /// Has an act done, durably.
    async fn act(&self, of: &EntryKey, act: Act) -> Result<Applied, ServiceError> {
        let index = self.spread.hash_one(of) % LANES as u64;
        let lane = usize::try_from(index).ok().and_then(|index| self.lanes.get(index));
        let Some(lane) = lane else { return Err(ServiceError::Unavailable("it has no lane for this key".to_owned())) };
        lane.act(Op { of: of.clone(), act }).await
    }

    /// Has an act of a holder done.
    async fn hold(&self, hold: &Hold, act: Act, name: &'static str) -> Result<Applied, ServiceError> {
        let done = self.act(&hold.of, act).await?;
        match done.reply {
            Reply::Applied => {
                self.shared.meter.settled(name);
                Ok(done)
            }
            _ => {
                self.shared.meter.lost();
                Err(lost(&hold.of))
            }
        }
    }

    /// Learns that a transaction has finished a key in its own commit. Its entry is read in the key's lane, so that what memory
    /// says of it comes neither before a renewal that is under way nor behind an operator's release.
    pub async fn concluded(&self, hold: &Hold) {
        self.shared.meter.settled("finish");
        // Of a finished key this changes nothing.
        let look = Act::Yield { token: hold.token.clone() };
        if let Err(error) = self.act(&hold.of, look).await {
            tracing::debug!(code = error.code().as_str(), %error, "a finished idempotency key couldn't be read again");
            self.shared.cache.remove(&hold.of);
        }
    }
}

#[async_trait]
impl IdempotencyService for Idempotency {
    fn settings(&self) -> Settings {
        self.shared.settings()
    }

    async fn begin(&self, request: BeginRequest) -> Result<Begun, ServiceError> {
        let (settings, read) = (self.shared.settings(), self.shared.context.clock.now());
        let now = self.shared.clock.lock().at(read);
        let cached = self.shared.cache.get(&request.of, &settings, read);
        if let Some(begun) = cached.and_then(|entry| known_answer(&entry, &request.hash, now)) {
            self.shared.meter.begun(&begun, true);
            return Ok(begun);
        }
        let act = Act::Begin {
            hash: request.hash,
            token: HoldToken::of_bits(rand::random()),
            ttl: request.ttl.unwrap_or(settings.ttl),
            lease: request.lease.unwrap_or(settings.lease),
        };
        match self.act(&request.of, act).await?.reply {
            Reply::Begin(begun) => {
                self.shared.meter.begun(&begun, false);
                Ok(begun)
            }
            // A begin is answered with nothing else.
            _ => Err(lost(&request.of)),
        }
    }

    async fn finish(&self, hold: Hold, answer: Answer) -> Result<Answer, ServiceError> {
        let answer = answer.kept(&self.shared.settings());
        let act = Act::Finish { token: hold.token.clone(), answer: answer.clone() };
        self.hold(&hold, act, "finish").await.map(|_| answer)
    }

    async fn fail(&self, hold: Hold, error: &str) -> Result<(), ServiceError> {
        let act = Act::Fail { token: hold.token.clone(), error: cut_error(error) };
        self.hold(&hold, act, "fail").await.map(|_| ())
    }

    async fn release(&self, hold: Hold) -> Result<(), ServiceError> {
        self.hold(&hold, Act::Release { token: hold.token.clone() }, "release").await.map(|_| ())
    }

    async fn give_up(&self, hold: Hold) -> Result<(), ServiceError> {
        self.hold(&hold, Act::Yield { token: hold.token.clone() }, "yield").await.map(|_| ())
    }

    async fn renew(&self, hold: Hold, lease: Option<Duration>) -> Result<UnixMillis, ServiceError> {
        let lease = lease.unwrap_or(self.shared.settings().lease);
        let done = self.act(&hold.of, Act::Renew { token: hold.token.clone(), lease }).await?;
        match (done.reply, done.entry.map(|entry| entry.state)) {
            (Reply::Applied, Some(EntryState::InFlight { lease_until })) => Ok(lease_until),
            _ => {
                self.shared.meter.lost();
                Err(lost(&hold.of))
            }
        }
    }

    async fn entry(&self, of: &EntryKey) -> Result<KeyView, ServiceError> {
        let found = self.shared.context.stores.idempotency.entry(of, self.now()).await?;
        found.map(|entry| FoundEntry { of: of.clone(), entry }.into()).ok_or_else(|| absent(of))
    }

    async fn entries(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<KeyView>, ServiceError> {
        let now = self.now();
        let filter = EntryFilter::parse(filter, now)?;
        let page = self.shared.context.stores.idempotency.entries(tenant, &filter, now, cursor, limit).await?;
        Ok(Page { items: page.items.into_iter().map(KeyView::from).collect(), next_cursor: page.next_cursor })
    }

    async fn forget(&self, of: &EntryKey, finished: bool, reason: &str, actor: &str) -> Result<KeyView, ServiceError> {
        let entry = match self.act(of, Act::Forget { finished }).await?.reply {
            Reply::Forgotten(entry) => *entry,
            Reply::Finished => {
                return Err(ServiceError::State {
                    what: "idempotency key",
                    id: of.key.to_string(),
                    state: "finished".to_owned(),
                    fix: "its outcome is known; to forget that too, so that the key may execute again, release it with finished = true",
                });
            }
            _ => return Err(absent(of)),
        };
        self.shared.meter.settled("forget");
        let event = AuditEvent {
            at: self.now(),
            kind: RELEASED.to_owned(),
            actor: actor.to_owned(),
            tenant: Some(of.tenant.to_string()),
            object: of.key.to_string(),
            detail: serde_json::json!({
                "reason": reason, "state": entry.word().word(), "begun": entry.begun, "hash": entry.hash.as_str(),
            }),
        };
        let context = Arc::clone(&self.shared.context);
        // It ends whether or not anybody waits.
        let _ended = tokio::spawn(async move { audit(&context, &event).await }).await;
        Ok(FoundEntry { of: of.clone(), entry }.into())
    }
}
