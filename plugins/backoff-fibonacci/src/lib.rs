//! A retry policy: the n-th failure waits `base_ms` times the n-th Fibonacci number (1, 1, 2, 3, 5, 8, ...), at most `cap_ms`.
//!
//! The example for authors: a policy is a type with a configuration and one pure function.

use serde::Deserialize;
use waybill_plugin::backoff::{Attempt, Backoff, Decision, FailureKind};

waybill_plugin::manifest!();
waybill_plugin::export_backoff!(Fibonacci);

struct Fibonacci;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    base_ms: u32,
    cap_ms: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { base_ms: 500, cap_ms: 300_000 }
    }
}

impl Backoff for Fibonacci {
    type Config = Config;

    fn validate(config: &Config) -> Result<(), String> {
        match config {
            Config { base_ms: 0, .. } => Err("base_ms is 0: write at least 1".to_owned()),
            Config { base_ms, cap_ms } if cap_ms < base_ms => {
                Err(format!("cap_ms ({cap_ms}) is below base_ms ({base_ms}): raise it"))
            }
            _ => Ok(()),
        }
    }

    fn decide(config: &Config, attempt: &Attempt) -> Decision {
        if attempt.kind == FailureKind::Permanent {
            return Decision::Dead(attempt.reason.clone());
        }
        let delay = config.base_ms.saturating_mul(fibonacci(attempt.number)).min(config.cap_ms);
        let delay = delay.max(attempt.after.unwrap_or(0));
        match attempt.deadline {
            Some(deadline) if attempt.now.saturating_add(u64::from(delay)) > deadline => {
                Decision::Dead(format!("{} (the next attempt would come after the deadline)", attempt.reason))
            }
            _ => Decision::Delay(delay),
        }
    }
}

/// The n-th Fibonacci number, from 1; the largest u32 where it doesn't fit.
fn fibonacci(n: u32) -> u32 {
    let (mut current, mut next) = (1_u32, 1_u32);
    for _ in 1..n {
        if current == u32::MAX {
            break;
        }
        (current, next) = (next, current.saturating_add(next));
    }
    current
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_plugin::backoff::WorkKind;

    fn attempt(number: u32) -> Attempt {
        Attempt {
            work: WorkKind::Delivery,
            kind: FailureKind::Retryable,
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
            now: 1_000,
            deadline: None,
            random: 0.5,
            attributes: Vec::new(),
        }
    }

    fn config(base_ms: u32, cap_ms: u32) -> Config {
        Config { base_ms, cap_ms }
    }

    #[test]
    fn delays_grow_as_the_fibonacci_numbers_up_to_the_cap() {
        let delays: Vec<Decision> =
            (1..=8).map(|number| Fibonacci::decide(&config(100, 1_000), &attempt(number))).collect();
        assert_eq!(delays, [100, 100, 200, 300, 500, 800, 1_000, 1_000].map(Decision::Delay));
    }

    #[test]
    fn a_huge_attempt_number_neither_overflows_nor_takes_long() {
        assert_eq!(Fibonacci::decide(&config(100, u32::MAX), &attempt(u32::MAX)), Decision::Delay(u32::MAX));
    }

    #[test]
    fn a_later_wish_of_the_peer_wins_and_an_earlier_one_does_not() {
        let later = Attempt { after: Some(5_000), ..attempt(1) };
        assert_eq!(Fibonacci::decide(&config(100, 1_000), &later), Decision::Delay(5_000));
        let earlier = Attempt { after: Some(10), ..attempt(1) };
        assert_eq!(Fibonacci::decide(&config(100, 1_000), &earlier), Decision::Delay(100));
    }

    #[test]
    fn a_permanent_failure_is_a_dead_letter() {
        let permanent = Attempt { kind: FailureKind::Permanent, ..attempt(1) };
        assert_eq!(Fibonacci::decide(&config(100, 1_000), &permanent), Decision::Dead("answered 503".to_owned()));
    }

    #[test]
    fn an_attempt_after_the_deadline_is_not_made() {
        let at = |deadline| Fibonacci::decide(&config(100, 1_000), &Attempt { deadline: Some(deadline), ..attempt(1) });
        assert_eq!(at(1_100), Decision::Delay(100));
        assert!(matches!(at(1_099), Decision::Dead(_)));
    }

    #[test]
    fn a_configuration_that_contradicts_itself_is_refused() {
        assert!(Fibonacci::validate(&config(0, 10)).is_err());
        assert!(Fibonacci::validate(&config(11, 10)).is_err());
        assert!(Fibonacci::validate(&Config::default()).is_ok());
    }
}
