//! Stuck sagas as dead letters. They are read from the store, so that those of other hosts are there too.

use std::sync::Arc;

use serde_json::json;
use waybill_core::ids::Tenant;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::query::Page;
use waybill_core::port::saga::{Acted, ActedBy, RetryMode, SagaAct};
use waybill_core::port::store::StoreError;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::records::SagaDead;

use super::Sagas;

/// Dead letters read in one page of a walk.
const WALK_PAGE: usize = 500;

impl Sagas {
    /// A page of those that match.
    pub async fn dead_page(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<SagaDead>>, StoreError> {
        self.store().dead_sagas(filter, cursor, limit).await
    }

    /// Calls `each` with every one that matches.
    pub async fn each_dead(&self, filter: &Filter, mut each: impl FnMut(&SagaDead) + Send) -> Result<(), StoreError> {
        let mut cursor: Option<String> = None;
        loop {
            let page = self.dead_page(filter, cursor.as_deref(), WALK_PAGE).await?;
            page.items.iter().for_each(|dead| each(dead));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// The dead letter of a saga, by the id of its root or of a sub-saga.
    pub async fn dead_letter(&self, tenant: &Tenant, id: &str) -> Result<Option<Arc<SagaDead>>, SagaError> {
        let Ok(id) = SagaId::new(id) else { return Ok(None) };
        let key = SagaKey { tenant: tenant.clone(), id }.root();
        Ok(self.store().dead_saga(self.shard(&key)?.shard, &key).await?)
    }

    /// Tries the failed compensation again, or goes forward.
    pub async fn replay_dead(&self, dead: &SagaDead, mode: RetryMode, by: ActedBy) -> Result<Acted, SagaError> {
        let act = SagaAct::Retry { step: None, mode };
        let acted = self.do_act(&dead.key.tenant, &dead.key.id, act, by).await?;
        metrics::counter!("tx_replay_total", "kind" => "saga").increment(1);
        Ok(acted)
    }

    /// Fences one off. False when there is none any more.
    pub async fn quarantine_dead(&self, dead: &SagaDead, note: &str) -> Result<bool, SagaError> {
        let state = DeadState::Quarantined { note: note.to_owned(), at: self.now() };
        Ok(self.store().mark_dead_saga(self.shard(&dead.key)?.shard, &dead.key, &state).await?)
    }

    /// The same with an audit event. In a task of its own: what is done is audited although its caller went away.
    pub async fn quarantine_audited(
        self: &Arc<Self>,
        dead: &Arc<SagaDead>,
        note: &str,
        actor: &str,
    ) -> Result<bool, SagaError> {
        let (sagas, dead, note) = (Arc::clone(self), Arc::clone(dead), note.to_owned());
        let detail = json!({ "kind": "saga", "note": note });
        let event = self.event("DeadLetterQuarantined", actor, Some(&dead.key.tenant), dead.key.id.as_str(), detail);
        let work = tokio::spawn(async move {
            let is_there = sagas.quarantine_dead(&dead, &note).await?;
            if is_there {
                sagas.audit(event).await;
            }
            Ok(is_there)
        });
        work.await.unwrap_or_else(|ended| Err(SagaError::Unavailable(ended.to_string())))
    }

    /// Whether an error of an act may be over in a moment, so that a bulk act waits for that: not when another host writes the
    /// saga, which refuses for as long as it lives.
    pub fn is_passing(&self, error: &SagaError) -> bool {
        match error {
            SagaError::Unavailable(_) => self.shared.context.config.exclusive,
            SagaError::Busy { .. } | SagaError::LookAgain | SagaError::OutcomeUnknown(_) => true,
            // What the database says in words that nobody knows may be a passing trouble of a read.
            SagaError::Store(error) => error.retryable() || matches!(error, StoreError::Other(_)),
            _ => false,
        }
    }
}
