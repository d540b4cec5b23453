//! The suite of sources: what is brought, how it is settled, and what becomes of it when the peer is away.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use waybill_core::port::source::{
    Disposition, Overtaken, Pulled, Settled, Source, SourceDelivery, SourceSettlement, SourceWants,
};
use waybill_core::port::transport::{CallError, ErrorKind, Health};
use waybill_sandbox::{LoadedPlugin, PluginSource, Sandbox, SandboxError, WasmSource, World};

use crate::Options;
use crate::case::{Case, Head};
use crate::endpoint::{call_failed, case_for, config_empty, outside, refused, spec};
use crate::limits::{CALL_TIMEOUT, CLOSE_TIMEOUT, RECOVERY_PAUSE, RECOVERY_TRIES};
use crate::outside::{Mode, Outside};
use crate::report::{Report, Verdict};
use crate::sample;
use crate::suite::{CaseResult, Suite, failed, hindrance, not_applicable, not_run};

/// Most deliveries of one pull.
const PULL_MAX: u32 = 100;
/// Most payload bytes of one pull.
const PULL_BYTES_MAX: u32 = 1024 * 1024;
/// How long a pull waits for the first delivery.
const PULL_WAIT: Duration = Duration::from_millis(500);
/// Pulls until everything of a case has to be there.
const PULLS_MAX: usize = 60;
/// Pulls in which something may come that must not.
const PULLS_AFTER: usize = 3;
/// What a source is told to keep where a check doesn't say otherwise.
const WANTS: SourceWants = SourceWants {
    window: PULL_MAX,
    window_bytes: 16 * PULL_BYTES_MAX,
    on_overtaken: Overtaken::Stop,
    resume_after: None,
};

pub(crate) async fn run(sandbox: &Sandbox, source: &PluginSource, options: &Options) -> Result<Report, SandboxError> {
    let plugin = sandbox.load(source.clone(), World::Source).await?;
    let mut suite = Suite::new(plugin.inspection(), &options.cases);
    let described = options.cases.iter().any(|case| !case.deliveries.is_empty());
    let case = case_for(options, |case| !case.deliveries.is_empty());
    config_empty(&mut suite, &plugin, opens_empty(&plugin, &case)).await;
    if options.smoke && case.is_external() {
        // What waits there is for others.
        suite.check("probe", "opened with purpose `probe` it says how it is", probed(&plugin, &case)).await;
        return Ok(suite.done());
    }
    suite
        .check("opens", "it opens, says it is well, and brings something", async {
            opens(&plugin, &case).await.map_err(|verdict| match described {
                true => verdict,
                false => not_run("no case: add tests/brings.toml with a [peer] and [[delivery]]"),
            })
        })
        .await;
    if !options.smoke {
        let hindrance = suite.last().and_then(hindrance);
        suite.hold(hindrance);
        suite
            .check(
                "settles-each-way",
                "every way to settle has one result, and breaks nothing",
                each_way(&plugin, &case),
            )
            .await;
        suite
            .check(
                "settled-twice",
                "a delivery that is settled again is done, lost or failed, never a crash",
                twice(&plugin, &case),
            )
            .await;
        let promise = "with a window of one, no second delivery comes before the first is settled";
        suite.check("window", promise, window(&plugin, &case)).await;
        let promise = "what is given back and comes again is the same by its id and its position";
        suite.check("comes-again", promise, comes_again(&plugin, &case)).await;
        let promise = "after `quiesce`, what is out can still be settled";
        suite.check("quiesce", promise, quiesce(&plugin, &case)).await;
        let promise = "`open` with purpose `probe` consumes nothing";
        suite.check("probe-consumes-nothing", promise, probe(&plugin, &case)).await;
        let promise = "a peer that is away: a pull fails as `unavailable` or brings nothing, and it goes on by itself";
        suite.check("outage", promise, away(&plugin, &case, Mode::Down)).await;
        let promise = "a peer that falls silent: a pull ends within its time, and it goes on by itself";
        suite.check("peer-silent", promise, away(&plugin, &case, Mode::Silent)).await;
        suite.hold(None);
    }
    for case in options.cases.iter().filter(|case| !case.deliveries.is_empty()) {
        let name = format!("case: {}", case.head.name);
        suite.check(&name, "what the author expects", author(&plugin, case)).await;
    }
    Ok(suite.done())
}

async fn opens_empty(plugin: &LoadedPlugin, case: &Case) -> Result<(), SandboxError> {
    let empty = Case { head: Head { config: json!({}), ..case.head.clone() }, ..Case::default() };
    let spec = spec(plugin, &empty, "127.0.0.1:9");
    let (source, opened) = WasmSource::start_supervised(plugin.clone(), spec, WANTS).await?;
    source.close(CLOSE_TIMEOUT).await;
    opened
}

async fn start(plugin: &LoadedPlugin, case: &Case) -> Result<(Arc<WasmSource>, Outside), Verdict> {
    let outside = outside(case).await?;
    let source = start_at(plugin, case, &outside, WANTS).await?;
    Ok((source, outside))
}

async fn start_at(
    plugin: &LoadedPlugin,
    case: &Case,
    outside: &Outside,
    wants: SourceWants,
) -> Result<Arc<WasmSource>, Verdict> {
    let spec = spec(plugin, case, &outside.address());
    let (source, opened) = WasmSource::start_supervised(plugin.clone(), spec, wants).await.map_err(refused)?;
    opened.map_err(refused)?;
    Ok(source)
}

async fn pull(source: &WasmSource) -> Result<Pulled, CallError> {
    source.pull(0, PULL_MAX, PULL_BYTES_MAX, PULL_WAIT).await
}

/// The first pull that brings something.
async fn first(source: &WasmSource) -> Result<Pulled, Verdict> {
    for _ in 0..PULLS_MAX {
        let pulled = pull(source).await.map_err(|error| call_failed(&error))?;
        if !pulled.deliveries.is_empty() {
            return Ok(pulled);
        }
    }
    Err(failed(format!("{PULLS_MAX} pulls brought nothing"), "answer what waits at the peer of the case"))
}

async fn settle(source: &WasmSource, session: u64, token: Bytes, disposition: Disposition) -> Result<Settled, Verdict> {
    let item = SourceSettlement { token, disposition };
    let settled = source.settle(0, session, vec![item], CALL_TIMEOUT).await.map_err(|error| call_failed(&error))?;
    settled.into_iter().next().ok_or_else(|| failed("it settled nothing", "answer one result an item"))
}

async fn opens(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (source, _outside) = start(plugin, case).await?;
    let report = source.health().await;
    if report.health == Health::Down {
        return Err(failed(
            format!("health says down: {}", report.detail.unwrap_or_default()),
            "answer `ready` or `degraded` while it serves",
        ));
    }
    let pulled = first(&source).await?;
    source.close(CLOSE_TIMEOUT).await;
    Ok(format!("{} at the first pull, features {:?}", pulled.deliveries.len(), source.facts().features))
}

async fn each_way(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let mut seen = Vec::new();
    let fault = waybill_core::port::transport::Fault::new("HTTP.422", "the suite rejects it");
    let ways: [(&str, Disposition); 5] = [
        ("ack", Disposition::Ack),
        ("nack", Disposition::Nack(None)),
        ("extend", Disposition::Extend),
        ("release", Disposition::Release),
        ("reject", Disposition::Reject(fault)),
    ];
    for (feature, way) in ways {
        let (source, _outside) = start(plugin, case).await?;
        let pulled = first(&source).await?;
        let Some(delivery) = pulled.deliveries.first() else { continue };
        let needed = matches!(way, Disposition::Ack | Disposition::Release);
        let named = source.facts().features.iter().any(|name| name == feature);
        let settled = settle(&source, pulled.session, delivery.token.clone(), way).await?;
        source.close(CLOSE_TIMEOUT).await;
        if let (Settled::Failed(fault), true) = (&settled, needed || named) {
            return Err(failed(
                format!("{feature} failed: {}", sample::describe(fault)),
                "every source can `ack` and `release`; name a feature only if it works",
            ));
        }
        seen.push(format!("{feature}: {}", word(&settled)));
    }
    Ok(seen.join(", "))
}

async fn twice(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (source, _outside) = start(plugin, case).await?;
    let pulled = first(&source).await?;
    let Some(delivery) = pulled.deliveries.first() else { return Err(not_applicable("it brought nothing")) };
    let mut seen = Vec::new();
    for _ in 0..2 {
        let settled = settle(&source, pulled.session, delivery.token.clone(), Disposition::Ack).await?;
        seen.push(word(&settled));
    }
    source.close(CLOSE_TIMEOUT).await;
    Ok(seen.join(", then "))
}

async fn window(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let outside = outside(case).await?;
    let source = start_at(plugin, case, &outside, SourceWants { window: 1, ..WANTS }).await?;
    let mut out = first(&source).await?.deliveries.len();
    for _ in 0..PULLS_AFTER {
        out += pull(&source).await.map_err(|error| call_failed(&error))?.deliveries.len();
    }
    source.close(CLOSE_TIMEOUT).await;
    if out > 1 {
        let reason = format!("{out} deliveries were out at once, the window was 1");
        return Err(failed(
            reason,
            "count what was handed over and isn't settled; fetch no further than `wants.window`",
        ));
    }
    Ok("one at a time".to_owned())
}

async fn comes_again(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (source, _outside) = start(plugin, case).await?;
    let pulled = first(&source).await?;
    let Some(before) = pulled.deliveries.first() else { return Err(not_applicable("it brought nothing")) };
    // All of it: what shares a transaction or an acknowledgement with others comes again with them.
    for delivery in &pulled.deliveries {
        settle(&source, pulled.session, delivery.token.clone(), Disposition::Release).await?;
    }
    let mut again = None;
    for _ in 0..PULLS_AFTER {
        let pulled = pull(&source).await.map_err(|error| call_failed(&error))?;
        again = pulled.deliveries.into_iter().find(|delivery| delivery.payload == before.payload);
        if again.is_some() {
            break;
        }
    }
    source.close(CLOSE_TIMEOUT).await;
    let Some(again) = again else { return Err(not_applicable("the case's peer doesn't bring it again")) };
    if (&again.id, &again.position) != (&before.id, &before.position) {
        let reason =
            format!("id {:?} at {:?}, then id {:?} at {:?}", before.id, before.position, again.id, again.position);
        return Err(failed(reason, "take id and position from the sender and the broker, and never make one anew"));
    }
    Ok(format!("id {:?} at {:?}, twice", again.id, again.position))
}

async fn quiesce(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (source, _outside) = start(plugin, case).await?;
    let pulled = first(&source).await?;
    let Some(delivery) = pulled.deliveries.first() else { return Err(not_applicable("it brought nothing")) };
    source.quiesce(CALL_TIMEOUT).await.map_err(|error| call_failed(&error))?;
    let settled = settle(&source, pulled.session, delivery.token.clone(), Disposition::Ack).await?;
    source.close(CLOSE_TIMEOUT).await;
    match settled {
        Settled::Done => Ok("acknowledged after it".to_owned()),
        Settled::Lost => Err(failed("what was out was lost by `quiesce`", "give back only what wasn't handed over")),
        Settled::Failed(fault) => {
            Err(failed(sample::describe(&fault), "go on settling after `quiesce`, until `close`"))
        }
    }
}

async fn probed(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let outside = outside(case).await?;
    let spec = spec(plugin, case, &outside.address());
    let report = WasmSource::probe(plugin.clone(), spec, WANTS).await.map_err(refused)?;
    Ok(format!("{:?}", report.health))
}

async fn probe(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let outside = outside(case).await?;
    let spec = spec(plugin, case, &outside.address());
    let health = WasmSource::probe(plugin.clone(), spec, WANTS).await.map_err(refused)?;
    let source = start_at(plugin, case, &outside, WANTS).await?;
    let brought = first(&source).await;
    source.close(CLOSE_TIMEOUT).await;
    match brought {
        Ok(_) => Ok(format!("{:?}, and everything still waits", health.health)),
        Err(Verdict::Failed { reason, .. }) => {
            Err(failed(format!("after a probe: {reason}"), "subscribe to nothing when `args.purpose` is `probe`"))
        }
        Err(other) => Err(other),
    }
}

async fn away(plugin: &LoadedPlugin, case: &Case, mode: Mode) -> CaseResult {
    let (source, outside) = start(plugin, case).await?;
    first(&source).await?;
    if outside.switch.connections() == 0 {
        return Err(not_applicable("it never talks to a peer"));
    }
    outside.switch.set(mode).await;
    let said = match pull(&source).await {
        Ok(pulled) => format!("{} brought meanwhile", pulled.deliveries.len()),
        Err(error) if matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Throttled | ErrorKind::Cancelled) => {
            format!("{:?}: {}", error.kind, sample::describe(&error.fault))
        }
        Err(error) => return Err(call_failed(&error)),
    };
    outside.switch.cut();
    outside.switch.set(Mode::Forward).await;
    for attempt in 1..=RECOVERY_TRIES {
        if pull(&source).await.is_ok() {
            return Ok(format!("{said}; pulls at try {attempt} after"));
        }
        tokio::time::sleep(RECOVERY_PAUSE).await;
    }
    Err(failed(
        format!("the peer is back, and {RECOVERY_TRIES} pulls later none works"),
        "connect again when the connection is gone, at the next call at the latest",
    ))
}

async fn author(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (source, _outside) = start(plugin, case).await?;
    let mut brought: Vec<SourceDelivery> = Vec::new();
    for _ in 0..PULLS_MAX {
        let pulled = pull(&source).await.map_err(|error| call_failed(&error))?;
        for delivery in &pulled.deliveries {
            match settle(&source, pulled.session, delivery.token.clone(), Disposition::Ack).await? {
                Settled::Done | Settled::Lost => {}
                Settled::Failed(fault) => {
                    return Err(failed(format!("ack failed: {}", sample::describe(&fault)), "take it off at the peer"));
                }
            }
        }
        brought.extend(pulled.deliveries);
        if brought.len() >= case.deliveries.len() {
            break;
        }
    }
    source.close(CLOSE_TIMEOUT).await;
    if brought.len() != case.deliveries.len() {
        let reason = format!("{} deliveries expected, {} brought", case.deliveries.len(), brought.len());
        return Err(failed(reason, "correct the plugin, or the case if it expects the wrong thing"));
    }
    for ((number, expected), found) in (1..).zip(&case.deliveries).zip(&brought) {
        let fits = expected.id.as_ref().is_none_or(|id| found.id.as_ref() == Some(id))
            && expected.topic.as_ref().is_none_or(|topic| *topic == found.topic)
            && expected.key.as_ref().is_none_or(|key| found.key.as_ref() == Some(key))
            && expected.payload.as_ref().is_none_or(|payload| payload.as_bytes() == found.payload.as_ref());
        if !fits {
            return Err(failed(
                format!(
                    "delivery {number}: id {:?}, topic {:?}, key {:?}, payload {:?}",
                    found.id,
                    found.topic,
                    found.key,
                    String::from_utf8_lossy(&found.payload)
                ),
                "correct the plugin, or the case if it expects the wrong thing",
            ));
        }
    }
    Ok(format!("{} brought and taken off", brought.len()))
}

fn word(settled: &Settled) -> &'static str {
    match settled {
        Settled::Done => "done",
        Settled::Lost => "lost",
        Settled::Failed(_) => "failed",
    }
}
