//! TLS with the server: after INFO, from the first byte, with a client certificate, and each way it can go wrong.

use std::sync::Arc;

use rcgen::date_time_ymd;
use serde_json::{Value, json};
use waybill_core::port::transport::{ErrorKind, Outcome};
use waybill_testkit::nats::{Options, Server};
use waybill_tests::certificates::{Authority, Identity};

use super::fake::{Fake, INFO};
use super::support::*;

/// A server with this certificate; `more` goes into its `tls` block.
async fn server(identity: &Identity, ca: &str, more: &str) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (cert, key, ca) = (file("cert.pem", &identity.cert), file("key.pem", &identity.key), file("ca.pem", ca));
    let config = format!("tls {{ cert_file: \"{cert}\", key_file: \"{key}\", ca_file: \"{ca}\", {more} }}");
    (Server::start_with(Options { config, ..Options::default() }).await.unwrap(), dir)
}

/// Publishes; without a stream the server's word that nobody takes it shows that we are in.
async fn is_let_in(config: Value, secrets: &[(&str, &str)]) {
    let transport = open(with_secrets(config, secrets)).await.unwrap();
    let outcomes = send(&transport, batch(0, 1, "orders.created")).await;
    let [Outcome::Blocked { fault, .. }] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    assert_eq!(fault.code, "NATS.NO_STREAM");
}

async fn is_refused(config: Value, secrets: &[(&str, &str)]) -> String {
    let error = open(with_secrets(config, secrets)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "NATS.TLS"), "{error:?}");
    for (_, value) in secrets {
        assert!(!error.fault.reason.contains(value));
    }
    error.fault.reason
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_requires_tls_gets_it_and_is_verified() {
    let (ca, other) = (Authority::new("ours"), Authority::new("another"));
    let (server, _files) = server(&ca.sign(&["127.0.0.1", "nats.example"], |_| {}), &ca.pem(), "").await;
    for tls in ["auto", "required"] {
        is_let_in(json!({ "servers": [server.url()], "tls": tls }), &[("tls_ca", &ca.pem())]).await;
    }
    let named = json!({ "servers": [server.url()], "tls_server_name": "nats.example" });
    is_let_in(named, &[("tls_ca", &ca.pem())]).await;
    let config = json!({ "servers": [server.url()] });
    let unknown = is_refused(config.clone(), &[("tls_ca", &other.pem())]).await;
    assert!(unknown.contains("tls_ca"), "{unknown}");
    let system = is_refused(config, &[]).await;
    assert!(system.contains("CA"), "{system}");
    let misnamed = json!({ "servers": [server.url()], "tls_server_name": "other.example" });
    is_refused(misnamed, &[("tls_ca", &ca.pem())]).await;
    let off = json!({ "servers": [server.url()], "tls": "off" });
    assert!(is_refused(off, &[]).await.contains("requires TLS"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate_is_refused() {
    let ca = Authority::new("ours");
    let expired = ca.sign(&["127.0.0.1"], |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let (server, _files) = server(&expired, &ca.pem(), "").await;
    let reason = is_refused(json!({ "servers": [server.url()] }), &[("tls_ca", &ca.pem())]).await;
    assert!(reason.contains("expired"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_is_shown_where_it_is_asked_for() {
    let ca = Authority::new("ours");
    let (server, _files) = server(&ca.sign(&["127.0.0.1"], |_| {}), &ca.pem(), "verify: true").await;
    let config = json!({ "servers": [server.url()] });
    let client = ca.sign(&["shop"], |_| {});
    let secrets = [("tls_ca", ca.pem()), ("tls_cert", client.cert), ("tls_key", client.key)];
    let secrets: Vec<(&str, &str)> = secrets.iter().map(|(name, value)| (*name, value.as_str())).collect();
    is_let_in(config.clone(), &secrets).await;
    // The server says no after the handshake is through on our side: as TLS, or by hanging up.
    let error = open(with_secrets(config, &secrets[..1])).await.unwrap_err();
    assert!(["NATS.TLS", "NATS.LOST"].contains(&error.fault.code.as_str()), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_that_is_wanted_is_never_left_out() {
    let ca = Authority::new("ours");
    let plain = Server::start().await.unwrap();
    let address = format!("tls://127.0.0.1:{}", plain.port());
    for config in [json!({ "servers": [plain.url()], "tls": "required" }), json!({ "servers": [address] })] {
        let reason = is_refused(config, &[]).await;
        assert!(reason.contains("offers none"), "{reason}");
    }
    let reason = is_refused(json!({ "servers": [plain.url()] }), &[("tls_ca", &ca.pem())]).await;
    assert!(reason.contains("offers none"), "{reason}");
}

/// Whatever comes in plain text behind INFO would be taken for the word of the server that TLS proves later.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_in_before_tls_is_refused() {
    let wants_tls = INFO.replace('}', r#","tls_required":true}"#);
    for injected in ["PING", "+OK", "MSG _INBOX.x 1 5"] {
        let info = wants_tls.clone();
        let fake = Fake::start(move |mut peer| {
            peer.say(&format!("{info}\r\n{injected}"));
            peer.linger();
        });
        let reason = is_refused(json!({ "servers": [fake.url()] }), &[]).await;
        assert!(reason.contains("before TLS"), "{injected}: {reason}");
    }
}

/// What `handshake_first` of nats-server 2.10 does, in front of one that doesn't have it: TLS begins with the first byte.
#[tokio::test(flavor = "multi_thread")]
async fn tls_from_the_first_byte() {
    let ca = Authority::new("ours");
    let server = Server::start().await.unwrap();
    let port = tls_proxy(&ca.sign(&["127.0.0.1"], |_| {}), server.port()).await;
    let config = json!({ "servers": [format!("nats://127.0.0.1:{port}")], "tls": "first" });
    is_let_in(config.clone(), &[("tls_ca", &ca.pem())]).await;
    is_refused(config, &[("tls_ca", &Authority::new("another").pem())]).await;
    // A server that speaks first meets a client that waits for TLS.
    let config = json!({ "servers": [server.url()], "tls": "first", "connect_timeout": "15s" });
    is_refused(config, &[("tls_ca", &ca.pem())]).await;
}

/// Ends TLS in front of a port on loopback.
async fn tls_proxy(identity: &Identity, to: u16) -> u16 {
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(identity.cert.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut outer) = acceptor.accept(stream).await else { return };
                let mut inner = tokio::net::TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    port
}
