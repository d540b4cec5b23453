//! A policy that never comes back from `decide`.
use waybill_plugin::backoff::{Attempt, Backoff, Decision};

waybill_plugin::manifest!("manifests/backoff.toml");
waybill_plugin::export_backoff!(Fixture);

struct Fixture;

impl Backoff for Fixture {
    type Config = guests::Config;
    fn decide(_: &guests::Config, attempt: &Attempt) -> Decision {
        let mut turns = attempt.number;
        while std::hint::black_box(turns) < u32::MAX {
            turns = turns.wrapping_add(1) % 1_000;
        }
        Decision::Delay(turns)
    }
}
