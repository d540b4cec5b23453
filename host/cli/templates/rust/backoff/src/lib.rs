//! A retry policy: each failure waits `step_ms` longer than the one before, at most `cap_ms`. Change `decide`.

use serde::Deserialize;
use waybill_plugin::backoff::{Attempt, Backoff, Decision, FailureKind};

waybill_plugin::manifest!();
waybill_plugin::export_backoff!(Steps);

struct Steps;

/// `config` of the policy, as the schema in waybill-plugin.toml describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    step_ms: u32,
    cap_ms: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { step_ms: 1_000, cap_ms: 60_000 }
    }
}

impl Backoff for Steps {
    type Config = Config;

    fn validate(config: &Config) -> Result<(), String> {
        if config.cap_ms < config.step_ms {
            return Err(format!("cap_ms ({}) is below step_ms ({}): raise it", config.cap_ms, config.step_ms));
        }
        Ok(())
    }

    fn decide(config: &Config, attempt: &Attempt) -> Decision {
        if attempt.kind == FailureKind::Permanent {
            return Decision::Dead(attempt.reason.clone());
        }
        Decision::Delay(config.step_ms.saturating_mul(attempt.number).min(config.cap_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_plugin::backoff::WorkKind;

    fn failed(kind: FailureKind, number: u32) -> Attempt {
        Attempt {
            work: WorkKind::Delivery,
            kind,
            code: "HTTP.503".to_owned(),
            reason: "answered 503".to_owned(),
            maybe_delivered: false,
            number,
            max_attempts: 12,
            elapsed: 0,
            age: 0,
            previous_delay: None,
            after: None,
            tenant: "default".to_owned(),
            topic: "bus:orders".to_owned(),
            endpoint: "orders".to_owned(),
            now: 0,
            deadline: None,
            random: 0.5,
            attributes: Vec::new(),
        }
    }

    #[test]
    fn delays_grow_up_to_the_cap() {
        let config = Config { step_ms: 100, cap_ms: 250 };
        let delays = [1, 2, 3, u32::MAX].map(|number| Steps::decide(&config, &failed(FailureKind::Retryable, number)));
        assert_eq!(delays, [100, 200, 250, 250].map(Decision::Delay));
    }

    #[test]
    fn what_will_never_work_is_dead() {
        assert!(matches!(Steps::decide(&Config::default(), &failed(FailureKind::Permanent, 1)), Decision::Dead(_)));
    }

    #[test]
    fn a_cap_below_the_step_is_refused() {
        assert!(Steps::validate(&Config { step_ms: 2, cap_ms: 1 }).is_err());
    }
}
