//! SurrealDB behind two small traits, [`Engine`] and [`Transaction`]: embedded (surrealkv, memory) or a server.
//!
//! Embedded, records are read and written through SurrealDB's own transactions, with its own record encoding, without
//! passing the query pipeline: a record write costs 2 to 4 us of CPU instead of 50 to 100, a range read really stops at its
//! limit, and conflicts are values instead of texts. SurrealQL reads and writes the same records, and runs inside the same
//! transaction ([`Transaction::run`]). What that leaves out, and so what may not be defined on tables written here: events,
//! indexes, fields, changefeeds, live queries.
//!
//! Callers' statements run behind a wall: below the query language, keys of closed tables are refused (`embedded/wall`).
//!
//! Against a server the same traits are SurrealQL over a WebSocket. There is no wall there, so callers' statements aren't run.
//!
//! What it doesn't do: know Waybill's tables, but for the names it is told to close.
#![recursion_limit = "512"]

mod embedded;
mod engine;
mod fault;
mod remote;
mod scans;
mod value;
mod weight;

pub use embedded::{ClosedTables, Embedded, EmbeddedOptions, LogKeeper};
pub use engine::{Bound, Engine, Row, Transaction, WhileClosed};
pub use fault::Fault;
pub use remote::{Remote, RemoteOptions};
pub use scans::{Comparison, Filter, Holds, Reads, Scan};
/// What the client library says of a query that failed ([`Fault::of_query`]).
pub use surrealdb::types::Error as QueryError;
pub use surrealdb_datastore::val::{Array, Number, Object, RecordIdKey, Value};
pub use value::{
    Bindings, array, bool_of, bytes, bytes_of, from_json, int, int_of, key, millis, millis_of, object, table, text,
    text_of, to_json,
};
pub use weight::{OBJECT_BYTES, READ_BYTES_MIN, VALUE_BYTES, shape_weight, weight};
