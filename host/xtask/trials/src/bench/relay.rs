//! W8: an outbox table in PostgreSQL with 100,000 rows, relayed to NATS and over HTTP, beside relays by hand
//! (`tests/natives/src/relay.rs`): one that keeps each aggregate's order as Waybill does, and one without any order.
//!
//! The table is source document 4's with the index that provisioning offers, for both sides. Rows are there before anything
//! begins; CPU is that of the relay and of PostgreSQL together.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::process::Command;
use waybill_testkit::load::{Sink, family_cpu};
use waybill_testkit::outage::{Broker as _, DESTINATION};
use waybill_testkit::{nats, postgres};

use super::Bench;
use super::all_arrived;
use super::figure::{Figure, Side};
use super::host::Measured;
use super::native::run_reference;

/// Aggregates that the rows belong to.
const AGGREGATES: u64 = 10_000;
/// Bytes that make a payload about as long as those of other workloads.
const PADDING: usize = 260;
/// A relay from which nothing comes for this long is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// Rows that are locked at once where they go through the inbox: a table is no broker with a bound on what it gives out.
const WINDOW: u32 = 1_000;
/// As `waybill source provision` makes it.
const INDEX: &str = "CREATE INDEX outbox_waits ON outbox_events (id) WHERE status IN ('pending', 'processing')";
/// By the index, so that asking costs little.
const WAITING: &str = "SELECT count(*) FROM outbox_events WHERE status IN ('pending', 'processing')";
const UNPUBLISHED: &str = "SELECT count(*) FROM outbox_events WHERE status <> 'published'";

/// What is measured, in the order in which it is run in turn.
pub const PARTS: [(&str, Side); 10] = [
    ("W8 nats", Side::Waybill),
    ("W8 nats", Side::Native),
    ("W8 nats stored", Side::Waybill),
    ("W8 nats unordered", Side::Native),
    ("W8 nats delete", Side::Waybill),
    ("W8 nats delete", Side::Native),
    ("W8 nats delete unordered", Side::Native),
    ("W8 http", Side::Waybill),
    ("W8 http", Side::Native),
    ("W8 http unordered", Side::Native),
];

/// One of them, by the words of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    over_http: bool,
    stored: bool,
    delete: bool,
    unordered: bool,
}

impl Plan {
    fn of(name: &str) -> Self {
        let has = |word| name.split(' ').any(|other| other == word);
        Self { over_http: has("http"), stored: has("stored"), delete: has("delete"), unordered: has("unordered") }
    }
}

/// Where rows go: one of the two is used.
struct Receivers {
    nats: nats::Server,
    client: nats::Client,
    sink: Sink,
}

impl Receivers {
    async fn start() -> Result<Self> {
        let mut nats = nats::Server::start().await.context("starting nats-server: is it installed?")?;
        nats.prepare().await?;
        let client = nats.client().await?;
        Ok(Self { nats, client, sink: Sink::start(false).await.context("starting the sink")? })
    }

    async fn arrived(&mut self, plan: Plan) -> Result<u64> {
        if plan.over_http {
            return Ok(self.sink.arrived());
        }
        let info = self.client.api("STREAM.INFO.ORDERS", &json!({})).await?;
        info.pointer("/state/messages").and_then(Value::as_u64).context("the stream doesn't tell its messages")
    }

    /// Waits until so many have arrived.
    async fn all(&mut self, plan: Plan, rows: u64) -> Result<()> {
        let (mut seen, mut moved) = (0, Instant::now());
        loop {
            let arrived = self.arrived(plan).await?;
            if arrived >= rows {
                return Ok(());
            }
            if arrived != seen {
                (seen, moved) = (arrived, Instant::now());
            }
            all_arrived(moved.elapsed() < PATIENCE, arrived, rows)?;
            tokio::time::sleep(POLL).await;
        }
    }

    fn url(&self, plan: Plan) -> String {
        if plan.over_http { self.sink.url("orders") } else { self.nats.url() }
    }
}

/// One run of one side.
pub async fn measure(bench: &Bench, name: &str, side: Side, rows: u64) -> Result<Figure> {
    let plan = Plan::of(name);
    let database = database().await?;
    let mut receivers = Receivers::start().await?;
    let figure = match side {
        Side::Waybill => relayed(bench, plan, &database, &mut receivers, rows).await?,
        Side::Native => by_hand(bench, plan, &database, &receivers, rows).await?,
        Side::Store => bail!("{name} has no side {side}"),
    };
    let (arrived, mut client) = (receivers.arrived(plan).await?, database.client().await?);
    ensure!(arrived == rows, "{arrived} of {rows} rows arrived");
    let left = client.value(UNPUBLISHED).await?;
    ensure!(left == "0", "{left} rows aren't published");
    Ok(figure)
}

/// A database with an empty table.
async fn database() -> Result<postgres::Server> {
    let database = postgres::Server::start().await.context("starting PostgreSQL: is it installed?")?;
    let mut client = database.client().await?;
    client.query(postgres::BY_STATUS).await?;
    client.query(INDEX).await?;
    Ok(database)
}

/// So many rows wait.
async fn fill(database: &postgres::Server, rows: u64) -> Result<()> {
    let insert = format!(
        "INSERT INTO outbox_events (routing_key, aggregate_type, aggregate_id, payload) \
         SELECT '{DESTINATION}', 'order', 'order-' || n % {AGGREGATES}, json_build_object('n', n, 'p', repeat('x', {PADDING})) \
         FROM generate_series(1, {rows}) n"
    );
    let mut client = database.client().await?;
    client.query(&insert).await?;
    client.query("VACUUM ANALYZE outbox_events").await?;
    database.superuser().await?.query("CHECKPOINT").await?;
    Ok(())
}

fn cpu(database: &postgres::Server) -> Result<Duration> {
    let pid = database.id().context("PostgreSQL has ended by itself")?;
    family_cpu(pid).context("reading what PostgreSQL used")
}

async fn by_hand(
    bench: &Bench,
    plan: Plan,
    database: &postgres::Server,
    receivers: &Receivers,
    rows: u64,
) -> Result<Figure> {
    let (job, fate) =
        (if plan.unordered { "relay-unordered" } else { "relay" }, if plan.delete { "delete" } else { "mark" });
    fill(database, rows).await?;
    let before = cpu(database)?;
    let mut command = Command::new(&bench.natives);
    command.args([job, &rows.to_string(), &database.url(), &receivers.url(plan), fate]);
    let figure = run_reference(&mut command, job, rows).await?;
    Ok(figure.with_more_cpu(cpu(database)?.saturating_sub(before)))
}

async fn relayed(
    bench: &Bench,
    plan: Plan,
    database: &postgres::Server,
    receivers: &mut Receivers,
    rows: u64,
) -> Result<Figure> {
    let mut host = Measured::start(bench, &config(plan, database, receivers)).await?;
    // The rows are there before either side begins.
    host.act("/v1/sources/app/pause").await?;
    fill(database, rows).await?;
    host.mark()?;
    let (before, began) = (cpu(database)?, Instant::now());
    host.act("/v1/sources/app/resume").await?;
    receivers.all(plan, rows).await?;
    // What was acknowledged last is marked a moment later.
    let mut client = database.client().await?;
    while client.value(WAITING).await? != "0" {
        ensure!(began.elapsed() < PATIENCE * 10, "rows arrived and aren't marked");
        tokio::time::sleep(POLL).await;
    }
    host.drained().await?;
    let figure = host.used(Figure::of_rate(rows, began.elapsed()))?;
    let figure = figure.with_more_cpu(cpu(database)?.saturating_sub(before));
    host.end().await?;
    Ok(figure)
}

fn config(plan: Plan, database: &postgres::Server, receivers: &Receivers) -> String {
    let (port, url) = (database.port(), receivers.nats.url());
    let delete = if plan.delete { ", delete = true" } else { "" };
    let deliver = if plan.over_http { receivers.sink.url("orders") } else { "bus:{routing_key}".to_owned() };
    let publish = if plan.stored { "stored" } else { "direct" };
    let window = if plan.stored { format!("window = {WINDOW}\n") } else { String::new() };
    let source = format!(
        "[source.app]\nplugin = \"postgres\"\nconfig = {{ url = \"{}\"{delete} }}\n\
         allow = {{ net = [\"tcp://127.0.0.1:{port}\"] }}\n{window}\
         [consumer.relay]\nsource = \"app\"\npublish = \"{publish}\"\ndeliver = \"{deliver}\"\n",
        database.url()
    );
    if plan.over_http {
        return source;
    }
    format!(
        "{source}[transport.nats]\nplugin = \"nats\"\nconfig = {{ servers = [\"{url}\"] }}\nallow = {{ net = [\"{}\"] }}\n\
         [[route]]\nmatch = \"bus:orders.**\"\ntransport = \"nats\"\n",
        url.replace("nats://", "tcp://")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_is_measured() {
        let plain = Plan { over_http: false, stored: false, delete: false, unordered: false };
        assert_eq!(Plan::of("W8 nats"), plain);
        assert_eq!(Plan::of("W8 nats stored"), Plan { stored: true, ..plain });
        assert_eq!(Plan::of("W8 nats delete unordered"), Plan { delete: true, unordered: true, ..plain });
        assert_eq!(Plan::of("W8 http"), Plan { over_http: true, ..plain });
    }

    #[test]
    fn every_part_of_waybill_has_a_relay_beside_it_that_marks_alike() {
        for (name, _) in PARTS.iter().filter(|(_, side)| *side == Side::Waybill) {
            let ours = Plan::of(name);
            let beside = |(other, side): &&(&str, Side)| {
                let theirs = Plan::of(other);
                *side == Side::Native && (theirs.over_http, theirs.delete) == (ours.over_http, ours.delete)
            };
            assert!(PARTS.iter().any(|part| beside(&part)), "{name} is beside nobody");
        }
    }
}
