//! The stream, created and changed when the operator asks for it.

use serde_json::{Value, json};
use waybill_core::port::provision::{ProvisionAction, ProvisionChange};
use waybill_core::port::transport::Transport;
use waybill_testkit::nats::{Options, Server};

use super::support::*;

fn config(server: &Server, stream: &Value) -> Value {
    json!({ "servers": [server.url()], "stream": "ORDERS", "provision": { "stream": stream } })
}

/// What is planned, or done.
async fn provision(config: Value, apply: bool) -> Vec<ProvisionChange> {
    let transport = open(settings(config)).await.unwrap();
    transport.provision(apply).await.unwrap()
}

async fn setting(server: &Server, name: &str) -> Value {
    let info = server.client().await.unwrap().api("STREAM.INFO.ORDERS", &json!({})).await.unwrap();
    info["config"][name].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_created_changed_and_left_alone() {
    let server = Server::start().await.unwrap();
    let first = json!({ "subjects": ["orders.>"], "max_age": "24h", "duplicate_window": "10m" });
    let planned = provision(config(&server, &first), false).await;
    assert_eq!((planned[0].target.as_str(), planned[0].action), ("stream ORDERS", ProvisionAction::Create));
    assert!(
        server.client().await.unwrap().api("STREAM.INFO.ORDERS", &json!({})).await.is_err(),
        "a plan creates nothing"
    );

    assert_eq!(provision(config(&server, &first), true).await[0].action, ProvisionAction::Create);
    assert_eq!(setting(&server, "max_age").await, json!(86_400_000_000_000_u64));
    assert_eq!(provision(config(&server, &first), true).await[0].action, ProvisionAction::Keep);
    let transport = open(settings(config(&server, &first))).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 3, "orders.created")).await), 3);

    let more = json!({ "subjects": ["orders.>", "invoices.>"], "max_age": "48h" });
    assert_eq!(provision(config(&server, &more), true).await[0].action, ProvisionAction::Change);
    assert_eq!(setting(&server, "max_age").await, json!(172_800_000_000_000_u64));
    // What isn't named stays as it was.
    assert_eq!(setting(&server, "duplicate_window").await, json!(600_000_000_000_u64));

    let less = json!({ "subjects": ["orders.>", "invoices.>"], "max_msgs": 1, "description": "never applied" });
    let refused = provision(config(&server, &less), true).await;
    assert_eq!(refused[0].action, ProvisionAction::Conflict, "{refused:?}");
    assert_eq!(setting(&server, "description").await, Value::Null);
    assert_eq!(server.client().await.unwrap().read_all("ORDERS").await.unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_stream_has_the_defaults_of_document_5_as_far_as_the_server_has_room() {
    let account = "accounts { A { users: [ { user: shop, password: s3cret } ], jetstream: { max_file: 2000000000 } } }
        no_auth_user: shop";
    for (server, is_planned, bytes) in [
        ("jetstream { max_file_store: 12000000000 }", true, 10_000_000_000_u64),
        (account, true, 2_000_000_000),
        // What a server has on its disk is only seen by trying.
        ("jetstream { max_file_store: 3000000000 }", false, 2_500_000_000),
    ] {
        let server = Server::start_with(Options { config: server.to_owned(), ..Options::default() }).await.unwrap();
        let wanted = json!({ "subjects": ["orders.>"], "replicas": 3 });
        let planned = provision(config(&server, &wanted), false).await;
        let done = provision(config(&server, &wanted), true).await;
        for change in [&planned[0], &done[0]] {
            assert_eq!(change.action, ProvisionAction::Create);
            assert!(change.detail.contains("num_replicas is cut from 3 to 1: "), "{}", change.detail);
        }
        let told = format!("max_bytes is cut from 10000000000 to {bytes}: ");
        let is_cut = bytes < 10_000_000_000;
        assert_eq!(planned[0].detail.contains(&told), is_cut && is_planned, "{}", planned[0].detail);
        assert_eq!(done[0].detail.contains(&told), is_cut, "{}", done[0].detail);
        for (name, value) in [
            ("max_bytes", json!(bytes)),
            ("max_age", json!(604_800_000_000_000_u64)),
            ("storage", json!("file")),
            ("retention", json!("limits")),
            ("num_replicas", json!(1)),
        ] {
            assert_eq!(setting(&server, name).await, value, "{name}");
        }
        // What was cut once is no difference the next time.
        let again = provision(config(&server, &wanted), true).await;
        assert_eq!(again[0].action, ProvisionAction::Keep, "{}", again[0].detail);
        let written =
            json!({ "subjects": ["orders.>"], "max_bytes": bytes, "max_age": "7d", "storage": "file", "replicas": 3 });
        assert_eq!(provision(config(&server, &written), true).await[0].action, ProvisionAction::Keep);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_may_not_ask_for_its_account_may_still_make_a_stream() {
    let config_of_server = r#"jetstream { max_file_store: 12000000000 }
        authorization { users = [
            { user: shop, password: s3cret, permissions: { publish: { deny: ["$JS.API.INFO"] } } }
            { user: admin, password: admin } ] }
        no_auth_user: admin"#;
    let options = Options { config: config_of_server.to_owned(), ..Options::default() };
    let server = Server::start_with(options).await.unwrap();
    let wanted = config(&server, &json!({ "subjects": ["orders.>"] }));
    let transport = open(with_secrets(wanted, &[("user", "shop"), ("password", "s3cret")])).await.unwrap();
    assert_eq!(transport.provision(true).await.unwrap()[0].action, ProvisionAction::Create);
    assert_eq!(setting(&server, "max_bytes").await, json!(10_000_000_000_u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_jetstream_refuses_is_told_and_nothing_wanted_is_nothing_done() {
    let server = Server::start().await.unwrap();
    server.client().await.unwrap().create_stream("OTHER", &["orders.>"], &json!({})).await.unwrap();
    let transport = open(settings(config(&server, &json!({ "subjects": ["orders.>"] })))).await.unwrap();
    let error = transport.provision(true).await.unwrap_err();
    assert!(error.to_string().contains("overlap"), "{error}");
    assert_eq!(provision(json!({ "servers": [server.url()] }), true).await, []);
}
