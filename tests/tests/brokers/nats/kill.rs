//! The release binary delivers to a nats-server that is killed with `kill -9` again and again under load
//! (`waybill_testkit::outage`): nothing lost, every key in order as a consumer sees it, doubles only under one id.

use std::io::Write;

use tokio::sync::watch;
use waybill_testkit::nats::Server;
use waybill_testkit::outage::{Plan, Progress, run};
use waybill_testkit::process::binary;

#[tokio::test(flavor = "multi_thread")]
async fn a_nats_server_killed_under_load_costs_neither_messages_nor_order() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { messages: 20_000, keys: 200, kills: 8 };
    let (progress, _keep) = watch::channel(Progress::default());
    let mut server = Server::start().await.unwrap();
    let report = run(plan, &mut server, &binary().unwrap(), dir.path(), &progress).await.unwrap();
    // To stderr itself, which the test harness doesn't capture. Without a stderr there is nobody to tell.
    let _ = write!(std::io::stderr(), "{report}");
    assert!(report.passed(), "{report}");
    assert_eq!(progress.borrow().kills, plan.kills);
    assert!(report.repeated > 0, "no kill met a message under way: the run proves nothing");
}
