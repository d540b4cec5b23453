//! A policy that looks for the clock, randomness and the environment, and reports what it found as the reason of a dead letter.
//! The same on every call, if the policy's surroundings are inert.
use std::hash::{BuildHasher as _, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use waybill_plugin::backoff::{Attempt, Backoff, Decision};

waybill_plugin::manifest!("manifests/backoff.toml");
waybill_plugin::export_backoff!(Fixture);

struct Fixture;

impl Backoff for Fixture {
    type Config = guests::Config;
    fn decide(_: &guests::Config, _: &Attempt) -> Decision {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        Decision::Dead(format!(
            "clock {clock}, random {:x}, environment {}",
            RandomState::new().hash_one(1),
            std::env::vars_os().count()
        ))
    }
}
