//! Real TLS servers on loopback, and servers that only claim to be.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificates::{CA, Identity};

/// How a server speaks TLS.
pub struct Terms {
    pub identity: Identity,
    pub versions: Vec<&'static SupportedProtocolVersion>,
    pub alpn: Vec<&'static str>,
    /// Asks for a certificate that the test CA signed.
    pub wants_client: bool,
}

impl Default for Terms {
    fn default() -> Self {
        let identity = CA.server(&["localhost", "127.0.0.1"]);
        Self { identity, versions: rustls::ALL_VERSIONS.to_vec(), alpn: Vec::new(), wants_client: false }
    }
}

impl Terms {
    pub fn with(identity: Identity) -> Self {
        Self { identity, ..Self::default() }
    }

    pub fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(default_provider());
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&self.versions).unwrap();
        let builder = if self.wants_client {
            let verifier = WebPkiClientVerifier::builder_with_provider(CA.roots(), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let chain = vec![self.identity.certificate.clone()];
        let mut config = builder.with_single_cert(chain, self.identity.key()).unwrap();
        config.alpn_protocols = self.alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A server that does this with each connection.
pub async fn tcp<F>(serve: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// A TLS server that does this with each connection whose handshake succeeds.
pub async fn tls<F>(
    terms: Terms,
    serve: impl Fn(TlsStream<TcpStream>) -> F + Clone + Send + Sync + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let acceptor = terms.acceptor();
    tcp(move |stream| {
        let (acceptor, serve) = (acceptor.clone(), serve.clone());
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                serve(stream).await;
            }
        }
    })
    .await
}
