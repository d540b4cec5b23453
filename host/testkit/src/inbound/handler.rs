//! A handler over HTTP as source document 5 has it. It runs in threads of its own, so that it can be killed with all its connections, and
//! what it remembers outlives that.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

/// The port of one that was killed is free again within this time.
const FREE_WITHIN: Duration = Duration::from_secs(30);
/// Between two tries to listen.
const TRY_EVERY: Duration = Duration::from_millis(20);
/// Media type of an answer that leaves something behind.
const HANDLED: &str = "application/vnd.waybill.handled+json";

/// A call as it came.
#[derive(Clone, Debug)]
pub struct Called {
    pub id: String,
    /// `Idempotency-Key`.
    pub key: String,
    pub attempt: u32,
    pub maybe_handled: bool,
    pub body: Value,
}

/// What one is answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub delay: Duration,
    /// Body of an answer that leaves messages or signals behind.
    pub leaves: Option<Value>,
}

impl Answer {
    pub fn status(status: u16) -> Self {
        Self { status, delay: Duration::ZERO, leaves: None }
    }

    #[must_use]
    pub fn delayed(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    #[must_use]
    pub fn leaving(self, leaves: Value) -> Self {
        Self { leaves: Some(leaves), ..self }
    }
}

type Script = dyn Fn(&Called) -> Answer + Send + Sync;

struct Shared {
    script: Box<Script>,
    calls: Mutex<Vec<Called>>,
    under_way: AtomicUsize,
}

/// A call that is neither answered nor broken off.
struct UnderWay(Arc<Shared>);

impl UnderWay {
    fn begin(shared: &Arc<Shared>) -> Self {
        shared.under_way.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(shared))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A running handler. Dropping it kills it.
pub struct HandlerServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl HandlerServer {
    /// Listens on a free port of loopback, and answers what `script` says.
    ///
    /// # Errors
    /// There is no port, or no thread.
    pub async fn start(script: impl Fn(&Called) -> Answer + Send + Sync + 'static) -> io::Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], crate::process::free_port()?));
        Self::start_at(address, script).await
    }

    /// The same on a given port.
    ///
    /// # Errors
    /// Somebody else has it.
    pub async fn start_at(
        address: SocketAddr,
        script: impl Fn(&Called) -> Answer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let shared =
            Arc::new(Shared { script: Box::new(script), calls: Mutex::default(), under_way: AtomicUsize::new(0) });
        let mut server = Self { shared, address, runtime: None };
        server.restart().await?;
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}/handle", self.address)
    }

    /// Every call so far, in the order of arrival.
    pub fn calls(&self) -> Vec<Called> {
        self.shared.calls.lock().clone()
    }

    /// Ids of all the messages that it was called for.
    pub fn ids(&self) -> BTreeSet<String> {
        self.shared.calls.lock().iter().map(|call| call.id.clone()).collect()
    }

    /// Calls that aren't answered yet.
    pub fn under_way(&self) -> usize {
        self.shared.under_way.load(Ordering::Acquire)
    }

    /// Ends it where it is: connections break, and calls under way get no answer.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Starts it again on its port, after [`HandlerServer::kill`].
    ///
    /// # Errors
    /// Its port isn't free again.
    pub async fn restart(&mut self) -> io::Result<()> {
        let until = Instant::now() + FREE_WITHIN;
        let listener = loop {
            match std::net::TcpListener::bind(self.address) {
                Ok(listener) => break listener,
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => sleep(TRY_EVERY).await,
            }
        };
        listener.set_nonblocking(true)?;
        // Behind all that may fail or be given up: one that is dropped where others run ends them with a panic.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let routes = Router::new().route("/handle", post(handle)).with_state(Arc::clone(&self.shared));
        runtime.spawn(async move {
            // It runs until the runtime is gone.
            if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                let _ended = axum::serve(listener, routes).await;
            }
        });
        self.runtime = Some(runtime);
        Ok(())
    }
}

impl Drop for HandlerServer {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn handle(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let called = Called {
        id: body.get("message_id").and_then(Value::as_str).unwrap_or_default().to_owned(),
        key: text("idempotency-key"),
        attempt: text("waybill-attempt").parse().unwrap_or_default(),
        maybe_handled: text("waybill-maybe-handled") == "true",
        body,
    };
    let answer = (shared.script)(&called);
    let _under_way = UnderWay::begin(&shared);
    shared.calls.lock().push(called);
    sleep(answer.delay).await;
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match answer.leaves {
        Some(leaves) => (status, [(header::CONTENT_TYPE, HANDLED)], leaves.to_string()).into_response(),
        None => status.into_response(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use serde_json::json;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn who_gives_up_while_its_port_is_taken_leaves_nothing_behind() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let start = HandlerServer::start_at(address, |_| Answer::status(200));
        assert!(tokio::time::timeout(TRY_EVERY * 2, start).await.is_err(), "its port is taken");
        drop(taken);
        let server = HandlerServer::start_at(address, |_| Answer::status(200)).await.unwrap();
        assert_eq!(server.address(), address);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_is_under_way_until_it_is_answered_or_broken_off() {
        let mut server =
            HandlerServer::start(|_| Answer::status(200).delayed(Duration::from_secs(3_600))).await.unwrap();
        let url = server.url();
        let call = tokio::spawn(reqwest::Client::new().post(url).body("{}").send());
        let until = Instant::now() + FREE_WITHIN;
        while server.under_way() == 0 && Instant::now() < until {
            sleep(TRY_EVERY).await;
        }
        assert_eq!(server.under_way(), 1);
        server.kill();
        assert!(call.await.unwrap().is_err());
        while server.under_way() > 0 && Instant::now() < until {
            sleep(TRY_EVERY).await;
        }
        assert_eq!(server.under_way(), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_it_remembers_outlives_its_death_and_its_calls_do_not() {
        let slow = Duration::from_secs(3_600);
        let mut server = HandlerServer::start(move |called| match called.id.as_str() {
            "slow" => Answer::status(200).delayed(slow),
            _ => Answer::status(409),
        })
        .await
        .unwrap();
        let client = reqwest::Client::new();
        let body = |id: &str| json!({ "message_id": id }).to_string();
        let call = client.post(server.url()).header("waybill-attempt", "2").body(body("slow")).send();
        let under_way = tokio::spawn(call);
        while server.calls().is_empty() {
            sleep(TRY_EVERY).await;
        }
        server.kill();
        assert!(under_way.await.unwrap().is_err());
        server.restart().await.unwrap();
        let answer = client.post(server.url()).body(body("quick")).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 409);
        let calls = server.calls();
        assert_eq!((calls.len(), calls[0].attempt, calls[1].id.as_str()), (2, 2, "quick"));
    }
}
