//! Tests of what only this store does.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod append;
mod append_exact;
mod backup;
mod codec;
mod cost;
mod damage;
mod enqueue;
mod held;
mod inbox;
mod index;
mod mended;
mod opening;
mod rebuilt;
mod restored;
mod saga_codec;
mod sagas;
mod streams;
mod tokens;
mod transact;
mod unreadable;
mod walls;
mod watched;

use std::time::Duration;

use waybill_core::ids::ShardId;
use waybill_core::message::Message;
use waybill_core::outbox::records::DoorRow;
use waybill_core::port::store::OwnerStore;
use waybill_surreal::{Fault, Value};

use crate::{StoreConfig, SurrealStore};

/// The time of a statement is a caller's protection; where the machine is busy, a test's may take longer.
fn patient(url: impl Into<String>) -> StoreConfig {
    StoreConfig { query_timeout: Duration::from_secs(600), ..StoreConfig::new(url) }
}

async fn memory() -> SurrealStore {
    SurrealStore::open(patient("mem://")).await.unwrap()
}

/// Runs a text as a client of the database would.
async fn sql(store: &SurrealStore, text: &str) -> Result<Vec<Value>, Fault> {
    store.engine.run(text, Vec::new()).await
}

async fn door(store: &SurrealStore, shard: ShardId) -> Vec<DoorRow> {
    store.door(shard, 0, u64::MAX, None, 1_000).await.unwrap()
}

async fn messages(store: &SurrealStore, shard: ShardId) -> Vec<Message> {
    let rows = door(store, shard).await;
    rows.into_iter().flat_map(|row| row.content.unwrap()).map(|message| message.as_ref().clone()).collect()
}
