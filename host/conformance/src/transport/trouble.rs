//! Peers that refuse, close, fall silent, go away and come back. None of it needs to know the protocol.

use waybill_core::port::transport::ErrorKind;
use waybill_sandbox::{SandboxError, WasmTransport};

use super::bench::{Bench, Running, delivered, honest_while_away, recovers, refused, send_within};
use crate::limits::{CALL_TIMEOUT, SILENT_TIMEOUT};
use crate::outside::Mode;
use crate::sample;
use crate::suite::{CaseResult, Suite, failed, not_applicable};

pub(super) async fn all(suite: &mut Suite, bench: &Bench) {
    let promise = "a peer that refuses connections: nothing is lost or blamed, and it serves when the peer is there";
    suite.check("peer-refuses", promise, away_at_first(bench, Mode::Down)).await;
    let promise = "a peer that closes every connection: nothing is lost or blamed, and it serves when the peer is well";
    suite.check("peer-closes", promise, away_at_first(bench, Mode::Close)).await;
    let promise = "a peer that falls silent: the call answers within its time, and says nothing untrue";
    suite.check("peer-silent", promise, silent(bench)).await;
    let promise = "a connection that breaks is made again";
    suite.check("reconnects", promise, broken(bench)).await;
    let promise = "a peer that is away for a while: it serves again by itself";
    suite.check("outage", promise, outage(bench)).await;
}

/// Whether it has a peer at all: what it says of one that is away means nothing otherwise.
async fn talks(bench: &Bench) -> Result<Running, crate::report::Verdict> {
    let running = bench.start().await?;
    delivered(&running.transport, bench.batch(&running.outside, 1, 1)?).await?;
    if running.outside.switch.connections() == 0 {
        return Err(not_applicable("it never talks to a peer"));
    }
    Ok(running)
}

async fn away_at_first(bench: &Bench, mode: Mode) -> CaseResult {
    drop(talks(bench).await?);
    let outside = bench.outside().await?;
    outside.switch.set(mode).await;
    let spec = bench.spec(&outside.address(), 1);
    let (transport, opened) = WasmTransport::start_supervised(bench.plugin.clone(), spec).await.map_err(refused)?;
    let running = Running { transport, outside };
    if let Err(SandboxError::Open { kind, fault, .. }) = &opened
        && !matches!(kind, ErrorKind::Unavailable | ErrorKind::Throttled)
    {
        return Err(failed(
            format!("`open` failed as {kind:?} ({}), which isn't tried again by itself", sample::describe(fault)),
            "answer `unavailable` when the peer can't be reached",
        ));
    }
    let (answer, told) = send_within(&running.transport, bench.batch(&running.outside, 1, 3)?, CALL_TIMEOUT).await;
    let said = honest_while_away(&answer, &told)?;
    running.outside.switch.set(Mode::Forward).await;
    let tries = recovers(bench, &running, 100).await?;
    Ok(format!("{said}; delivers at try {tries} after"))
}

async fn silent(bench: &Bench) -> CaseResult {
    let running = talks(bench).await?;
    running.outside.switch.set(Mode::Silent).await;
    let (answer, told) = send_within(&running.transport, bench.batch(&running.outside, 11, 3)?, SILENT_TIMEOUT).await;
    let said = honest_while_away(&answer, &told)?;
    running.outside.switch.cut();
    running.outside.switch.set(Mode::Forward).await;
    let tries = recovers(bench, &running, 100).await?;
    Ok(format!("{said}; delivers at try {tries} after"))
}

async fn broken(bench: &Bench) -> CaseResult {
    let running = talks(bench).await?;
    let mut tries = 0;
    for round in 1..=3_u64 {
        running.outside.switch.cut();
        tries += recovers(bench, &running, round * 1_000).await?;
    }
    Ok(format!("cut three times, {tries} tries in all"))
}

async fn outage(bench: &Bench) -> CaseResult {
    let running = talks(bench).await?;
    running.outside.switch.set(Mode::Down).await;
    let (answer, told) = send_within(&running.transport, bench.batch(&running.outside, 11, 3)?, CALL_TIMEOUT).await;
    let said = honest_while_away(&answer, &told)?;
    running.outside.switch.set(Mode::Forward).await;
    let tries = recovers(bench, &running, 100).await?;
    Ok(format!("{said}; delivers at try {tries} after"))
}
