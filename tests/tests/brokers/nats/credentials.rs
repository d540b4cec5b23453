//! Each kind of credentials, and what happens with wrong ones. No value of a secret is ever in an error.

use serde_json::json;
use waybill_core::port::transport::{ErrorKind, Outcome};
use waybill_testkit::nats::{Options, Server};

use super::support::*;

/// From the documentation of NATS.
const SEED: &str = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU";
const PUBLIC: &str = "UCK5N7N66OBOINFXAYC2ACJQYFSOD4VYNU6APEJTAVFZB2SVHLKGEW7L";
/// An operator with an account `ORDERS`, and its user: made once, signed with keys of fixed bytes.
const OPERATOR: &str = include_str!("data/operator.conf");
const CREDS: &str = include_str!("data/shop.creds");
const EXPIRED: &str = include_str!("data/expired.creds");

async fn server(config: &str) -> Server {
    Server::start_with(Options { config: config.to_owned(), ..Options::default() }).await.unwrap()
}

/// Publishes; without a stream the server's word that nobody takes it shows that we are in.
async fn is_let_in(server: &Server, auth: &str, secrets: &[(&str, &str)]) {
    let transport = open(with_secrets(json!({ "servers": [server.url()], "auth": auth }), secrets)).await.unwrap();
    let outcomes = send(&transport, batch(0, 1, "orders.created")).await;
    let [Outcome::Blocked { fault, .. }] = outcomes.as_slice() else { panic!("{auth}: {outcomes:#?}") };
    assert_eq!(fault.code, "NATS.NO_STREAM", "{auth}");
}

async fn is_refused(server: &Server, auth: &str, secrets: &[(&str, &str)], code: &str) {
    let error = open(with_secrets(json!({ "servers": [server.url()], "auth": auth }), secrets)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, code), "{auth}: {error:?}");
    let said = format!("{error:?}");
    for (name, value) in secrets {
        assert!(!said.contains(value), "{name} is in {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_a_password_is_let_in() {
    let server = server("authorization { user: shop, password: s3cret }").await;
    for auth in ["auto", "password"] {
        is_let_in(&server, auth, &[("user", "shop"), ("password", "s3cret")]).await;
        is_refused(&server, auth, &[("user", "shop"), ("password", "another-one")], "NATS.AUTH").await;
    }
    is_refused(&server, "none", &[], "NATS.AUTH").await;
    is_refused(&server, "password", &[("user", "shop-without-password")], "NATS.CREDENTIALS").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_let_in() {
    let server = server("authorization { token: t0ken-of-the-shop }").await;
    for auth in ["auto", "token"] {
        is_let_in(&server, auth, &[("token", "t0ken-of-the-shop")]).await;
        is_refused(&server, auth, &[("token", "another-token")], "NATS.AUTH").await;
    }
    is_refused(&server, "token", &[], "NATS.CREDENTIALS").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_let_in() {
    let server = server(&format!("authorization {{ users = [ {{ nkey: {PUBLIC} }} ] }}")).await;
    for auth in ["auto", "nkey"] {
        is_let_in(&server, auth, &[("nkey_seed", SEED)]).await;
    }
    let other = CREDS.lines().find(|line| line.starts_with("SU")).unwrap();
    is_refused(&server, "nkey", &[("nkey_seed", other)], "NATS.AUTH").await;
    is_refused(&server, "nkey", &[("nkey_seed", PUBLIC)], "NATS.CREDENTIALS").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creds_file_is_let_in_until_it_expires() {
    let server = server(OPERATOR).await;
    for auth in ["auto", "creds"] {
        is_let_in(&server, auth, &[("creds", CREDS)]).await;
    }
    is_refused(&server, "creds", &[("creds", EXPIRED)], "NATS.AUTH").await;
    is_refused(&server, "creds", &[("creds", "not a file of credentials")], "NATS.CREDENTIALS").await;
}

/// Credentials that are taken away while the transport serves: nothing is burned, and the operator is told.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_stop_being_good_hold_the_transport() {
    let mut server = server("authorization { token: the-first-token }").await;
    let settings = with_secrets(json!({ "servers": [server.url()] }), &[("token", "the-first-token")]);
    let transport = open(settings).await.unwrap();
    server.reconfigure("authorization { token: the-second-token }").await.unwrap();
    let error = try_send(&transport, batch(0, 1, "orders.created")).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "NATS.AUTH"));
    assert!(!error.fault.maybe_delivered);
}
