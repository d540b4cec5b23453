//! The conformance suites of plugins: whether a component keeps the contract of its world, in the real sandbox, beside fakes
//! of the outside.
//!
//! ```text
//! component ──▶ Sandbox ──▶ instance ──▶ Outside (a switch that can be cut) ──▶ the case's peer (HTTP, lines, or a real one)
//! ```
//! [`run`] looks at the component's world, runs that world's checks and the author's own [`Case`]s, and answers a [`Report`]. A
//! check that doesn't apply says why; one that fails says what to do. What it doesn't do: judge how fast a plugin is.

mod backoff;
mod case;
mod endpoint;
mod frames;
mod handler;
mod limits;
mod outside;
mod participant;
mod report;
mod sample;
mod source;
mod suite;
mod table;
mod transport;

use serde_json::Value;
use waybill_sandbox::{PluginSource, Sandbox, SandboxError, World};

pub use case::{Case, CaseError};
pub use report::{Check, Report, Verdict};

/// What a suite is given beside the component.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The author's cases. The suite's own checks run against the peer of the first one whose messages all end well.
    pub cases: Vec<Case>,
    /// Configuration for a plugin that has no such case.
    pub config: Option<Value>,
    /// Only whether it opens and does its first work; where its case's peer is a real server, only a probe.
    pub smoke: bool,
}

/// Runs the suite of a component's world; the error is why it can't be loaded. Needs a runtime with more than one thread: a guest that blocks mustn't block its
/// peer.
pub async fn run(
    sandbox: &Sandbox,
    source: &PluginSource,
    world: World,
    options: &Options,
) -> Result<Report, SandboxError> {
    match world {
        World::Transport => transport::run(sandbox, source, options).await,
        World::Broker => {
            let mut report = transport::run(sandbox, source, options).await?;
            report.add("source", source::run(sandbox, source, options).await?);
            Ok(report)
        }
        World::Backoff => backoff::run(sandbox, source, options).await,
        World::Participant => participant::run(sandbox, source, options).await,
        World::Handler => handler::run(sandbox, source, options).await,
        World::Source => source::run(sandbox, source, options).await,
        World::Table => table::run(sandbox, source, options).await,
        World::Database => {
            let mut report = source::run(sandbox, source, options).await?;
            report.add("table", table::run(sandbox, source, options).await?);
            Ok(report)
        }
    }
}
