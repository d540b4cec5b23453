//! Plugins of sources and handlers of the real binary: replaced by name, and left alone by a change that isn't theirs.

use std::path::Path;

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
    let running = Running::start(&by("")).await;
    let compared = async |text: &str| {
        running.write(text);
        let reply = running.api.post("/v1/config/reload", &json!({ "dry_run": true })).await.unwrap();
        assert!(reply.is_ok(), "{reply:?}");
        reply.body
    };
    let told = compared(&by("window = 7\n")).await;
    assert_eq!(told["changes"][0]["effect"], "now", "{told}");
    assert!(!told["warnings"].to_string().contains("refused"), "{told}");
    let told = compared(&by("home = \"elsewhere\"\n")).await;
    assert_eq!(told["changes"][0]["effect"], "refused", "{told}");
    assert!(told["warnings"].to_string().contains("INBOX.OTHER_HOME"), "{told}");
    running.end().await;
}
