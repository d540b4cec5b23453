//! Well-behaved, of world `transport-basic`: TLS by `net-blocking`, from the first byte and started in place, with the secret `ca`; reports,
//! as attributes of the receipt, what came of each step.
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
use waybill::plugin::net_blocking::Connection;
use waybill::plugin::net_types::{ConnectOptions, NetError, TlsOptions};
use waybill::plugin::types::{Health, Receipt};

static ADDRESS: Mutex<String> = Mutex::new(String::new());

struct Fixture;

fn tls() -> TlsOptions {
    TlsOptions {
        server_name: None,
        ca_secret: Some("ca".to_owned()),
        client_cert_secret: None,
        client_key_secret: None,
        alpn: Vec::new(),
    }
}

fn connect(address: &str, tls: Option<TlsOptions>) -> Result<Connection, NetError> {
    let options = ConnectOptions { tls, timeout: 5_000, keep_alive: None, attributes: Vec::new() };
    Connection::connect(&format!("tcp://{address}"), &options)
}

/// Writes, reads it back, ends its side, and sees the end of the other.
fn talk(connection: &Connection) -> Result<String, NetError> {
    connection.write(b"hello", Some(5_000))?;
    let back = connection.read(5, 5, Some(5_000))?;
    connection.finish()?;
    let end = connection.read(1, 1, Some(5_000)).map(|bytes| bytes.len());
    let version = connection.info().tls_version.unwrap_or_default();
    Ok(format!("{version} {} {end:?}", String::from_utf8_lossy(&back)))
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
        let at_once = connect(&address, Some(tls())).and_then(|connection| talk(&connection));
        let in_place = connect(&address, None).and_then(|connection| {
            connection.start_tls(&tls(), Some(5_000))?;
            talk(&connection)
        });
        let attributes =
            vec![("at once".to_owned(), format!("{at_once:?}")), ("in place".to_owned(), format!("{in_place:?}"))];
        let receipt = Receipt { broker_ref: None, duplicate: false, attributes };
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
