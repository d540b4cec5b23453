//! TLS settings shared by all endpoints: the platform's trust roots, loaded once and when first needed.

use std::sync::{Arc, OnceLock};

use hyper_rustls::ConfigBuilderExt;
use rustls::{ClientConfig, RootCertStore};

/// The client settings, made on first use.
#[derive(Debug, Default)]
pub(crate) struct TlsRoots {
    config: OnceLock<Arc<ClientConfig>>,
}

impl TlsRoots {
    /// Settings for HTTPS: the platform's roots, HTTP/2 preferred.
    pub(crate) fn https(&self) -> Arc<ClientConfig> {
        Arc::clone(self.config.get_or_init(|| Arc::new(build())))
    }
}

fn build() -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let platform = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .and_then(ConfigBuilderExt::try_with_platform_verifier)
        .map(|builder| builder.with_no_client_auth());
    let mut config = match platform {
        Ok(config) => config,
        Err(error) => {
            // Plain HTTP must go on; every HTTPS peer is refused as unknown, which is the safe side.
            tracing::error!(%error, "the platform's trust roots can't be loaded: HTTPS peers will be refused; install ca-certificates");
            without_roots(provider)
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

fn without_roots(provider: Arc<rustls::crypto::CryptoProvider>) -> ClientConfig {
    let protocols = ClientConfig::builder_with_provider(provider).with_protocol_versions(rustls::ALL_VERSIONS);
    match protocols {
        Ok(builder) => builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
        Err(_) => ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
    }
}
