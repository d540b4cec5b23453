//! Passwords and users, and what happens with wrong ones. No value of a secret is ever in an error.

use serde_json::json;
use waybill_core::port::transport::ErrorKind;
use waybill_testkit::redis::{Options, Server};

use super::fake::Fake;
use super::support::*;

async fn is_let_in(server: &Server, secrets: &[(&str, &str)]) {
    let transport = open(with_secrets(json!({ "servers": [server.url()] }), secrets)).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 1, STREAM)).await), 1);
}

async fn is_refused(url: String, secrets: &[(&str, &str)], code: &str) {
    let error = open(with_secrets(json!({ "servers": [url] }), secrets)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, code), "{error:?}");
    let said = format!("{error:?}");
    for (name, value) in secrets {
        assert!(!said.contains(value), "{name} is in {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_let_in() {
    // Once as it is, once by the words of servers before version 6.
    for more in ["", "rename-command HELLO \"\""] {
        let options = Options { password: Some("s3cret".to_owned()), config: more.to_owned(), durable: false };
        let server = Server::start_with(options).await.unwrap();
        is_let_in(&server, &[("password", "s3cret")]).await;
        is_let_in(&server, &[("password", "s3cret\n")]).await;
        is_refused(server.url(), &[("password", "another-one")], "REDIS.AUTH").await;
        is_refused(server.url(), &[], "REDIS.AUTH").await;
        is_refused(server.url(), &[("user", "shop-without-password")], "REDIS.CREDENTIALS").await;
    }
    let open_to_all = Server::start().await.unwrap();
    is_let_in(&open_to_all, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_few_rights_is_let_in() {
    let config = "user default off\nuser shop on >s3cret ~orders.* +xadd +ping\nuser gone off >s3cret ~* +@all\n\
        user admin on >admin ~* +@all";
    let server = Server::start_with(Options { config: format!("{config}\n"), password: None, durable: false }).await;
    // The testkit's own client is nobody here; the server is asked as another user.
    let Err(error) = server else { panic!("the default user is off") };
    assert!(error.to_string().contains("NOAUTH"), "{error}");
    let config = "user shop on >s3cret ~orders.* +xadd +ping\nuser gone off >s3cret ~* +@all";
    let server = Server::start_with(Options { config: config.to_owned(), ..Options::default() }).await.unwrap();
    is_let_in(&server, &[("user", "shop"), ("password", "s3cret")]).await;
    is_refused(server.url(), &[("user", "shop"), ("password", "another-one")], "REDIS.AUTH").await;
    is_refused(server.url(), &[("user", "gone"), ("password", "s3cret")], "REDIS.AUTH").await;
}

/// A server of before version 6 quotes what it doesn't know, and that is a password.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_old_server_quotes_is_not_shown() {
    let old = Fake::start(|mut peer| {
        while let Some(words) = peer.command() {
            match words[0].as_str() {
                "HELLO" | "AUTH" => {
                    let quoted: Vec<String> = words[1..].iter().map(|word| format!("`{word}`, ")).collect();
                    peer.say(&format!(
                        "-ERR unknown command `{}`, with args beginning with: {}",
                        words[0],
                        quoted.concat()
                    ));
                }
                _ => peer.say("+OK"),
            }
        }
    });
    let secrets = [("user", "shop-user"), ("password", "s3cret-word")];
    let error = open(with_secrets(json!({ "servers": [old.url()] }), &secrets)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unsupported, "REDIS.UNSUPPORTED"));
    assert!(!format!("{error:?}").contains("s3cret-word"), "{error:?}");
}

/// A password that is changed while the transport serves: nothing is burned, and the operator is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_stops_being_good_holds_the_transport() {
    let options = Options { password: Some("first".to_owned()), ..Options::default() };
    let server = Server::start_with(options).await.unwrap();
    let settings = with_secrets(json!({ "servers": [server.url()] }), &[("password", "first")]);
    let transport = open(settings).await.unwrap();
    let mut client = server.client().await.unwrap();
    client.ask(&["CONFIG", "SET", "requirepass", "second"]).await.unwrap();
    client.ask(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    let (kind, code) = refused(&transport, batch(0, 1, STREAM)).await;
    assert_eq!((kind, code.as_str()), (ErrorKind::Denied, "REDIS.AUTH"));
}
