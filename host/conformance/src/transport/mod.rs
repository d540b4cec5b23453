//! The suite of transports.
//!
//! - `bench`: a transport with its outside, ready to be sent through
//! - `sending`: outcomes, ids, payloads, headers, concurrency
//! - `trouble`: peers that refuse, close, fall silent, go away and come back
//! - `life`: configuration, opening, closing, generations, secrets
//! - `cases`: the author's own

mod bench;
mod cases;
mod life;
mod sending;
mod trouble;

use waybill_core::port::transport::Transport as _;
use waybill_sandbox::{PluginSource, Sandbox, SandboxError, World};

use crate::Options;
use crate::case::{Case, CaseMessage, Head};
use crate::report::Report;
use crate::suite::Suite;

use bench::Bench;

pub(crate) async fn run(sandbox: &Sandbox, source: &PluginSource, options: &Options) -> Result<Report, SandboxError> {
    let plugin = sandbox.load(source.clone(), World::Transport).await?;
    let mut suite = Suite::new(plugin.inspection(), &options.cases);
    let case = options.cases.iter().find(|case| case.ends_well()).cloned();
    let described = case.is_some();
    let case = case.unwrap_or_else(|| plain(options));
    let bench = Bench::new(plugin, case);
    life::config(&mut suite, &bench).await;
    let usable = life::opens(&mut suite, &bench, described).await;
    if options.smoke {
        return Ok(suite.done());
    }
    if usable {
        life::all(&mut suite, &bench).await;
        sending::all(&mut suite, &bench).await;
        trouble::all(&mut suite, &bench).await;
    }
    cases::all(&mut suite, &bench, &options.cases).await;
    // Others never get two messages of one key at once.
    if usable && bench.start().await.is_ok_and(|running| running.transport.limits().key_runs) {
        sending::key_runs(&mut suite, &bench).await;
        cases::key_runs_cut(&mut suite, &bench, &options.cases).await;
    }
    Ok(suite.done())
}

/// What is tried with a plugin whose author describes no case: it may need nobody, like one that only counts.
fn plain(options: &Options) -> Case {
    Case {
        head: Head {
            name: "no case".to_owned(),
            config: options.config.clone().unwrap_or_else(|| serde_json::json!({})),
            ..Head::default()
        },
        messages: vec![CaseMessage { expect: "ack".to_owned(), ..CaseMessage::default() }],
        ..Case::default()
    }
}
