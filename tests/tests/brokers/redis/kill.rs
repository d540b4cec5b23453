//! The release binary delivers to a redis-server that is killed with `kill -9` again and again under load
//! (`waybill_testkit::outage`) and syncs each command to its disk: nothing lost, every key in order as a consumer sees it, doubles
//! only under one id, and none at all with `dedup`.

use std::io::Write;

use tokio::sync::watch;
use waybill_testkit::outage::{Plan, Progress, Report, run};
use waybill_testkit::process::binary;
use waybill_testkit::redis::{Durable, Options, Server};

async fn killed(dedup: bool) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { messages: 20_000, keys: 200, kills: 8 };
    let (progress, _keep) = watch::channel(Progress::default());
    let options = Options { durable: true, ..Options::default() };
    let mut broker = Durable { server: Server::start_with(options).await.unwrap(), dedup };
    let report = run(plan, &mut broker, &binary().unwrap(), dir.path(), &progress).await.unwrap();
    // To stderr itself, which the test harness doesn't capture. Without a stderr there is nobody to tell.
    let _ = write!(std::io::stderr(), "{report}");
    assert!(report.passed(), "{report}");
    assert_eq!(progress.borrow().kills, plan.kills);
    assert!(report.repeated > 0, "no kill met a message under way: the run proves nothing");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_server_killed_under_load_costs_neither_messages_nor_order() {
    killed(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_dedup_it_costs_no_doubles_either() {
    let report = killed(true).await;
    assert_eq!(report.doubled, 0, "{report}");
    assert_eq!(report.stored, report.plan.messages, "{report}");
}
