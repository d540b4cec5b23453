//! What the page makes of input that can't be meant: each view says so as a page, with the right status, and nothing is changed.

use http_body_util::BodyExt;
use tower::ServiceExt;
use waybill_core::port::service::MessageState;
use waybill_page::acts::{Act, Target};
use waybill_page::address;
use waybill_server::auth::{Role, Tokens};
use waybill_server::limits::Limits;
use waybill_server::server::{Parts, Server};
use waybill_testkit::memory_host::message;

use crate::page::{as_signed_in, form, form_token, is_clean, signed_in};
use crate::page_hostile::corpus;
use crate::page_markup::is_harmless;
use crate::page_roles::targets;
use crate::page_world::{done_beside, written};
use crate::support::{Api, host, of, parts, post, send, token, with};

/// Every view with the members that its address takes; what stands before them makes it one that takes them.
const ADDRESSES: [(&str, &[&str]); 26] = [
    ("/ui", &["tenant", "colour"]),
    ("/ui/messages", &["tenant", "filter", "sort", "after", "colour"]),
    ("/ui/message", &["tenant", "id", "show", "kind", "colour"]),
    ("/ui/message?id=d-1", &["tenant", "show", "kind"]),
    ("/ui/dead-letters", &["tenant", "filter", "sort", "after"]),
    ("/ui/sagas", &["tenant", "filter", "sort", "after"]),
    ("/ui/saga", &["tenant", "id"]),
    ("/ui/saga?id=s-1", &["tenant", "show"]),
    ("/ui/blocked", &["tenant", "kind"]),
    ("/ui/inbox", &["tenant", "filter", "after", "id", "consumer"]),
    ("/ui/inbox?consumer=ship", &["id", "tenant"]),
    ("/ui/idempotency", &["tenant", "filter", "after", "key"]),
    ("/ui/approvals", &["tenant", "after", "filter"]),
    ("/ui/streams", &["tenant", "prefix", "after"]),
    ("/ui/stream", &["tenant", "name"]),
    ("/ui/stream?name=task", &["tenant", "from"]),
    ("/ui/relay", &["name", "tenant"]),
    ("/ui/relay?name=bus", &["tenant"]),
    ("/ui/plugin?name=bus", &["show", "after"]),
    ("/ui/plugin", &["name"]),
    ("/ui/plan", &["act", "id", "filter", "colour"]),
    ("/ui/plan?act=dead-replay", &["tenant", "id", "filter", "before", "pick", "kind", "step", "stream"]),
    ("/ui/plan?act=message-send", &["tenant", "stream", "draft"]),
    ("/ui/plan?act=message-send&draft=a", &["show"]),
    ("/ui/operation", &["id"]),
    ("/ui/configuration", &["section", "compare"]),
    ("/ui/audit", &["tenant", "filter", "after"]),
    ("/ui/save?as=csv", &["list", "tenant", "filter", "sort", "as"]),
];

/// Lists with a filter.
const LISTS: [&str; 6] = ["/ui/messages", "/ui/dead-letters", "/ui/sagas", "/ui/inbox", "/ui/idempotency", "/ui/audit"];

/// An address with one more member.
fn with_member(path: &str, name: &str, value: &str) -> String {
    let member = address::with("", &[(name, value)]).replacen('?', if path.contains('?') { "&" } else { "?" }, 1);
    format!("{path}{member}")
}

/// A host with a dead letter and a saga that waits for a person.
async fn filled() -> Api {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    api.host.waiting_saga("default", "s-1").await;
    api
}

/// What there is and what was done.
async fn standing(api: &Api) -> String {
    let mut all = String::new();
    for list in ["messages", "dead-letters", "sagas", "idempotency", "operations", "audit"] {
        all.push_str(&api.get(&format!("/v1/{list}?limit=1000")).await.text);
    }
    all
}

#[tokio::test]
async fn any_text_in_any_member_of_an_address_is_answered_by_a_page_and_changes_nothing() {
    let api = filled().await;
    let before = standing(&api).await;
    done_beside(&api);
    for (path, members) in ADDRESSES {
        for member in members {
            for text in corpus() {
                let path = with_member(path, member, &text);
                let answer = api.get(&path).await;
                is_harmless(&answer, &path);
                let status = answer.status.as_u16();
                assert!(matches!(status, 200 | 400 | 404 | 414 | 431), "{path}: {status} {}", answer.text);
            }
        }
    }
    for text in corpus() {
        let path = with_member(address::FIND, "q", &text);
        let answer = api.get(&path).await;
        assert_eq!(answer.status, 303, "{path}: {}", answer.text);
        assert!(answer.header("location").starts_with("/ui/messages"), "{path}: {answer:?}");
        let path = with_member(address::ANSWER, "key", &text);
        let answer = api.get(&path).await;
        is_harmless(&answer, &path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.text);
        // Behind the form nobody goes elsewhere.
        let path = with_member(address::SIGN_IN, "to", &text);
        is_harmless(&api.get(&path).await, &path);
    }
    for path in ["/ui/help/..", "/ui/help/%00", "/ui/help/%E2%80%AE", "/ui/%3Cscript%20zq%3E", "/ui/..%2F..%2Fetc"] {
        let answer = api.get(path).await;
        is_harmless(&answer, path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.text);
    }
    assert_eq!(standing(&api).await, before);
    assert_eq!(done_beside(&api), [""; 0]);
}

#[tokio::test]
async fn a_filter_that_cannot_be_read_is_told_beside_the_list_in_every_list() {
    let api = filled().await;
    for list in LISTS {
        for (filter, word) in
            [("agee=1h", "there is no field"), ("colour=red", "there is no field"), (&*"w".repeat(5_000), "5000 bytes")]
        {
            let path = with_member(list, "filter", filter);
            let answer = api.get(&path).await;
            is_harmless(&answer, &path);
            assert_eq!(answer.status, 200, "{path}: {}", answer.text);
            let is_kept = answer.text.contains("name=\"filter\"");
            assert!(answer.text.contains(word) && is_kept, "{path}: {}", answer.text);
            let name = list.trim_start_matches("/ui/");
            let file = with_member(&format!("/ui/save?list={name}&as=csv"), "filter", filter);
            let refused = api.get(&file).await;
            is_harmless(&refused, &file);
            assert_eq!(refused.status, 400, "{file}: {}", refused.text);
        }
    }
}

#[tokio::test]
async fn a_cursor_that_is_none_is_told_beside_the_list_in_every_list() {
    let api = filled().await;
    for list in LISTS.into_iter().chain(["/ui/approvals", "/ui/streams"]) {
        for cursor in ["AAAA", "..", "\0", "\u{202e}", "zq", &*"A".repeat(2_000)] {
            let path = with_member(list, "after", cursor);
            let answer = api.get(&path).await;
            is_harmless(&answer, &path);
            assert_eq!(answer.status, 200, "{path}: {}", answer.text);
            assert!(answer.text.contains("isn't one of this list"), "{path}: {}", answer.text);
        }
    }
}

#[tokio::test]
async fn no_act_is_done_by_a_form_that_the_page_did_not_make() {
    let api = filled().await;
    let before = standing(&api).await;
    done_beside(&api);
    for act in Act::ALL {
        for target in targets(act, "d-1") {
            let path = target.address(act);
            let typed = act.typed(&target, target.is_many().then_some(1)).unwrap_or_default();
            for token in [None, Some(""), Some("guessed"), Some("<script zq>")] {
                let mut fields = vec![("press", "k"), ("count", "1"), ("typed", &*typed)];
                fields.extend(token.map(|token| ("form", token)));
                fields.extend(written(act));
                let answer = api.send(form(&path, &fields, "")).await;
                is_harmless(&answer, &path);
                assert!(answer.status == 403 && answer.text.contains("AUTH.ORIGIN"), "{path}: {}", answer.text);
            }
            // Good as it may be, it isn't a form.
            let json = with(post(&path, "{}"), "origin", "http://localhost:7070");
            let answer = api.send(json).await;
            is_harmless(&answer, &path);
            assert_eq!(answer.status, 415, "{path}: {}", answer.text);
        }
    }
    assert_eq!(standing(&api).await, before);
    assert_eq!(done_beside(&api), [""; 0]);
}

#[tokio::test]
async fn a_form_whose_members_cannot_be_read_does_nothing_and_comes_again() {
    let api = filled().await;
    let own = form_token(&api.get("/ui/plan?act=dead-replay&id=d-1").await.text);
    let many = Target::matching("default", "id=*");
    let (one, saga) = (Target::one("default", "d-1"), Target::one("default", "s-1"));
    let before = standing(&api).await;
    let scheduled = Target::one("default", "later");
    for (number, (act, target, name, value)) in [
        (Act::DeadReplay, &many, "count", ""),
        (Act::DeadReplay, &many, "count", "-1"),
        (Act::DeadReplay, &many, "count", "1e999"),
        (Act::DeadReplay, &many, "rate", "99999999999999999999999"),
        (Act::DeadReplay, &many, "trial", "zq"),
        (Act::DeadPurge, &many, "typed", "2"),
        (Act::DeadPurge, &many, "typed", "\u{202e}1"),
        (Act::DeadQuarantine, &one, "reason", ""),
        (Act::MessageReschedule, &scheduled, "at", "yesterday"),
        (Act::SagaSignal, &saga, "signal", "a b"),
        (Act::SagaSignal, &saga, "data", "{"),
        (Act::SagaSkip, &saga, "step", "no such step"),
        (Act::SagaKill, &saga, "typed", "s-2"),
    ]
    .into_iter()
    .enumerate()
    {
        let (path, key) = (target.address(act), format!("key-{number}"));
        let mut fields = vec![("form", &*own), ("press", &*key), (name, value)];
        let mut further = written(act);
        further.push(("count", "1"));
        further.retain(|(further, _)| *further != name);
        fields.extend(further);
        let answer = api.send(form(&path, &fields, "")).await;
        is_harmless(&answer, &path);
        assert!(answer.status.is_client_error(), "{act:?} {name}={value}: {} {}", answer.status, answer.text);
        assert!(answer.text.contains("Nothing was done"), "{act:?} {name}={value}: {}", answer.text);
    }
    assert_eq!(standing(&api).await, before);
}

#[tokio::test]
async fn a_session_whose_token_was_taken_away_does_and_hears_nothing() {
    let host = host().await;
    host.dead(of("acme", message("d-1"))).await;
    let known = Tokens::new(vec![token("ops", &["*"], &[Role::Admin])]).unwrap();
    let parts = Parts { auth: Some(known.clone()), ..parts(&host, &Default::default(), None, Limits::default()) };
    let router = Server::new(parts).router();
    let cookie = signed_in(&router, "ops").await;
    let path = Target::one("acme", "d-1").address(Act::DeadReplay);
    let plan = send(&router, as_signed_in(&path, &cookie)).await;
    is_clean(&plan, &path);
    let token_of_form = form_token(&plan.text);
    known.put_in_force(&Tokens::new(vec![token("other", &["*"], &[Role::Admin])]).unwrap());
    let fields = [("form", &*token_of_form), ("press", "k"), ("reason", "because")];
    let pressed = send(&router, form(&path, &fields, &cookie)).await;
    assert_eq!(pressed.status, 303, "{}", pressed.text);
    assert!(pressed.header("location").starts_with("/ui/sign-in?to="), "{pressed:?}");
    assert_eq!(host.view("acme", "d-1").await.state, MessageState::Dead);
    for path in ["/ui/answer?key=k", "/ui/save?list=messages&as=csv", "/ui/find?q=d-1"] {
        let answer = send(&router, as_signed_in(path, &cookie)).await;
        assert_eq!(answer.status, 303, "{path}: {}", answer.text);
        assert!(answer.header("location").starts_with("/ui/sign-in?to="), "{path}: {answer:?}");
    }
    let live = router.clone().oneshot(as_signed_in("/ui/live?view=overview", &cookie)).await.unwrap();
    let heard = live.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&*heard, b"event: end\ndata: signed out\n\n");
    // A cookie that never was one is none.
    for forged in ["waybill=", "waybill=zq", "waybill=%00", "other=1"] {
        assert_eq!(send(&router, as_signed_in("/ui", forged)).await.status, 303, "{forged}");
    }
}
