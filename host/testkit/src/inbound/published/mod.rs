//! An outbox table of PostgreSQL, of either document's shape, that two hosts publish to JetStream with different numbers of lanes, while
//! both hosts and the database are killed in turn, and other sessions are in their way: transactions that draw their ids early and commit
//! late, locks on rows, ended sessions, a lane whose lock somebody else has. Table and stream are read from outside.
//!
//! - `table`: what differs between the documents' tables; `judge`: what has to be true of what a run left behind

mod judge;
mod table;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use self::judge::{judge, lacking, read};
use super::{AWAY, POLL, STALLED_AFTER, end, prepare, restart, until_nothing_is_left};
use crate::api::Api;
use crate::process::Host;
use crate::{nats, postgres};

pub use self::table::Shape;

/// Aggregates, each with a writer of its own, and transactions that each makes.
const WRITERS: u64 = 6;
const TRANSACTIONS: u64 = 80;
/// Rows that wait when the hosts start, and their aggregates.
const BACKLOG: u64 = 10_000;
const BACKLOG_AGGREGATES: u64 = 100;
/// Lanes of the two hosts: the same row is in other lanes there.
const LANES: [u32; 2] = [4, 3];
/// A writer's transaction stays open for up to so long behind its row.
const OPEN_MS: u64 = 300;
/// How long a stranger holds rows, and how often a session of a host is ended.
const HELD: Duration = Duration::from_millis(300);
const ENDED_EVERY: Duration = Duration::from_millis(1_500);
/// Somebody has the lock of the first host's first lane for so long.
const LANE_HELD: Duration = Duration::from_secs(6);
/// A client waits so long before it tries again at a database that is away.
const AWAY_PAUSE: Duration = Duration::from_millis(200);
/// Where rows go that can be sent.
const GOOD: &str = "shop.event.paid";
/// A subject that no broker takes.
const BAD: &str = "shop..paid";
/// How long a count of failed rows may be old before a host counts again, and a while more.
const COUNTED_WITHIN: Duration = Duration::from_secs(60);

/// What a run found.
#[derive(Debug)]
pub struct Published {
    pub rows: usize,
    pub kills: usize,
    /// Promises that were broken, a sentence each.
    pub breaches: Vec<String>,
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} rows, {} kills", self.rows, self.kills)?;
        self.breaches.iter().take(20).try_for_each(|breach| writeln!(f, "  {breach}"))
    }
}

fn config(postgres: &postgres::Server, nats: &nats::Server, lanes: u32, shape: Shape) -> String {
    let url = nats.url();
    format!(
        "[outbox]\nbackoff = {{ base_ms = 200, factor = 1.0, jitter = 0.0, cap_ms = 200 }}\n[dead]\nalert_at = 1\n\
         [source.app]\nplugin = \"postgres\"\nprovision = {provision}\nallow = {{ net = [\"tcp://127.0.0.1:{port}\"] }}\n\
         config = {{ url = \"{database}\", table = \"outbox_events\" }}\n\
         [consumer.relay]\nsource = \"app\"\ndeliver = \"bus:{{{topic}}}\"\nlanes = {lanes}\nbatch = 50\nmax_attempts = 1000\n\
         [transport.nats]\nplugin = \"nats\"\nconfig = {{ servers = [\"{url}\"], stream = \"SHOP\" }}\n\
         allow = {{ net = [\"{peer}\"] }}\n\
         [[route]]\nmatch = \"bus:**\"\ntransport = \"nats\"\n",
        provision = shape.is_provisioned(),
        topic = shape.topic(),
        port = postgres.port(),
        database = postgres.url(),
        peer = url.replace("nats://", "tcp://"),
    )
}

/// Who a client of the database is. `psql` is found once, so that clients come back by themselves.
#[derive(Clone)]
struct Door {
    psql: PathBuf,
    port: u16,
}

impl Door {
    /// Connects, also to a server that is about to come back.
    async fn open(&self, user: &str) -> io::Result<postgres::Client> {
        let until = Instant::now() + STALLED_AFTER;
        loop {
            match postgres::Client::connect(&self.psql, self.port, user, postgres::PASSWORD).await {
                Err(_) if Instant::now() < until => sleep(AWAY_PAUSE).await,
                opened => return opened,
            }
        }
    }

    async fn app(&self) -> io::Result<postgres::Client> {
        self.open(postgres::USER).await
    }
}

/// Makes an aggregate's transactions, each of which stays open for a while: its ids are drawn early and seen late.
async fn write(door: Door, shape: Shape, aggregate: u64, written: Arc<AtomicU64>) -> io::Result<()> {
    let (mut client, name) = (door.app().await?, format!("a{aggregate}"));
    loop {
        // Also behind a commit of which nobody knows.
        let count = format!("SELECT count(*) FROM outbox_events WHERE aggregate_id = '{name}'");
        let Some(rows) = client.value(&count).await.ok().and_then(|text| text.parse::<u64>().ok()) else {
            client = door.app().await?;
            continue;
        };
        if rows >= TRANSACTIONS * shape.together() {
            return Ok(());
        }
        let inserts: Vec<String> = (1..=shape.together()).map(|next| shape.insert(GOOD, &name, rows + next)).collect();
        let put = async {
            client.query(&format!("BEGIN; {}", inserts.join("; "))).await?;
            // Spread evenly, and the same in every run.
            sleep(Duration::from_millis((rows * 131 + aggregate * 71) % OPEN_MS)).await;
            client.query("COMMIT").await
        };
        match put.await {
            Ok(_) => {
                written.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => client = door.app().await?,
        }
    }
}

/// Locks some waiting rows again and again.
async fn hold_rows(door: Door, shape: Shape) {
    let lock = format!(
        "BEGIN; SELECT id FROM outbox_events WHERE {} ORDER BY random() LIMIT 3 FOR UPDATE SKIP LOCKED",
        shape.waits()
    );
    while let Ok(mut client) = door.app().await {
        while client.query(&lock).await.is_ok() {
            sleep(HELD).await;
            if client.query("ROLLBACK").await.is_err() {
                break;
            }
        }
    }
}

/// Ends a session of a host again and again.
async fn end_sessions(door: Door) {
    while let Ok(mut client) = door.open("postgres").await {
        let end = format!(
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE usename = '{}' \
             AND application_name <> 'psql' ORDER BY random() LIMIT 1) s",
            postgres::USER
        );
        while client.query(&end).await.is_ok() {
            sleep(ENDED_EVERY).await;
        }
    }
}

/// Has the lock of a lane for a while, as an application's own might be.
async fn hold_lane(door: Door) {
    let Ok(mut client) = door.app().await else { return };
    let lock = format!("SELECT pg_advisory_lock(hashtext('waybill outbox_events'), {})", LANES[0] * 1_000);
    let _ended_with_the_database = client.query(&lock).await;
    sleep(LANE_HELD).await;
}

/// Runs it with its files in `dir`.
///
/// # Errors
/// Something isn't there, or stands still.
pub async fn published(binary: &Path, dir: &Path, shape: Shape) -> io::Result<Published> {
    let mut database = postgres::Server::start().await?;
    let server = nats::Server::start().await?;
    server.client().await?.create_stream("SHOP", &["shop.>"], &json!({})).await?;
    let mut client = database.client().await?;
    client.query(shape.definition()).await?;
    client.query(&shape.backlog(GOOD, BACKLOG, BACKLOG_AGGREGATES)).await?;
    let (mut hosts, mut launches) = (Vec::new(), Vec::new());
    for lanes in LANES {
        let launch = prepare(binary, &dir.join(format!("host-{lanes}")), &config(&database, &server, lanes, shape))?;
        let (host, _) = Host::ready(&launch).await.map_err(io::Error::other)?;
        hosts.push(host);
        launches.push(launch);
    }
    let door = Door { psql: postgres::psql()?, port: database.port() };
    let written = Arc::new(AtomicU64::new(0));
    let (mut writers, mut strangers) = (JoinSet::new(), JoinSet::new());
    for aggregate in 0..WRITERS {
        writers.spawn(write(door.clone(), shape, aggregate, Arc::clone(&written)));
    }
    strangers.spawn(hold_lane(door.clone()));
    strangers.spawn(hold_rows(door.clone(), shape));
    strangers.spawn(end_sessions(door.clone()));

    let (mut breaches, mut kills) = (Vec::new(), 0);
    for share in 1..=6 {
        while written.load(Ordering::Relaxed) < WRITERS * TRANSACTIONS * share / 8 {
            if let Some(ended) = writers.try_join_next() {
                ended.map_err(io::Error::other)??;
            }
            sleep(POLL).await;
        }
        breaches.extend(marked_too_early(&door, &server, shape).await?);
        kills += 1;
        if share % 3 == 0 {
            database.kill().await?;
            sleep(AWAY).await;
            database.restart().await?;
        } else {
            let host = hosts.remove(0);
            let launch = launches.remove(0);
            // The other one is the next.
            hosts.push(restart(host, &launch).await?);
            launches.push(launch);
        }
    }
    while let Some(ended) = writers.join_next().await {
        ended.map_err(io::Error::other)??;
    }
    strangers.shutdown().await;
    until_published(&door, shape).await?;
    let rows = read(&mut door.app().await?, shape).await?;
    let written = WRITERS * TRANSACTIONS * shape.together() + BACKLOG;
    breaches.extend(judge(&rows, written, &server.client().await?.read_all("SHOP").await?, shape));
    let api = hosts.first_mut().ok_or_else(|| io::Error::other("no host is left"))?.wait_ready().await;
    breaches.extend(failed_row(&door, &api.map_err(io::Error::other)?, shape).await?);
    for host in hosts {
        end(host).await?;
    }
    Ok(Published { rows: rows.len(), kills, breaches })
}

async fn until_published(door: &Door, shape: Shape) -> io::Result<()> {
    until_nothing_is_left("rows wait", async || {
        let count = format!("SELECT count(*) FROM outbox_events WHERE {}", shape.waits());
        door.app().await?.value(&count).await?.parse().map_err(io::Error::other)
    })
    .await
}

/// Rows that are marked and that the broker lacks: read in this order, for what is sent is marked later.
async fn marked_too_early(door: &Door, server: &nats::Server, shape: Shape) -> io::Result<Vec<String>> {
    let marked = format!("SELECT id FROM outbox_events WHERE {}", shape.is_published());
    let marked = door.app().await?.column(&marked).await?;
    Ok(lacking(&marked, &server.client().await?.read_all("SHOP").await?, shape))
}

/// A row that can't be sent stands failed, is counted and listed, and goes when it is mended and put back.
async fn failed_row(door: &Door, api: &Api, shape: Shape) -> io::Result<Vec<String>> {
    let mut client = door.app().await?;
    client.query(&shape.insert(BAD, "bad", 1)).await?;
    until_published(door, shape).await?;
    let mut breaches = Vec::new();
    let state = shape.state();
    let failed = format!("SELECT id FROM outbox_events WHERE aggregate_id = 'bad' AND {state} = 'failed'");
    let id = client.value(&failed).await?;
    let until = Instant::now() + COUNTED_WITHIN;
    loop {
        let ready = api.get("/readyz", &[]).await.map_err(|error| io::Error::other(format!("{error:?}")))?;
        if ready.body.to_string().contains("1 failed rows of tables") {
            break;
        }
        if Instant::now() > until {
            breaches.push(format!("a failed row isn't told of: {}", ready.body));
            break;
        }
        sleep(POLL).await;
    }
    let listed: Value = api.read("/v1/sources/app/failed", &[]).await.map_err(io::Error::other)?;
    if listed.pointer("/items/0/id").and_then(Value::as_str) != Some(id.as_str()) {
        breaches.push(format!("row {id} stands failed, and listed is {listed}"));
    }
    client.query(&format!("UPDATE outbox_events SET {} = '{GOOD}' WHERE id = '{id}'", shape.topic())).await?;
    let ask = json!({ "ids": [id], "reason": "mended" });
    let replayed =
        api.post("/v1/sources/app/replay", &ask).await.map_err(|error| io::Error::other(format!("{error:?}")))?;
    if !replayed.is_ok() {
        breaches.push(format!("it can't be put back: {}", replayed.body));
    }
    until_published(door, shape).await?;
    let state = client.value(&format!("SELECT {state} FROM outbox_events WHERE aggregate_id = 'bad'")).await?;
    if state != "published" {
        breaches.push(format!("mended and put back, it is {state}"));
    }
    Ok(breaches)
}
