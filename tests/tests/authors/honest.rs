//! What a suite says of what it couldn't run, and what it leaves alone.

use waybill_conformance::{Case, Options, Report, Verdict, run};
use waybill_sandbox::{PluginSource, World};
use waybill_tests::guests;

use crate::bundled::sandbox;

async fn report(path: &str, case: &str, smoke: bool) -> Report {
    let cases = vec![Case::parse("case", case).unwrap()];
    let options = Options { cases, smoke, ..Options::default() };
    run(sandbox(), &PluginSource::File(path.into()), World::Transport, &options).await.unwrap()
}

fn passed(report: &Report, check: &str) -> bool {
    report.check(check).is_some_and(|check| matches!(check.verdict, Verdict::Passed { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_have_no_case_to_run_against_are_counted_with_the_reason() {
    let case = r#"
        [case]
        name = "is refused"
        config = { address = "${peer}" }
        [peer]
        protocol = "line"
        rules = [{ send = "no\n" }]
        [[message]]
        expect = "retryable"
    "#;
    let report = report(guests::ECHOES_BY_NET, case, false).await;
    assert!(passed(&report, "case: is refused"), "{report:#?}");
    assert_eq!(report.failed(), 0, "{report:#?}");
    let not_run = report.not_run();
    let (reason, count) = not_run[0];
    assert!(reason.contains("no case whose messages all expect `ack`") && count >= 17, "{not_run:?}");
    assert!(matches!(report.check("outage").unwrap().verdict, Verdict::NotRun { .. }), "{report:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binary_peer_answers_frame_by_frame() {
    // The fixture writes a payload and a line break, and takes a line of `ok` for an acknowledgement.
    let case = r#"
        [case]
        name = "four bytes at a time"
        config = { address = "${peer}" }
        [peer]
        protocol = "bytes"
        frame = { header = 4 }
        rules = [
          { on = "'abc' 0a", send = "'ok' 0a", times = 1 },
          { on = "'abc'", send = "${0:3} 0a" },
        ]
        [[message]]
        payload = "abc"
        expect = "ack"
        [[message]]
        payload = "abc"
        expect = "retryable"
        code = "LINES.REFUSED"
    "#;
    let report = report(guests::ECHOES_BY_NET, case, false).await;
    assert!(passed(&report, "case: four bytes at a time"), "{report:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_smoke_test_sends_nothing_to_a_server_that_others_use() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static BYTES: AtomicUsize = AtomicUsize::new(0);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                while let Ok(count @ 1..) = tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await {
                    BYTES.fetch_add(count, Ordering::SeqCst);
                }
            });
        }
    });
    let case = format!(
        "[case]\nname = 'x'\nconfig = {{ address = '${{peer}}' }}\n[peer]\nprotocol = 'external'\naddress = '{address}'\n[[message]]\nexpect = 'ack'\n"
    );
    let report = report(guests::ECHOES_BY_NET, &case, true).await;
    assert!(passed(&report, "probe") && report.failed() == 0, "{report:#?}");
    assert_eq!(BYTES.load(Ordering::SeqCst), 0, "nothing was sent");
}
