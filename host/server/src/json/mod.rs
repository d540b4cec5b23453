//! JSON in and out.
//!
//! Input is read in one pass from the body's text into the core's types, without a tree of values (bindings of
//! statements are one, and bounded); a payload keeps the caller's bytes, so that numbers and the order of members survive. Only when that fails, it is read a second time to
//! learn the path of the fault.

pub mod approvals;
pub mod decode;
mod edit;
pub(crate) mod event;
pub mod handled;
pub mod idempotency;
pub mod message;
pub mod operations;
pub mod post;
pub mod requests;
pub mod saga_requests;
mod scalars;
pub mod statements;
pub mod workers;
