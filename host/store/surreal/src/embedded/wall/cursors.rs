//! Cursors over what callers' statements read: a few rows at a time, each counted before SurrealDB gets it.

use std::ops::ControlFlow;

use surrealdb_kvs::Result;
use surrealdb_kvs::api::{
    BoxFut, KeyVisitor, KeysBatch, ScanChunkStats, ScanCursorKeys, ScanCursorVals, ValVisitor, ValsBatch,
};

use super::Gate;
use super::reads::{KEYS_A_PAGE, PAGE_BYTES, ROWS_A_PAGE, is_row};
use crate::Holds;

/// A cursor over rows that are counted.
pub(super) struct CountedRows<'a> {
    pub(super) inner: Box<dyn ScanCursorVals + 'a>,
    pub(super) gate: &'a Gate,
    /// Of a scan that doesn't hold all of its rows: which it holds.
    pub(super) holds: Option<Holds>,
}

impl ScanCursorVals for CountedRows<'_> {
    fn next_batch<'s>(&'s mut self, limit: u32) -> BoxFut<'s, Result<ValsBatch<'s>>> {
        Box::pin(async move {
            let batch = self.inner.next_batch(limit.min(ROWS_A_PAGE)).await?;
            for (key, value) in &batch {
                self.gate.scans(self.holds.as_ref(), key, value)?;
            }
            Ok(batch)
        })
    }

    fn for_each<'s>(&'s mut self, limit: u32, f: &'s mut dyn ValVisitor) -> BoxFut<'s, Result<ScanChunkStats>> {
        Box::pin(async move {
            let (gate, mut seen, mut left, mut stopped) = (self.gate, ScanChunkStats::default(), limit, false);
            let (holds, mut of_a_table, mut handed_over) = (self.holds.as_ref(), None, 0_u64);
            while left > 0 && !stopped {
                let page = left.min(ROWS_A_PAGE);
                let stats = self
                    .inner
                    .for_each(page, &mut |key: &[u8], value: &[u8]| -> Result<ControlFlow<()>> {
                        handed_over = handed_over.saturating_add(gate.scans(holds, key, value)?);
                        of_a_table.get_or_insert_with(|| is_row(key));
                        let flow = f(key, value)?;
                        stopped = flow.is_break();
                        Ok(flow)
                    })
                    .await?;
                seen.rows += stats.rows;
                seen.key_bytes += stats.key_bytes;
                seen.value_bytes += stats.value_bytes;
                // SurrealDB asks for 500 rows of a range whatever its LIMIT, and takes fewer: it ends a scan of rows when there are none.
                // Of definitions a short page means the end.
                let large = seen.value_bytes >= PAGE_BYTES || (holds.is_some() && handed_over >= PAGE_BYTES);
                stopped |= of_a_table == Some(true) && large;
                left = if stats.rows < u64::from(page) { 0 } else { left.saturating_sub(page) };
            }
            Ok(seen)
        })
    }
}

/// A cursor over keys that are counted.
pub(super) struct CountedKeys<'a> {
    pub(super) inner: Box<dyn ScanCursorKeys + 'a>,
    pub(super) gate: &'a Gate,
}

impl ScanCursorKeys for CountedKeys<'_> {
    fn next_batch<'s>(&'s mut self, limit: u32) -> BoxFut<'s, Result<KeysBatch<'s>>> {
        Box::pin(async move {
            let batch = self.inner.next_batch(limit.min(KEYS_A_PAGE)).await?;
            for key in &batch {
                self.gate.reads(key, &[])?;
            }
            Ok(batch)
        })
    }

    fn for_each<'s>(&'s mut self, limit: u32, f: &'s mut dyn KeyVisitor) -> BoxFut<'s, Result<ScanChunkStats>> {
        Box::pin(async move {
            let (gate, mut seen, mut left, mut stopped) = (self.gate, ScanChunkStats::default(), limit, false);
            while left > 0 && !stopped {
                let page = left.min(KEYS_A_PAGE);
                let stats = self
                    .inner
                    .for_each(page, &mut |key: &[u8]| -> Result<ControlFlow<()>> {
                        gate.reads(key, &[])?;
                        let flow = f(key)?;
                        stopped = flow.is_break();
                        Ok(flow)
                    })
                    .await?;
                seen.rows += stats.rows;
                seen.key_bytes += stats.key_bytes;
                left = if stats.rows < u64::from(page) { 0 } else { left.saturating_sub(page) };
            }
            Ok(seen)
        })
    }
}
