//! `waybill operation` against a host with the real HTTP API.

use waybill_cli::exit::Exit;

use crate::fake_host::{FakeHost, Mood};
use crate::support::{Command, waybill};

fn ask(host: &FakeHost, arguments: &[&str]) -> Command {
    waybill(&["operation"]).args(arguments).arg("--url").arg(&host.url)
}

#[test]
fn bulk_acts_are_listed_shown_and_stopped() {
    let host = FakeHost::start(Mood::default());
    let listed = ask(&host, &["list", "-o", "ids"]).run();
    assert_eq!(listed.out, "01JD0000000000000000000002\n01JD0000000000000000000001\n", "{}", listed.err);
    let table = ask(&host, &["list", "--limit", "1"]).run();
    assert!(table.out.contains("definition=order") && !table.out.contains("replay"), "{}", table.out);
    let shown = ask(&host, &["show", "01JD0000000000000000000001"]).run();
    assert!(shown.out.contains("running") && shown.out.contains("ann"), "{}", shown.out);
    let stopped = ask(&host, &["cancel", "01JD0000000000000000000001"]).run();
    assert!(stopped.exit == Exit::Done && stopped.out.contains("cancelled"), "{}", stopped.err);
    assert!(host.acts().contains(&"cancel operation 01JD0000000000000000000001".to_owned()), "{:?}", host.acts());
    assert_eq!(ask(&host, &["list", "--limit", "0"]).run().exit, Exit::Usage);
}
