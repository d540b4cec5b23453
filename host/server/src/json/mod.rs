//! JSON in and out.
//!
//! Input is read in one pass from the body's text into the core's types, without a tree of values (bindings of
//! statements are one, and bounded); a payload keeps the caller's bytes, so that numbers and the order of members survive. Only when that fails, it is read a second time to
//! learn the path of the fault.

pub mod approvals;
pub mod configuration;
pub mod dead;
pub mod decode;
pub mod headers;
pub mod idempotency;
pub mod instant;
pub mod message;
pub mod message_out;
pub mod out;
pub mod plugins;
pub mod post;
pub mod provision;
pub mod quarantine;
pub mod requests;
pub mod saga_definitions;
pub mod saga_history;
pub mod saga_node;
pub mod saga_requests;
pub mod sagas;
mod scalars;
pub mod statements;
pub mod workers;
