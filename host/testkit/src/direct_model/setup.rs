//! What differs from run to run, and every time and bound of the model. One step is a millisecond.

use std::time::Duration;

use waybill_core::backoff::RetryPolicy;
use waybill_core::inbox::direct::{DirectConfig, Rules};
use waybill_core::outbox::suspicion::Caution;

use super::options::Mutation;
use super::rows::Kind;
use crate::model::rng::Rng;

pub(super) const BATCH: usize = 6;
/// The server ends what is idle in its transaction for so long.
pub(super) const IDLE: u64 = 140;
pub(super) const PROXY: u64 = 130;
/// After it a row that another worker has claimed waits again.
pub(super) const CLAIM_TTL: u64 = 250;
pub(super) const MAX_ATTEMPTS: u32 = 4;
pub(super) const CALL: u64 = 25;
pub(super) const FAR: u64 = 1 << 40;
/// Workers of a host.
pub(super) const WORKERS: u16 = 2;

pub(super) struct Setup {
    /// The table of document 5: no due time, no `processing`.
    pub no_due: bool,
    pub aside: bool,
    /// Published rows are deleted.
    pub deletes: bool,
    pub slow: bool,
    pub proxy: bool,
    /// Some rows go where everything is blocked until the calm phase, some have no route until then.
    pub apart: bool,
    /// All destinations belong to one transport.
    pub one_transport: bool,
    /// Many rows are of this kind.
    pub much: Option<Kind>,
    /// The application has a lane's advisory lock for itself.
    pub application_lock: Option<(u16, u16)>,
    /// Lanes of each host, and how it hashes aggregates.
    pub hosts: Vec<(u16, u64)>,
}

impl Setup {
    pub fn draw(seed: u64, rng: &mut Rng) -> Self {
        let (apart, one_transport) = (seed % 4 == 3, seed % 8 == 3);
        let (no_due, aside, deletes) = (rng.percent(45), rng.percent(20), rng.percent(25));
        let (slow, proxy) = (rng.percent(25), rng.percent(20));
        let hosts = 1 + rng.below(3);
        let much = match rng.below(24) {
            0 => Some(Kind::Retry),
            1 => Some(Kind::Permanent),
            2 => Some(Kind::Killer),
            3 => Some(Kind::Trap),
            4 | 7 => Some(Kind::Blocked),
            5 => Some(Kind::NoMark),
            6 => Some(Kind::Far),
            _ => None,
        };
        let application_lock = rng.percent(20).then(|| (2 + lane(rng, 2), lane(rng, 2)));
        let hosts = (0..hosts).map(|_| (2 + lane(rng, 2), u64::from(rng.percent(20)))).collect();
        Self { no_due, aside, deletes, slow, proxy, apart, one_transport, much, application_lock, hosts }
    }

    pub fn config(&self, lanes: u16, mutation: Option<Mutation>) -> DirectConfig {
        let millis = Duration::from_millis;
        DirectConfig {
            lanes,
            batch: BATCH,
            direct_timeout: millis(60),
            call_timeout: millis(CALL),
            patience: millis(200),
            impatient_every: millis(20),
            locked_hold: millis(25),
            locked_hold_max: millis(1_600),
            blocked_pause: millis(50),
            blocked_pause_max: millis(1_600),
            idle_pause: millis(5),
            held_max: 10_000,
            retry: RetryPolicy {
                max_attempts: MAX_ATTEMPTS,
                base_ms: 60,
                factor: 2.0,
                jitter: 0.0,
                cap_ms: 500,
                floor_ms: None,
            },
            has_due: !self.no_due,
            remember: millis(8_000),
            caution: Caution {
                first: millis(200),
                longest: millis(6_400),
                forget: millis(8_000),
                ..Caution::default()
            },
            rules: match mutation {
                Some(Mutation::Without(rule)) => Rules::without(rule),
                _ => Rules::default(),
            },
        }
    }
}

pub(super) fn lane(rng: &mut Rng, below: u16) -> u16 {
    u16::try_from(rng.below(u64::from(below))).unwrap_or(0)
}
