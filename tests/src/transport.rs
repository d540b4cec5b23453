//! A bundled transport in the sandbox, without an engine around it: opened with a configuration, given messages, asked what
//! became of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "only tests use it")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use waybill_core::annotation::Annotation;
use waybill_core::annotations::Annotations;
use waybill_core::endpoint::{EndpointSettings, Grants, PluginLimits};
use waybill_core::ids::{Key, MessageId, Seq, Tenant};
use waybill_core::message::{Delivery, Message, Payload};
use waybill_core::port::transport::{CallError, Health, HealthReport, Outcome, OutcomeSink, SendCall, Transport};
use waybill_core::time::UnixMillis;
use waybill_core::topic::Topic;
use waybill_sandbox::{
    EndpointSpec, LoadedPlugin, PluginSource, Sandbox, SandboxError, SandboxOptions, SecretFailure, SecretProvider,
    SecretValue, WasmTransport, World,
};

/// Longest a call takes on a busy machine.
pub const AMPLE: Duration = Duration::from_secs(60);

/// What is told early, in its order: place and fate.
#[derive(Default)]
pub struct RecordedOutcomes(pub Mutex<Vec<(usize, Outcome)>>);

impl OutcomeSink for RecordedOutcomes {
    fn settled(&self, index: usize, outcome: Outcome) {
        self.0.lock().unwrap().push((index, outcome));
    }
}

/// Settings of an endpoint that reaches loopback, with this configuration. It may take its time to open.
pub fn settings(endpoint: &str, config: Value) -> EndpointSpec {
    let grants = Grants::none().allow(["tcp://127.0.0.1:*"]);
    let limits = PluginLimits { open_timeout: AMPLE, ..PluginLimits::default() };
    let settings = EndpointSettings { config, grants, ..EndpointSettings::new(endpoint) };
    EndpointSpec { limits, ..EndpointSpec::new(settings) }
}

/// Grants secrets, by the names the plugin asks for.
pub fn grant(mut spec: EndpointSpec, secrets: &[(&str, &str)]) -> EndpointSpec {
    let values = secrets.iter().map(|(name, value)| (format!("test:{name}"), value.as_bytes().to_vec())).collect();
    let sources = secrets.iter().map(|(name, _)| ((*name).to_owned(), format!("test:{name}"))).collect();
    spec.settings.grants.secrets = sources;
    spec.secrets = Arc::new(Secrets(values));
    spec
}

struct Secrets(HashMap<String, Vec<u8>>);

#[async_trait]
impl SecretProvider for Secrets {
    async fn read(&self, source: &str) -> Result<SecretValue, SecretFailure> {
        let bytes = self.0.get(source).cloned().ok_or_else(|| SecretFailure::NotFound(source.to_owned()))?;
        Ok(SecretValue { bytes, expires_at: None })
    }
}

/// A bundled plugin, for one of its worlds.
pub async fn bundled(name: &str, world: World) -> LoadedPlugin {
    static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
        let cache_dir = Some(Path::new(env!("OUT_DIR")).join("compiled"));
        Sandbox::new(SandboxOptions { cache_dir, ..SandboxOptions::default() }).expect("engine")
    });
    let component = waybill_bundled::find(name).expect("bundled").component;
    SANDBOX.load(PluginSource::Embedded(component), world).await.expect("loads")
}

/// Serves with a bundled plugin.
///
/// # Errors
/// That of the first `open`.
pub async fn open(plugin: &str, spec: EndpointSpec) -> Result<Arc<WasmTransport>, CallError> {
    WasmTransport::start(bundled(plugin, World::Transport).await, spec).await.map_err(call_error)
}

/// Whether it would work.
///
/// # Errors
/// Why not.
pub async fn probe(plugin: &str, spec: EndpointSpec) -> Result<HealthReport, CallError> {
    let report = WasmTransport::probe(bundled(plugin, World::Transport).await, spec).await.map_err(call_error)?;
    assert_eq!(report.health, Health::Ready, "{report:?}");
    Ok(report)
}

/// The failure of the first `open`; any other of the sandbox is the test's.
pub fn call_error(error: SandboxError) -> CallError {
    match error {
        SandboxError::Open { kind, fault, .. } => CallError { kind, fault },
        other => panic!("{other}"),
    }
}

/// A message with everything that one can have.
pub fn delivery(number: u64, destination: &str) -> Delivery {
    let payload = format!("{{\"order\":{number}}}");
    let message = Message {
        id: MessageId::new(format!("m{number}")).unwrap(),
        caller_id: true,
        tenant: Tenant::new("acme").unwrap(),
        topic: Topic::parse("bus:orders.created").unwrap(),
        key: Some(Key::new(format!("order-{number}")).unwrap()),
        headers: vec![("X-Shop".to_owned(), "berlin".to_owned())],
        payload: Payload::Inline(payload.clone().into()),
        event_type: "order.created".to_owned(),
        event_version: 3,
        annotations: Annotations::from([
            (Annotation::AggregateType, "order".to_owned()),
            (Annotation::AggregateId, number.to_string()),
            (Annotation::EnvelopeId, "env-1".to_owned()),
            (Annotation::CorrelationId, "cor-1".to_owned()),
            (Annotation::CausationId, "cau-1".to_owned()),
            (Annotation::ReplyTo, "replies.orders".to_owned()),
            (Annotation::Traceparent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
            (Annotation::ContentType, "application/json".to_owned()),
        ]),
        occurred_at: UnixMillis(1_700_000_000_000),
        created_at: UnixMillis(1_700_000_000_500),
        not_before: None,
        expires_at: Some(UnixMillis(4_102_444_800_000)),
        statements: None,
        replays: 0,
        replayed_by: None,
    };
    Delivery {
        message: Arc::new(message),
        payload: payload.into(),
        destination: destination.to_owned(),
        attempt: 2,
        lease_epoch: 7,
        seq: Seq(42),
        attributes: Vec::new(),
    }
}

/// Messages `from..to` to one destination.
pub fn batch(from: u64, to: u64, destination: &str) -> Vec<Delivery> {
    (from..to).map(|number| delivery(number, destination)).collect()
}

/// Sends a batch in one call.
///
/// # Errors
/// The call's.
pub async fn try_send(transport: &WasmTransport, batch: Vec<Delivery>) -> Result<Vec<Outcome>, CallError> {
    transport.send_batch(SendCall::new(0, AMPLE), batch, Arc::new(RecordedOutcomes::default())).await
}

/// The same, of a call that answers.
pub async fn send(transport: &WasmTransport, batch: Vec<Delivery>) -> Vec<Outcome> {
    try_send(transport, batch).await.expect("answers")
}

/// How many were delivered.
pub fn acknowledged(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Ack(_))).count()
}
