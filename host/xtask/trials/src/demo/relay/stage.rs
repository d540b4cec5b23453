//! Everything that runs: PostgreSQL, broker, handler, host; what is killed of it and when; and the end of the work.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use waybill_testkit::api::Api;
use waybill_testkit::process::{Host, Launch};
use waybill_testkit::{nats, postgres};

use super::evidence::{Evidence, Row, Status};
use super::programs::{Billing, Counts, Placing};
use super::result::Bars;
use crate::demo::{POLL, STALLED_AFTER};

/// How long what was killed stays away; the host comes back at once.
const AWAY: Duration = Duration::from_millis(800);
/// The stream of the example.
const STREAM: &str = "SHOP";
/// Its consumer behind the inbox.
const CONSUMER: &str = "billing";
const TABLES: [&str; 2] = ["outbox_events", "webhook_events"];

/// One of those that the demo kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Host,
    Postgres,
    Handler,
    Broker,
}

impl Victim {
    const ALL: [Self; 4] = [Self::Host, Self::Postgres, Self::Handler, Self::Broker];
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Host => "the host",
            Self::Postgres => "PostgreSQL",
            Self::Handler => "the handler",
            Self::Broker => "nats-server",
        })
    }
}

/// One `kill -9`, by the wall clock in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    pub victim: Victim,
    pub at_ms: i64,
}

pub struct Stage {
    postgres: postgres::Server,
    nats: nats::Server,
    billing: Billing,
    launch: Launch,
    /// None only while it is killed and started again.
    host: Option<Host>,
    api: Api,
}

/// What the inbox still has.
#[derive(Deserialize)]
struct InboxStats {
    consumers: Vec<ConsumerStats>,
}

#[derive(Deserialize)]
struct ConsumerStats {
    in_hand: u64,
    stored: u64,
}

impl Stage {
    pub async fn start(
        postgres: postgres::Server,
        nats: nats::Server,
        billing: Billing,
        launch: Launch,
    ) -> Result<Self> {
        let (host, api) = Host::ready(&launch).await?;
        Ok(Self { postgres, nats, billing, launch, host: Some(host), api })
    }

    /// The host as it is now.
    pub fn api(&self) -> &Api {
        &self.api
    }

    pub fn billing_url(&self) -> &str {
        self.billing.url()
    }

    /// Kills each of them so many times, spread over the orders.
    pub async fn kill_in_turn(
        &mut self,
        placing: &mut Placing,
        orders: u32,
        rounds: usize,
        bars: &Bars,
    ) -> Result<Vec<Kill>> {
        let planned: Vec<Victim> = (0..rounds).flat_map(|_| Victim::ALL).collect();
        let share = orders / u32::try_from(planned.len() + 1)?;
        let (mut kills, mut due) = (Vec::new(), share);
        for victim in planned {
            while placing.placed() < due && !placing.has_ended() {
                self.show(placing.placed(), bars).await;
                tokio::time::sleep(POLL).await;
            }
            due += share;
            bars.tell(&format!("{victim} is killed, with {} orders placed", placing.placed()));
            kills.push(Kill { victim, at_ms: now_ms()? });
            self.kill(victim).await?;
        }
        while !placing.has_ended() {
            self.show(placing.placed(), bars).await;
            tokio::time::sleep(POLL).await;
        }
        Ok(kills)
    }

    async fn kill(&mut self, victim: Victim) -> Result<()> {
        match victim {
            Victim::Host => {
                let host = self.host.take().context("the host isn't there")?;
                if !host.kill().await? {
                    bail!("the host had ended by itself; its last words are in {}", self.launch.log.display());
                }
                let (host, api) = Host::ready(&self.launch).await?;
                (self.host, self.api) = (Some(host), api);
            }
            Victim::Postgres => {
                self.postgres.kill().await?;
                tokio::time::sleep(AWAY).await;
                self.postgres.restart().await?;
            }
            Victim::Handler => {
                self.billing.kill().await?;
                tokio::time::sleep(AWAY).await;
                self.billing.restart().await?;
            }
            Victim::Broker => {
                self.nats.kill().await?;
                tokio::time::sleep(AWAY).await;
                self.nats.restart().await?;
            }
        }
        Ok(())
    }

    async fn show(&self, placed: u32, bars: &Bars) {
        if let Ok(counts) = self.billing.counts().await {
            bars.show(placed, counts);
        }
    }

    /// Waits until every row is published, every webhook came, and every order is billed and off the inbox.
    pub async fn drain(&mut self, orders: u32, bars: &Bars) -> Result<()> {
        let mut tables = self.postgres.client().await?;
        let (mut seen, mut moved) = (None, Instant::now());
        loop {
            let mut waiting = 0_u64;
            for table in TABLES {
                let sql = format!("SELECT count(*) FROM {table} WHERE status IN ('pending', 'processing')");
                waiting += tables.value(&sql).await?.parse::<u64>().context("counting rows")?;
            }
            let counts = self.billing.counts().await.context("asking billing.py for its counts")?;
            bars.show(orders, counts);
            let stats: InboxStats = self.api.read("/v1/inbox/stats", &[]).await?;
            let held: u64 = stats.consumers.iter().map(|consumer| consumer.in_hand + consumer.stored).sum();
            let all = Counts { bills: orders, handled: orders, webhooks: orders };
            if waiting == 0 && held == 0 && counts == all {
                return Ok(());
            }
            let now = (waiting, held, counts);
            if seen != Some(now) {
                (seen, moved) = (Some(now), Instant::now());
            } else if moved.elapsed() > STALLED_AFTER {
                bail!(
                    "nothing has moved for {} s: {waiting} rows wait, the inbox holds {held}, of {orders} orders there are {counts:?}",
                    STALLED_AFTER.as_secs()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Reads tables, stream, handler and inbox.
    pub async fn evidence(&mut self, kills: Vec<Kill>) -> Result<Evidence> {
        let mut client = self.postgres.client().await?;
        let orders = client.query("SELECT id, customer, number FROM orders").await?;
        let mut tables = Vec::new();
        for table in TABLES {
            // The payload's own text comes back as the broker has it.
            let sql = format!(
                "SELECT id, status, aggregate_id, payload->>'number', payload->>'order' FROM {table} ORDER BY id"
            );
            tables.push(client.query(&sql).await?.iter().map(|row| Row::read(row)).collect::<Result<Vec<_>>>()?);
        }
        let mut tables = tables.into_iter();
        let (events, webhooks) = (tables.next().unwrap_or_default(), tables.next().unwrap_or_default());
        let mut inbox = BTreeMap::new();
        for row in &events {
            let id = format!("outbox-{}", row.id);
            let status: Status = self.api.read(&format!("/v1/inbox/{CONSUMER}/{id}"), &[]).await?;
            inbox.insert(id, status);
        }
        Ok(Evidence {
            orders: orders.into_iter().filter_map(|row| row.into_iter().next()).collect(),
            events,
            webhooks,
            stream: self.nats.client().await?.read_all(STREAM).await?,
            report: self.billing.report().await?,
            inbox,
            dead: self.api.list::<Value>("/v1/dead-letters", &[]).await?.len(),
            kills,
        })
    }

    /// Ends the host in good order.
    pub async fn end(self, within: Duration) -> Result<()> {
        let status = self.host.context("the host isn't there")?.terminate(within).await?;
        if !status.success() {
            bail!("the host was asked to end and ended with {status}");
        }
        Ok(())
    }
}

fn now_ms() -> Result<i64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH).context("the clock")?.as_millis().try_into()?)
}
