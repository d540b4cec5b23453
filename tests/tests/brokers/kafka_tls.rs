//! Certificates of clients at a Kafka server that lets nobody in without one: who is let in, and who he is there.

use std::sync::Arc;

use rcgen::DnType;
use serde_json::json;
use waybill_core::port::source::Source as _;
use waybill_core::port::transport::{CallError, ErrorKind, Transport as _};
use waybill_sandbox::{EndpointSpec, WasmTransport};
use waybill_testkit::kafka::{Options, Server, Tls};
use waybill_tests::certificates::{Authority, Identity};
use waybill_tests::source::{self, WANTS, ids, pull_all};
use waybill_tests::transport::{self, AMPLE, batch, send};

use super::kafka::codes;

/// Opens that are tried until a refusal is heard: a connection may break before.
const OPENS_MAX: usize = 10;
/// The server asks who one is where a topic belongs to somebody; everything else is everybody's.
const AUTHORIZER: &str = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
                          super.users=User:ANONYMOUS\nallow.everyone.if.no.acl.found=true\n";

/// A certificate of a client of this name.
fn named(ca: &Authority, name: &str) -> Identity {
    ca.sign(&["localhost"], |params| params.distinguished_name.push(DnType::CommonName, name))
}

/// The server's CA with a certificate that is shown to it.
fn shown<'a>(ca: &'a str, identity: &'a Identity) -> Vec<(&'a str, &'a str)> {
    vec![("tls_ca", ca), ("tls_cert", &identity.cert), ("tls_key", &identity.key)]
}

fn settings(url: &str, secrets: &[(&str, &str)]) -> EndpointSpec {
    let config = json!({ "servers": [url], "create_topics": "never" });
    transport::grant(transport::settings("orders-kafka", config), secrets)
}

async fn open(url: &str, secrets: &[(&str, &str)]) -> Result<Arc<WasmTransport>, CallError> {
    transport::open("kafka", settings(url, secrets)).await
}

/// What becomes of a message to a topic.
async fn fate(url: &str, secrets: &[(&str, &str)], topic: &str) -> Vec<String> {
    let transport = open(url, secrets).await.unwrap();
    let codes = codes(&send(&transport, batch(0, 1, topic)).await);
    transport.close(AMPLE).await;
    codes
}

/// Why nobody is let in with these: denied, as TLS.
async fn refusal(url: &str, secrets: &[(&str, &str)]) -> String {
    for _ in 0..OPENS_MAX {
        let error = open(url, secrets).await.unwrap_err();
        if error.kind == ErrorKind::Denied {
            assert_eq!(error.fault.code.as_str(), "KAFKA.TLS", "{error:?}");
            return error.fault.reason;
        }
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}");
    }
    panic!("it was never said that nobody is let in");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_shows_a_certificate_is_who_it_names_unless_a_user_logs_in() {
    let (ours, another) = (Authority::new("ours"), Authority::new("another"));
    let identity = ours.sign(&["127.0.0.1"], |_| {});
    let tls = Tls { cert: identity.cert, key: identity.key, ca: ours.pem() };
    let options = Options { config: AUTHORIZER.to_owned(), sasl: true, tls: Some(tls), ..Options::default() };
    let server = Server::start_with(options).await.unwrap();
    let client = server.client().await.unwrap();
    for (topic, principal) in [("of-shop", "principal=User:CN=shop"), ("of-waybill", "principal=User:waybill")] {
        client.create(topic, 1).await.unwrap();
        client.run("allow", &[topic, principal]).await.unwrap();
    }
    let (ca, wrong_ca) = (ours.pem(), another.pem());
    let (shop, other, stranger) = (named(&ours, "shop"), named(&ours, "other"), named(&another, "shop"));

    let (url, login_url) = (server.tls_url(), server.sasl_tls_url());
    assert_eq!(fate(&url, &shown(&ca, &shop), "of-shop").await, ["+"]);
    assert_eq!(fate(&url, &shown(&ca, &other), "of-shop").await, ["blocked KAFKA.PERMISSIONS"]);

    // Over the same TLS, whoever logs in is that user, whatever his certificate says.
    let user = [("user", "waybill"), ("password", "secret")];
    let logged_in = [&shown(&ca, &shop)[..], &user[..]].concat();
    assert_eq!(fate(&login_url, &logged_in, "of-waybill").await, ["+"]);
    assert_eq!(fate(&login_url, &logged_in, "of-shop").await, ["blocked KAFKA.PERMISSIONS"]);

    for url in [&url, &login_url] {
        let login: &[(&str, &str)] = if *url == login_url { &user } else { &[] };
        for (secrets, why) in [
            (vec![("tls_ca", ca.as_str())], "wants a client certificate"),
            (shown(&ca, &stranger), "refuses the client certificate"),
            (shown(&wrong_ca, &shop), "isn't signed by a CA"),
        ] {
            let reason = refusal(url, &[&secrets[..], login].concat()).await;
            assert!(reason.contains(why), "{reason}");
        }
    }

    // A source shows its certificate as well.
    let config = json!({ "servers": [url], "topics": ["of-shop"], "group": "of-shop" });
    let spec = transport::grant(transport::settings("orders", config), &shown(&ca, &shop));
    let source = source::open("kafka-source", spec, WANTS).await.expect("opens");
    assert_eq!(ids(&pull_all(&source, 1).await.1), ["m0"]);
    source.close(AMPLE).await;
}
