//! Credentials that stop being good while the release binary sends, and good ones that come by a reload.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use waybill_testkit::api::Api;
use waybill_testkit::mqtt::{Client, Login, Options, Server};

use super::config_reload::Running;
use super::inbound::until;

const USER: &str = "shop";
/// Name of the session that gets everything.
const READER: &str = "reader";

fn login(password: &str) -> Login {
    Login { session: Some(READER.to_owned()), user: Some((USER.to_owned(), password.to_owned())) }
}

/// Enqueues messages `m-FROM` to before `m-TO`.
async fn enqueue(api: &Api, from: usize, to: usize) {
    let message =
        |number: usize| json!({ "topic": "bus:orders.created", "id": format!("m-{number}"), "payload": number });
    let messages: Vec<Value> = (from..to).map(message).collect();
    let reply = api.post("/v1/messages", &json!({ "messages": messages })).await.unwrap();
    assert!(reply.is_ok(), "{reply:?}");
}

async fn until_all_are_gone(api: &Api) {
    until("nothing is on its way", async || {
        api.depths().await.unwrap().iter().map(|depth| depth.on_the_way()).sum::<u64>() == 0
    })
    .await;
}

/// The administrator of Mosquitto gives the user another password: whoever came by the old one is sent away. Some three seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_holds_the_transport_and_burns_nothing_until_a_reload_brings_the_new_one() {
    let user = Some((USER.to_owned(), "the-first".to_owned()));
    let mut server = Server::start_with(Options { user, ..Options::default() }).await.unwrap();
    let mut reader = Client::connect(server.port(), &login("the-first")).await.unwrap();
    reader.subscribe("#").await.unwrap();
    reader.close().await.unwrap();
    let secrets = tempfile::tempdir().unwrap();
    for (name, value) in [("user", USER), ("first", "the-first"), ("second", "the-second")] {
        std::fs::write(secrets.path().join(name), value).unwrap();
    }
    let by = |password: &str| {
        let file = |name: &str| format!("file:{}", secrets.path().join(name).display());
        format!(
            "[store]\nurl = \"surrealkv://./data\"\n[plugins]\ncache = \"./cache\"\n\
             [transport.orders]\nplugin = \"mqtt\"\nconfig = {{ servers = [\"{}\"] }}\nallow = {{ net = [\"tcp://127.0.0.1:{}\"] }}\n\
             secrets = {{ user = \"{}\", password = \"{}\" }}\n\
             [[route]]\nmatch = \"bus:**\"\ntransport = \"orders\"\n",
            server.url(),
            server.port(),
            file("user"),
            file(password)
        )
    };
    let (first, second) = (by("first"), by("second"));
    let running = Running::start(&first).await;
    enqueue(&running.api, 0, 10).await;
    until_all_are_gone(&running.api).await;

    server.change_password("the-second").unwrap();
    until("the server goes by the new password", async || {
        let before = Login { session: None, ..login("the-first") };
        Client::connect(server.port(), &before).await.is_err()
    })
    .await;
    enqueue(&running.api, 10, 20).await;
    until("the transport is held, with the code", async || {
        let blocked: Value = running.api.read("/v1/outbox/blocked", &[]).await.unwrap();
        blocked["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|held| held["kind"] == "transport" && held["code"] == "MQTT.AUTH")
    })
    .await;
    assert!(running.api.dead_letters().await.unwrap().is_empty());
    // Those that were under way when the server cut the connection have had an attempt: they may have arrived.
    let held: BTreeMap<String, _> =
        running.api.messages("pending").await.unwrap().into_iter().map(|held| (held.id, held.attempts)).collect();
    assert!(!held.is_empty());

    running.write(&second);
    let reply = running.reload().await;
    assert!(reply.is_ok(), "{reply:?}");
    until_all_are_gone(&running.api).await;
    let done = running.api.messages("done").await.unwrap();
    let is_burned = held
        .iter()
        .any(|(id, attempts)| done.iter().any(|message| message.id == *id && message.attempts > *attempts + 1));
    assert!(done.len() == 20 && !is_burned, "an attempt was burned: {held:?} {done:?}");
    assert!(running.api.dead_letters().await.unwrap().is_empty());
    let mut reader = Client::connect(server.port(), &login("the-second")).await.unwrap();
    let mut ids = BTreeSet::new();
    while ids.len() < 20 {
        let message = reader.receive_all(1).await.unwrap().remove(0);
        ids.insert(message.property("id").unwrap().to_owned());
    }
    assert_eq!(ids, (0..20).map(|number| format!("m-{number}")).collect());
    running.end().await;
}
