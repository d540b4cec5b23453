//! A browser's `EventSource` on a page of another site than the host's, with and without tokens.

use std::sync::Arc;
use waybill_core::seq_json::SeqJson;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use waybill_testkit::browser;

use super::support::*;

const STREAM: &str = "task.page";
/// The page's site. The host is asked by its address, so it is of another one.
const SHOP: &str = "shop.example";
const TOKEN: &str = "a-token-of-the-pages-server-with-enough-of-entropy";
/// What an `EventSource` says of itself: it tries again, or it has given up.
const CONNECTING: u64 = 0;
const CLOSED: u64 = 2;

/// An address that stays when the host is killed and another one comes: what a proxy before hosts is to a browser.
async fn forward(door: Door) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut browser, _)) = listener.accept().await {
            let door = door.clone();
            tokio::spawn(async move {
                let host = door.api().base().trim_start_matches("http://").to_owned();
                if let Ok(mut host) = TcpStream::connect(host).await {
                    let _broken = copy_bidirectional(&mut browser, &mut host).await;
                }
            });
        }
    });
    format!("http://{address}")
}

fn of_kind(told: &[Value], kind: &str) -> Vec<Value> {
    told.iter().filter(|told| told["kind"] == kind).cloned().collect()
}

/// The numbers of the events that an `EventSource` was given.
fn seqs(told: &[Value]) -> Vec<u64> {
    of_kind(told, "event").iter().map(|told| SeqJson::in_value(&told["event"]["seq"]).unwrap()).collect()
}

fn states(told: &[Value]) -> Vec<u64> {
    of_kind(told, "error").iter().map(|told| told["state"].as_u64().unwrap()).collect()
}

/// A page of a site, in a browser.
struct Page {
    site: Arc<browser::Site>,
    browser: browser::Browser,
}

impl Page {
    fn open(site: &Arc<browser::Site>, name: &str) -> Self {
        Self { site: Arc::clone(site), browser: browser::Browser::open(&site.origin(name)).unwrap() }
    }

    /// Waits until a page has told so much of one of its `EventSource`s; answers all of it.
    async fn until(&self, source: u64, what: &str, is_enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !is_enough(&self.site.reports_of(source)) {
                tokio::time::sleep(POLL).await;
            }
        });
        let ended = waited.await;
        let told = self.site.reports_of(source);
        assert!(ended.is_ok(), "the page never told that {what}: {told:?}\n{}", self.browser.log());
        told
    }

    async fn until_read(&self, source: u64, expected: impl IntoIterator<Item = u64>) -> Vec<Value> {
        let expected: Vec<u64> = expected.into_iter().collect();
        let told = self.until(source, "it read enough", |told| seqs(told).len() >= expected.len()).await;
        assert_eq!(seqs(&told), expected);
        told
    }
}

async fn append(door: &Door, count: usize) {
    let last = door.last(STREAM).await;
    door.append(STREAM, &events(&format!("e{last}"), count, "r")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_named_origin_reads_without_a_token_and_resumes_by_itself_and_no_other_page_reads() {
    let (shop, other) =
        (Arc::new(browser::Site::start().await.unwrap()), Arc::new(browser::Site::start().await.unwrap()));
    let mut host = Site::start(&format!("[server]\ncors_origins = [\"{}\"]\n", shop.origin(SHOP))).await;
    let url = format!("{}/v1/subscribe?selector=stream:{STREAM}", forward(host.door.clone()).await);
    append(&host.door, 3).await;
    let page = Page::open(&shop, SHOP);
    shop.subscribe(&url);
    let told = page.until_read(0, 1..=3).await;
    assert_eq!(told[0]["kind"], "open");
    let last = told.last().unwrap();
    assert_eq!((&last["id"], &last["event"]["stream"]), (&json!("3"), &json!(STREAM)));
    append(&host.door, 2).await;
    page.until_read(0, 1..=5).await;

    host.kill_and_revive().await;
    append(&host.door, 2).await;
    // Each once: it went on behind the last one that it had.
    let told = page.until_read(0, 1..=7).await;
    assert!(!states(&told).is_empty() && states(&told).iter().all(|state| *state == CONNECTING), "{told:?}");
    drop(page);

    // The same name at another port is another origin.
    let page = Page::open(&other, SHOP);
    other.subscribe(&url);
    let told = page.until(0, "it has given up", |told| states(told).contains(&CLOSED)).await;
    assert!(seqs(&told).is_empty(), "{told:?}");
    host.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tokens_a_page_reads_with_a_ticket_of_its_server_and_needs_another_one_to_go_on() {
    let shop = Arc::new(browser::Site::start().await.unwrap());
    let hash: String = Sha256::digest(TOKEN.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut host = Site::start(&format!(
        "[server]\ncors_origins = [\"{}\"]\n[[auth.token]]\nname = \"shop\"\nsha256 = \"{hash}\"\nroles = [\"sender\"]\n",
        shop.origin(SHOP)
    ))
    .await;
    let base = forward(host.door.clone()).await;
    // What the page's server does: it has the token, and hands on addresses.
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ask = async |path: String, body: Value| {
        let answer = in_time("a request of the page's server", async {
            loop {
                let request = client.post(format!("{base}{path}")).bearer_auth(TOKEN).body(body.to_string());
                match request.header("content-type", "application/json").send().await {
                    Ok(answer) => break answer,
                    // A connection of before the kill.
                    Err(_) => tokio::time::sleep(POLL).await,
                }
            }
        })
        .await;
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{status} {text}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let append = async |id: &str, count: usize| {
        ask(format!("/v1/streams/{STREAM}/events"), json!({ "events": events(id, count, "r") })).await
    };
    let url = format!("{base}/v1/subscribe?selector=stream:{STREAM}");
    let with_ticket = async || {
        let ticket = ask("/v1/subscribe/tickets".to_owned(), json!({ "selector": format!("stream:{STREAM}") })).await;
        format!("{url}&ticket={}", ticket["ticket"].as_str().unwrap())
    };
    append("a", 3).await;
    let page = Page::open(&shop, SHOP);
    shop.subscribe(&url);
    let told = page.until(0, "it has given up without a ticket", |told| states(told).contains(&CLOSED)).await;
    assert!(seqs(&told).is_empty(), "{told:?}");

    shop.subscribe(with_ticket().await);
    let told = page.until_read(1, 1..=3).await;
    let cursor = told.last().unwrap()["id"].as_str().unwrap().to_owned();
    append("b", 2).await;
    page.until_read(1, 1..=5).await;

    host.kill_and_revive().await;
    append("c", 2).await;
    // It shows the same ticket again, which is used up.
    let told = page.until(1, "it has given up with a used ticket", |told| states(told).contains(&CLOSED)).await;
    assert_eq!(seqs(&told), [1, 2, 3, 4, 5]);
    shop.subscribe(format!("{}&cursor={cursor}", with_ticket().await));
    page.until_read(2, 4..=7).await;
    host.end().await;
}
