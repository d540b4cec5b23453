//! A route of which nothing says who may call it is closed, whoever calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::routing::{get as on_get, post as on_post};
use http::Method;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;
use waybill_server::server::Server;

use crate::support::{get, host, parts, post, send, token, with};

#[tokio::test]
async fn a_route_without_a_permission_entry_is_refused() {
    for tokens in [None, Some(vec![token("admin", &["*"], &[Role::Admin])])] {
        let reached = Arc::new(AtomicBool::new(false));
        let handler = || {
            let reached = reached.clone();
            move || {
                let reached = reached.clone();
                async move { reached.store(true, Ordering::Relaxed) }
            }
        };
        // A path of its own, and a further method of one that is documented.
        let further = Router::new()
            .route("/v1/forgotten/{id}", on_get(handler()).post(handler()))
            .route("/v1/outbox/stats", on_post(handler()));
        let parts = parts(&host().await, &Arc::default(), tokens, Limits::default());
        let router = Server::with_routes(parts, further).router();
        for token in ["", "wrong", "admin"] {
            let bearer = |request| match token {
                "" => request,
                token => with(request, "authorization", &format!("Bearer {token}")),
            };
            let mut head = get("/v1/forgotten/x");
            *head.method_mut() = Method::HEAD;
            for request in [get("/v1/forgotten/x"), head, post("/v1/forgotten/x", "{}")] {
                let method = request.method().clone();
                let answer = send(&router, bearer(request)).await;
                assert_eq!(answer.status, 500, "{method} with {token:?}");
                assert!(method == Method::HEAD || answer.problem().1 == "UNKNOWN.INTERNAL");
            }
            let answer = send(&router, bearer(post("/v1/outbox/stats", "{}"))).await;
            assert_eq!(answer.problem(), (405, "HTTP.METHOD".into()), "with {token:?}");
            assert_eq!(answer.header("allow"), "GET,HEAD");
            assert_eq!(send(&router, bearer(get("/v1/nowhere"))).await.problem(), (404, "HTTP.NOT_FOUND".into()));
        }
        assert!(!reached.load(Ordering::Relaxed), "a handler ran");
    }
}
