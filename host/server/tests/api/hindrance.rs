//! What a test puts between the server and a real host: work that waits, fails or panics where no real host can be brought to do
//! so, and a note of everything that was asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use waybill_api::OutboxService;
use waybill_api::dead_letters::*;
use waybill_api::facets::FacetsView;
use waybill_api::glance::{Glance, Totals};
use waybill_api::history::{Changed, ChangesAsked, HistoryView};
use waybill_api::idempotency::*;
use waybill_api::messages::*;
use waybill_api::neighbours::NeighboursView;
use waybill_api::operations::OperationService;
use waybill_api::quarantine::*;
use waybill_api::status::*;
use waybill_api::transports::*;
use waybill_api::workers::*;
use waybill_core::audit::AuditQuery;
use waybill_core::fates::Fates;
use waybill_core::history::Measure;
use waybill_core::idempotency::{Answer, Begun, EntryKey, Settings};
use waybill_core::ids::Tenant;
use waybill_core::new_message::NewMessage;
use waybill_core::port::dead::DeadId;
use waybill_core::port::idempotency::Hold;
use waybill_core::port::provision::ProvisionChange;
use waybill_core::port::query::{Counted, ListOrder, Page};
use waybill_core::port::service::{OperationRequest, ServiceError};
use waybill_core::port::transact::{Operation, Statement};
use waybill_core::streams::joint::JointEvent;
use waybill_core::time::UnixMillis;
use waybill_testkit::fake_streams::FakeStreams;
use waybill_testkit::memory_host::InMemoryHost;

use crate::fake_inbound::FakeInbound;

/// Nothing is in the way until a test says so.
#[derive(Default)]
pub struct Hindrance {
    reached: Mutex<Vec<&'static str>>,
    /// Everything that is asked of the outbox fails like this.
    pub fails: Mutex<Option<ServiceError>>,
    /// Everything that is asked of idempotency keys fails like this.
    pub keys_fail: Mutex<Option<ServiceError>>,
    pub panics: AtomicBool,
    /// New messages and transactions wait here.
    pub gate: Mutex<Option<Arc<Notify>>>,
    /// Readiness is never told.
    pub stuck: AtomicBool,
    /// The host says that it isn't ready.
    pub unready: AtomicBool,
    /// How often readiness was asked for.
    pub asked_ready: AtomicUsize,
    /// The inbox beside the host.
    pub inbound: Arc<FakeInbound>,
    /// The event streams beside it.
    pub streams: Arc<FakeStreams>,
}

impl Hindrance {
    /// Takes what was asked of the outbox so far.
    pub fn reached(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.reached.lock())
    }

    /// How much was asked of the outbox and not taken yet.
    pub fn count(&self) -> usize {
        self.reached.lock().len()
    }

    /// Shuts a gate before new messages and transactions; each notification lets one pass.
    pub fn shut(&self) -> Arc<Notify> {
        let gate = Arc::new(Notify::new());
        *self.gate.lock() = Some(gate.clone());
        gate
    }

    /// Who comes from now on passes.
    pub fn open(&self) {
        *self.gate.lock() = None;
    }

    async fn pass(&self, asked: &'static str) -> Result<(), ServiceError> {
        self.reached.lock().push(asked);
        assert!(!self.panics.load(Ordering::Relaxed), "told to panic with a secret");
        let fails = self.fails.lock().clone();
        fails.map_or(Ok(()), Err)?;
        let gate = self.gate.lock().clone().filter(|_| matches!(asked, "enqueue" | "transact"));
        if let Some(gate) = gate {
            gate.notified().await;
        }
        Ok(())
    }
}

/// A host's outbox and keys behind a hindrance.
pub struct Hindered {
    hindrance: Arc<Hindrance>,
    outbox: Arc<dyn OutboxService>,
    keys: Arc<dyn IdempotencyService>,
}

impl Hindered {
    pub fn new(host: &InMemoryHost, hindrance: &Arc<Hindrance>) -> Self {
        Self { hindrance: hindrance.clone(), outbox: host.outbox.clone(), keys: host.keys.clone() }
    }

    /// The inbox, if it has this dead letter.
    fn inbox_of(&self, dead: &DeadId) -> Option<&FakeInbound> {
        Some(&*self.hindrance.inbound).filter(|inbox| inbox.has(dead))
    }

    async fn pass_keys(&self) -> Result<(), ServiceError> {
        let fails = self.hindrance.keys_fail.lock().clone();
        fails.map_or(Ok(()), Err)
    }
}

/// Implements services of the outbox: each function passes the hindrance, and then the host does it.
macro_rules! hindered {
    ($($service:ident {
        $(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*
        $(plain { $($plain:tt)* })?
    })*) => { $(
        #[async_trait]
        impl $service for Hindered {
            $(
                async fn $name(&self, $($argument: $type),*) -> Result<$answer, ServiceError> {
                    self.hindrance.pass(stringify!($name)).await?;
                    self.outbox.$name($($argument),*).await
                }
            )*
            $($($plain)*)?
        }
    )* };
}

hindered! {
    EnqueueService {
        fn enqueue(messages: Vec<NewMessage>) -> Enqueued;
        fn transact(
            statements: Vec<Statement>,
            messages: Vec<NewMessage>,
            events: Vec<JointEvent>,
            finish: Option<FinishWith>
        ) -> TransactionDone;
    }
    MessageService {
        fn message(tenant: &Tenant, id: &str) -> MessageView;
        fn messages(tenant: Option<&Tenant>, filter: &str, order: ListOrder, cursor: Option<&str>, limit: usize) -> Page<MessageView>;
        fn neighbours(tenant: &Tenant, id: &str) -> NeighboursView;
        fn facets(tenant: Option<&Tenant>, filter: &str) -> FacetsView;
        fn cancel(tenant: &Tenant, id: &str, reason: &str, actor: &str) -> MessageView;
        fn waiting_messages(tenant: Option<&Tenant>, filter: &str, moved_to: Option<UnixMillis>, sample: usize) -> WaitingView;
        fn reschedule(tenant: &Tenant, id: &str, not_before: UnixMillis, reason: &str, actor: &str) -> MessageView;
    }
    DeadLetterService {
        fn dead_letters(tenant: Option<&Tenant>, filter: &str, cursor: Option<&str>, limit: usize) -> Page<DeadLetterView>;
        fn count_dead(tenant: Option<&Tenant>, filter: &str) -> Counted<u64>;
        fn plan_dead(tenant: Option<&Tenant>, ask: PlanAsk<'_>) -> PlannedDead;
        fn dead_groups(tenant: Option<&Tenant>, filter: &str) -> Counted<Vec<DeadGroupView>>;
        fn dead_facets(tenant: Option<&Tenant>, filter: &str) -> FacetsView;
        plain {
            async fn dead_letter(&self, dead: &DeadId) -> Result<DeadLetterView, ServiceError> {
                self.hindrance.pass("dead_letter").await?;
                match self.inbox_of(dead) {
                    Some(inbox) => Ok(inbox.dead_letter(dead)),
                    None => self.outbox.dead_letter(dead).await,
                }
            }
            async fn replay(&self, dead: &DeadId, how: Replay, actor: &str) -> Result<Replayed, ServiceError> {
                self.hindrance.pass("replay").await?;
                match self.inbox_of(dead) {
                    Some(inbox) => Ok(inbox.replay(dead, &how, actor)),
                    None => self.outbox.replay(dead, how, actor).await,
                }
            }
            async fn quarantine(&self, dead: &DeadId, note: &str, actor: &str) -> Result<DeadLetterView, ServiceError> {
                self.hindrance.pass("quarantine").await?;
                match self.inbox_of(dead) {
                    Some(inbox) => Ok(inbox.quarantine(dead, note, actor)),
                    None => self.outbox.quarantine(dead, note, actor).await,
                }
            }
            async fn edit(&self, dead: &DeadId, edited: NewMessage, reason: &str, actor: &str) -> Result<Enqueued, ServiceError> {
                self.hindrance.pass("edit").await?;
                match self.inbox_of(dead) {
                    Some(inbox) => Ok(inbox.edit(dead, edited, reason, actor)),
                    None => self.outbox.edit(dead, edited, reason, actor).await,
                }
            }
        }
    }
    OperationService {
        fn start_operation(request: OperationRequest) -> Operation;
        fn operation(id: &str) -> Operation;
        fn fates(operation: &Operation) -> Fates;
        fn operations(tenant: Option<&Tenant>, limit: usize) -> Vec<Operation>;
        fn with_last_replays(tenant: Option<&Tenant>, groups: Vec<DeadGroupView>) -> Vec<DeadGroupView>;
        fn cancel_operation(id: &str, actor: &str) -> Operation;
    }
    QuarantineService {
        fn quarantined(table: Option<&str>, cursor: Option<&str>, limit: usize) -> Page<QuarantinedView>;
        fn quarantined_row(id: &str) -> QuarantinedContentView;
        fn restore_row(id: &str, reason: &str, actor: &str) -> RestoredRow;
        fn drop_row(id: &str, reason: &str, actor: &str) -> QuarantinedContentView;
    }
    TransportService {
        fn pause(transport: &str, reason: &str, actor: &str) -> TransportView;
        fn resume(transport: &str, reason: &str, actor: &str) -> TransportView;
        fn probe(transport: &str, actor: &str) -> TransportView;
        fn provision(transport: &str, apply: bool, actor: &str) -> Vec<ProvisionChange>;
        plain {
            async fn transports(&self) -> Vec<TransportView> {
                self.outbox.transports().await
            }
        }
    }
    WorkerService {
        fn claim(request: ClaimRequest) -> Vec<ClaimedMessage>;
        fn settle(request: SettleRequest) -> Vec<SettleAnswer>;
        fn check_dedup(tenant: &Tenant, target: &str, sha256: &str) -> Option<FirstDeliveryView>;
    }
    StatusService {
        fn stats(tenant: Option<&Tenant>) -> Vec<OutboxStats>;
        fn glance() -> Glance;
        fn blocked(tenant: Option<&Tenant>) -> Vec<BlockedView>;
        fn audit(query: &AuditQuery, cursor: Option<&str>, limit: usize) -> Page<AuditView>;
        fn history(measure: Option<Measure>) -> HistoryView;
        fn changes(asked: &ChangesAsked) -> Changed;
        plain {
            fn totals(&self) -> Totals {
                self.outbox.totals()
            }
            async fn ready(&self) -> Vec<Check> {
                self.hindrance.asked_ready.fetch_add(1, Ordering::Relaxed);
                if self.hindrance.stuck.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                if self.hindrance.unready.load(Ordering::Relaxed) {
                    return vec![Check { name: "store".into(), status: CheckStatus::Fail, detail: String::new() }];
                }
                self.outbox.ready().await
            }
        }
    }
}

/// The same for idempotency keys.
macro_rules! hindered_keys {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl IdempotencyService for Hindered {
            fn settings(&self) -> Settings {
                self.keys.settings()
            }
            $(
                async fn $name(&self, $($argument: $type),*) -> Result<$answer, ServiceError> {
                    self.pass_keys().await?;
                    self.keys.$name($($argument),*).await
                }
            )*
        }
    };
}

hindered_keys! {
    fn begin(request: BeginRequest) -> Begun;
    fn finish(hold: Hold, answer: Answer) -> Answer;
    fn fail(hold: Hold, error: &str) -> ();
    fn release(hold: Hold) -> ();
    fn give_up(hold: Hold) -> ();
    fn renew(hold: Hold, lease: Option<Duration>) -> UnixMillis;
    fn entry(of: &EntryKey) -> KeyView;
    fn entries(tenant: Option<&Tenant>, filter: &str, cursor: Option<&str>, limit: usize) -> Page<KeyView>;
    fn forget(of: &EntryKey, finished: bool, reason: &str, actor: &str) -> KeyView;
}
