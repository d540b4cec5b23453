//! Requests about one message, dead letter or saga.

use serde_json::Value;

use super::{Context, lists};
use crate::client::{Answer, ClientError};
use crate::exit::CliError;

/// Asks for one of a list. Without a tenant the host takes the token's only one, else `default`.
pub(super) async fn look(
    context: &Context<'_>,
    list: &str,
    id: &str,
    tenant: Option<&str>,
) -> Result<Answer, CliError> {
    look_with(context, list, id, tenant, &[]).await
}

/// The same with more to say in the query.
pub(super) async fn look_with(
    context: &Context<'_>,
    list: &str,
    id: &str,
    tenant: Option<&str>,
    more: &[(&str, &str)],
) -> Result<Answer, CliError> {
    let query = [lists::tenant_query(tenant).as_slice(), more].concat();
    checked(context.client.get(&["v1", list, id], &query).await, tenant)
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
    act_with(context, &["v1", list, id, act], tenant, &[], body).await
}

/// The same with more to say in the query.
pub(super) async fn act_with(
    context: &Context<'_>,
    path: &[&str],
    tenant: Option<&str>,
    more: &[(&str, &str)],
    body: &Value,
) -> Result<Answer, CliError> {
    let query = [lists::tenant_query(tenant).as_slice(), more].concat();
    checked(context.client.post(path, &query, body).await, tenant)
}

fn checked(answer: Result<Answer, ClientError>, tenant: Option<&str>) -> Result<Answer, CliError> {
    let answer = answer.map_err(|error| missed(error, tenant))?;
    answer.need("id", Value::as_str)?;
    Ok(answer)
}

/// Says where was looked. When no tenant was named the host says it.
pub(super) fn missed(error: ClientError, tenant: Option<&str>) -> CliError {
    match (error, tenant) {
        (ClientError::Refused(mut refusal), Some(tenant)) if refusal.code == "OUTBOX.NOT_FOUND" => {
            refusal.detail.push_str(&format!(" in tenant {tenant:?}"));
            ClientError::Refused(refusal).into()
        }
        (ClientError::Refused(mut refusal), Some(tenant)) if refusal.code == "SAGA.NOT_FOUND" => {
            refusal.detail.push_str(&format!("; looked for in tenant {tenant:?}"));
            ClientError::Refused(refusal).into()
        }
        (error, _) => error.into(),
    }
}
