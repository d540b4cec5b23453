//! The domain of Waybill: types, state machines and ports.
//!
//! Pure: no clock, no randomness, no I/O, no spawn. Time, entropy and identifiers come in as arguments. It knows no
//! other crate of this workspace.

pub mod alert;
pub mod annotation;
pub mod annotations;
pub mod audit;
pub mod backoff;
pub mod changes;
pub mod code;
pub mod commit;
pub mod const_text;
pub mod document;
pub mod endpoint;
pub mod error;
pub mod fates;
pub mod glob;
pub mod history;
pub mod idempotency;
pub mod ids;
pub mod inbox;
pub mod json_fault;
pub mod json_text;
pub mod limits;
pub mod message;
pub mod new_message;
pub mod one_line;
pub mod outbox;
pub mod port;
pub mod route;
pub mod saga;
pub mod seq_json;
pub mod step_address;
pub mod streams;
pub mod suggest;
pub mod time;
pub mod topic;
pub mod tx_event;
