//! Requests about one message, dead letter or saga.

use serde_json::Value;
use waybill_core::code::Code;

use super::{Context, lists};
use crate::client::{Answer, ClientError};
use crate::exit::CliError;

/// Asks for one of a list. Without a tenant the host takes the token's only one, else `default`.
pub(super) async fn get(context: &Context<'_>, list: &str, id: &str, tenant: Option<&str>) -> Result<Answer, CliError> {
    checked(context.client.get(&["v1", list, id], &lists::tenant_query(tenant)).await, tenant)
}

/// Acts on one of a list.
pub(super) async fn act(
    context: &Context<'_>,
    list: &str,
    id: &str,
    tenant: Option<&str>,
    act: &str,
    body: &Value,
) -> Result<Answer, CliError> {
    checked(context.client.post(&["v1", list, id, act], &lists::tenant_query(tenant), body).await, tenant)
}

/// What the host answered about one.
pub(super) fn checked(answer: Result<Answer, ClientError>, tenant: Option<&str>) -> Result<Answer, CliError> {
    let answer = answer.map_err(|error| with_tenant(error, tenant))?;
    answer.need("id", Value::as_str)?;
    Ok(answer)
}

/// Says where was looked. When no tenant was named the host says it.
pub(super) fn with_tenant(error: ClientError, tenant: Option<&str>) -> CliError {
    let Some(tenant) = tenant else { return error.into() };
    let ClientError::Refused(mut refusal) = error else { return error.into() };
    match Code::of(&refusal.code) {
        Some(
            Code::OUTBOX_NOT_FOUND
            | Code::DEAD_NOT_FOUND
            | Code::TX_IDEMPOTENT_NOT_FOUND
            | Code::INBOX_NOT_FOUND
            | Code::STREAM_NOT_FOUND,
        ) => {
            refusal.detail.push_str(&format!(" in tenant {tenant:?}"));
        }
        Some(Code::SAGA_NOT_FOUND) => refusal.detail.push_str(&format!("; looked for in tenant {tenant:?}")),
        _ => {}
    }
    ClientError::Refused(refusal).into()
}
