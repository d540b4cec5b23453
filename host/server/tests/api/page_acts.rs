//! Acts on the page: each by its form, once however often it is pressed, by nobody who may not, and never on more than was planned.

use std::time::Duration;

use http::StatusCode;
use waybill_core::port::service::MessageState;
use waybill_core::saga::limits::SIGNAL_BYTES_MAX;
use waybill_core::saga::state::SagaState;
use waybill_page::acts::{Act, Pick, Target};
use waybill_server::auth::Role;
use waybill_server::limits::{ACT_FORM_BYTES_MAX, Limits, PAGE_MAX};
use waybill_server::server::{Parts, Server};
use waybill_server::ui::Environment;
use waybill_testkit::memory_host::message;

use crate::page::{as_signed_in, form, form_token, is_clean, signed_in};
use crate::support::{Answer, Api, get, of, parts, send, token, with};

/// The value of a hidden member of a plan's form.
#[track_caller]
pub fn hidden(page: &str, name: &str) -> String {
    let mark = format!("name=\"{name}\" value=\"");
    let from = page.split(&mark).nth(1).unwrap_or_else(|| panic!("no {name}: {page}"));
    from.split('"').next().unwrap().to_owned()
}

/// A plan that was opened: where its form goes, and what goes with it.
pub struct Opened {
    pub to: String,
    pub page: String,
    pub fields: Vec<(String, String)>,
}

pub async fn opened(api: &Api, address: &str, cookie: &str) -> Opened {
    let answer = api.send(as_signed_in(address, cookie)).await;
    assert_eq!(answer.status, StatusCode::OK, "{address}: {}", answer.text);
    is_clean(&answer, address);
    read(answer.text)
}

#[track_caller]
pub fn read(page: String) -> Opened {
    let plan = page.split("class=\"sheet plan\"").nth(1).unwrap_or_else(|| panic!("no plan: {page}")).to_owned();
    let to = plan.split("action=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().replace("&amp;", "&");
    let mut fields = vec![("form".to_owned(), form_token(&plan)), ("press".to_owned(), hidden(&plan, "press"))];
    if plan.contains("name=\"count\"") {
        fields.push(("count".to_owned(), hidden(&plan, "count")));
    }
    Opened { to, page, fields }
}

impl Opened {
    pub fn with(mut self, further: &[(&str, &str)]) -> Self {
        self.fields.extend(further.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self
    }

    fn request(&self, cookie: &str) -> http::Request<axum::body::Body> {
        let fields: Vec<(&str, &str)> = self.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        form(&self.to, &fields, cookie)
    }

    pub async fn press(&self, api: &Api, cookie: &str) -> Answer {
        api.send(self.request(cookie)).await
    }
}

/// Opens a plan, presses its button, and looks at what came of it.
async fn done(api: &Api, act: Act, target: &Target, fields: &[(&str, &str)]) -> Answer {
    let plan = opened(api, &target.address(act), "").await.with(fields);
    let answer = plan.press(api, "").await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{act:?}: {}", answer.text);
    let shown = api.get(answer.header("location")).await;
    assert_eq!(shown.status, StatusCode::OK, "{act:?}: {}", shown.text);
    is_clean(&shown, "an answer");
    shown
}

async fn until_over(api: &Api, location: &str) -> String {
    for _ in 0..5_000 {
        let page = api.get(location).await.text;
        if !page.contains(">running<") {
            return page;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{location} goes on");
}

#[tokio::test]
async fn acts_on_messages_and_dead_letters_are_done_by_their_forms() {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    api.host.dead(message("d-2")).await;
    for id in ["s-1", "s-2"] {
        api.host.scheduled(message(id), Duration::from_secs(3_600)).await;
    }
    let one = |id: &str| Target::one("default", id);
    let shown = done(&api, Act::DeadQuarantine, &one("d-2"), &[("reason", "look")]).await;
    assert!(shown.text.contains("Fenced off") && shown.text.contains(">Replay<"), "{}", shown.text);
    assert_eq!(api.host.view("default", "d-2").await.state, MessageState::Quarantined);
    done(&api, Act::DeadReplay, &one("d-1"), &[("reason", "mended")]).await;
    api.host.until_state("default", "d-1", MessageState::Done).await;
    done(&api, Act::MessageCancel, &one("s-1"), &[]).await;
    assert_eq!(api.host.view("default", "s-1").await.state, MessageState::Cancelled);
    done(&api, Act::MessageReschedule, &one("s-2"), &[("at", "2099-01-01T00:00:00Z")]).await;
    let moved = api.host.view("default", "s-2").await.not_before.unwrap();
    assert_eq!(moved.0.to_string(), "2099-01-01T00:00:00.000Z");
}

#[tokio::test]
async fn acts_on_sagas_are_done_by_their_forms() {
    let api = Api::open().await;
    for id in ["s-1", "s-2", "s-3", "s-4", "s-5"] {
        api.host.waiting_saga("acme", id).await;
    }
    for id in ["stuck-1", "stuck-2", "stuck-3"] {
        api.host.stuck_saga("acme", id).await;
    }
    let one = |id: &str| Target::one("acme", id);
    done(&api, Act::SagaPause, &one("s-1"), &[("reason", "closed")]).await;
    api.host.until_saga("acme", "s-1", SagaState::Paused).await;
    done(&api, Act::SagaResume, &one("s-1"), &[]).await;
    done(&api, Act::SagaApprove, &one("s-1"), &[]).await;
    api.host.until_saga("acme", "s-1", SagaState::Completed).await;
    done(&api, Act::SagaReject, &one("s-2"), &[("reason", "over the limit")]).await;
    done(&api, Act::SagaCancel, &one("s-3"), &[]).await;
    api.host.until_saga("acme", "s-3", SagaState::Cancelled).await;
    done(&api, Act::SagaSignal, &one("s-4"), &[("signal", "paid"), ("data", "{\"n\":1}")]).await;
    // What is gone for good is typed.
    let plan = opened(&api, &one("s-5").address(Act::SagaKill), "").await;
    let refused = plan.with(&[("typed", "s-4")]).press(&api, "").await;
    assert!(refused.status == 400 && refused.text.contains("Nothing was done"), "{}", refused.text);
    is_clean(&refused, "a refused kill");
    done(&api, Act::SagaKill, &one("s-5"), &[("typed", "s-5")]).await;
    api.host.until_saga("acme", "s-5", SagaState::Failed).await;
    done(&api, Act::SagaRetry, &one("stuck-1"), &[("mode", "retry")]).await;
    api.host.until_saga("acme", "stuck-1", SagaState::Completed).await;
    let step = Target { step: "reserve".into(), ..one("stuck-2") };
    done(&api, Act::SagaSkip, &step, &[("step", "reserve")]).await;
    done(&api, Act::SagaAccept, &one("stuck-3"), &[("reason", "by hand")]).await;
    assert!(api.host.saga("acme", "stuck-3").await.ended_at.is_some());
}

#[tokio::test]
async fn a_form_takes_what_the_api_takes_however_a_browser_writes_it() {
    let api = Api::open().await;
    api.host.waiting_saga("acme", "s-1").await;
    let saga = Target::one("acme", "s-1");
    // Two lines with a text between brackets, each of its letters escaped: as many bytes as a signal may have.
    let data = |letters: usize| format!("[%0D%0A\"{}\"]", "%61".repeat(letters));
    let fits = SIGNAL_BYTES_MAX - "[\n\"\"]".len();
    done(&api, Act::SagaSignal, &saga, &[("signal", "paid"), ("data", &data(fits))]).await;
    let plan = opened(&api, &saga.address(Act::SagaSignal), "").await;
    let refused = plan.with(&[("signal", "paid"), ("data", &data(fits + 1))]).press(&api, "").await;
    assert!(refused.status == 413 && refused.text.contains("SAGA.DATA_TOO_LARGE"), "{}", refused.status);
    is_clean(&refused, "data that is too large");
    let plan = opened(&api, &saga.address(Act::SagaSignal), "").await;
    let refused = plan.with(&[("data", &"a".repeat(ACT_FORM_BYTES_MAX))]).press(&api, "").await;
    assert_eq!(refused.status, 413);
    assert!(refused.text.contains("HTTP.TOO_LARGE") && refused.text.contains("write less"), "{}", refused.text);
    is_clean(&refused, "a form that is too large");
    // As many keys of rows as one request of the API takes.
    let rows = (0..PAGE_MAX).map(|row| format!("row-{row:060}")).collect::<Vec<_>>().join("\n");
    done(&api, Act::RowsReplay, &Target::named("shop"), &[("rows", &rows)]).await;
}

#[tokio::test]
async fn acts_on_the_host_are_done_by_their_forms() {
    let api = Api::open().await;
    let named = Target::named;
    let paused = done(&api, Act::TransportPause, &named("http"), &[("reason", "moves")]).await;
    assert!(api.get("/v1/transports").await.text.contains("\"paused\":true"));
    // What takes it back comes with the answer, at one press.
    let undo = hidden(&paused.text, "press");
    let back = form(
        &named("http").address(Act::TransportResume),
        &[("form", &form_token(&paused.text)), ("press", &undo)],
        "",
    );
    assert_eq!(api.send(back).await.status, StatusCode::SEE_OTHER);
    assert!(api.get("/v1/transports").await.text.contains("\"paused\":false"));
    done(&api, Act::TransportProbe, &named("http"), &[]).await;
    api.host.plugins.build("http", &"cd".repeat(32));
    done(&api, Act::PluginReload, &named("http"), &[("force", "yes")]).await;
    done(&api, Act::PluginRollback, &named("http"), &[("reason", "traps")]).await;
    done(&api, Act::ConfigurationReload, &Target::default(), &[]).await;
    done(&api, Act::SourcePause, &named("shop"), &[("reason", "moves")]).await;
    done(&api, Act::SourceResume, &named("shop"), &[]).await;
    done(&api, Act::RowsReplay, &named("shop"), &[("rows", "17\n18")]).await;
    assert_eq!(
        api.inbound().calls(),
        [
            "pause_source shop [moves] local",
            "resume_source shop [] local",
            "replay_rows shop [\"17\", \"18\"] [] local"
        ]
    );
    done(&api, Act::RelayPause, &named("bus"), &[]).await;
    done(&api, Act::RelayResume, &named("bus"), &[]).await;
    done(&api, Act::RelaySeek, &named("bus"), &[("stream", "task"), ("after", "4"), ("reason", "lost")]).await;
    let purge = [("typed", "task"), ("below", "5"), ("reason", "old")];
    done(&api, Act::StreamPurge, &Target::one("acme", "task"), &purge).await;
    let calls = api.streams().calls();
    for call in [
        "pause_relay bus [] local",
        "resume_relay bus [] local",
        "seek_relay bus default/task After(4) [lost] local",
        "purge acme/task Some(5) plan false [old] local",
    ] {
        assert!(calls.iter().any(|made| made == call), "{call}: {calls:?}");
    }
    api.host.begun_key("default", "order-17").await;
    done(&api, Act::KeyRelease, &Target::one("default", "order-17"), &[("reason", "gone")]).await;
    assert!(!api.get("/v1/idempotency").await.text.contains("order-17"));
}

#[tokio::test]
async fn a_form_that_is_pressed_twice_is_one_act() {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    let plan = opened(&api, &Target::matching("default", "id=*").address(Act::DeadReplay), "").await;
    let (first, second) = tokio::join!(plan.press(&api, ""), plan.press(&api, ""));
    assert_eq!(first.status, StatusCode::SEE_OTHER, "{}", first.text);
    assert_eq!(first.header("location"), second.header("location"));
    assert_eq!(plan.press(&api, "").await.header("location"), first.header("location"), "and after it is over");
    assert_eq!(api.get("/v1/operations").await.json()["items"].as_array().map(Vec::len), Some(1));
    // The key of one plan does nothing else.
    let other = opened(&api, &Target::matching("default", "id=*").address(Act::DeadPurge), "").await;
    let mut fields = other.with(&[("typed", "1")]);
    fields.fields.iter_mut().filter(|(name, _)| name == "press").for_each(|(_, key)| {
        *key = plan.fields.iter().find(|(name, _)| name == "press").unwrap().1.clone();
    });
    assert_eq!(fields.press(&api, "").await.status, 400);
}

#[tokio::test]
async fn all_that_match_are_an_operation_that_tells_its_fate() {
    let api = Api::open().await;
    for id in ["d-1", "d-2", "fenced"] {
        api.host.dead(message(id)).await;
    }
    api.post("/v1/dead-letters/fenced/quarantine", r#"{"note":"look"}"#).await;
    let plan = opened(&api, &Target::matching("default", "code=HTTP.*").address(Act::DeadReplay), "").await;
    for part in ["Replay 2 dead letters", "1 quarantined are left out", "--expect-count 2", "--before "] {
        assert!(plan.page.contains(part), "{part}: {}", plan.page);
    }
    let plan = plan.with(&[("reason", "receiver is back"), ("rate", "1000")]);
    let started = plan.press(&api, "").await;
    let page = until_over(&api, started.header("location")).await;
    for part in ["receiver is back", "put back", "died again", "delivered since"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    api.host.until_state("default", "d-2", MessageState::Done).await;
    assert!(api.get("/ui/operations").await.text.contains("code=HTTP.*"));
}

#[tokio::test]
async fn a_page_that_only_shows_does_nothing_whoever_asks() {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    let plan = opened(&api, &Target::one("default", "d-1").address(Act::DeadReplay), "").await;
    let ui = Some(Environment { is_read_only: true, ..Environment::default() });
    let parts = Parts { ui, ..parts(&api.host, &api.hindrance, None, Limits::default()) };
    let router = Server::new(parts).router();
    let shown = send(&router, get(&plan.to)).await;
    assert!(shown.text.contains("[ui] read_only") && !shown.text.contains("name=\"press\""), "{}", shown.text);
    let refused = send(&router, plan.request("")).await;
    assert!(refused.status == 403 && refused.text.contains("[ui] read_only"), "{}", refused.text);
    assert_eq!(api.host.view("default", "d-1").await.state, MessageState::Dead);
}

#[tokio::test]
async fn a_plan_whose_set_grew_does_nothing_and_comes_again() {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    let plan = opened(&api, &Target::matching("default", "id=*").address(Act::DeadReplay), "").await;
    // The clock stands still: what dies now is within the plan's instant.
    api.host.dead(message("d-2")).await;
    let refused = plan.press(&api, "").await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    is_clean(&refused, "a set that grew");
    assert!(refused.text.contains("OPERATION.SET_GREW") && refused.text.contains("Replay 2 dead letters"));
    assert_eq!(api.host.view("default", "d-1").await.state, MessageState::Dead);
    let started = read(refused.text).press(&api, "").await;
    assert_eq!(started.status, StatusCode::SEE_OTHER, "{}", started.text);
    // Of what isn't dead the number is the plan.
    api.host.waiting_saga("acme", "s-1").await;
    let plan = opened(&api, &Target::matching("acme", "id=*").address(Act::SagaCancel), "").await;
    api.host.waiting_saga("acme", "s-2").await;
    let refused = plan.press(&api, "").await;
    assert!(refused.status == 409 && refused.text.contains("Cancel 2 sagas"), "{}", refused.text);
}

#[tokio::test]
async fn a_form_whose_plan_has_no_instant_does_nothing() {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    let mut plan = opened(&api, &Target::matching("default", "id=*").address(Act::DeadReplay), "").await;
    let (unfrozen, instant) = plan.to.rsplit_once("&before=").unwrap();
    assert!(!instant.contains('&'), "{}", plan.to);
    plan.to = unfrozen.to_owned();
    let refused = plan.press(&api, "").await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.text.contains("before is missing"), "{}", refused.text);
    assert_eq!(api.host.view("default", "d-1").await.state, MessageState::Dead);
}

#[tokio::test]
async fn a_purge_takes_the_number_that_was_typed() {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    let plan = opened(&api, &Target::matching("default", "id=*").address(Act::DeadPurge), "").await;
    assert!(plan.page.contains("name=\"typed\""), "{}", plan.page);
    assert_eq!(plan.press(&api, "").await.status, 400);
    let plan = plan.with(&[("typed", "1")]);
    let started = plan.press(&api, "").await;
    until_over(&api, started.header("location")).await;
    assert_eq!(api.host.view("default", "d-1").await.state, MessageState::Purged);
}

#[tokio::test]
async fn an_operation_is_stopped_by_its_form() {
    let api = Api::open().await;
    for number in 0..3 {
        api.host.dead(message(&format!("d-{number}"))).await;
    }
    let plan = opened(&api, &Target::matching("default", "id=*").address(Act::DeadPurge), "").await;
    let started = plan.with(&[("typed", "3"), ("rate", "1")]).press(&api, "").await;
    let id = started.header("location").split_once("id=").unwrap().1.to_owned();
    let shown = done(&api, Act::OperationCancel, &Target::named(&id), &[]).await;
    assert!(shown.text.contains("cancelled"), "{}", shown.text);
}

#[tokio::test]
async fn rows_that_are_picked_are_acted_on_one_by_one() {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    api.host.dead(message("d-2")).await;
    let list = api.get("/ui/dead-letters").await.text;
    assert!(list.contains("name=\"pick\"") && list.contains("value=\"dead-replay\""), "{list}");
    let pick = |id: &str| Pick { tenant: "default".into(), id: id.into(), kind: "message".into() };
    let picked = Target { picks: vec![pick("d-2"), pick("d-1"), pick("gone")], ..Target::default() };
    let shown = done(&api, Act::DeadReplay, &picked, &[]).await.text;
    assert!(shown.contains("2 of 3") && shown.contains("DEAD.NOT_FOUND"), "{shown}");
    api.host.until_state("default", "d-1", MessageState::Done).await;
    api.host.until_state("default", "d-2", MessageState::Done).await;
}

#[tokio::test]
async fn a_form_that_is_not_of_the_page_does_nothing() {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    let plan = opened(&api, &Target::one("default", "d-1").address(Act::DeadReplay), "").await;
    let mut silent = plan.request("");
    silent.headers_mut().remove("origin");
    let key = hidden(&plan.page, "press");
    let unsigned = form(&plan.to, &[("press", &key)], "");
    let guessed = form(&plan.to, &[("press", &key), ("form", "guessed")], "");
    let foreign = with(plan.request(""), "origin", "https://evil.example");
    let cross = with(plan.request(""), "sec-fetch-site", "cross-site");
    for request in [silent, unsigned, guessed, foreign, cross] {
        let answer = api.send(request).await;
        assert!(answer.status == 403 && answer.text.contains("AUTH.ORIGIN"), "{}", answer.text);
    }
    assert_eq!(api.host.view("default", "d-1").await.state, MessageState::Dead);
    // What isn't an act is a page.
    for path in ["/ui/plan", "/ui/plan?act=explode", "/ui/plan?act=dead-replay&colour=red", "/ui/answer?key=gone"] {
        let answer = api.get(path).await;
        assert!(matches!(answer.status.as_u16(), 400 | 404), "{path}: {}", answer.status);
        is_clean(&answer, path);
    }
}

#[tokio::test]
async fn an_address_that_is_too_long_for_a_route_is_refused_and_not_cut() {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    let plan = opened(&api, &Target::one("default", "d-1").address(Act::DeadReplay), "").await;
    // Each of its letters is written as three.
    let to = format!("/ui/plan?act=dead-replay&id=d-1&tenant={}", "!".repeat(22_000));
    let refused = Opened { to, ..plan }.press(&api, "").await;
    assert!(refused.status == 400 && refused.text.contains("too long"), "{}", refused.status);
    is_clean(&refused, "a tenant that is too long");
    assert_eq!(api.host.view("default", "d-1").await.state, MessageState::Dead);
}

#[tokio::test]
async fn a_session_is_of_who_came_with_it_alone() {
    let api = with_tokens().await;
    api.host.dead(of("acme", message("d-1"))).await;
    let globex = signed_in(&api.router, "globex").await;
    let address = Target::one("acme", "d-1").address(Act::DeadReplay);
    let by_token = with(as_signed_in(&address, &globex), "authorization", "Bearer operator");
    let plan = api.send(by_token).await;
    assert!(plan.status == 200 && !plan.text.contains("name=\"press\""), "{}", plan.text);
}

async fn with_tokens() -> Api {
    let tokens = vec![
        token("viewer", &["acme"], &[Role::Viewer]),
        token("operator", &["acme"], &[Role::Operator]),
        token("globex", &["globex"], &[Role::Operator]),
    ];
    Api::with(Some(tokens), Limits::default()).await
}

#[tokio::test]
async fn an_act_that_is_not_allowed_is_shown_disabled_and_refused() {
    let api = with_tokens().await;
    api.host.dead(of("acme", message("d-1"))).await;
    let viewer = signed_in(&api.router, "viewer").await;
    let operator = signed_in(&api.router, "operator").await;
    for (cookie, act, target) in [
        (&viewer, Act::DeadReplay, Target::one("acme", "d-1")),
        (&viewer, Act::DeadPurge, Target::matching("acme", "id=*")),
        (&viewer, Act::SagaKill, Target::one("acme", "s-1")),
        (&operator, Act::TransportPause, Target::named("http")),
        (&operator, Act::ConfigurationReload, Target::default()),
        (&operator, Act::SagaSignal, Target::one("acme", "s-1")),
    ] {
        let plan = api.send(as_signed_in(&target.address(act), cookie)).await;
        let roles = act.about().right.roles();
        let is_shown = plan.text.contains("aria-disabled") && plan.text.contains(roles);
        assert!(plan.status == 200 && is_shown, "{act:?}: {}", plan.text);
        let form_token = form_token(&plan.text);
        let fields = [("form", &*form_token), ("press", "k"), ("count", "1"), ("typed", "1"), ("signal", "x")];
        let refused = api.send(form(&target.address(act), &fields, cookie)).await;
        assert!(refused.status == 403 && refused.text.contains("AUTH.ROLE"), "{act:?}: {}", refused.text);
    }
    let list = api.send(as_signed_in("/ui/dead-letters", &viewer)).await.text;
    assert!(list.contains("needs the role operator or admin"), "{list}");
    assert_eq!(api.host.view("acme", "d-1").await.state, MessageState::Dead);
}

#[tokio::test]
async fn another_tenants_things_are_not_there_to_be_acted_on() {
    let api = with_tokens().await;
    api.host.dead(of("acme", message("d-1"))).await;
    let globex = signed_in(&api.router, "globex").await;
    let plan = opened(&api, &Target::one("acme", "d-1").address(Act::DeadReplay), &globex).await;
    assert_eq!(plan.press(&api, &globex).await.status, 404);
    let all = opened(&api, &Target::matching("", "id=*").address(Act::DeadReplay), &globex).await;
    assert!(all.page.contains("Replay 0 dead letters"), "{}", all.page);
    let operator = signed_in(&api.router, "operator").await;
    let plan = opened(&api, &Target::matching("", "id=*").address(Act::DeadQuarantine), &operator).await;
    // A form of one session isn't one of another.
    assert_eq!(plan.press(&api, &globex).await.status, 403);
    let started = plan.with(&[("reason", "look")]).press(&api, &operator).await;
    let location = started.header("location").to_owned();
    assert_eq!(api.send(as_signed_in(&location, &globex)).await.status, 404);
    assert_eq!(api.send(as_signed_in(&location, &operator)).await.status, 200);
    assert_eq!(api.send(get(&location)).await.status, StatusCode::SEE_OTHER, "signed out, it leads to the form");
}

#[tokio::test]
async fn what_an_act_needs_is_what_its_route_needs() {
    let api = Api::open().await;
    let document = api.get("/openapi.json").await.json();
    let routes = [
        (Act::DeadReplay, "replayDeadLetter"),
        (Act::DeadEdit, "editDeadLetter"),
        (Act::DeadQuarantine, "quarantineDeadLetter"),
        (Act::DeadPurge, "startOperation"),
        (Act::MessageSend, "enqueue"),
        (Act::MessageCancel, "cancelMessage"),
        (Act::MessageReschedule, "rescheduleMessage"),
        (Act::TransportPause, "pauseTransport"),
        (Act::TransportResume, "resumeTransport"),
        (Act::TransportProbe, "probeTransport"),
        (Act::SagaStart, "startSaga"),
        (Act::SagaPause, "pauseSaga"),
        (Act::SagaResume, "resumeSaga"),
        (Act::SagaCancel, "cancelSaga"),
        (Act::SagaRetry, "retrySaga"),
        (Act::SagaSkip, "skipSagaStep"),
        (Act::SagaAccept, "acceptSaga"),
        (Act::SagaKill, "killSaga"),
        (Act::SagaSignal, "signalSaga"),
        (Act::SagaApprove, "approveSagaStep"),
        (Act::SagaReject, "rejectSagaStep"),
        (Act::PluginReload, "reloadPlugin"),
        (Act::PluginRollback, "rollBackPlugin"),
        (Act::SourcePause, "pauseSource"),
        (Act::SourceResume, "resumeSource"),
        (Act::RowsReplay, "replayFailedRows"),
        (Act::RelayPause, "pauseRelay"),
        (Act::RelayResume, "resumeRelay"),
        (Act::RelaySeek, "seekRelay"),
        (Act::StreamAppend, "appendEvents"),
        (Act::StreamPurge, "purgeStream"),
        (Act::KeyRelease, "forgetKey"),
        (Act::OperationCancel, "cancelOperation"),
        (Act::ConfigurationReload, "reloadConfiguration"),
    ];
    assert_eq!(routes.map(|(act, _)| act), Act::ALL);
    let paths = document["paths"].as_object().unwrap();
    let operations = || paths.values().flat_map(|path| path.as_object().unwrap().values());
    for (act, route) in routes {
        let operation = operations().find(|operation| operation["operationId"] == route);
        let permission = operation.unwrap_or_else(|| panic!("{route}"))["x-waybill-permission"].clone();
        let needed = format!("{:?}", act.about().right).to_lowercase();
        assert_eq!(permission, needed, "{act:?}");
    }
}
