//! Plugins of sources and handlers of the real binary: replaced by name, and left alone by a change that isn't theirs.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use waybill_testkit::inbound::{Answer, HandlerServer};
use waybill_testkit::nats;
use waybill_tests::guests;

use super::config_reload::Running;
use super::inbound::until;

const HOST: &str = "[store]\nurl = \"surrealkv://./data\"\n[plugins]\ncache = \"./cache\"\n";

/// A component under another digest with each name: a custom section that nobody reads is added.
fn put(file: &Path, component: &[u8], name: &str) {
    let mut bytes = component.to_vec();
    let length = u8::try_from(name.len()).unwrap();
    bytes.extend([0, length + 1, length]);
    bytes.extend(name.as_bytes());
    std::fs::write(file, bytes).unwrap();
}

async fn server() -> nats::Server {
    let server = nats::Server::start().await.unwrap();
    server.client().await.unwrap().create_stream("ORDERS", &["orders.>"], &json!({})).await.unwrap();
    server
}

fn source(plugin: &str, server: &nats::Server, more: &str) -> String {
    let (url, peer) = (server.url(), server.url().replace("nats://", "tcp://"));
    format!(
        "[source.orders]\nplugin = {plugin:?}\nprovision = true\nallow = {{ net = [\"{peer}\"] }}\n\
         config = {{ servers = [\"{url}\"], stream = \"ORDERS\", durable = \"orders\" }}\n{more}"
    )
}

/// The plugin that operators know by this name.
async fn plugin(running: &Running, name: &str) -> Value {
    let plugins: Value = running.api.read("/v1/plugins", &[]).await.unwrap();
    let found = plugins["items"].as_array().unwrap().iter().find(|plugin| plugin["transport"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {plugins}")).clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_of_a_source_is_reloaded_by_its_name() {
    let (server, folder) = (server().await, tempfile::tempdir().unwrap());
    let ship = HandlerServer::start(|_| Answer::status(200)).await.unwrap();
    let (file, component) =
        (folder.path().join("orders.wasm"), waybill_bundled::find("nats-source").unwrap().component);
    put(&file, component, "one");
    let text = format!(
        "{HOST}{}[consumer.ship]\nsource = \"orders\"\nhandler = \"{}\"\n",
        source(&file.display().to_string(), &server, ""),
        ship.url()
    );
    let running = Running::start(&text).await;
    let mut client = server.client().await.unwrap();
    client.publish_with("orders.in", &[("Nats-Msg-Id", "m-1")], b"1").await.unwrap();
    until("the first is handled", async || ship.calls().len() == 1).await;
    let before = plugin(&running, "source.orders").await;
    let reload = async || running.api.post("/v1/plugins/source.orders/reload", &json!({})).await.unwrap();
    let same = reload().await;
    assert!(same.is_ok() && same.body["changed"] == false, "{same:?}");

    put(&file, component, "other");
    let replaced = reload().await;
    assert!(replaced.is_ok() && replaced.body["changed"] == true, "{replaced:?}");
    let after = plugin(&running, "source.orders").await;
    assert_eq!(replaced.body["plugin"]["live"]["digest"], after["live"]["digest"]);
    assert_ne!(before["live"]["digest"], after["live"]["digest"]);
    client.publish_with("orders.in", &[("Nats-Msg-Id", "m-2")], b"1").await.unwrap();
    until("the second is handled", async || ship.calls().len() == 2).await;

    std::fs::write(&file, b"not a component").unwrap();
    let refused = reload().await;
    assert_eq!(refused.code(), Some("PLUGIN.NOT_A_COMPONENT"), "{refused:?}");
    let rolled = running.api.post("/v1/plugins/source.orders/rollback", &json!({})).await.unwrap();
    assert_eq!(rolled.code(), Some("PLUGIN.NO_PREVIOUS"), "{rolled:?}");
    assert_eq!(plugin(&running, "source.orders").await["live"]["digest"], after["live"]["digest"], "it goes on");
    client.publish_with("orders.in", &[("Nats-Msg-Id", "m-3")], b"1").await.unwrap();
    until("the third is handled", async || ship.calls().len() == 3).await;
    running.end().await;
}

/// A durable consumer of `ORDERS` with this policy, in place of the one before.
async fn put_durable(server: &nats::Server, name: &str, ack_policy: &str) {
    let mut client = server.client().await.unwrap();
    let _was_there = client.api(&format!("CONSUMER.DELETE.ORDERS.{name}"), &json!({})).await;
    let config = json!({ "durable_name": name, "ack_policy": ack_policy, "deliver_policy": "all", "max_deliver": -1 });
    let request = json!({ "stream_name": "ORDERS", "config": config });
    client.api(&format!("CONSUMER.DURABLE.CREATE.ORDERS.{name}"), &request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_fall_back_what_is_in_force_is_tried_again_by_its_name() {
    let server = server().await;
    // The first call holds the source open until what would take its place can't serve any more.
    let ship = HandlerServer::start(|called| {
        let delay = if called.id == "m-1" { Duration::from_secs(8) } else { Duration::ZERO };
        Answer::status(200).delayed(delay)
    })
    .await
    .unwrap();
    let text = format!(
        "{HOST}{}[consumer.ship]\nsource = \"orders\"\nhandler = \"{}\"\n",
        source("nats", &server, ""),
        ship.url()
    );
    let running = Running::start(&text).await;
    let mut client = server.client().await.unwrap();
    let mut send = async |id: &str| client.publish_with("orders.in", &[("Nats-Msg-Id", id)], b"1").await.unwrap();
    let is_handled = |id: &str| ship.calls().iter().any(|call| call.id == id);
    send("m-1").await;
    until("the first is called", async || ship.under_way() == 1).await;
    put_durable(&server, "other", "explicit").await;
    running.write(&text.replace("durable = \"orders\"", "durable = \"other\""));
    let reply = running.reload().await;
    assert!(reply.is_ok(), "{reply:?}");
    put_durable(&server, "other", "none").await;
    until("the first is handled", async || ship.under_way() == 0).await;
    send("m-2").await;
    until("the one before serves again", async || is_handled("m-2")).await;
    let phase = async || plugin(&running, "source.orders").await["live"]["phase"].clone();
    assert_eq!(phase().await, "probing", "what is in force doesn't serve");
    let reload = async || running.api.post("/v1/plugins/source.orders/reload", &json!({})).await.unwrap();
    let refused = reload().await;
    assert!(!refused.is_ok(), "it can't serve yet: {refused:?}");
    put_durable(&server, "other", "explicit").await;
    let tried = reload().await;
    assert!(tried.is_ok() && tried.body["changed"] == true, "{tried:?}");
    assert_eq!(phase().await, "live");
    send("m-3").await;
    until("what is in force serves", async || {
        let info = server.client().await.unwrap().api("CONSUMER.INFO.ORDERS.other", &json!({})).await.unwrap();
        is_handled("m-3") && info["num_pending"] == 0 && info["num_ack_pending"] == 0
    })
    .await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_file_that_may_be_put_in_force_later_is() {
    let server = server().await;
    let ship = HandlerServer::start(|_| Answer::status(200)).await.unwrap();
    let by = |server: &str, window: u32| {
        let (orders, url) = (format!("window = {window}\n"), ship.url());
        let address = server.trim_start_matches("nats://");
        format!(
            "[server]\nwatch = true\n{HOST}[source.orders]\nplugin = \"nats\"\nprovision = true\n\
             allow = {{ net = [\"tcp://{address}\"] }}\n\
             config = {{ servers = [\"nats://{address}\"], stream = \"ORDERS\", durable = \"orders\" }}\n{orders}\
             [consumer.ship]\nsource = \"orders\"\nhandler = \"{url}\"\n"
        )
    };
    let running = Running::start(&by(&server.url(), 50)).await;
    // A port that nobody listens at yet.
    let door = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    running.write(&by(&format!("nats://{door}"), 7));
    until("it is refused", async || {
        let audit: Value = running.api.read("/v1/audit", &[]).await.unwrap();
        audit.to_string().contains("CONFIG.RELOAD_REFUSED") || audit.to_string().contains("NATS.")
    })
    .await;
    let window = async || {
        let sources: Value = running.api.read("/v1/sources", &[]).await.unwrap();
        sources["items"][0]["window"].clone()
    };
    assert_eq!(window().await, 50);
    let (listener, port) = (tokio::net::TcpListener::bind(door).await.unwrap(), server.port());
    tokio::spawn(async move {
        while let Ok((mut outer, _)) = listener.accept().await {
            tokio::spawn(async move {
                if let Ok(mut inner) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await {
                    let _ended = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
                }
            });
        }
    });
    until("it is in force", async || window().await == 7).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longer_handler_timeout_is_no_reason_to_open_a_handler_anew() {
    let (server, folder) = (server().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("ship.wasm");
    put(&file, &std::fs::read(guests::HANDLES_AS_TOLD).unwrap(), "one");
    let by = |more: &str| {
        format!(
            "{HOST}{}[consumer.ship]\nsource = \"orders\"\nhandler = \"fn:handles-as-told\"\nplugin = {:?}\n{more}",
            source("nats", &server, ""),
            file.display().to_string()
        )
    };
    let running = Running::start(&by("config = { amount = 0 }\n")).await;
    for (more, generation) in [
        ("config = { amount = 0 }\nhandler_timeout = \"150s\"\n", 1),
        ("config = { amount = 1 }\nhandler_timeout = \"150s\"\n", 2),
        ("config = { amount = 1 }\n", 2),
    ] {
        running.write(&by(more));
        let reply = running.reload().await;
        assert!(reply.is_ok(), "{reply:?}");
        assert_eq!(plugin(&running, "handler.ship").await["live"]["generation"], generation, "{more}");
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_whose_source_finds_no_peer_may_be_tried_again() {
    let server = server().await;
    let ship = HandlerServer::start(|_| Answer::status(200)).await.unwrap();
    let orders = source("nats", &server, "");
    let good = format!("{HOST}{orders}[consumer.ship]\nsource = \"orders\"\nhandler = \"{}\"\n", ship.url());
    let running = Running::start(&good).await;
    // A port that nobody listens at by now.
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let address = server.url().trim_start_matches("nats://").to_owned();
    for (text, retryable) in [
        (good.replace(&address, &gone.to_string()), true),
        (good.replace("handler = \"http", "handler = \"nowhere"), false),
    ] {
        running.write(&text);
        let refused = running.reload().await;
        assert_eq!((refused.code(), &refused.body["retryable"]), (Some("CONFIG.RELOAD_REFUSED"), &json!(retryable)));
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_difference_that_a_reload_refuses_is_told_as_such() {
    let server = server().await;
    let ship = HandlerServer::start(|_| Answer::status(200)).await.unwrap();
    let by = |more: &str| {
        let orders = source("nats", &server, more);
        format!("{HOST}{orders}[consumer.ship]\nsource = \"orders\"\nhandler = \"{}\"\n", ship.url())
    };
    // The host that runs tells where all lives in the same words as a configuration that is read.
    let running = Running::start(&by("home = \"shop\"\n")).await;
    let compared = async |text: &str| {
        running.write(text);
        let reply = running.api.post("/v1/config/reload", &json!({ "dry_run": true })).await.unwrap();
        assert!(reply.is_ok(), "{reply:?}");
        reply.body
    };
    let told = compared(&by("home = \"shop\"\nwindow = 7\n")).await;
    assert_eq!(told["changes"][0]["effect"], "now", "{told}");
    assert!(!told["warnings"].to_string().contains("refused"), "{told}");
    let told = compared(&by("home = \"elsewhere\"\n")).await;
    assert_eq!(told["changes"][0]["effect"], "refused", "{told}");
    assert!(told["warnings"].to_string().contains("INBOX.OTHER_HOME"), "{told}");
    running.end().await;
}
