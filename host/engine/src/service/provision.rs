//! Provisioning of a transport, and its audit.

use std::sync::Arc;

use waybill_core::port::provision::{ProvisionAction, ProvisionChange, ProvisionError};
use waybill_core::port::service::ServiceError;

use super::{Outbox, audit};

impl Outbox {
    pub(super) async fn provision_transport(
        &self,
        name: &str,
        apply: bool,
        actor: &str,
    ) -> Result<Vec<ProvisionChange>, ServiceError> {
        let live = self.context.live();
        let (_, line) = live.find(name).ok_or_else(|| Self::no_transport(name))?;
        let transport = Arc::clone(&line.transport);
        let failed = |error| of_provisioning(name, error);
        if !apply {
            return transport.provision(false).await.map_err(failed);
        }
        let mut event = self.event("TransportProvisioned", actor, None, name, serde_json::Value::Null);
        let context = Arc::clone(&self.context);
        // In a task of its own: what was begun at the peer is ended and audited, whether or not its caller waits.
        let work = tokio::spawn(async move {
            let result = transport.provision(true).await;
            if !matches!(result, Err(ProvisionError::NotOffered { .. })) {
                event.detail = detail(&result);
                audit(&context, &event).await;
            }
            result
        });
        work.await.map_err(|ended| ServiceError::Unavailable(ended.to_string()))?.map_err(failed)
    }
}

fn of_provisioning(transport: &str, error: ProvisionError) -> ServiceError {
    let transport = transport.to_owned();
    match error {
        ProvisionError::NotOffered { .. } => ServiceError::NoProvisioning { transport, error },
        ProvisionError::Failed(_) => ServiceError::ProvisionFailed { transport, error },
    }
}

/// What was done, or what stopped it.
fn detail(result: &Result<Vec<ProvisionChange>, ProvisionError>) -> serde_json::Value {
    match result {
        Ok(changes) => {
            let of = |action| -> Vec<&str> {
                let same = changes.iter().filter(|change| change.action == action);
                same.map(|change| change.target.as_str()).collect()
            };
            serde_json::json!({
                "created": of(ProvisionAction::Create), "changed": of(ProvisionAction::Change),
                "conflicts": of(ProvisionAction::Conflict),
            })
        }
        Err(error) => serde_json::json!({ "error": error.to_string() }),
    }
}
