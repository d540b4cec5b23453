//! The stream, created and changed when the operator asks for it.

use serde_json::{Value, json};
use waybill_core::port::provision::{ProvisionAction, ProvisionChange};
use waybill_core::port::transport::Transport;
use waybill_testkit::nats::Server;

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
async fn what_jetstream_refuses_is_told_and_nothing_wanted_is_nothing_done() {
    let server = Server::start().await.unwrap();
    server.client().await.unwrap().create_stream("OTHER", &["orders.>"], &json!({})).await.unwrap();
    let transport = open(settings(config(&server, &json!({ "subjects": ["orders.>"] })))).await.unwrap();
    let error = transport.provision(true).await.unwrap_err();
    assert!(error.to_string().contains("overlap"), "{error}");
    assert_eq!(provision(json!({ "servers": [server.url()] }), true).await, []);
}
