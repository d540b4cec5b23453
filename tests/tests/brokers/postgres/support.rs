//! Starts a server with one of the documents' tables, and the plugin at it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::port::source::{Overtaken, SourceWants};
use waybill_core::port::table::{Claimed, Ended, Found, Mark, RowFate, RowMessage, Table, TableClaim, TableRow};
use waybill_core::port::transport::{CallError, Fault};
use waybill_sandbox::{EndpointSpec, WasmSource, WasmTable, World};
use waybill_testkit::postgres::{Client, Server};
pub use waybill_tests::transport::AMPLE;
use waybill_tests::transport::{self, bundled, call_error};

/// Claims that one instance has open at once in these tests.
pub const CLAIMS: u32 = 3;

/// A server with a table in it, and a client of it.
pub async fn with_table(table: &str) -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let mut client = server.client().await.unwrap();
    client.query(table).await.unwrap();
    (server, client)
}

/// Settings that reach loopback, with this configuration beside the server's URL.
pub fn settings(server: &Server, more: Value) -> EndpointSpec {
    let mut config = json!({ "url": server.url() });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    transport::settings("shop", config)
}

/// Serves a table; the error is that of the first `open`.
pub async fn open(spec: EndpointSpec) -> Result<Arc<WasmTable>, CallError> {
    let plugin = bundled("postgres", World::Table).await;
    let (table, opened) = WasmTable::start_supervised(plugin, spec, CLAIMS).await.map_err(call_error)?;
    opened.map_err(call_error).map(|()| table)
}

/// A table at this server, with more configuration.
pub async fn table(server: &Server, more: Value) -> Arc<WasmTable> {
    open(settings(server, more)).await.expect("opens")
}

/// A source at this server, with more configuration.
pub async fn source(server: &Server, more: Value) -> Arc<WasmSource> {
    source_with(server, more, 50).await
}

/// The same with so many rows that may be unsettled at once.
pub async fn source_with(server: &Server, more: Value, window: u32) -> Arc<WasmSource> {
    let plugin = bundled("postgres", World::Source).await;
    let wants = SourceWants { window, window_bytes: 1 << 20, on_overtaken: Overtaken::Stop, resume_after: None };
    let (source, opened) =
        WasmSource::start_supervised(plugin, settings(server, more), wants).await.expect("can serve");
    opened.expect("opens");
    source
}

/// What a lane of one claims.
pub fn order(batch: u32) -> TableClaim {
    TableClaim {
        lane: 0,
        lanes: 1,
        batch,
        batch_bytes: 1 << 20,
        window: batch,
        held: Vec::new(),
        without_lock: false,
        idle: Duration::from_secs(40),
    }
}

pub async fn claim(table: &WasmTable, order: TableClaim) -> Claimed {
    table.claim(0, order, AMPLE).await.expect("claims")
}

/// Rows that a claim has locked.
pub fn locked(claimed: &Claimed) -> Vec<&TableRow> {
    let rows = claimed.rows.iter().filter_map(|claimed| match &claimed.found {
        Found::Locked(row) => Some(row),
        _ => None,
    });
    rows.collect()
}

/// Their keys.
pub fn ids(claimed: &Claimed) -> Vec<&str> {
    locked(claimed).into_iter().map(|row| row.id.as_str()).collect()
}

/// Their messages.
pub fn messages(claimed: &Claimed) -> Vec<&RowMessage> {
    locked(claimed).into_iter().map(|row| row.message.as_ref().expect("a message")).collect()
}

/// Commits a claim with one fate for all of its rows.
pub async fn commit(table: &WasmTable, claimed: &Claimed, fate: &RowFate) -> Ended {
    let marks = locked(claimed).into_iter().map(|row| Mark { token: row.token.clone(), fate: fate.clone() }).collect();
    commit_marks(table, claimed, marks).await
}

/// Commits a claim with these marks.
pub async fn commit_marks(table: &WasmTable, claimed: &Claimed, marks: Vec<Mark>) -> Ended {
    table.commit(0, claimed.claim.expect("an open claim"), marks, AMPLE).await.expect("ends")
}

/// A failed attempt that is tried again after this.
pub fn again(after: Duration) -> RowFate {
    RowFate::Again { after, attempts: 1, cause: Some(Fault::new("NATS.ACK_TIMEOUT", "no answer")) }
}

/// Given up for good.
pub fn failed() -> RowFate {
    RowFate::Failed { attempts: 1, cause: Fault::new("NATS.MAX_PAYLOAD", "too large") }
}

/// Rows of document 4's table: key and aggregate.
pub async fn insert(client: &mut Client, rows: &[(u32, &str)]) {
    for (id, aggregate) in rows {
        let sql = format!(
            "INSERT INTO outbox_events (id, routing_key, aggregate_type, aggregate_id, payload) \
             VALUES ({id}, 'orders.created', 'order', '{aggregate}', '{{\"order\": {id}}}')"
        );
        client.query(&sql).await.unwrap();
    }
}
