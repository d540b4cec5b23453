//! The page at `/ui` of a real host in a real chromium: every view in widths and themes, without script, by keyboard, while it changes,
//! signed in and out. What is looked at stands in `tests/clients/page`, which prints a line a check.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::process::Command;
use waybill_testkit::api::Api;
use waybill_testkit::browser::find_browser;
use waybill_testkit::process::{Host, Launch, binary};

use crate::generated_clients::{node_and_packages, run_within};
use crate::monitoring::receiver;

/// Far longer than all checks take on a busy machine: a browser that hangs must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(600);
const TOKEN: &str = "a-token-of-somebody-who-looks-with-enough-of-entropy";

/// Views by the names of their checks and pictures. Whoever adds a view adds it here.
const VIEWS: &[(&str, &str)] = &[
    ("overview", "/ui"),
    ("messages", "/ui/messages"),
    ("messages-waiting", "/ui/messages?sort=state"),
    ("messages-filtered", "/ui/messages?filter=state%3Dpending"),
    ("messages-none", "/ui/messages?filter=key%3Dnobody"),
    ("messages-unreadable", "/ui/messages?filter=agee%3C1h"),
    ("message", "/ui/message?tenant=default&id=done-1"),
    ("message-dead", "/ui/message?tenant=default&id=dead-0"),
    ("message-raw", "/ui/message?tenant=default&id=dead-0&show=raw"),
    ("message-headers", "/ui/message?tenant=default&id=dead-0&show=headers"),
    ("dead-letters", "/ui/dead-letters"),
    ("blocked", "/ui/blocked"),
    ("sagas", "/ui/sagas"),
    ("saga", "/ui/saga?tenant=default&id=order-1"),
    ("saga-undone", "/ui/saga?tenant=default&id=order-2"),
    ("inbox", "/ui/inbox"),
    ("idempotency", "/ui/idempotency"),
    ("idempotency-key", "/ui/idempotency?tenant=default&key=nightly"),
    ("approvals", "/ui/approvals"),
    ("streams", "/ui/streams"),
    ("stream", "/ui/stream?tenant=default&name=task.node.7&from=5"),
    ("relay", "/ui/relay?name=copies"),
    ("plugins", "/ui/plugins"),
    ("plugin", "/ui/plugin?name=http"),
    ("plugin-log", "/ui/plugin?name=http&show=log"),
    ("plugin-grants", "/ui/plugin?name=http&show=grants"),
    ("help", "/ui/help/HTTP.422"),
    ("operations", "/ui/operations"),
    ("plan-one", "/ui/plan?act=dead-replay&tenant=default&id=dead-0"),
    ("plan-many", "/ui/plan?act=dead-purge&tenant=default&filter=code%3DHTTP.*"),
    ("form-message", "/ui/plan?act=message-send"),
    ("form-edit", "/ui/plan?act=dead-edit&tenant=default&id=dead-0"),
    ("audit", "/ui/audit"),
    ("configuration", "/ui/configuration?compare=now"),
];
const WIDTHS: [u32; 3] = [320, 768, 1_440];
const THEMES: [&str; 2] = ["light", "dark"];
/// What is done beside looking at each view.
const ACTS: [&str; 18] = [
    "act by keyboard: plan, form, answer",
    "act twice by a double press is done once",
    "keys rows",
    "keys find and filter",
    "keys g o",
    "keys g m",
    "keys g d",
    "keys g s",
    "keys g p",
    "keys g t",
    "keys times",
    "keys help and switch",
    "live a number changes without a reload",
    "live pauses by a key",
    "live rows stay and newer ones are told",
    "history back and reload",
    "sign-in by keyboard",
    "the browser ends",
];

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
[ui]
name = "browser test"
color = "amber"
[outbox]
backoff = { base_ms = 10 }
[[route]]
match = "bus:work.**"
transport = "external"
[[route]]
match = "http:**"
transport = "http"
[transport.http]
plugin = "http"
allow = { http = ["http://127.0.0.1:*"] }
[transport.nowhere]
plugin = "noop"
[relay.copies]
match = "task.**"
transport = "nowhere"
topic = "bus:{stream}"
"#;

async fn host(dir: &Path, more: &str) -> (Host, Api) {
    std::fs::create_dir(dir).unwrap();
    let config = format!("[store]\nurl = \"surrealkv://{}\"\n{CONFIG}{more}", dir.join("data").display());
    Host::ready(&Launch::prepare(binary().unwrap(), dir, &config).unwrap()).await.unwrap()
}

/// Something of everything that the views show, some of it hostile.
async fn fill(api: &Api) {
    let url = receiver().await;
    let post = async |path: &str, body: Value| {
        let reply = api.post(path, &body).await.unwrap();
        assert!(reply.is_ok(), "{path}: {reply:?}");
    };
    let hostile = "<script>alert(1)</script> \u{202e}'\"&amp;";
    let payload =
        json!({ "note": hostile, "long": "x".repeat(400), "n": 9_007_199_254_740_993_u64, "list": [1, null, true] });
    let done = (0..60).map(|number| {
        let id = format!("done-{number}");
        json!({ "topic": format!("{url}/good"), "id": id, "key": format!("key-{}", number % 7), "payload": payload })
    });
    post("/v1/messages", json!({ "messages": done.collect::<Vec<_>>() })).await;
    let dead = (0..4).map(|number| {
        let headers = json!({ "x-note": "line <b>", "x-api-key": "hidden" });
        json!({ "topic": format!("{url}/refuse"), "id": format!("dead-{number}"), "headers": headers, "payload": payload })
    });
    post("/v1/messages", json!({ "messages": dead.collect::<Vec<_>>() })).await;
    let waiting =
        (0..5).map(|number| json!({ "topic": "bus:work.wait", "id": format!("waiting-{number}"), "payload": 1 }));
    post("/v1/messages", json!({ "messages": waiting.collect::<Vec<_>>() })).await;

    let step = |name: &str, action: &str| json!({ "name": name, "action": format!("{url}/{action}"), "compensation": format!("{url}/undo") });
    for (name, steps) in [
        ("order", json!([step("reserve", "good"), step("charge", "good")])),
        ("refused", json!([step("reserve", "good"), step("charge", "refuse")])),
    ] {
        post("/v1/saga-definitions", json!({ "name": name, "version": 1, "steps": steps })).await;
    }
    post("/v1/sagas", json!({ "definition": "order", "id": "order-1", "input": { "total": 12.5 } })).await;
    post("/v1/sagas", json!({ "definition": "refused", "id": "order-2", "input": {} })).await;
    for stream in ["task.node.7", "task.node.8", "audit.log"] {
        let events = (0..12).map(|number| {
            json!({ "event_id": format!("{stream}-{number}"), "resource_type": "TASK", "resource_id": "t-17", "op": "UPDATE", "schema_version": 1 })
        });
        post(&format!("/v1/streams/{stream}/events"), json!({ "events": events.collect::<Vec<_>>() })).await;
    }
    for (path, ended) in [
        ("/v1/messages/done-59", "done"),
        ("/v1/messages/dead-3", "dead"),
        ("/v1/sagas/order-1", "completed"),
        ("/v1/sagas/order-2", "cancelled"),
    ] {
        until_state(api, path, ended).await;
    }
    let begin = json!({ "key": "nightly", "hash": "a1" });
    post("/v1/idempotency/begin", begin).await;
    // Something holds messages back.
    post("/v1/transports/http/pause", json!({})).await;
    post("/v1/messages", json!({ "topic": format!("{url}/good"), "id": "paused-1", "payload": 1 })).await;
}

async fn until_state(api: &Api, path: &str, state: &str) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while api.get(path, &[]).await.unwrap().body["state"] != state {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "{path} isn't {state}: {:?}", api.get(path, &[]).await);
}

/// Which theme a view is looked at in at a width: one of the two, so that each view meets each width, and each theme at some.
/// Looking at all takes longer than a run of the suite may.
fn theme(view: usize, width: usize) -> &'static str {
    THEMES[(view + width) % THEMES.len()]
}

/// Names of all checks.
fn expected() -> Vec<String> {
    let looks = VIEWS.iter().enumerate().flat_map(|(number, (view, _))| {
        let sizes =
            WIDTHS.iter().enumerate().map(move |(at, width)| format!("view {view} {width} {}", theme(number, at)));
        sizes.chain([format!("look {view}"), format!("plain {view}")])
    });
    looks.chain(ACTS.map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_is_sound_in_a_real_browser_and_is_driven_by_keys_alone() {
    let (node, packages) = node_and_packages("page");
    let chromium = find_browser().expect("chromium is installed");
    let dir = tempfile::tempdir().unwrap();
    let (open, api) = host(&dir.path().join("open"), "").await;
    fill(&api).await;
    let hash: String = Sha256::digest(TOKEN).iter().map(|byte| format!("{byte:02x}")).collect();
    let tokens = format!("[[auth.token]]\nname = \"looker\"\nsha256 = \"{hash}\"\nroles = [\"viewer\"]\n");
    let (secured, behind) = host(&dir.path().join("secured"), &tokens).await;

    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/page");
    for file in ["package.json", "browser.mjs", "look.mjs"] {
        std::fs::copy(programs.join(file), dir.path().join(file)).unwrap();
    }
    std::os::unix::fs::symlink(&packages, dir.path().join("node_modules")).unwrap();
    let pictures: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    let views: Vec<Value> = VIEWS
        .iter()
        .enumerate()
        .map(|(number, (view, address))| {
            let sizes = WIDTHS.iter().enumerate().map(|(at, width)| json!([width, theme(number, at)]));
            json!([view, address, sizes.collect::<Vec<_>>()])
        })
        .collect();
    println!("left out: each view at each width in the other of the {} themes", THEMES.len());
    let given = json!({
        "base": api.base(), "secured": behind.base(), "token": TOKEN, "chromium": chromium,
        "profile": dir.path().join("profile"), "screenshots": pictures,
        "views": views,
    });
    let mut looking = Command::new(node);
    looking.arg(dir.path().join("look.mjs")).arg(given.to_string()).current_dir(dir.path()).env("HOME", dir.path());
    let said = run_within(PATIENCE, &mut looking).await;

    let failed: Vec<&str> = said.lines().filter(|line| line.starts_with("not ok ")).collect();
    assert!(failed.is_empty(), "pictures are in {}:\n{}", pictures.display(), failed.join("\n"));
    let mut done: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("ok ")).collect();
    let mut expected = expected();
    done.sort_unstable();
    expected.sort_unstable();
    assert_eq!(done, expected, "{said}");
    for host in [open, secured] {
        assert!(host.terminate(PATIENCE).await.unwrap().success());
    }
}
