//! `waybill operation` against a host with the real HTTP API.

use waybill_cli::exit::Exit;
use waybill_core::ids::Tenant;
use waybill_core::port::service::{OperationRequest, Planned};
use waybill_testkit::memory_host::{InMemoryHost, message};

use crate::host::TestHost;
use crate::support::{Command, waybill};

fn ask(host: &TestHost, arguments: &[&str]) -> Command {
    waybill(&["operation"]).args(arguments).arg("--url").arg(&host.url)
}

async fn begin(host: &InMemoryHost, kind: &str, filter: &str, tenant: Option<&str>, rate: u32) {
    let request = OperationRequest {
        kind: kind.to_owned(),
        filter: filter.to_owned(),
        step: None,
        mode: None,
        not_before: None,
        planned: Planned::default(),
        tenant: tenant.map(|tenant| Tenant::new(tenant).unwrap()),
        rate: Some(rate),
        reason: "over".to_owned(),
        actor: "ann".to_owned(),
    };
    host.outbox.start_operation(request).await.unwrap();
    // Ids are in the order of the milliseconds of their making.
    std::thread::sleep(std::time::Duration::from_millis(2));
}

#[test]
fn bulk_acts_are_listed_shown_and_stopped() {
    // An hour's work, and one that is over.
    let host = TestHost::with(async |host| {
        host.dead(message("d-1")).await;
        host.copy_dead("default", "d-1", 3_600).await;
        begin(host, "quarantine", "code=HTTP.*", None, 1).await;
        begin(host, "cancel", "definition=order", Some("acme"), 100).await;
    });
    let listed = ask(&host, &["list", "-o", "ids"]).run();
    let ids: Vec<&str> = listed.out.lines().collect();
    let [over, under_way] = ids[..] else { panic!("{listed:?}") };
    let table = ask(&host, &["list", "--limit", "1"]).run();
    assert!(table.out.contains("definition=order") && !table.out.contains("quarantine"), "{}", table.out);
    let shown = ask(&host, &["show", under_way]).run();
    assert!(shown.out.contains("running") && shown.out.contains("ann"), "{}", shown.out);
    let stopped = ask(&host, &["cancel", under_way]).run();
    assert_eq!(stopped.exit, Exit::Done, "{}", stopped.err);
    assert_eq!(host.acts(), [format!("OperationCancelled {under_way}")]);
    assert_eq!(ask(&host, &["cancel", over]).run().exit, Exit::Conflict, "it is over");
    assert_eq!(ask(&host, &["cancel", "gone"]).run().exit, Exit::NotFound);
    assert_eq!(ask(&host, &["list", "--limit", "0"]).run().exit, Exit::Usage);
}

#[test]
fn a_replay_is_planned_tried_and_followed() {
    let host = TestHost::with(async |host| {
        for id in ["d-1", "d-2", "d-3"] {
            host.dead(message(id)).await;
        }
    });
    let replay =
        |more: &[&str]| waybill(&["dead", "replay", "--filter", "id=*"]).args(more).arg("--url").arg(&host.url).run();
    let plan = replay(&["--plan"]);
    assert!(plan.out.contains("would replay 3 dead letters\nthat died until 20"), "{}", plan.out);
    let unfrozen = replay(&["--expect-count", "3", "--yes"]);
    assert_eq!(unfrozen.exit, Exit::Usage, "a number without its instant freezes nothing");
    assert!(unfrozen.err.contains("--before"), "{}", unfrozen.err);
    let grown = replay(&["--before", "2100-01-01T00:00:00Z", "--expect-count", "2", "--yes"]);
    assert_eq!(grown.exit, Exit::Conflict);
    assert!(grown.err.contains("OPERATION.SET_GREW"), "{}", grown.err);
    let none = replay(&["--before", "2001-01-01T00:00:00Z", "--yes"]);
    assert!(none.err.contains("no dead letter matches"), "{}", none.err);
    let done = replay(&["--trial", "1", "--yes", "-o", "ids"]);
    assert_eq!(done.exit, Exit::Done, "{}", done.err);
    let shown = ask(&host, &["show", done.out.trim()]).run();
    for word in ["1, passed", "put back", "died again", "on the way"] {
        assert!(shown.out.contains(word), "{word}: {}", shown.out);
    }
}
