//! The store with a time limit on every call: what never answers becomes an error instead of a task that waits for ever.
//!
//! A call that is given up is told as [`StoreError::Unavailable`]. Of a write that means what it means everywhere: nobody
//! knows whether it went in, so whoever wrote finds out before anything else is built on it.
//!
//! | file | holds |
//! |---|---|
//! | `owner` | reads and commits of a shard's owner |
//! | `people` | reads for people, quarantine, writes from outside the owner, payload dedup, idempotency keys |
//! | `sagas` | sagas |
//! | `inbox` | the inbox |
//! | `streams` | event streams |
//! | `beside` | plugins' state, API tokens and schedules, for parts beside the owners |

mod beside;
mod inbox;
mod owner;
mod people;
mod sagas;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::port::saga_store::SagaStore;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::StreamStore;
use waybill_core::port::transact::TransactStore;

use crate::config::Stores;

pub(crate) use beside::bounded_schedules;
pub use beside::{bounded_kv, bounded_tokens};

/// A walk over all of a table gets so many times as long as a call.
const WALK_TIMES: u32 = 10;
/// A transaction of many statements gets at most so many times as long.
const STATEMENTS_TIMES_MAX: u32 = 10;

/// An error that can say that a call was given up.
trait GivenUp {
    fn given_up(what: String) -> Self;
}

impl GivenUp for StoreError {
    fn given_up(what: String) -> Self {
        Self::Unavailable(what)
    }
}

/// A port of the store whose calls end.
struct Bounded<S: ?Sized> {
    store: Arc<S>,
    limit: Duration,
}

impl<S: ?Sized> Bounded<S> {
    fn new(store: Arc<S>, limit: Duration) -> Arc<Self> {
        Arc::new(Self { store, limit })
    }

    async fn within<T, E: GivenUp>(
        &self,
        name: &'static str,
        times: u32,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let limit = self.limit.saturating_mul(times);
        timeout(limit, call).await.unwrap_or_else(|_| {
            metrics::counter!("waybill_store_timeouts_total", "call" => name).increment(1);
            tracing::error!(call = name, ?limit, "the store didn't answer in time and the call is given up");
            Err(E::given_up(format!("it didn't answer {name} within {limit:?}")))
        })
    }
}

/// Makes a call of the port within its time, or within so many times as long.
macro_rules! within {
    ($self:ident . $name:ident ( $($argument:expr),* )) => {
        $self.within(stringify!($name), 1, $self.store.$name($($argument),*)).await
    };
    ($self:ident . $name:ident ( $($argument:expr),* ), $times:expr) => {
        $self.within(stringify!($name), $times, $self.store.$name($($argument),*)).await
    };
}
use within;

/// The stores with `limit` on every call.
pub(crate) fn bounded(stores: Stores, limit: Duration) -> Stores {
    Stores {
        owner: Bounded::new(stores.owner, limit),
        query: Bounded::new(stores.query, limit),
        transact: Bounded::new(stores.transact, limit),
        dedup: Bounded::new(stores.dedup, limit),
        idempotency: Bounded::new(stores.idempotency, limit),
    }
}

/// What callers and operators write, with `limit` on every call: for parts beside the engine that keep the audit trail.
pub fn bounded_transact(store: Arc<dyn TransactStore>, limit: Duration) -> Arc<dyn TransactStore> {
    Bounded::new(store, limit)
}

/// The store of the inbox with `limit` on every call.
pub(crate) fn bounded_inbox(store: Arc<dyn InboxStore>, limit: Duration) -> Arc<dyn InboxStore> {
    Bounded::new(store, limit)
}

/// The store of event streams with `limit` on every call.
pub(crate) fn bounded_streams(store: Arc<dyn StreamStore>, limit: Duration) -> Arc<dyn StreamStore> {
    Bounded::new(store, limit)
}

/// The store of sagas with `limit` on every call.
pub(crate) fn bounded_sagas(store: Arc<dyn SagaStore>, limit: Duration) -> Arc<dyn SagaStore> {
    Bounded::new(store, limit)
}
