//! Instances: opened, served, lost and replaced.
//!
//! ```text
//! supervise (one task a lane) ──▶ open ──▶ serve ──▶ Ended ──▶ RestartBudget: at once | wait | breaker
//!                                            │
//!                  inbox of commands ────────┘  InFlightCalls: calls in flight and their deadlines, outside the Store
//! ```
//! A participant's instances have no lane: each call takes one out of a pool and gives it back (`pooled`, `crate::participant`).
//! One Store an instance, one task a Store. After a trap, a missed deadline or a breach of the contract the Store is
//! dropped; it is never entered again.

mod answer;
mod broken;
mod budget;
mod command;
mod crash;
mod guest;
mod in_flight;
mod lane;
mod lanes;
mod notices;
mod open;
mod pooled;
mod probe;
mod provision;
mod serve;
mod stack;
mod supervise;
mod ticks;
mod work;

pub(crate) use budget::{Restart, RestartBudget};
pub(crate) use crash::Crash;
pub(crate) use guest::{Exports, Wants};
pub(crate) use lane::closed;
pub(crate) use lanes::{Lanes, Opening, other_question};
pub(crate) use open::{Endpoint, Live, OpenFailure, open, open_error};
pub(crate) use pooled::{call_once, close_once, read_steps};
pub(crate) use probe::probe_endpoint;
pub(crate) use provision::provision;
pub(crate) use work::{Answer, Step, Work, claim_lost};
