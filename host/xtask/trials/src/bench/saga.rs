//! W2 and W2f: sagas of three steps that do nothing, 64 of them under way at once.
//!
//! 64 clients start a saga each, wait for its end in the same request, and start the next.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use serde_json::{Value, json};
use waybill_testkit::api::Api;
use waybill_testkit::load::Sink;
use xtask::cargo::{Repository, run};
use xtask::setup::GUEST_TARGET;

use super::Bench;
use super::delivery::send;
use super::figure::Figure;
use super::host::Measured;

/// Sagas under way at once, one a client.
const CLIENTS: usize = 64;
/// Bytes of an input, about.
const INPUT: usize = 300;
/// Sagas before those that count.
const WARM_UP: u64 = 4_000;
/// A start that is answered when the saga has ended.
const START: &str = "/v1/sagas?wait_ms=20000";

/// What a workload's sagas do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

    /// How its sagas end.
    fn end(self) -> &'static str {
        if self == Self::Back { "\"state\":\"cancelled\"" } else { "\"state\":\"completed\"" }
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
    through(host.api.base(), kind, WARM_UP).await?;

    host.mark()?;
    let began = Instant::now();
    let times = through(host.api.base(), kind, count).await?;
    let figure = host.used(Figure::of_rate(count, began.elapsed()).with_times(times))?;
    host.end().await?;
    Ok(figure)
}

/// Runs so many sagas to their end; answers how long each took.
async fn through(base: &str, kind: Kind, count: u64) -> Result<Vec<Duration>> {
    let bodies = bodies(kind, count);
    let (wanted, sent) = (bodies.len(), send(base, START, bodies, CLIENTS, Some(kind.end())).await?);
    if sent.len() != wanted {
        bail!("{} of {wanted} sagas ended", sent.len());
    }
    Ok(sent)
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
    let target = repository.target.join("idle");
    let mut build = repository.cargo(["build", "--release", "--locked", "--manifest-path", "tests/idle/Cargo.toml"]);
    run(build.args(["--target", GUEST_TARGET, "--target-dir"]).arg(&target))?;
    Ok(target.join(GUEST_TARGET).join("release").join("idle.wasm"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

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
