//! Instances: opened, served, lost and replaced.
//!
//! ```text
//! supervise (one task a lane) ──▶ open ──▶ serve ──▶ Ended ──▶ RestartBudget: at once | wait | breaker
//!                                            │
//!                  inbox of commands ────────┘  Board: calls in flight and their deadlines, outside the Store
//! ```
//! One Store an instance, one task a Store. After a trap, a missed deadline or a breach of the contract the Store is
//! dropped; it is never entered again.

mod board;
mod budget;
mod command;
mod crash;
mod lane;
mod open;
mod probe;
mod provision;
mod serve;
mod supervise;

pub(crate) use command::{Answer, Claim, Command, Work};
pub(crate) use lane::{Lane, LaneStatus, busy, closed};
pub(crate) use open::{Endpoint, open};
pub(crate) use probe::probe;
pub(crate) use provision::provision;
pub(crate) use supervise::supervise;
