//! The keys of the configuration that every client of Pulsar has, beside those of every broker.

use waybill_plugin::broker::{Common, Scheme, Tls};
use waybill_plugin::transport::PluginError;

use crate::topic::is_namespace;

/// How addresses of brokers are written.
pub const SCHEME: Scheme = Scheme { plain: "pulsar", tls: "pulsar+ssl", port: 6650, tls_port: 6651 };
/// The namespace that every cluster has.
pub const NAMESPACE: &str = "public/default";

/// Checks the key `namespace`.
///
/// # Errors
/// It is none.
pub fn check_namespace(namespace: &str) -> Result<(), PluginError> {
    if is_namespace(namespace) {
        return Ok(());
    }
    Err(PluginError::invalid_config("namespace", "is not TENANT/NAMESPACE, for example public/default"))
}

/// Refuses `tls = "off"` beside an address that promises TLS: the token would go out in clear.
///
/// # Errors
/// The first such address.
pub fn check_tls(common: &Common) -> Result<(), PluginError> {
    let secure = common.addresses(&SCHEME)?.iter().position(|address| address.tls);
    match (common.tls, secure) {
        (Tls::Off, Some(place)) => {
            let why = "is pulsar+ssl:// and `tls` is off: write pulsar:// or leave `tls` out";
            Err(PluginError::invalid_config(&format!("servers[{place}]"), why))
        }
        _ => Ok(()),
    }
}
