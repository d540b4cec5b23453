//! Bulk acts on dead letters, planned and then done: a set that stands still, a trial, and what became of what was put back.

use serde_json::{Value, json};
use waybill_core::port::service::MessageState;
use waybill_core::port::transport::{Fault, Outcome};
use waybill_server::auth::Role;
use waybill_server::limits::Limits;
use waybill_testkit::memory_host::message;

use crate::support::{Api, NOW_TEXT, get, of, post, token, with};

/// What asked for is refused or answered; waits until a started one is over.
async fn over(api: &Api, body: &Value) -> Value {
    let started = api.post("/v1/operations", body.to_string()).await;
    assert_eq!(started.status, 202, "{}", started.text);
    let address = started.header("location").to_owned();
    until(api, &address, |shown| shown["state"] != "running").await
}

async fn until(api: &Api, address: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    loop {
        let shown = api.get(address).await.json();
        if is_so(&shown) {
            return shown;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

async fn dead(api: &Api, ids: &[&str]) {
    for id in ids {
        api.host.dead(message(id)).await;
    }
}

fn refused() -> Outcome {
    Outcome::Permanent(Fault::new("HTTP.422", "still wrong"))
}

#[tokio::test]
async fn a_plan_tells_until_when_what_is_left_out_and_what_may_repeat() {
    let api = Api::open().await;
    dead(&api, &["d-1", "d-2", "fenced", "again"]).await;
    api.post("/v1/dead-letters/fenced/quarantine", r#"{"note":"look at it"}"#).await;
    api.host.answer("again", [refused()]);
    api.post("/v1/dead-letters/again/replay", "").await;
    api.host.until_state("default", "again", MessageState::Dead).await;
    let plan = api.post("/v1/operations", r#"{"kind":"replay","filter":"id=*","dry_run":true}"#).await.json();
    assert_eq!((&plan["matched"], &plan["plan"]["left_out"]), (&json!(3), &json!({ "quarantined": 1 })));
    assert_eq!((&plan["plan"]["before"], &plan["plan"]["exact"]), (&json!(NOW_TEXT), &json!(false)));
    assert_eq!(plan["plan"]["replayed_before"], 1);
    let all = api.post("/v1/operations", r#"{"kind":"purge","filter":"id=*","dry_run":true}"#).await.json();
    assert_eq!((&all["matched"], &all["plan"]["left_out"]["quarantined"]), (&json!(4), &json!(0)));
    let sagas = api.post("/v1/operations", r#"{"kind":"cancel","filter":"id=*","dry_run":true}"#).await.json();
    assert!(sagas.get("plan").is_none(), "{sagas}");
}

#[tokio::test]
async fn what_was_planned_is_done_and_nothing_when_the_set_grew() {
    let api = Api::open().await;
    dead(&api, &["d-1", "d-2"]).await;
    let mut body = json!({ "kind": "quarantine", "filter": "id=*", "reason": "look", "dry_run": true });
    let plan = api.post("/v1/operations", body.to_string()).await.json();
    body["dry_run"] = json!(false);
    body["before"] = plan["plan"]["before"].clone();
    body["expect_count"] = plan["matched"].clone();
    dead(&api, &["d-3"]).await;
    let grown = api.post("/v1/operations", body.to_string()).await;
    assert_eq!(grown.problem(), (409, "OPERATION.SET_GREW".to_owned()));
    assert!(grown.json()["detail"].as_str().unwrap().starts_with("3 match now, 2 were planned"), "{}", grown.text);
    assert_eq!(api.host.view("default", "d-1").await.state, MessageState::Dead);
    assert_eq!(api.get("/v1/operations").await.json()["items"], json!([]), "none was begun");
    body["expect_count"] = json!(3);
    // What dies behind the plan isn't taken, and doesn't hinder it.
    api.host.pass(std::time::Duration::from_secs(1));
    dead(&api, &["d-4"]).await;
    let done = over(&api, &body).await;
    assert_eq!((&done["matched"], &done["done"], &done["before"]), (&json!(3), &json!(3), &json!(NOW_TEXT)));
    assert_eq!(api.host.view("default", "d-4").await.state, MessageState::Dead);
}

#[tokio::test]
async fn a_replay_shows_what_became_of_what_it_put_back() {
    let api = Api::open().await;
    dead(&api, &["d-1", "d-2", "d-3"]).await;
    api.host.answer("d-2", [refused()]);
    let started = api.post("/v1/operations", r#"{"kind":"replay","filter":"id=*"}"#).await;
    let address = started.header("location").to_owned();
    let shown =
        until(&api, &address, |shown| shown["fate"]["delivered"] == 2 && shown["fate"]["died_again"] == 1).await;
    let fate = json!({
        "put_back": 3, "delivered": 2, "died_again": 1, "ended_otherwise": 0, "on_the_way": 0, "not_followed": 0,
        "first_death": { "id": "d-2", "code": "HTTP.422" },
    });
    assert_eq!(shown["fate"], fate);
    // By its id alone it is nobody's any more.
    api.post("/v1/dead-letters/d-2/replay", "").await;
    api.host.until_state("default", "d-2", MessageState::Done).await;
    assert_eq!(api.get(&address).await.json()["fate"], fate);
    assert!(api.get("/v1/operations").await.json()["items"][0].get("fate").is_none(), "lists leave it out");
}

/// The group of dead letters with this code.
async fn group(api: &Api, code: &str) -> Value {
    let groups = api.get("/v1/dead-letters/groups").await.json();
    groups["items"].as_array().unwrap().iter().find(|group| group["code"] == code).unwrap().clone()
}

#[tokio::test]
async fn a_group_shows_what_became_of_the_replay_that_touched_it() {
    let api = Api::open().await;
    dead(&api, &["d-1", "d-2"]).await;
    api.host.sent(message("other"), [refused()]).await;
    assert!(group(&api, "HTTP.400").await.get("last_replay").is_none(), "nobody replayed it");
    api.host.answer("d-2", [Outcome::Permanent(Fault::new("HTTP.400", "the receiver said no"))]);
    let started = api.post("/v1/operations", r#"{"kind":"replay","filter":"code=HTTP.400"}"#).await;
    let address = started.header("location").to_owned();
    let is_settled = |shown: &Value| {
        shown["state"] != "running" && shown["fate"]["delivered"] == 1 && shown["fate"]["died_again"] == 1
    };
    let shown = until(&api, &address, is_settled).await;
    let last = group(&api, "HTTP.400").await["last_replay"].clone();
    assert_eq!((&last["operation"], &last["fate"]), (&shown["id"], &shown["fate"]));
    assert_eq!((&last["running"], &last["to_go"], &last["groups"]), (&json!(false), &json!(0), &json!(1)));
    assert!(group(&api, "HTTP.422").await.get("last_replay").is_none(), "it wasn't touched");
    let page = api.get("/ui/dead-letters").await.text;
    for part in ["2 put back, 1 delivered, ", "1 died again", shown["id"].as_str().unwrap()] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[tokio::test]
async fn a_replay_of_all_tenants_is_nothing_to_who_sees_one() {
    let tokens = vec![token("acme-op", &["acme"], &[Role::Operator]), token("all", &["*"], &[Role::Operator])];
    let api = Api::with(Some(tokens), Limits::default()).await;
    for (tenant, id) in [("acme", "own"), ("other", "theirs")] {
        api.host.dead(of(tenant, message(id))).await;
        api.host.answer(id, [Outcome::Permanent(Fault::new("HTTP.400", "the receiver said no"))]);
    }
    let ask = post("/v1/operations", r#"{"kind":"replay","filter":"id=*"}"#);
    let started = api.send(with(ask, "authorization", "Bearer all")).await;
    let address = started.header("location").to_owned();
    loop {
        let shown = api.send(with(get(&address), "authorization", "Bearer all")).await.json();
        if shown["state"] != "running" && shown["fate"]["died_again"] == 2 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    for (name, sees) in [("all", true), ("acme-op", false)] {
        let ask = with(get("/v1/dead-letters/groups"), "authorization", &format!("Bearer {name}"));
        let groups = api.send(ask).await.json();
        assert_eq!(groups["items"][0].get("last_replay").is_some(), sees, "{name}: {groups}");
    }
}

#[tokio::test]
async fn a_trial_that_is_delivered_lets_the_rest_go() {
    let api = Api::open().await;
    dead(&api, &["d-1", "d-2", "d-3", "d-4"]).await;
    let done = over(&api, &json!({ "kind": "replay", "filter": "id=*", "trial": 2 })).await;
    assert_eq!((&done["state"], &done["done"]), (&json!("done"), &json!(4)));
    assert_eq!(done["trial"], json!({ "size": 2, "state": "passed" }));
    assert_eq!(done["filter"], "id=* state=dead kind=message");
}

#[tokio::test]
async fn a_trial_that_dies_again_stops_the_operation_which_says_so() {
    let api = Api::open().await;
    dead(&api, &["d-1", "d-2", "d-3", "d-4"]).await;
    for id in ["d-1", "d-2", "d-3", "d-4"] {
        api.host.answer(id, [refused()]);
    }
    let stopped = over(&api, &json!({ "kind": "replay", "filter": "id=*", "trial": 1 })).await;
    assert_eq!((&stopped["state"], &stopped["done"]), (&json!("stopped"), &json!(1)));
    assert_eq!(stopped["trial"], json!({ "size": 1, "state": "failed" }));
    assert!(stopped["error"].as_str().unwrap().contains("d-1: HTTP.422"), "{stopped}");
    assert_eq!(stopped["fate"]["died_again"], 1);
    assert_eq!(api.host.view("default", "d-4").await.replays, 0, "it was left alone");
}

#[tokio::test]
async fn what_goes_with_a_plan_is_refused_where_there_is_none() {
    let api = Api::open().await;
    for (body, path) in [
        (r#"{"kind":"pause","filter":"id=*","before":"2030-01-01T00:00:00Z"}"#, "before"),
        (r#"{"kind":"cancel_messages","filter":"id=*","expect_count":1}"#, "expect_count"),
        (r#"{"kind":"replay","filter":"id=*","expect_count":1}"#, "expect_count"),
        (r#"{"kind":"replay","filter":"id=*","expect_count":1,"dry_run":true}"#, "expect_count"),
        (r#"{"kind":"pause","filter":"id=*","exact":true}"#, "exact"),
        (r#"{"kind":"purge","filter":"id=*","trial":5}"#, "trial"),
        (r#"{"kind":"replay","filter":"id=*","trial":0}"#, "trial"),
        (r#"{"kind":"replay","filter":"id=*","trial":1001}"#, "trial"),
    ] {
        let refused = api.post("/v1/operations", body).await;
        assert_eq!(refused.problem(), (400, "SCHEMA.VALIDATION_FAILED".to_owned()), "{body}");
        assert_eq!(refused.json()["path"], path, "{body}");
    }
    let sagas = api.post("/v1/operations", r#"{"kind":"replay","filter":"kind=saga","trial":5}"#).await;
    assert_eq!(sagas.problem(), (409, "DEAD.KIND".to_owned()));
    assert!(api.reached().is_empty());
}

#[tokio::test]
async fn a_plan_counts_and_names_nothing_of_other_tenants() {
    let api = Api::with(Some(vec![token("acme-op", &["acme"], &[Role::Operator])]), Limits::default()).await;
    for (tenant, id) in [("acme", "own"), ("other", "theirs"), ("other", "too")] {
        api.host.dead(of(tenant, message(id))).await;
    }
    let ask = post("/v1/operations", r#"{"kind":"replay","filter":"id=*","dry_run":true}"#);
    let plan = api.send(with(ask, "authorization", "Bearer acme-op")).await;
    assert_eq!(plan.json()["matched"], 1);
    assert_eq!(plan.json()["plan"]["left_out"], json!({ "quarantined": 0, "other_tenants_than": "acme" }));
    assert!(!plan.text.contains("theirs"), "{}", plan.text);
}
