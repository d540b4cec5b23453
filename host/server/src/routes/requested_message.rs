//! What the routes about one message share: whose it is, and how it is answered.

use axum::response::Response;
use http::Uri;
use waybill_api::messages::MessageView;
use waybill_core::ids::Tenant;
use waybill_core::port::missing::Missing;
use waybill_core::port::service::ServiceError;

use super::ok;
use super::query::{TenantQuery, query};
use crate::caller::Caller;
use crate::problem::Problem;

/// A message that a caller asks for.
pub(super) struct RequestedMessage {
    pub(super) caller: Caller,
    pub(super) id: String,
    /// Whose it is: as asked, or the caller's only one.
    pub(super) tenant: Tenant,
    asked: Option<String>,
}

impl RequestedMessage {
    /// Reads whose message is asked for; `what` names it in an error.
    pub(super) fn read(caller: Caller, id: String, uri: &Uri, what: Missing) -> Result<Self, Problem> {
        let asked: TenantQuery = query(uri)?;
        let tenant = caller.tenant_of(asked.tenant.as_deref(), what, &id)?;
        Ok(Self { caller, id, tenant, asked: asked.tenant })
    }

    /// What was found; a miss says where it was looked for.
    pub(super) fn found<T>(&self, found: Result<T, ServiceError>) -> Result<T, Problem> {
        found.map_err(|error| self.caller.missed(error, self.asked.as_deref(), &self.tenant))
    }

    /// Answers with the message.
    pub(super) fn answer(&self, found: Result<MessageView, ServiceError>) -> Result<Response, Problem> {
        ok(&self.found(found)?)
    }
}
