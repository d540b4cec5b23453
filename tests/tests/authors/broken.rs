//! Plugins that break the contract on purpose fail the check that is about it, with what to do.

use waybill_conformance::{Case, Options, Report, Verdict, run};
use waybill_sandbox::{PluginSource, World};
use waybill_tests::guests;

use crate::bundled::sandbox;

async fn report(path: &str, world: World, cases: &[&str]) -> Report {
    let cases = cases.iter().map(|text| Case::parse("broken", text).unwrap()).collect();
    let options = Options { cases, ..Options::default() };
    run(sandbox(), &PluginSource::File(path.into()), world, &options).await.unwrap()
}

fn failure<'r>(report: &'r Report, check: &str) -> (&'r str, &'r str) {
    match report.check(check).map(|check| &check.verdict) {
        Some(Verdict::Failed { reason, fix }) => (reason, fix),
        other => panic!("{check} was expected to fail: {other:?}\n{report:#?}"),
    }
}

/// A case whose peer takes whatever comes: what the fixture does is its own doing.
const TAKES_ALL: &str = r#"
    [case]
    name = "takes all"
    [[message]]
    expect = "ack"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_number_of_outcomes() {
    for path in [guests::SEND_TOO_FEW_OUTCOMES, guests::SEND_TOO_MANY_OUTCOMES] {
        let report = report(path, World::Transport, &[TAKES_ALL]).await;
        let (reason, fix) = failure(&report, "opens");
        assert!(reason.contains("Contract") && fix.contains("exactly one outcome"), "{reason}: {fix}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic() {
    let report = report(guests::SEND_PANICS, World::Transport, &[TAKES_ALL]).await;
    let (reason, fix) = failure(&report, "opens");
    assert!(reason.contains("Trapped") && fix.contains("panic"), "{reason}: {fix}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_that_panics_or_refuses_what_its_schema_takes() {
    let panics = report(guests::OPEN_PANICS, World::Transport, &[TAKES_ALL]).await;
    assert!(failure(&panics, "config-empty").0.contains("Trapped"));
    let refuses = report(guests::OPEN_INVALID_CONFIG, World::Transport, &[TAKES_ALL]).await;
    assert!(failure(&refuses, "config-empty").1.contains("required"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_a_silent_peer_for_ever() {
    let case = r#"
        [case]
        name = "connects"
        config = { address = "${peer}" }
        [peer]
        protocol = "line"
        rules = []
        [[message]]
        expect = "ack"
    "#;
    let report = report(guests::WAITS_FOR_A_SILENT_SERVER, World::Transport, &[case]).await;
    let (_, fix) = failure(&report, "opens");
    assert!(fix.contains("time"), "{fix}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_loops_or_panics() {
    let loops = report(guests::BACKOFF_LOOPS, World::Backoff, &[]).await;
    assert!(failure(&loops, "decides-everything").1.contains("fallback"));
    let panics = report(guests::BACKOFF_PANICS, World::Backoff, &[]).await;
    assert!(loops.failed() > 0 && panics.failed() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expectation_that_is_not_met() {
    let case = r#"
        [case]
        name = "expects the wrong thing"
        [[message]]
        expect = "permanent"
    "#;
    let report = report(guests::MIRRORS, World::Transport, &[case]).await;
    let (reason, _) = failure(&report, "case: expects the wrong thing");
    assert!(reason.contains("expected permanent") && reason.contains("was ack"), "{reason}");
}
