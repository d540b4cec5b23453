//! Acts on messages that wait: taken back, or moved to another instant. What is taken back is gone from its list, and what was moved is
//! known by its instant, so a page that is read again has only the rest.

use waybill_api::messages::{MessageService, MessageView};
use waybill_core::ids::Tenant;
use waybill_core::outbox::filter::Filter;
use waybill_core::port::missing::Missing;
use waybill_core::port::query::{Counted, Page};
use waybill_core::port::service::ServiceError;
use waybill_core::port::transact::Operation;
use waybill_core::time::UnixMillis;

use super::Outbox;
use super::task::{Outcome, Task, acted_by};
use crate::service::messages::Waiting;

pub(super) const CANCEL: &str = "cancel_messages";
pub(super) const RESCHEDULE: &str = "reschedule_messages";

/// Messages read in one page.
const PAGE: usize = 100;
/// What is moved to now may fail and wait again when its page is read once more, and would be moved twice: each is a page of its own.
const PAGE_OF_MOVES: usize = 1;

/// The messages that an operation is about, and what is done to them.
pub(super) struct WaitingMessages {
    /// Confined to what the operation may concern.
    waiting: Waiting,
    tenant: Option<Tenant>,
    filter: String,
    reason: String,
    actor: String,
}

impl WaitingMessages {
    pub fn of(operation: &Operation) -> Result<Option<Self>, ServiceError> {
        let mut filter = Filter::parse(&operation.filter, operation.created_at)?;
        let is_possible = operation.tenant.as_deref().is_none_or(|tenant| filter.confine(tenant));
        let moved_to = match operation.kind.as_str() {
            RESCHEDULE => {
                let missing = || ServiceError::NotFound { what: Missing::OperationKind, id: RESCHEDULE.to_owned() };
                Some(operation.not_before.ok_or_else(missing)?)
            }
            _ => None,
        };
        let (reason, actor) = (operation.reason.clone(), acted_by(operation).actor);
        let tenant = operation.tenant.as_deref().map(Tenant::new).transpose()?;
        let waiting = Waiting::new(filter, moved_to);
        Ok(is_possible.then_some(Self { waiting, tenant, filter: operation.filter.clone(), reason, actor }))
    }
}

impl Task for WaitingMessages {
    type Item = MessageView;

    /// What is done is gone from the page, which is read again.
    const TRIES: u32 = 1;

    async fn count(&self, outbox: &Outbox, _: usize) -> Result<Counted<u64>, ServiceError> {
        let found = outbox.waiting_messages(self.tenant.as_ref(), &self.filter, self.waiting.moved_to, 0).await?;
        Ok(Counted { value: found.matched, since: found.counted_since })
    }
    async fn page(&self, outbox: &Outbox, cursor: Option<&str>) -> Result<Page<MessageView>, ServiceError> {
        let limit = if self.waiting.moved_to.is_some() { PAGE_OF_MOVES } else { PAGE };
        self.waiting.page(outbox, cursor, limit).await
    }
    async fn act(&self, outbox: &Outbox, message: &MessageView) -> Result<Outcome, ServiceError> {
        let tenant = Tenant::new(&message.tenant)?;
        let done = match self.waiting.moved_to {
            Some(at) => outbox.reschedule(&tenant, &message.id, at, &self.reason, &self.actor).await,
            None => outbox.cancel(&tenant, &message.id, &self.reason, &self.actor).await,
        };
        match done {
            Ok(_) => Ok(Outcome::Done),
            // It was sent, finished or taken back meanwhile.
            Err(error @ (ServiceError::State { .. } | ServiceError::NotFound { .. })) => Ok(Outcome::refused(&error)),
            Err(error) => Err(error),
        }
    }
    fn id(message: &MessageView) -> &str {
        &message.id
    }
    fn identity(message: &MessageView) -> String {
        format!("{} {}", message.tenant, message.id)
    }
    fn since(message: &MessageView) -> UnixMillis {
        message.created_at.0
    }
    fn cursor_behind(_: Option<&str>, _: &MessageView) -> Result<Option<String>, ServiceError> {
        Ok(None)
    }
}
