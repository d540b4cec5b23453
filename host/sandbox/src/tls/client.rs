//! The client side of one connection: settings from a guest's options, handshake, what is known afterwards.

use std::sync::Arc;

use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, InconsistentKeys, ProtocolVersion, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;
use waybill_bindings::api::net_types::{ConnectionInfo, NetError, TlsOptions};

use super::binding::channel_binding;
use super::roots::{provider, trusting};

/// What the options' secrets hold, in PEM. Read anew for each connection, so that a rotated certificate is used.
#[derive(Default)]
pub(crate) struct TlsMaterial {
    /// Roots instead of the platform's.
    pub(crate) ca: Option<Vec<u8>>,
    /// Chain of the client certificate.
    pub(crate) certificate: Option<Vec<u8>>,
    pub(crate) key: Option<Vec<u8>>,
}

/// The settings of one connection, ready for its handshake.
#[derive(Debug)]
pub(crate) struct TlsClient {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
    options: TlsOptions,
}

/// Whom TLS is spoken with, and how it was asked for: what errors are told with.
#[derive(Debug)]
pub(crate) struct TlsPeer {
    /// Address as the guest gave it, e.g. `nats.example:4222`.
    pub(super) address: String,
    /// Name that its certificate must have.
    pub(super) server_name: String,
    /// What the guest asked for.
    pub(super) options: TlsOptions,
}

impl TlsClient {
    /// Makes the settings for `options`; `platform` has the roots where the options name none.
    pub(crate) fn new(platform: &ClientConfig, options: TlsOptions, material: TlsMaterial) -> Result<Self, NetError> {
        let provider = provider();
        let mut config = match &material.ca {
            Some(pem) => trusting(Arc::clone(&provider), roots(pem, options.ca_secret.as_deref())?),
            None => platform.clone(),
        };
        config.resumption = Resumption::disabled();
        config.alpn_protocols = options.alpn.iter().map(|protocol| protocol.clone().into_bytes()).collect();
        if let Some(unfit) = options.alpn.iter().find(|protocol| !(1..=255).contains(&protocol.len())) {
            return Err(NetError::Tls(format!("alpn has a protocol of {} bytes: 1 to 255 are possible", unfit.len())));
        }
        match (&material.certificate, &material.key) {
            (Some(chain), Some(key)) => {
                let identity = identity(chain, key, &options, &provider)?;
                config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
            }
            (None, None) => {}
            _ => {
                let why = "a client certificate and its key belong together: grant both or neither (tls_cert and tls_key for a broker's plugin, \
                           client-cert-secret and client-key-secret in the contract)";
                return Err(NetError::Tls(why.to_owned()));
            }
        }
        let server_name = options.server_name.as_deref().map(named).transpose()?;
        Ok(Self { config: Arc::new(config), server_name, options })
    }

    /// Shakes hands over `stream`. The certificate must have the name of the options, or else `host`.
    pub(crate) async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
        self,
        stream: S,
        host: &Host<String>,
        address: &str,
    ) -> Result<(TlsStream<S>, TlsPeer), NetError> {
        let server_name = match self.server_name {
            Some(name) => name,
            None => host_name(host)?,
        };
        let peer = TlsPeer {
            address: address.to_owned(),
            server_name: server_name.to_str().into_owned(),
            options: self.options,
        };
        match TlsConnector::from(self.config).connect(server_name, stream).await {
            Ok(stream) => Ok((stream, peer)),
            Err(error) => Err(peer.handshake_failed(&error)),
        }
    }
}

/// Adds what TLS has settled to what is known of a connection.
pub(crate) fn describe(connection: &ClientConnection, info: &mut ConnectionInfo) {
    info.tls_version = connection.protocol_version().map(|version| match version {
        ProtocolVersion::TLSv1_3 => "1.3".to_owned(),
        ProtocolVersion::TLSv1_2 => "1.2".to_owned(),
        other => format!("{other:?}"),
    });
    info.alpn = connection.alpn_protocol().map(|protocol| String::from_utf8_lossy(protocol).into_owned());
    info.channel_binding = channel_binding(connection);
}

fn roots(pem: &[u8], secret: Option<&str>) -> Result<RootCertStore, NetError> {
    let secret = secret.unwrap_or_default();
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "ca-secret", secret)? {
        roots.add(certificate).map_err(|_| {
            NetError::Tls(format!("the secret {secret:?} (ca-secret) has a certificate that can't be read as a CA's"))
        })?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8], option: &str, secret: &str) -> Result<Vec<CertificateDer<'static>>, NetError> {
    let unfit =
        |what| NetError::Tls(format!("the secret {secret:?} ({option}) {what}: it must hold certificates in PEM"));
    // The parser's own errors may quote the text, and a wrongly granted secret may be anything.
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| unfit("isn't valid PEM"))?;
    if found.is_empty() { Err(unfit("holds no certificate")) } else { Ok(found) }
}

fn identity(
    chain: &[u8],
    key: &[u8],
    options: &TlsOptions,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, NetError> {
    let chain_secret = options.client_cert_secret.as_deref().unwrap_or_default();
    let key_secret = options.client_key_secret.as_deref().unwrap_or_default();
    let chain = certificates(chain, "client-cert-secret", chain_secret)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
        NetError::Tls(format!("the secret {key_secret:?} (client-key-secret) must hold an unencrypted key in PEM"))
    })?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        NetError::Tls(match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                format!("the key in secret {key_secret:?} isn't that of the certificate in secret {chain_secret:?}")
            }
            _ => format!(
                "the certificate in secret {chain_secret:?} or the key in secret {key_secret:?} can't be used: keys may \
                 be RSA, ECDSA (P-256, P-384) or Ed25519"
            ),
        })
    })
}

fn named(name: &str) -> Result<ServerName<'static>, NetError> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        NetError::Tls(format!("server-name {:?} is neither a host name nor an address", crate::text::cut(name, 255)))
    })
}

fn host_name(host: &Host<String>) -> Result<ServerName<'static>, NetError> {
    match host {
        Host::Domain(name) => named(name),
        Host::Ipv4(address) => Ok(ServerName::IpAddress((*address).into())),
        Host::Ipv6(address) => Ok(ServerName::IpAddress((*address).into())),
    }
}
