//! A site with one page, whose script does what a test says and tells what came of it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Html;
use axum::routing::{get, post};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Opens an `EventSource` at each address that it is given, and tells of each under its number: that it is open, its events, and its errors
/// with the state that it is in then (0 = it tries again, 2 = it has given up).
const PAGE: &str = r#"<!doctype html><meta charset="utf-8"><title>subscriber</title><script>
let told = Promise.resolve();
const tell = (what) => {
    told = told.then(() => fetch("/told", { method: "POST", body: JSON.stringify(what) }));
};
const subscribe = (source, url) => {
    const events = new EventSource(url);
    events.onopen = () => tell({ source, kind: "open" });
    events.onmessage = (message) =>
        tell({ source, kind: "event", id: message.lastEventId, event: JSON.parse(message.data) });
    events.onerror = (error) => tell({ source, kind: "error", state: events.readyState, data: error.data ?? null });
};
(async () => {
    for (let source = 0; ; source++) {
        subscribe(source, await (await fetch("/next")).text());
    }
})();
</script>"#;

/// The site. It is gone when dropped.
pub struct Site {
    address: SocketAddr,
    orders: mpsc::UnboundedSender<String>,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    told: Mutex<Vec<Value>>,
    orders: tokio::sync::Mutex<mpsc::UnboundedReceiver<String>>,
}

impl Site {
    /// # Errors
    /// No port is free.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (orders, taken) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared { told: Mutex::default(), orders: taken.into() });
        let routes = Router::new()
            .route("/", get(page))
            .route("/next", get(next))
            .route("/told", post(tell))
            .with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move {
            // It runs until it is dropped.
            let _ended = axum::serve(listener, routes).await;
        });
        Ok(Self { address, orders, shared, serving })
    }

    /// The origin of its page under a name that is this machine, as browsers write it; also the page's address.
    pub fn origin(&self, name: &str) -> String {
        format!("http://{name}:{}", self.address.port())
    }

    /// Has the page open the next `EventSource`, at this address. They are numbered from 0.
    pub fn subscribe(&self, url: impl Into<String>) {
        // It is taken by the page, which the test waits for.
        let _gone = self.orders.send(url.into());
    }

    /// All that the page has told of an `EventSource`, in its order.
    pub fn reports_of(&self, source: u64) -> Vec<Value> {
        self.shared.told.lock().iter().filter(|told| told["source"] == json!(source)).cloned().collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn page() -> Html<&'static str> {
    Html(PAGE)
}

async fn next(State(shared): State<Arc<Shared>>) -> Result<String, StatusCode> {
    shared.orders.lock().await.recv().await.ok_or(StatusCode::GONE)
}

async fn tell(State(shared): State<Arc<Shared>>, body: String) -> StatusCode {
    // What isn't JSON is told as the text that it is: the test shows it.
    let told = serde_json::from_str(&body).unwrap_or(Value::String(body));
    shared.told.lock().push(told);
    StatusCode::NO_CONTENT
}
