//! The page at `/ui`: what every view answers, what is refused, who is signed in. How it looks in a browser is tested elsewhere.

use axum::body::Body;
use http::Request;
use waybill_core::annotation::Annotation;
use waybill_core::annotations::Annotations;
use waybill_core::new_message::NewMessage;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::port::transport::{Fault, Outcome};
use waybill_server::auth::{Role, Tokens};
use waybill_server::limits::Limits;
use waybill_server::server::{Parts, Server};
use waybill_server::tls::Encryption;
use waybill_server::ui::{BasePath, Environment, TraceUrl};
use waybill_testkit::memory_host::message;

use crate::support::{Answer, Api, full_message, get, host, of, parts, send, token, with};

/// Views that every host of these tests has.
const VIEWS: [&str; 19] = [
    "/ui",
    "/ui/messages",
    "/ui/dead-letters",
    "/ui/sagas",
    "/ui/blocked",
    "/ui/inbox",
    "/ui/inbox?consumer=ship&id=waits",
    "/ui/idempotency",
    "/ui/approvals",
    "/ui/streams",
    "/ui/stream?name=task",
    "/ui/relay?name=bus",
    "/ui/plugins",
    "/ui/plugin?name=bus",
    "/ui/plugin?name=bus&show=log",
    "/ui/help/OUTBOX.BUSY",
    "/ui/audit",
    "/ui/configuration",
    "/ui/configuration?compare=now",
];

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// What a page must not hold as it is, and what would be of another host.
#[track_caller]
pub fn is_clean(answer: &Answer, path: &str) {
    let text = &answer.text;
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8", "{path}: {text}");
    assert_eq!(answer.header("content-security-policy"), POLICY, "{path}");
    assert_eq!(answer.header("referrer-policy"), "same-origin", "{path}");
    assert_eq!(text.matches("<h1").count(), 1, "{path}: {text}");
    for refused in ["<script>", " style=", "onclick", "\u{202e}", "\0", "src=\"http", "href=\"http", "action=\"http"] {
        assert!(!text.contains(refused), "{path} has {refused:?}: {text}");
    }
}

/// A host with a message, a dead letter and a saga in every state that is hostile.
pub async fn hostile() -> Api {
    let host = host().await;
    let error = Fault::new("HTTP.400", "<script>alert(1)</script> \u{202e}123");
    let mut dead = full_message("d-1");
    dead.payload = "{\"note\":\"<script>alert(2)</script> \u{202e}\",\"n\":9007199254740993}".into();
    host.sent(dead, [Outcome::Permanent(error)]).await;
    host.delivered(message("m-1")).await;
    host.held(message("m-2"), "https://held.example").await;
    host.stuck_saga("default", "order-1").await;
    host.waiting_saga("default", "order-2").await;
    Api::over(host, None, Limits::default())
}

#[tokio::test]
async fn every_view_answers_with_its_policy_and_nothing_of_others_is_html() {
    let api = hostile().await;
    let further = [
        "/ui/message?id=d-1",
        "/ui/message?id=d-1&show=raw",
        "/ui/message?id=d-1&show=headers",
        "/ui/message?id=m-1&tenant=default",
        "/ui/saga?id=order-1",
        "/ui/saga?id=order-2",
        "/ui/messages?sort=state",
    ];
    for path in VIEWS.into_iter().chain(further) {
        let answer = api.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        is_clean(&answer, path);
        assert!(answer.text.contains("class=\"cmd\""), "{path} has no command line");
    }
    let dead = api.get("/ui/message?id=d-1").await.text;
    for part in ["&lt;script&gt;alert(2)", "U+202E", "9007199254740993", "<code>", "waybill dead show d-1"] {
        assert!(dead.contains(part), "{part}: {dead}");
    }
    let list = api.get("/ui/dead-letters").await.text;
    assert!(list.contains("HTTP.400") && list.contains("By cause") && list.contains("order-1"), "{list}");
    let stuck = api.get("/ui/saga?id=order-1").await.text;
    assert!(stuck.contains("Ways out") && stuck.contains("--step reserve"), "{stuck}");
    let overview = api.get("/ui").await.text;
    assert!(overview.contains("no sign-in") && overview.contains("What needs you"), "{overview}");
}

#[tokio::test]
async fn a_view_of_an_empty_host_says_how_to_fill_it_and_a_filter_without_a_match_says_so() {
    let api = Api::open().await;
    assert!(api.get("/ui/messages").await.text.contains("waybill send --topic"));
    assert!(api.get("/ui/sagas").await.text.contains("No saga yet"));
    let none = api.get("/ui/messages?filter=key%3D%3Cscript%3E").await;
    is_clean(&none, "a filter");
    assert!(none.text.contains("No message matches"), "{}", none.text);
    let unread = api.get("/ui/messages?filter=agee%3C1h").await;
    assert!(unread.status == 200 && unread.text.contains("agee"), "{}", unread.text);
    let elsewhere = api.get("/ui/messages?after=AAAA").await;
    assert!(elsewhere.text.contains("the cursor isn’t one") || elsewhere.text.contains("cursor isn't one"));
}

#[tokio::test]
async fn a_long_list_goes_on_with_a_cursor() {
    let api = Api::open().await;
    for number in 0..60 {
        api.host.delivered(message(&format!("m-{number}"))).await;
    }
    let first = api.get("/ui/messages").await.text;
    let older = first.split("href=\"").find(|part| part.contains("after=")).unwrap();
    let older = older.split('"').next().unwrap().replace("&amp;", "&");
    let second = api.get(&older).await;
    assert!(second.text.contains("10 shown"), "{}", second.text);
}

#[tokio::test]
async fn a_part_that_fails_leaves_the_others_and_tells_its_code_and_request() {
    let api = Api::open().await;
    *api.hindrance.fails.lock() = Some(ServiceError::Store(StoreError::DiskFull("no room".into())));
    let answer = api.get("/ui").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    is_clean(&answer, "/ui");
    let id = answer.header("x-request-id").to_owned();
    for part in ["STORAGE.DISK_FULL", "Transports", "Try now", &id] {
        assert!(answer.text.contains(part), "{part}: {}", answer.text);
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_page_too() {
    let api = Api::open().await;
    for path in ["/ui/nowhere", "/ui/assets/page.0.css", "/ui/message?id=gone", "/ui/saga?id=gone", "/ui/saga?id=.."] {
        let answer = api.get(path).await;
        assert!(answer.status == 404 || answer.status == 400, "{path}: {}", answer.status);
        is_clean(&answer, path);
    }
    let without = Parts { ui: None, ..parts(&api.host, &api.hindrance, None, Limits::default()) };
    let none = send(&Server::new(without).router(), get("/ui")).await;
    assert_eq!(none.problem(), (404, "HTTP.NOT_FOUND".into()));
}

#[tokio::test]
async fn style_and_script_are_kept_under_the_address_of_their_content() {
    use tower::ServiceExt as _;
    let api = Api::open().await;
    let page = api.get("/ui").await.text;
    let assets: Vec<&str> = page.split('"').filter(|part| part.starts_with("/ui/assets/")).collect();
    assert_eq!(assets.len(), 3, "{assets:?}");
    for path in assets {
        let answer = api.router.clone().oneshot(get(path)).await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.headers()["cache-control"], "public, max-age=31536000, immutable", "{path}");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff", "{path}");
    }
}

#[tokio::test]
async fn the_search_goes_to_what_has_this_id_and_else_filters() {
    let api = hostile().await;
    for (typed, to) in [
        ("m-1", "/ui/message?tenant=default&id=m-1"),
        ("order-1", "/ui/saga?tenant=default&id=order-1"),
        ("nobody", "/ui/messages?filter=key%3Dnobody"),
        ("state%3Ddone", "/ui/messages?filter=state%3Ddone"),
        ("", "/ui/messages"),
    ] {
        let answer = api.get(&format!("/ui/find?q={typed}")).await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (303, to), "{typed}");
    }
}

/// A form of a browser.
pub fn form(path: &str, fields: &[(&str, &str)], cookie: &str) -> Request<Body> {
    let body = fields.iter().map(|(name, value)| format!("{name}={}", value.replace('&', "%26"))).collect::<Vec<_>>();
    Request::post(path)
        .header("host", "localhost:7070")
        .header("origin", "http://localhost:7070")
        .header("cookie", cookie)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(body.join("&")))
        .unwrap()
}

pub fn as_signed_in(path: &str, cookie: &str) -> Request<Body> {
    with(get(path), "cookie", cookie)
}

/// The hidden token of a page's form.
pub fn form_token(page: &str) -> String {
    let from = page.split("name=\"form\" value=\"").nth(1).unwrap_or_else(|| panic!("no form: {page}"));
    from.split('"').next().unwrap().to_owned()
}

/// Signs in, and answers with the cookie.
pub async fn signed_in(router: &axum::Router, name: &str) -> String {
    let page = send(router, get("/ui/sign-in")).await.text;
    let door = form_token(&page);
    let fields = [("form", &*door), ("to", "/ui/audit"), ("token", name)];
    let answer = send(router, form("/ui/sign-in", &fields, "")).await;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (303, "/ui/audit"), "{}", answer.text);
    let cookie = answer.header("set-cookie");
    assert!(cookie.starts_with("waybill=") && cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

pub async fn with_tokens() -> Api {
    let tokens = vec![
        token("admin", &["*"], &[Role::Admin]),
        token("viewer", &["acme"], &[Role::Viewer]),
        token("two", &["acme", "globex"], &[Role::Operator]),
    ];
    Api::with(Some(tokens), Limits::default()).await
}

#[tokio::test]
async fn without_a_session_every_view_leads_to_the_form_and_back() {
    let api = with_tokens().await;
    let answer = api.get("/ui/message?id=a%26b&tenant=acme").await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.header("location"), "/ui/sign-in?to=%2Fui%2Fmessage%3Fid%3Da%2526b%26tenant%3Dacme");
    let page = api.get(answer.header("location")).await;
    is_clean(&page, "the form");
    assert!(page.text.contains("value=\"/ui/message?id=a%26b&amp;tenant=acme\""), "{}", page.text);
    for path in VIEWS {
        assert_eq!(api.get(path).await.status, 303, "{path}");
    }
    assert!(api.reached().is_empty());
}

#[tokio::test]
async fn a_token_begins_a_session_that_may_what_it_may() {
    let api = with_tokens().await;
    api.host.delivered(of("acme", message("of-acme"))).await;
    api.host.delivered(of("globex", message("of-globex"))).await;
    let viewer = signed_in(&api.router, "viewer").await;
    let list = api.send(as_signed_in("/ui/messages", &viewer)).await;
    is_clean(&list, "a viewer's list");
    assert!(list.text.contains("of-acme") && !list.text.contains("of-globex"), "{}", list.text);
    assert!(list.text.contains("signed in as"), "{}", list.text);
    for (path, status) in [
        ("/ui/audit", 403),
        ("/ui/configuration", 403),
        ("/ui/message?id=of-globex&tenant=globex", 404),
        ("/ui/message?id=of-acme", 200),
    ] {
        let answer = api.send(as_signed_in(path, &viewer)).await;
        assert_eq!(answer.status.as_u16(), status, "{path}: {}", answer.text);
        is_clean(&answer, path);
    }
    let refused = api.send(as_signed_in("/ui/messages?tenant=globex", &viewer)).await.text;
    assert!(refused.contains("AUTH.TENANT") && !refused.contains("of-globex"), "{refused}");
    let role = api.send(as_signed_in("/ui/audit", &viewer)).await.text;
    assert!(role.contains("AUTH.ROLE") && role.contains("operator"), "{role}");
    // One of several tenants is looked at, and the other is a link away.
    let two = signed_in(&api.router, "two").await;
    let first = api.send(as_signed_in("/ui/messages", &two)).await.text;
    assert!(first.contains("of-acme") && !first.contains("of-globex") && first.contains("tenant=globex"), "{first}");
    let second = api.send(as_signed_in("/ui/messages?tenant=globex", &two)).await.text;
    assert!(second.contains("of-globex") && !second.contains("of-acme"), "{second}");
    // The cookie is for the page alone.
    let of_api = api.send(as_signed_in("/v1/messages", &viewer)).await;
    assert_eq!(of_api.problem(), (401, "AUTH.REQUIRED".into()));
}

#[tokio::test]
async fn a_form_that_is_not_of_the_page_begins_and_ends_nothing() {
    let api = with_tokens().await;
    let token = form_token(&api.get("/ui/sign-in").await.text);
    let good = [("form", &*token), ("token", "admin")];
    let foreign = with(form("/ui/sign-in", &good, ""), "origin", "https://evil.example");
    let cross = with(form("/ui/sign-in", &good, ""), "sec-fetch-site", "cross-site");
    let mut silent = form("/ui/sign-in", &good, "");
    silent.headers_mut().remove("origin");
    let unsigned = form("/ui/sign-in", &[("form", "guessed"), ("token", "admin")], "");
    for request in [foreign, cross, silent, unsigned] {
        let answer = api.send(request).await;
        assert_eq!(answer.status, 403, "{}", answer.text);
        assert!(answer.headers.get("set-cookie").is_none() && answer.text.contains("AUTH.ORIGIN"), "{}", answer.text);
    }
    let wrong = api.send(form("/ui/sign-in", &[("form", &*token), ("token", "<script>")], "")).await;
    assert!(wrong.status == 401 && wrong.text.contains("AUTH.REQUIRED"), "{}", wrong.text);
    is_clean(&wrong, "a wrong token");
    // Out goes who means it.
    let cookie = signed_in(&api.router, "admin").await;
    let view = api.send(as_signed_in("/ui/plugins", &cookie)).await.text;
    assert_eq!(api.send(form("/ui/sign-out", &[("form", "guessed")], &cookie)).await.status, 403);
    assert_eq!(api.send(as_signed_in("/ui/plugins", &cookie)).await.status, 200);
    let out = api.send(form("/ui/sign-out", &[("form", &*form_token(&view))], &cookie)).await;
    assert_eq!((out.status.as_u16(), out.header("location")), (303, "/ui/sign-in"));
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(api.send(as_signed_in("/ui/plugins", &cookie)).await.status, 303);
}

#[tokio::test]
async fn a_session_goes_with_its_token() {
    let host = host().await;
    let known = Tokens::new(vec![token("ops", &["*"], &[Role::Admin])]).unwrap();
    let parts = Parts { auth: Some(known.clone()), ..parts(&host, &Default::default(), None, Limits::default()) };
    let router = Server::new(parts).router();
    let cookie = signed_in(&router, "ops").await;
    assert_eq!(send(&router, as_signed_in("/ui", &cookie)).await.status, 200);
    known.put_in_force(&Tokens::new(vec![token("other", &["*"], &[Role::Admin])]).unwrap());
    assert_eq!(send(&router, as_signed_in("/ui", &cookie)).await.status, 303);
}

#[tokio::test]
async fn where_what_is_typed_could_be_read_there_is_no_form() {
    let api = with_tokens().await;
    let elsewhere = |request| with(request, "host", "waybill.example");
    let page = api.send(elsewhere(get("/ui/sign-in"))).await;
    is_clean(&page, "clear text");
    assert!(page.text.contains("TLS is needed") && !page.text.contains("type=\"password\""), "{}", page.text);
    let token = form_token(&api.get("/ui/sign-in").await.text);
    let posted =
        with(form("/ui/sign-in", &[("form", &*token), ("token", "admin")], ""), "origin", "http://waybill.example");
    let posted = api.send(elsewhere(posted)).await;
    assert!(posted.status == 403 && posted.headers.get("set-cookie").is_none(), "{}", posted.text);
    // Behind a proxy that speaks TLS the cookie is one that browsers send over TLS alone.
    let tokens = Some(vec![crate::support::token("ops", &["*"], &[Role::Admin])]);
    let parts = parts(&api.host, &api.hindrance, tokens, Limits::default());
    let router = Server::new(Parts { encryption: Encryption::Proxy, ..parts }).router();
    let door = form_token(&send(&router, elsewhere(get("/ui/sign-in"))).await.text);
    let posted =
        with(form("/ui/sign-in", &[("form", &*door), ("token", "ops")], ""), "origin", "https://waybill.example");
    let cookie = send(&router, elsewhere(posted)).await.header("set-cookie").to_owned();
    assert!(cookie.starts_with("__Host-waybill="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; HttpOnly; Secure; SameSite=Lax"), "{cookie}");
}

#[tokio::test]
async fn without_tokens_there_is_no_sign_in_and_pages_of_other_sites_see_nothing() {
    let api = Api::open().await;
    let page = api.get("/ui/sign-in").await;
    assert!(page.text.contains("There is no sign-in here") && !page.text.contains("type=\"password\""));
    let foreign = api.send(with(get("/ui"), "host", "evil.example")).await;
    assert_eq!(foreign.status, 421, "{}", foreign.text);
    is_clean(&foreign, "a foreign name");
}

#[tokio::test]
async fn behind_a_proxy_with_a_path_of_its_own_every_way_leads_through_it() {
    let api = hostile().await;
    let tokens = Some(vec![token("ops", &["*"], &[Role::Admin])]);
    let base_path = BasePath::new("/ops").unwrap();
    let ui = Some(Environment { base_path, ..Environment::default() });
    let parts = Parts { ui, ..parts(&api.host, &api.hindrance, tokens, Limits::default()) };
    let router = Server::new(parts).router();
    let answer = send(&router, get("/ui/messages")).await;
    assert_eq!(answer.header("location"), "/ops/ui/sign-in?to=%2Fui%2Fmessages");
    let page = send(&router, get("/ui/sign-in?to=%2Fui%2Fmessages")).await.text;
    assert!(page.contains("action=\"/ops/ui/sign-in\"") && page.contains("value=\"/ui/messages\""), "{page}");
    let fields = [("form", &*form_token(&page)), ("to", "/ui/messages"), ("token", "ops")];
    let answer = send(&router, form("/ui/sign-in", &fields, "")).await;
    assert_eq!(answer.header("location"), "/ops/ui/messages");
    let bare = send(&router, with(get("/"), "accept", "text/html")).await;
    assert_eq!(bare.header("location"), "/ops/ui");
    let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
    let nothing = send(&router, as_signed_in("/ui/nothing", &cookie)).await;
    assert!(nothing.status == 404 && !nothing.text.contains("=\"/ui"), "{}", nothing.text);
    for path in VIEWS {
        let page = send(&router, as_signed_in(path, &cookie)).await.text;
        assert!(!page.contains("href=\"/ui") && page.contains("data-source=\"/ops/ui/live"), "{path}: {page}");
    }
}

#[tokio::test]
async fn a_trace_is_a_link_where_it_is_known_to_what() {
    let api = Api::open().await;
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let annotations = Annotations::default().with(Annotation::Traceparent, traceparent);
    api.host.delivered(NewMessage { annotations, ..message("m-1") }).await;
    let plain = api.get("/ui/message?id=m-1").await.text;
    assert!(plain.contains(traceparent) && !plain.contains("href=\"http"), "{plain}");
    let trace_url = TraceUrl::new("https://traces.example/t/{trace_id}");
    let ui = Some(Environment { trace_url, ..Environment::default() });
    let parts = Parts { ui, ..parts(&api.host, &api.hindrance, None, Limits::default()) };
    let linked = send(&Server::new(parts).router(), get("/ui/message?id=m-1")).await.text;
    assert!(linked.contains("href=\"https://traces.example/t/4bf92f3577b34da6a3ce929d0e0e4736\""), "{linked}");
}
