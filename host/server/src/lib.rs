//! The HTTP API of Waybill (`surface.md`, HTTP API): routes, JSON, problems, authentication, limits, metrics, OpenAPI; and event streams
//! over gRPC.
//!
//! The page at `/ui` ([`ui`]) is looked at in `waybill-page` and served here.
//!
//! It knows the ports [`waybill_api::OutboxService`], [`waybill_api::InboundService`], [`waybill_api::sagas::SagaService`] and
//! [`waybill_core::port::service::streams::StreamService`] and nothing of stores, dispatchers and plugins. It
//! holds no state of its own but counters, tickets, sessions and the tokens that are known: what a request changes, the service changed durably
//! before it was answered.
//!
//! A composition root builds a [`server::Server`] from a service, [`auth::Tokens`] (or none, on loopback), [`tokens::StoredTokens`] and
//! [`limits::Limits`], and runs it on listeners that passed [`listen::check_listen`].

pub mod aliases;
mod app;
pub mod approval;
pub mod auth;
mod body;
mod caller;
pub mod codes;
mod connection;
mod crowd;
pub mod cursor;
mod edge;
pub mod error;
mod grpc;
mod head;
mod idempotency_key;
pub mod json;
pub mod limits;
pub mod listen;
pub mod metrics;
pub mod oidc;
pub mod openapi;
mod peers;
mod places;
pub mod problem;
mod progress;
mod readiness;
mod refusals;
mod routes;
mod run;
mod runs_on;
mod saga_problem;
mod scrape;
mod secret;
pub mod server;
mod spans;
mod streams;
mod subscribe;
pub mod tls;
pub mod tokens;
pub mod ui;
