//! Starting sagas, following them to their end, and what an operator does about those that are stuck.
//!
//! A host may be killed at any moment: every request is made again until it is answered, which changes nothing that was done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use waybill_testkit::api::{Api, CallError};
use waybill_testkit::process::{Host, Launch};

use super::evidence::Shown;
use super::plan::Order;
use super::result::Bars;
use crate::demo::insistent::{ANSWERED_WITHIN, post};
use crate::demo::{POLL, STALLED_AFTER};

const WORKERS: usize = 16;
/// Between two looks at all sagas.
const LOOK: Duration = Duration::from_millis(250);

/// The host and the way to it. Its address is another one after each start.
pub struct Driver {
    launch: Launch,
    /// None only while it is killed and started again.
    host: Option<Host>,
    api: Arc<Mutex<Api>>,
}

/// What a list says of a saga.
#[derive(Clone, Debug, Deserialize)]
struct Listed {
    id: String,
    state: String,
    #[serde(default)]
    ended_at: Option<Value>,
}

impl Listed {
    /// It stopped on the way back, and an operator has to act.
    fn stuck(&self) -> bool {
        self.state == "failed" && self.ended_at.is_none()
    }
}

impl Driver {
    pub async fn start(launch: &Launch) -> Result<Self> {
        let (host, api) = Host::ready(launch).await?;
        Ok(Self { launch: launch.clone(), host: Some(host), api: Arc::new(Mutex::new(api)) })
    }

    /// The host as it is now.
    pub fn api(&self) -> Api {
        self.api.lock().clone()
    }

    /// Gives the host back.
    pub fn into_host(self) -> Result<Host> {
        self.host.context("the host was killed and didn't start again")
    }

    pub async fn define(&self, definition: &Value) -> Result<()> {
        post(&self.api, "/v1/saga-definitions", definition).await.map(drop)
    }

    /// Starts a saga for each order, kills the host so many times meanwhile, and waits until every saga has ended or is
    /// stuck.
    pub async fn run(&mut self, orders: &[Order], kills: usize, bars: &Bars) -> Result<()> {
        let mut starting = start_all(&self.api, orders, bars);
        let mut killed = 0;
        let mut watch = Watch::default();
        loop {
            tokio::select! {
                Some(done) = starting.join_next() => done.context("a worker of the demo died")??,
                () = tokio::time::sleep(LOOK) => {}
            }
            let listed = self.list().await?;
            let rest = listed.iter().filter(|saga| saga.ended_at.is_some() || saga.stuck()).count();
            bars.ended(listed.iter().filter(|saga| saga.ended_at.is_some()).count());
            if killed < kills && rest >= orders.len() * (killed + 1) / (kills + 2) {
                killed += 1;
                bars.tell(&format!(
                    "the host is killed, with {} of {} sagas under way",
                    listed.len() - rest,
                    listed.len()
                ));
                self.kill().await?;
            }
            if starting.is_empty() && rest == orders.len() {
                return Ok(());
            }
            watch.moved(&listed, orders.len())?;
        }
    }

    async fn kill(&mut self) -> Result<()> {
        if let Some(host) = self.host.take() {
            host.kill().await?;
        }
        let (host, api) = Host::ready(&self.launch).await?;
        self.host = Some(host);
        *self.api.lock() = api;
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Listed>> {
        let began = Instant::now();
        loop {
            match self.api().list("/v1/sagas", &[]).await {
                Err(CallError::NoReply(_)) if began.elapsed() < ANSWERED_WITHIN => tokio::time::sleep(POLL).await,
                listed => return listed.context("listing the sagas"),
            }
        }
    }

    /// Those that are stuck.
    pub async fn stuck(&self) -> Result<BTreeSet<String>> {
        Ok(self.list().await?.into_iter().filter(Listed::stuck).map(|saga| saga.id).collect())
    }

    /// Tells them to try again.
    pub async fn retry(&self, sagas: &BTreeSet<String>) -> Result<()> {
        for id in sagas {
            let body = json!({ "mode": "compensate", "reason": "the shop was mended" });
            post(&self.api, &format!("/v1/sagas/{id}/retry"), &body).await?;
        }
        Ok(())
    }

    /// Waits until all have ended.
    pub async fn all_ended(&self, count: usize, bars: &Bars) -> Result<()> {
        let mut watch = Watch::default();
        loop {
            let listed = self.list().await?;
            let ended = listed.iter().filter(|saga| saga.ended_at.is_some()).count();
            bars.ended(ended);
            if ended == count {
                return Ok(());
            }
            watch.moved(&listed, count)?;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Every order's saga with its steps.
    pub async fn sagas(&self, orders: &[Order]) -> Result<BTreeMap<String, Shown>> {
        let mut sagas = BTreeMap::new();
        for order in orders {
            let shown = self.api().read(&format!("/v1/sagas/{}", order.id), &[]).await;
            sagas.insert(order.id.clone(), shown.with_context(|| format!("reading saga {}", order.id))?);
        }
        Ok(sagas)
    }
}

/// Sees whether anything moves.
#[derive(Default)]
struct Watch {
    seen: BTreeMap<String, usize>,
    moved: Option<Instant>,
}

impl Watch {
    fn moved(&mut self, listed: &[Listed], wanted: usize) -> Result<()> {
        let mut now: BTreeMap<String, usize> = BTreeMap::new();
        for saga in listed {
            *now.entry(saga.state.clone()).or_default() += 1;
        }
        let moved = *self.moved.get_or_insert_with(Instant::now);
        if self.seen != now {
            (self.seen, self.moved) = (now, Some(Instant::now()));
        } else if moved.elapsed() > STALLED_AFTER {
            bail!("nothing has moved for {} s; of {wanted} sagas there are: {now:?}", STALLED_AFTER.as_secs());
        }
        Ok(())
    }
}

/// Begins to start all of them, several at once.
fn start_all(api: &Arc<Mutex<Api>>, orders: &[Order], bars: &Bars) -> JoinSet<Result<()>> {
    let waiting: Vec<Value> = orders
        .iter()
        .rev()
        .map(|order| json!({ "definition": "order", "id": order.id, "input": order.input }))
        .collect();
    let waiting = Arc::new(Mutex::new(waiting));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (api, waiting, bars) = (Arc::clone(api), Arc::clone(&waiting), bars.clone());
        workers.spawn(async move {
            loop {
                let next = waiting.lock().pop();
                let Some(body) = next else { return Ok(()) };
                post(&api, "/v1/sagas", &body).await?;
                bars.started();
            }
        });
    }
    workers
}
