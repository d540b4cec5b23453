//! Write a Waybill plugin: implement one trait, export it, embed the manifest.
//!
//! ```
//! use waybill_plugin::transport::{CallInfo, Message, OpenArgs, Opened, Outcome, PluginError, Receipt, Transport};
//!
//! # /*
//! waybill_plugin::manifest!();
//! # */
//! waybill_plugin::export_transport!(Noop);
//!
//! struct Noop;
//!
//! impl Transport for Noop {
//!     type Config = waybill_plugin::config::Empty;
//!     async fn open(_: &CallInfo, _: &OpenArgs, _: Self::Config) -> Result<(Self, Opened), PluginError> {
//!         Ok((Self, Opened::new()))
//!     }
//!     async fn send_batch(&self, _: &CallInfo, batch: Vec<Message>) -> Result<Vec<Outcome>, PluginError> {
//!         Ok(batch.iter().map(|_| Outcome::Ack(Receipt::new())).collect())
//!     }
//! }
//! # fn main() {}
//! ```
//! Each world's module has a whole example.
//!
//! - [`transport`]: the trait [`transport::Transport`], its types, [`export_transport!`]
//! - [`provision`]: the trait [`provision::Provision`] of transports that create what is missing at their peer, [`export_provision!`]
//! - [`participant`]: the traits [`participant::Participant`], [`participant::Step`] and [`participant::Undo`] of saga steps, [`participant::Service`] for what they ask over HTTP, [`export_participant!`]
//! - [`handler`]: the trait [`handler::Handler`] of inbox handlers, [`export_handler!`]
//! - [`source`]: the trait [`source::Source`] of what brings messages in, [`export_source!`]
//! - [`table`]: the trait [`table::Table`] of outbox tables that are published directly, [`export_table!`]
//! - [`inbound`]: what these three share
//! - [`backoff`]: the trait [`backoff::Backoff`], its types, [`export_backoff!`]
//! - [`host`]: what the host lends: `http`, `net`, `kv`, `secrets`, `metrics`
//! - [`net`]: byte streams for protocols of one's own; [`buffered`]: lines and frames; [`pipeline`]: many requests under way, answers in order or by number; [`exchange`]: any other conversation; [`deadline`]: the time a call has; [`secret`]: granted secrets as text; [`time`]: instants as text
//! - [`annotation`]: what a message says of its event and its business operation, and the names that receivers find it under
//! - [`broker`]: clients of brokers: configuration, servers, TLS, a pool of sessions
//! - [`config`]: typed configuration, with the place of an error
//! - [`info!`], [`warn!`], ...: the host's log
//! - [`manifest!`]: embeds `waybill-plugin.toml`
//!
//! Everything but the host's functions also compiles for the machine you sit at, so the pure parts of a plugin are tested with
//! a plain `cargo test`. What it doesn't do: it hides no part of the contract; `bindings` are public where a helper is in the way.

pub mod annotation;
pub mod backoff;
pub mod broker;
pub mod buffered;
pub mod config;
pub mod deadline;
mod error;
pub mod exchange;
mod followup;
pub mod handler;
pub mod host;
pub mod inbound;
pub mod log;
mod manifest;
pub mod net;
mod outcome;
pub mod participant;
pub mod pipeline;
pub mod provision;
pub mod secret;
#[doc(hidden)]
pub mod slot;
pub mod source;
pub mod table;
pub mod time;
pub mod transport;
