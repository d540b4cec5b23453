//! Exchange and queues, created when the operator asks for them.

use serde_json::{Value, json};
use waybill_core::port::provision::{ProvisionAction, ProvisionChange};
use waybill_core::port::transport::Transport;
use waybill_testkit::rabbitmq::Server;

use super::support::*;

/// What is planned, or done: targets and actions.
async fn provision(config: Value, apply: bool) -> Vec<ProvisionChange> {
    let transport = open(settings(config)).await.unwrap();
    transport.provision(apply).await.unwrap()
}

fn actions(changes: &[ProvisionChange]) -> Vec<(&str, ProvisionAction)> {
    changes.iter().map(|change| (change.target.as_str(), change.action)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn exchange_queue_and_binding_are_created_and_then_left_alone() {
    let server = Server::shared().await.unwrap();
    let wanted = |length: u64| {
        json!({
            "servers": [server.url()], "exchange": "made",
            "provision": {
                "exchange": { "type": "topic" },
                "queues": [{ "name": "made", "type": "quorum", "bindings": ["orders.#"], "arguments": { "x-max-length": length } }],
            },
        })
    };
    let all = ["exchange made", "queue made", "binding made -> made (orders.#)"];
    let create = all.map(|target| (target, ProvisionAction::Create));
    let keep = all.map(|target| (target, ProvisionAction::Keep));
    assert_eq!(actions(&provision(wanted(100), false).await), create);
    let mut client = server.client().await.unwrap();
    assert!(client.read_all("made").await.is_err(), "a plan creates nothing");

    assert_eq!(actions(&provision(wanted(100), true).await), create);
    assert_eq!(actions(&provision(wanted(100), true).await), keep);
    let transport = open(settings(wanted(100))).await.unwrap();
    assert_eq!(fates(&send(&transport, batch(0, 3, "orders.created")).await), "aaa");

    // What is there and different is told and left alone; so is what hangs on it.
    for apply in [false, true] {
        let changes = provision(wanted(7), apply).await;
        let conflict = [all[1], all[2]].map(|target| (target, ProvisionAction::Conflict));
        assert_eq!(
            actions(&changes),
            [keep.as_slice(), &conflict].concat()[..1].iter().chain(&conflict).copied().collect::<Vec<_>>()
        );
        assert!(changes[1].detail.contains("x-max-length"), "{changes:?}");
    }
    let mut client = server.client().await.unwrap();
    assert_eq!(client.read_all("made").await.unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_of_another_type_is_a_conflict_and_nothing_wanted_is_nothing_done() {
    let server = Server::shared().await.unwrap();
    topology(server, "typed").await;
    let mut other = config(server, "typed");
    other["provision"] = json!({ "exchange": { "type": "fanout" } });
    let changes = provision(other, true).await;
    assert_eq!(actions(&changes), [("exchange typed", ProvisionAction::Conflict)]);
    assert!(changes[0].detail.contains("type"), "{changes:?}");
    assert_eq!(provision(config(server, "typed"), true).await, []);
    let mut reserved = config(server, "typed");
    reserved["provision"] = json!({ "exchange": { "name": "amq.mine" } });
    let transport = open(settings(reserved)).await.unwrap();
    let error = transport.provision(true).await.unwrap_err();
    assert!(error.to_string().contains("amq."), "{error}");
}
