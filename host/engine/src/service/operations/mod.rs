//! Bulk acts on dead letters, on sagas and on messages: kept in the store, resumed after a crash, at a bounded rate, cancellable. Each
//! remembers a cursor behind what it did.
//!
//! | file | holds |
//! |---|---|
//! | `run` | the task that works on all of them |
//! | `task` | what one does, and to what |
//! | `dead` | on dead letters: in key order, so each key keeps its order, then on stuck sagas |
//! | `messages` | on messages that wait, taken back or moved to another instant |
//! | `latest` | which replay put something of a group of dead letters back last |
//! | `trial` | what a replay tries before the rest |
//! | `sagas` | on sagas that haven't ended, newest start first, each once |

mod dead;
mod latest;
mod messages;
mod run;
mod sagas;
mod task;
mod trial;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use waybill_api::dead_letters::DeadGroupView;
use waybill_api::operations::OperationService;
use waybill_core::fates::{Fates, Trial};
use waybill_core::ids::Tenant;
use waybill_core::limits::DEAD_READS_MAX;
use waybill_core::outbox::dead_plan::has_grown;
use waybill_core::port::missing::Missing;
use waybill_core::port::service::{OperationRequest, ServiceError};
use waybill_core::port::transact::{Operation, OperationState};

use super::Outbox;
use super::dead_list::planned_reads;
pub(crate) use run::start;
use task::Work;

/// The kind whose effects are followed.
const REPLAY: &str = "replay";
/// Acts a second when the caller names no rate.
const RATE_DEFAULT: u32 = 100;
/// Acts a second at most.
const RATE_MAX: u32 = 10_000;

/// Operations at work in this process.
#[derive(Default)]
pub(crate) struct Operations {
    running: Mutex<BTreeMap<String, Running>>,
    tasks: TaskTracker,
    /// Rung when one was added.
    added: Notify,
}

#[derive(Default)]
struct Running {
    stop: Arc<AtomicBool>,
    /// It has its task.
    begun: bool,
}

#[async_trait]
impl OperationService for Outbox {
    async fn start_operation(&self, request: OperationRequest) -> Result<Operation, ServiceError> {
        let (now, planned) = (self.now(), request.planned);
        let mut operation = Operation {
            id: ulid::Ulid::new().to_string(),
            kind: request.kind,
            filter: request.filter,
            step: request.step,
            mode: request.mode,
            not_before: request.not_before,
            before: planned.before.map(|before| before.min(now)),
            trial: planned.trial.map(Trial::new),
            tenant: request.tenant.map(|tenant| tenant.to_string()),
            rate: request.rate.unwrap_or(RATE_DEFAULT).clamp(1, RATE_MAX),
            reason: request.reason,
            actor: request.actor,
            state: OperationState::Running,
            matched: 0,
            counted_since: None,
            done: 0,
            unchanged: 0,
            failed: 0,
            refusals: Vec::new(),
            fates: Fates::default(),
            not_followed: 0,
            causes: Vec::new(),
            cursor: None,
            error: None,
            created_at: now,
            updated_at: now,
        };
        if let Some(work) = Work::of(self, &operation)? {
            let reads = planned.expect_count.map_or(DEAD_READS_MAX, |_| planned_reads(planned.exact));
            let counted = work.count(self, reads).await?;
            if let Some(expected) = planned.expect_count
                && has_grown(expected, &counted)
            {
                return Err(ServiceError::SetGrew { planned: expected, matched: counted.value });
            }
            (operation.matched, operation.counted_since) = (counted.value, counted.since);
        }
        let mut detail = serde_json::json!({
            "kind": operation.kind, "filter": operation.filter, "step": operation.step, "mode": operation.mode,
            "not_before": operation.not_before,
            "matched": operation.matched, "rate": operation.rate, "reason": operation.reason,
        });
        if let Some(detail) = detail.as_object_mut() {
            detail.extend(operation.before.map(|before| ("before".to_owned(), before.to_string().into())));
            detail.extend(operation.trial.map(|trial| ("trial".to_owned(), trial.size.into())));
        }
        let kind = if operation.kind == REPLAY { "TxReplayRequested" } else { "OperationStarted" };
        let event = self.event(kind, &operation.actor, operation.tenant.as_deref(), &operation.id, detail);
        let (context, operations, noted) = (Arc::clone(&self.context), Arc::clone(&self.operations), operation.clone());
        // In a task of its own: an operation that is in the store is worked on, whether or not its caller waits.
        let begin = tokio::spawn(async move {
            context.stores.transact.put_operation(&noted).await?;
            operations.started(&noted.id);
            super::audit(&context, &event).await;
            Ok(())
        });
        begin.await.unwrap_or_else(|ended| Err(ServiceError::Unavailable(ended.to_string())))?;
        Ok(operation)
    }

    async fn operation(&self, id: &str) -> Result<Operation, ServiceError> {
        let found = self.context.stores.transact.operation(id).await?;
        found.ok_or(ServiceError::NotFound { what: Missing::Operation, id: id.to_owned() })
    }

    async fn fates(&self, operation: &Operation) -> Result<Fates, ServiceError> {
        let mut fates = operation.fates.clone();
        if operation.kind == REPLAY {
            fates.add(&self.context.stores.transact.fates(&operation.id).await?);
        }
        Ok(fates)
    }

    async fn operations(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Operation>, ServiceError> {
        Ok(self.context.stores.transact.operations(tenant, limit).await?)
    }

    async fn with_last_replays(
        &self,
        tenant: Option<&Tenant>,
        groups: Vec<DeadGroupView>,
    ) -> Result<Vec<DeadGroupView>, ServiceError> {
        latest::with_last_replays(self, tenant, groups).await
    }

    async fn cancel_operation(&self, id: &str, actor: &str) -> Result<Operation, ServiceError> {
        let mut operation = self.operation(id).await?;
        if operation.state != OperationState::Running {
            let state = format!("{:?}", operation.state).to_lowercase();
            return Err(ServiceError::State {
                what: "operation",
                id: id.to_owned(),
                state,
                fix: "only running operations can be cancelled",
            });
        }
        let event = self.event("OperationCancelled", actor, operation.tenant.as_deref(), id, serde_json::Value::Null);
        self.audit_event(event).await;
        let stop = self.operations.running.lock().get(id).map(|running| Arc::clone(&running.stop));
        match stop {
            Some(stop) => stop.store(true, Ordering::Release),
            None => {
                // Nobody is at it here: it doesn't go on.
                operation.state = OperationState::Cancelled;
                operation.updated_at = self.now();
                self.context.stores.transact.put_operation(&operation).await?;
                return Ok(operation);
            }
        }
        // The worker writes the state when it stops; wait for that a moment, so that the answer is true.
        for _ in 0..40 {
            operation = self.operation(id).await?;
            if operation.state != OperationState::Running {
                break;
            }
            sleep(Duration::from_millis(25)).await;
        }
        Ok(operation)
    }
}

impl Operations {
    fn started(&self, id: &str) {
        self.running.lock().entry(id.to_owned()).or_default();
        self.added.notify_one();
    }
    /// Those that have no task yet; they have from now on.
    fn take_new(&self) -> Vec<(String, Arc<AtomicBool>)> {
        let mut running = self.running.lock();
        let new = running.iter_mut().filter_map(|(id, running)| {
            let begun = std::mem::replace(&mut running.begun, true);
            (!begun).then(|| (id.clone(), Arc::clone(&running.stop)))
        });
        new.collect()
    }
}
