//! What the history counts, since the process began: a number each, so that counting is an addition.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use waybill_core::history::{Measure, Reading, Series};

/// Names the counts of messages without a route; no transport is called so.
const NO_ROUTE: &str = "-";
/// Transports with counts of their own; what later ones do counts in all only. They are kept, also of transports that were removed.
const TRANSPORTS_MAX: usize = 100;

/// Counts of one transport.
#[derive(Debug, Default)]
pub(crate) struct TransportCounts {
    pub enqueued: AtomicU64,
    pub delivered: AtomicU64,
    pub retried: AtomicU64,
    pub dead: AtomicU64,
}

impl TransportCounts {
    /// Each of them with what it measures.
    fn totals(&self) -> [(Measure, u64); 4] {
        [
            (Measure::Enqueued, self.enqueued.load(Ordering::Relaxed)),
            (Measure::Delivered, self.delivered.load(Ordering::Relaxed)),
            (Measure::Retried, self.retried.load(Ordering::Relaxed)),
            (Measure::Dead, self.dead.load(Ordering::Relaxed)),
        ]
    }
}

/// All counts of a host.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    transports: RwLock<BTreeMap<Arc<str>, Arc<TransportCounts>>>,
    pub sagas_started: AtomicU64,
    pub sagas_ended: AtomicU64,
    pub inbox_processed: AtomicU64,
}

impl Counts {
    /// Those of a transport; none = of messages without a route.
    pub fn of(&self, transport: Option<&str>) -> Arc<TransportCounts> {
        let name = transport.unwrap_or(NO_ROUTE);
        let known = self.transports.read();
        let is_full = known.len() >= TRANSPORTS_MAX;
        if let Some(known) = known.get(name).or_else(|| known.get(NO_ROUTE).filter(|_| is_full)) {
            return Arc::clone(known);
        }
        drop(known);
        let mut transports = self.transports.write();
        let is_known = transports.contains_key(name);
        let name = if is_known || transports.len() < TRANSPORTS_MAX { name } else { NO_ROUTE };
        Arc::clone(transports.entry(Arc::from(name)).or_default())
    }

    /// Messages that were enqueued, and those that died, whatever their transport.
    pub fn in_all(&self) -> (u64, u64) {
        self.transports.read().values().fold((0, 0), |(enqueued, dead), counts| {
            (enqueued + counts.enqueued.load(Ordering::Relaxed), dead + counts.dead.load(Ordering::Relaxed))
        })
    }

    /// What was counted of messages: of all, and by transport.
    pub fn messages(&self) -> Vec<(Series, Reading)> {
        let mut all: BTreeMap<Measure, u64> = TransportCounts::default().totals().into();
        let mut readings = Vec::new();
        for (transport, counts) in self.transports.read().iter() {
            for (measure, total) in counts.totals() {
                *all.entry(measure).or_default() += total;
                if **transport != *NO_ROUTE {
                    readings.push((Series::of_transport(measure, transport), Reading::Total(total)));
                }
            }
        }
        // First, so that they have room.
        let all = all.into_iter().map(|(measure, total)| (Series::of_all(measure), Reading::Total(total)));
        all.chain(readings).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_route_and_what_is_past_the_bound_counts_in_all_only() {
        let counts = Counts::default();
        counts.of(None).enqueued.fetch_add(2, Ordering::Relaxed);
        for number in 0..TRANSPORTS_MAX + 3 {
            counts.of(Some(&format!("t{number}"))).enqueued.fetch_add(1, Ordering::Relaxed);
        }
        let messages = counts.messages();
        assert_eq!(counts.in_all(), (2 + TRANSPORTS_MAX as u64 + 3, 0));
        let all = (Series::of_all(Measure::Enqueued), Reading::Total(2 + TRANSPORTS_MAX as u64 + 3));
        assert_eq!(messages.first(), Some(&all));
        let of_transports = messages.iter().filter(|(series, _)| series.subject().is_some());
        // One place is taken by what has no route.
        assert_eq!(of_transports.count(), 4 * (TRANSPORTS_MAX - 1));
    }
}
