//! Acts on sagas that haven't ended. A saga stays in the list after the act, so the cursor moves with each; and what was done
//! after the cursor was noted is known by the saga's own history, which the act was committed with.

use std::sync::Arc;

use waybill_api::sagas::SagaService;
use waybill_core::port::query::{Counted, Page};
use waybill_core::port::saga::{ActedBy, SagaAct};
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::Operation;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::records::SagaSummary;
use waybill_core::saga::shard::ActKnown;
use waybill_core::time::UnixMillis;

use super::Outbox;
use super::task::{Outcome, Task, acted_by};
use crate::saga::service::Sagas;

/// Sagas read in one page: each page looks at all that are in memory.
const PAGE: usize = 1_000;

/// The sagas that an operation is about, and what is done to them.
pub(super) struct OpenSagas {
    sagas: Arc<Sagas>,
    act: SagaAct,
    filter: SagaFilter,
    by: ActedBy,
}

impl OpenSagas {
    pub fn of(outbox: &Outbox, operation: &Operation, act: SagaAct) -> Result<Option<Self>, ServiceError> {
        let none_here = || ServiceError::Unavailable("it runs no sagas: ask one that does".to_owned());
        let sagas = outbox.sagas.clone().ok_or_else(none_here)?;
        let mut filter = SagaFilter::parse(&operation.filter, operation.created_at)?;
        filter.is_open = true;
        let is_possible = operation.tenant.as_deref().is_none_or(|tenant| filter.confine(tenant));
        Ok(is_possible.then_some(Self { sagas, act, filter, by: acted_by(operation) }))
    }

    /// What may be over in a moment makes the operation wait; of anything else only this saga is refused.
    fn failed(&self, error: SagaError) -> Result<Outcome, ServiceError> {
        if self.sagas.is_passing(&error) { Err(error.into()) } else { Ok(Outcome::refused(&error.into())) }
    }

    /// A list misses sagas while they are being taken over.
    fn check_settled(&self) -> Result<(), SagaError> {
        let wait = || SagaError::Unavailable("sagas are being taken over".to_owned());
        self.sagas.is_settled().then_some(()).ok_or_else(wait)
    }
}

impl Task for OpenSagas {
    type Item = SagaSummary;

    /// Ten seconds, in which a saga that was ended unheard is asked for its history. It is in no page any more.
    const TRIES: u32 = 40;

    async fn count(&self, _: &Outbox, _: usize) -> Result<Counted<u64>, ServiceError> {
        Ok(Counted { value: self.sagas.count(&self.filter).await?, since: None })
    }
    async fn page(&self, _: &Outbox, cursor: Option<&str>) -> Result<Page<SagaSummary>, ServiceError> {
        self.check_settled()?;
        let page = self.sagas.sagas(&self.filter, cursor, PAGE).await?;
        self.check_settled()?;
        Ok(page)
    }
    async fn act(&self, _: &Outbox, saga: &SagaSummary) -> Result<Outcome, ServiceError> {
        if let Some((now, known)) = self.sagas.act_of(&saga.key, &self.by.actor).await? {
            match known {
                ActKnown::Committed => return Ok(Outcome::Done),
                ActKnown::Uncommitted => return Err(SagaError::LookAgain.into()),
                ActKnown::StandsStill => {
                    return Ok(Outcome::refused(&SagaError::Store(StoreError::TooLarge).into()));
                }
                ActKnown::None if !self.filter.takes(&now) => return Ok(Outcome::MatchesNoMore),
                ActKnown::None => {}
            }
        }
        let (tenant, id) = (&saga.key.tenant, &saga.key.id);
        match self.sagas.act(tenant, id, self.act.clone(), self.by.clone()).await {
            Ok(acted) if acted.unchanged => Ok(Outcome::Unchanged),
            Ok(_) => Ok(Outcome::Done),
            // It ended since its page was read: by an act of ours whose outcome we didn't hear, or by itself.
            Err(SagaError::Ended { .. } | SagaError::NotFound { .. }) => {
                match self.sagas.has_acted(&saga.key, &self.by.actor).await {
                    Ok(true) => Ok(Outcome::Done),
                    Ok(false) => Ok(Outcome::MatchesNoMore),
                    Err(error) => self.failed(error),
                }
            }
            // Another host has the shard by now; whether our act went in before that is in the history.
            Err(error @ SagaError::Unavailable(_)) if !self.sagas.is_passing(&error) => {
                match self.sagas.has_acted(&saga.key, &self.by.actor).await {
                    Ok(true) => Ok(Outcome::Done),
                    Ok(false) | Err(_) => Ok(Outcome::refused(&error.into())),
                }
            }
            Err(error) => self.failed(error),
        }
    }
    fn id(saga: &SagaSummary) -> &str {
        saga.key.id.as_str()
    }
    fn identity(saga: &SagaSummary) -> String {
        format!("{} {}", saga.key.tenant, saga.key.id)
    }
    fn since(saga: &SagaSummary) -> UnixMillis {
        saga.started_at
    }
    fn cursor_behind(cursor: Option<&str>, saga: &SagaSummary) -> Result<Option<String>, ServiceError> {
        Ok(Some(Sagas::cursor_behind(cursor, saga)?))
    }
}
