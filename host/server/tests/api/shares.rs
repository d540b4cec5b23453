//! No caller has all places: requests, and those that wait.

use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use tower::ServiceExt;
use waybill_core::idempotency::Settings;
use waybill_core::new_message::NewMessage;
use waybill_core::port::service::ServiceError;
use waybill_server::auth::Role;
use waybill_server::limits::{CALLER_SHARE, Limits, TRANSACTIONS_MAX, WAITERS_SHARE};
use waybill_testkit::memory_host::message;

use crate::hindrance::Hindrance;
use crate::support::{Api, get, host_with, of, post, send, token, with};

const MESSAGE: &str = r#"{"topic":"bus:a","payload":1,"tenant":"acme"}"#;

fn by(name: &str, request: Request<Body>) -> Request<Body> {
    with(request, "authorization", &format!("Bearer {name}"))
}

/// Waits until the service was asked so often.
async fn asked(hindrance: &Hindrance, count: usize) {
    while hindrance.count() < count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn one_tenant_cannot_take_every_place() {
    let tokens = vec![
        token("greedy", &["acme"], &[Role::Sender]),
        token("twin", &["acme"], &[Role::Viewer]),
        token("beside", &["acme", "b"], &[Role::Viewer]),
        token("other", &["b"], &[Role::Viewer]),
        token("everybody", &["*"], &[Role::Viewer]),
    ];
    let api = Api::with(Some(tokens), Limits { requests_max: 8, ..Limits::default() }).await;
    let gate = api.hindrance.shut();
    let share = 8 / CALLER_SHARE;
    let enqueue = || {
        let router = api.router.clone();
        tokio::spawn(async move { send(&router, by("greedy", post("/v1/messages", MESSAGE))).await })
    };
    let held: Vec<_> = (0..share).map(|_| enqueue()).collect();
    asked(&api.hindrance, share).await;
    let more = api.send(by("greedy", get("/v1/outbox/stats"))).await;
    assert_eq!(more.problem(), (429, "HTTP.SHARE".into()));
    assert_eq!(more.header("retry-after"), "1");
    assert!(more.json()["detail"].as_str().unwrap().contains("\"greedy\""));
    for name in ["twin", "beside"] {
        let refused = api.send(by(name, get("/v1/outbox/stats?tenant=acme"))).await;
        assert_eq!(
            refused.problem(),
            (429, "HTTP.SHARE".into()),
            "{name}: a token that names the tenant shares with it"
        );
    }
    for name in ["other", "everybody"] {
        assert_eq!(api.send(by(name, get("/v1/outbox/stats"))).await.status, 200, "{name}");
    }
    for _ in 0..share {
        gate.notify_one();
        tokio::task::yield_now().await;
    }
    for held in held {
        assert_eq!(held.await.unwrap().status, 201);
    }
    assert_eq!(api.send(by("greedy", get("/v1/outbox/stats"))).await.status, 200);
}

/// Who begins work, goes away and begins more has no more at work than its share.
#[tokio::test]
async fn work_keeps_its_place_when_its_caller_goes_away() {
    const WORK: &str = r#"{"statements":[{"query":"RETURN 1"}]}"#;
    for (name, asked_for) in [
        ("impatient", post("/v1/transactions", WORK)),
        ("impatient", with(post("/v1/transactions", WORK), "idempotency-key", "k-1")),
        ("impatient", post("/v1/messages", MESSAGE)),
    ] {
        let tokens = vec![token(name, &["acme"], &[Role::Transactor, Role::Sender])];
        let api = Api::with(Some(tokens), Limits { requests_max: CALLER_SHARE, ..Limits::default() }).await;
        let gate = api.hindrance.shut();
        let router = api.router.clone();
        let gone = tokio::spawn(async move { send(&router, by(name, asked_for)).await.status });
        asked(&api.hindrance, 1).await;
        gone.abort();
        assert!(gone.await.is_err_and(|ended| ended.is_cancelled()));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let refused = api.send(by(name, get("/v1/whoami"))).await;
        assert_eq!(refused.problem(), (429, "HTTP.SHARE".into()), "the work goes on");
        gate.notify_one();
        let freed = async {
            while api.send(by(name, get("/v1/whoami"))).await.status != 200 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), freed).await.expect("the place wasn't given back");
    }
}

/// The same when its time is over.
#[tokio::test(start_paused = true)]
async fn work_keeps_its_place_when_its_time_is_over() {
    let limits = Limits { requests_max: 1, request_timeout: Duration::from_secs(3), ..Limits::default() };
    let api = Api::with(None, limits).await;
    let gate = api.hindrance.shut();
    let answer = api.post("/v1/transactions", r#"{"statements":[{"query":"RETURN 1"}]}"#).await;
    assert_eq!(answer.problem(), (504, "TX.TIMEOUT".into()));
    assert_eq!(api.get("/v1/whoami").await.problem(), (503, "HTTP.OVERLOADED".into()));
    gate.notify_one();
    while api.get("/v1/whoami").await.status != 200 {
        tokio::task::yield_now().await;
    }
}

const STATEMENTS: &str = r#"{"statements":[{"query":"RETURN 1"}]}"#;

async fn transactors() -> Api {
    let tokens = ["greedy", "other"].map(|name| token(name, &[name], &[Role::Transactor, Role::Sender]));
    Api::with(Some(tokens.to_vec()), Limits::default()).await
}

/// Statements may take much memory: few run at once, and one tenant's leave room for another's.
#[tokio::test(start_paused = true)]
async fn transactions_with_statements_have_a_share_of_their_own() {
    let api = transactors().await;
    let gate = api.hindrance.shut();
    let transact = |name: &'static str| {
        let router = api.router.clone();
        tokio::spawn(async move { send(&router, by(name, post("/v1/transactions", STATEMENTS))).await })
    };
    let share = TRANSACTIONS_MAX / CALLER_SHARE;
    let mut held: Vec<_> = (0..share).map(|_| transact("greedy")).collect();
    asked(&api.hindrance, share).await;
    api.hindrance.open();
    api.reached();

    let refused = transact("greedy").await.unwrap();
    assert_eq!(refused.problem(), (429, "HTTP.SHARE".into()));
    assert_eq!((refused.header("retry-after"), &refused.json()["retryable"]), ("1", &true.into()));
    assert!(api.reached().is_empty(), "nothing was run");
    assert_eq!(transact("other").await.unwrap().status, 200, "another tenant has the rest");
    let alone = r#"{"messages":[{"topic":"bus:a","payload":1,"tenant":"greedy"}]}"#;
    let alone = api.send(by("greedy", post("/v1/transactions", alone))).await;
    assert_eq!(alone.status, 201, "messages alone need no place");

    held.push(transact("greedy"));
    tokio::task::yield_now().await;
    for _ in 0..share {
        gate.notify_one();
        tokio::task::yield_now().await;
    }
    for held in held {
        assert_eq!(held.await.unwrap().status, 200, "who waits goes on when a place comes back");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_gives_its_place_back_when_it_fails_and_when_its_caller_goes_away() {
    let api = transactors().await;
    let run = || api.send(by("greedy", post("/v1/transactions", STATEMENTS)));
    *api.hindrance.fails.lock() = Some(ServiceError::Busy { what: "queue", count: 1, count_max: 1 });
    for _ in 0..2 * TRANSACTIONS_MAX {
        assert_eq!(run().await.problem(), (429, "OUTBOX.BUSY".into()));
    }
    *api.hindrance.fails.lock() = None;
    api.reached();

    let gate = api.hindrance.shut();
    let share = TRANSACTIONS_MAX / CALLER_SHARE;
    let gone: Vec<_> = (0..share)
        .map(|_| {
            let router = api.router.clone();
            tokio::spawn(async move { send(&router, by("greedy", post("/v1/transactions", STATEMENTS))).await.status })
        })
        .collect();
    asked(&api.hindrance, share).await;
    api.hindrance.open();
    for gone in gone {
        gone.abort();
        assert!(gone.await.is_err_and(|ended| ended.is_cancelled()));
    }
    assert_eq!(run().await.problem(), (429, "HTTP.SHARE".into()), "the work goes on, and so does its memory");
    for _ in 0..share {
        gate.notify_one();
        tokio::task::yield_now().await;
    }
    for _ in 0..2 * TRANSACTIONS_MAX {
        assert_eq!(run().await.status, 200);
    }
}

/// Those that would wait past the share wait briefly, and past that they are answered at once: they take no place for twenty
/// seconds.
#[tokio::test(start_paused = true)]
async fn claims_that_wait_have_a_share_of_their_own() {
    let tokens = vec![token("worker", &["acme"], &[Role::Worker]), token("second", &["b"], &[Role::Worker])];
    let api = Api::with(Some(tokens), Limits { requests_max: 16, ..Limits::default() }).await;
    // Who asks first has what there may be read, for a second.
    api.send(by("worker", post("/v1/outbox/claim", r#"{"worker_id":"w"}"#))).await;
    api.reached();
    let claim_as = |name: &'static str, body: &'static str| {
        let router = api.router.clone();
        tokio::spawn(async move {
            let began = tokio::time::Instant::now();
            let answer = send(&router, by(name, post("/v1/outbox/claim", body))).await;
            (answer, began.elapsed())
        })
    };
    // There is nothing for those who wait.
    let claim = |name| claim_as(name, r#"{"worker_id":"w","topic":"bus:out.none","wait_ms":20000}"#);
    let share = 16 / WAITERS_SHARE / CALLER_SHARE;
    let waiting: Vec<_> = (0..share).map(|_| claim("worker")).collect();
    asked(&api.hindrance, share).await;
    let pausing: Vec<_> = (0..share).map(|_| claim("worker")).collect();
    asked(&api.hindrance, 2 * share).await;
    let (nothing, took) = claim("worker").await.unwrap();
    assert_eq!(took.as_secs(), 0, "both shares are taken");
    assert_eq!((nothing.status.as_u16(), nothing.header("retry-after")), (200, "1"), "it is told when to ask again");
    api.host.offered(of("acme", message("m-1")), "out.memory").await;
    let (found, took) = claim_as("worker", r#"{"worker_id":"w","wait_ms":20000}"#).await.unwrap();
    assert_eq!((found.json()["items"][0]["id"].as_str(), found.header("retry-after")), (Some("m-1"), ""));
    assert_eq!(took.as_secs(), 0);
    let (unhurried, _) = claim_as("worker", r#"{"worker_id":"w"}"#).await.unwrap();
    assert_eq!((unhurried.status.as_u16(), unhurried.header("retry-after")), (200, ""), "it didn't want to wait");
    let other = claim("second");
    for (claims, seconds) in [(pausing, 1), (waiting, 20), (vec![other], 20)] {
        for claim in claims {
            let (answer, took) = claim.await.unwrap();
            assert_eq!((answer.status.as_u16(), took.as_secs()), (200, seconds));
        }
    }
}

/// A message whose answer is a large one.
fn large_message() -> NewMessage {
    NewMessage { payload: format!("\"{}\"", "x".repeat(100 * 1024)).into(), ..message("large") }
}

/// Answers that nobody takes are bounded in bytes: of one tenant, and of all.
#[tokio::test]
async fn large_answers_that_are_not_taken_have_a_share() {
    let roles = [Role::Sender, Role::Transactor];
    let tokens =
        vec![token("greedy", &["acme"], &roles), token("other", &["b"], &roles), token("third", &["c"], &roles)];
    let host =
        host_with(|config| config.idempotency = Settings { result_bytes_max: 1 << 20, ..Settings::default() }).await;
    let api = Api::over(host, Some(tokens), Limits { answers_bytes_max: 256 * 1024, ..Limits::default() });
    for tenant in ["acme", "b", "c"] {
        api.host.delivered(of(tenant, large_message())).await;
    }
    api.host.delivered(of("acme", message("m-1"))).await;
    let large = |name| by(name, get("/v1/messages/large"));
    let unread = |name| api.router.clone().oneshot(large(name));
    let (first, second) = (unread("greedy").await.unwrap(), unread("other").await.unwrap());
    assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 200));
    let refused = api.send(large("greedy")).await;
    assert_eq!(refused.problem(), (429, "HTTP.SHARE".into()));
    assert_eq!((refused.header("retry-after"), &refused.json()["retryable"]), ("1", &true.into()));
    assert_eq!(api.send(by("greedy", get("/v1/messages/m-1"))).await.status, 200, "small ones need no room");

    // What was done isn't told as something to try again.
    let text = "x".repeat(100 * 1024);
    let body = format!(r#"{{"statements":[{{"query":"RETURN $text","bindings":{{"text":"{text}"}}}}]}}"#);
    let keyed = || with(by("greedy", post("/v1/transactions", body.clone())), "idempotency-key", "k-1");
    let dropped = api.send(keyed()).await;
    assert_eq!(dropped.problem(), (500, "HTTP.ANSWER_DROPPED".into()));
    assert_eq!((dropped.header("retry-after"), &dropped.json()["retryable"]), ("", &false.into()));
    let ran = || api.reached().iter().filter(|asked| **asked == "transact").count();
    assert_eq!(ran(), 1);

    drop(first);
    let repeated = api.send(keyed()).await;
    assert_eq!((repeated.status.as_u16(), repeated.header("idempotency-replayed")), (200, "true"));
    assert!(repeated.text.contains(&text) && ran() == 0, "the first answer was kept");
    let again = unread("greedy").await.unwrap();
    assert_eq!(again.status(), 200);
    // Both have their share, which is all there is.
    let full = unread("greedy").await.unwrap();
    assert_eq!(full.status(), 429);
    drop((second, again));
    assert_eq!(api.send(large("third")).await.status, 200);
}

/// One that is larger than the share isn't kept back for ever.
#[tokio::test]
async fn an_answer_that_is_larger_than_the_memory_for_answers_goes_alone() {
    let api = Api::with(None, Limits { answers_bytes_max: 64 * 1024, ..Limits::default() }).await;
    api.host.delivered(large_message()).await;
    let large = || get("/v1/messages/large");
    let unread = api.router.clone().oneshot(large()).await.unwrap();
    assert_eq!(unread.status(), 200);
    assert_eq!(api.send(large()).await.problem(), (503, "HTTP.OVERLOADED".into()));
    drop(unread);
    assert_eq!(api.send(large()).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_gives_its_place_back() {
    let api = Api::with(None, Limits { requests_max: 1, ..Limits::default() }).await;
    let first = futures::stream::iter([Ok::<_, std::io::Error>(bytes::Bytes::from_static(b"{"))]);
    let half = Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()));
    let answer = api.post("/v1/messages", half).await;
    assert_eq!(answer.problem(), (408, "HTTP.SLOW_BODY".into()));
    assert_eq!(answer.json()["retryable"], true);
    assert_eq!(api.get("/v1/outbox/stats").await.status, 200);
}

/// A byte now and then is no pause, but the whole body has its time too, also when nobody waits for the answer any more.
#[tokio::test(start_paused = true)]
async fn a_body_that_drips_gives_its_place_back() {
    let dripping = || {
        let bytes = futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::io::Error>(bytes::Bytes::from_static(b" ")), ()))
        });
        post("/v1/messages", Body::from_stream(bytes))
    };
    let limits = Limits { requests_max: 1, request_timeout: Duration::from_secs(1), ..Limits::default() };
    let api = Api::with(None, limits).await;
    let answer = api.send(dripping()).await;
    assert_eq!(answer.problem(), (408, "HTTP.SLOW_BODY".into()), "the body's time is over before the request's");
    assert_eq!(answer.json()["retryable"], true);
    assert_eq!(api.get("/v1/outbox/stats").await.status, 200);

    let (router, request) = (api.router.clone(), dripping());
    let gone = tokio::spawn(async move { send(&router, request).await.status });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(api.get("/v1/outbox/stats").await.problem(), (503, "HTTP.OVERLOADED".into()));
    gone.abort();
    assert!(gone.await.is_err_and(|ended| ended.is_cancelled()));
    let freed = async {
        while api.get("/v1/outbox/stats").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(2), freed).await.expect("the place wasn't given back");
}

/// Large bodies that are announced and don't come hold no more of the memory for them than the share of their tenant.
#[tokio::test(start_paused = true)]
async fn large_bodies_that_do_not_come_have_a_share() {
    let tokens = vec![
        token("greedy", &["acme"], &[Role::Sender]),
        token("beside", &["acme", "c"], &[Role::Sender]),
        token("other", &["b"], &[Role::Sender]),
    ];
    let api = Api::with(Some(tokens), Limits { bodies_bytes_max: 1024 * 1024, ..Limits::default() }).await;
    let (told, mut begun) = tokio::sync::mpsc::unbounded_channel();
    // Each takes 256 KiB of the 512 KiB of its tenant.
    let announced = || {
        let mut told = Some(told.clone());
        let silent = futures::stream::poll_fn(move |_| {
            // It has its room by then.
            if let Some(told) = told.take() {
                told.send(()).unwrap();
            }
            Poll::<Option<Result<bytes::Bytes, std::io::Error>>>::Pending
        });
        let request = with(post("/v1/messages", Body::from_stream(silent)), "content-length", "327680");
        let (router, request) = (api.router.clone(), by("greedy", request));
        tokio::spawn(async move { send(&router, request).await })
    };
    let held = [announced(), announced()];
    for _ in &held {
        tokio::time::timeout(Duration::from_secs(5), begun.recv()).await.expect("the body wasn't asked for").unwrap();
    }
    // More than a payload may have, so most of it is outside of one.
    let room = " ".repeat(300 * 1024);
    let large = |name: &str, tenant: &str| {
        let body = format!(r#"{{"topic":"bus:a","payload":"x",{room}"tenant":"{tenant}"}}"#);
        by(name, post("/v1/messages", body))
    };
    for (name, tenant) in [("greedy", "acme"), ("beside", "c")] {
        let refused = api.send(large(name, tenant)).await;
        assert_eq!(refused.problem(), (429, "HTTP.SHARE".into()), "{name}");
        assert_eq!((refused.header("retry-after"), &refused.json()["retryable"]), ("1", &true.into()));
    }
    assert_eq!(api.send(by("greedy", post("/v1/messages", MESSAGE))).await.status, 201, "small ones need no room");
    assert_eq!(api.send(large("other", "b")).await.status, 201);
    for held in held {
        assert_eq!(held.await.unwrap().problem(), (408, "HTTP.SLOW_BODY".into()));
    }
    assert_eq!(api.send(large("greedy", "acme")).await.status, 201);
}
