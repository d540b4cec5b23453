//! W3: idempotent requests, each key sent ten times, 64 at once.
//!
//! `by_api` begins keys; who gets one does the work (nothing) and finishes it with a result of some 300 bytes, a request that takes
//! time and isn't counted. `by_header` posts messages with an `Idempotency-Key`. Repeats of a key are spread over the run of its
//! block, so that they meet it finished; one that is early waits and asks again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use tokio::task::JoinSet;
use waybill_testkit::load::{Client, LoadError};

use super::Bench;
use super::figure::Figure;
use super::host::Measured;

/// Requests of each key.
const REPEATS: u64 = 10;
const CLIENTS: usize = 64;
/// Keys that are sent in turn: ten times as many as there are requests at once.
const BLOCK: u64 = 640;
/// Bytes of a result or a payload, about.
const PAYLOAD: usize = 270;
/// A key that is in flight is asked for again after this.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// Messages go to a component that takes them and does nothing.
const CONFIG: &str = "[transport.none]\nplugin = \"noop\"\n[[route]]\nmatch = \"bus:**\"\ntransport = \"none\"\n";

/// How a request is made.
#[derive(Clone, Copy)]
enum RequestKind {
    Api,
    Header,
}

/// Begun and finished over the API.
pub async fn by_api(bench: &Bench, requests: u64) -> Result<Figure> {
    through(bench, requests, RequestKind::Api).await
}

/// Messages with the header.
pub async fn by_header(bench: &Bench, requests: u64) -> Result<Figure> {
    through(bench, requests, RequestKind::Header).await
}

async fn through(bench: &Bench, requests: u64, kind: RequestKind) -> Result<Figure> {
    let mut host = Measured::start(bench, CONFIG).await?;
    let order: Arc<Vec<u64>> = Arc::new(order(requests));
    let next = Arc::new(AtomicUsize::new(0));
    host.mark()?;
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let (base, order, next) = (host.api.base().to_owned(), Arc::clone(&order), Arc::clone(&next));
        tasks.spawn(async move {
            let mut client = Client::connect(&base).await?;
            let mut times = Vec::new();
            while let Some(key) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                let began = Instant::now();
                match kind {
                    RequestKind::Api => begin(&mut client, *key).await?,
                    RequestKind::Header => post(&mut client, *key).await?,
                }
                times.push(began.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::with_capacity(order.len());
    while let Some(done) = tasks.join_next().await {
        times.extend(done.context("a client ended early")??);
    }
    let count = times.len() as u64;
    let figure = host.used(Figure::of_rate(count, began.elapsed()).with_times(times))?;
    host.end().await?;
    Ok(figure)
}

/// Keys in the order in which they are sent: each block ten times over.
fn order(requests: u64) -> Vec<u64> {
    let keys = requests / REPEATS;
    let blocks = (0..keys).step_by(usize::try_from(BLOCK).unwrap_or(usize::MAX));
    let mut order = Vec::with_capacity(usize::try_from(requests).unwrap_or(0));
    for first in blocks {
        for _ in 0..REPEATS {
            order.extend(first..keys.min(first + BLOCK));
        }
    }
    order
}

/// One answered begin, and the finish of who got the key.
async fn begin(client: &mut Client, key: u64) -> Result<()> {
    let body = Bytes::from(format!("{{\"key\":\"order-{key}\",\"hash\":\"9f86d081884c7d659a2feaa0c55ad015-{key}\"}}"));
    let answer = asked(client, "/v1/idempotency/begin", None, body).await?;
    let Some(token) = token(&answer) else { return Ok(()) };
    let note = "x".repeat(PAYLOAD);
    let body =
        format!("{{\"key\":\"order-{key}\",\"token\":\"{token}\",\"result\":{{\"order\":{key},\"note\":\"{note}\"}}}}");
    client.post("/v1/idempotency/finish", body.into()).await?;
    Ok(())
}

/// The token in the answer to a begin that got its key.
fn token(answer: &Bytes) -> Option<String> {
    let text = std::str::from_utf8(answer).ok()?;
    let rest = text.split_once("\"token\":\"")?.1;
    Some(rest.split_once('"')?.0.to_owned())
}

/// One message with its key.
async fn post(client: &mut Client, key: u64) -> Result<()> {
    let note = "x".repeat(PAYLOAD);
    let body = format!("{{\"topic\":\"bus:orders\",\"payload\":{{\"order\":{key},\"note\":\"{note}\"}}}}");
    asked(client, "/v1/messages", Some(&format!("order-{key}")), body.into()).await.map(|_| ())
}

async fn asked(client: &mut Client, path: &str, key: Option<&str>, body: Bytes) -> Result<Bytes> {
    loop {
        match client.post_once(path, key, body.clone()).await {
            Ok(answer) => return Ok(answer),
            Err(LoadError::Refused { status, body, .. }) if status.as_u16() == 409 => {
                if !body.contains("TX.IDEMPOTENT_BUSY") {
                    bail!("POST {path} answered {status}: {body}");
                }
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_sent_ten_times_and_not_at_once() {
        let order = order(20_000);
        assert_eq!(order.len(), 20_000);
        for key in [0, 639, 640, 1_999] {
            let places: Vec<usize> = order.iter().enumerate().filter(|(_, k)| **k == key).map(|(at, _)| at).collect();
            assert_eq!(places.len(), 10);
            assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 80), "{places:?}");
        }
    }

    #[test]
    fn a_token_is_found_in_the_answer() {
        assert_eq!(
            token(&Bytes::from_static(b"{\"state\":\"new\",\"token\":\"ab\",\"begun\":1}")),
            Some("ab".to_owned())
        );
        assert_eq!(token(&Bytes::from_static(b"{\"state\":\"succeeded\"}")), None);
    }
}
