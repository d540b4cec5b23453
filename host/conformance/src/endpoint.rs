//! What the suites of participants, handlers and sources share: settings, configuration, the peer of a case.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use waybill_core::endpoint::{EndpointSettings, Grants, PluginLimits};
use waybill_core::port::kv::KvQuota;
use waybill_core::port::transport::{CallError, ErrorKind};
use waybill_sandbox::grants::Pattern;
use waybill_sandbox::{
    Ask, EndpointSpec, LoadedPlugin, MemoryKv, SandboxError, SecretFailure, SecretProvider, SecretValue, check_config,
};

use crate::Options;
use crate::case::{Case, Head, value_at_peer};
use crate::limits::OPEN_TIMEOUT;
use crate::outside::Outside;
use crate::report::Verdict;
use crate::sample;
use crate::suite::{CaseResult, Suite, failed};

/// Secrets of a case: the source is the value itself.
struct CaseSecrets;

#[async_trait]
impl SecretProvider for CaseSecrets {
    async fn read(&self, source: &str) -> Result<SecretValue, SecretFailure> {
        Ok(SecretValue { bytes: source.as_bytes().to_vec(), expires_at: None })
    }
}

/// What a case grants: all peers that the plugin asks for and everything on loopback, the case's secrets, durable state.
fn grants(head: &Head, ask: &Ask) -> Grants {
    let loopback = ["tcp://127.0.0.1:*", "http://127.0.0.1:*", "https://127.0.0.1:*"];
    let asked = ask.net.iter().chain(&ask.http).map(Pattern::as_str);
    Grants {
        secrets: head.secrets.clone().into_iter().collect(),
        kv: Some(KvQuota::default()),
        ..Grants::none().allow(loopback.into_iter().chain(asked))
    }
}

/// The endpoint of a case whose peer is at an address. Its limits are a host's, but for the time that a busy machine takes to
/// open a plugin.
pub(crate) fn spec(plugin: &LoadedPlugin, case: &Case, peer: &str) -> EndpointSpec {
    let settings = EndpointSettings {
        config: value_at_peer(&case.head.config, peer),
        grants: grants(&case.head, &plugin.manifest().ask),
        ..EndpointSettings::new("suite")
    };
    EndpointSpec {
        secrets: Arc::new(CaseSecrets),
        kv: Some(Arc::new(MemoryKv::default())),
        limits: PluginLimits { open_timeout: OPEN_TIMEOUT, health_timeout: OPEN_TIMEOUT, ..PluginLimits::default() },
        ..EndpointSpec::new(settings)
    }
}

/// The case that the suite's own checks use: the first that fits, else one without anything.
pub(crate) fn case_for(options: &Options, fits: impl Fn(&Case) -> bool) -> Case {
    let plain = || Case {
        head: Head {
            name: "no case".to_owned(),
            config: options.config.clone().unwrap_or_else(|| json!({})),
            ..Head::default()
        },
        ..Case::default()
    };
    options.cases.iter().find(|case| fits(case)).cloned().unwrap_or_else(plain)
}

/// The peer of a case.
pub(crate) async fn outside(case: &Case) -> Result<Outside, Verdict> {
    Outside::start(case.peer.as_ref())
        .await
        .map_err(|error| failed(format!("the fake of the outside: {error}"), "free some ports and try again"))
}

/// `open` said no in a place where it should have said yes.
pub(crate) fn refused(error: SandboxError) -> Verdict {
    failed(error, "make it open against the peer of the case, or correct the case")
}

/// A call that failed as a whole.
pub(crate) fn call_failed(error: &CallError) -> Verdict {
    let fix = match error.kind {
        ErrorKind::Contract => "answer exactly one result an item, in order",
        ErrorKind::Trapped => "find the panic: the message above says where; answer an error instead",
        ErrorKind::TimedOut => "keep the call's time: ask `control.remaining`, and give every wait a time",
        _ => "answer a result for each item; fail the whole call only when nothing is known of any",
    };
    failed(format!("the call failed as {:?}: {}", error.kind, sample::describe(&error.fault)), fix)
}

/// The empty configuration is refused by the schema, or good enough for `open`. `opens` starts it with that.
pub(crate) async fn config_empty(
    suite: &mut Suite,
    plugin: &LoadedPlugin,
    opens: impl Future<Output = Result<(), SandboxError>>,
) {
    let promise = "an empty configuration is refused by the schema, or `open` takes it";
    let work = async {
        if let Err(error) = check_config(plugin.manifest(), "suite", &json!({})) {
            return Ok(format!("refused: {error}"));
        }
        empty_opened(opens.await)
    };
    suite.check("config-empty", promise, work).await;
}

fn empty_opened(opened: Result<(), SandboxError>) -> CaseResult {
    match opened {
        Ok(()) => Ok("it opens with {}".to_owned()),
        Err(SandboxError::Open { kind: ErrorKind::InvalidConfig, fault, .. }) => Err(failed(
            format!("the schema takes {{}} and `open` refuses it: {}", sample::describe(&fault)),
            "name what is needed as `required` in config_schema, so that it is found before a start",
        )),
        Err(SandboxError::Open { kind, fault, .. })
            if matches!(kind, ErrorKind::Trapped | ErrorKind::TimedOut | ErrorKind::Contract) =>
        {
            Err(failed(
                format!("`open` with {{}} ended as {kind:?}: {}", sample::describe(&fault)),
                "answer an error of kind `invalid-config` instead",
            ))
        }
        // Nobody is where its defaults point to.
        Err(error) => Ok(format!("it reads {{}}, and then: {error}")),
    }
}
