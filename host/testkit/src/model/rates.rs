//! Rates: what a process may send of a tenant and through a transport, reckoned apart from the owners.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use waybill_core::ids::Tenant;
use waybill_core::outbox::owner::{Sending, TransportId};
use waybill_core::outbox::rates::{Bounded, Rate, Rates};
use waybill_core::time::Monotonic;

use super::driver::Driver;
use super::host::Host;
use super::store::ModelStore;
use super::world::World;

/// What one process sends. Each start of it begins anew.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// What its shards share.
    pub rates: Arc<Rates>,
    /// For each rate, when all that was sent would have been sent evenly.
    even: RefCell<BTreeMap<Bounded, Monotonic>>,
}

/// The rates of runs that have some.
pub(super) fn rates() -> Vec<(Bounded, Rate)> {
    let rate = |per_second, burst| {
        let (per_second, burst) = (NonZeroU32::new(per_second)?, NonZeroU32::new(burst)?);
        Some(Rate { per_second, burst })
    };
    let big = Tenant::new("big").ok().map(Bounded::Tenant);
    let both = [big.zip(rate(100, 2)), Some(Bounded::Transport(TransportId(0))).zip(rate(200, 3))];
    both.into_iter().flatten().collect()
}

impl Sent {
    /// Of a process that starts.
    pub fn begin(rates: &[(Bounded, Rate)], now: Monotonic) -> Self {
        let sent = Self::default();
        sent.rates.configure(rates.iter().cloned(), now);
        sent
    }
}

impl<S: ModelStore> World<S> {
    /// A batch goes through a transport.
    pub(super) fn check_rates(&mut self, host: &Host, transport: TransportId, batch: &[Sending]) {
        let now = self.now_at(host).mono;
        for (bounded, rate) in self.setup.rates.clone() {
            let count = batch.iter().filter(|sending| match &bounded {
                Bounded::Tenant(tenant) => sending.message.tenant == *tenant,
                Bounded::Transport(bounded) => *bounded == transport,
            });
            let each = Duration::from_secs(1) / rate.per_second.get();
            let mut sent = host.sent.even.borrow_mut();
            let even = sent.entry(bounded.clone()).or_insert(now);
            for _ in count {
                *even = (*even).max(now) + each;
            }
            if *even - now > each * rate.burst.get() {
                self.violation(format!("more of {bounded:?} is sent than {rate:?} allows"));
            }
        }
    }

    /// A lane had nothing to send.
    pub(super) fn count_rate_waits(&mut self, host: &Host, driver: &Driver) {
        if !self.setup.rates.is_empty() && !driver.owner.rate_waits(self.now_at(host)).is_empty() {
            self.stats.rate_waits += 1;
        }
    }
}
