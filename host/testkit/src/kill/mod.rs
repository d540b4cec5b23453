//! The kill -9 harness: the release binary killed at random moments under load, again and again, and then three accounts
//! compared: what the clients were told, what the receiver saw, and what the store holds.
//!
//! | file | what |
//! |---|---|
//! | `plan` | options, the host's configuration, what a run must have shown to count |
//! | `load` | producers: single messages, batches, transactions with a business row |
//! | `judge` | what the receiver answers |
//! | `cycle` | start, load, kill, start again; then one last start that drains |
//! | `check` | the laws, over the evidence alone |
//! | `report` | the table at the end |
//! | `wall_clock` | a wall clock that is set while hosts run and between them |
//!
//! Seeded: what is sent, what is refused and when the kill comes are the same in every run with one seed; what the machine
//! makes of it isn't. It kills the process and not the machine: the page cache survives, so it says nothing about power
//! loss. Ready times are shown and never judged.

mod check;
mod cycle;
mod judge;
mod load;
mod plan;
mod report;
mod wall_clock;

use std::path::PathBuf;

use thiserror::Error;

use crate::api::CallError;
use crate::process::ProcessError;

pub use check::{Evidence, Law, Verdict, Violation};
pub use cycle::run;
pub use plan::{Options, Proof};
pub use report::Report;

/// Why there is no verdict.
#[derive(Debug, Error)]
pub enum KillError {
    /// The host didn't start or stop.
    #[error("cycle {cycle}: {error}")]
    Process {
        /// Which start, from 1.
        cycle: u32,
        error: ProcessError,
    },
    /// The host ended by itself under load: a crash that the harness didn't cause.
    #[error("cycle {cycle}: waybill ended by itself before it was killed; its last words are in {}", log.display())]
    Crashed {
        /// Which start, from 1.
        cycle: u32,
        log: PathBuf,
    },
    /// The last host doesn't answer.
    #[error("asking the last host: {0}")]
    Call(#[from] CallError),
    /// The harness's own files.
    #[error("{act}: {cause}")]
    System { act: &'static str, cause: std::io::Error },
    /// A producer of the harness died.
    #[error("a producer of the harness failed: {0}")]
    Producer(String),
}

#[cfg(test)]
mod tests;
