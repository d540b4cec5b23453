//! `waybill inbox` and `waybill source` against a host with the real HTTP API.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use serde_json::Value;
use waybill_api::dead_letters::{DeadLetterView, Replayed};
use waybill_cli::exit::Exit;
use waybill_core::port::service::MessageState;

use crate::fake_inbound::{FakeInbound, dead, stored};
use crate::host::TestHost;
use crate::support::{Command, waybill};

/// A shop with an inbox, and what was done to that.
fn receiving() -> (TestHost, Arc<FakeInbound>) {
    let inbound = Arc::new(FakeInbound::default());
    (TestHost::receiving(inbound.clone()), inbound)
}

fn ask(host: &TestHost, arguments: &[&str]) -> Command {
    waybill(arguments).arg("--url").arg(&host.url)
}

/// The cells of the first line that begins with this.
fn line(text: &str, start: &str) -> Vec<String> {
    let found = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start:?} in {text}"));
    found.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn stored_messages_are_listed_as_a_table_as_json_and_as_places() {
    let (host, _) = receiving();
    let table = ask(&host, &["inbox", "list"]).run();
    assert_eq!(table.exit, Exit::Done, "{table:?}");
    assert_eq!(line(&table.out, "inbox-3-17")[..3], ["inbox-3-17", "ship", "orders/17"]);
    assert!(table.out.contains("retry") && table.out.contains("HTTP.503: no"), "{}", table.out);
    assert_eq!(ask(&host, &["inbox", "list", "-o", "ids"]).run().out, "inbox-3-17\n");
    assert_eq!(ask(&host, &["inbox", "list", "--newest", "-o", "ids"]).run().out, "inbox-3-18\ninbox-3-17\n");
    let json = ask(&host, &["inbox", "list", "-o", "json"]).run();
    let items: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&items[0]["consumer"], &items[0]["attempts"]), (&"ship".into(), &2.into()));
    let none = ask(&host, &["inbox", "list", "--filter", "consumer=bill"]).run();
    assert_eq!((none.out.as_str(), none.err.contains("nothing is stored")), ("", true));
    assert_eq!(ask(&host, &["inbox", "list", "--filter", "colour=red"]).run().exit, Exit::Usage);
}

#[test]
fn an_id_is_shown_with_what_is_known_of_it() {
    let (host, _) = receiving();
    let seen = ask(&host, &["inbox", "show", "ship", "orders/16"]).run();
    assert_eq!(seen.exit, Exit::Done, "{seen:?}");
    assert_eq!(
        (line(&seen.out, "state"), line(&seen.out, "seen")),
        (vec!["state".into(), "seen".into()], vec!["seen".into(), "yes".into()])
    );
    assert_eq!(line(&seen.out, "processed")[0], "processed");
    let waits = ask(&host, &["inbox", "show", "ship", "orders/17"]).run();
    assert!(waits.out.contains("{\"total\":1.10}") && waits.out.contains("retry: HTTP.503: no"), "{}", waits.out);
    let unseen = ask(&host, &["inbox", "show", "ship", "never"]).run();
    assert_eq!((unseen.exit, line(&unseen.out, "state")[1].as_str()), (Exit::Done, "unseen"));
    assert_eq!(ask(&host, &["inbox", "show", "bill", "x"]).run().exit, Exit::NotFound);
}

#[test]
fn the_screen_of_the_host_tells_what_waits_in_its_inbox() {
    let (host, _) = receiving();
    let status = ask(&host, &["status"]).run();
    let inbox = "1,234 unprocessed, the oldest since 2026-11-21T09:00:00Z, 2 rows failed";
    assert!(status.out.contains(inbox), "{status:?}");
}

#[test]
fn what_waits_is_told_by_context_and_by_consumer() {
    let (host, _) = receiving();
    let stats = ask(&host, &["inbox", "stats"]).run();
    assert_eq!(stats.exit, Exit::Done, "{stats:?}");
    assert_eq!(line(&stats.out, "sales")[..3], ["sales", "1,234", "2026-11-21T09:00:00Z"]);
    assert!(line(&stats.out, "ship").contains(&"1,222/5,000".to_owned()), "{}", stats.out);
    assert!(stats.out.contains("destination: HTTP.401: no") && stats.out.contains("1.04"), "{}", stats.out);
    let json: Value = serde_json::from_str(&ask(&host, &["inbox", "stats", "-o", "json"]).run().out).unwrap();
    assert_eq!(json["contexts"][0]["unprocessed"]["count"], 1_234);
}

/// What replays were asked for with.
type Replays = Arc<Mutex<Vec<Value>>>;

/// Serves the dead letter `inbox-3-18` alone, for the host in memory has none of the inbox; it ends with the test's process.
fn with_a_dead_letter(replays: &Replays) -> String {
    async fn show() -> String {
        serde_json::to_string(&DeadLetterView::from(dead())).unwrap()
    }
    async fn replay(State(replays): State<Replays>, body: String) -> String {
        replays.lock().unwrap().push(serde_json::from_str(&body).unwrap());
        serde_json::to_string(&Replayed::Inbox(Box::new(stored(18)))).unwrap()
    }
    async fn edit() -> (StatusCode, &'static str) {
        (StatusCode::CREATED, r#"{"ids":["01JD8Q6H3ZK7W5V0N2T4R6Y8BC"],"duplicates":[]}"#)
    }
    let router = Router::new()
        .route("/v1/dead-letters/inbox-3-18", get(show))
        .route("/v1/dead-letters/inbox-3-18/edit", post(edit))
        .route("/v1/dead-letters/inbox-3-18/replay", post(replay))
        .with_state(Arc::clone(replays));
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async move {
            axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), router).await.unwrap();
        });
    });
    url
}

#[test]
fn dead_letters_of_the_inbox_are_shown_and_replayed_by_place() {
    let replays = Replays::default();
    let url = with_a_dead_letter(&replays);
    let shown = waybill(&["dead", "show", "inbox-3-18", "--url", &url]).run();
    assert_eq!(shown.exit, Exit::Done, "{shown:?}");
    assert!(shown.out.contains("HTTP.422: no such order") && shown.out.contains("orders/18"), "{}", shown.out);
    let done = waybill(&["inbox", "replay", "inbox-3-18", "--reason", "mended", "--url", &url]).run();
    assert_eq!(done.exit, Exit::Done, "{done:?}");
    let asked = replays.lock().unwrap().clone();
    assert_eq!((asked.len(), &asked[0]["reason"]), (1, &"mended".into()));
}

#[test]
fn an_edit_of_a_received_message_says_that_its_original_is_gone() {
    let url = with_a_dead_letter(&Replays::default());
    let edited = waybill(&["dead", "edit", "inbox-3-18", "--payload", "1", "--url", &url]).run();
    assert_eq!((edited.exit, edited.out.as_str()), (Exit::Done, "01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n"), "{edited:?}");
    assert!(edited.err.contains("stored for its consumer under a new id; inbox-3-18 is removed"), "{edited:?}");
    assert!(!edited.err.contains("quarantined"), "{edited:?}");
}

#[test]
fn by_filter_a_replay_takes_dead_letters_of_the_inbox_only() {
    let (host, _) = receiving();
    let done = ask(&host, &["inbox", "replay", "--filter", "code=HTTP.*", "--yes"]).run();
    assert_eq!(done.exit, Exit::Done, "{done:?}");
    assert!(done.err.contains("no dead letter matches"), "{done:?}");
    let all = ask(&host, &["dead", "replay", "--filter", "code=HTTP.*", "--dry-run"]).run();
    assert!(all.out.contains("would replay 3 dead letters"), "those of the outbox stay as they are: {all:?}");
    for id in ["d-1", "d-2"] {
        assert_eq!(host.ask(async |host| host.view("default", id).await.state), MessageState::Dead);
    }
    assert_eq!(ask(&host, &["inbox", "replay"]).run().exit, Exit::Usage);
    assert_eq!(ask(&host, &["inbox", "replay", "--all"]).run().exit, Exit::Usage);
    assert_eq!(ask(&host, &["inbox", "replay", "--table", "table", "--filter", "x=1"]).run().exit, Exit::Usage);
}

#[test]
fn failed_rows_of_a_table_are_listed_and_wait_again() {
    let (host, inbound) = receiving();
    let list = ask(&host, &["inbox", "list", "--table", "table"]).run();
    assert_eq!(line(&list.out, "17")[..3], ["17", "order/17", "bus:orders.paid"]);
    let dry = ask(&host, &["inbox", "replay", "--table", "table", "--all", "--dry-run"]).run();
    assert!(dry.err.contains("would replay 2 rows"), "{dry:?}");
    assert!(inbound.acts().is_empty());
    let asked = ask(&host, &["inbox", "replay", "--table", "table", "--all"]).run();
    assert_ne!(asked.exit, Exit::Done, "without a terminal it needs --yes");
    let all = ask(&host, &["inbox", "replay", "--table", "table", "--all", "--yes", "--reason", "raised"]).run();
    assert!(all.err.contains("2 rows wait again in the table of table"), "{all:?}");
    let ids = ask(&host, &["inbox", "replay", "--table", "table", "-", "-o", "ids"]).input("17\n99\n").run();
    assert_eq!((ids.out.as_str(), ids.err.contains("1 wasn't failed")), ("17\n", true));
    assert_eq!(inbound.acts(), ["replay rows table 17,18 [raised]", "replay rows table 17,99 []"]);
    assert_eq!(ask(&host, &["inbox", "list", "--table", "gone"]).run().exit, Exit::NotFound);
}

#[test]
fn sources_are_listed_paused_resumed_and_provisioned() {
    let (host, inbound) = receiving();
    let list = ask(&host, &["source", "list"]).run();
    assert_eq!(line(&list.out, "shop")[..4], ["shop", "ready", "stored", "shop"]);
    assert!(
        list.out.contains("12/50") && list.out.contains("3,000") && list.out.contains("ship, bill"),
        "{}",
        list.out
    );
    assert_eq!(ask(&host, &["source", "list", "-o", "ids"]).run().out, "shop\ntable\n");
    let paused = ask(&host, &["source", "pause", "shop", "--reason", "broker moves"]).run();
    assert!(paused.err.contains("shop is paused") && line(&paused.out, "shop")[1] == "paused", "{paused:?}");
    assert_eq!(ask(&host, &["source", "resume", "shop"]).run().exit, Exit::Done);
    let plan = ask(&host, &["source", "provision", "shop", "--dry-run"]).run();
    assert_eq!(line(&plan.out, "create")[..3], ["create", "consumer", "ship"]);
    let done = ask(&host, &["source", "provision", "shop", "--yes"]).run();
    assert!(done.err.contains("applied 1 change to the peer of shop"), "{done:?}");
    assert_eq!(ask(&host, &["source", "pause", "gone"]).run().exit, Exit::NotFound);
    assert_eq!(
        inbound.acts(),
        [
            "pause source shop [broker moves] local",
            "resume source shop [] local",
            "provision source shop",
            "pause source gone [] local"
        ]
    );
}
