//! `/v1/sagas`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::saga::state::SagaState;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;
use waybill_server::server::{Parts, Server};
use waybill_testkit::fake_tracer::FakeTracer;
use waybill_testkit::memory_host::{InMemoryHost, ORDER};

use crate::support::{Answer, Api, NOW_TEXT, get, host, host_with, parts, post, send, token, with};

const S: &str = "/v1/sagas";
/// Two steps, the second one a sub-saga of one step.
pub const NESTED: &str = r#"name = "nested"
version = 1
[[steps]]
name = "reserve"
action = "fn:orders/reserve"
compensation = "fn:orders/reserve"
[[steps]]
name = "pay"
action = "saga:order"
"#;

fn ids(page: &Answer) -> Vec<String> {
    page.json()["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

/// Kinds of what operators did to sagas, oldest first, with who and on which.
async fn audited(api: &Api) -> Vec<Value> {
    let audit = api.get("/v1/audit?limit=1000").await.json();
    let of_sagas = audit["items"].as_array().unwrap().iter().rev();
    let acts = of_sagas.filter(|it| !["SagaDefined"].contains(&it["kind"].as_str().unwrap()));
    acts.map(|it| json!([it["kind"], it["object"], it["actor"]])).collect()
}

#[tokio::test]
async fn a_saga_starts_and_a_repeat_is_told_apart() {
    let api = Api::open().await;
    api.host.define(ORDER).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let body =
        r#"{"definition":"order","input":{"n": 1.10},"id":"a/b ä","tenant":"acme","ttl_ms":5000,"headers":{"x":"y"}}"#;
    let answer = api.send(with(post(S, body), "traceparent", trace)).await;
    assert_eq!(answer.json(), json!({"id": "a/b ä", "tenant": "acme", "duplicate": false}));
    assert_eq!((answer.status.as_u16(), answer.header("location")), (202, "/v1/sagas/a%2Fb%20%C3%A4?tenant=acme"));
    let shown = api.get(answer.header("location")).await;
    assert_eq!((&shown.json()["id"], &shown.json()["headers"]), (&json!("a/b ä"), &json!({"x": "y"})));
    assert_eq!(shown.json()["deadline"], "2096-10-02T07:06:45.123Z");
    assert!(shown.text.contains("{\"n\":1.10}") || shown.text.contains("{\"n\": 1.10}"), "{}", shown.text);
    assert!(shown.text.contains("local"), "who started it: {}", shown.text);
    for (status, duplicate) in [(202, false), (200, true)] {
        let named = api.post(S, r#"{"def_name":"order","version":1,"id":"again"}"#).await;
        assert_eq!((named.status.as_u16(), &named.json()["duplicate"]), (status, &json!(duplicate)));
    }
    let other = api.post(S, r#"{"definition":"order","version":3,"id":"other"}"#).await;
    assert_eq!(other.problem(), (404, "SAGA.NO_VERSION".into()));
    let made = api.post(S, r#"{"definition":"order"}"#).await;
    let (made, started) = (made.json()["id"].as_str().unwrap().to_owned(), made.status);
    assert_eq!(started, 202);
    assert_eq!(api.get(&format!("{S}/{made}")).await.json()["id"], made);
}

#[tokio::test(start_paused = true)]
async fn a_caller_may_wait_until_a_saga_is_at_rest() {
    let api = Api::open().await;
    api.host.define(ORDER).await;
    let quick = "name = \"quick\"\nversion = 1\n[[steps]]\nname = \"charge\"\naction = \"fn:orders/charge\"\n\
                 compensation = \"fn:orders/charge\"\n";
    api.host.define(quick).await;
    let start = |definition: &str, id: &str| format!("{{\"definition\":\"{definition}\",\"id\":\"{id}\"}}");
    let over = api.post(&format!("{S}?wait_ms=20000"), start("quick", "order-17")).await;
    assert_eq!((over.status.as_u16(), &over.json()["state"]), (200, &json!("completed")));
    let began = tokio::time::Instant::now();
    let slow = api.post(&format!("{S}?wait_ms=3000"), start("order", "order-slow")).await;
    assert_eq!((slow.status.as_u16(), &slow.json()["state"]), (202, &json!("running")));
    assert_eq!(began.elapsed().as_secs(), 3);
    assert_eq!(api.get(&format!("{S}/order-17?wait_ms=10")).await.status, 200);
    assert_eq!(api.get(&format!("{S}/gone?wait_ms=10")).await.problem(), (404, "SAGA.NOT_FOUND".into()));
    for path in [format!("{S}/order-17?wait_ms=20001"), format!("{S}/order-17?wait_ms=-1")] {
        assert_eq!(api.get(&path).await.problem().0, 400, "{path}");
    }
    assert_eq!(api.post(&format!("{S}?wait_ms=20001"), start("order", "x")).await.problem().0, 400);
    assert_eq!(api.get(&format!("{S}/x")).await.problem().0, 404, "refused before anything is started");
}

#[tokio::test]
async fn a_saga_shows_its_steps_and_sub_sagas() {
    let api = Api::open().await;
    api.host.define(ORDER).await;
    api.host.define(NESTED).await;
    let input = r#"{"definition":"nested","id":"order-17","tenant":"acme","input":{"n":12345678901234567890.10}}"#;
    assert_eq!(api.post(S, input).await.status, 202);
    let path = "/v1/sagas/order-17~pay?tenant=acme";
    while api.get(path).await.json()["saga"]["steps"][1]["saga"]["steps"][1]["waiting_for"] != "approval" {
        tokio::task::yield_now().await;
    }
    let answer = api.get(path).await;
    let saga = answer.json();
    assert_eq!((&saga["id"], &saga["tenant"], &saga["state"]), (&json!("order-17"), &json!("acme"), &json!("running")));
    assert_eq!((&saga["definition"], &saga["version"]), (&json!("nested"), &json!(1)));
    let step = &saga["saga"]["steps"][0];
    assert_eq!(
        (&step["state"], &step["direction"], &step["effect"]),
        (&json!("succeeded"), &json!("execute"), &json!("done"))
    );
    assert_eq!((&step["began_at"], &step["attempts"]), (&json!(NOW_TEXT), &json!(1)));
    assert_eq!(step["plugin"]["plugin"], "fake-orders");
    let within = &saga["saga"]["steps"][1]["saga"];
    assert_eq!((&within["id"], &within["steps"][0]["name"]), (&json!("order-17~pay"), &json!("reserve")));
    assert_eq!((&within["steps"][1]["state"], &within["steps"][1]["since"]), (&json!("in_flight"), &json!(NOW_TEXT)));
    assert!(answer.text.contains("{\"n\":12345678901234567890.10}"), "inputs are shown as they are: {}", answer.text);
    let kinds: Vec<_> = saga["history"].as_array().unwrap().iter().map(|line| line["kind"].clone()).collect();
    assert_eq!((kinds[0].as_str(), kinds.contains(&json!("sub_saga_started"))), (Some("started"), true), "{kinds:?}");
}

/// A saga that is held tells why, and a failed step its failure.
#[tokio::test]
async fn what_holds_a_saga_and_what_failed_is_shown() {
    let api = Api::open().await;
    api.host.waiting_saga("default", "held").await;
    api.post("/v1/sagas/held/pause", r#"{"reason":"why"}"#).await;
    let held = api.get("/v1/sagas/held").await.json();
    assert_eq!((&held["paused"]["cause"], &held["paused"]["note"]), (&json!("asked"), &json!("why")));
    assert_eq!((&held["paused"]["actor"], &held["paused"]["at"]), (&json!("local"), &json!(NOW_TEXT)));
    api.host.stuck_saga("default", "stuck").await;
    let stuck = api.get("/v1/sagas/stuck").await.json();
    assert_eq!((&stuck["state"], &stuck["waiting_for"]), (&json!("failed"), &json!("operator")));
    let charge = stuck["saga"]["steps"].as_array().unwrap().iter().find(|step| step["name"] == "charge").unwrap();
    assert_eq!((&charge["state"], &charge["failure"]["code"]), (&json!("failed"), &json!("ORDERS.REFUSED")));
    let failed: Vec<_> =
        stuck["history"].as_array().unwrap().iter().filter(|line| line["kind"] == "step_failed").collect();
    assert_eq!((&failed[0]["failure"]["maybe_done"], &failed[0]["attempt"]), (&json!(false), &json!(1)));
}

#[tokio::test]
async fn sagas_are_listed_by_filter_and_page() {
    let api = Api::open().await;
    for id in ["order-17", "order-18", "order-19"] {
        api.host.waiting_saga("default", id).await;
    }
    api.host.define(NESTED).await;
    api.host.begin("nested", "default", "another").await;
    let first = api.get(&format!("{S}?filter=definition%3Dorder&limit=2")).await;
    assert_eq!(first.json()["items"][0]["waiting_for"], "approval");
    assert!(first.json()["items"][0].get("saga").is_none());
    let cursor = first.json()["next_cursor"].as_str().unwrap().to_owned();
    let next = api.get(&format!("{S}?filter=definition%3Dorder&cursor={cursor}")).await;
    let mut all = [ids(&first), ids(&next)].concat();
    all.sort();
    assert_eq!(all, ["order-17", "order-18", "order-19"]);
    for bad in ["filter=colour%3Dred", "filter=state%3Dhappy", "limit=1001", "cursor=AAAA", "count=true", "tenant="] {
        assert_eq!(api.get(&format!("{S}?{bad}")).await.problem().0, 400, "{bad}");
    }
}

#[tokio::test]
async fn a_tenant_with_a_star_in_its_name_sees_its_own_sagas_and_no_others() {
    let api = Api::with(Some(vec![token("star", &["a*", "b"], &[Role::Operator])]), Limits::default()).await;
    for (tenant, id) in [("a*", "mine"), ("acme", "theirs"), ("b", "of-b")] {
        api.host.waiting_saga(tenant, id).await;
    }
    let ask = |path: &str| with(get(path), "authorization", "Bearer star");
    for path in [format!("{S}?tenant=a%2A"), format!("{S}?tenant=a%2A&filter=tenant%3Da*")] {
        assert_eq!(ids(&api.send(ask(&path)).await), ["mine"], "{path}");
    }
    // In a filter it is a pattern, and that names no tenant.
    assert_eq!(api.send(ask(&format!("{S}?filter=tenant%3Da*"))).await.problem().0, 400);
}

#[tokio::test]
async fn every_act_takes_its_words() {
    let api = Api::open().await;
    let act = async |id: &str, path: &str, body: &'static str| {
        let answer = api.post(&format!("{S}/{id}/{path}"), body).await;
        assert_eq!(answer.status, 200, "{id} {path}: {}", answer.text);
        (answer.json()["state"].as_str().unwrap().to_owned(), answer.json()["unchanged"] == true)
    };
    let told = |state: &str, unchanged: bool| (state.to_owned(), unchanged);
    for id in ["held", "back", "gone", "no", "yes"] {
        api.host.waiting_saga("default", id).await;
    }
    for id in ["again", "forward", "skipped", "accepted"] {
        api.host.stuck_saga("default", id).await;
    }
    assert_eq!(act("held", "pause", r#"{"reason":"stop"}"#).await, told("paused", false));
    assert_eq!(act("held", "pause", "").await, told("paused", true));
    assert_eq!(act("held", "resume", "").await, told("running", false));
    assert_eq!(act("back", "cancel", "{}").await, told("compensating", false));
    assert_eq!(act("gone", "kill", r#"{"note":"gone"}"#).await, told("failed", false));
    assert_eq!(act("no", "reject", r#"{"step":"release","reason":"no"}"#).await, told("compensating", false));
    assert_eq!(act("yes", "approve", "{}").await, told("running", false));
    assert_eq!(act("again", "retry", "{}").await, told("compensating", false));
    assert_eq!(act("forward", "retry", r#"{"mode":"retry"}"#).await, told("running", false));
    act("skipped", "skip", r#"{"step":"reserve","reason":"by hand"}"#).await;
    act("accepted", "accept", r#"{"note":"refunded by hand"}"#).await;
    for (id, state) in [
        ("back", SagaState::Cancelled),
        ("no", SagaState::Cancelled),
        ("yes", SagaState::Completed),
        ("again", SagaState::Cancelled),
        ("forward", SagaState::Completed),
        ("skipped", SagaState::Failed),
        ("accepted", SagaState::Failed),
    ] {
        api.host.until_saga("default", id, state).await;
    }
    let shown = api.get("/v1/sagas/accepted").await.text;
    assert!(shown.contains("refunded by hand"), "{shown}");
    let skipped = api.host.step("default", "skipped", "reserve").await;
    assert_eq!((skipped.actor.as_deref(), skipped.note.as_deref()), (Some("local"), Some("by hand")));
    let acts = audited(&api).await;
    for (kind, id) in [("SagaPaused", "held"), ("SagaCancelled", "back"), ("SagaKilled", "gone")] {
        assert!(acts.contains(&json!([kind, id, "local"])), "{kind} {id} isn't in {acts:?}");
    }
    // From a step that was done already.
    api.host.paused_saga("default", "from").await;
    let from = r#"{"step":"reserve"}"#;
    assert_eq!(act("from", "retry", from).await, told("running", false));
    api.host.until_waiting("default", "from", "approval").await;
    assert_eq!(api.host.step("default", "from", "reserve").await.attempts, 2);
    assert_eq!(api.post(&format!("{S}/from/retry"), from).await.problem().1, "SAGA.STATE", "it isn't paused");
}

#[tokio::test]
async fn acts_that_say_too_little_or_too_much_are_refused() {
    let api = Api::open().await;
    api.host.waiting_saga("default", "a").await;
    let events = api.get("/v1/sagas/a").await.json()["history"].take();
    let long = format!("{{\"reason\":\"{}\"}}", "x".repeat(1025));
    for (act, body, field) in [
        ("pause", long.as_str(), Some("reason")),
        ("pause", r#"{"step":"a"}"#, Some("step")),
        ("skip", "{}", None),
        ("skip", r#"{"step":""}"#, Some("step")),
        ("accept", r#"{"reason":" "}"#, Some("reason")),
        ("accept", "{}", None),
        ("retry", r#"{"mode":"again"}"#, Some("mode")),
        ("replies", r#"{"step":"a","output":1,"error":{"reason":"x"}}"#, Some("error")),
        ("replies", r#"{"step":"a","error":{"code":"two words","reason":"x"}}"#, Some("error.code")),
    ] {
        let answer = api.post(&format!("{S}/a/{act}"), body.to_owned()).await;
        assert_eq!(answer.problem().0, 400, "{act} {body}");
        assert_eq!(answer.json()["path"].as_str(), field, "{act} {body}");
    }
    assert_eq!(api.post(&format!("{S}/a~/pause"), "").await.problem().0, 400);
    assert_eq!(api.get("/v1/sagas/a").await.json()["history"], events, "nothing came of it");
}

#[tokio::test]
async fn signals_and_replies_carry_json_as_it_is() {
    let api = Api::open().await;
    let waits = "name = \"waits\"\nversion = 1\n[[steps]]\nname = \"paid\"\naction = \"wait:paid\"\n";
    let ships = "name = \"ships\"\nversion = 1\n[[steps]]\nname = \"book\"\naction = \"bus:ship.book\"\n\
                 retry = { max_attempts = 3, base_ms = 1000, jitter = 0.0 }\n";
    for (text, definition, ids, waits_for) in
        [(waits, "waits", ["a", "b"], "signal:paid"), (ships, "ships", ["c", "d"], "reply")]
    {
        api.host.define(text).await;
        for id in ids {
            api.host.begin(definition, "default", id).await;
            api.host.until_waiting("default", id, waits_for).await;
        }
    }
    let output = async |id: &str, step: &str| {
        api.host.until_saga("default", id, SagaState::Completed).await;
        api.host.step("default", id, step).await.output.unwrap().get().replace(' ', "")
    };
    assert_eq!(api.post(&format!("{S}/a/signals/paid"), "nonsense").await.problem().0, 400);
    assert_eq!(api.post(&format!("{S}/a/signals/{}", "x".repeat(65)), "").await.problem().0, 400);
    assert_eq!(api.post(&format!("{S}/a/signals/paid"), "{\"n\": 1.10}").await.status, 200);
    assert_eq!(output("a", "paid").await, "{\"n\":1.10}");
    assert_eq!(api.post(&format!("{S}/b/signals/paid"), "").await.status, 200);
    assert_eq!(output("b", "paid").await, "null");
    let failed = r#"{"step":"book","error":{"reason":"no","retryable":true}}"#;
    assert_eq!(api.post(&format!("{S}/d/replies"), failed).await.status, 200);
    let failure = api.host.step("default", "d", "book").await.failure.unwrap();
    assert_eq!((failure.code.as_str(), failure.reason.as_str()), ("SAGA.REPLY", "no"));
    let wrong_attempt =
        api.post(&format!("{S}/c/replies"), r#"{"step":"book","attempt":2,"output":{"n": 1.10}}"#).await;
    assert!(!wrong_attempt.status.is_success() || wrong_attempt.json()["unchanged"] == true, "{}", wrong_attempt.text);
    let reply = api.post(&format!("{S}/c/replies"), r#"{"step":"book","attempt":1,"output":{"n": 1.10}}"#).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(output("c", "book").await, "{\"n\":1.10}");
    let undone = r#"{"step":"book","direction":"compensate"}"#;
    assert_eq!(api.post(&format!("{S}/d/replies"), undone).await.problem().0, 409, "nothing undoes it");
    let undoes =
        ships.replace("\"ships\"", "\"undoes\"").replace("retry =", "compensation = \"bus:ship.off\"\nretry =");
    api.host.define(&format!("{undoes}[[steps]]\nname = \"paid\"\naction = \"wait:paid\"\n")).await;
    api.host.begin("undoes", "default", "e").await;
    api.host.until_waiting("default", "e", "reply").await;
    assert_eq!(api.post(&format!("{S}/e/replies"), r#"{"step":"book","output":1}"#).await.status, 200);
    api.host.until_waiting("default", "e", "signal:paid").await;
    assert_eq!(api.post(&format!("{S}/e/cancel"), "").await.status, 200);
    api.host.until_waiting("default", "e", "reply").await;
    assert_eq!(api.post(&format!("{S}/e/replies"), undone).await.status, 200);
    api.host.until_saga("default", "e", SagaState::Cancelled).await;
}

#[tokio::test]
async fn signals_and_replies_are_part_of_the_trace_of_whoever_sends_them() {
    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let (host, tracer) = (host().await, FakeTracer::recording());
    host.define("name = \"waits\"\nversion = 1\n[[steps]]\nname = \"paid\"\naction = \"wait:paid\"\n").await;
    host.begin("waits", "default", "a").await;
    host.until_waiting("default", "a", "signal:paid").await;
    let parts = parts(&host, &Arc::default(), None, Limits::default());
    let router = Server::new(Parts { tracer: Some(Arc::new(tracer.clone())), ..parts }).router();
    for (path, body) in [("a/signals/paid", ""), ("gone/replies", r#"{"step":"book","output":1}"#)] {
        send(&router, with(post(&format!("{S}/{path}"), body), "traceparent", CALLER)).await;
    }
    let spans = tracer.ended();
    let of = |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:#?}"));
    let (signal, reply) = (of("signal"), of("reply"));
    assert_eq!((signal.parent.as_deref(), signal.failed.as_deref()), (Some(CALLER), None));
    assert_eq!(signal.attributes["waybill.saga.signal"], "paid");
    assert_eq!((reply.parent.as_deref(), reply.failed.as_deref()), (Some(CALLER), Some("SAGA.NOT_FOUND")));
    assert_eq!(
        (reply.attributes["waybill.saga.id"].as_str(), reply.attributes["waybill.saga.step"].as_str()),
        ("gone", "book")
    );
}

#[tokio::test]
async fn a_missing_saga_is_told_with_where_was_looked() {
    let api = Api::open().await;
    let answer = api.get("/v1/sagas/gone").await;
    assert_eq!(answer.problem(), (404, "SAGA.NOT_FOUND".into()));
    assert!(
        answer.json()["detail"]
            .as_str()
            .unwrap()
            .ends_with("looked for in tenant \"default\": name another with ?tenant=")
    );
    let named = api.get("/v1/sagas/gone?tenant=acme").await.json();
    assert!(!named["detail"].as_str().unwrap().contains("looked for"), "{named}");
}

#[tokio::test]
async fn sagas_of_other_tenants_do_not_exist() {
    let tokens =
        vec![token("one", &["acme"], &[Role::Sender, Role::Operator]), token("two", &["a", "b"], &[Role::Operator])];
    let api = Api::with(Some(tokens), Limits::default()).await;
    for (tenant, id) in [("other", "x"), ("acme", "mine"), ("b", "of-b")] {
        api.host.waiting_saga(tenant, id).await;
    }
    let bearer = |who: &str| format!("Bearer {who}");
    let ask = |who: &str, path: &str| with(get(path), "authorization", &bearer(who));
    let act = |who: &str, path: &str, body: &'static str| with(post(path, body), "authorization", &bearer(who));
    for path in ["/v1/sagas/x?tenant=other", "/v1/sagas/x"] {
        assert_eq!(api.send(ask("one", path)).await.problem(), (404, "SAGA.NOT_FOUND".into()), "{path}");
    }
    assert_eq!(api.send(act("one", "/v1/sagas/x/kill?tenant=other", "{}")).await.problem().0, 404);
    let body = r#"{"definition":"order","tenant":"other"}"#;
    assert_eq!(api.send(act("one", S, body)).await.problem(), (403, "AUTH.TENANT".into()));
    assert_eq!(api.send(ask("one", &format!("{S}?tenant=other"))).await.problem(), (403, "AUTH.TENANT".into()));
    let empty = api.send(ask("one", &format!("{S}?filter=tenant%3Dother"))).await;
    assert_eq!(empty.json(), json!({"items": [], "next_cursor": null}));
    assert_eq!(api.send(ask("two", S)).await.problem().0, 400, "which of the two?");
    assert_eq!(api.host.saga("other", "x").await.state, SagaState::Running, "nobody touched it");
    let listed = async |who: &str, query: &str| ids(&api.send(ask(who, &format!("{S}{query}"))).await);
    assert_eq!(listed("one", "").await, ["mine"]);
    assert_eq!(listed("two", "?filter=tenant%3Db").await, ["of-b"]);
    assert_eq!(api.send(act("one", S, r#"{"definition":"order","tenant":"acme"}"#)).await.status, 202);
    assert_eq!(api.send(act("one", S, r#"{"definition":"order"}"#)).await.json()["tenant"], "acme", "its only one");
}

#[tokio::test(start_paused = true)]
async fn what_sagas_refuse_has_its_status() {
    let host = host_with(|config| config.sagas.limits.running_max = 1).await;
    host.completed_saga("default", "over").await;
    host.waiting_saga("default", "taken").await;
    let api = Api::over(host, None, Limits::default());
    let large = format!(r#"{{"definition":"order","input":"{}"}}"#, "x".repeat(1024 * 1024));
    let refused = async |path: &str, body: String| {
        let answer = api.post(path, body).await;
        let retry = answer.json()["retryable"] == true;
        assert_eq!(answer.headers.contains_key("retry-after"), retry, "{}", answer.text);
        (answer.problem(), retry)
    };
    let start = |id: &str, input: &str| format!(r#"{{"definition":"order","id":"{id}","input":{input}}}"#);
    for (path, body, status, code, retry) in [
        ("/v1/sagas/over/resume", "{}".to_owned(), 409, "SAGA.ENDED", false),
        (S, start("taken", "{}"), 409, "STORAGE.CONFLICT", false),
        (S, large, 413, "SAGA.INPUT_TOO_LARGE", false),
        (S, start("one-more", "{}"), 429, "SAGA.BUSY", true),
    ] {
        assert_eq!(refused(path, body).await, ((status, code.to_owned()), retry));
    }
    assert!(api.host.engine.drain(Duration::from_secs(1)).await);
    assert_eq!(refused(S, start("late", "{}")).await, ((503, "PROVIDER.UNAVAILABLE".to_owned()), true));
}

/// A router over a host without sagas, and without a key for links.
pub fn bare(host: &InMemoryHost) -> axum::Router {
    let parts = parts(host, &Arc::default(), None, Limits::default());
    Server::new(Parts { sagas: None, approvals: None, inbound: None, ..parts }).router()
}

#[tokio::test]
async fn a_host_without_sagas_says_so() {
    let host = host().await;
    let router = bare(&host);
    for path in [S, "/v1/saga-definitions", "/v1/sagas/a"] {
        let answer = send(&router, get(path)).await;
        assert_eq!(answer.problem(), (503, "PROVIDER.UNAVAILABLE".into()), "{path}");
    }
    let metrics = send(&router, get("/metrics")).await.text;
    assert!(!metrics.contains("tx_saga_running"));
}
