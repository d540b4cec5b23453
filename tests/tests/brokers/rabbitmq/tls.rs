//! TLS with the server: its certificate verified, ours shown, and logging in by it.

use serde_json::{Value, json};
use waybill_core::port::transport::ErrorKind;
use waybill_testkit::rabbitmq::{Options, Server, Tls};
use waybill_tests::certificates::Authority;

use super::support::*;

async fn is_let_in(config: Value, secrets: &[(&str, &str)]) {
    let transport = open(with_secrets(config, secrets)).await.unwrap();
    assert_eq!(fates(&send(&transport, batch(0, 1, "orders.created")).await), "a");
}

async fn is_refused(config: Value, secrets: &[(&str, &str)], code: &str) -> String {
    let error = open(with_secrets(config, secrets)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, code), "{error:?}");
    for (_, value) in secrets {
        assert!(!error.fault.reason.contains(value));
    }
    error.fault.reason
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tls_is_verified_and_lets_a_certificate_in() {
    let (ours, other) = (Authority::new("ours"), Authority::new("another"));
    let identity = ours.sign(&["127.0.0.1", "rabbit.example"], |_| {});
    let options = Options {
        config: "auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL\nssl_cert_login_from = common_name\n"
            .to_owned(),
        plugins: &["rabbitmq_auth_mechanism_ssl"],
        tls: Some(Tls { cert: identity.cert, key: identity.key, ca: ours.pem() }),
        ..Options::default()
    };
    let server = Server::start_with(options).await.unwrap();
    topology(&server, "orders").await;
    for words in [&["add_user", "shop", "unused"][..], &["set_permissions", "shop", "", "orders", ""]] {
        server.ctl(words).await.unwrap();
    }
    let config = |more: Value| {
        let mut config = json!({ "servers": [server.tls_url()], "exchange": "orders" });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    let (ca, wrong_ca) = (ours.pem(), other.pem());

    is_let_in(config(json!({})), &[("tls_ca", &ca)]).await;
    is_let_in(config(json!({ "tls_server_name": "rabbit.example" })), &[("tls_ca", &ca)]).await;
    assert!(is_refused(config(json!({})), &[("tls_ca", &wrong_ca)], "RABBITMQ.TLS").await.contains("tls_ca"));
    is_refused(config(json!({})), &[], "RABBITMQ.TLS").await;
    is_refused(config(json!({ "tls_server_name": "other.example" })), &[("tls_ca", &ca)], "RABBITMQ.TLS").await;

    // By certificate: the name in it is the user.
    let named =
        |name: &str| ours.sign(&[name], |params| params.distinguished_name.push(rcgen::DnType::CommonName, name));
    let (shop, nobody) = (named("shop"), named("nobody"));
    let external = config(json!({ "auth": "external" }));
    let by = |identity: &waybill_tests::certificates::Identity| {
        [("tls_ca", ca.clone()), ("tls_cert", identity.cert.clone()), ("tls_key", identity.key.clone())]
    };
    let secrets = by(&shop);
    let shown: Vec<(&str, &str)> = secrets.iter().map(|(name, value)| (*name, value.as_str())).collect();
    is_let_in(external.clone(), &shown).await;
    let secrets = by(&nobody);
    let shown: Vec<(&str, &str)> = secrets.iter().map(|(name, value)| (*name, value.as_str())).collect();
    is_refused(external.clone(), &shown, "RABBITMQ.AUTH").await;
    is_refused(external, &[("tls_ca", &ca)], "RABBITMQ.CREDENTIALS").await;

    // TLS where there is none, and none where there is.
    let plain = json!({ "servers": [server.url()], "tls": "required", "connect_timeout": "2s" });
    let error = open(with_secrets(plain, &[("tls_ca", &ca)])).await.unwrap_err();
    assert_eq!(error.fault.code, "RABBITMQ.TLS", "{error:?}");
    let unsecured = config(json!({ "tls": "off", "connect_timeout": "2s" }));
    let error = open(settings(unsecured)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}");
}
