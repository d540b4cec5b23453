//! Sources, consumers and handlers of the real binary that come, change and go by `waybill config reload` while a real server has messages for
//! them. Each message is counted where it was handled: at the handler, or in a stream that a foreign client reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use waybill_testkit::inbound::{Answer, HandlerServer};
use waybill_testkit::nats;
use waybill_tests::guests;

use super::config_reload::Running;
use super::inbound::until;

const HOST: &str = "[store]\nurl = \"surrealkv://./data\"\n[plugins]\ncache = \"./cache\"\n";
/// Header that has the id: `Nats-Msg-Id` would let the server remove repeats by itself.
const ID: &str = "order-id";
/// Keys that messages have, so that those of one key wait for each other.
const KEYS: usize = 5;
/// Between two messages of a sender, so that every reload meets some on their way.
const PACE: Duration = Duration::from_millis(10);
/// A call takes so long, so that a reload meets several of them.
const CALL: Duration = Duration::from_millis(40);
/// Messages between two changes, at least.
const BETWEEN: usize = 25;

fn id_of(number: usize) -> String {
    format!("m-{number}")
}

/// A source with the durable consumer of its name.
fn source(name: &str, url: &str, stream: &str, more: &str) -> String {
    let peer = url.replace("nats://", "tcp://");
    format!(
        "[source.{name}]\nplugin = \"nats\"\nprovision = true\nallow = {{ net = [\"{peer}\"] }}\nmap = {{ id = \"{ID}\" }}\n\
         config = {{ servers = [\"{url}\"], stream = \"{stream}\", durable = \"{name}\" }}\n{more}"
    )
}

/// A consumer whose messages are posted to a URL.
fn consumer(name: &str, source: &str, url: &str) -> String {
    format!("[consumer.{name}]\nsource = \"{source}\"\nhandler = \"{url}\"\n")
}

/// A server with the streams `ORDERS` and `REFUNDS`.
async fn server() -> nats::Server {
    let server = nats::Server::start().await.unwrap();
    let mut client = server.client().await.unwrap();
    client.create_stream("ORDERS", &["orders.>"], &json!({})).await.unwrap();
    client.create_stream("REFUNDS", &["refunds.>"], &json!({})).await.unwrap();
    server
}

async fn handler() -> HandlerServer {
    HandlerServer::start(|_| Answer::status(200).delayed(CALL)).await.unwrap()
}

fn ids_at(handler: &HandlerServer) -> Vec<String> {
    handler.calls().into_iter().map(|call| call.id).collect()
}

async fn publish(client: &mut nats::Client, subject: &str, number: usize, payload: &str) {
    let (id, key) = (id_of(number), format!("key-{}", number % KEYS));
    client.publish_with(subject, &[(ID, &id), ("x-key", &key)], payload.as_bytes()).await.unwrap();
}

/// A sender of numbered messages that goes on until it is ended.
struct Flow {
    sent: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Flow {
    async fn begin(server: &nats::Server, subject: &'static str, payload: &'static str) -> Self {
        let (sent, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, is_over) = (Arc::clone(&sent), Arc::clone(&ends));
        let mut client = server.client().await.unwrap();
        let task = tokio::spawn(async move {
            while !is_over.load(Ordering::Acquire) {
                publish(&mut client, subject, count.load(Ordering::Acquire), payload).await;
                count.fetch_add(1, Ordering::AcqRel);
                sleep(PACE).await;
            }
        });
        Self { sent, ends, task }
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::Acquire)
    }

    async fn goes_on(&self) {
        let enough = self.sent() + BETWEEN;
        until("more is sent", async || self.sent() >= enough).await;
    }

    /// Sends no more; the ids of what it sent.
    async fn end(self) -> BTreeSet<String> {
        self.ends.store(true, Ordering::Release);
        self.task.await.unwrap();
        (0..self.sent.load(Ordering::Acquire)).map(id_of).collect()
    }
}

/// Has the host read this, by the command.
async fn reload(running: &Running, text: &str) {
    running.write(text);
    let (exit, said) = running.command(&["reload"]).await;
    assert_eq!(exit, Some(0), "{said}");
}

/// Waits until a handler was called for all of these: what the host has stored is acknowledged before it is handled.
async fn until_handled(handler: &HandlerServer, sent: &BTreeSet<String>) {
    let all = || ids_at(handler).into_iter().collect::<BTreeSet<String>>().is_superset(sent);
    until("all that was sent was handled", async || all()).await;
}

/// Waits until a durable consumer has delivered everything, and all of it is acknowledged.
async fn until_settled(server: &nats::Server, stream: &str, durable: &str) {
    until(&format!("{stream} is settled through {durable}"), async || {
        let asked = server.client().await.unwrap().api(&format!("CONSUMER.INFO.{stream}.{durable}"), &json!({})).await;
        asked.is_ok_and(|info| info["num_pending"] == 0 && info["num_ack_pending"] == 0)
    })
    .await;
}

/// Waits until the host is ready, and its inbox and sources are without trouble.
async fn until_ready(running: &Running) {
    until("/readyz is good", async || {
        let reply = running.api.get("/readyz", &[]).await.unwrap();
        let checks = reply.body["checks"].as_array().cloned().unwrap_or_default();
        let is_inbound = |check: &&Value| {
            let name = check["name"].as_str().unwrap_or_default();
            name == "inbox" || name.starts_with("source ")
        };
        let mut inbound = checks.iter().filter(is_inbound).peekable();
        reply.is_ok() && inbound.peek().is_some() && inbound.all(|check| check["status"] == "ok")
    })
    .await;
}

fn assert_each_once(handled: &[String], sent: &BTreeSet<String>) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    handled.iter().for_each(|id| *counts.entry(id).or_default() += 1);
    let lost: Vec<&String> = sent.iter().filter(|id| !counts.contains_key(id.as_str())).collect();
    let repeated: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(lost.is_empty() && repeated.is_empty(), "lost: {lost:?}, more than once: {repeated:?}");
    assert_eq!(counts.len(), sent.len(), "something else was handled, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_and_consumers_that_come_with_a_reload_handle_what_waits_and_what_comes() {
    let (server, ship, refund, audit) = (server().await, handler().await, handler().await, handler().await);
    let url = server.url();
    let first = format!("{HOST}{}{}", source("orders", &url, "ORDERS", ""), consumer("ship", "orders", &ship.url()));
    let running = Running::start(&first).await;
    let mut client = server.client().await.unwrap();
    for number in 0..20 {
        publish(&mut client, "refunds.asked", number, "1").await;
    }
    let flow = Flow::begin(&server, "orders.in", "1").await;
    flow.goes_on().await;

    let more = format!(
        "{}{}{}",
        source("refunds", &url, "REFUNDS", ""),
        consumer("refund", "refunds", &refund.url()),
        consumer("audit", "orders", &audit.url())
    );
    reload(&running, &format!("{first}{more}")).await;
    until("what waited for the new source is handled", async || refund.calls().len() >= 20).await;
    // Behind the reload, so they are the new consumer's, too.
    let begins = flow.sent() + 1;
    flow.goes_on().await;
    for number in 20..40 {
        publish(&mut client, "refunds.asked", number, "1").await;
    }
    let sent = flow.end().await;
    until_settled(&server, "ORDERS", "orders").await;
    until_settled(&server, "REFUNDS", "refunds").await;
    until_ready(&running).await;
    until_handled(&ship, &sent).await;
    assert_each_once(&ids_at(&ship), &sent);
    until_handled(&refund, &(0..40).map(id_of).collect()).await;
    assert_each_once(&ids_at(&refund), &(0..40).map(id_of).collect());
    let audited: BTreeSet<String> = ids_at(&audit).into_iter().collect();
    let missed: Vec<String> = (begins..sent.len()).map(id_of).filter(|id| !audited.contains(id)).collect();
    assert!(missed.is_empty(), "the new consumer never had {missed:?}");
    assert_eq!(audit.calls().len(), audited.len(), "each is handled once");
    running.end().await;
}

/// The component that leaves behind what it was given, under another digest with each text.
fn component(folder: &Path, name: &str) -> String {
    let mut bytes = std::fs::read(guests::HANDLES_AS_TOLD).unwrap();
    // A custom section: nobody reads it.
    let length = u8::try_from(name.len()).unwrap();
    bytes.extend([0, length + 1, length]);
    bytes.extend(name.as_bytes());
    let path = folder.join(format!("{name}.wasm"));
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

/// The digest of the component that handles the messages of `ship` now.
async fn digest(running: &Running) -> String {
    let plugins: Value = running.api.read("/v1/plugins", &[]).await.unwrap();
    let of_ship = plugins["items"].as_array().unwrap().iter().find(|plugin| plugin["transport"] == "handler.ship");
    of_ship.unwrap_or_else(|| panic!("{plugins}"))["live"]["digest"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_is_replaced_while_messages_flow_loses_and_repeats_none() {
    let server = server().await;
    server.client().await.unwrap().create_stream("TOLD", &["told"], &json!({})).await.unwrap();
    let (url, folder) = (server.url(), tempfile::tempdir().unwrap());
    let (one, other) = (component(folder.path(), "one"), component(folder.path(), "other"));
    let served_by = |plugin: &str, amount: usize| {
        let peer = url.replace("nats://", "tcp://");
        format!(
            "{HOST}{}[consumer.ship]\nsource = \"orders\"\nhandler = \"fn:handles-as-told\"\nplugin = {plugin:?}\nconfig = {{ amount = {amount} }}\n\
             [transport.told]\nplugin = \"nats\"\nconfig = {{ servers = [\"{url}\"], stream = \"TOLD\" }}\nallow = {{ net = [\"{peer}\"] }}\n\
             [[route]]\nmatch = \"bus:told\"\ntransport = \"told\"\n",
            source("orders", &url, "ORDERS", "")
        )
    };
    let running = Running::start(&served_by(&one, 0)).await;
    let before = digest(&running).await;
    // It leaves a message behind for each that it handled, which are counted where they end.
    let flow = Flow::begin(&server, "orders.in", "\"tell\"").await;
    flow.goes_on().await;
    for (plugin, amount) in [(&other, 0), (&one, 0), (&one, 1), (&other, 2)] {
        reload(&running, &served_by(plugin, amount)).await;
        assert_eq!(digest(&running).await == before, *plugin == one, "it serves now");
        until_ready(&running).await;
        flow.goes_on().await;
    }
    let last = digest(&running).await;
    let sent = flow.end().await;
    until_settled(&server, "ORDERS", "orders").await;
    let mut client = server.client().await.unwrap();
    until("what was left behind has arrived", async || {
        server.client().await.unwrap().read_all("TOLD").await.unwrap().len() >= sent.len()
    })
    .await;
    until_ready(&running).await;
    assert_eq!(digest(&running).await, last, "it did no worse than those before, and stayed");
    let told = client.read_all("TOLD").await.unwrap();
    let told: Vec<String> = told.into_iter().map(|left| String::from_utf8(left.payload).unwrap()).collect();
    let ids: Vec<String> = told.iter().map(|text| named_in(text)).collect();
    assert_each_once(&ids, &sent);
    assert!(told.iter().all(|text| text.contains("attempt: 1,")), "no call had to be made again: {told:?}");
    let dead: Vec<Value> = running.api.list("/v1/dead-letters", &[]).await.unwrap();
    assert!(dead.is_empty(), "{dead:?}");
    running.end().await;
}

/// The id of the message that a handler was given, in what it wrote of it.
fn named_in(text: &str) -> String {
    let rest = text.split_once("\"m-").unwrap_or_else(|| panic!("no id in {text}")).1;
    format!("m-{}", rest.split('"').next().unwrap())
}

/// Another address of a server on loopback, and how many connections came by it.
async fn second_address(server: &nats::Server) -> (String, Arc<AtomicUsize>) {
    let (listener, port) = (TcpListener::bind(("127.0.0.1", 0)).await.unwrap(), server.port());
    let (url, came) = (format!("nats://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&came);
    tokio::spawn(async move {
        while let Ok((mut outer, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::AcqRel);
            tokio::spawn(async move {
                if let Ok(mut inner) = TcpStream::connect(("127.0.0.1", port)).await {
                    let _ended = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
                }
            });
        }
    });
    (url, came)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_with_other_settings_goes_on_and_each_id_is_handled_once() {
    let (server, ship) = (server().await, handler().await);
    let (url, (other_url, came)) = (server.url(), second_address(&server).await);
    let by = |url: &str, window: u32| {
        let window = format!("window = {window}\n");
        format!("{HOST}{}{}", source("orders", url, "ORDERS", &window), consumer("ship", "orders", &ship.url()))
    };
    let running = Running::start(&by(&url, 50)).await;
    let flow = Flow::begin(&server, "orders.in", "1").await;
    flow.goes_on().await;
    for (url, window) in [(&url, 7), (&other_url, 7), (&other_url, 30), (&url, 12)] {
        reload(&running, &by(url, window)).await;
        let source: Value = running.api.read("/v1/sources", &[]).await.unwrap();
        assert_eq!(source["items"][0]["window"], window);
        flow.goes_on().await;
        let handled = ship.calls().len();
        until("it goes on", async || ship.calls().len() > handled).await;
    }
    let sent = flow.end().await;
    until_settled(&server, "ORDERS", "orders").await;
    until_ready(&running).await;
    assert!(came.load(Ordering::Acquire) > 0, "nobody came by the other address");
    until_handled(&ship, &sent).await;
    assert_each_once(&ids_at(&ship), &sent);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_consumer_has_the_whole_configuration_refused_with_its_code() {
    let (server, ship, elsewhere) = (server().await, handler().await, handler().await);
    let orders = source("orders", &server.url(), "ORDERS", "");
    let good = format!("{HOST}{orders}{}", consumer("ship", "orders", &ship.url()));
    let running = Running::start(&good).await;
    let flow = Flow::begin(&server, "orders.in", "1").await;
    flow.goes_on().await;
    std::fs::write(running.file.with_file_name("junk.wasm"), b"not a component").unwrap();
    // Beside it a consumer that would be new, and a handler that would be another one.
    let beside =
        format!("{}{}", consumer("ship", "orders", &elsewhere.url()), consumer("audit", "orders", &elsewhere.url()));
    let bad = |text: &str| format!("{HOST}{orders}{beside}[consumer.bad]\n{text}");
    let moved = source("orders", &server.url(), "ORDERS", "home = \"elsewhere\"\n");
    for (text, code) in [
        (bad("source = \"orders\"\nhandler = \"fn:junk\"\nplugin = \"./junk.wasm\"\n"), "PLUGIN.NOT_A_COMPONENT"),
        (bad("source = \"ordres\"\nhandler = \"http://127.0.0.1/\"\n"), "CONFIG.BAD_VALUE"),
        (bad("source = \"orders\"\nhandler = \"http://127.0.0.1/\"\nconcurency = 3\n"), "CONFIG.UNKNOWN_KEY"),
        (bad("source = \"orders\"\n"), "CONFIG.MISSING"),
        (format!("{HOST}{moved}{beside}"), "INBOX.OTHER_HOME"),
    ] {
        running.write(&text);
        let reply = running.reload().await;
        assert_eq!((reply.status, reply.code()), (422, Some("CONFIG.RELOAD_REFUSED")), "{reply:?}");
        let detail = reply.body["detail"].as_str().unwrap();
        assert!(detail.contains(code), "{code}: {detail}");
        let (exit, _) = running.command(&["reload"]).await;
        assert_eq!(exit, Some(2), "{code}");
        let stats: Value = running.api.read("/v1/inbox/stats", &[]).await.unwrap();
        let consumers: Vec<&str> =
            stats["consumers"].as_array().unwrap().iter().map(|row| row["consumer"].as_str().unwrap()).collect();
        assert_eq!(consumers, ["ship"], "{code}");
        flow.goes_on().await;
    }
    let sent = flow.end().await;
    until_settled(&server, "ORDERS", "orders").await;
    until_ready(&running).await;
    until_handled(&ship, &sent).await;
    assert_each_once(&ids_at(&ship), &sent);
    assert_eq!(elsewhere.calls().len(), 0, "nothing of a refused configuration was taken");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_taken_out_and_put_back_handles_what_waited_and_nothing_again() {
    let (server, ship) = (server().await, handler().await);
    let all =
        format!("{HOST}{}{}", source("orders", &server.url(), "ORDERS", ""), consumer("ship", "orders", &ship.url()));
    let running = Running::start(&all).await;
    let flow = Flow::begin(&server, "orders.in", "1").await;
    flow.goes_on().await;
    until("some are handled", async || !ship.calls().is_empty()).await;

    reload(&running, HOST).await;
    let sources: Value = running.api.read("/v1/sources", &[]).await.unwrap();
    assert_eq!(sources["items"], json!([]));
    // While somebody pulled, what waits there wouldn't wait. What was given back counts as unacknowledged until it is delivered again.
    until("messages wait at the server, and nobody asks for any", async || {
        let info = server.client().await.unwrap().api("CONSUMER.INFO.ORDERS.orders", &json!({})).await.unwrap();
        info["num_waiting"] == 0 && info["num_pending"].as_u64().is_some_and(|count| count > 5)
    })
    .await;
    let handled = ids_at(&ship).len();
    flow.goes_on().await;
    assert_eq!(ids_at(&ship).len(), handled, "nobody takes them");

    reload(&running, &all).await;
    flow.goes_on().await;
    let sent = flow.end().await;
    // Ids that it saw before it was taken out.
    let mut client = server.client().await.unwrap();
    for number in 0..10 {
        publish(&mut client, "orders.in", number, "1").await;
    }
    until_settled(&server, "ORDERS", "orders").await;
    until_ready(&running).await;
    until_handled(&ship, &sent).await;
    assert_each_once(&ids_at(&ship), &sent);
    running.end().await;
}
