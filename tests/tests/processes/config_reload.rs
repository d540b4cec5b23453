//! The configuration of the real binary read again while messages flow: by SIGHUP, by a change of the file, by the API.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use waybill_testkit::api::{Api, Reply};
use waybill_testkit::process::{Host, Launch, binary};
use waybill_testkit::receiver::{Answer, Delivered, Receiver};

/// Far longer than anything here takes: a broken host must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running host and its file.
pub struct Running {
    host: Host,
    pub api: Api,
    pub file: PathBuf,
    _dir: tempfile::TempDir,
}

/// A configuration with these transports, each the http one; the first takes every topic.
fn config(transports: &[&str], more: &str) -> String {
    let mut text =
        "[store]\nurl = \"surrealkv://./data\"\n[server]\nlisten = \"127.0.0.1:0\"\nrequest_timeout = \"50s\"\n\
                    [plugins]\ncache = \"./cache\"\n"
            .to_owned();
    for name in transports {
        text += &format!("[transport.{name}]\nplugin = \"http\"\nallow = {{ net = [\"http://127.0.0.1:*\"] }}\n");
    }
    if let Some(first) = transports.first() {
        text += &format!("[[route]]\nmatch = \"http:**\"\ntransport = \"{first}\"\n");
    }
    text + more
}

impl Running {
    pub async fn start(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let launch = Launch::prepare(binary().unwrap(), dir.path(), text).unwrap();
        let (host, api) = Host::ready(&launch).await.unwrap();
        let file = dir.path().join("waybill.toml");
        assert!(file.exists(), "{file:?}");
        Self { host, api, file, _dir: dir }
    }

    /// Writes the file anew, as an editor does: beside it, then over it.
    pub fn write(&self, text: &str) {
        let draft = self.file.with_extension("draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(&draft, &self.file).unwrap();
    }

    pub async fn reload(&self) -> Reply {
        self.api.post("/v1/config/reload", &json!({})).await.unwrap()
    }

    async fn transports(&self) -> Vec<String> {
        let shown: Value = self.api.read("/v1/transports", &[]).await.unwrap();
        let names = shown["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    async fn until_transports(&self, names: &[&str]) {
        let waiting = async {
            while self.transports().await != names {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("it never had {names:?}"));
    }

    async fn send(&self, id: &str, topic: &str, key: &str) {
        let body = json!({ "topic": topic, "id": id, "key": key, "payload": id });
        let reply = self.api.post("/v1/messages", &body).await.unwrap();
        assert!(reply.is_ok(), "{reply:?}");
    }

    async fn until_done(&self, id: &str) -> Value {
        let waiting = async {
            loop {
                let view = self.api.get(&format!("/v1/messages/{id}"), &[]).await.unwrap().body;
                if view["state"] == "done" {
                    return view;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{id} was never done"))
    }

    /// Name of the transport that delivered a message.
    async fn went_by(&self, id: &str) -> String {
        let view = self.until_done(id).await;
        view["history"].as_array().unwrap().last().unwrap()["transport"].as_str().unwrap().to_owned()
    }

    /// Exit code and stdout of `waybill config ...`.
    pub async fn command(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(binary().unwrap());
        command.arg("config").args(arguments).args(["--url", self.api.base()]);
        let done = command.output().await.unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap())
    }

    #[cfg(unix)]
    async fn hang_up(&self) {
        let pid = self.host.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().await.unwrap().success());
    }

    pub async fn end(self) {
        assert!(self.host.terminate(PATIENCE).await.unwrap().success());
    }
}

async fn receiver() -> Receiver {
    Receiver::start(|_: &Delivered| Answer::status(200)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn transports_and_routes_come_and_go_under_load_and_keys_keep_their_order() {
    let receiver = receiver().await;
    let running = Running::start(&config(&["one"], "")).await;
    let topic = receiver.url("orders");
    let mut went = BTreeMap::new();
    let mut ids = Vec::new();
    for round in 0..12 {
        let names: &[&str] = match round % 3 {
            0 => &["one"],
            1 => &["one", "two"],
            _ => &["two"],
        };
        // With both, the routes lead to the second.
        let text = config(names, "");
        running.write(&if names.len() == 2 {
            text.replace("transport = \"one\"", "transport = \"two\"")
        } else {
            text
        });
        for n in 0..30 {
            let id = format!("m-{round:02}-{n:02}");
            running.send(&id, &topic, &format!("k{}", n % 4)).await;
            ids.push(id);
            if n == 15 {
                let reply = running.reload().await;
                assert!(reply.is_ok(), "{reply:?}");
                assert_eq!(reply.body["applied"], true);
            }
        }
        running.until_transports(names).await;
        *went.entry(running.went_by(ids.last().unwrap()).await).or_insert(0) += 1;
    }
    for id in &ids {
        running.until_done(id).await;
    }
    assert_eq!(went, BTreeMap::from([("one".to_owned(), 4), ("two".to_owned(), 8)]));
    let arrived: Vec<(String, String)> =
        receiver.arrivals().into_iter().map(|arrival| (arrival.delivered.key.unwrap(), arrival.delivered.id)).collect();
    assert_eq!(arrived.len(), ids.len(), "each exactly once: nothing died");
    for key in ["k0", "k1", "k2", "k3"] {
        let of_key: Vec<&String> = arrived.iter().filter(|(mine, _)| mine == key).map(|(_, id)| id).collect();
        assert!(of_key.is_sorted(), "{key}: {of_key:?}");
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_with_a_mistake_changes_nothing_and_says_all_of_it() {
    let receiver = receiver().await;
    let running = Running::start(&config(&["one"], "")).await;
    let junk = running.file.with_file_name("junk.wasm");
    std::fs::write(&junk, b"not a component").unwrap();
    for (text, says) in [
        (config(&["one", "two"], "[outbox]\nbatsh = 3\n"), "CONFIG.UNKNOWN_KEY"),
        (config(&["one"], "[[route]]\nmatch = \"bus:**\"\ntransport = \"nobody\"\n"), "CONFIG.UNKNOWN_TRANSPORT"),
        (config(&["one"], "[transport.junk]\nplugin = \"./junk.wasm\"\n"), "PLUGIN.NOT_A_COMPONENT"),
        (config(&["one", "two"], "[transport.bad]\nplugin = \"http\"\nconfig = { no_such = 1 }\n"), "PLUGIN.CONFIG"),
        ("[store\n".to_owned(), "CONFIG.SYNTAX"),
        (
            // The new one is fine, the changed one isn't: neither is taken.
            config(&["one", "two"], "").replacen("http://127.0.0.1:*", "127.0.0.1", 1),
            "PLUGIN.GRANT",
        ),
    ] {
        running.write(&text);
        let reply = running.reload().await;
        assert_eq!((reply.status, reply.code()), (422, Some("CONFIG.RELOAD_REFUSED")), "{reply:?}");
        let detail = reply.body["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{says}: {detail}");
        assert_eq!(running.transports().await, ["one"]);
    }
    let (exit, _) = running.command(&["reload"]).await;
    assert_eq!(exit, Some(2), "refused: something is configured wrongly");
    running.send("after", &receiver.url("x"), "k").await;
    assert_eq!(running.went_by("after").await, "one");
    let audit: Value = running.api.read("/v1/audit", &[]).await.unwrap();
    assert!(audit.to_string().contains("ConfigurationReloaded"), "{audit}");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_is_rolled_back_keeps_the_send_timeout_that_is_configured_now() {
    let slow = |_: &Delivered| Answer::status(200).after(Duration::from_secs(4));
    let receiver = Receiver::start(slow).await.unwrap();
    let bounded = |timeout: &str| {
        let transport = format!("[transport.one]\nsend_timeout = \"{timeout}\"\n");
        config(&["one"], "[outbox]\nmax_attempts = 1\n").replacen("[transport.one]\n", &transport, 1)
    };
    let running = Running::start(&bounded("1s")).await;
    running.write(&bounded("60s"));
    let reply = running.reload().await;
    assert!(reply.is_ok(), "{reply:?}");
    let reply = running.api.post("/v1/plugins/one/rollback", &json!({})).await.unwrap();
    assert!(reply.is_ok(), "{reply:?}");
    running.send("slow", &receiver.url("x"), "k").await;
    running.until_done("slow").await;
    assert_eq!(receiver.arrivals().len(), 1, "the first call had time enough");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_tells_and_what_needs_a_restart_stays_pending() {
    let running = Running::start(&config(&["one"], "")).await;
    running.write(&config(&["one", "two"], "[outbox]\nbatch = 7\n").replace("50s", "40s"));
    let (exit, keys) = running.command(&["diff", "-o", "ids"]).await;
    assert_eq!(exit, Some(0));
    let keys: Vec<&str> = keys.lines().collect();
    for key in ["outbox.batch", "server.request_timeout", "transport.two.plugin"] {
        assert!(keys.contains(&key), "{key}: {keys:?}");
    }
    assert_eq!(running.transports().await, ["one"], "nothing changed");
    let (exit, table) = running.command(&["reload"]).await;
    assert_eq!(exit, Some(0));
    let line = table.lines().find(|line| line.starts_with("server.request_timeout")).unwrap();
    assert!(line.contains("50s") && line.contains("40s") && line.contains("after a restart"), "{line}");
    assert_eq!(running.transports().await, ["one", "two"]);
    let (exit, shown) = running.command(&["show", "--running", "-o", "jsonl"]).await;
    assert_eq!(exit, Some(0));
    let setting = |key: &str| -> Value {
        let mut settings = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        settings.find(|setting| setting["key"] == key).unwrap()
    };
    assert_eq!(
        (&setting("server.request_timeout")["value"], &setting("outbox.batch")["value"]),
        (&json!("50s"), &json!(7))
    );
    assert_eq!(setting("server.request_timeout")["effect"], "restart");
    assert!(setting("outbox.batch")["origin"].as_str().unwrap().contains("waybill.toml:"), "{shown}");
    let (_, keys) = running.command(&["diff", "-o", "ids"]).await;
    assert_eq!(keys.lines().collect::<Vec<_>>(), ["server.request_timeout"], "pending still, and nothing else");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transports_that_are_changed_are_tried_at_the_same_time() {
    let with = |ports: [u16; 2]| {
        let mut text = config(&["http"], "");
        for (name, port) in ["one", "two"].iter().zip(ports) {
            text += &format!(
                "[transport.{name}]\nplugin = \"nats\"\nconfig = {{ servers = [\"nats://127.0.0.1:{port}\"], stream = \"S\" }}\n\
                 allow = {{ net = [\"tcp://127.0.0.1:{port}\"] }}\n"
            );
        }
        text
    };
    // Nobody answers at these: they are tried again and again, beside what follows.
    let running = Running::start(&with([1, 2])).await;
    let [one, two] = [silent_peer().await, silent_peer().await];
    running.write(&with([one.1, two.1]));
    let reloading = async { running.reload().await };
    let both_called = async {
        // Each waits for the other's call before its own may fail.
        let called = tokio::join!(one.0.accept(), two.0.accept());
        drop((called, one.0, two.0));
    };
    let (reply, called) = tokio::join!(reloading, tokio::time::timeout(PATIENCE, both_called));
    called.expect("one was tried when the other had failed, or never");
    assert!(!reply.is_ok(), "neither peer is there: {reply:?}");
    running.end().await;
}

/// A peer that takes a connection and says nothing, and its port.
async fn silent_peer() -> (tokio::net::TcpListener, u16) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_and_a_change_of_a_watched_file_reload() {
    let running = Running::start(&config(&["one"], "")).await;
    running.write(&config(&["one", "two"], ""));
    running.hang_up().await;
    running.until_transports(&["one", "two"]).await;
    running.write(&config(&["two"], ""));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(running.transports().await, ["one", "two"], "not watched unless asked to");
    running.end().await;

    let watched = |names: &[&str]| config(names, "").replace("[server]\n", "[server]\nwatch = true\n");
    let running = Running::start(&watched(&["one"])).await;
    running.write(&watched(&["one", "two"]));
    running.until_transports(&["one", "two"]).await;
    // A mistake in between isn't taken, and the next change is.
    running.write("[server\n");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(running.transports().await, ["one", "two"]);
    running.write(&watched(&["two"]));
    running.until_transports(&["two"]).await;
    running.end().await;
}
