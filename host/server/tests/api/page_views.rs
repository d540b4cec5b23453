//! The views of the page over HTTP: in their first run, filled, with a part that fails, and for who isn't allowed; hostile text in each.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tower::ServiceExt;
use waybill_core::code::Code;
use waybill_core::new_message::NewMessage;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_server::limits::Limits;
use waybill_server::server::{Parts, Server};
use waybill_testkit::memory_host::message;

use crate::page::{as_signed_in, hostile, is_clean, signed_in, with_tokens};
use crate::support::{Api, get, host, of, parts, post, send};

/// A step that asks a person, and shows them what is no HTML.
const ASKING: &str = "name = \"asking\"\nversion = 1\n[[steps]]\nname = \"release\"\naction = \"wait:approval\"\n\
                      input = { amount = 12400, to = \"<script>globex\\u202e\" }\n";

/// Views that have nothing to show on a host that has just begun, and what they say then.
const FIRST_RUNS: [(&str, &str); 7] = [
    ("/ui", "Nothing needs you"),
    ("/ui/messages", "No message yet"),
    ("/ui/dead-letters", "No dead letter"),
    ("/ui/sagas", "No saga yet"),
    ("/ui/blocked", "Nothing holds messages back"),
    ("/ui/approvals", "Nothing waits for a person"),
    ("/ui/idempotency", "No key yet"),
];

#[tokio::test]
async fn a_host_that_has_just_begun_says_in_each_view_what_fills_it() {
    let api = Api::open().await;
    for (path, words) in FIRST_RUNS {
        let answer = api.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        is_clean(&answer, path);
        assert!(answer.text.contains(words), "{path}: {}", answer.text);
    }
}

#[tokio::test]
async fn what_all_rows_have_stands_in_the_heading_of_their_list() {
    let api = Api::open().await;
    for id in ["one", "two"] {
        api.host.dead(of("acme", message(id))).await;
    }
    let alike = api.get("/ui/dead-letters").await.text;
    assert!(alike.contains("<p class=\"same\">All: ") && alike.contains("tenant <b>acme</b>"), "{alike}");
    assert!(!alike.contains("data-l=\"tenant\""), "{alike}");
    api.host.dead(of("globex", message("three"))).await;
    let unlike = api.get("/ui/dead-letters").await.text;
    assert!(!unlike.contains("tenant <b>acme</b>") && unlike.contains("data-l=\"tenant\""), "{unlike}");
}

#[tokio::test]
async fn what_a_host_does_not_have_is_said_or_left_out() {
    let host = host().await;
    let all = parts(&host, &Default::default(), None, Limits::default());
    let bare = Parts { inbound: None, streams: None, sagas: None, configuration: None, plugins: None, ..all };
    let router = Server::new(bare).router();
    let inbox = send(&router, get("/ui/inbox")).await;
    is_clean(&inbox, "no inbox");
    assert!(inbox.text.contains("No inbox"), "{}", inbox.text);
    let overview = send(&router, get("/ui")).await;
    assert!(overview.status == 200 && !overview.text.contains("Relays</span>"), "{}", overview.text);
    for path in ["/ui/streams", "/ui/approvals", "/ui/configuration", "/ui/plugins"] {
        let answer = send(&router, get(path)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        is_clean(&answer, path);
    }
    for path in ["/ui/relay?name=bus", "/ui/stream?name=task"] {
        let answer = send(&router, get(path)).await;
        assert!(answer.status.is_client_error() || answer.status.is_server_error(), "{path}: {}", answer.status);
        is_clean(&answer, path);
    }
}

/// A host in which everything that others write is hostile.
async fn filled() -> Api {
    let api = hostile().await;
    api.host.define(ASKING).await;
    api.host.begin("asking", "default", "asks").await;
    api.host.until_waiting("default", "asks", "approval").await;
    api.host.begun_key("default", "<script>key").await;
    api.host.finished_key("default", "done", "{\"n\":1.10,\"t\":\"</script>\"}").await;
    api.host.failed_key("default", "failed", "<script>no</script>").await;
    api.host.plugins.writes("bus", "error", "<script>trap</script> \u{202e}", &[("<b>", "</script>")]);
    api.host.plugins.refuse_file("<script>.wasm", Code::PLUGIN_READ, "<b>no</b>");
    let paused = api.post("/v1/transports/bus/pause", "{\"reason\":\"<script>moved\"}").await;
    assert_eq!(paused.status, 200, "{}", paused.text);
    api
}

#[tokio::test]
async fn a_filled_view_shows_what_is_there_and_nothing_of_others_is_html() {
    let api = filled().await;
    for (path, words) in [
        ("/ui", "What needs you"),
        ("/ui/blocked", "back."),
        ("/ui/blocked?kind=destination", "shop.example/hook"),
        ("/ui/blocked?kind=%3Cscript%3E", "Nothing is held by"),
        ("/ui/inbox", "10.0.0.7 answers"),
        ("/ui/inbox", "HTTP.401: no"),
        ("/ui/inbox?filter=consumer%3Dship", "orders/17"),
        ("/ui/inbox?consumer=ship&id=done", "Its id is final."),
        ("/ui/inbox?consumer=ship&id=waits&tenant=default", "1.10"),
        ("/ui/inbox?consumer=ship&id=%3Cscript%3E", "Nothing is known of it"),
        ("/ui/approvals", "12400"),
        ("/ui/approvals", "waybill saga approve asks --step release"),
        ("/ui/idempotency", "in flight"),
        ("/ui/idempotency?key=%3Cscript%3Ekey", "Somebody is at it"),
        ("/ui/idempotency?key=done&tenant=default", "1.10"),
        ("/ui/idempotency?key=failed", "Failed for good"),
        ("/ui/relay?name=bus", "1,234 events behind"),
        ("/ui/stream?name=task", "TASK/t-4"),
        ("/ui/stream?name=task&from=4", "TASK/t-5"),
        ("/ui/stream?name=task&from=900", "Nothing is there"),
        ("/ui/stream?name=task&from=%3Cscript%3E", "from takes the number of an event"),
        ("/ui/plugins", "&lt;script&gt;.wasm"),
        ("/ui/plugin?name=bus", "Generations"),
        ("/ui/plugin?name=http&show=grants", "transport.http.allow"),
        ("/ui/plugin?name=bus&show=users", "route[1].transport"),
        ("/ui/plugin?name=bus&show=log", "&lt;script&gt;trap"),
        ("/ui/configuration", "after a restart"),
        ("/ui/configuration?section=transport", "&lt;script&gt;.example"),
        ("/ui/configuration?section=%3Cscript%3E", "No setting is in"),
        ("/ui/audit", "TransportPaused"),
        ("/ui/audit?filter=kind%3DTransport*", "Took it as"),
        ("/ui/help/OUTBOX.BUSY", "What to do"),
        ("/ui/help/CONFIG.RELOAD_REFUSED", "answered with 422"),
    ] {
        let answer = api.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        is_clean(&answer, path);
        assert!(answer.text.contains(words), "{path} has no {words:?}: {}", answer.text);
    }
    for path in [
        "/ui/help/NO.SUCH",
        "/ui/relay?name=gone",
        "/ui/stream?name=gone",
        "/ui/plugin?name=gone",
        "/ui/idempotency?key=gone",
    ] {
        let answer = api.get(path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text);
        is_clean(&answer, path);
    }
}

#[tokio::test(start_paused = true)]
async fn the_overview_puts_what_changed_beside_what_broke_and_marks_it_in_the_charts() {
    let api = Api::open().await;
    api.post("/v1/transports/http/pause", "{\"reason\":\"it is moved\"}").await;
    api.post("/v1/transports/http/resume", "").await;
    for step in 0..3 {
        api.host.dead(message(&format!("d-{step}"))).await;
        api.host.pass(Duration::from_secs(10));
        tokio::time::sleep(Duration::from_secs(11)).await;
    }
    let page = api.get("/ui").await;
    is_clean(&page, "/ui");
    let text = &page.text;
    for part in [
        "Ready, and one thing needs you",
        "after <b class=\"mark\">1</b> transport <code>http</code> was paused",
        "Nothing mends this by itself",
        "Look at the group",
        "New dead letters",
        "class=\"flag\"",
        "It began at",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn the_overview_says_first_what_makes_the_host_not_ready() {
    let api = Api::open().await;
    api.hindrance.unready.store(true, Ordering::Relaxed);
    let text = api.get("/ui").await.text;
    assert!(text.contains("Not ready") && text.contains("The host tries again by itself"), "{text}");
}

#[tokio::test]
async fn a_part_that_fails_says_so_in_every_view_and_leaves_the_others() {
    let api = filled().await;
    *api.hindrance.fails.lock() = Some(ServiceError::Store(StoreError::DiskFull("<script>no room".into())));
    *api.hindrance.keys_fail.lock() = Some(ServiceError::Store(StoreError::DiskFull("no room".into())));
    for (path, stands) in [
        ("/ui", "Transports"),
        ("/ui/messages", "Newest first"),
        ("/ui/dead-letters", "Stopped for good"),
        ("/ui/blocked", "In a terminal"),
        ("/ui/audit", "In a terminal"),
        ("/ui/idempotency", "Look up a key"),
    ] {
        let answer = api.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        is_clean(&answer, path);
        let id = answer.header("x-request-id").to_owned();
        for part in ["STORAGE.DISK_FULL", "/ui/help/STORAGE.DISK_FULL", "Try now", stands, &id] {
            assert!(answer.text.contains(part), "{path} has no {part:?}: {}", answer.text);
        }
    }
    // What is beside the outbox stands without it.
    for path in ["/ui/inbox", "/ui/relay?name=bus", "/ui/stream?name=task", "/ui/plugin?name=bus", "/ui/approvals"] {
        assert_eq!(api.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn who_is_not_allowed_is_told_the_role_and_sees_nothing_of_others() {
    let api = with_tokens().await;
    api.host.plugins.writes("bus", "info", "a secret of the host", &[]);
    api.host.begun_key("globex", "of-globex").await;
    api.host.finished_key("acme", "of-acme", "{\"result\":\"kept\"}").await;
    let viewer = signed_in(&api.router, "viewer").await;
    let look = async |path: &str| {
        let answer = api.send(as_signed_in(path, &viewer)).await;
        is_clean(&answer, path);
        (answer.status.as_u16(), answer.text)
    };
    for path in ["/ui/audit", "/ui/configuration"] {
        let (status, text) = look(path).await;
        assert!(status == 403 && text.contains("AUTH.ROLE"), "{path}: {text}");
    }
    for path in ["/ui/plugin?name=bus&show=log", "/ui/plugin?name=bus&show=grants", "/ui"] {
        let (status, text) = look(path).await;
        assert!(status == 200 && text.contains("AUTH.ROLE") && text.contains("may not look at this"), "{path}: {text}");
        assert!(!text.contains("a secret of the host") && !text.contains("transport.http.allow"), "{path}: {text}");
    }
    let (_, keys) = look("/ui/idempotency").await;
    assert!(keys.contains("of-acme") && !keys.contains("of-globex"), "{keys}");
    let (_, key) = look("/ui/idempotency?key=of-acme").await;
    assert!(!key.contains("kept\"") && key.contains("your token may not see it"), "{key}");
    assert_eq!(look("/ui/idempotency?key=of-globex&tenant=globex").await.0, 404);
    let (_, relay) = look("/ui/relay?name=bus").await;
    assert!(relay.contains("acme") && !relay.contains("secret") && !relay.contains("10.0.0.7"), "{relay}");
    let (_, inbox) = look("/ui/inbox").await;
    assert!(inbox.contains("shop") && !inbox.contains("stock") && !inbox.contains("10.0.0.7"), "{inbox}");
    assert_eq!(look("/ui/save?list=audit&as=csv").await.0, 403);
    assert_eq!(look("/ui/save?list=messages&as=csv&tenant=globex").await.0, 403);
}

#[tokio::test]
async fn a_filter_of_any_list_says_which_of_the_tokens_tenants_it_is_of() {
    let api = with_tokens().await;
    for tenant in ["acme", "globex"] {
        api.host.delivered(of(tenant, message(&format!("m-of-{tenant}")))).await;
        api.host.dead(of(tenant, message(&format!("d-of-{tenant}")))).await;
        api.host.begun_key(tenant, &format!("k-of-{tenant}")).await;
        api.host.waiting_saga(tenant, &format!("s-of-{tenant}")).await;
    }
    let two = signed_in(&api.router, "two").await;
    let shown = async |path: &str| api.send(as_signed_in(path, &two)).await;
    for (list, row) in [("messages", "m-of-"), ("dead-letters", "d-of-"), ("idempotency", "k-of-"), ("sagas", "s-of-")]
    {
        for path in ["", "save?as=csv&list="].map(|way| format!("/ui/{way}{list}")) {
            let path = if path.contains('?') { format!("{path}&filter=") } else { format!("{path}?filter=") };
            let second = shown(&format!("{path}tenant%3Dglobex")).await;
            let is_of = |tenant: &str| second.text.contains(&format!("{row}{tenant}"));
            assert!(second.status == 200 && is_of("globex") && !is_of("acme"), "{path}: {}", second.text);
            let foreign = shown(&format!("{path}tenant%3Dinitech")).await.text;
            assert!(foreign.contains("AUTH.TENANT") && !foreign.contains(row), "{path}: {foreign}");
        }
    }
    api.inbound().calls();
    shown("/ui/inbox?filter=tenant%3Dglobex").await;
    assert!(api.inbound().calls().contains(&"newest globex * None 50".to_owned()));
    assert_eq!(shown("/ui/inbox?filter=tenant%3Dinitech").await.status, 403);
    // Lines of the audit trail have no such condition: it is refused, and nothing is shown in its place.
    let audit = shown("/ui/audit?filter=tenant%3Dglobex").await.text;
    assert!(audit.contains("there is no field"), "{audit}");
    // The numbers of the view, and the switch above it, are of the same tenant.
    let sagas = shown("/ui/sagas?filter=tenant%3Dglobex").await.text;
    assert!(sagas.contains("/ui/live?view=sagas&amp;tenant=globex"), "{sagas}");
}

#[tokio::test]
async fn a_filter_shows_how_it_was_understood_and_each_condition_can_be_taken_away() {
    let api = Api::open().await;
    let page = api.get("/ui/messages?filter=topic%3D%22%3Cscript%3E%20x%22%20age%3E1h&sort=state").await;
    is_clean(&page, "chips");
    for part in ["Took it as", "over 1h", "&lt;script&gt; x", "/ui/messages?filter=age%3E1h&amp;sort=state"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    api.host.dead(message("d-1")).await;
    let none = api.get("/ui/dead-letters?filter=code%3DNO.SUCH").await.text;
    assert!(none.contains("No dead letter matches") && none.contains("1 dead letter has another cause"), "{none}");
    let unread = api.get("/ui/messages?filter=agee%3C1h").await.text;
    assert!(!unread.contains("Took it as"), "{unread}");
}

#[tokio::test]
async fn a_filter_that_cannot_be_read_leaves_the_list_and_says_what_was_meant() {
    let api = Api::open().await;
    for (tenant, id) in [("acme", "of-acme"), ("globex", "of-globex")] {
        api.host.delivered(of(tenant, message(id))).await;
    }
    let whole = api.get("/ui/messages?filter=agee%3D1h").await;
    is_clean(&whole, "a filter that can't be read");
    for part in ["did you mean", "of-acme", "of-globex", "without a filter", "value=\"agee=1h\""] {
        assert!(whole.text.contains(part), "{part}: {}", whole.text);
    }
    let rest = api.get("/ui/messages?filter=tenant%3Dacme%20agee%3C1h").await.text;
    assert!(rest.contains("of-acme") && !rest.contains("of-globex"), "{rest}");
    assert!(rest.contains("The rest of the filter holds") && rest.contains("Took it as"), "{rest}");
    for list in ["sagas", "dead-letters", "audit", "idempotency", "inbox"] {
        let shown = api.get(&format!("/ui/{list}?filter=colour%3Dred")).await.text;
        assert!(shown.contains("there is no field"), "{list}: {shown}");
    }
    // Nothing is offered to be done to more than was asked for.
    assert!(api.get("/ui/dead-letters").await.text.contains("act=dead-replay"));
    assert!(!api.get("/ui/dead-letters?filter=colour%3Dred").await.text.contains("act=dead-replay"));
}

#[tokio::test]
async fn a_list_is_saved_as_csv_and_as_json_lines() {
    let api = Api::open().await;
    api.host.delivered(of("acme", message("=1+1"))).await;
    api.host.delivered(of("acme", message("m-2"))).await;
    let file = api.get("/ui/save?list=messages&as=csv&filter=tenant%3Dacme").await;
    assert_eq!(
        (file.status.as_u16(), file.header("content-disposition")),
        (200, "attachment; filename=\"messages.csv\"")
    );
    assert!(file.header("content-type").starts_with("text/csv"), "{}", file.header("content-type"));
    let lines: Vec<&str> = file.text.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("id,tenant,state,topic"), "{}", file.text);
    assert!(file.text.contains("\"'=1+1\",acme,done"), "{}", file.text);
    let file = api.get("/ui/save?list=messages&as=jsonl").await;
    let ids: Vec<serde_json::Value> = file.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(ids.len() == 2 && ids.iter().all(|row| row["tenant"] == "acme"), "{}", file.text);
    assert!(ids.iter().all(|row| row.get("headers").is_none()), "what the page hides stays hidden: {}", file.text);
    for list in ["dead-letters", "sagas", "inbox", "idempotency", "audit"] {
        for format in ["csv", "jsonl"] {
            let file = api.get(&format!("/ui/save?list={list}&as={format}")).await;
            assert_eq!(file.status, 200, "{list}: {}", file.text);
        }
    }
    for query in ["list=nothing&as=csv", "list=messages&as=html", "list=messages&as=csv&filter=agee%3C1h", ""] {
        let refused = api.get(&format!("/ui/save?{query}")).await;
        assert_eq!(refused.status, 400, "{query}: {}", refused.text);
        is_clean(&refused, query);
    }
    // The list leads there.
    let page = api.get("/ui/messages").await.text;
    assert!(page.contains("/ui/save?list=messages&amp;as=csv"), "{page}");
}

#[tokio::test]
async fn nothing_is_read_for_a_file_that_there_is_no_room_for() {
    let api = Api::with(None, Limits { answers_bytes_max: 64 * 1024, ..Limits::default() }).await;
    let large = NewMessage { payload: format!("\"{}\"", "x".repeat(100 * 1024)).into(), ..message("large") };
    api.host.delivered(large).await;
    let unread = api.router.clone().oneshot(get("/v1/messages/large")).await.unwrap();
    api.reached();
    let refused = api.get("/ui/save?list=messages&as=csv").await;
    assert!(refused.status == 503 && refused.text.contains("HTTP.OVERLOADED"), "{}", refused.text);
    is_clean(&refused, "no room");
    assert!(!api.reached().contains(&"messages"));
    drop(unread);
    assert_eq!(api.get("/ui/save?list=messages&as=csv").await.status, 200);
}

#[tokio::test]
async fn nothing_that_is_looked_at_changes_anything() {
    let api = filled().await;
    let before = api.get("/v1/audit?limit=1000").await.text;
    for path in
        ["/ui", "/ui/approvals", "/ui/configuration?compare=now", "/ui/save?list=dead-letters&as=csv", "/ui/inbox"]
    {
        api.get(path).await;
        assert!(!api.send(post(path, "")).await.status.is_success(), "{path} takes no form");
    }
    assert_eq!(api.get("/v1/audit?limit=1000").await.text, before);
}
