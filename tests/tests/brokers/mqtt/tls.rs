//! TLS with the server: with a CA of one's own, with a client certificate, and each way it can go wrong.

use serde_json::{Value, json};
use waybill_core::port::transport::ErrorKind;
use waybill_testkit::mqtt::{Options, Server};
use waybill_testkit::process::free_port;
use waybill_tests::certificates::{Authority, Identity};

use super::support::*;

/// A server that also speaks TLS, at the address told.
async fn server(identity: &Identity, ca: &str, asks: bool) -> (Server, String, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (cert, key, ca) = (file("cert.pem", &identity.cert), file("key.pem", &identity.key), file("ca.pem", ca));
    let port = free_port().unwrap();
    let config = format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\ncafile {ca}\ncertfile {cert}\nkeyfile {key}\nrequire_certificate {asks}\n"
    );
    let server = Server::start_with(Options { config, ..Options::default() }).await.unwrap();
    (server, format!("mqtts://127.0.0.1:{port}"), dir)
}

async fn is_let_in(config: Value, secrets: &[(&str, &str)]) {
    let transport = open(with_secrets(config, secrets)).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 2, TOPIC)).await), 2);
}

async fn is_refused(config: Value, secrets: &[(&str, &str)]) -> String {
    let error = open(with_secrets(config, secrets)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "MQTT.TLS"), "{error:?}");
    error.fault.reason
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_verified() {
    let (ca, other) = (Authority::new("ours"), Authority::new("another"));
    let (_server, url, _files) = server(&ca.sign(&["127.0.0.1", "mqtt.example"], |_| {}), &ca.pem(), false).await;
    for tls in ["auto", "required"] {
        is_let_in(json!({ "servers": [url], "tls": tls }), &[("tls_ca", &ca.pem())]).await;
    }
    is_let_in(json!({ "servers": [url.replace("mqtts", "mqtt")] }), &[("tls_ca", &ca.pem())]).await;
    is_let_in(json!({ "servers": [url], "tls_server_name": "mqtt.example" }), &[("tls_ca", &ca.pem())]).await;
    is_refused(json!({ "servers": [url] }), &[("tls_ca", &other.pem())]).await;
    is_refused(json!({ "servers": [url] }), &[]).await;
    is_refused(json!({ "servers": [url], "tls_server_name": "other.example" }), &[("tls_ca", &ca.pem())]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_is_shown_where_it_is_asked_for() {
    let ca = Authority::new("ours");
    let (_server, url, _files) = server(&ca.sign(&["127.0.0.1"], |_| {}), &ca.pem(), true).await;
    let config = json!({ "servers": [url] });
    let client = ca.sign(&["shop"], |_| {});
    let secrets = [("tls_ca", ca.pem()), ("tls_cert", client.cert), ("tls_key", client.key)];
    let secrets: Vec<(&str, &str)> = secrets.iter().map(|(name, value)| (*name, value.as_str())).collect();
    is_let_in(config.clone(), &secrets).await;
    // The server says no after the handshake is through on our side: as TLS, or by hanging up.
    let error = open(with_secrets(config, &secrets[..1])).await.unwrap_err();
    assert!(["MQTT.TLS", "MQTT.LOST"].contains(&error.fault.code.as_str()), "{error:?}");
    assert!(matches!(error.kind, ErrorKind::Denied | ErrorKind::Unavailable));
}
