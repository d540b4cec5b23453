//! Well-behaved, of world `transport-basic` (no async imports, as JavaScript toolchains need it): talks to `address` by `net-blocking`
//! and by `http-blocking`, and reports what came of each.
waybill_plugin::manifest!("manifests/basic.toml");

wit_bindgen::generate!({
    path: "../../wit",
    world: "transport-basic",
    async: false,
});

use exports::waybill::plugin::transport_api::{
    CallInfo, Guest, HealthReport, Message, OpenArgs, Opened, Outcome, PluginError,
};
use std::sync::Mutex;
use waybill::plugin::http_blocking;
use waybill::plugin::http_types::Request;
use waybill::plugin::net_blocking::Connection;
use waybill::plugin::net_types::ConnectOptions;
use waybill::plugin::types::{Health, Receipt};

static ADDRESS: Mutex<String> = Mutex::new(String::new());

struct Fixture;

/// A receipt has room for both ways.
fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

fn by_net(address: &str) -> String {
    let options = ConnectOptions { tls: None, timeout: 5_000, keep_alive: None, attributes: Vec::new() };
    let connection = match Connection::connect(&format!("tcp://{address}"), &options) {
        Ok(connection) => connection,
        Err(error) => return short(&format!("{error:?}")),
    };
    // Nothing has come yet: answered at once, with nothing.
    let early = connection.read(0, 100, Some(1_000)).map(|bytes| bytes.len());
    // Nothing comes unasked: the time is over, and nothing is lost by it.
    let unasked = connection.read(1, 100, Some(50)).map(|bytes| bytes.len());
    let written = connection.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", Some(1_000));
    let first = connection.read(8, 8, Some(5_000)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let rest = connection.read(1, 4_096, Some(5_000)).map(|bytes| bytes.len() > 1);
    let finished = connection.finish();
    let after = connection.write(b"more", Some(1_000));
    let end = connection.read(1, 10, Some(5_000)).map(|bytes| bytes.len());
    let remote = connection.info().remote == address;
    format!("reached {early:?} {unasked:?} {written:?} {first:?} {rest:?} {finished:?} {after:?} {end:?} {remote}")
}

fn by_http(address: &str) -> String {
    let request = Request {
        method: "GET".to_owned(),
        url: format!("http://{address}/"),
        headers: Vec::new(),
        body: Vec::new(),
        timeout: 5_000,
        tls: None,
        attributes: Vec::new(),
    };
    match http_blocking::send(&[request]).pop() {
        Some(Ok(response)) => format!("reached {}", response.status),
        Some(Err(error)) => short(&format!("{:?}", error.error)),
        None => "no result".to_owned(),
    }
}

impl Guest for Fixture {
    fn open(_: CallInfo, args: OpenArgs) -> Result<Opened, PluginError> {
        // The configuration is `{"address":"host:port"}`; no more of JSON is needed.
        let address = args.config.split('"').nth(3).unwrap_or_default().to_owned();
        *ADDRESS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = address;
        Ok(Opened {
            peer: None,
            max_batch: None,
            max_payload_bytes: None,
            max_concurrent_calls: 1,
            tick_every: None,
            dedup_window: None,
            features: Vec::new(),
            attributes: Vec::new(),
        })
    }

    fn send_batch(_: CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
        let address = ADDRESS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let seen = format!("net: {}; http: {}", by_net(&address), by_http(&address));
        let receipt = Receipt { broker_ref: Some(seen), duplicate: false, attributes: Vec::new() };
        Ok(batch.iter().map(|_| Outcome::Ack(receipt.clone())).collect())
    }

    fn health(_: CallInfo) -> HealthReport {
        HealthReport { status: Health::Ready, detail: None, attributes: Vec::new() }
    }

    fn tick(_: CallInfo) -> Result<(), PluginError> {
        Ok(())
    }

    fn close(_: CallInfo) {}
}

#[cfg(target_family = "wasm")]
export!(Fixture);
