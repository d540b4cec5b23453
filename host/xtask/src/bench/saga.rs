//! W2 and W2f: sagas of three steps that do nothing, 64 of them under way at once.
//!
//! A client starts its next saga as soon as the start of the one before is durable; a saga then still takes some commits to its
//! end. So how many clients keep 64 under way is found out in the warm-up, and how many were is measured and told.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use serde_json::{Value, json};
use waybill_testkit::api::Api;
use waybill_testkit::load::Sink;

use super::Bench;
use super::delivery::send;
use super::figure::Figure;
use super::host::Measured;
use crate::cargo::{Repository, run};
use crate::setup;

/// Sagas under way at once.
const AT_ONCE: f64 = 64.0;
/// Clients of the warm-up.
const CLIENTS: usize = 16;
/// Most clients.
const CLIENTS_MAX: f64 = 256.0;
/// Bytes of an input, about.
const INPUT: usize = 300;
/// Sagas before those that count.
const WARM_UP: u64 = 4_000;
/// Between two looks at what is under way; a look costs the host some time too.
const LOOK: Duration = Duration::from_millis(100);
/// The same in the warm-up.
const WARM_UP_LOOK: Duration = Duration::from_millis(20);
/// Between two looks at the end, when nothing more is started.
const LAST_LOOK: Duration = Duration::from_millis(10);
/// A host in which nothing moves for this long is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// Sagas in memory.
const RUNNING: &str = "tx_saga_running";

/// What a workload's sagas do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Three steps succeed.
    Through,
    /// The third fails for good, two are compensated.
    Back,
    /// Two steps and a request to a sink.
    Http,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Through => "through",
            Self::Back => "back",
            Self::Http => "http",
        }
    }

    /// What counts those that ended as they had to.
    fn counter(self) -> &'static str {
        if self == Self::Back { "tx_saga_compensated_total" } else { "tx_saga_completed_total" }
    }

    fn definition(self, sink: &str) -> Value {
        let pass = |name: &str| json!({ "name": name, "action": "fn:idle/pass", "compensation": "fn:idle/pass" });
        let last = match self {
            Self::Through => pass("three"),
            Self::Back => json!({ "name": "three", "action": "fn:idle/refuse" }),
            Self::Http => json!({ "name": "three", "action": sink }),
        };
        json!({ "name": self.name(), "version": 1, "steps": [pass("one"), pass("two"), last] })
    }
}

/// Runs so many sagas.
pub async fn sagas(bench: &Bench, kind: Kind, count: u64) -> Result<Figure> {
    let sink = Sink::start(false).await.context("starting the sink")?;
    let mut config = toml::Table::new();
    config.insert("plugin".into(), bench.idle.display().to_string().into());
    let mut host = Measured::start(bench, &format!("[participant.idle]\n{config}")).await?;
    define(&host.api, &kind.definition(&sink.url("step"))).await?;
    let (_, seen) = start(&host.api, bodies(kind, WARM_UP), CLIENTS, WARM_UP_LOOK).await?;
    drained(&host.api).await?;
    let clients = (CLIENTS as f64 * AT_ONCE / seen.max(1.0)).round().clamp(1.0, CLIENTS_MAX) as usize;
    let before = ended(&host.api, kind).await?;

    host.mark()?;
    let began = Instant::now();
    let (sent, seen) = start(&host.api, bodies(kind, count), clients, LOOK).await?;
    drained(&host.api).await?;
    let figure = host.used(Figure::of_rate(count, began.elapsed()).with_times(sent))?;
    let done = ended(&host.api, kind).await? - before;
    if done != count as f64 {
        bail!("{} grew by {done}, and {count} sagas were started", kind.counter());
    }
    host.end().await?;
    Ok(Figure { at_once: Some(seen), ..figure })
}

/// Starts sagas from so many clients; answers the time of each start, and how many sagas were under way on average.
async fn start(api: &Api, bodies: Vec<Bytes>, clients: usize, every: Duration) -> Result<(Vec<Duration>, f64)> {
    let mut seen = Vec::new();
    let sent = tokio::select! {
        sent = send(api.base(), "/v1/sagas", bodies, clients) => sent?,
        failed = look(api, every, &mut seen) => return Err(failed),
    };
    Ok((sent, seen.iter().sum::<f64>() / seen.len().max(1) as f64))
}

/// Notes how many are under way, until it is dropped or fails.
async fn look(api: &Api, every: Duration, seen: &mut Vec<f64>) -> anyhow::Error {
    loop {
        tokio::time::sleep(every).await;
        match metric(api, RUNNING).await {
            Ok(running) => seen.push(running),
            Err(error) => return error,
        }
    }
}

/// Waits until none is under way.
async fn drained(api: &Api) -> Result<()> {
    let (mut seen, mut moved) = (f64::MAX, Instant::now());
    loop {
        let left = metric(api, RUNNING).await?;
        if left == 0.0 {
            return Ok(());
        }
        if left != seen {
            (seen, moved) = (left, Instant::now());
        } else if moved.elapsed() > PATIENCE {
            bail!("{left} sagas are under way and none has ended for {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(LAST_LOOK).await;
    }
}

/// How many ended as they had to.
async fn ended(api: &Api, kind: Kind) -> Result<f64> {
    metric(api, kind.counter()).await
}

/// The sum of a metric over its labels; 0 before it is counted first.
async fn metric(api: &Api, name: &str) -> Result<f64> {
    let page: Value = api.read("/metrics", &[]).await?;
    sum(page.as_str().context("/metrics is no text")?, name)
}

fn sum(page: &str, name: &str) -> Result<f64> {
    let mut sum = 0.0;
    for line in page.lines() {
        let Some(rest) = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' '])) else { continue };
        let value = rest.rsplit(' ').next().unwrap_or_default();
        sum += value.parse::<f64>().with_context(|| format!("reading the metric in {line:?}"))?;
    }
    Ok(sum)
}

async fn define(api: &Api, definition: &Value) -> Result<()> {
    match api.post("/v1/saga-definitions", definition).await {
        Ok(reply) if reply.is_ok() => Ok(()),
        other => bail!("the host doesn't take the definition: {other:?}"),
    }
}

/// Requests that start sagas.
fn bodies(kind: Kind, count: u64) -> Vec<Bytes> {
    let body = |number: u64| {
        let note = "x".repeat(INPUT.saturating_sub(60));
        let input = json!({ "order": number, "customer": format!("customer-{}", number % 1_000), "note": note });
        Bytes::from(json!({ "definition": kind.name(), "input": input }).to_string())
    };
    (0..count).map(body).collect()
}

/// Builds the participant that does nothing.
pub fn idle(repository: &Repository) -> Result<PathBuf> {
    setup::guest_target()?;
    let target = repository.target.join("idle");
    let mut build = repository.cargo(["build", "--release", "--locked", "--manifest-path", "tests/idle/Cargo.toml"]);
    run(build.args(["--target", setup::GUEST_TARGET, "--target-dir"]).arg(&target))?;
    Ok(target.join(setup::GUEST_TARGET).join("release").join("idle.wasm"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels() {
        let page = "# HELP a_total x\n# TYPE a_total counter\na_total{b=\"c d\"} 2\na_total{b=\"e\"} 3\na_total_other 7\nrunning 4\n";
        assert_eq!(sum(page, "a_total").unwrap(), 5.0);
        assert_eq!(sum(page, "running").unwrap(), 4.0);
        assert_eq!(sum(page, "none").unwrap(), 0.0);
        assert!(sum("a x", "a").is_err());
    }

    #[test]
    fn each_workload_has_three_steps_and_a_body_of_the_size_asked_for() {
        for (kind, undone) in [(Kind::Through, 3), (Kind::Back, 2), (Kind::Http, 2)] {
            let steps = kind.definition("http://127.0.0.1:9/step")["steps"].clone();
            let steps = steps.as_array().unwrap();
            assert_eq!(steps.len(), 3);
            assert_eq!(steps.iter().filter(|step| step["compensation"].is_string()).count(), undone);
        }
        let body: Value = serde_json::from_slice(&bodies(Kind::Back, 2)[1]).unwrap();
        assert_eq!((body["definition"].as_str(), body["input"]["order"].as_u64()), (Some("back"), Some(1)));
        assert!((250..350).contains(&body["input"].to_string().len()));
    }
}
