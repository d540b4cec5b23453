//! Who we are to the server, over TLS and without, and each way it can go wrong.

use serde_json::{Value, json};
use waybill_core::port::table::Table;
use waybill_core::port::transport::{CallError, ErrorKind};
use waybill_testkit::postgres::{BY_STATUS, Options, PASSWORD, Server, Tls};
use waybill_tests::certificates::Authority;
use waybill_tests::transport::grant;

use super::support::*;

async fn started(options: Options) -> Server {
    let server = Server::start_with(options).await.unwrap();
    // The table is made by who may do everything: the user's own way in is what is tested.
    let mut superuser = server.superuser().await.unwrap();
    superuser.query(&format!("SET ROLE app; {BY_STATUS}")).await.unwrap();
    server
}

async fn is_let_in(server: &Server, more: Value, secrets: &[(&str, &str)]) {
    let table = open(grant(settings(server, more), secrets)).await.expect("opens");
    assert_eq!(claim(&table, order(1)).await.seen, 0);
}

async fn refused(server: &Server, more: Value, secrets: &[(&str, &str)]) -> CallError {
    let error = open(grant(settings(server, more), secrets)).await.unwrap_err();
    assert!(!error.fault.reason.contains(PASSWORD), "{error:?}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_proved_and_a_wrong_or_missing_one_is_told() {
    for login in ["scram-sha-256", "md5", "password"] {
        let config = if login == "md5" { "password_encryption = md5\n".to_owned() } else { String::new() };
        let server = started(Options { login: Some(login), config, ..Options::default() }).await;
        is_let_in(&server, json!({}), &[("password", PASSWORD)]).await;
        let wrong = refused(&server, json!({}), &[("password", "wrong")]).await;
        assert_eq!((wrong.kind, wrong.fault.code.as_str()), (ErrorKind::Denied, "POSTGRES.AUTH"), "{login}");
        let missing = refused(&server, json!({}), &[]).await;
        assert!(missing.fault.reason.contains("secret `password`"), "{login}: {missing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_verified_before_anything_is_said() {
    let (ca, other) = (Authority::new("ours"), Authority::new("another"));
    let identity = ca.sign(&["127.0.0.1", "db.example"], |_| {});
    let tls = Some(Tls { cert: identity.cert, key: identity.key });
    let options = Options { login: Some("scram-sha-256"), tls, tls_only: true, ..Options::default() };
    let server = started(options).await;
    let url = |mode: &str| json!({ "url": format!("{}?sslmode={mode}", server.url()) });
    let (ca_pem, other_pem) = (ca.pem(), other.pem());
    let secrets = [("password", PASSWORD), ("tls_ca", ca_pem.as_str())];
    for mode in ["prefer", "require", "verify-full"] {
        is_let_in(&server, url(mode), &secrets).await;
    }
    is_let_in(&server, json!({ "tls_server_name": "db.example" }), &secrets).await;
    let unknown = refused(&server, url("require"), &[("password", PASSWORD), ("tls_ca", other_pem.as_str())]).await;
    assert_eq!((unknown.kind, unknown.fault.code.as_str()), (ErrorKind::Denied, "POSTGRES.TLS"), "{unknown:?}");
    let plain = refused(&server, url("disable"), &[("password", PASSWORD)]).await;
    assert!(plain.kind == ErrorKind::Denied && plain.fault.reason.contains("sslmode=require"), "{plain:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_that_is_wanted_and_not_offered_is_never_done_without() {
    let server = started(Options { login: Some("scram-sha-256"), ..Options::default() }).await;
    let more = json!({ "url": format!("{}?sslmode=require", server.url()) });
    let error = refused(&server, more, &[("password", PASSWORD)]).await;
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "POSTGRES.TLS"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_a_table_or_a_right_that_is_missing_is_told_with_what_to_do() {
    let (server, mut client) = with_table(BY_STATUS).await;
    let elsewhere = json!({ "url": format!("postgres://app@127.0.0.1:{}/nowhere", server.port()) });
    assert_eq!(refused(&server, elsewhere, &[]).await.fault.code, "POSTGRES.NO_DATABASE");
    let error = refused(&server, json!({ "table": "other" }), &[]).await;
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::InvalidConfig, "POSTGRES.NO_TABLE"));
    let error = refused(&server, json!({ "columns": { "payload": "body" } }), &[]).await;
    assert!(error.kind == ErrorKind::InvalidConfig && error.fault.reason.contains("`body`"), "{error:?}");

    client.query("GRANT SELECT ON outbox_events TO PUBLIC").await.unwrap();
    server.superuser().await.unwrap().query("CREATE ROLE reader LOGIN").await.unwrap();
    let reader = json!({ "url": server.url().replace("app@", "reader@") });
    let table = open(settings(&server, reader)).await.expect("what is there can be read");
    let error = table.claim(0, order(1), AMPLE).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "POSTGRES.PERMISSIONS"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_host_that_takes_writes_is_used() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a")]).await;
    // As a standby does, this one takes no writes of ours.
    let standby = Server::start().await.unwrap();
    standby.superuser().await.unwrap().query("ALTER ROLE app SET default_transaction_read_only = on").await.unwrap();
    let hosts = format!("postgres://app@127.0.0.1:{},127.0.0.1:{}/app", standby.port(), server.port());
    let table = open(settings(&server, json!({ "url": hosts }))).await.expect("the second takes it");
    assert_eq!(ids(&claim(&table, order(1)).await), ["1"]);
}
