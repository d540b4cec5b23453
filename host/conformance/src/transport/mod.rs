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
use crate::suite::{Suite, hindrance};

use bench::Bench;

pub(crate) async fn run(sandbox: &Sandbox, source: &PluginSource, options: &Options) -> Result<Report, SandboxError> {
    let plugin = sandbox.load(source.clone(), World::Transport).await?;
    let mut suite = Suite::new(plugin.inspection(), &options.cases);
    let case = options.cases.iter().find(|case| case.ends_well()).cloned();
    let lacking = case.is_none().then(|| lacking(&options.cases));
    let case = case.unwrap_or_else(|| plain(options));
    let bench = Bench::new(plugin, case);
    life::config(&mut suite, &bench).await;
    if options.smoke && bench.case.is_external() {
        // Whoever else uses that server expects no message of the suite.
        life::probe(&mut suite, &bench).await;
        return Ok(suite.done());
    }
    life::opens(&mut suite, &bench, lacking).await;
    if options.smoke {
        return Ok(suite.done());
    }
    let hindrance = suite.last().and_then(hindrance);
    let usable = hindrance.is_none();
    suite.hold(hindrance);
    life::all(&mut suite, &bench).await;
    sending::all(&mut suite, &bench).await;
    trouble::all(&mut suite, &bench).await;
    suite.hold(None);
    cases::all(&mut suite, &bench, &options.cases).await;
    // Others never get two messages of one key at once.
    if usable && bench.start().await.is_ok_and(|running| running.transport.limits().key_runs) {
        sending::key_runs(&mut suite, &bench).await;
        cases::key_runs_cut(&mut suite, &bench, &options.cases).await;
    }
    Ok(suite.done())
}

/// What the author would have to add for the suite's own checks, which send and expect that all of it is delivered.
fn lacking(cases: &[Case]) -> &'static str {
    if cases.iter().any(|case| !case.messages.is_empty()) {
        "no case whose messages all expect `ack`: give those that end otherwise a case of their own"
    } else {
        "no case: add tests/delivers.toml with a [peer] and messages that expect `ack`"
    }
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
