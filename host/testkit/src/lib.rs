//! What the tests of Waybill share; a dev-dependency only.
//!
//! | module | what |
//! |---|---|
//! | [`api`] | a small client of the HTTP API |
//! | [`brokers`] | the brokers that there are, and how each is measured |
//! | [`browser`] | a real chromium with a page of another site |
//! | [`collector`] | an OpenTelemetry collector that keeps what it gets |
//! | [`conformance`] | the sentences that every store has to make true |
//! | [`direct_model`] | the randomised check of tables that are published directly |
//! | [`extent`] | whether tests try all combinations or a choice, and what they left out |
//! | [`fake_participant`] | a participant whose steps a test writes |
//! | [`fake_handler`] | handlers whose answers a test writes |
//! | [`fake_source`] | a broker in memory, with sources on it |
//! | [`fake_streams`] | event streams, played, for the surfaces that show them |
//! | [`fake_table`] | an outbox table whose database is in memory, for tables that are published directly |
//! | [`fake_tracer`] | a tracer that keeps the spans that were made |
//! | [`fake_transport`] | a transport whose answers a test writes |
//! | [`golden`] | data directories of earlier versions: what has to be found in them |
//! | [`idempotency_model`] | random lives of idempotency keys, checked against what was promised |
//! | [`grpc_subscriber`] | event streams over gRPC as a client has them |
//! | [`inbound`] | real hosts with an inbox and with tables, while everything around them is killed |
//! | [`inbox_model`] | the randomised check of the inbox, on the real owner and the reference store |
//! | [`kafka`] | a real Apache Kafka, and its Java client |
//! | [`kill`] | the kill -9 harness |
//! | [`ledger`] | what clients did, in their own words |
//! | [`maven`] | jars from Maven's repository, fetched once |
//! | [`memory_host`] | the real engine on the reference store: a host without a process, brought into the states that tests need |
//! | [`memory_store`] | the in-memory reference store, with faults to inject |
//! | [`metrics_page`] | metrics as `docs/operations.md` and as `/metrics` have them |
//! | [`mqtt`] | a real Mosquitto, RabbitMQ's MQTT, and a small client of both |
//! | [`nats`] | a real nats-server, and a small client of it |
//! | [`outage`] | a broker's server killed under load, and what it has then |
//! | [`postgres`] | a real PostgreSQL, and a client of it |
//! | [`process`] | the release binary as a process |
//! | [`pulsar`] | a real Apache Pulsar, and the client of its own project |
//! | [`rabbitmq`] | a real RabbitMQ, and a small client of it |
//! | [`receiver`] | a local HTTP receiver that remembers everything |
//! | [`redis`] | a real redis-server, and a small client of it |
//! | [`saga_model`] | the randomised check of sagas, on the real shard and a real store |
//! | [`schedule_model`] | random lives of a schedule, whose runs are counted |
//! | [`seeds`] | running a model over many seeds |
//! | [`storm`] | a crash loop: what it costs, and what it finds |
//! | [`streams_model`] | the randomised check of event streams, on the real owner, readers and relay and the reference store |
//! | [`subscriber`] | a subscription as a client has it, which may stop reading |
//! | [`toolchains`] | jco and componentize-py, installed once |

pub mod api;
pub mod brokers;
pub mod browser;
pub mod collector;
pub mod conformance;
pub mod direct_model;
pub mod extent;
pub mod fake_handler;
pub mod fake_participant;
pub mod fake_source;
pub mod fake_streams;
pub mod fake_table;
pub mod fake_tracer;
pub mod fake_transport;
pub mod golden;
pub mod grpc_subscriber;
pub mod idempotency_model;
pub mod inbound;
pub mod inbox_model;
pub mod kafka;
pub mod kill;
pub mod ledger;
pub mod load;
pub mod maven;
pub mod memory_host;
pub mod memory_store;
pub mod metrics_page;
pub mod model;
pub mod mqtt;
pub mod nats;
pub mod outage;
pub mod postgres;
pub mod process;
pub mod pulsar;
pub mod rabbitmq;
pub mod receiver;
pub mod redis;
pub mod saga_model;
pub mod schedule_model;
pub mod seeds;
pub mod storm;
pub mod streams_model;
pub mod subscriber;
pub mod toolchains;

/// For harnesses that know this crate alone.
pub use waybill_core::seq_json;
