//! The engine: drives the pure core with tokio. It runs one actor per shard, sends batches through transports, serves
//! the outbox to the API, resumes bulk operations and retires what is old. Beside each it runs the shard's sagas, its inbox and its
//! event streams.
//!
//! It knows the core's ports only: no store, no plugin host, no HTTP.

mod admission;
mod alerts;
mod bounded;
mod changes;
mod clock;
mod commit;
mod config;
mod direct;
mod engine;
mod external;
mod history;
mod idempotency;
mod inbox;
mod janitor;
mod labels;
mod live;
mod meter;
mod participants;
mod saga;
mod service;
mod shard;
mod spans;
mod streams;
mod supervisor;
mod transport_call;

pub use bounded::{bounded_kv, bounded_tokens, bounded_transact};
pub use changes::ChangeFeed;
pub use clock::{Clock, SystemClock};
pub use config::{EngineConfig, Retries, SagaConfig, Stores};
pub use direct::{DirectConfig, TableConfig};
pub use engine::Engine;
pub use inbox::{ConsumerConfig, ConsumerTarget, InboundConfig, InboundHomes, Refusal, SourceConfig};
pub use meter::METRICS;
pub use participants::{Participants, StepLookupError};
pub use streams::StreamsConfig;
pub use supervisor::Supervisor;
