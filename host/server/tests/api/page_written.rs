//! Acts of the page that make something of what is written: a form, a plan that says what will be done, a press that does it once.

use http::StatusCode;
use waybill_core::annotation::Annotation;
use waybill_core::new_message::NewMessage;
use waybill_core::port::service::MessageState;
use waybill_page::acts::{Act, Target};
use waybill_server::auth::Role;
use waybill_server::limits::Limits;
use waybill_testkit::memory_host::message;

use crate::page::{as_signed_in, form, form_token, is_clean, signed_in};
use crate::page_acts::{Opened, opened};
use crate::support::{Api, of, payload, token};

/// The plan that a form leads to, and its address.
async fn led(api: &Api, form: &Opened, cookie: &str) -> (Opened, String) {
    let sent = form.press(api, cookie).await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.text);
    let address = sent.header("location").to_owned();
    assert!(address.starts_with("/ui/plan?act=") && address.contains("draft="), "{address}");
    let plan = opened(api, &address, cookie).await;
    assert!(plan.page.contains("nothing has happened yet") && plan.page.contains("class=\"cmd\""), "{}", plan.page);
    (plan, address)
}

async fn planned(api: &Api, act: Act, target: &Target, fields: &[(&str, &str)]) -> Opened {
    led(api, &opened(api, &target.address(act), "").await.with(fields), "").await.0
}

/// Presses twice at once, and answers where what was made is shown.
async fn pressed(api: &Api, plan: &Opened) -> String {
    let (first, second) = tokio::join!(plan.press(api, ""), plan.press(api, ""));
    assert_eq!(first.status, StatusCode::SEE_OTHER, "{}", first.text);
    assert_eq!(first.header("location"), second.header("location"));
    first.header("location").to_owned()
}

fn id_in(location: &str) -> String {
    location.split_once("id=").unwrap().1.to_owned()
}

fn secretive(id: &str) -> NewMessage {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    NewMessage { headers: vec![header("x-a", "1"), header("x-api-key", "s3cret")], ..message(id) }
}

#[tokio::test]
async fn an_edited_copy_is_sent_once_and_its_plan_shows_before_and_after() {
    let api = Api::open().await;
    api.host.dead(secretive("d-1")).await;
    let one = Target::one("default", "d-1");
    let page = api.get("/ui/message?id=d-1").await.text;
    assert!(page.contains("act=dead-edit"), "{page}");
    let form = opened(&api, &one.address(Act::DeadEdit), "").await;
    assert!(form.page.contains(">\n{&quot;order&quot;:17}</textarea>"), "{}", form.page);
    let fields = [
        ("topic", "http:http://shop.example/hook"),
        ("key", ""),
        ("headers", "x-a=2"),
        ("payload", "{\"order\":18}"),
        ("reason", "v2"),
    ];
    let plan = planned(&api, Act::DeadEdit, &one, &fields).await;
    for part in
        ["{&quot;order&quot;:17}", "{&quot;order&quot;:18}", "as before", "x-api-key", "dead edit d-1 --payload"]
    {
        assert!(plan.page.contains(part), "{part}: {}", plan.page);
    }
    assert!(!form.page.contains("s3cret") && !plan.page.contains("s3cret"));
    assert_eq!(api.host.view("default", "d-1").await.state, MessageState::Dead);
    let location = pressed(&api, &plan).await;
    let copy = api.host.until_state("default", &id_in(&location), MessageState::Done).await;
    assert_eq!(payload(&copy), "{\"order\":18}");
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(copy.headers.0, [header("x-a", "2"), header("x-api-key", "s3cret")]);
    assert_eq!(copy.annotations.get(Annotation::CausationId), Some("d-1"));
    assert_eq!(api.host.view("default", "d-1").await.state, MessageState::Quarantined);
    assert_eq!(api.get(&location).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_refusal_keeps_what_was_written_and_does_nothing() {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    let edit = Target::one("default", "d-1").address(Act::DeadEdit);
    let same = [("key", ""), ("payload", "{\"order\":17}")];
    let same = opened(&api, &edit, "").await.with(&same).press(&api, "").await;
    assert!(same.status == 400 && same.text.contains("nothing is changed"), "{}", same.text);
    let broken = [("payload", "{"), ("reason", "why not")];
    let broken = opened(&api, &edit, "").await.with(&broken).press(&api, "").await;
    assert_eq!(broken.status, 400, "{}", broken.text);
    is_clean(&broken, "a refused edit");
    for part in ["Nothing was done", "payload isn't JSON", ">\n{</textarea>", "why not"] {
        assert!(broken.text.contains(part), "{part}: {}", broken.text);
    }
    assert_eq!(api.host.view("default", "d-1").await.state, MessageState::Dead);
    let send = Target::default().address(Act::MessageSend);
    let nowhere = [("payload", "1"), ("key", "order-9")];
    let nowhere = opened(&api, &send, "").await.with(&nowhere).press(&api, "").await;
    assert!(nowhere.status == 400 && nowhere.text.contains("value=\"order-9\""), "{}", nowhere.text);
}

#[tokio::test]
async fn what_a_form_cannot_hold_stays_and_is_edited_in_a_terminal() {
    let api = Api::open().await;
    let bytes = NewMessage { payload: (&b"\xff\xfe"[..]).into(), ..message("d-1") };
    api.host.dead(bytes).await;
    let one = Target::one("default", "d-1");
    let form = opened(&api, &one.address(Act::DeadEdit), "").await;
    for part in ["it is no text", "waybill dead edit d-1 --tenant default --raw --file FILE"] {
        assert!(form.page.contains(part), "{part}: {}", form.page);
    }
    assert!(!form.page.contains("name=\"payload\""));
    let plan = planned(&api, Act::DeadEdit, &one, &[("key", "order-1"), ("payload", "forged")]).await;
    let location = pressed(&api, &plan).await;
    let copy = api.host.until_state("default", &id_in(&location), MessageState::Done).await;
    assert_eq!((copy.key.as_deref(), copy.bytes.as_deref()), (Some("order-1"), Some(&b"\xff\xfe"[..])));
    // What can't be seen is written in another way that means the same.
    let turned = NewMessage { payload: "{\"a\":\"\u{202e}\"}".into(), ..message("d-2") };
    api.host.dead(turned).await;
    let form = opened(&api, &Target::one("default", "d-2").address(Act::DeadEdit), "").await;
    assert!(form.page.contains("{&quot;a&quot;:&quot;\\u202e&quot;}"), "{}", form.page);
}

#[tokio::test]
async fn an_edited_copy_of_a_received_message_stays_with_its_consumer() {
    let api = Api::open().await;
    let one = Target { kind: "inbox".into(), ..Target::one("acme", "inbox-3-17") };
    let plan = planned(&api, Act::DeadEdit, &one, &[("key", "order-18"), ("topic", "bus:x"), ("reason", "v2")]).await;
    assert!(plan.page.contains("stays with its consumer"), "{}", plan.page);
    let location = pressed(&api, &plan).await;
    assert!(location.starts_with("/ui/inbox?tenant=acme&consumer=ship&id="), "{location}");
    let taken = api.inbound().taken();
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!((taken[0].key.as_deref(), taken[0].topic.as_str()), (Some("order-18"), "sales.event.order_paid.v1"));
    assert!(api.inbound().calls().contains(&"edit acme inbox-3-17 [v2] local".to_owned()));
    // Of a stuck saga and of events there is nothing to edit.
    api.host.stuck_saga("default", "stuck-1").await;
    let saga = Target { kind: "saga".into(), ..Target::one("default", "stuck-1") };
    let refused = api.get(&saga.address(Act::DeadEdit)).await;
    assert!(refused.status == 409 && refused.text.contains("DEAD.KIND"), "{}", refused.text);
}

#[tokio::test]
async fn a_message_is_sent_once_under_the_id_of_its_plan() {
    let api = Api::open().await;
    assert!(api.get("/ui/messages").await.text.contains("act=message-send"));
    let target = Target::default();
    let fields = [
        ("topic", "http:http://shop.example/hook"),
        ("payload", "{\"z\":1.10}"),
        ("key", "order-1"),
        ("headers", "x-a=1\r\nx-b=a=b"),
    ];
    let plan = planned(&api, Act::MessageSend, &target, &fields).await;
    for part in ["Of tenant <b>default</b>", "waybill send --topic", "x-b=a=b"] {
        assert!(plan.page.contains(part), "{part}: {}", plan.page);
    }
    let location = pressed(&api, &plan).await;
    let id = id_in(&location);
    assert!(plan.page.contains(&format!("--id {id}")), "{id}: {}", plan.page);
    let sent = api.host.until_state("default", &id, MessageState::Done).await;
    assert_eq!((payload(&sent), sent.key.as_deref()), ("{\"z\":1.10}", Some("order-1")));
    assert_eq!(sent.headers.0.len(), 2);
    // Text goes as it is, under an id of one's own.
    let fields = [("topic", "http:http://shop.example/hook"), ("payload", "a\r\nb"), ("as_text", "yes"), ("id", "m-1")];
    let plan = planned(&api, Act::MessageSend, &target, &fields).await;
    assert_eq!(pressed(&api, &plan).await, "/ui/message?id=m-1");
    assert_eq!(api.host.view("default", "m-1").await.bytes.as_deref(), Some(&b"a\nb"[..]));
}

#[tokio::test]
async fn a_plan_is_gone_back_from_with_what_was_written() {
    let api = Api::open().await;
    let fields = [("topic", "http:http://shop.example/hook"), ("payload", "{\"n\":1}"), ("id", "m-1")];
    let form = opened(&api, &Target::default().address(Act::MessageSend), "").await.with(&fields);
    let (plan, address) = led(&api, &form, "").await;
    assert!(!address.contains("shop.example"), "what is written is in no address: {address}");
    let change = format!("{address}&show=form");
    assert!(plan.page.contains(&change.replace('&', "&amp;")), "{}", plan.page);
    let form = opened(&api, &change, "").await;
    assert!(form.page.contains(">\n{&quot;n&quot;:1}</textarea>") && form.page.contains("value=\"m-1\""));
    // It is written on, and planned as another.
    let fields = [("topic", "http:http://shop.example/hook"), ("payload", "{\"n\":2}"), ("id", "m-1")];
    let (changed, other) = led(&api, &form.with(&fields), "").await;
    assert!(other != address && changed.page.contains("{&quot;n&quot;:2}"), "{}", changed.page);
    assert!(opened(&api, &address, "").await.page.contains("{&quot;n&quot;:1}"), "the first is there all the same");
    assert_eq!(api.get("/v1/messages/m-1").await.status, 404);
}

#[tokio::test]
async fn the_address_of_a_plan_shows_it_until_it_is_done_and_then_says_that_it_was() {
    let api = Api::open().await;
    let fields = [("topic", "http:http://shop.example/hook"), ("payload", "1")];
    let form = opened(&api, &Target::default().address(Act::MessageSend), "").await.with(&fields);
    let (plan, address) = led(&api, &form, "").await;
    let again = opened(&api, &address, "").await;
    assert_eq!(again.to, plan.to);
    let location = pressed(&api, &plan).await;
    api.host.until_state("default", &id_in(&location), MessageState::Done).await;
    let back = api.get(&address).await;
    is_clean(&back, "the plan of what was done");
    let way = location.replace('&', "&amp;");
    assert!(back.text.contains("This plan was carried out") && back.text.contains(&way), "{}", back.text);
    assert!(!back.text.contains("class=\"sheet plan\""), "{}", back.text);
    // The button of a page that was opened before is the same act.
    let late = again.press(&api, "").await;
    assert_eq!((late.status, late.header("location")), (StatusCode::SEE_OTHER, &*location));
    let found: serde_json::Value = api.get("/v1/messages").await.json();
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{found}");
}

#[tokio::test]
async fn a_plan_that_was_refused_stays_and_one_that_is_gone_says_so() {
    let tokens = vec![token("ops", &["acme"], &[Role::Admin]), token("dev", &["acme"], &[Role::Admin])];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let (ops, dev) = (signed_in(&api.router, "ops").await, signed_in(&api.router, "dev").await);
    let target = Target { stream: "task".into(), ..Target::of("acme") };
    let fields = [("stream", "task"), ("resource", "TASK/t-17"), ("op", "CREATE"), ("expected_seq", "4")];
    let form = opened(&api, &target.address(Act::StreamAppend), &ops).await.with(&fields);
    let (plan, address) = led(&api, &form, &ops).await;
    for _ in 0..2 {
        let late = plan.press(&api, &ops).await;
        assert!(late.status.is_client_error() && late.text.contains("value=\"TASK/t-17\""), "{}", late.text);
    }
    opened(&api, &address, &ops).await;
    let elsewhere = Act::MessageSend.about().name;
    let other_act = address.replace("act=stream-append", &format!("act={elsewhere}"));
    for (path, cookie) in [(&*address, &dev), ("/ui/plan?act=message-send&draft=guessed", &ops), (&*other_act, &ops)] {
        let gone = api.send(as_signed_in(path, cookie)).await;
        assert_eq!(gone.status, StatusCode::NOT_FOUND, "{path}: {}", gone.text);
        is_clean(&gone, path);
        assert!(gone.text.contains("isn’t kept any more") && gone.text.contains("Write it anew"), "{}", gone.text);
        assert!(!gone.text.contains("t-17"), "{}", gone.text);
    }
    // The form of another session doesn't do it either.
    let own = opened(&api, &target.address(Act::StreamAppend), &dev).await;
    let pressed = Opened { to: plan.to.clone(), ..own }.press(&api, &dev).await;
    assert_eq!(pressed.status, StatusCode::NOT_FOUND, "{}", pressed.text);
    assert!(api.streams().appended().is_empty());
}

#[tokio::test]
async fn a_saga_is_started_once_by_the_version_of_its_plan() {
    let api = Api::open().await;
    api.host.waiting_saga("acme", "s-0").await;
    assert!(api.get("/ui/sagas").await.text.contains("act=saga-start"));
    let target = Target::of("acme");
    let form = opened(&api, &target.address(Act::SagaStart), "").await;
    assert!(form.page.contains("<option value=\"order\">") && form.page.contains("value=\"acme\""), "{}", form.page);
    let fields = [("definition", "order"), ("input", "{\"order\":17}"), ("tenant", "acme")];
    let plan = planned(&api, Act::SagaStart, &target, &fields).await;
    assert!(plan.page.contains("Definition <b>order 1</b>") && plan.page.contains("--version 1"), "{}", plan.page);
    let location = pressed(&api, &plan).await;
    api.host.until_waiting("acme", &id_in(&location), "approval").await;
    let unknown = [("definition", "none")];
    let unknown = opened(&api, &target.address(Act::SagaStart), "").await.with(&unknown).press(&api, "").await;
    assert!(unknown.status == 404 && unknown.text.contains("value=\"none\""), "{}", unknown.text);
}

#[tokio::test]
async fn an_event_is_appended_once_and_only_where_its_stream_ends_as_it_was_said() {
    let api = Api::open().await;
    assert!(api.get("/ui/streams").await.text.contains("act=stream-append"));
    let target = Target { stream: "task".into(), ..Target::of("acme") };
    let form = opened(&api, &target.address(Act::StreamAppend), "").await;
    assert!(form.page.contains("value=\"task\"") && form.page.contains("<datalist"), "{}", form.page);
    let fields =
        [("stream", "task"), ("resource", "TASK/t-17"), ("op", "CREATE"), ("data", "{\"n\":1}"), ("tenant", "acme")];
    api.streams().calls();
    let further = |seq| [&fields[..], &[("expected_seq", seq)]].concat();
    let plan = planned(&api, Act::StreamAppend, &target, &further("5")).await;
    assert!(plan.page.contains("stream append task --resource TASK/t-17 --op CREATE"), "{}", plan.page);
    assert!(api.streams().appended().is_empty());
    assert_eq!(pressed(&api, &plan).await, "/ui/stream?tenant=acme&name=task");
    let appended = api.streams().appended();
    assert!(appended.len() == 1 && appended[0].id.is_some(), "{appended:?}");
    assert!(api.streams().calls().contains(&"append acme/task 1 Some(5)".to_owned()));
    let late = planned(&api, Act::StreamAppend, &target, &further("4")).await.press(&api, "").await;
    assert!(late.status.is_client_error() && late.text.contains("value=\"TASK/t-17\""), "{}", late.text);
}

#[tokio::test]
async fn what_may_not_be_made_is_shown_disabled_and_refused() {
    let tokens = vec![
        token("viewer", &["acme"], &[Role::Viewer]),
        token("operator", &["acme"], &[Role::Operator]),
        token("sender", &["acme"], &[Role::Sender]),
        token("globex", &["globex"], &[Role::Admin]),
    ];
    let api = Api::with(Some(tokens), Limits::default()).await;
    api.host.dead(of("acme", message("d-1"))).await;
    let viewer = signed_in(&api.router, "viewer").await;
    let operator = signed_in(&api.router, "operator").await;
    let sender = signed_in(&api.router, "sender").await;
    for (cookie, act, target) in [
        (&viewer, Act::DeadEdit, Target::one("acme", "d-1")),
        (&sender, Act::DeadEdit, Target::one("acme", "d-1")),
        (&operator, Act::MessageSend, Target::default()),
        (&operator, Act::SagaStart, Target::default()),
        (&operator, Act::StreamAppend, Target::default()),
    ] {
        let page = api.send(as_signed_in(&target.address(act), cookie)).await;
        let is_shown = page.text.contains("aria-disabled") && page.text.contains(act.about().right.roles());
        assert!(page.status == 200 && is_shown, "{act:?}: {}", page.text);
        let form_token = form_token(&page.text);
        let fields = [("form", &*form_token), ("press", "k")];
        let refused = api.send(form(&target.address(act), &fields, cookie)).await;
        assert!(refused.status == 403 && refused.text.contains("AUTH.ROLE"), "{act:?}: {}", refused.text);
    }
    // What is another tenant's is not there to be edited, and nothing is sent for another.
    let globex = signed_in(&api.router, "globex").await;
    let edit = api.send(as_signed_in(&Target::one("acme", "d-1").address(Act::DeadEdit), &globex)).await;
    assert_eq!(edit.status, 404, "{}", edit.text);
    let fields = [("topic", "http:http://shop.example/hook"), ("payload", "1"), ("tenant", "acme")];
    let foreign = opened(&api, &Target::default().address(Act::MessageSend), &globex).await.with(&fields);
    let refused = foreign.press(&api, &globex).await;
    assert!(refused.status == 403 && refused.text.contains("AUTH.TENANT"), "{}", refused.text);
}
