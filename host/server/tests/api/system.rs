//! Probes, metrics, audit, identity, load and time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use waybill_core::code::Code;
use waybill_core::new_message::NewMessage;
use waybill_core::port::transport::Health;
use waybill_server::auth::Role;
use waybill_server::codes::uri;
use waybill_server::limits::{Limits, READINESS_KEPT};
use waybill_server::server::{Parts, Server};
use waybill_testkit::memory_host::{eventually, message};

use crate::support::{Answer, Api, get, host, of, parts, post, send, token, with};

#[tokio::test(start_paused = true)]
async fn readyz_names_each_check_and_fails_with_any() {
    let api = Api::open().await;
    let check = |answer: &Answer, name: &str| {
        answer.json()["checks"]
            .as_array()
            .unwrap()
            .iter()
            .find(|check| check["name"] == name)
            .cloned()
            .unwrap_or_default()
    };
    let ready = api.get("/readyz").await;
    assert_eq!((ready.status.as_u16(), &ready.json()["status"]), (200, &json!("ok")));
    let outbox = json!({"name": "outbox", "status": "ok", "detail": "owns 1 of 1 shards"});
    assert_eq!((ready.json()["checks"][0].clone(), check(&ready, "server")["status"].clone()), (outbox, json!("ok")));
    api.host.bus.set_health(Health::Degraded, Some("one of two servers"));
    tokio::time::advance(READINESS_KEPT).await;
    let warned = api.get("/readyz").await;
    assert_eq!((warned.status.as_u16(), &warned.json()["status"]), (200, &json!("warn")));
    assert_eq!(check(&warned, "transport bus")["detail"], "degraded: one of two servers");
    api.host.engine.begin_drain();
    tokio::time::advance(READINESS_KEPT).await;
    let ending = api.get("/readyz").await;
    assert_eq!((ending.status.as_u16(), &ending.json()["status"]), (503, &json!("fail")));
    assert_eq!(ending.json()["checks"][0]["name"], "drain");
    assert_eq!(api.get("/livez").await.json(), json!({"status": "ok"}));
    assert!(api.reached().is_empty());
}

#[tokio::test(start_paused = true)]
async fn readyz_fails_when_the_service_does_not_answer() {
    let api = Api::open().await;
    api.hindrance.stuck.store(true, Ordering::Relaxed);
    let answer = api.get("/readyz").await;
    assert_eq!((answer.status.as_u16(), answer.json()["checks"][0]["status"].clone()), (503, json!("fail")));
    assert!(api.get("/metrics").await.text.contains("waybill_scrape_complete 0"));
    assert_eq!(api.get("/livez").await.status, 200);
}

/// The route is open to everybody, and its answer costs a look at the store and at every transport.
#[tokio::test(start_paused = true)]
async fn many_who_ask_for_readiness_cost_no_more_than_one() {
    let api = Api::open().await;
    let all = futures::future::join_all((0..100).map(|_| api.get("/readyz"))).await;
    assert!(all.iter().all(|answer| answer.status == 200));
    let asked = || api.hindrance.asked_ready.load(Ordering::Relaxed);
    assert_eq!(asked(), 1);
    assert_eq!((api.get("/metrics").await.status.as_u16(), asked()), (200, 1));
    tokio::time::advance(READINESS_KEPT).await;
    assert_eq!((api.get("/readyz").await.status.as_u16(), asked()), (200, 2));
}

#[tokio::test]
async fn details_of_checks_are_for_callers_with_a_token_for_all_tenants() {
    let tokens = vec![token("view", &["*"], &[Role::Viewer]), token("acme", &["acme"], &[Role::Admin])];
    let api = Api::with(Some(tokens), Limits::default()).await;
    assert_eq!(api.get("/readyz").await.json()["checks"][0]["detail"], "");
    let answer = api.send(with(get("/readyz"), "authorization", "Bearer acme")).await;
    assert_eq!(answer.json()["checks"][0]["detail"], "", "what others have is in them too");
    let answer = api.send(with(get("/readyz"), "authorization", "Bearer view")).await;
    assert_eq!(answer.json()["checks"][0]["detail"], "owns 1 of 1 shards");
}

#[tokio::test]
async fn metrics_show_depths_holds_and_transports() {
    let api = Api::open().await;
    api.host.held(of("acme", message("held")), "http://shop.example").await;
    api.post("/v1/transports/bus/pause", "").await;
    for id in ["a", "b", "c"] {
        let queued = NewMessage { topic: "bus:a".to_owned(), ..message(id) };
        api.host.send(of("acme", queued)).await;
    }
    api.host.waiting_saga("default", "order-17").await;
    api.host.stuck_saga("default", "order-18").await;
    api.host.pass(Duration::from_millis(1_500));
    let are_counted = async || api.get("/metrics").await.text.lines().any(|line| line == "tx_saga_stuck 1");
    eventually("the sagas are counted", are_counted).await;
    let answer = api.get("/metrics").await;
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    for line in [
        "waybill_outbox_depth{tenant=\"acme\",transport=\"bus\",state=\"ready\"} 3",
        "waybill_outbox_oldest_ready_seconds{tenant=\"acme\",transport=\"bus\"} 1.5",
        "waybill_outbox_blocked{kind=\"destination\"} 1",
        "waybill_outbox_blocked{kind=\"key\"} 0",
        "waybill_transport_breaker_state{transport=\"http\"} 0",
        "waybill_build_info{version=\"9.9.9\"} 1",
        "waybill_ready 1",
        "waybill_scrape_complete 1",
        "tx_saga_running 2",
        "tx_saga_stuck 1",
    ] {
        assert!(answer.text.lines().any(|found| found == line), "{line} isn't in\n{}", answer.text);
    }
    for family in answer.text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        assert!(family.split_once(' ').is_some_and(|(_, help)| !help.is_empty()), "{family}");
    }
}

#[tokio::test]
async fn what_metrics_counts_is_counted_for_exports_as_long_as_the_server_is_there() {
    let host = host().await;
    host.held(of("acme", message("held")), "http://shop.example").await;
    let server = Server::new(parts(&host, &Arc::default(), None, Limits::default()));
    let (router, counting) = (server.router(), server.counting());
    let page = send(&router, get("/metrics")).await.text;
    let counted = counting.count().await;
    let names: Vec<&str> = counted.iter().map(|counted| counted.name).collect();
    let shown: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert_eq!(names, shown, "the same families");
    assert!(counted.iter().all(|counted| !counted.help.is_empty()), "{counted:?}");
    let depth = counted.iter().find(|counted| counted.name == "waybill_outbox_depth").unwrap();
    assert!(depth.series.iter().any(|(labels, _)| labels.contains(&("tenant", "acme".to_owned()))), "{depth:?}");
    drop((server, router));
    assert!(counting.count().await.is_empty(), "it holds nothing of the host");
}

#[tokio::test]
async fn requests_are_counted_by_template_and_never_by_address() {
    let handle = waybill_server::metrics::install(&[&[("tx_replay_total", "Dead letters replayed.")]], None).unwrap();
    assert!(waybill_server::metrics::install(&[], None).is_err(), "a second recorder was installed");
    let host = host().await;
    host.delivered(message("order-4711")).await;
    let parts = parts(&host, &Arc::default(), None, Limits::default());
    let parts = Parts { sagas: None, metrics: Some(handle), ..parts };
    let router = Server::new(parts).router();
    send(&router, get("/v1/messages/order-4711")).await;
    send(&router, get("/secret/path")).await;
    let mut odd = get("/livez");
    *odd.method_mut() = http::Method::from_bytes(b"BREW").unwrap();
    send(&router, odd).await;
    send(&router, with(get("/v1/messages/order-4711"), "host", "evil.example")).await;
    let text = send(&router, get("/metrics")).await.text;
    for line in [
        "waybill_http_requests_total{route=\"/v1/messages/{id}\",method=\"GET\",status=\"200\"}",
        "waybill_http_requests_total{route=\"unmatched\",method=\"GET\",status=\"404\"}",
        "waybill_http_requests_total{route=\"/livez\",method=\"OTHER\",status=\"405\"}",
        "# HELP waybill_http_requests_total Requests answered",
        "waybill_http_refusals_total{code=\"AUTH.HOST\",route=\"/v1/messages/{id}\"} 1",
    ] {
        assert!(text.contains(line), "{line} isn't in\n{text}");
    }
    assert!(!text.contains("4711") && !text.contains("secret") && !text.contains("BREW"));
    let families: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    let unique: std::collections::BTreeSet<&str> = families.iter().copied().collect();
    assert_eq!(families.len(), unique.len(), "a family is there twice: {families:#?}");
}

#[tokio::test]
async fn the_audit_trail_is_filtered_paged_and_a_tenants_own() {
    let api = Api::with(
        Some(vec![token("ops", &["acme"], &[Role::Operator]), token("all", &["*"], &[Role::Admin])]),
        Limits::default(),
    )
    .await;
    for (tenant, id) in [("acme", "d-1"), ("other", "d-2"), ("acme", "d-3")] {
        api.host.dead(of(tenant, message(id))).await;
    }
    let ask = async |token: &str, query: &str| {
        let asked = with(get(&format!("/v1/audit?{query}")), "authorization", &format!("bearer {token}"));
        api.send(asked).await.json()
    };
    let lines = |answer: &serde_json::Value| -> Vec<String> {
        let text = |line: &serde_json::Value| format!("{} {}", line["kind"], line["object"]).replace('"', "");
        answer["items"].as_array().unwrap().iter().map(text).collect()
    };
    assert_eq!(lines(&ask("all", "").await), Vec::<String>::new(), "nobody did anything");
    let of_one = ask("all", "id=d-1").await;
    assert_eq!(lines(&of_one), ["TxDead d-1", "TxBegin d-1"]);
    assert_eq!(of_one["items"][0]["detail"]["of"], "message");
    assert_eq!(lines(&ask("all", "kind=TxDead").await).len(), 3);
    assert_eq!(lines(&ask("ops", "kind=TxDead").await), ["TxDead d-3", "TxDead d-1"], "a tenant's own");
    assert_eq!(ask("ops", "kind=TxDead&tenant=other").await["code"], "AUTH.TENANT");
    let first = ask("all", "kind=Tx*&limit=4").await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = ask("all", &format!("kind=Tx*&limit=4&cursor={cursor}")).await;
    assert_eq!(lines(&first).len() + lines(&rest).len(), 6);
    assert_eq!(ask("all", &format!("kind=TxDead&cursor={cursor}")).await["status"], 400, "it is of another list");
    assert!(lines(&ask("all", "kind=Tx*&until=2000-01-01T00:00:00Z").await).is_empty());
    assert_eq!(lines(&ask("all", "kind=Tx*&since=2000-01-01T00:00:00Z").await).len(), 6);
    assert!(lines(&ask("all", "kind=Tx*&until=2000-01-01").await).is_empty());
    assert_eq!(lines(&ask("all", "filter=kind%3DTx*+since%3D2000-01-01&limit=6").await).len(), 6);
    assert_eq!(lines(&ask("all", "filter=kind%3DTxBegin&id=d-1").await), ["TxBegin d-1"], "all conditions hold");
    assert!(lines(&ask("all", "filter=actor%3Dann&id=d-1").await).is_empty());
    assert!(lines(&ask("all", "consumer=ship&kind=Tx*").await).is_empty(), "of no received message");
    assert_eq!(ask("all", &format!("kind=Tx*&consumer=ship&cursor={cursor}")).await["status"], 400);
    for wrong in [
        "since=yesterday",
        "id=",
        "kind=",
        "filter=who%3Dann",
        "filter=kind%3DTxDead&kind=TxDead",
        "filter=object%3Da&id=a",
        "consumer=",
        "filter=consumer%3Da&consumer=a",
    ] {
        let refused = ask("all", wrong).await;
        assert_eq!(
            (&refused["status"], &refused["code"]),
            (&json!(400), &json!("SCHEMA.VALIDATION_FAILED")),
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn whoami_and_audit_tell_who() {
    let open = Api::open().await;
    assert_eq!(
        open.get("/v1/whoami").await.json(),
        json!({"name": "local", "tenants": ["*"], "roles": ["admin"], "auth": "none"})
    );
    for tenant in ["acme", "other", "acme"] {
        let id = format!("d-{}", ulid::Ulid::new());
        open.host.dead(of(tenant, message(&id))).await;
        open.post(&format!("/v1/dead-letters/{id}/replay?tenant={tenant}"), "").await;
    }
    let audit = open.get("/v1/audit?limit=7&tenant=acme").await.json();
    let acts: Vec<_> = audit["items"].as_array().unwrap().iter().map(|it| json!([it["kind"], it["actor"]])).collect();
    assert_eq!(acts, [json!(["TxReplayRequested", "local"]), json!(["TxReplayRequested", "local"])]);
    assert_eq!(open.get("/v1/audit?limit=1").await.json()["items"].as_array().unwrap().len(), 1);
    let api = Api::with(Some(vec![token("ci", &["acme", "b"], &[Role::Sender])]), Limits::default()).await;
    assert_eq!(
        api.send(with(get("/v1/whoami"), "authorization", "bearer ci")).await.json(),
        json!({"name": "ci", "tenants": ["acme", "b"], "roles": ["sender"], "auth": "token"})
    );
}

#[tokio::test]
async fn a_sane_request_id_is_kept_and_another_is_replaced() {
    let api = Api::open().await;
    let answer = api.send(with(get("/nope"), "x-request-id", "abc-1.2:3_X")).await;
    assert_eq!(
        (answer.header("x-request-id"), answer.json()["request_id"].as_str()),
        ("abc-1.2:3_X", Some("abc-1.2:3_X"))
    );
    for odd in ["a b", "<script>", &"x".repeat(129), ""] {
        let answer = api.send(with(get("/livez"), "x-request-id", odd)).await;
        assert_eq!(answer.header("x-request-id").len(), 26, "{odd}");
    }
}

#[tokio::test]
async fn load_past_the_bound_is_shed_and_probes_still_answer() {
    let api = Api::with(None, Limits { requests_max: 1, ..Limits::default() }).await;
    let gate = api.hindrance.shut();
    let router = api.router.clone();
    let held =
        tokio::spawn(async move { send(&router, post("/v1/messages", r#"{"topic":"bus:a","payload":1}"#)).await });
    while api.hindrance.count() == 0 {
        tokio::task::yield_now().await;
    }
    let shed = api.get("/v1/outbox/stats").await;
    assert_eq!(shed.problem(), (503, "HTTP.OVERLOADED".into()));
    assert_eq!(shed.header("retry-after"), "1");
    for open in ["/livez", "/readyz", "/metrics", "/openapi.json", "/errors/HTTP.OVERLOADED"] {
        assert_eq!(api.get(open).await.status, 200, "{open}");
    }
    gate.notify_one();
    assert_eq!(held.await.unwrap().status, 201);
    assert_eq!(api.get("/v1/outbox/stats").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_answered() {
    let api = Api::with(None, Limits { request_timeout: Duration::from_secs(3), ..Limits::default() }).await;
    let _shut = api.hindrance.shut();
    let answer = api.post("/v1/messages", r#"{"topic":"bus:a","payload":1}"#).await;
    assert_eq!(answer.problem(), (504, "TX.TIMEOUT".into()));
    assert_eq!(answer.json()["retryable"], true);
}

#[tokio::test]
async fn every_code_has_its_page() {
    let api = Api::open().await;
    for code in Code::all().filter(|code| code.is_answer()) {
        let page = api.get(&uri(code)).await;
        assert_eq!(
            (page.status.as_u16(), page.json()["status"].as_u64()),
            (200, Some(u64::from(code.status()))),
            "{code}"
        );
    }
}
