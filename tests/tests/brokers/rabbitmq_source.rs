//! The bundled `rabbitmq-source` in the real sandbox against a real RabbitMQ.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::port::provision::ProvisionAction;
use waybill_core::port::source::{Disposition, Settled, Source, SourceWants};
use waybill_core::port::transport::{ErrorKind, Fault, Transport};
use waybill_core::time::UnixMillis;
use waybill_sandbox::{EndpointSpec, WasmSource};
use waybill_testkit::rabbitmq::{Client, Server};
use waybill_tests::source::{self, WANTS, ids, pull, pull_all, settle};
use waybill_tests::transport::{self, AMPLE, acknowledged, batch, send};

const PLUGIN: &str = "rabbitmq-source";

/// Settings for this queue, with more configuration.
fn settings(server: &Server, queue: &str, more: &Value) -> EndpointSpec {
    let mut config = json!({ "servers": [server.url()], "queue": queue });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    transport::settings("orders", config)
}

async fn open(server: &Server, queue: &str, more: Value) -> Arc<WasmSource> {
    source::open(PLUGIN, settings(server, queue, &more), WANTS).await.expect("opens")
}

/// A queue of this name with these arguments, behind an exchange of the same name.
async fn queue(server: &Server, name: &str, arguments: &[(&str, &str)]) -> Client {
    let mut client = server.client().await.unwrap();
    client.declare_exchange(name, "topic").await.unwrap();
    client.declare_queue(name, arguments).await.unwrap();
    client.bind(name, name, "orders.#").await.unwrap();
    client
}

/// Sends messages by the bundled transport.
async fn send_orders(server: &Server, exchange: &str, from: u64, to: u64) {
    let config = json!({ "servers": [server.url()], "exchange": exchange });
    let transport = transport::open("rabbitmq", transport::settings("orders-rabbit", config)).await.expect("opens");
    let outcomes = send(&transport, batch(from, to, "orders.created")).await;
    assert_eq!(acknowledged(&outcomes) as u64, to - from);
    transport.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_with_all_that_its_transport_said_and_is_acknowledged() {
    let server = Server::shared().await.unwrap();
    let mut client = queue(server, "source-whole", &[]).await;
    send_orders(server, "source-whole", 7, 8).await;
    let source = open(server, "source-whole", json!({ "consumer_timeout": "10m" })).await;
    assert_eq!(source.facts().features, ["nack", "reject", "delivery-count"]);
    assert_eq!(source.facts().settle_within, Some(Duration::from_secs(600)));
    let (session, all) = pull_all(&source, 1).await;
    let [delivery] = all.as_slice() else { panic!("{all:#?}") };
    assert_eq!((delivery.id.as_deref(), delivery.topic.as_str()), (Some("m7"), "orders.created"));
    assert_eq!(delivery.position, None);
    assert_eq!((delivery.tenant.as_deref(), delivery.key.as_deref()), (Some("acme"), Some("order-7")));
    assert_eq!((delivery.event_type.as_deref(), delivery.event_version), (Some("order.created"), Some(3)));
    assert_eq!((delivery.correlation_id.as_deref(), delivery.causation_id.as_deref()), (Some("cor-1"), Some("cau-1")));
    assert_eq!(delivery.reply_to.as_deref(), Some("replies.orders"));
    assert_eq!(
        (delivery.content_type.as_deref(), &delivery.payload[..]),
        (Some("application/json"), &b"{\"order\":7}"[..])
    );
    assert_eq!(delivery.occurred_at, Some(UnixMillis(1_700_000_000_000)));
    assert_eq!((delivery.delivery_count, delivery.redelivered), (None, false));
    assert!(delivery.settle_within.is_some_and(|time| time <= Duration::from_secs(600)));
    assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, [Settled::Done]);
    assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, [Settled::Lost]);
    let extended = settle(&source, session, &all, &Disposition::Extend).await;
    assert_eq!(extended, [Settled::Lost], "it is settled");
    assert!(pull(&source, 50).await.caught_up);
    source.close(AMPLE).await;
    assert!(client.read_all("source-whole").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_comes_again_and_what_is_refused_goes_to_the_dead_letters() {
    let server = Server::shared().await.unwrap();
    let mut client = server.client().await.unwrap();
    client.declare_queue("source-dead", &[]).await.unwrap();
    let arguments = [("x-dead-letter-exchange", "amq.direct"), ("x-dead-letter-routing-key", "source-dead")];
    client.bind("source-dead", "amq.direct", "source-dead").await.unwrap();
    queue(server, "source-back", &arguments).await;
    send_orders(server, "source-back", 0, 3).await;
    let source = open(server, "source-back", json!({})).await;
    let (session, all) = pull_all(&source, 3).await;
    assert_eq!(ids(&all), ["m0", "m1", "m2"]);
    let poison = Disposition::Reject(Fault::new("TEST.POISON", "poison"));
    assert_eq!(settle(&source, session, &all[..1], &poison).await, [Settled::Done]);
    assert_eq!(settle(&source, session, &all[1..2], &Disposition::Release).await, [Settled::Done]);
    assert_eq!(settle(&source, session, &all[2..], &Disposition::Ack).await, [Settled::Done]);
    let (session, again) = pull_all(&source, 1).await;
    assert_eq!((ids(&again), again[0].redelivered), (vec!["m1"], true));
    settle(&source, session, &again, &Disposition::Ack).await;
    source.close(AMPLE).await;
    let dead = client.read_all("source-dead").await.unwrap();
    assert_eq!(dead.iter().map(|stored| stored.property("message-id")).collect::<Vec<_>>(), [Some("m0")]);
    assert!(client.read_all("source-back").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_queue_tells_how_many_deliveries_are_left() {
    let server = Server::shared().await.unwrap();
    queue(server, "source-quorum", &[("x-queue-type", "quorum"), ("x-delivery-limit", "3")]).await;
    send_orders(server, "source-quorum", 0, 1).await;
    let source = open(server, "source-quorum", json!({ "delivery_limit": 3 })).await;
    for (count, left) in [(1, 3), (2, 2), (3, 1), (4, 0)] {
        let (session, all) = pull_all(&source, 1).await;
        assert_eq!((all[0].delivery_count, all[0].deliveries_left), (Some(count), Some(left)));
        let last = if left == 0 { Disposition::Ack } else { Disposition::Release };
        settle(&source, session, &all, &last).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_on_its_way_than_the_window_and_what_was_not_handed_over_goes_back() {
    let server = Server::shared().await.unwrap();
    let mut client = queue(server, "source-window", &[]).await;
    send_orders(server, "source-window", 0, 30).await;
    let wants = SourceWants { window: 10, ..WANTS };
    let source = source::open(PLUGIN, settings(server, "source-window", &json!({})), wants).await.unwrap();
    let (session, first) = pull_all(&source, 1).await;
    let first = [first, pull(&source, 3).await.deliveries].concat();
    assert_eq!(client.count("source-window").await.unwrap(), 20, "ten are on their way or here");
    source.quiesce(AMPLE).await.unwrap();
    settle(&source, session, &first, &Disposition::Ack).await;
    source.close(AMPLE).await;
    assert_eq!(client.read_all("source-window").await.unwrap().len(), 30 - first.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_channel_is_closed_the_host_is_told_what_is_lost() {
    let server = Server::shared().await.unwrap();
    queue(server, "source-gone", &[]).await;
    send_orders(server, "source-gone", 0, 2).await;
    let source = open(server, "source-gone", json!({})).await;
    let (session, all) = pull_all(&source, 2).await;
    server.ctl(&["delete_queue", "source-gone"]).await.unwrap();
    let mut lost = Vec::new();
    while lost.len() < 2 {
        if let Ok(pulled) = source.pull(0, 50, source::BYTES, Duration::from_millis(200)).await {
            assert!(pulled.deliveries.is_empty());
            lost.extend(pulled.notices.lost);
        }
    }
    assert_eq!(lost, all.iter().map(|delivery| delivery.token.clone()).collect::<Vec<_>>());
    assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, [Settled::Lost, Settled::Lost]);
    let error = source.pull(0, 50, source::BYTES, Duration::from_millis(200)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unavailable, "RABBITMQ.NO_QUEUE"));
    server.client().await.unwrap().declare_queue("source-gone", &[]).await.unwrap();
    server.client().await.unwrap().bind("source-gone", "source-gone", "orders.#").await.unwrap();
    send_orders(server, "source-gone", 2, 3).await;
    assert_eq!(ids(&pull_all(&source, 1).await.1), ["m2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_is_provisioned_once_and_a_source_without_it_waits() {
    let server = Server::shared().await.unwrap();
    let wanted =
        json!({ "provision": { "queues": [{ "name": "source-made", "type": "quorum", "bindings": ["made.#"] }] } });
    let (source, refused) = source::supervise(PLUGIN, settings(server, "source-made", &wanted)).await;
    assert_eq!(refused.map(|error| error.fault.code), Some("RABBITMQ.NO_QUEUE".to_owned()));
    for (apply, action) in
        [(false, ProvisionAction::Create), (true, ProvisionAction::Create), (true, ProvisionAction::Keep)]
    {
        let changes = source.provision(apply).await.unwrap();
        assert_eq!((changes[0].target.as_str(), changes[0].action), ("queue source-made", action));
    }
    assert!(pull_until_it_serves(&source).await);
}

/// Whether a pull succeeds within a while.
async fn pull_until_it_serves(source: &WasmSource) -> bool {
    for _ in 0..300 {
        if source.pull(0, 1, source::BYTES, Duration::from_millis(200)).await.is_ok() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_is_told_so_without_the_password() {
    let server = Server::shared().await.unwrap();
    for (password, code) in [("another-one", "RABBITMQ.AUTH"), ("guest", "RABBITMQ.NO_QUEUE")] {
        let spec = settings(server, "source-nobody-made", &json!({}));
        let spec = transport::grant(spec, &[("user", "guest"), ("password", password)]);
        let error = source::open(PLUGIN, spec.clone(), WANTS).await.unwrap_err();
        // The second one is in, and looks for the queue.
        assert_eq!(error.fault.code, code, "{error:?}");
        let said = source::said(PLUGIN, spec).await;
        assert!(said.contains(code) && !said.contains("another-one"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_costs_nothing() {
    let mut server = Server::start().await.unwrap();
    queue(&server, "orders", &[]).await;
    send_orders(&server, "orders", 0, 10).await;
    let source = open(&server, "orders", json!({})).await;
    let (session, first) = pull_all(&source, 10).await;
    server.write_declared().await.unwrap();
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    let (later, again) = pull_all(&source, 10).await;
    let mut names = ids(&again);
    names.sort_unstable();
    assert_eq!(names, ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"]);
    let stale = settle(&source, session, &first, &Disposition::Ack).await;
    assert!(stale.iter().all(|settled| *settled == Settled::Lost), "{stale:?}");
    assert!(settle(&source, later, &again, &Disposition::Ack).await.iter().all(|settled| *settled == Settled::Done));
}
