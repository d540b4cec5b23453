//! TLS of the listeners: one certificate with its key, read again while the server runs.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::error::ServerError;

/// What is spoken within TLS, the preferred first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// What keeps tokens and messages from being read on their way to a listener.
#[derive(Clone, Debug, Default)]
pub enum Encryption {
    /// Nothing: only loopback may be listened on.
    #[default]
    None,
    /// TLS of our own.
    Tls(Tls),
    /// A proxy in front speaks TLS, and nobody else reaches the listener: whoever configures it says so.
    Proxy,
}

impl Encryption {
    /// `http` or `https`: how the listener itself is spoken to.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::Tls(_) => "https",
            Self::None | Self::Proxy => "http",
        }
    }

    /// `http` or `https`: what callers see who come through the proxy, if there is one.
    pub fn public_scheme(&self) -> &'static str {
        match self {
            Self::Tls(_) | Self::Proxy => "https",
            Self::None => "http",
        }
    }
}

/// A certificate with its key, from files. Cheap to clone; clones share what is in force.
#[derive(Clone, Debug)]
pub struct Tls {
    current: Arc<ArcSwap<ServerConfig>>,
}

/// What was read from files and isn't in force yet.
#[derive(Debug)]
pub struct Renewed(Arc<ServerConfig>);

impl Tls {
    /// Reads `cert` (the chain, in PEM, the host's own first) and `key` (its private key, in PEM). Fails with the file at
    /// fault and what to do about it.
    pub fn load(cert: &Path, key: &Path) -> Result<Self, ServerError> {
        let current = Arc::new(ArcSwap::from(read(cert, key)?));
        Ok(Self { current })
    }

    /// Reads the files as [`Self::load`] does: the same again, or others. Nothing changes until [`Self::put_in_force`].
    pub fn renewed(cert: &Path, key: &Path) -> Result<Renewed, ServerError> {
        read(cert, key).map(Renewed)
    }

    /// Connections that are opened from now on see the renewed certificate.
    pub fn put_in_force(&self, renewed: Renewed) {
        self.current.store(renewed.0);
    }

    /// Shakes hands as is in force now.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }
}

/// What each file has to hold.
const CERT_FORM: &str = "write the chain in PEM, the host's own certificate first";
const KEY_FORM: &str = "write the private key in PEM, without a password";

fn read(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, ServerError> {
    let refuse = |setting, file: &Path, cause: String, fix| {
        let file = file.to_owned();
        ServerError::Tls { setting, file, cause, fix }
    };
    let of_cert = |cause, fix| refuse("server.tls.cert", cert, cause, fix);
    let of_key = |cause, fix| refuse("server.tls.key", key, cause, fix);
    const READABLE: &str = "check the path, and that the host's user may read it";
    let pem = std::fs::read(cert).map_err(|error| of_cert(error.to_string(), READABLE))?;
    let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|error| of_cert(error.to_string(), CERT_FORM))?;
    if chain.is_empty() {
        return Err(of_cert("it holds no certificate".to_owned(), CERT_FORM));
    }
    let pem = std::fs::read(key).map_err(|error| of_key(error.to_string(), READABLE))?;
    // What the parser says of a key may quote it.
    let secret = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| of_key("it holds no private key in PEM".to_owned(), KEY_FORM))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let made = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
    let mut config = made.map_err(|error| match error {
        Error::InconsistentKeys(_) => of_key(
            format!("it isn't the key of the certificate in {}", cert.display()),
            "give the key that the certificate was made for, and the host's own certificate first in the chain",
        ),
        Error::InvalidCertificate(_) => of_cert(error.to_string(), CERT_FORM),
        error => of_key(error.to_string(), KEY_FORM),
    })?;
    config.alpn_protocols = PROTOCOLS.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}
