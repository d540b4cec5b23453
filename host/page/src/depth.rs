//! How much waits, of several tenants or transports together.

use waybill_api::status::OutboxStats;

#[derive(Default)]
pub(crate) struct Depth {
    pub ready: u64,
    pub leased: u64,
    pub parked: u64,
    pub scheduled: u64,
    pub dead: u64,
    pub oldest_ms: Option<u64>,
}

impl Depth {
    pub fn of<'a>(rows: impl Iterator<Item = &'a OutboxStats>) -> Self {
        rows.fold(Self::default(), |sum, row| Self {
            ready: sum.ready + row.ready,
            leased: sum.leased + row.leased,
            parked: sum.parked + row.parked,
            scheduled: sum.scheduled + row.scheduled,
            dead: sum.dead + row.dead,
            oldest_ms: sum.oldest_ms.max(row.oldest_ready_ms),
        })
    }
}
