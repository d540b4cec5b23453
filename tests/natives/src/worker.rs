//! The worker of source document 5 by hand: JetStream, an inbox table in PostgreSQL, a POST a message.
//!
//! Its rule for one message is kept (row, call, mark, acknowledgement; a row that is marked isn't called again), in batches:
//! whatever has arrived is inserted with one statement, posted side by side, marked with one statement, acknowledged. Four
//! loops do so at once. A call that fails ends it: there is no backoff and no DLQ.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::PullConsumer;
use futures::StreamExt as _;
use futures::future::try_join_all;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, Statement};

use crate::sink::Poster;
use crate::{Run, cpu, fetch};

const LOOPS: usize = 4;
/// Messages of a batch, at most.
const BATCH: usize = 100;

/// The document's table. Its key is a UUID there; ids are texts here.
const TABLE: &str = "\
CREATE TABLE IF NOT EXISTS inbox_messages (
  message_id text PRIMARY KEY, subject text NOT NULL, received_at timestamptz NOT NULL DEFAULT now(),
  processed_at timestamptz, attempts int NOT NULL DEFAULT 0, last_error text);
CREATE INDEX IF NOT EXISTS idx_inbox_unprocessed ON inbox_messages (received_at) WHERE processed_at IS NULL";
const INSERT: &str = "\
INSERT INTO inbox_messages (message_id, subject) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING";
const PROCESSED: &str =
    "SELECT message_id FROM inbox_messages WHERE message_id = ANY ($1) AND processed_at IS NOT NULL";
const MARK: &str =
    "UPDATE inbox_messages SET processed_at = now(), attempts = attempts + 1 WHERE message_id = ANY ($1)";

/// Works until so many messages are acknowledged.
pub async fn run(url: &str, messages: u64, window: usize, postgres: &str, handler: &str) -> Result<Run> {
    let (nats, consumer) = fetch::consumer(url, window).await?;
    let poster = Arc::new(Poster::new(handler)?);
    let mut workers = Vec::new();
    for _ in 0..LOOPS {
        workers.push(Worker::connect(postgres, Arc::clone(&poster)).await?);
    }
    let (tell, mut told) = mpsc::channel(LOOPS);
    let (began, before) = (Instant::now(), cpu()?);
    let mut loops = JoinSet::new();
    for worker in workers {
        loops.spawn(worker.work(consumer.clone(), window.div_ceil(LOOPS), tell.clone()));
    }
    let mut acknowledged = 0;
    while acknowledged < messages {
        tokio::select! {
            Some(count) = told.recv() => acknowledged += count,
            Some(ended) = loops.join_next() => ended.context("a loop died")??,
        }
    }
    nats.flush().await.context("flushing")?;
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

struct Worker {
    client: Client,
    insert: Statement,
    processed: Statement,
    mark: Statement,
    poster: Arc<Poster>,
}

impl Worker {
    async fn connect(url: &str, poster: Arc<Poster>) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("connecting to PostgreSQL")?;
        // What it ends with is told by the client's next call.
        tokio::spawn(connection);
        client.batch_execute(TABLE).await.context("making the inbox table")?;
        let (insert, processed, mark) =
            tokio::try_join!(client.prepare(INSERT), client.prepare(PROCESSED), client.prepare(MARK))?;
        Ok(Self { client, insert, processed, mark, poster })
    }

    async fn work(self, consumer: PullConsumer, ahead: usize, tell: mpsc::Sender<u64>) -> Result<()> {
        let arriving = consumer.stream().max_messages_per_batch(ahead).messages().await?;
        let mut batches = arriving.ready_chunks(BATCH);
        while let Some(batch) = batches.next().await {
            let batch: Vec<Message> = batch.into_iter().collect::<Result<_, _>>().context("reading")?;
            self.handle(&batch).await?;
            tell.send(batch.len() as u64).await?;
        }
        bail!("the stream of messages ended")
    }

    async fn handle(&self, batch: &[Message]) -> Result<()> {
        let ids: Vec<String> = batch.iter().map(id).collect::<Result<_>>()?;
        let subjects: Vec<&str> = batch.iter().map(|message| message.subject.as_str()).collect();
        // Statements that are awaited together go out together, in this order.
        let (_, done) = tokio::try_join!(
            biased;
            async { self.client.execute(&self.insert, &[&ids, &subjects]).await }, async {
                self.client.query(&self.processed, &[&ids]).await
            },)?;
        let done: HashSet<String> = done.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let open = ids.iter().zip(batch).filter(|(id, _)| !done.contains(*id));
        let posted = open.map(|(id, message)| async move { self.poster.post(&[], id, body(id, message)?).await });
        try_join_all(posted).await?;
        self.client.execute(&self.mark, &[&ids]).await?;
        for message in batch {
            if let Err(error) = message.ack().await {
                bail!("acknowledging: {error}");
            }
        }
        Ok(())
    }
}

fn id(message: &Message) -> Result<String> {
    let id = message.headers.as_ref().and_then(|headers| headers.get("Nats-Msg-Id"));
    Ok(id.context("a message has no id")?.as_str().to_owned())
}

/// The JSON of the document.
fn body(id: &str, message: &Message) -> Result<String> {
    let payload = std::str::from_utf8(&message.payload).context("a payload isn't text")?;
    let text = |text: &str| serde_json::Value::from(text).to_string();
    Ok(format!(
        "{{\"message_id\":{},\"subject\":{},\"event_type\":null,\"event_version\":1,\"occurred_at\":null,\
         \"correlation_id\":null,\"causation_id\":null,\"payload\":{payload}}}",
        text(id),
        text(message.subject.as_str()),
    ))
}
