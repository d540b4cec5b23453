//! TLS with the server: with a CA of one's own, with a client certificate, and each way it can go wrong.

use rcgen::date_time_ymd;
use serde_json::{Value, json};
use waybill_core::port::transport::ErrorKind;
use waybill_testkit::process::free_port;
use waybill_testkit::redis::{Options, Server};
use waybill_tests::certificates::{Authority, Identity};

use super::support::*;

/// A server that also speaks TLS, at the address told.
async fn server(identity: &Identity, ca: &str, clients: &str) -> (Server, String, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (cert, key, ca) = (file("cert.pem", &identity.cert), file("key.pem", &identity.key), file("ca.pem", ca));
    let port = free_port().unwrap();
    let config = format!(
        "tls-port {port}\ntls-cert-file {cert}\ntls-key-file {key}\ntls-ca-cert-file {ca}\ntls-auth-clients {clients}"
    );
    let server = Server::start_with(Options { config, ..Options::default() }).await.unwrap();
    (server, format!("rediss://127.0.0.1:{port}"), dir)
}

async fn is_let_in(config: Value, secrets: &[(&str, &str)]) {
    let transport = open(with_secrets(config, secrets)).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 2, STREAM)).await), 2);
}

async fn is_refused(config: Value, secrets: &[(&str, &str)]) -> String {
    let error = open(with_secrets(config, secrets)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "REDIS.TLS"), "{error:?}");
    for (_, value) in secrets {
        assert!(!error.fault.reason.contains(value));
    }
    error.fault.reason
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_verified() {
    let (ca, other) = (Authority::new("ours"), Authority::new("another"));
    let (server, url, _files) = server(&ca.sign(&["127.0.0.1", "redis.example"], |_| {}), &ca.pem(), "no").await;
    for tls in ["auto", "required"] {
        is_let_in(json!({ "servers": [url], "tls": tls }), &[("tls_ca", &ca.pem())]).await;
    }
    // Without its scheme: a CA is granted.
    is_let_in(json!({ "servers": [url.replace("rediss", "redis")] }), &[("tls_ca", &ca.pem())]).await;
    is_let_in(json!({ "servers": [url], "tls_server_name": "redis.example" }), &[("tls_ca", &ca.pem())]).await;
    let unknown = is_refused(json!({ "servers": [url] }), &[("tls_ca", &other.pem())]).await;
    assert!(unknown.contains("tls_ca"), "{unknown}");
    assert!(is_refused(json!({ "servers": [url] }), &[]).await.contains("CA"));
    let misnamed = json!({ "servers": [url], "tls_server_name": "other.example" });
    is_refused(misnamed, &[("tls_ca", &ca.pem())]).await;
    // A port that speaks none is never talked to in plain text.
    let plain = json!({ "servers": [server.url()], "tls": "required", "connect_timeout": "2s" });
    let error = open(with_secrets(plain, &[("tls_ca", &ca.pem())])).await.unwrap_err();
    // It waits for the rest of a line, and we for its handshake.
    assert!(["REDIS.TLS", "REDIS.TIMEOUT"].contains(&error.fault.code.as_str()), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate_is_refused() {
    let ca = Authority::new("ours");
    let expired = ca.sign(&["127.0.0.1"], |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let (_server, url, _files) = server(&expired, &ca.pem(), "no").await;
    let reason = is_refused(json!({ "servers": [url] }), &[("tls_ca", &ca.pem())]).await;
    assert!(reason.contains("expired"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_is_shown_where_it_is_asked_for() {
    let ca = Authority::new("ours");
    let (_server, url, _files) = server(&ca.sign(&["127.0.0.1"], |_| {}), &ca.pem(), "yes").await;
    let config = json!({ "servers": [url] });
    let client = ca.sign(&["shop"], |_| {});
    let secrets = [("tls_ca", ca.pem()), ("tls_cert", client.cert), ("tls_key", client.key)];
    let secrets: Vec<(&str, &str)> = secrets.iter().map(|(name, value)| (*name, value.as_str())).collect();
    is_let_in(config.clone(), &secrets).await;
    // The server says no after the handshake is through on our side: as TLS, or by hanging up.
    let error = open(with_secrets(config, &secrets[..1])).await.unwrap_err();
    assert!(["REDIS.TLS", "REDIS.LOST"].contains(&error.fault.code.as_str()), "{error:?}");
}
