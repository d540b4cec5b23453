//! A policy that traps in `decide`.
use waybill_plugin::backoff::{Attempt, Backoff, Decision};

waybill_plugin::manifest!("manifests/backoff.toml");
waybill_plugin::export_backoff!(Fixture);

struct Fixture;

impl Backoff for Fixture {
    type Config = guests::Config;
    fn decide(_: &guests::Config, _: &Attempt) -> Decision {
        panic!("decide panics")
    }
}
