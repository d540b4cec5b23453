//! `/v1/operations` and `/v1/transports`.

use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::port::provision::{ProvisionAction, ProvisionChange, ProvisionError};
use waybill_core::port::service::MessageState;
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Health};
use waybill_core::saga::state::SagaState;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;
use waybill_testkit::memory_host::message;

use crate::support::{Api, get, of, post, token, with};

/// Begins a bulk act, and waits until it is over.
async fn ended(api: &Api, body: &str) -> Value {
    let started = api.post("/v1/operations", body.to_owned()).await;
    assert_eq!(started.status, 202, "{}", started.text);
    let address = started.header("location").to_owned();
    assert_eq!(address, format!("/v1/operations/{}", started.json()["id"].as_str().unwrap()));
    loop {
        let shown = api.get(&address).await.json();
        if shown["state"] != "running" {
            return shown;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_dry_run_counts_shows_and_changes_nothing() {
    let api = Api::open().await;
    for id in ["d-1", "d-2", "fenced"] {
        api.host.dead(message(id)).await;
    }
    api.post("/v1/dead-letters/fenced/quarantine", r#"{"note":"look at it"}"#).await;
    let body = r#"{"kind":"replay","filter":"code=HTTP.*","dry_run":true}"#;
    let answer = api.post("/v1/operations", body).await;
    let shown = answer.json();
    assert_eq!((answer.status.as_u16(), &shown["dry_run"], &shown["matched"]), (200, &json!(true), &json!(2)));
    assert_eq!(shown["sample"][0]["id"], "d-2", "the latest first, and not what is fenced off");
    for id in ["d-1", "d-2"] {
        assert_eq!(api.host.view("default", id).await.state, MessageState::Dead);
    }
    assert_eq!(api.get("/v1/operations").await.json()["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn an_operation_starts_shows_and_stops() {
    let api = Api::open().await;
    for n in 0..4 {
        api.host.dead(of("acme", message(&format!("d-{n}")))).await;
    }
    // Slow enough that it isn't through when it is cancelled.
    let body = r#"{"kind":"purge","filter":"id=*","rate":2,"reason":"old","tenant":"acme"}"#;
    let answer = api.post("/v1/operations", body).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let address = answer.header("location").to_owned();
    let shown = api.get(&address).await.json();
    assert_eq!((&shown["matched"], &shown["rate"], &shown["tenant"]), (&json!(4), &json!(2), &json!("acme")));
    assert_eq!((&shown["filter"], &shown["reason"]), (&json!("id=* kind=message"), &json!("old")));
    let stopped = api.post(&format!("{address}/cancel"), "").await;
    assert_eq!(stopped.json()["state"], "cancelled", "{}", stopped.text);
    assert_eq!(api.host.view("acme", "d-3").await.state, MessageState::Dead, "it hadn't come to all of them");
    let again = api.post(&format!("{address}/cancel"), "").await;
    assert_eq!(again.problem(), (409, "OUTBOX.STATE".into()));
    assert_eq!(api.get("/v1/operations/gone").await.problem().0, 404);
    let all = ended(&api, r#"{"kind":"purge","filter":"id=*","tenant":"acme"}"#).await;
    assert_eq!((&all["state"], &all["failed"]), (&json!("done"), &json!(0)));
    assert_eq!(api.host.view("acme", "d-3").await.state, MessageState::Purged);
}

#[tokio::test]
async fn acts_on_sagas_are_operations_too() {
    let api = Api::open().await;
    for id in ["order-17", "order-18"] {
        api.host.waiting_saga("acme", id).await;
    }
    api.host.completed_saga("acme", "order-16").await;
    api.host.stuck_saga("acme", "stuck").await;
    let body = r#"{"kind":"cancel","filter":"waiting_for=approval","dry_run":true}"#;
    let dry = api.post("/v1/operations", body).await.json();
    assert_eq!((&dry["dry_run"], &dry["matched"]), (&json!(true), &json!(2)));
    let sample: Vec<_> = dry["sample"].as_array().unwrap().iter().map(|saga| saga["id"].clone()).collect();
    assert!(sample.contains(&json!("order-17")) && sample.len() == 2, "{sample:?}");
    let body = r#"{"kind":"retry","mode":"retry","filter":"state=failed","tenant":"acme","reason":"back"}"#;
    let done = ended(&api, body).await;
    assert_eq!((&done["kind"], &done["mode"], &done["done"]), (&json!("retry"), &json!("retry"), &json!(1)));
    api.host.until_saga("acme", "stuck", SagaState::Completed).await;
    let done = ended(&api, r#"{"kind":"cancel","filter":"definition=order","tenant":"acme"}"#).await;
    assert_eq!((&done["matched"], &done["done"]), (&json!(2), &json!(2)));
    api.host.until_saga("acme", "order-18", SagaState::Cancelled).await;
    let from = ended(&api, r#"{"kind":"retry","step":"charge","filter":"definition=order","tenant":"acme"}"#).await;
    assert_eq!((&from["step"], &from["matched"]), (&json!("charge"), &json!(0)));
}

#[tokio::test]
async fn what_an_act_does_not_take_is_refused_with_its_field() {
    let api = Api::open().await;
    let long = format!(r#"{{"kind":"pause","filter":"id=*","reason":"{}"}}"#, "x".repeat(1_025));
    for (body, path) in [
        (r#"{"kind":"pause","filter":""}"#, "filter"),
        (r#"{"kind":"accept","filter":"id=*"}"#, "reason"),
        (r#"{"kind":"pause","filter":"id=*","mode":"retry"}"#, "mode"),
        (r#"{"kind":"replay","filter":"id=*","step":"a"}"#, "step"),
        (r#"{"kind":"retry","filter":"id=*","step":""}"#, "step"),
        (r#"{"kind":"pause","filter":"id=*","rate":0}"#, "rate"),
        (r#"{"kind":"reschedule_messages","filter":"id=*"}"#, "not_before"),
        (r#"{"kind":"cancel_messages","filter":"id=*","not_before":"2030-01-01T00:00:00Z"}"#, "not_before"),
        (r#"{"kind":"cancel_messages","filter":"state=done"}"#, "filter"),
        (r#"{"kind":"cancel_messages","filter":" "}"#, "filter"),
        (long.as_str(), "reason"),
    ] {
        let refused = api.post("/v1/operations", body.to_owned()).await;
        assert_eq!(refused.problem(), (400, "SCHEMA.VALIDATION_FAILED".to_owned()), "{body}");
        assert_eq!(refused.json()["path"], path, "{body}");
    }
    let unknown = api.post("/v1/operations", r#"{"kind":"pause","filter":"colour=red"}"#).await;
    assert_eq!(unknown.problem().0, 400);
    assert!(api.reached().is_empty());
}

#[tokio::test]
async fn acts_on_messages_are_operations_too() {
    let api = Api::open().await;
    for (id, tenant) in [("s-1", "acme"), ("s-2", "acme"), ("s-3", "other")] {
        api.host.scheduled(of(tenant, message(id)), Duration::from_secs(3_600)).await;
    }
    api.host.delivered(of("acme", message("m-1"))).await;
    let body = r#"{"kind":"cancel_messages","filter":"waits=schedule","tenant":"acme","dry_run":true}"#;
    let dry = api.post("/v1/operations", body).await.json();
    assert_eq!((&dry["dry_run"], &dry["matched"]), (&json!(true), &json!(2)));
    assert_eq!(dry["sample"][0]["state"], "pending");
    let body =
        r#"{"kind":"reschedule_messages","filter":"id=s-1","tenant":"acme","not_before":"2099-01-01T00:00:00Z"}"#;
    let done = ended(&api, body).await;
    assert_eq!((&done["kind"], &done["matched"], &done["done"]), (&json!("reschedule_messages"), &json!(1), &json!(1)));
    assert_eq!(done["not_before"], "2099-01-01T00:00:00.000Z");
    let moved = api.host.view("acme", "s-1").await.not_before;
    assert_eq!(moved.map(|at| at.0.to_string()).as_deref(), Some("2099-01-01T00:00:00.000Z"));
    let done = ended(&api, r#"{"kind":"cancel_messages","filter":"id=*","tenant":"acme","reason":"over"}"#).await;
    assert_eq!((&done["matched"], &done["done"], &done["failed"]), (&json!(2), &json!(2), &json!(0)));
    for (tenant, id, state) in [
        ("acme", "s-1", MessageState::Cancelled),
        ("acme", "s-2", MessageState::Cancelled),
        ("acme", "m-1", MessageState::Done),
        ("other", "s-3", MessageState::Pending),
    ] {
        assert_eq!(api.host.view(tenant, id).await.state, state, "{tenant}/{id}");
    }
}

#[tokio::test]
async fn stuck_sagas_are_not_purged() {
    let api = Api::open().await;
    for more in ["", r#","dry_run":true"#] {
        let body = format!(r#"{{"kind":"purge","filter":"kind=saga"{more}}}"#);
        let refused = api.post("/v1/operations", body).await;
        assert_eq!(refused.problem(), (409, "DEAD.KIND".to_owned()));
        assert!(refused.json()["detail"].as_str().unwrap().contains("waybill saga accept"), "{}", refused.text);
    }
    assert!(api.reached().is_empty());
}

#[tokio::test(start_paused = true)]
async fn operations_of_other_tenants_do_not_exist() {
    let tokens = vec![
        token("acme-op", &["acme"], &[Role::Operator]),
        token("other-op", &["other"], &[Role::Operator]),
        token("all-op", &["*"], &[Role::Operator]),
    ];
    let api = Api::with(Some(tokens), Limits::default()).await;
    for n in 0..4 {
        api.host.dead(of("acme", message(&format!("d-{n}")))).await;
    }
    let bearer = |request, who: &str| with(request, "authorization", &format!("Bearer {who}"));
    let begin = async |who: &str| {
        let body = r#"{"kind":"quarantine","filter":"id=*","rate":1,"reason":"look"}"#;
        let started = api.send(bearer(post("/v1/operations", body), who)).await.json();
        started["id"].as_str().unwrap().to_owned()
    };
    let (acme, all) = (begin("acme-op").await, begin("all-op").await);
    let ask = |who: &str, id: &str| bearer(get(&format!("/v1/operations/{id}")), who);
    assert_eq!(api.send(ask("acme-op", &acme)).await.status, 200);
    for (who, id) in [("other-op", acme.as_str()), ("acme-op", &all), ("acme-op", "gone")] {
        assert_eq!(api.send(ask(who, id)).await.problem(), (404, "OPERATION.NOT_FOUND".into()), "{who} {id}");
    }
    api.reached();
    let stop = bearer(post(&format!("/v1/operations/{acme}/cancel"), ""), "other-op");
    assert_eq!(api.send(stop).await.problem().0, 404);
    assert!(!api.reached().contains(&"cancel_operation"));
}

#[tokio::test]
async fn operations_are_listed_for_their_tenant() {
    let tokens = vec![token("acme-op", &["acme"], &[Role::Operator]), token("ann", &["*"], &[Role::Operator])];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let bearer = |request, who: &str| with(request, "authorization", &format!("Bearer {who}"));
    for tenant in ["acme", "other", "acme"] {
        let body = format!(r#"{{"kind":"purge","filter":"code=NONE","tenant":"{tenant}"}}"#);
        assert_eq!(api.send(bearer(post("/v1/operations", body), "ann")).await.status, 202);
        // Ids are in the order of the milliseconds of their making.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let list = async |query: &str, who: &str| {
        let answer = api.send(bearer(get(&format!("/v1/operations{query}")), who)).await.json();
        answer["items"].as_array().unwrap().iter().map(|it| json!([it["tenant"], it["actor"]])).collect::<Vec<_>>()
    };
    assert_eq!(list("?limit=2", "ann").await, [json!(["acme", "ann"]), json!(["other", "ann"])], "newest first");
    assert_eq!(list("", "acme-op").await, [json!(["acme", "ann"]), json!(["acme", "ann"])]);
    assert_eq!(api.send(bearer(get("/v1/operations?tenant=other"), "acme-op")).await.problem().0, 403);
}

#[tokio::test]
async fn transports_are_listed_paused_resumed_and_probed() {
    let api = Api::open().await;
    api.host.http.set_health(Health::Degraded, Some("one of two servers"));
    let list = api.get("/v1/transports").await.json();
    assert_eq!((&list["items"][0]["name"], &list["items"][1]["health"]), (&json!("http"), &json!("ready")));
    assert_eq!(
        (&list["items"][0]["health"], &list["items"][0]["health_detail"]),
        (&json!("degraded"), &json!("one of two servers"))
    );
    assert_eq!(api.post("/v1/transports/http/pause", "").await.json()["paused"], true);
    api.host.send(message("m-1")).await;
    assert_eq!(api.get("/v1/transports").await.json()["items"][0]["paused"], true);
    assert_eq!(api.host.view("default", "m-1").await.state, MessageState::Pending);
    assert_eq!(api.post("/v1/transports/http/resume", "").await.json()["paused"], false);
    api.host.until_state("default", "m-1", MessageState::Done).await;
    assert_eq!(api.post("/v1/transports/http/probe", "").await.status, 200);
    assert_eq!(api.post("/v1/transports/gone/probe", "").await.problem(), (404, "TRANSPORT.NOT_FOUND".into()));
    let audit = api.get("/v1/audit").await.json();
    let acts: Vec<_> =
        audit["items"].as_array().unwrap().iter().map(|it| json!([it["kind"], it["object"], it["actor"]])).collect();
    let act = |kind: &str| json!([kind, "http", "local"]);
    assert_eq!(acts, [act("TransportProbed"), act("TransportResumed"), act("TransportPaused")]);
}

#[tokio::test]
async fn provisioning_is_planned_and_applied() {
    let api = Api::open().await;
    let provision = |body: &'static str| api.post("/v1/transports/http/provision", body);
    let (plan, apply) = (r#"{"apply":false}"#, r#"{"apply":true}"#);
    assert_eq!(provision(apply).await.problem(), (400, "PLUGIN.NO_PROVISIONING".into()));
    api.host.http.set_provisioned(Ok(vec![ProvisionChange {
        target: "stream ORDERS".to_owned(),
        action: ProvisionAction::Create,
        detail: "subjects orders.>".to_owned(),
    }]));
    let planned = provision(plan).await.json();
    assert_eq!((&planned["applied"], &planned["changes"][0]["action"]), (&json!(false), &json!("create")));
    assert_eq!(api.get("/v1/audit").await.json()["items"], json!([]), "nothing was done");
    let done = provision(apply).await.json();
    assert_eq!((&done["applied"], &done["changes"][0]["target"]), (&json!(true), &json!("stream ORDERS")));
    assert_eq!(api.get("/v1/audit").await.json()["items"][0]["detail"]["created"], json!(["stream ORDERS"]));
    // Whether to change something is never guessed.
    for body in ["{}", r#"{"apply":true,"force":true}"#] {
        assert_eq!(provision(body).await.problem(), (400, "SCHEMA.VALIDATION_FAILED".into()), "{body}");
    }
    let fault = Fault::new("NATS.CONNECT", "nobody listens");
    let failed = ProvisionError::Failed(CallError { kind: ErrorKind::Unavailable, fault });
    api.host.http.set_provisioned(Err(failed));
    assert_eq!(provision(plan).await.problem(), (502, "PLUGIN.PROVISION_FAILED".into()));
    let gone = api.post("/v1/transports/gone/provision", apply).await;
    assert_eq!(gone.problem(), (404, "TRANSPORT.NOT_FOUND".into()));
}
