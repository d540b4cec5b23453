//! TLS settings of a guest's connection. The guest names secrets; the host reads them, so a key never enters a component
//! that doesn't ask for its value.

use tokio::time::{Instant, timeout_at};
use waybill_bindings::api::net_types::{NetError, TlsOptions};

use super::context::EndpointContext;
use crate::text::cut;
use crate::tls::{TlsClient, TlsMaterial};

/// Longest secret name that an error shows, in bytes.
const NAME_BYTES_SHOWN: usize = 64;

/// Reads the granted secrets that `options` name, by `deadline`, and makes the settings.
pub(super) async fn tls_client(
    context: &EndpointContext,
    options: &TlsOptions,
    deadline: Instant,
) -> Result<TlsClient, NetError> {
    let read = async {
        Ok(TlsMaterial {
            ca: secret(context, "ca-secret", options.ca_secret.as_deref()).await?,
            certificate: secret(context, "client-cert-secret", options.client_cert_secret.as_deref()).await?,
            key: secret(context, "client-key-secret", options.client_key_secret.as_deref()).await?,
        })
    };
    let material = timeout_at(deadline, read).await.unwrap_or(Err(NetError::Timeout))?;
    TlsClient::new(&context.tls, options.clone(), material)
}

/// The value of a secret that an option names.
async fn secret(context: &EndpointContext, option: &str, name: Option<&str>) -> Result<Option<Vec<u8>>, NetError> {
    let Some(name) = name else { return Ok(None) };
    let shown = cut(name, NAME_BYTES_SHOWN);
    let Some(source) = context.secrets.get(name) else {
        return Err(NetError::Denied(format!(
            "the secret {shown:?} ({option}) isn't granted: the manifest must ask for it, and {} needs `secrets.{shown} = \
             \"file:...\"`",
            context.name
        )));
    };
    context.secret_provider.read(source).await.map(|value| Some(value.bytes)).map_err(|failure| {
        // Where it is kept is the operator's to know, not the guest's.
        tracing::warn!(target: "waybill::plugin", transport = %context.name, "secret {name:?} can't be read: {failure}");
        NetError::Tls(format!("the secret {shown:?} ({option}) can't be read: the host's log says why"))
    })
}
