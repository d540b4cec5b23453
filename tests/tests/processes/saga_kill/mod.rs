//! A thousand sagas on the release binary, which is killed with `kill -9` at random moments; then the sagas' ends and the
//! ledger of the service that they called are compared.
//!
//! The service is idempotent by `Idempotency-Key` and notes every call. What it refuses, holds and fails follows from the
//! saga's id alone; when the kills come follows from the seed.

mod laws;
mod service;

use std::io::Write;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use waybill_testkit::api::{Api, NoReply};
use waybill_testkit::process::{Host, Launch, binary};

use service::Service;

const SAGAS: usize = 1_000;
/// Sagas started between two kills, at most.
const STARTED_MAX: usize = 40;
/// Kills at least, also when all sagas have been started before.
const KILLS_MIN: u32 = 40;
/// Earliest and latest kill after a host was ready, in milliseconds.
const KILL_AFTER_MS: std::ops::RangeInclusive<u64> = 20..=400;
/// Seed of the kills.
const SEED: u64 = 5;
/// The last host gets this long without any saga ending before the test gives up.
const STALLED_AFTER: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_sagas_end_completed_or_compensated_whenever_the_host_is_killed() {
    let service = Service::start().await;
    let dir = tempfile::tempdir().unwrap();
    let config = format!("[store]\nurl = \"surrealkv://{}\"\nmemtable = \"8MiB\"\n", dir.path().join("data").display());
    let launch = Launch::prepare(binary().unwrap(), dir.path(), &config).unwrap();
    let mut rng = StdRng::seed_from_u64(SEED);
    let (mut started, mut kills) = (0, 0);
    while started < SAGAS || kills < KILLS_MIN {
        let (host, api) = Host::ready(&launch).await.unwrap();
        if kills == 0 {
            define(&api, &service).await;
        }
        let moment = Duration::from_millis(rng.random_range(KILL_AFTER_MS));
        let until = SAGAS.min(started + STARTED_MAX);
        let load = async {
            for index in started..until {
                if !matches!(start(&api, index).await, Ok(true)) {
                    return index;
                }
            }
            // Everything is under way: the kill comes all the same.
            until
        };
        let sleep = tokio::time::sleep(moment);
        tokio::pin!(sleep);
        tokio::select! {
            reached = load => {
                started = reached;
                sleep.await;
            }
            () = &mut sleep => {
                // Those whose answer didn't come are started again, under their ids.
                started = service.seen_up_to(started);
            }
        }
        assert!(host.kill().await.unwrap(), "the host ended by itself");
        kills += 1;
        if kills % 20 == 0 {
            say(&format!("{kills} kills, {started} sagas started, {} calls", service.calls().len()));
        }
    }
    let (host, api) = Host::ready(&launch).await.unwrap();
    for index in 0..SAGAS {
        // A repeat changes nothing. A host that is busy says so, and is asked again.
        let asked = tokio::time::Instant::now();
        while !start(&api, index).await.unwrap_or_else(|why| panic!("saga {index}: {why:?}")) {
            assert!(asked.elapsed() < STALLED_AFTER, "saga {index} was never taken");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let ended = wait(&api).await;
    let calls = service.calls();
    say(&format!("{kills} kills, {} sagas, {} calls", ended.len(), calls.len()));
    let broken = laws::broken(&ended, &calls);
    assert!(broken.is_empty(), "{} laws are broken:\n{}", broken.len(), broken.join("\n"));
    assert!(laws::repeated(&calls) > 0, "no kill hit a call: the run proves nothing");
    host.terminate(Duration::from_secs(120)).await.unwrap();
}

async fn define(api: &Api, service: &Service) {
    let step = |name: &str| {
        json!({
            "name": name, "action": service.url(name), "compensation": service.url(name), "timeout_ms": 10_000,
            "retry": { "max_attempts": 50, "base_ms": 20, "factor": 1.5, "jitter": 0.3, "cap_ms": 200 },
        })
    };
    let definition = json!({ "name": "order", "version": 1, "steps": laws::STEPS.map(step) });
    let reply = api.post("/v1/saga-definitions", &definition).await.unwrap();
    assert!(reply.is_ok(), "{reply:?}");
}

/// Starts a saga, or repeats its start. False when the host is busy.
async fn start(api: &Api, index: usize) -> Result<bool, NoReply> {
    let body = json!({ "definition": "order", "id": laws::id(index), "input": { "order": index } });
    let reply = api.post("/v1/sagas", &body).await?;
    assert!(reply.is_ok() || matches!(reply.status, 429 | 503), "{reply:?}");
    Ok(reply.is_ok())
}

/// Waits until every saga has ended; their states by id.
async fn wait(api: &Api) -> Vec<(String, String)> {
    let (mut seen, mut moved) = (0, tokio::time::Instant::now());
    loop {
        let mut ended = Vec::new();
        for state in ["completed", "cancelled", "failed", "paused"] {
            let filter = format!("state={state}");
            let items: Vec<serde_json::Value> = api.list("/v1/sagas", &[("filter", &filter)]).await.unwrap();
            ended.extend(items.iter().map(|item| (item["id"].as_str().unwrap().to_owned(), state.to_owned())));
        }
        if ended.len() == SAGAS {
            return ended;
        }
        if ended.len() != seen {
            (seen, moved) = (ended.len(), tokio::time::Instant::now());
        }
        assert!(moved.elapsed() < STALLED_AFTER, "{seen} of {SAGAS} sagas have ended, and nothing moves");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// To stderr itself, which the test harness doesn't capture: it takes a minute, and progress is worth seeing.
fn say(text: &str) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
}
