//! What an open page is told while it is looked at.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;
use waybill_server::auth::Role;
use waybill_server::limits::{CALLER_SHARE, LIVE_HEARTBEAT, LIVE_POLL, LIVE_READERS_MAX, Limits};
use waybill_testkit::memory_host::message;

use crate::live::{Live, PATIENCE};
use crate::page::{as_signed_in, form, form_token, signed_in};
use crate::support::{Api, get, of, token};

const SOURCE: &str = "/ui/live?view=overview";

/// What an open page hears, block by block.
struct Heard(Body);

impl Heard {
    async fn of(api: &Api, request: Request<Body>) -> Self {
        let response = api.router.clone().oneshot(request).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self(response.into_body())
    }

    /// The next block; none = it is over.
    async fn next(&mut self) -> Option<String> {
        let frame = tokio::time::timeout(PATIENCE, self.0.frame()).await.expect("a sign of life");
        let bytes = frame?.unwrap().into_data().unwrap();
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// The next message, behind any signs of life.
    async fn message(&mut self) -> Value {
        loop {
            let block = self.next().await.expect("it goes on");
            if block.starts_with("event: beat\n") {
                continue;
            }
            let data = block.split("data: ").nth(1).unwrap_or_else(|| panic!("{block}"));
            return serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {block}"));
        }
    }

    /// Messages until one has this number.
    async fn until(&mut self, name: &str, shown: &str) -> Value {
        loop {
            let message = self.message().await;
            if message["n"][name] == shown {
                return message;
            }
        }
    }
}

#[tokio::test]
async fn an_open_page_hears_all_numbers_at_once_and_then_what_changes() {
    let api = Api::open().await;
    let mut heard = Heard::of(&api, get(SOURCE)).await;
    let first = heard.message().await;
    assert_eq!((&first["n"]["ready"], &first["n"]["held"]), (&"0".into(), &"0".into()), "{first}");
    assert!(first["verdict"].is_string() && first["n"]["sagas-running"] == "0", "{first}");
    api.host.held(message("m-1"), "https://held.example").await;
    let changed = heard.until("held", "1").await;
    assert!(changed["n"].get("sagas-running").is_none(), "what is as it was isn't told again: {changed}");
}

#[tokio::test]
async fn while_nothing_changes_there_is_a_sign_of_life_and_no_row_is_read() {
    let api = Api::open().await;
    let mut heard = Heard::of(&api, get(SOURCE)).await;
    heard.message().await;
    let began = std::time::Instant::now();
    while heard.next().await.unwrap() != "event: beat\ndata: -\n\n" {}
    assert!(began.elapsed() < LIVE_HEARTBEAT * 2);
    let mut reached = api.reached();
    reached.retain(|asked| !matches!(*asked, "glance" | "blocked"));
    assert!(reached.is_empty(), "{reached:?}");
    drop(heard);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    api.reached();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(api.reached().is_empty(), "nobody looks any more");
}

#[tokio::test]
async fn one_page_too_many_hears_how_it_is_and_asks_again_later() {
    let api = Api::open().await;
    let mut open = Vec::new();
    for _ in 0..LIVE_READERS_MAX {
        open.push(Heard::of(&api, get(SOURCE)).await);
    }
    let mut further = Heard::of(&api, get(SOURCE)).await;
    let told = further.next().await.unwrap();
    assert!(told.starts_with(&format!("retry: {}\ndata: ", LIVE_POLL.as_millis())), "{told}");
    assert_eq!(further.next().await, None);
    // They cost what one does.
    for heard in &mut open {
        heard.message().await;
    }
    let looks = api.reached().iter().filter(|asked| **asked == "glance").count();
    assert!(looks < LIVE_READERS_MAX / 2, "{looks}");
    open.pop();
    let mut next = Heard::of(&api, get(SOURCE)).await;
    assert!(next.next().await.unwrap().starts_with("retry: 2000\n"));
}

#[tokio::test]
async fn no_tenant_takes_the_places_of_all_open_pages() {
    let api = with_tokens().await;
    let (viewer, admin) = (signed_in(&api.router, "viewer").await, signed_in(&api.router, "admin").await);
    let mut open = Vec::new();
    for _ in 0..LIVE_READERS_MAX / CALLER_SHARE {
        let mut heard = Heard::of(&api, as_signed_in(SOURCE, &viewer)).await;
        assert!(heard.next().await.unwrap().starts_with("retry: 2000\n"));
        open.push(heard);
    }
    let mut further = Heard::of(&api, as_signed_in(SOURCE, &viewer)).await;
    assert!(further.next().await.unwrap().starts_with(&format!("retry: {}\n", LIVE_POLL.as_millis())));
    assert_eq!(further.next().await, None);
    let mut other = Heard::of(&api, as_signed_in(SOURCE, &admin)).await;
    assert!(other.next().await.unwrap().starts_with("retry: 2000\n"), "another tenant's page has a place");
}

#[tokio::test]
async fn rows_that_came_since_a_list_was_read_are_told() {
    let api = Api::open().await;
    api.host.delivered(message("m-1")).await;
    let source = async |path: &str| {
        let page = api.get(path).await.text;
        let source = page.split("data-source=\"").nth(1).unwrap_or_else(|| panic!("{page}"));
        source.split('"').next().unwrap().replace("&amp;", "&")
    };
    let (all, filtered) = (source("/ui/messages").await, source("/ui/messages?filter=key%3D1").await);
    for path in ["/ui/messages?sort=state", "/ui/plugins"] {
        assert!(!source(path).await.contains("since="), "{path}");
    }
    api.host.delivered(message("m-2")).await;
    let told = Heard::of(&api, get(&all)).await.message().await;
    assert!(told["newer"].as_str().unwrap().starts_with("1 newer"), "{told}");
    let told = Heard::of(&api, get(&filtered)).await.message().await;
    assert!(told["newer"].as_str().unwrap().contains("which of them match"), "{told}");
}

async fn with_tokens() -> Api {
    let tokens = vec![token("admin", &["*"], &[Role::Admin]), token("viewer", &["acme"], &[Role::Viewer])];
    Api::with(Some(tokens), Limits::default()).await
}

#[tokio::test]
async fn a_token_of_one_tenant_hears_of_it_alone() {
    let api = with_tokens().await;
    api.host.held(of("globex", message("m-1")), "https://held.example").await;
    let viewer = signed_in(&api.router, "viewer").await;
    let told = Heard::of(&api, as_signed_in(SOURCE, &viewer)).await.message().await;
    assert_eq!((&told["n"]["ready"], &told["n"]["held"]), (&"0".into(), &"0".into()), "{told}");
    assert!(told["n"].get("sagas-running").is_none(), "{told}");
    let page = api.send(as_signed_in("/ui/messages", &viewer)).await.text;
    assert!(page.contains("data-source=") && !page.contains("since="), "all tenants are counted together");
    let admin = signed_in(&api.router, "admin").await;
    let told = Heard::of(&api, as_signed_in(SOURCE, &admin)).await.message().await;
    assert_eq!(told["n"]["held"], "1", "{told}");
    let foreign = api.send(as_signed_in("/ui/live?view=overview&tenant=globex", &viewer)).await;
    assert_eq!(foreign.status, 403);
}

#[tokio::test]
async fn the_navigation_says_how_many_call_for_somebody_as_far_as_they_may_see_it() {
    let api = with_tokens().await;
    api.host.held(of("globex", message("m-1")), "https://held.example").await;
    let admin = signed_in(&api.router, "admin").await;
    let page = api.send(as_signed_in("/ui/messages", &admin)).await.text;
    for part in ["data-live=\"nav-held\">1</b>", "data-live=\"nav-stuck\"></b>", "data-live=\"nav-dead\"></b>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let viewer = signed_in(&api.router, "viewer").await;
    let page = api.send(as_signed_in("/ui/messages", &viewer)).await.text;
    assert!(page.contains("data-live=\"nav-held\"></b>"), "{page}");
    assert!(!page.contains("nav-stuck") && !page.contains("nav-dead") && !page.contains("nav-approvals"), "{page}");
}

#[tokio::test]
async fn it_ends_with_the_session_and_nobody_else_hears_anything() {
    let api = with_tokens().await;
    let mut nobody = Heard::of(&api, get(SOURCE)).await;
    assert_eq!(nobody.next().await.as_deref(), Some("event: end\ndata: signed out\n\n"));
    assert_eq!(nobody.next().await, None);
    let cookie = signed_in(&api.router, "admin").await;
    let mut heard = Heard::of(&api, as_signed_in(SOURCE, &cookie)).await;
    heard.message().await;
    let page = api.send(as_signed_in("/ui", &cookie)).await.text;
    assert_eq!(api.send(form("/ui/sign-out", &[("form", &*form_token(&page))], &cookie)).await.status, 303);
    let last = loop {
        let block = heard.next().await.unwrap();
        if block.starts_with("event: end") {
            break block;
        }
    };
    assert_eq!(last, "event: end\ndata: signed out\n\n");
    assert_eq!(heard.next().await, None);
}

#[tokio::test]
async fn it_ends_when_the_host_stops() {
    let mut live = Live::start(Limits::default(), PATIENCE).await;
    let mut answer = reqwest::Client::new().get(live.url(SOURCE)).send().await.unwrap();
    assert!(answer.chunk().await.unwrap().is_some());
    live.stop();
    while answer.chunk().await.unwrap().is_some() {}
    assert_eq!(live.ended().await.cut, 0);
}
