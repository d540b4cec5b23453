//! The release binary delivers over MQTT to a RabbitMQ that is killed with `kill -9` again and again under load
//! (`waybill_testkit::outage`): nothing lost, every key in order as a consumer sees it, doubles only under one id. Not to Mosquitto: it
//! writes to its disk after it has acknowledged.

use std::io::Write;

use tokio::sync::watch;
use waybill_testkit::mqtt::Durable;
use waybill_testkit::outage::{Plan, Progress, run};
use waybill_testkit::process::binary;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_under_load_costs_neither_messages_nor_order() {
    let dir = tempfile::tempdir().unwrap();
    // Each start takes it eight seconds.
    let plan = Plan { messages: 10_000, keys: 200, kills: 4 };
    let (progress, _keep) = watch::channel(Progress::default());
    let mut broker = Durable::start().await.unwrap();
    let report = run(plan, &mut broker, &binary().unwrap(), dir.path(), &progress).await.unwrap();
    // To stderr itself, which the test harness doesn't capture. Without a stderr there is nobody to tell.
    let _ = write!(std::io::stderr(), "{report}");
    assert!(report.passed(), "{report}");
    assert_eq!(progress.borrow().kills, plan.kills);
    assert!(report.repeated > 0, "no kill met a message under way: the run proves nothing");
}
