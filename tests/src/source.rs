//! A bundled source in the sandbox, without an inbox around it: opened with a configuration, asked for messages, told what became
//! of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "only tests use it")]

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waybill_core::port::source::{
    Disposition, Overtaken, Pulled, Settled, Source, SourceDelivery, SourceSettlement, SourceWants,
};
use waybill_core::port::transport::{CallError, HealthReport};
use waybill_sandbox::{EndpointSpec, WasmSource, World};

use crate::transport::{AMPLE, bundled, call_error};

/// What the host wants where a test doesn't say.
pub const WANTS: SourceWants =
    SourceWants { window: 50, window_bytes: 1 << 22, on_overtaken: Overtaken::Stop, resume_after: None };
/// Most bytes of one pull where a test doesn't say.
pub const BYTES: u32 = 1 << 20;
/// How long one pull waits for the first message.
const WAIT: Duration = Duration::from_millis(200);
/// Pulls until what was sent has come: two minutes.
const PULLS_MAX: usize = 600;

/// Serves with a bundled plugin.
///
/// # Errors
/// That of the first `open`.
pub async fn open(plugin: &str, spec: EndpointSpec, wants: SourceWants) -> Result<Arc<WasmSource>, CallError> {
    let plugin = bundled(plugin, World::Source).await;
    let (source, opened) = WasmSource::start_supervised(plugin, spec, wants).await.expect("can serve");
    opened.map_err(call_error)?;
    Ok(source)
}

/// The same, however the first `open` went: it is tried again and again.
pub async fn supervise(plugin: &str, spec: EndpointSpec) -> (Arc<WasmSource>, Option<CallError>) {
    let plugin = bundled(plugin, World::Source).await;
    let (source, opened) = WasmSource::start_supervised(plugin, spec, WANTS).await.expect("can serve");
    (source, opened.err().map(call_error))
}

/// Whether it would work.
///
/// # Errors
/// Why not.
pub async fn probe(plugin: &str, spec: EndpointSpec) -> Result<HealthReport, CallError> {
    WasmSource::probe(bundled(plugin, World::Source).await, spec, WANTS).await.map_err(call_error)
}

/// All that is said of a source that isn't let in: by each kind of error, by its health, and in the log of this process.
pub async fn said(plugin: &str, spec: EndpointSpec) -> String {
    record_log();
    let mut said: Vec<String> = Vec::new();
    said.push(format!("{:?}", probe(plugin, spec.clone()).await));
    let changes = WasmSource::provision_closed(bundled(plugin, World::Source).await, spec.clone(), WANTS, false).await;
    said.push(format!("{changes:?}"));
    // It is tried again and again, and says what came of it.
    let (source, refused) = supervise(plugin, spec).await;
    said.push(format!("{refused:?}"));
    said.push(format!("{:?}", source.pull(0, 1, BYTES, WAIT).await));
    let unknown = SourceSettlement { token: Default::default(), disposition: Disposition::Ack };
    said.push(format!("{:?}", source.settle(0, 1, vec![unknown], WAIT).await));
    said.push(format!("{:?}", source.health().await));
    said.push(format!("{:?}", source.provision(false).await));
    source.close(WAIT).await;
    let log = String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned();
    assert!(!log.is_empty(), "what isn't recorded shows nothing");
    said.push(log);
    said.join("\n")
}

/// What was logged since the first who asked.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct ToLog;

impl io::Write for ToLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn record_log() {
    let log =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false).with_writer(|| ToLog).finish();
    // Another test of this process may have begun it.
    let _begun = tracing::subscriber::set_global_default(log);
}

/// One pull.
pub async fn pull(source: &WasmSource, max: u32) -> Pulled {
    source.pull(0, max, BYTES, WAIT).await.expect("pulls")
}

/// Pulls until so many have come, with the session that brought them. What is told meanwhile is dropped.
pub async fn pull_all(source: &WasmSource, count: usize) -> (u64, Vec<SourceDelivery>) {
    let mut all = Vec::new();
    for _ in 0..PULLS_MAX {
        // A broker that comes back takes us after a while.
        let Ok(pulled) = source.pull(0, 50, BYTES, WAIT).await else {
            tokio::time::sleep(WAIT).await;
            continue;
        };
        all.extend(pulled.deliveries);
        if all.len() >= count {
            return (pulled.session, all);
        }
    }
    panic!("{} of {count} came: {all:#?}", all.len());
}

/// Settles all of these so.
pub async fn settle(
    source: &WasmSource,
    session: u64,
    deliveries: &[SourceDelivery],
    disposition: &Disposition,
) -> Vec<Settled> {
    try_settle(source, session, deliveries, disposition).await.expect("settles")
}

/// The same, where the session may be over.
///
/// # Errors
/// As [`Source::settle`].
pub async fn try_settle(
    source: &WasmSource,
    session: u64,
    deliveries: &[SourceDelivery],
    disposition: &Disposition,
) -> Result<Vec<Settled>, CallError> {
    let settlement = |delivery: &SourceDelivery| SourceSettlement {
        token: delivery.token.clone(),
        disposition: disposition.clone(),
    };
    let items = deliveries.iter().map(settlement).collect();
    source.settle(0, session, items, AMPLE).await
}

/// The ids that senders gave; `-` where there is none.
pub fn ids(deliveries: &[SourceDelivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.id.as_deref().unwrap_or("-")).collect()
}

/// A registered extra of what was told.
pub fn attribute<'a>(attributes: &'a [(String, String)], name: &str) -> Option<&'a str> {
    attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}
