//! Tests of what only this store does.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod codec;
mod cost;
mod damage;
mod enqueue;
mod held;
mod mended;
mod opening;
mod rebuilt;
mod restored;
mod saga_codec;
mod sagas;
mod transact;
mod unreadable;
mod walls;
mod watched;

use waybill_core::ids::ShardId;
use waybill_core::message::Message;
use waybill_core::outbox::records::DoorRow;
use waybill_core::port::store::OwnerStore;
use waybill_surreal::{Fault, Value};

use crate::{StoreConfig, SurrealStore};

async fn memory() -> SurrealStore {
    SurrealStore::open(StoreConfig::new("mem://")).await.unwrap()
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
