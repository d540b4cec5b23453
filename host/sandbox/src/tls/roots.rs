//! TLS settings shared by all endpoints: the platform's trust roots, loaded once and when first needed.

use std::sync::{Arc, OnceLock};

use hyper_rustls::ConfigBuilderExt;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};

/// The client settings, made on first use.
#[derive(Debug, Default)]
pub(crate) struct TlsRoots {
    config: OnceLock<Arc<ClientConfig>>,
}

impl TlsRoots {
    /// Settings with the platform's roots and nothing else.
    pub(crate) fn platform(&self) -> Arc<ClientConfig> {
        Arc::clone(self.config.get_or_init(|| Arc::new(build())))
    }

    /// Settings for HTTPS: the platform's roots, HTTP/2 preferred.
    pub(crate) fn https(&self) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.platform());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

fn build() -> ClientConfig {
    let provider = provider();
    let platform = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .and_then(ConfigBuilderExt::try_with_platform_verifier)
        .map(|builder| builder.with_no_client_auth());
    match platform {
        Ok(config) => config,
        Err(error) => {
            // Plain connections must go on; every TLS peer is refused as unknown, which is the safe side.
            tracing::error!(%error, "the platform's trust roots can't be loaded: TLS peers will be refused; install ca-certificates");
            trusting(provider, RootCertStore::empty())
        }
    }
}

/// The cryptography of all TLS here.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Settings that trust these roots and no others.
pub(super) fn trusting(provider: Arc<CryptoProvider>, roots: RootCertStore) -> ClientConfig {
    let protocols = ClientConfig::builder_with_provider(provider).with_protocol_versions(rustls::ALL_VERSIONS);
    match protocols {
        Ok(builder) => builder.with_root_certificates(roots).with_no_client_auth(),
        Err(_) => ClientConfig::builder().with_root_certificates(roots).with_no_client_auth(),
    }
}
