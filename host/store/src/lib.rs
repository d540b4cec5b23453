//! Waybill's store on SurrealDB: the ports of `waybill-core` over [`waybill_surreal`].
//!
//! | module | what |
//! |---|---|
//! | [`codec`] | encoding of segments, history and rows |
//! | `schema` | migrations |
//! | `shards` | how many shards the store was made with |
//! | `owner` | the commit of a shard's owner, and what an owner reads |
//! | `inbox` | what sources brought: commit, seen set, rows, history |
//! | `streams` | event streams: commit, doorstep, exact appends, slices, feed, scans, relays |
//! | `saga` | sagas: commit, takeover, lists, expiry, dead letters, definitions |
//! | `transact` | callers' transactions, operations, audit |
//! | `guard` | which statements a caller may run |
//! | `query` | reads for people |
//! | `index` | which messages hold what, for those reads |
//! | `quarantine` | rows that can't be read |
//! | `idempotency` | idempotency keys |
//! | `kv` | state of plugins |
//! | `tokens` | API tokens |
//! | `backup` | backups, and data folders made of them |
//! | `wal` | repairs the log of the embedded database after a crash |
//!
//! The same conformance suite runs on this and on the in-memory reference store. What it doesn't do: decide anything about
//! messages; own tasks besides those of the database.

mod backup;
pub mod codec;
mod config;
mod dedup;
mod fault;
mod fronts;
mod guard;
mod idempotency;
mod inbox;
mod index;
mod kv;
mod lock;
mod owner;
mod private;
mod quarantine;
mod query;
mod rows;
mod saga;
mod schema;
mod shards;
mod store;
mod streams;
mod tables;
mod target;
#[cfg(test)]
mod tests;
mod tokens;
mod transact;
mod wal;

pub use backup::{ArchiveError, RestoreError, Restored, held_files, restore};
pub use config::{
    BLOCK_CACHE_BYTES, Durability, MEMTABLE_BYTES, OpenError, QUERY_TIMEOUT, SHARDS_EMBEDDED, SHARDS_MAX,
    SHARDS_SHARED, StoreConfig,
};
pub use guard::{Checked, Held, check as check_statement};
pub use private::{close_ahead, open_to_others};
pub use query::cursor::At;
pub use store::SurrealStore;
pub use transact::{AppendedInTx, BusinessError, BusinessTransaction, append_in_tx, enqueue_in_tx};
