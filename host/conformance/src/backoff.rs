//! The suite of retry policies: determinism, bounds, sanity, fuel.

use std::time::Duration;

use serde_json::json;
use waybill_core::code::Code;
use waybill_core::port::backoff::{BackoffDecision, FailedAttempt, FailureKind, WorkKind};
use waybill_core::port::transport::Fault;
use waybill_core::time::UnixMillis;
use waybill_sandbox::{LoadedPlugin, PluginSource, Sandbox, SandboxError, WasmBackoff, World, check_config};

use crate::Options;
use crate::case::{Case, CaseAttempt};
use crate::report::{Report, Verdict};
use crate::suite::{CaseResult, Suite, failed, not_applicable};

/// Attempts whose delays are compared.
const COMPARED: u32 = 20;
const KINDS: [(&str, FailureKind); 6] = [
    ("retryable", FailureKind::Retryable),
    ("permanent", FailureKind::Permanent),
    ("unavailable", FailureKind::Unavailable),
    ("throttled", FailureKind::Throttled),
    ("timed-out", FailureKind::TimedOut),
    ("trapped", FailureKind::Trapped),
];

pub(crate) async fn run(sandbox: &Sandbox, source: &PluginSource, options: &Options) -> Result<Report, SandboxError> {
    let plugin = sandbox.load(source.clone(), World::Backoff).await?;
    let mut suite = Suite::new(plugin.inspection(), &options.cases);
    let config = options.config.clone().or_else(|| options.cases.first().map(|case| case.head.config.clone()));
    let config = config.filter(|config| !config.is_null()).unwrap_or_else(|| json!({}));

    let promise = "an empty configuration is refused by the schema, or `validate` takes it";
    suite.check("config-empty", promise, empty(&plugin)).await;
    let started = start(&plugin, &config).await;
    let promise = "`validate` takes the configuration of the first case";
    suite
        .check("starts", promise, async { started.as_ref().map(|_| "taken".to_owned()).map_err(Verdict::clone) })
        .await;
    if let Ok(policy) = &started {
        let promise = "the same attempt has the same decision, in every instance";
        suite.check("deterministic", promise, deterministic(policy)).await;
        let promise = "it decides every attempt, however odd, within its fuel";
        suite.check("decides-everything", promise, everything(policy)).await;
        let promise = "a later failure isn't tried again sooner than an earlier one";
        suite.check("delays-grow", promise, grows(policy)).await;
    }
    for case in options.cases.iter().filter(|case| !case.attempts.is_empty()) {
        let name = format!("case: {}", case.head.name);
        suite.check(&name, "what the author expects", author(&plugin, case)).await;
    }
    Ok(suite.done())
}

async fn start(plugin: &LoadedPlugin, config: &serde_json::Value) -> Result<WasmBackoff, Verdict> {
    WasmBackoff::start(plugin.clone(), "suite", config).await.map_err(|error| match &error {
        SandboxError::Open { fault, .. } if fault.code == Code::PLUGIN_TRAPPED.as_str() => {
            failed(&error, "answer an error from `validate`; a panic says nothing to the operator")
        }
        _ => failed(&error, "correct the case's config, or the policy"),
    })
}

async fn empty(plugin: &LoadedPlugin) -> CaseResult {
    match check_config(plugin.manifest(), "suite", &json!({})) {
        Err(error) => Ok(format!("refused: {error}")),
        Ok(_) => start(plugin, &json!({})).await.map(|_| "it takes {}".to_owned()).map_err(|verdict| match verdict {
            Verdict::Failed { reason, .. } => {
                failed(reason, "name what is needed as `required` in config_schema, so that it is found before a start")
            }
            other => other,
        }),
    }
}

async fn decide(policy: &WasmBackoff, attempt: &FailedAttempt) -> Result<BackoffDecision, Verdict> {
    policy.try_decide(attempt).await.map_err(|cause| {
        failed(
            format!("attempt {} ({:?}): {cause}", attempt.number, attempt.kind),
            "decide with less work, and without a panic; the host counts this as `fallback`",
        )
    })
}

async fn deterministic(policy: &WasmBackoff) -> CaseResult {
    let mut compared = 0;
    for (_, kind) in KINDS {
        for number in [1, 2, 7] {
            let attempt = FailedAttempt { kind, number, random: 0.37, ..attempt() };
            let (first, second) = (decide(policy, &attempt).await?, decide(policy, &attempt).await?);
            if first != second {
                return Err(failed(
                    format!("attempt {number} ({kind:?}) was decided as {first:?} and then as {second:?}"),
                    "use `attempt.random` for jitter and `attempt.now` for time; keep nothing between decisions",
                ));
            }
            compared += 1;
        }
    }
    Ok(format!("{compared} decisions, twice each"))
}

async fn everything(policy: &WasmBackoff) -> CaseResult {
    let mut decided = 0;
    for (_, kind) in KINDS {
        for number in [1, 2, 3, 12, 1_000, u32::MAX] {
            for random in [0.0, 0.5, 0.999_999] {
                decide(policy, &FailedAttempt { kind, number, random, ..attempt() }).await?;
                decided += 1;
            }
        }
    }
    let day = Duration::from_secs(24 * 3_600);
    let odd = [
        FailedAttempt { max_attempts: u32::MAX, previous_delay: Some(49 * day), ..attempt() },
        FailedAttempt { max_attempts: 0, number: 0, ..attempt() },
        FailedAttempt { elapsed: 49 * day, age: 49 * day, deadline: Some(UnixMillis(0)), ..attempt() },
        FailedAttempt { topic: "\u{1f4e6}".repeat(100), tenant: String::new(), ..attempt() },
        FailedAttempt {
            fault: Fault {
                after: Some(49 * day),
                attributes: many_attributes(),
                ..Fault::new("X.Y", "z".repeat(1_000))
            },
            ..attempt()
        },
    ];
    for attempt in &odd {
        decide(policy, attempt).await?;
        decided += 1;
    }
    Ok(format!("{decided} attempts"))
}

fn many_attributes() -> Vec<(String, String)> {
    (0..32).map(|number| (format!("name-{number}"), "v".repeat(250))).collect()
}

async fn grows(policy: &WasmBackoff) -> CaseResult {
    let mut delays: Vec<Duration> = Vec::new();
    for number in 1..=COMPARED {
        let previous_delay = delays.last().copied();
        match decide(policy, &FailedAttempt { number, previous_delay, max_attempts: 100, ..attempt() }).await? {
            BackoffDecision::Delay(delay) if previous_delay.is_some_and(|before| delay < before) => {
                return Err(failed(
                    format!("failure {number} waits {delay:?}, the one before it {previous_delay:?}"),
                    "let delays grow up to a cap; if that is meant, say so in a case: [case.not_applicable] delays-grow = \"why\"",
                ));
            }
            BackoffDecision::Delay(delay) => delays.push(delay),
            BackoffDecision::Fallback => return Err(not_applicable("it leaves delays to the built-in formula")),
            BackoffDecision::Dead(_) | BackoffDecision::Pause(_) => break,
        }
    }
    match (delays.first(), delays.last()) {
        (Some(first), Some(last)) => Ok(format!("{first:?} to {last:?} over {} failures", delays.len())),
        _ => Err(not_applicable("it never delays")),
    }
}

async fn author(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let config = if case.head.config.is_null() { json!({}) } else { case.head.config.clone() };
    let policy = start(plugin, &config).await?;
    for (number, expected) in (1..).zip(&case.attempts) {
        let kind = match expected.kind.as_deref() {
            None => FailureKind::Retryable,
            Some(word) => match KINDS.iter().find(|(name, _)| *name == word) {
                Some((_, kind)) => *kind,
                None => {
                    let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
                    let reason = format!("attempt {number}: {word:?} isn't a kind of failure");
                    return Err(failed(reason, format!("write one of {}", names.join(", "))));
                }
            },
        };
        let decision = decide(&policy, &described(expected, kind)).await?;
        let (word, delay) = match &decision {
            BackoffDecision::Delay(delay) => ("delay", Some(delay.as_millis())),
            BackoffDecision::Dead(_) => ("dead", None),
            BackoffDecision::Pause(_) => ("pause", None),
            BackoffDecision::Fallback => ("fallback", None),
        };
        let wanted = expected.delay_ms.map(u128::from);
        if word != expected.expect || wanted.is_some_and(|wanted| delay != Some(wanted)) {
            let wanted = wanted.map(|ms| format!(" of {ms} ms")).unwrap_or_default();
            return Err(failed(
                format!("attempt {number}: expected {}{wanted}, was {decision:?}", expected.expect),
                "correct the policy, or the case if it expects the wrong thing",
            ));
        }
    }
    Ok(format!("{} decisions", case.attempts.len()))
}

fn described(case: &CaseAttempt, kind: FailureKind) -> FailedAttempt {
    let plain = attempt();
    let millis = |ms: Option<u64>| ms.map(Duration::from_millis);
    FailedAttempt {
        kind,
        number: case.number.unwrap_or(plain.number),
        max_attempts: case.max_attempts.unwrap_or(plain.max_attempts),
        fault: Fault {
            after: millis(case.after_ms),
            ..Fault::new(
                case.code.clone().unwrap_or(plain.fault.code),
                case.reason.clone().unwrap_or(plain.fault.reason),
            )
        },
        previous_delay: millis(case.previous_delay_ms),
        elapsed: millis(case.elapsed_ms).unwrap_or(plain.elapsed),
        random: case.random.unwrap_or(plain.random),
        ..plain
    }
}

/// A failure like any other.
fn attempt() -> FailedAttempt {
    FailedAttempt {
        work: WorkKind::Delivery,
        kind: FailureKind::Retryable,
        fault: Fault::new("HTTP.503", "the receiver answered 503"),
        number: 1,
        max_attempts: 12,
        elapsed: Duration::from_secs(1),
        age: Duration::from_secs(2),
        previous_delay: None,
        tenant: "suite".to_owned(),
        topic: "bus:suite.messages".to_owned(),
        endpoint: "suite".to_owned(),
        now: UnixMillis(1_700_000_000_000),
        deadline: None,
        random: 0.5,
    }
}
