//! Each role at each act and at each view of the page. Who may comes from what the act says that it needs, and from what the API's own
//! route of the same thing needs.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use tower::ServiceExt;
use waybill_api::plugins::{PluginReload, PluginService};
use waybill_page::acts::{Act, On, Pick, Reach, Target};
use waybill_page::address::{self, condition};
use waybill_server::auth::{Permission, Tokens};
use waybill_server::limits::Limits;
use waybill_testkit::memory_host::message;

use crate::page::{as_signed_in, form, form_token, is_clean, signed_in};
use crate::page_acts::opened;
use crate::page_world::{Who, done_beside, everybody, operation, settled, standing, written};
use crate::support::{Api, of};

/// What those who may not act on it try it on.
const KEPT: &str = "kept";
/// Dead letters of an operation that is stopped: at one a second it isn't through before.
const LETTERS: usize = 20;

/// Every address of the page that is looked at, with the operation of the API that needs the same.
const VIEWS: [(&str, &str); 33] = [
    ("/ui", "outboxStats"),
    ("/ui/messages", "listMessages"),
    ("/ui/message?tenant=acme&id=d-1", "showMessage"),
    ("/ui/message?tenant=acme&id=d-1&show=raw", "showMessage"),
    ("/ui/message?tenant=acme&id=inbox-3-17&kind=inbox", "showDeadLetter"),
    ("/ui/dead-letters", "listDeadLetters"),
    ("/ui/sagas", "listSagas"),
    ("/ui/saga?tenant=acme&id=s-1", "showSaga"),
    ("/ui/blocked", "outboxBlocked"),
    ("/ui/inbox", "listInbox"),
    ("/ui/inbox?tenant=acme&consumer=ship&id=waits", "showInbox"),
    ("/ui/idempotency", "showKeys"),
    ("/ui/idempotency?tenant=acme&key=k-1", "showKeys"),
    ("/ui/approvals", "listSagas"),
    ("/ui/streams", "listStreams"),
    ("/ui/stream?tenant=acme&name=task", "showStream"),
    ("/ui/relay?name=bus", "showRelay"),
    ("/ui/plugins", "listPlugins"),
    ("/ui/plugin?name=bus", "showPlugin"),
    ("/ui/plugin?name=bus&show=grants", "showPlugin"),
    ("/ui/plugin?name=bus&show=log", "showPlugin"),
    ("/ui/plan?act=dead-replay&tenant=acme&id=d-1", "showDeadLetter"),
    ("/ui/operations", "listOperations"),
    ("/ui/configuration", "reloadConfiguration"),
    ("/ui/audit", "listAudit"),
    ("/ui/save?list=messages&as=csv", "listMessages"),
    ("/ui/save?list=dead-letters&as=jsonl", "listDeadLetters"),
    ("/ui/save?list=sagas&as=csv", "listSagas"),
    ("/ui/save?list=inbox&as=jsonl", "listInbox"),
    ("/ui/save?list=idempotency&as=csv", "showKeys"),
    ("/ui/save?list=audit&as=jsonl", "listAudit"),
    ("/ui/find?q=d-1", "showMessage"),
    ("/ui/help/OUTBOX.BUSY", "whoAmI"),
];

/// A host with a token for everybody, each signed in.
async fn world() -> (Api, Vec<(Who, String)>) {
    let all = everybody();
    let records = all.iter().map(|who| who.record.clone()).collect();
    let api = Api::with(Some(records), Limits::default()).await;
    let mut callers = Vec::new();
    for who in all {
        let cookie = signed_in(&api.router, who.name()).await;
        callers.push((who, cookie));
    }
    (api, callers)
}

/// Brings what an act is done to into the state in which it can be done; its id.
async fn prepared(api: &Api, act: Act, id: &str) -> String {
    let host = &api.host;
    match act {
        Act::DeadReplay | Act::DeadEdit | Act::DeadQuarantine | Act::DeadPurge => {
            host.dead(of("acme", message(id))).await;
        }
        Act::MessageCancel | Act::MessageReschedule => {
            host.scheduled(of("acme", message(id)), Duration::from_secs(3_600)).await;
        }
        Act::SagaPause | Act::SagaCancel | Act::SagaKill | Act::SagaSignal | Act::SagaApprove | Act::SagaReject => {
            host.waiting_saga("acme", id).await;
        }
        Act::SagaResume => {
            host.paused_saga("acme", id).await;
        }
        Act::SagaRetry | Act::SagaSkip | Act::SagaAccept => {
            host.stuck_saga("acme", id).await;
        }
        Act::KeyRelease => {
            host.begun_key("acme", id).await;
        }
        Act::PluginReload => host.plugins.build("http", &"cd".repeat(32)),
        Act::PluginRollback => {
            host.plugins.build("http", &"cd".repeat(32));
            host.plugins.reload("http", PluginReload::default(), "ann").await.unwrap();
        }
        Act::OperationCancel => {
            // What is kept has nothing to do and stands still.
            let letters = if id == KEPT { 0 } else { LETTERS };
            for number in 0..letters {
                host.dead(of("acme", message(&format!("{id}-{number}")))).await;
            }
            let filter = condition("id", &format!("{id}-*"));
            return operation(api, &json!({"kind": "purge", "filter": filter, "rate": 1, "tenant": "acme"})).await;
        }
        Act::TransportPause
        | Act::TransportResume
        | Act::TransportProbe
        | Act::SourcePause
        | Act::SourceResume
        | Act::RowsReplay
        | Act::RelayPause
        | Act::RelayResume
        | Act::RelaySeek
        | Act::StreamPurge
        | Act::MessageSend
        | Act::StreamAppend
        | Act::ConfigurationReload => {}
        // Its definition is made by the first saga of it.
        Act::SagaStart => {
            host.waiting_saga("acme", &format!("{id}-first")).await;
        }
    }
    id.to_owned()
}

/// How an act is asked for: by an id, by a filter, by a picked row, as far as it takes that.
pub fn targets(act: Act, id: &str) -> Vec<Target> {
    let about = act.about();
    let one = match about.on {
        On::DeadLetter | On::Message | On::Saga | On::Key => Target::one("acme", id),
        On::Stream => Target::one("acme", "task"),
        On::Transport | On::Plugin => Target::named("http"),
        On::Source => Target::named("shop"),
        On::Relay => Target::named("bus"),
        On::Operation => Target::named(id),
        On::Host => Target::default(),
    };
    let all = Target::matching("acme", &condition("id", id));
    let pick = Pick { tenant: "acme".into(), id: id.into(), kind: "message".into() };
    match (about.reach, about.on) {
        (Reach::One, _) => vec![one],
        (Reach::New, _) => vec![Target::of("acme")],
        (Reach::Many, _) => vec![all],
        (Reach::Any, On::DeadLetter) => vec![one, all, Target { picks: vec![pick], ..Target::default() }],
        (Reach::Any, _) => vec![one, all],
    }
}

/// The part of a plan's page that would do it.
#[track_caller]
fn offer<'p>(page: &'p str, address: &str) -> &'p str {
    let plan = page.split("class=\"sheet plan\"").nth(1).unwrap_or_else(|| panic!("{address} has no plan: {page}"));
    plan.split("</form>").next().unwrap_or(plan)
}

/// Who may not do it sees it disabled with the role that is missing, and their form is refused.
async fn is_refused(api: &Api, who: &Who, cookie: &str, act: Act, target: &Target) {
    let address = target.address(act);
    let context = format!("{} at {address}", who.name());
    let plan = api.send(as_signed_in(&address, cookie)).await;
    is_clean(&plan, &context);
    if who.role.is_some() {
        assert_eq!(plan.status, StatusCode::OK, "{context}: {}", plan.text);
        let offer = offer(&plan.text, &address);
        let missing = format!("needs the role {}", act.about().right.roles());
        assert!(offer.contains("aria-disabled") && offer.contains(&missing), "{context}: {offer}");
        assert!(!offer.contains("<button") && !offer.contains("name=\"press\""), "{context}: {offer}");
    } else {
        assert!(plan.status == StatusCode::FORBIDDEN && plan.text.contains("AUTH.ROLE"), "{context}: {}", plan.text);
    }
    let typed = act.typed(target, target.is_many().then_some(1)).unwrap_or_default();
    let token = form_token(&plan.text);
    let mut fields = vec![("form", &*token), ("press", "k"), ("count", "1"), ("typed", &*typed)];
    fields.extend(written(act));
    let answer = api.send(form(&address, &fields, cookie)).await;
    is_clean(&answer, &context);
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{context}: {}", answer.text);
    assert!(answer.text.contains("AUTH.ROLE"), "{context}: {}", answer.text);
}

/// Who may do it is offered it, and their form does it.
async fn is_done(api: &Api, who: &Who, cookie: &str, act: Act, target: &Target) {
    let address = target.address(act);
    let context = format!("{} at {address}", who.name());
    let plan = opened(api, &address, cookie).await;
    let button = plan.page.split("</form>").next().unwrap_or_default();
    assert!(button.contains("<button") && !button.contains("aria-disabled"), "{context}: {button}");
    let counted = plan.fields.iter().find(|(name, _)| name == "count").map(|(_, count)| count.parse::<u64>().unwrap());
    assert_eq!(counted, target.is_many().then_some(1), "{context}");
    let typed = act.typed(target, counted);
    let mut fields = written(act);
    fields.extend(typed.as_deref().map(|typed| ("typed", typed)));
    let mut answer = plan.with(&fields).press(api, cookie).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{context}: {}", answer.text);
    if act.is_written() {
        answer = opened(api, answer.header("location"), cookie).await.press(api, cookie).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{context}: {}", answer.text);
    }
    let to = answer.header("location");
    let shown = api.send(as_signed_in(to, cookie)).await;
    is_clean(&shown, &context);
    assert!(shown.status == StatusCode::OK && !shown.text.contains("AUTH."), "{context}: {}", shown.text);
}

#[tokio::test]
async fn each_act_is_offered_and_done_for_the_roles_that_it_names_and_for_no_other() {
    for act in Act::ALL {
        let (api, callers) = world().await;
        let kept = prepared(&api, act, KEPT).await;
        let before = settled(&api, "").await;
        done_beside(&api);
        for (who, cookie) in callers.iter().filter(|(who, _)| !who.may(act)) {
            for target in targets(act, &kept) {
                is_refused(&api, who, cookie, act, &target).await;
            }
        }
        assert_eq!(standing(&api, "").await, before, "{act:?}");
        assert_eq!(done_beside(&api), [""; 0], "{act:?}");
        let mut done = 0;
        for (who, cookie) in callers.iter().filter(|(who, _)| who.may(act)) {
            for at in 0..targets(act, KEPT).len() {
                let id = prepared(&api, act, &format!("{}-{at}", who.name())).await;
                is_done(&api, who, cookie, act, &targets(act, &id)[at]).await;
                done += 1;
            }
        }
        assert!(done > 0, "nobody may {act:?}");
    }
}

#[tokio::test]
async fn each_view_is_shown_to_the_roles_of_its_route_and_refused_to_the_others_as_a_page() {
    let (api, callers) = world().await;
    api.host.dead(of("acme", message("d-1"))).await;
    api.host.waiting_saga("acme", "s-1").await;
    api.host.begun_key("acme", "k-1").await;
    let document = api.get("/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    let needed = |name: &str| {
        let mut operations = paths.values().flat_map(|path| path.as_object().unwrap().values());
        let operation = operations.find(|operation| operation["operationId"] == name);
        let word = &operation.unwrap_or_else(|| panic!("there is no operation {name}"))["x-waybill-permission"];
        Permission::parse(word.as_str().unwrap()).unwrap()
    };
    let before = settled(&api, "").await;
    for (who, cookie) in &callers {
        let known = Tokens::new(vec![who.record.clone()]).unwrap();
        let caller = known.authenticate(who.name()).unwrap();
        for (path, operation) in VIEWS {
            let context = format!("{} at {path}", who.name());
            let answer = api.send(as_signed_in(path, cookie)).await;
            if caller.may(needed(operation)) {
                let expected = if path.starts_with(address::FIND) { 303 } else { 200 };
                assert_eq!(answer.status.as_u16(), expected, "{context}: {}", answer.text);
            } else {
                is_clean(&answer, &context);
                assert_eq!(answer.status, StatusCode::FORBIDDEN, "{context}: {}", answer.text);
                assert!(answer.text.contains("AUTH.ROLE"), "{context}: {}", answer.text);
            }
        }
        let live = api.router.clone().oneshot(as_signed_in("/ui/live?view=overview", cookie)).await.unwrap();
        let expected = if caller.may(Permission::Read) { StatusCode::OK } else { StatusCode::FORBIDDEN };
        assert_eq!(live.status(), expected, "{}", who.name());
    }
    assert_eq!(standing(&api, "").await, before);
    assert_eq!(done_beside(&api), [""; 0]);
}
