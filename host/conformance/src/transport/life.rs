//! Configuration, opening, closing, generations, secrets.

use serde_json::json;
use waybill_core::code::Code;
use waybill_core::port::transport::{ErrorKind, Health, Transport};
use waybill_sandbox::{SandboxError, WasmTransport, check_config};

use super::bench::{Bench, delivered, send_within};
use crate::limits::{CLOSE_TIMEOUT, LONG_TIMEOUT, SHORT_CLOSE_TIMEOUT};
use crate::outside::Mode;
use crate::sample;
use crate::suite::{Suite, failed, not_applicable, not_run};

/// The empty configuration: refused by the schema, or good enough for `open`.
pub(super) async fn config(suite: &mut Suite, bench: &Bench) {
    let promise = "an empty configuration is refused by the schema, or `open` takes it";
    suite
        .check("config-empty", promise, async {
            if let Err(error) = check_config(bench.plugin.manifest(), "suite", &json!({})) {
                return Ok(format!("refused: {error}"));
            }
            let outside = bench.outside().await?;
            let mut spec = bench.spec(&outside.address(), 1);
            spec.settings.config = json!({});
            match WasmTransport::start(bench.plugin.clone(), spec).await {
                Ok(transport) => {
                    transport.close(CLOSE_TIMEOUT).await;
                    Ok("it opens with {}".to_owned())
                }
                Err(SandboxError::Open { kind: ErrorKind::InvalidConfig, fault, .. }) => Err(failed(
                    format!("the schema takes {{}} and `open` refuses it: {}", sample::describe(&fault)),
                    "name what is needed as `required` in config_schema, so that it is found before a start",
                )),
                Err(SandboxError::Open { kind, fault, .. }) if crashed(kind) => Err(failed(
                    format!("`open` with {{}} ended as {kind:?}: {}", sample::describe(&fault)),
                    "answer an error of kind `invalid-config` instead",
                )),
                // Nobody is where its defaults point to.
                Err(error) => Ok(format!("it reads {{}}, and then: {error}")),
            }
        })
        .await;
}

/// Whether it opens at all. Without that nothing else can be seen. `lacking`: what no case describes, so that it may well fail.
pub(super) async fn opens(suite: &mut Suite, bench: &Bench, lacking: Option<&str>) {
    let promise = "it opens, says it is well, and delivers a message";
    suite
        .check("opens", promise, async {
            let running = bench.start().await.map_err(|verdict| lacking.map_or(verdict, not_run))?;
            let report = running.transport.health().await;
            if report.health == Health::Down {
                return Err(failed(
                    format!("health says down: {}", report.detail.unwrap_or_default()),
                    "answer `ready` or `degraded` while it serves",
                ));
            }
            let sent = bench.batch(&running.outside, 1, bench.case.messages.len())?;
            let count = delivered(&running.transport, sent).await;
            let count = count.map_err(|verdict| lacking.map_or(verdict, not_run))?;
            Ok(format!("{count} delivered, health {:?}", report.health))
        })
        .await;
}

/// What else concerns its life.
pub(super) async fn all(suite: &mut Suite, bench: &Bench) {
    probe(suite, bench).await;
    reopen(suite, bench).await;
    overlap(suite, bench).await;
    close_in_the_middle(suite, bench).await;
    secrets(suite, bench).await;
}

pub(super) async fn probe(suite: &mut Suite, bench: &Bench) {
    suite
        .check("probe", "opened with purpose `probe` it says how it is, and ends", async {
            let outside = bench.outside().await?;
            let spec = bench.spec(&outside.address(), 1);
            let report = WasmTransport::probe(bench.plugin.clone(), spec).await.map_err(|error| {
                failed(error, "connect and authenticate for a probe too; take nothing over and create nothing")
            })?;
            Ok(format!("{:?}", report.health))
        })
        .await;
}

async fn reopen(suite: &mut Suite, bench: &Bench) {
    suite
        .check("close-and-reopen", "after `close` a fresh instance serves", async {
            let running = bench.start().await?;
            delivered(&running.transport, bench.batch(&running.outside, 1, 3)?).await?;
            running.transport.close(CLOSE_TIMEOUT).await;
            let again = bench.open(&running.outside, 2).await?;
            delivered(&again, bench.batch(&running.outside, 11, 3)?).await?;
            again.close(CLOSE_TIMEOUT).await;
            Ok("both generations delivered".to_owned())
        })
        .await;
}

async fn overlap(suite: &mut Suite, bench: &Bench) {
    suite
        .check("generations-overlap", "two generations serve side by side, as in a hot reload", async {
            let running = bench.start().await?;
            let next = bench.open(&running.outside, 2).await?;
            delivered(&running.transport, bench.batch(&running.outside, 1, 3)?).await?;
            delivered(&next, bench.batch(&running.outside, 11, 3)?).await?;
            running.transport.close(CLOSE_TIMEOUT).await;
            delivered(&next, bench.batch(&running.outside, 21, 3)?).await?;
            Ok("the new one went on when the old one ended".to_owned())
        })
        .await;
}

async fn close_in_the_middle(suite: &mut Suite, bench: &Bench) {
    let promise = "a call that is under way when the host closes says nothing untrue, and breaks nothing";
    suite
        .check("close-in-the-middle", promise, async {
            let running = bench.start().await?;
            delivered(&running.transport, bench.batch(&running.outside, 1, 1)?).await?;
            if running.outside.switch.connections() == 0 {
                return Err(not_applicable("it never waits for a peer"));
            }
            running.outside.switch.set(Mode::Silent).await;
            let batch = bench.batch(&running.outside, 11, 3)?;
            let (sending, closing) = tokio::join!(send_within(&running.transport, batch, LONG_TIMEOUT), async {
                // The call has to be inside the guest; there is nothing to see of it from here.
                tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                running.transport.close(SHORT_CLOSE_TIMEOUT).await;
            });
            let () = closing;
            let (answer, told) = sending;
            match &answer {
                // It waits for its peer until the host's patience ends: what it had sent is unknown then, and sent again.
                Err(error) if error.fault.code == Code::PLUGIN_CLOSED.as_str() && told.acks() == 0 => {
                    Ok("the host cut it off; one that looks at `control.cancelled` ends sooner".to_owned())
                }
                _ => super::bench::honest_while_away(&answer, &told),
            }
        })
        .await;
}

async fn secrets(suite: &mut Suite, bench: &Bench) {
    let promise = "without its secrets it opens, or says what is missing";
    suite
        .check("secrets-denied", promise, async {
            if bench.plugin.manifest().ask.secrets.is_empty() {
                return Err(not_applicable("it asks for no secret"));
            }
            let outside = bench.outside().await?;
            let mut spec = bench.spec(&outside.address(), 1);
            spec.settings.grants.secrets.clear();
            match WasmTransport::start(bench.plugin.clone(), spec).await {
                Ok(transport) => {
                    transport.close(CLOSE_TIMEOUT).await;
                    Ok("it opens without".to_owned())
                }
                Err(SandboxError::Open { kind, fault, .. }) if crashed(kind) => Err(failed(
                    format!("`open` without secrets ended as {kind:?}: {}", sample::describe(&fault)),
                    "answer an error of kind `denied` that names the secret",
                )),
                Err(error) => Ok(error.to_string()),
            }
        })
        .await;
}

/// The instance was lost by it.
fn crashed(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Trapped | ErrorKind::TimedOut | ErrorKind::Contract)
}
