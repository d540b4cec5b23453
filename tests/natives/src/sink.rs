//! Where a relay by hand sends rows: to JetStream or to a webhook.

use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::{HeaderMap, jetstream};
use futures::future::try_join_all;
use tokio::sync::Semaphore;

/// Requests at once, as many as the host has under way to one peer.
const AT_ONCE: usize = 64;
/// Longest wait for one acknowledgement.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// A row on its way.
pub struct Row {
    pub id: i64,
    pub aggregate: Option<String>,
    pub subject: String,
    pub payload: String,
}

pub enum Sink {
    Nats(jetstream::Context),
    Http(Poster),
}

impl Sink {
    /// By the scheme of the URL.
    pub async fn connect(url: &str) -> Result<Self> {
        if url.starts_with("nats://") {
            let client = async_nats::connect(url).await.context("connecting to NATS")?;
            let mut context = jetstream::new(client);
            context.set_timeout(ANSWER_TIME_MAX);
            return Ok(Self::Nats(context));
        }
        Ok(Self::Http(Poster::new(url)?))
    }

    /// Sends runs side by side, the rows of each one after the other; ends when all are acknowledged.
    pub async fn send(&self, runs: Vec<Vec<Row>>) -> Result<()> {
        let sent = runs.into_iter().map(|run| async move {
            for row in run {
                self.send_row(row).await?;
            }
            anyhow::Ok(())
        });
        try_join_all(sent).await.map(drop)
    }

    async fn send_row(&self, row: Row) -> Result<()> {
        let id = format!("outbox-{}", row.id);
        let key = row.aggregate.as_deref().unwrap_or_default();
        match self {
            Self::Nats(context) => {
                let mut headers = HeaderMap::new();
                for (name, value) in [
                    ("Nats-Msg-Id", id.as_str()),
                    ("x-tenant", "default"),
                    ("x-key", key),
                    ("x-topic", "bus:orders.created"),
                    ("x-event-type", "orders.created"),
                    ("x-occurred-at", "2026-01-01T00:00:00.000Z"),
                    ("content-type", "application/json"),
                ] {
                    headers.insert(name, value);
                }
                context.publish_with_headers(row.subject, headers, row.payload.into()).await?.await?;
                Ok(())
            }
            Self::Http(poster) => poster.post(&[("ce-id", id.as_str()), ("waybill-key", key)], &id, row.payload).await,
        }
    }
}

/// A pooled client that posts JSON to one URL.
pub struct Poster {
    client: reqwest::Client,
    url: String,
    room: Semaphore,
}

impl Poster {
    pub fn new(url: &str) -> Result<Self> {
        let client = reqwest::Client::builder().pool_max_idle_per_host(AT_ONCE).tcp_nodelay(true).build()?;
        Ok(Self { client, url: url.to_owned(), room: Semaphore::new(AT_ONCE) })
    }

    /// Posts, and fails unless the answer says yes.
    pub async fn post(&self, headers: &[(&str, &str)], key: &str, body: String) -> Result<()> {
        let _room = self.room.acquire().await?;
        let mut request = self.client.post(&self.url).header("content-type", "application/json");
        request = request.header("idempotency-key", key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.body(body).send().await.context("posting")?.error_for_status()?;
        // The body is taken too: only then does the connection go back to the pool.
        answer.bytes().await.context("reading an answer")?;
        Ok(())
    }
}
