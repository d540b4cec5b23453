//! Consumer groups, created when the operator asks for them.

use serde_json::{Value, json};
use waybill_core::port::provision::{ProvisionAction, ProvisionChange};
use waybill_core::port::transport::Transport;
use waybill_testkit::redis::Server;

use super::support::*;

/// What is planned, or done.
async fn provision(server: &Server, groups: Value, apply: bool) -> Vec<ProvisionChange> {
    let transport = to(server, json!({ "provision": { "groups": groups } })).await;
    transport.provision(apply).await.unwrap()
}

fn actions(changes: &[ProvisionChange]) -> Vec<ProvisionAction> {
    changes.iter().map(|change| change.action).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_created_once_and_left_where_they_stand() {
    let server = Server::start().await.unwrap();
    let groups = json!([
        { "stream": "orders.created", "group": "billing" },
        { "stream": "orders.created", "group": "mail", "start": "$" },
    ]);
    let planned = provision(&server, groups.clone(), false).await;
    assert_eq!(actions(&planned), [ProvisionAction::Create, ProvisionAction::Create]);
    assert_eq!(planned[0].target, "group billing of stream orders.created");
    assert_eq!(command(&server, &["EXISTS", "orders.created"]).await, "0", "a plan creates nothing");

    assert_eq!(actions(&provision(&server, groups.clone(), true).await), [ProvisionAction::Create; 2]);
    let transport = to(&server, json!({})).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 3, STREAM)).await), 3);
    let mut client = server.client().await.unwrap();
    let read = ["XREADGROUP", "GROUP", "billing", "worker", "COUNT", "2", "STREAMS", "orders.created", ">"];
    let first = client.ask(&read).await.unwrap();
    assert_eq!(first.list()[0].list()[1].list().len(), 2);

    assert_eq!(actions(&provision(&server, groups, true).await), [ProvisionAction::Keep; 2]);
    let rest = client.ask(&read).await.unwrap();
    assert_eq!(rest.list()[0].list()[1].list().len(), 1, "the group still stands where its consumer left it");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_something_else_is_told_and_left_alone() {
    let server = Server::start().await.unwrap();
    command(&server, &["SET", "orders.created", "a text"]).await;
    let groups = json!([
        { "stream": "orders.created", "group": "billing" },
        { "stream": "invoices.created", "group": "billing" },
    ]);
    let done = provision(&server, groups, true).await;
    assert_eq!(actions(&done), [ProvisionAction::Conflict, ProvisionAction::Create], "{done:?}");
    assert_eq!(command(&server, &["GET", "orders.created"]).await, "a text");
    assert_eq!(to(&server, json!({})).await.provision(true).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_refuses_is_told() {
    let server = Server::start().await.unwrap();
    command(&server, &["ACL", "SETUSER", "shop", "on", ">s3cret", "~*", "+hello", "+ping", "+xadd"]).await;
    let groups = json!([{ "stream": "orders.created", "group": "billing" }]);
    let config = json!({ "servers": [server.url()], "provision": { "groups": groups } });
    let transport = open(with_secrets(config, &[("user", "shop"), ("password", "s3cret")])).await.unwrap();
    let error = transport.provision(true).await.unwrap_err().to_string();
    assert!(error.contains("NOPERM") && !error.contains("s3cret"), "{error}");
}
