//! A relay of an outbox table by hand, for the table of source document 4: four loops, each a transaction for a hundred rows.
//!
//! In order: each loop has aggregates of its own, by hash, behind a lock; a row is sent when the one before it of its
//! aggregate is acknowledged, and not at all behind one that isn't due. Without order: whoever comes first takes what isn't
//! locked, and the claim is the mark. Both publish inside the transaction and commit when everything is acknowledged. There are
//! no retries, dead rows or metrics: what fails ends it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, Statement};

use crate::sink::{Row, Sink};
use crate::{Run, cpu};

const LOOPS: i64 = 4;
const BATCH: i64 = 100;
/// Between two looks at a table where nothing waits.
const IDLE: Duration = Duration::from_millis(20);

/// `$1` loops, `$2` this one, `$3` rows.
const CLAIM_IN_ORDER: &str = "\
SELECT id, aggregate_id, routing_key, payload::text, available_at <= now() FROM outbox_events
WHERE status = 'pending' AND abs((hashtext(aggregate_id)::bigint & 2147483647) % $1 - $2) < 1
ORDER BY id LIMIT $3 FOR UPDATE";
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('outbox_events'), $1::bigint::int)";
const MARKED: &str = "\
UPDATE outbox_events SET status = 'published', published_at = clock_timestamp(), updated_at = clock_timestamp(), last_error = NULL
WHERE id = ANY";
const DELETED: &str = "DELETE FROM outbox_events WHERE id = ANY";
/// `$1` rows. An array, so that the planner can't run it once a row.
const FREE: &str = "\
(ARRAY(SELECT id FROM outbox_events WHERE status = 'pending' AND available_at <= now() ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
RETURNING id, aggregate_id, routing_key, payload::text, true";

/// Each aggregate in order.
pub async fn ordered(url: &str, messages: u64, sink: &str, delete: bool) -> Result<Run> {
    run(url, messages, sink, move |client, number| async move {
        let mark = format!("{} ($1)", if delete { DELETED } else { MARKED });
        let (lock, claim, mark) =
            tokio::try_join!(client.prepare(LOCK), client.prepare(CLAIM_IN_ORDER), client.prepare(&mark))?;
        Ok(Loop { client, number, kind: Kind::InOrder { lock, claim, mark } })
    })
    .await
}

/// Whatever comes first, of whichever aggregate.
pub async fn unordered(url: &str, messages: u64, sink: &str, delete: bool) -> Result<Run> {
    run(url, messages, sink, move |client, number| async move {
        let take = client.prepare(&format!("{} {FREE}", if delete { DELETED } else { MARKED })).await?;
        Ok(Loop { client, number, kind: Kind::AsItComes { take } })
    })
    .await
}

async fn run<F: Future<Output = Result<Loop>>>(
    url: &str,
    messages: u64,
    sink: &str,
    prepare: impl Fn(Client, i64) -> F,
) -> Result<Run> {
    let sink = Arc::new(Sink::connect(sink).await?);
    let mut loops = Vec::new();
    for number in 0..LOOPS {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("connecting to PostgreSQL")?;
        // What it ends with is told by the client's next call.
        tokio::spawn(connection);
        loops.push(prepare(client, number).await?);
    }
    let done = Arc::new(AtomicU64::new(0));
    let (began, before) = (Instant::now(), cpu()?);
    let mut tasks = JoinSet::new();
    for relay in loops {
        let (sink, done) = (Arc::clone(&sink), Arc::clone(&done));
        tasks.spawn(async move {
            while done.load(Ordering::Acquire) < messages {
                match relay.turn(&sink).await? {
                    0 => tokio::time::sleep(IDLE).await,
                    count => drop(done.fetch_add(count, Ordering::AcqRel)),
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a loop died")??;
    }
    let acknowledged = done.load(Ordering::Acquire);
    Ok(Run { acknowledged, took: began.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

struct Loop {
    client: Client,
    number: i64,
    kind: Kind,
}

enum Kind {
    InOrder { lock: Statement, claim: Statement, mark: Statement },
    AsItComes { take: Statement },
}

impl Loop {
    /// One transaction; how many rows it published. Statements that are awaited together go out together, in this order.
    async fn turn(&self, sink: &Sink) -> Result<u64> {
        let client = &self.client;
        match &self.kind {
            Kind::InOrder { lock, claim, mark } => {
                let (_, _, rows) = tokio::try_join!(
                    biased;
                    client.batch_execute("BEGIN"),
                    async { client.query(lock, &[&self.number]).await },
                    async { client.query(claim, &[&LOOPS, &self.number, &BATCH]).await },
                )?;
                let runs = runs(&rows)?;
                let ids: Vec<i64> = runs.iter().flatten().map(|row| row.id).collect();
                sink.send(runs).await?;
                let marked = async { client.execute(mark, &[&ids]).await };
                tokio::try_join!(biased; marked, client.batch_execute("COMMIT"))?;
                Ok(ids.len() as u64)
            }
            Kind::AsItComes { take } => {
                let taken = async { client.query(take, &[&BATCH]).await };
                let (_, rows) = tokio::try_join!(biased; client.batch_execute("BEGIN"), taken)?;
                let alone: Vec<Vec<Row>> = rows.iter().map(|row| Ok(vec![read(row)?])).collect::<Result<_>>()?;
                sink.send(alone).await?;
                client.batch_execute("COMMIT").await?;
                Ok(rows.len() as u64)
            }
        }
    }
}

/// The rows of each aggregate, up to its first that isn't due.
fn runs(rows: &[tokio_postgres::Row]) -> Result<Vec<Vec<Row>>> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut runs: Vec<(bool, Vec<Row>)> = Vec::new();
    for found in rows {
        let row = read(found)?;
        // A row without an aggregate is in order with nothing.
        let place = match &row.aggregate {
            Some(aggregate) => *places.entry(aggregate.clone()).or_insert(runs.len()),
            None => runs.len(),
        };
        if place == runs.len() {
            runs.push((true, Vec::new()));
        }
        let Some((open, run)) = runs.get_mut(place) else { continue };
        *open &= found.try_get::<_, bool>(4)?;
        if *open {
            run.push(row);
        }
    }
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

fn read(row: &tokio_postgres::Row) -> Result<Row> {
    Ok(Row { id: row.try_get(0)?, aggregate: row.try_get(1)?, subject: row.try_get(2)?, payload: row.try_get(3)? })
}
